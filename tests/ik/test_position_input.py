"""Errors of `solve` name the wrong argument; time limits, Ctrl-C and use of memory."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

import supple
from cases import each
from solving import solve
from supple import SolveStatus, _core
from supple.errors import InputError, UnknownNameError

PANDA = supple.load("panda")
TARGET = PANDA.fk(PANDA.neutral() + 0.1)
SCALED, LAST = TARGET.copy(), TARGET.copy()
SCALED[:3, :3] *= 1.1
LAST[3, 0] = 1.0
MIRROR = TARGET @ np.diag([1, 1, -1, 1])


@each(
    ("target", "options", "says"),
    [
        (np.full((4, 4), np.nan), {}, "finite"),
        (TARGET * [[1], [1], [np.inf], [1]], {}, "finite"),
        (np.eye(3), {}, r"shape \(3, 3\)"),
        (SCALED, {}, "off by"),
        (LAST, {}, "off by"),
        (MIRROR, {}, "det -1"),
        ("here", {}, "here"),
        (None, {}, "None"),
        (TARGET + 1e300 * np.eye(4)[:, 3:] @ np.eye(4)[3:], {}, "off by"),
        (np.block([[np.eye(3), np.full((3, 1), 1e200)], [np.eye(4)[3:]]]), {}, "within ±1e9"),
        (TARGET, {"q0": np.full(7, np.nan)}, "finite"),
        (TARGET, {"q0": np.zeros(6)}, r"shape \(6,\)"),
        (TARGET, {"q0": np.zeros((3, 7))}, "batch axes"),
        (TARGET, {"position_tolerance": 0.0}, "position_tolerance"),
        (TARGET, {"rotation_tolerance": np.nan}, "rotation_tolerance"),
        (TARGET, {"position_tolerance": "small"}, "position_tolerance"),
        (TARGET, {"max_seeds": 0}, "max_seeds"),
        (TARGET, {"max_seeds": 1.5}, "max_seeds"),
        (TARGET, {"timeout": -1.0}, "timeout"),
        (TARGET, {"solutions": 0}, "count"),
        (TARGET, {"prefer": 3}, "prefer"),
        (TARGET, {"prefer": "nearest"}, "needs q0"),
        (TARGET, {"prefer": lambda q: "good"}, "prefer must return"),
        (np.stack([TARGET, TARGET]), {"solutions": 2}, "one target"),
        (np.stack([TARGET, SCALED]), {}, "off by"),
        (np.stack([TARGET, TARGET]), {"threads": 0}, "threads"),
        (TARGET, {"tasks": ["panda_link8", "panda_link4"]}, "sequence"),
        ([TARGET], {"tasks": ["panda_link8", "panda_link4"]}, "2 tasks"),
    ],
)
def test_solve_refuses_bad_input(target: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        solve(PANDA, target, **options)


def test_errors_for_unknown_names_list_the_available_ones() -> None:
    with pytest.raises(UnknownNameError, match="manipulability"):
        solve(PANDA, TARGET, prefer="manipulable")
    with pytest.raises(UnknownNameError, match="panda_link8"):
        solve(PANDA, TARGET, frame="panda_link9")
    with pytest.raises(InputError, match="Robot"):
        solve("panda", TARGET)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefer", [None, "limits"])
def test_targets_that_are_not_finite_do_not_affect_others_in_a_batch(prefer: Any) -> None:
    T = PANDA.fk(PANDA.random(40, seed=1))
    clean = solve(PANDA, T, prefer=prefer)
    T[3, 0, 0], T[17, 1, 3] = np.nan, -np.inf
    found = solve(PANDA, T, prefer=prefer)
    bad = np.isin(np.arange(40), (3, 17))
    assert (found.status[bad] == SolveStatus.NONFINITE_INPUT).all()
    assert (found.q[bad] == PANDA.neutral()).all()
    assert np.isinf(found.position_error[bad]).all()
    assert (found.q[~bad] == clean.q[~bad]).all()
    assert found.success[~bad].all()
    q0 = PANDA.random(40, seed=2)
    q0[5] = np.nan
    near = solve(PANDA, T, q0=q0)
    assert set(np.flatnonzero(near.status == SolveStatus.NONFINITE_INPUT)) == {3, 5, 17}
    assert np.isfinite(near.q).all()


def test_solve_accepts_float32_arrays_and_lists() -> None:
    exact = solve(PANDA, TARGET)
    assert (solve(PANDA, TARGET.tolist()).q == exact.q).all()
    assert (solve(PANDA, np.asfortranarray(TARGET)).q == exact.q).all()
    single = solve(PANDA, TARGET[None].astype(np.float32))
    assert single.success.all()
    assert single.q.dtype == np.float64
    near = solve(PANDA, TARGET, q0=PANDA.neutral().astype(np.float32))
    assert near.success


def test_a_solution_from_a_q0_outside_the_limits_is_inside_them() -> None:
    found = solve(PANDA, TARGET, q0=np.full(7, 10.0))
    assert found.success
    assert ((PANDA.lower <= found.q) & (found.q <= PANDA.upper)).all()
    q0 = PANDA.neutral()
    q0[1] = PANDA.upper[1] + 0.1
    found = solve(PANDA, PANDA.fk(q0), q0=q0)  # q0 meets the target
    assert ((PANDA.lower <= found.q) & (found.q <= PANDA.upper)).all()


def test_the_text_of_a_solution_states_its_status_and_error() -> None:
    found = solve(PANDA, TARGET)
    assert str(found).startswith("converged in ")
    far = TARGET.copy()
    far[0, 3] += 3
    beyond = solve(PANDA, far)
    assert beyond.status is SolveStatus.UNREACHABLE
    assert not beyond.success
    assert beyond.restarts > 0
    assert str(beyond).startswith("unreachable: the closest pose found is ")
    many = solve(PANDA, np.stack([TARGET, far, np.full((4, 4), np.nan)]))
    for word in ("3 targets", "1 converged", "1 unreachable", "1 nonfinite_input"):
        assert word in str(many)
    again = pickle.loads(pickle.dumps(found))
    assert (again.q == found.q).all()
    with pytest.raises(AttributeError):
        found.q = 0  # type: ignore[misc]


# ---- time ----------------------------------------------------------------------------------------


def test_a_timeout_of_zero_gives_finite_results_with_status_timeout() -> None:
    far = TARGET.copy()
    far[:3, 3] += 5
    one = solve(PANDA, far, timeout=0.0)
    assert one.status is SolveStatus.TIMEOUT
    assert np.isfinite(one.q).all()
    assert np.isfinite(one.position_error)
    assert "timeout" in str(one)
    many = solve(PANDA, np.repeat(far[None], 500, axis=0), timeout=0.0)
    assert (many.status == SolveStatus.TIMEOUT).all()
    assert np.isfinite(many.q).all()
    assert ((PANDA.lower <= many.q) & (many.q <= PANDA.upper)).all()
    outside = {"q0": PANDA.upper + 1.0, "prefer": "fast", "timeout": 0.0}
    assert (solve(PANDA, np.repeat(far[None], 500, axis=0), **outside).q <= PANDA.upper).all()


@pytest.mark.parametrize("options", [{}, {"q0": PANDA.neutral()}, {"prefer": "limits"}], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_few_iterations_are_made_after_the_timeout(options: dict[str, Any], threads: int) -> None:
    # With a timeout of zero, only the work between two looks at the clock is done.
    T = PANDA.fk(PANDA.random(3000, seed=7))
    T[::2, :3, 3] += 5
    T[[10, 2000], 0, 0] = np.nan  # one target that is started in time, one that is not
    found = solve(PANDA, T, timeout=0.0, threads=threads, **options)
    assert set(found.status.tolist()) <= {
        SolveStatus.TIMEOUT,
        SolveStatus.CONVERGED,
        SolveStatus.NONFINITE_INPUT,
    }
    assert (found.status[[10, 2000]] == SolveStatus.NONFINITE_INPUT).all()
    assert found.iterations.max() <= 10
    assert found.restarts.min() >= 0
    looked_at = np.isfinite(found.position_error)  # targets that were started
    assert looked_at.sum() <= 2 * threads * 16
    assert (found.iterations[~looked_at] == 0).all()
    rest = options.get("q0", PANDA.neutral())
    assert (found.q[~looked_at] == rest).all()
    for target in T[:4]:
        one = solve(PANDA, target, timeout=0.0, **options)
        assert one.iterations <= 10


@pytest.mark.parametrize("q0", [None, PANDA.neutral()], ids=["no q0", "q0"])
def test_a_timeout_ends_a_search_with_short_steps(q0: Any) -> None:
    """A start with short steps may take thousands of iterations; the timeout ends it before its
    end.
    """
    far = TARGET.copy()
    far[:3, 3] += 5
    found = solve(PANDA, far, q0=q0, max_step=1e-4, timeout=0.0)
    assert found.status is SolveStatus.TIMEOUT
    assert found.iterations <= 40


def test_a_batch_stops_at_its_timeout() -> None:
    far = np.repeat(TARGET[None], 20_000, axis=0)
    far[:, :3, 3] += 5
    found = solve(PANDA, far, timeout=0.05)  # the search with all seeds takes ten seconds or more
    assert (found.status == SolveStatus.TIMEOUT).any()
    assert set(found.status.tolist()) <= {SolveStatus.TIMEOUT, SolveStatus.UNREACHABLE}
    assert np.isfinite(found.q).all()


def test_progress_is_reported_and_its_exception_stops_a_batch() -> None:
    far = np.repeat(TARGET[None], 1500, axis=0)  # takes about a second, less on a fast machine
    far[:, :3, 3] += 5
    calls: list[tuple[int, int]] = []
    solve(PANDA, far, progress=lambda done, count: calls.append((done, count)), threads=1)
    assert calls[-1] == (1500, 1500)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) > 1

    class StopError(Exception):
        pass

    def stop(done: int, count: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        solve(PANDA, far, progress=stop)
    chosen: list[int] = []
    solve(PANDA, far[:5], prefer="limits", progress=lambda done, _: chosen.append(done))
    assert chosen == [5]


def test_ctrl_c_stops_a_batch() -> None:
    code = """
        import signal, numpy as np, supple
        # A background job starts with SIGINT ignored, and so do its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        robot = supple.load("panda")
        T = np.repeat(robot.fk(robot.neutral())[None], 200_000, axis=0)
        T[:, :3, 3] += 5
        print("ready", flush=True)
        try:
            supple.Solver(robot).batch(T)
        except KeyboardInterrupt:
            print("stopped", supple.solve(robot, robot.fk(robot.random(seed=0))).success)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)  # the whole batch takes minutes
    finally:
        process.kill()
        process.wait()
    assert out == "stopped True\n"
    assert process.returncode == 0


def test_python_threads_run_during_a_batch_of_solve() -> None:
    far = np.repeat(TARGET[None], 400, axis=0)
    far[:, :3, 3] += 5
    worker = threading.Thread(target=lambda: solve(PANDA, far, threads=1))
    worker.start()
    ticks = 0
    while worker.is_alive():
        ticks += 1
        time.sleep(1e-3)
    worker.join()
    assert ticks > 10


def test_threads_may_use_different_tolerances_at_the_same_time() -> None:
    T = PANDA.fk(PANDA.random(3000, seed=3))
    results: dict[float, supple.Solution] = {}

    def work(tolerance: float) -> None:
        results[tolerance] = solve(PANDA, T, position_tolerance=tolerance, threads=1)

    workers = [threading.Thread(target=work, args=(t,)) for t in (1e-2, 1e-8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for tolerance, found in results.items():
        assert (found.q == solve(PANDA, T, position_tolerance=tolerance).q).all()
    assert results[1e-8].position_error.max() <= 1e-8


def test_repeated_calls_of_solve_do_not_use_more_memory() -> None:
    code = """
        import resource, numpy as np, supple
        robot = supple.load("panda")
        T = robot.fk(robot.random(2000, seed=0))
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3):
            supple.Solver(robot).batch(T)
            supple.solve(robot, T[0])
        before = peak()
        for _ in range(20):
            supple.Solver(robot).batch(T)
        for i in range(2000):
            supple.solve(robot, T[i], q0=np.zeros(7))
        assert peak() - before < 4000, peak() - before  # [kB]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_kernel_and_python_convert_targets_to_the_same_numbers() -> None:
    T = PANDA.fk(PANDA.random((3, 50), seed=4))
    rng = np.random.default_rng(0)
    T[0, :, :3, :3] += 1e-8 * rng.normal(size=(50, 3, 3))  # as if rounded in a file
    T[1, :, :3, :3] = T[1, :, :3, :3].round(4)
    exact = supple.PoseTask().targets(PANDA, T)
    made = _core.pose_numbers(T, 1)
    assert made is not None
    np.testing.assert_allclose(made, exact, rtol=0, atol=1e-14)  # both are orthonormal to 1e-14
    R = made[..., :9].reshape(3, 50, 3, 3)
    np.testing.assert_allclose(
        R @ R.swapaxes(-1, -2), np.broadcast_to(np.eye(3), R.shape), atol=1e-14
    )
    for other in (T.astype(np.float32), T.tolist(), T[..., :3], np.stack([SCALED]), MIRROR, None):
        assert _core.pose_numbers(other, 1) is None


def test_robots_far_from_the_origin_and_large_robots_are_solved() -> None:
    away = np.eye(4)
    away[:3, 3] = 100.0, -50.0, 3.0
    robot = PANDA.with_base(away)
    T = robot.fk(robot.random(200, seed=5))
    assert solve(robot, T).success.all()
    crane = supple.dh([(2.0, np.pi / 2, 5.0, 0.0), (20.0, 0.0, 0.0, 0.0), (15.0, 0.0, 0.0, 0.0)])
    at = crane.fk(crane.random(200, seed=6))[:, :3, 3]
    assert solve(crane, at, tasks=supple.PositionTask()).success.all()


def test_a_robot_without_joint_limits_is_solved() -> None:
    robot = supple.load("y")
    assert not np.isfinite(robot.upper).all()
    tasks = [supple.PositionTask(tip) for tip in robot.tips]
    T = robot.fk(robot.random(50, seed=7))
    found = solve(robot, [T[:, k, :3, 3] for k in range(len(tasks))], tasks=tasks)
    assert np.isfinite(found.q).all()
    assert found.success.all()
