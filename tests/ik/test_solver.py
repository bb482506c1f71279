"""`Solver`: its methods agree with each other and with `solve`; errors for wrong arguments have
hints.
"""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from supple.errors import InputError, UnknownNameError
from supple.ik import position
from targets import fields_of

PANDA, UR5E = sp.load("panda"), sp.load("ur5e")
Q = PANDA.random(12, seed=41)
T = PANDA.fk(Q)
NEAR = np.clip(Q + 0.02, PANDA.lower, PANDA.upper)
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "tolerances": {"position_tolerance": 1e-3, "rotation_tolerance": 1},
    "frame": {"frame": "panda_link7"},
    "tasks": {"tasks": sp.PoseTask(length=0.3)},
    "prefer": {"prefer": "fast"},
    "cost": {"prefer": lambda q: float(q[0] ** 2)},
    "max_move": {"max_move": 0.5},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_solve_gives_the_result_of_calling_a_solver(name: str) -> None:
    settings = SETTINGS[name]
    solver = sp.Solver(PANDA, **settings)
    for target, q0 in zip(T, NEAR, strict=True):
        for seed in (None, q0) if "max_move" not in settings else (q0,):
            one, other = solver(target, seed), sp.solve(PANDA, target, q0=seed, **settings)
            again = sp.solve(PANDA, target.tolist(), q0=seed, **settings)
            for item in (other, again, solver(target, q0=seed)):
                assert item.q.tobytes() == one.q.tobytes()
                assert fields_of(item, "status") == fields_of(one, "status")


def test_the_order_of_solver_options_does_not_matter() -> None:
    one = sp.solve(PANDA, T[0], prefer="fast", frame="panda_link7", position_tolerance=1e-4)
    other = sp.solve(PANDA, T[0], position_tolerance=1e-4, frame="panda_link7", prefer="fast")
    assert one.q.tobytes() == other.q.tobytes()
    assert one.tasks == other.tasks == (sp.PoseTask("panda_link7"),)


def test_the_cache_of_solvers_distinguishes_the_options_true_and_1() -> None:
    """As keys, 1.0 and True are equal, but True must be refused as a value of max_move."""
    for _ in range(2):
        assert sp.solve(PANDA, T[0], q0=NEAR[0], max_move=1.0)
        with pytest.raises(InputError, match="max_move"):
            sp.solve(PANDA, T[0], q0=NEAR[0], max_move=True)


def test_solve_caches_solvers_only_for_a_limited_number_of_robots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(position._solvers, "_most", 4)
    robots = [UR5E.with_base(sp.pose([0.01 * k, 0, 0])) for k in range(8)]
    for robot in robots + robots[:5]:
        assert sp.solve(robot, robot.fk(robot.neutral() + 0.3))
    assert len(position._solvers.robots) <= 4
    assert sum(robot._solvers is not None for robot in robots) <= 4
    position._solvers.cache_clear()
    assert not position._solvers.robots
    assert all(robot._solvers is None for robot in robots)
    assert sp.solve(robots[0], robots[0].fk(robots[0].neutral() + 0.3))


def test_solve_caches_solvers_only_for_a_limited_number_of_options() -> None:
    robot = UR5E.with_base(sp.pose([0.1, 0, 0]))
    target = robot.fk(robot.neutral() + 0.3)
    for k in [*range(40), 0]:
        assert sp.solve(robot, target, position_tolerance=1e-6 * (k + 2))
    assert len(robot._solvers.others) <= position._MOST_OPTIONS


def test_options_with_default_values_take_the_cached_solver() -> None:
    robot = UR5E.with_base(sp.pose([0.2, 0, 0]))
    target = robot.fk(robot.neutral() + 0.3)
    one = sp.solve(robot, target)
    other = sp.solve(robot, target, frame=None, position_tolerance=1e-6, world=None, clearance=0.0)
    assert one.q.tobytes() == other.q.tobytes()
    assert robot._solvers.others == ()


@each("given", [np.array(0.5), np.array([0.5]), np.array([0.5, 0.5]), "0.5"])
def test_an_option_of_a_wrong_type_is_refused_even_if_its_number_is_cached(given: object) -> None:
    for _ in range(2):
        assert sp.solve(PANDA, T[0], q0=NEAR[0], max_move=0.5)
        with pytest.raises(InputError, match="max_move"):
            sp.solve(PANDA, T[0], q0=NEAR[0], max_move=given)


def test_threads_may_share_a_solver() -> None:
    solver = sp.Solver(PANDA)
    alone = [solver(target, q0) for target, q0 in zip(T, NEAR, strict=True)] * 20

    def work(i: int) -> sp.Solution:
        way = solver if i % 2 else lambda target, q0: sp.solve(PANDA, target, q0=q0)
        return way(T[i % 12], NEAR[i % 12])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(len(alone))))
    assert all((a.q == b.q).all() for a, b in zip(alone, found, strict=True))


def test_each_method_of_a_solver_has_one_type_of_result() -> None:
    solver = sp.Solver(UR5E)
    poses = UR5E.fk(UR5E.random((2, 3), seed=1))
    assert type(solver(poses[0, 0])) is sp.Solution
    batch = solver.batch(poses)
    assert (batch.shape, batch.count.tolist()) == ((2, 3), [[1] * 3] * 2)
    assert not batch.complete.any()
    several = solver.several(poses[0, 0], 4)
    assert several.shape == (4,)
    assert several.count == 4
    every = solver.all(poses[0, 0])
    assert every.count == len(every)
    assert every.complete.shape == every.count.shape == ()
    whole = solver.all(poses)
    assert whole.complete.shape == whole.count.shape == (2, 3)
    assert whole.shape == (whole.count.sum(),)
    for i, part in zip(np.ndindex(2, 3), whole.split(), strict=True):
        np.testing.assert_array_equal(part.q, solver.all(poses[i]).q)
        np.testing.assert_array_equal(part.q, whole.of(i).q)
    assert solver.batch(poses[0, 0]).shape == ()


def test_the_moves_of_all_solutions_of_a_batch_are_from_the_q0_of_each_target() -> None:
    q = UR5E.random((2, 3), seed=2)
    q0 = np.clip(q + 0.03, UR5E.lower, UR5E.upper)
    whole = sp.Solver(UR5E).all(UR5E.fk(q), q0)
    first = np.cumsum(whole.count) - whole.count.ravel()
    assert whole.moved.shape == whole.shape
    for i, begin in zip(np.ndindex(2, 3), first, strict=True):
        assert np.array_equal(whole.of(i).q0, q0[i])
        assert whole.moved[begin] == whole.of(i).moved[0] == whole[int(begin)].moved
    kept = whole[whole.moved < 1.0]
    assert kept.count.sum() == len(kept)
    assert kept.count.shape == (2, 3)
    np.testing.assert_array_equal(kept.moved, whole.moved[whole.moved < 1.0])
    with pytest.raises(IndexError, match="order of the targets"):
        whole[np.arange(len(whole))[::-1]]


@each("call", [sp.solve, lambda robot, poses: sp.Solver(robot)(poses)])
def test_a_batch_given_to_solve_gets_a_hint_at_solver_batch(call: Any) -> None:
    with pytest.raises(InputError, match=r"a batch of shape \(12,\), which Solver\(robot\).batch"):
        call(PANDA, T)


MOVED = ("damping", "max_step", "step", "max_iterations", "max_seeds", "threads", "device",
         "precision", "solutions", "wraps", "progress", "stream", "timeout")  # fmt: skip


@each("name", MOVED)
def test_an_argument_of_solver_given_to_solve_gets_a_hint(name: str) -> None:
    own: Any = sp.solve
    with pytest.raises(UnknownNameError, match=rf"unknown argument '{name}'\. .*Solver") as error:
        own(PANDA, T[0], **{name: 1})
    assert "supple.Solver(robot" in str(error.value)


def test_arguments_of_a_solver_given_to_the_wrong_call_get_a_hint() -> None:
    make: Any = sp.Solver
    solver: Any = sp.Solver(PANDA)
    with pytest.raises(UnknownNameError, match=r"argument of the call: solver\(target, q0=...\)"):
        make(PANDA, q0=Q[0])
    with pytest.raises(
        UnknownNameError, match=r"fixed between calls: Solver\(robot, timeout=...\)"
    ):
        solver(T[0], timeout=1.0)
    with pytest.raises(UnknownNameError, match="did you mean 'explain'"):
        solver(T[0], explained=True)
    with pytest.raises(AttributeError, match="make a new Solver"):
        solver.tasks = ()


def test_solve_has_few_parameters() -> None:
    assert len(inspect.signature(sp.solve).parameters) <= 12


def test_a_solver_returns_a_report_for_arguments_by_position_and_by_name() -> None:
    """A call with only a target and q0 takes a faster path, which makes no report."""
    solver = sp.Solver(PANDA)
    for found in (
        solver(T[0], explain=True),
        solver(T[0], q0=NEAR[0], explain=True),
        solver(T[0], NEAR[0], explain=True),
        solver(T[0], NEAR[0], True),
    ):
        assert found.report is not None
    assert solver(target=T[0]).q.tobytes() == solver(T[0]).q.tobytes()
