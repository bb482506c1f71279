"""Edge cases of solve: preferences, the fast path, time limits and types of arguments."""

from __future__ import annotations

import copy
import inspect
import pickle
import signal
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

import supple
from cases import each
from solving import solve
from supple import PoseTask, PositionTask, SolveStatus
from supple.errors import InputError
from supple.ik import solver
from supple.ik.problem import compile_problem
from targets import fields_of

PANDA = supple.load("panda")
TARGET = PANDA.fk(PANDA.neutral() + 0.1)
FAR = TARGET.copy()
FAR[:3, 3] += 5


class Prepared:
    """A criterion that records its arguments."""

    def __init__(self) -> None:
        self.q: list[np.ndarray] = []

    def __call__(self, q: np.ndarray) -> float:
        self.q.append(q)
        return float(np.abs(q).sum())


# ---- preferences ---------------------------------------------------------------------------------


def test_a_criterion_is_called_only_for_targets_with_several_solutions() -> None:
    """Of several solutions, the one with the smallest cost is returned."""
    T = PANDA.fk(PANDA.random(30, seed=0))
    T[::3] = FAR
    asked = Prepared()
    found = solve(PANDA, T, prefer=asked)
    met = found.success
    assert set(np.flatnonzero(~met)) == set(range(0, 30, 3))
    at = PANDA.fk(np.array(asked.q))
    total = 0
    for target, q, good in zip(T, found.q, met, strict=True):
        own = [x for x, T in zip(asked.q, at, strict=True) if np.allclose(T, target, atol=1e-5)]
        assert bool(own) == good
        total += len(own)
        if good:
            assert 1 < len({x.tobytes() for x in own}) == len(own) <= 8
            assert np.abs(q).sum() == min(np.abs(x).sum() for x in own)
    assert total == len(asked.q)


def test_a_criterion_is_not_called_after_the_timeout() -> None:
    asked = Prepared()
    found = solve(PANDA, np.repeat(FAR[None], 10_000, axis=0), prefer=asked, timeout=0.0)
    assert (found.status == SolveStatus.TIMEOUT).all()
    assert not asked.q


def test_a_preference_chooses_the_same_solution_for_a_target_in_a_batch_and_alone() -> None:
    q0 = PANDA.random(12, seed=5)
    T = PANDA.fk(PANDA.random(12, seed=6))
    for start, target in zip(q0, T, strict=True):
        every = solve(PANDA, target, q0=start, prefer="nearest", solutions=6)
        moves = np.abs(every.q - start).max(axis=1)
        assert (np.diff(moves) >= 0).all()
    alone = [solve(PANDA, t, q0=s, prefer="limits").q for s, t in zip(q0, T, strict=True)]
    np.testing.assert_array_equal(solve(PANDA, T, q0=q0, prefer="limits").q, alone)


def test_the_printed_text_of_several_solutions_says_that_they_have_one_target() -> None:
    every = solve(PANDA, TARGET, solutions=5)
    first, *lines = str(every).splitlines()
    assert first.startswith("5 solutions of one target, the best first; joints [rad], errors of ")
    assert len(lines) == len(every.q) == 5
    for k, (line, q) in enumerate(zip(lines, every.q, strict=True)):
        assert line.split() == [f"{k}:", *(f"{x:.4f}" for x in q)]
    assert "targets" not in str(every)
    assert isinstance(every, supple.Solutions)
    first, *lines = str(solve(PANDA, TARGET, solutions=60)).splitlines()
    assert lines[-1] == f"  and {int(first.split()[0]) - 20} more"
    none = str(solve(PANDA, FAR, solutions=5))
    assert none.startswith("no solution; unreachable: the closest pose found is ")


# ---- the fast path -------------------------------------------------------------------------------


def test_solve_is_inspected_pickled_and_copied_like_a_function() -> None:
    own = supple.solve
    assert inspect.isfunction(own)
    assert str(own.__doc__).startswith("Find a configuration")
    assert list(inspect.signature(own).parameters)[:3] == ["robot", "target", "frame"]
    assert len(inspect.signature(own).parameters) <= 12
    assert pickle.loads(pickle.dumps(own)) is own
    assert copy.deepcopy(own) is own
    assert "solve" in repr(own)


def test_solve_can_be_bound_as_a_method() -> None:
    class Arm(supple.Robot):
        reach = supple.solve

    assert Arm.reach is supple.solve
    bound = supple.solve.__get__(PANDA)
    assert inspect.ismethod(bound)
    assert (bound(TARGET).q == supple.solve(PANDA, TARGET).q).all()


@each(
    "usual",
    [
        {},
        {"q0": PANDA.neutral()},
        {"q0": PANDA.neutral(), "prefer": "fast"},
        {"q0": PANDA.neutral(), "prefer": "nearest"},
        {"position_tolerance": 1e-4, "rotation_tolerance": 1e-3},
        {"tasks": PoseTask("panda_link8")},
        {"frame": "panda_link8"},
        {"frame": "panda_link8", "tasks": None},
        {"max_seeds": 3},
        {"timeout": 10.0},
        {"timeout": None, "prefer": None, "q0": None, "tasks": None},
        {"position_tolerance": np.float64(1e-3), "rotation_tolerance": 1, "timeout": 10},
        {"damping": supple.damping.ErrorNorm(0.02)},
        {"device": "cpu", "precision": "mixed"},
        {"threads": 2, "solutions": None, "explain": False, "max_step": None},
    ],
    ids=str,
)
def test_fast_and_slow_path_of_solve_give_equal_results(usual: dict[str, Any]) -> None:
    """Float64 arrays take the fast path, lists of numbers the slow path."""
    for T in PANDA.fk(PANDA.random(20, seed=31)):
        short, long = solve(PANDA, T.copy(), **usual), solve(PANDA, T.tolist(), **usual)
        assert short.status == long.status
        assert (short.q == long.q).all()
        assert fields_of(short, "status") == fields_of(long, "status")


def test_ctrl_c_in_the_first_call_is_raised_and_the_next_call_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, pressed = solver.compile_problem, []

    def interrupted(*given: Any) -> Any:
        if not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return known(*given)

    monkeypatch.setattr(solver, "compile_problem", interrupted)
    robot = supple.load("panda")
    with pytest.raises(KeyboardInterrupt):
        solve(robot, TARGET.copy())
    assert solve(robot, TARGET.copy()).success


def test_alternating_between_robots_does_not_change_results() -> None:
    robots = [supple.load(name) for name in ("panda", "ur5e", "iiwa14", "puma560")] * 2
    first = [solve(robot, robot.fk(robot.random(seed=1)).copy()) for robot in robots]
    again = [solve(robot, robot.fk(robot.random(seed=1)).copy()) for robot in robots]
    for one, other in zip(first, again, strict=True):
        assert (one.q == other.q).all()


@each("tasks", [None, "panda_hand", [PositionTask()], (PositionTask(),)])
def test_solve_keeps_no_references_to_its_arguments(tasks: Any) -> None:
    target = TARGET[:3, 3].copy() if isinstance(tasks, list | tuple) else TARGET.copy()

    def held() -> list[int]:
        kernel = compile_problem(PANDA, tasks).kernel
        given = (
            (PANDA, kernel, target, supple.solve)
            if tasks is None
            else (PANDA, kernel, tasks, target)
        )
        return [sys.getrefcount(x) for x in given]

    solve(PANDA, target, tasks=tasks)
    before = held()
    for _ in range(50):
        found = solve(PANDA, target, tasks=tasks)
    own = sys.getrefcount(found.q)
    del found  # `found` refers to the robot
    assert held() == before
    assert own == 2


def test_solve_notices_a_changed_list_of_tasks() -> None:
    tasks: list[Any] = [supple.PositionTask()]
    assert solve(PANDA, TARGET[:3, 3].copy(), tasks=tasks).success
    tasks[:] = [supple.PoseTask()]
    found = solve(PANDA, TARGET.copy(), tasks=tasks)
    assert np.allclose(PANDA.fk(found.q), TARGET, atol=1e-5)


# ---- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [FAR.astype(np.longdouble), FAR[None]], ids=["another type", "batch"]
)
def test_a_timeout_counts_from_the_beginning_of_a_call(
    target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this test, reading the targets takes longer than the timeout."""

    def slow(*given: Any) -> Any:
        time.sleep(0.5)
        return known(*given)

    known = solver.per_task
    assert np.all(solve(PANDA, target, timeout=10.0).status == SolveStatus.UNREACHABLE)
    monkeypatch.setattr(solver, "per_task", slow)
    found = solve(PANDA, target, timeout=0.4)
    assert np.all(np.asarray(found.status) == SolveStatus.TIMEOUT)
    assert np.max(found.iterations) <= 10


@each("timeout", [np.inf, np.float32("inf"), 1e300, 10**400, 1e10], ids=range(5))
@each("target", [TARGET, TARGET[None]], ids=["one", "batch"])
def test_huge_and_infinite_timeouts_are_accepted(target: np.ndarray, timeout: Any) -> None:
    found = solve(PANDA, target, timeout=timeout)
    np.testing.assert_array_equal(found.q, solve(PANDA, target).q)
    assert np.all(found.success)


def test_a_search_with_tiny_steps_lets_other_threads_run() -> None:
    """While the search for one target takes a second, other Python threads run."""
    ended = threading.Event()
    start = PANDA.neutral()

    def work() -> None:
        solve(PANDA, FAR, q0=start, max_step=1e-9)
        ended.set()

    worker = threading.Thread(target=work)
    worker.start()
    ticks = 0
    while not ended.is_set():
        ticks += 1
        time.sleep(1e-3)
    worker.join()
    assert ticks > 10


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_a_search_with_tiny_steps_can_be_interrupted() -> None:
    """Signal handlers run during the call; the handler of the third signal raises an exception that
    ends it.
    """

    class RungError(Exception):
        pass

    rings = 0

    def ring(*_: Any) -> None:
        nonlocal rings
        rings += 1
        if rings == 3:
            raise RungError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        with pytest.raises(RungError):
            solve(PANDA, FAR, q0=PANDA.neutral(), max_step=1e-9)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_default_max_step_given_explicitly_changes_no_bit() -> None:
    for q0 in (None, PANDA.neutral()):
        found = solve(PANDA, TARGET, q0=q0, max_step=1.0)  # the default
        plain = solve(PANDA, TARGET, q0=q0)
        assert found.q.tobytes() == plain.q.tobytes()
        assert fields_of(found, "status") == fields_of(plain, "status")


# ---- types of arguments --------------------------------------------------------------------------


@each(
    ("options", "says"),
    [
        ({"threads": 0}, "threads"),
        ({"threads": -1}, "threads"),
        ({"threads": "2"}, "threads"),
        ({"progress": 3}, "progress must be a function, or None; given: 3"),
        ({"timeout": np.nan}, "timeout"),
        ({"timeout": -np.inf}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"max_seeds": 10**12}, "max_seeds must be a whole number from 1 to 2147483647"),
        ({"max_seeds": 2**31}, "max_seeds"),
    ],
    ids=str,
)
@each("target", [TARGET, TARGET[None], TARGET.tolist()], ids=["1", "B", "list"])
def test_single_calls_and_batches_refuse_the_same_options(
    target: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        solve(PANDA, target, **options)
    assert np.all(solve(PANDA, target, threads=1, max_seeds=2**31 - 1).success)


@each(
    ("target", "options", "says"),
    [
        (
            TARGET,
            {"q0": [1e10] * 7},
            r"^q0 must be in radians; given: q0\[0\] = 1e\+10 for the joint 'panda_joint1', ",
        ),
        (
            np.eye(4) + 5e10 * np.eye(4, k=3),
            {"q0": np.zeros(7)},
            r"^target must .* an entry is 5e\+10$",
        ),
        (TARGET, {"solutions": 10**9}, "count must be a whole number from 1 to 100000; given"),
    ],
    ids=["q0", "target", "solutions"],
)
def test_errors_of_solve_show_the_wrong_value(
    target: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        solve(PANDA, target, **options)


def test_q0_of_a_joint_without_limits_must_be_within_1e9() -> None:
    free = PANDA.with_limits(lower=-np.inf, upper=np.inf)
    assert solve(free, TARGET, q0=[1e3] * 7).success
    with pytest.raises(
        InputError, match=r"^q0 must be finite and within ±1e9; an entry is 1e\+10$"
    ):
        solve(free, TARGET, q0=[1e10] * 7)


@each("target", [TARGET, TARGET[None], [TARGET]], ids=["one", "batch", "list"])
def test_complex_numbers_are_refused_without_a_warning(target: Any) -> None:
    given = [x + 0j for x in target] if isinstance(target, list) else target + 0j
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="complex"):
            solve(PANDA, given, tasks=[PoseTask()] if isinstance(given, list) else None)
        with pytest.raises(InputError, match="base must be a pose"):
            PANDA.with_base(np.eye(4) + 0j)


# ---- poses of several frames, as fk returns them -------------------------------------------------


@pytest.mark.parametrize("lead", [(), (6,), (2, 3)], ids=str)
def test_poses_of_several_frames_are_taken_as_fk_returns_them(lead: tuple[int, ...]) -> None:
    robot = supple.load("y")
    T = robot.fk(robot.random(lead, seed=3))
    k = len(robot.tips)
    assert T.shape == (*lead, k, 4, 4)
    found = solve(robot, T)
    listed = solve(robot, [np.ascontiguousarray(T[..., i, :, :]) for i in range(k)])
    assert found.q.shape == (*lead, robot.dof)
    assert found.q.tobytes() == listed.q.tobytes()
    assert np.all(found.success)
    np.testing.assert_allclose(robot.fk(found.q), T, atol=2e-6)
    turned = robot.tips[::-1]
    found = solve(robot, robot.fk(robot.random(lead, seed=3), turned), tasks=turned)
    assert np.all(found.success)
    np.testing.assert_allclose(robot.fk(found.q), T, atol=2e-6)


def test_target_arrays_of_wrong_shape_for_several_tasks_are_refused() -> None:
    robot = supple.load("y")
    T = robot.fk(robot.random(5, seed=3))
    for wrong in (T[:, 0], T[:, :1], T[0, 0], np.concatenate([T, T], axis=1)):
        with pytest.raises(InputError, match=r"an array of shape \(..., 2, 4, 4\); given: shape"):
            solve(robot, wrong)
    tasks = [PositionTask(tip) for tip in robot.tips]
    with pytest.raises(InputError, match=r"one target for each of 2 tasks, .*; given: shape"):
        solve(robot, T, tasks=tasks)
    with pytest.raises(InputError, match="complex128"):
        solve(robot, T + 0j)
