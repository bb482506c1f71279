"""Several solutions for targets in GPU memory, and preferences among solutions, on a GPU.

On an emulated and on a real GPU:  pytest tests/gpu/test_gpu_several.py -m cuda
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emulator
import supple
from emulator import there
from floating import floating_arm, half_turned, least_difference, rescaled
from gpu_kernels import tree
from several_arms import arms
from sizes import nightly
from supple import OrientationTask, PoseTask, PositionTask, PostureTask, Solver, SolveStatus
from supple import collision as c
from supple.errors import InputError
from supple.gpu.queue import Queue
from supple.ik.gpu import position, ranking
from supple.ik.gpu.request import Request
from supple.ik.preference import costs
from supple.ik.problem import compile_problem
from supple.kinematics.configuration import (
    difference,
    from_kernel,
    integrate,
    quaternions,
    to_kernel,
)

Array = np.ndarray
HAND = PositionTask(rows=("x", "y"))
ARM = supple.dh([(1.0, 0, 0, 0), (0.8, 0, 0, 0), (0.5, 0, 0, 0)], limits=[(-2.5, 2.5)] * 3)
NEAR = (HAND, PostureTask())
BOTH = arms("planar3", "planar3")
REACH = PositionTask(BOTH.tips[0], rows=("x", "y"))
PUMA = supple.load("puma560")
PREFER = ("fast", "limits", "comfortable", "manipulability", "nearest")


def host(found: Any) -> Array:
    """Return a result that is in GPU memory as a NumPy array."""
    array: Array = found.numpy()
    return array


def robots() -> dict[str, tuple[supple.Robot, Any]]:
    joined = tree()
    return {
        "planar": (ARM, HAND),
        "more rows than joints": (supple.load("planar3"), PoseTask()),
        "prismatic joints": (joined, tuple(PositionTask(tip) for tip in joined.tips)),
        "a floating base": (floating_arm(), PoseTask()),
        "orientation": (supple.load("panda"), OrientationTask()),
    }


def humanoid() -> supple.Robot:
    """Return two arms on a column on a floating base."""
    return tree().with_base("floating")


def obstacles() -> supple.World:
    """Return balls near the planar arm."""
    places = {"ball0": (1, 0.4, 0), "ball1": (-0.5, 1, 0)}
    links = {joint.child: [c.Sphere(0.05)] for joint in ARM.description.joints}
    return supple.World({name: c.Sphere(0.15, at) for name, at in places.items()}, links=links)


def load() -> None:
    p, T = there(np.ones((1, 3))), there(np.eye(4)[None])
    for robot, tasks in robots().values():
        problem = compile_problem(robot, tasks)
        ranking._cost_kernel(problem, position.open_device(0), "emulated")
    for robot, tasks in ((ARM, HAND), (BOTH, REACH)):
        Solver(robot, tasks, prefer="limits").several(p, 3)
    Solver(ARM, NEAR, prefer="limits").several([p, p], 3)
    Solver(ARM, HAND, world=obstacles(), prefer="limits").several(p, 3)
    Solver(PUMA, prefer="manipulability").all(T)
    for robot in (floating_arm(), humanoid()):
        Solver(robot, frame=robot.tips[0]).batch(T)
    Solver(floating_arm(), prefer="limits").several(T, 4)


device = emulator.emulated_and_real(load)


@pytest.mark.parametrize("name", robots())
def test_costs_on_a_gpu_are_those_of_the_cpu(name: str, device: str) -> None:
    if device == "real":
        pytest.skip("the arrays are in host memory")
    emulated = position.open_device(0)
    robot, tasks = robots()[name]
    problem = compile_problem(robot, tasks)
    count, most = 5, 3
    q = np.ascontiguousarray(to_kernel(robot, robot.random((count, most), seed=1)))
    q0 = np.ascontiguousarray(to_kernel(robot, robot.random(count, seed=2)))
    target = problem.layout.reached(from_kernel(robot, q[:, 0])).copy()
    found = np.array([3, 1, 2, 3, 3], np.int32)
    cost = np.full((count, most), np.nan)
    request = Request(
        target=target.ctypes.data,
        q0=q0.ctypes.data,
        q=q.ctypes.data,
        count=count,
        q0_stride=robot.nv,
        max_solutions=most,
        solutions=found.ctypes.data,
    )
    there = np.arange(most) < found[:, None]
    for prefer in PREFER:
        cost[:] = np.nan
        queue = Queue(emulated, 0)
        ranking.write_costs(problem, emulated, "emulated", request, prefer, cost.ctypes.data, queue)
        assert np.isnan(cost[~there]).all()
        seeds = np.repeat(q0, found, axis=0)
        expected = costs(prefer, problem, q[there], seeds)
        np.testing.assert_allclose(cost[there], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prefer", PREFER)
def test_solutions_in_gpu_memory_are_distinct_and_ordered(prefer: str) -> None:
    q = ARM.random(12, seed=3)
    p = ARM.fk(q)[:, :3, 3]
    p[4] = 9.0, 0.0, 0.0  # out of reach
    q0 = ARM.random(12, seed=4) if prefer == "nearest" else None
    solver = Solver(ARM, HAND, prefer=prefer)
    found: Any = solver.several(there(p), 5, **({} if q0 is None else {"q0": there(q0)}))
    assert found.q.shape == (12, 5, 3)
    count = host(found.count)
    assert count.tolist() == [5] * 4 + [1] + [5] * 7
    same = found.numpy()
    status = np.full(12, SolveStatus.CONVERGED)
    status[4] = SolveStatus.UNREACHABLE
    assert same.status.tolist() == np.repeat(status, count).tolist()
    assert np.isnan(host(found.q)[4, 1:]).all()
    assert np.isinf(host(found.position_error)[4, 1:]).all()
    problem = compile_problem(ARM, HAND)
    for i, few in enumerate(same.split()):
        assert ((ARM.lower <= few.q) & (few.q <= ARM.upper)).all()
        cost = costs(prefer, problem, few.q, None if q0 is None else q0[i])
        assert (np.diff(cost) >= 0).all()
        away = np.abs(few.q[:, None] - few.q).max(axis=-1)
        assert (away[~np.eye(len(few), dtype=bool)] > 1e-2).all()
        if i != 4:
            far = np.linalg.norm(ARM.fk(few.q)[:, :2, 3] - p[i, :2], axis=-1)
            assert (far <= 1e-6).all()
            np.testing.assert_allclose(few.position_error, far, atol=1e-12)


@pytest.mark.parametrize("prefer", ["limits", "comfortable", "manipulability"])
def test_the_best_of_several_solutions_is_the_same_for_targets_in_gpu_and_host_memory(
    prefer: str,
) -> None:
    p = ARM.fk(ARM.random((3, 4), seed=5))[..., :3, 3]
    solver = Solver(ARM, HAND, prefer=prefer)
    found: Any = solver.batch(there(p))
    assert found.q.shape == (3, 4, 3)
    same = Solver(ARM, HAND, prefer=prefer, device="cuda").batch(p)
    np.testing.assert_array_equal(found.numpy().q, same.q)
    assert found.numpy().success.all()
    first: Any = Solver(ARM, HAND, prefer="fast").batch(there(p))
    problem = compile_problem(ARM, HAND)
    if prefer != "comfortable":
        best, any_of_them = (costs(prefer, problem, x.numpy().q, None) for x in (found, first))
        assert (best <= any_of_them + 1e-12).all()
        assert (best < any_of_them - 1e-3).mean() > 0.3
    again: Any = solver.batch(there(p[::-1]), out=found)
    assert again is found
    np.testing.assert_array_equal(again.numpy().q, same.q[::-1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_preference_function_is_called_once_with_all_solutions_in_gpu_memory(dtype: Any) -> None:
    p = ARM.fk(ARM.random(6, seed=6))[:, :3, 3]
    shapes = []

    def cost(q: Any) -> Any:
        at = host(q)
        shapes.append(at.shape)
        assert np.isfinite(at).all()
        return there(np.ascontiguousarray(np.abs(at[..., 0]), dtype))

    q0 = ARM.random(6, seed=7)
    solver = Solver(ARM, HAND, prefer=cost)
    found: Any = solver.several(there(p), 4, q0=there(q0))
    every = host(found.q)
    assert (np.diff(np.abs(every[..., 0])) >= -1e-6).all()
    np.testing.assert_array_equal(found.numpy().q0, q0)
    best: Any = solver.batch(there(p), q0=there(q0))
    np.testing.assert_array_equal(host(best.q), every[:, 0])
    assert shapes == [(6, 8, 3)] * 2
    with pytest.raises(InputError, match="called once with all solutions"):
        Solver(ARM, HAND, prefer=lambda q: 0.0).batch(there(p))


def test_several_solutions_of_one_target_in_gpu_memory_have_one_batch_axis() -> None:
    p = ARM.fk(ARM.random(seed=8))[:3, 3]
    for count in (1, 3):
        found: Any = Solver(ARM, HAND).several(there(p), count)
        assert found.q.shape == (count, 3)
        assert len(found.numpy()) == int(np.asarray(host(found.count) if count > 1 else 1)) == count
    empty: Any = Solver(ARM, HAND).several(there(np.empty((0, 3))), 3)
    assert len(empty.numpy()) == 0


def test_joints_that_move_no_task_stay_at_q0_or_zero_in_all_solutions_on_a_gpu() -> None:
    """Only one of two arms has a target; the other arm stays at q0, or at zero without q0."""
    both = BOTH
    p = both.fk(both.random(5, seed=9), both.tips[0])[:, :3, 3]
    q0 = both.random(5, seed=10)
    q0[3, -1] = np.nan
    solver = Solver(both, REACH, prefer="limits")
    one: Any = solver.batch(there(p)).numpy()  # type: ignore[arg-type]
    moved = np.ptp(one.q, axis=0) > 0
    assert 0 < moved.sum() < both.nv
    for start in (None, q0):
        given = {} if start is None else {"q0": there(start)}
        found: Any = solver.several(there(p), 4, **given)
        for i, few in enumerate(found.numpy().split()):
            if start is not None and i == 3:
                assert few.status.tolist() == [SolveStatus.NONFINITE_INPUT]
                continue
            assert few.success.all()
            assert len(few) == 4
            rest = np.clip(0.0 if start is None else start[i], both.lower, both.upper)
            expected = np.broadcast_to(rest, few.q.shape)[:, ~moved]
            np.testing.assert_array_equal(few.q[:, ~moved], expected)
            off = both.fk(few.q, both.tips[0])[:, :2, 3] - p[i, :2]
            assert np.abs(off).max() <= 1e-6


def test_solutions_that_become_equal_near_a_posture_are_returned_once() -> None:
    p = ARM.fk(ARM.random(4, seed=11))[:, :3, 3]
    rest = np.full((4, 3), 0.4)
    solver = Solver(ARM, NEAR, prefer="limits")
    found: Any = solver.several([there(p), there(rest)], 6)
    for few in found.numpy().split():
        assert few.success.all()
        away = np.abs(few.q[:, None] - few.q).max(axis=-1)
        assert (away[~np.eye(len(few), dtype=bool)] > 1e-2).all()


# ---- robots with quaternions ---------------------------------------------------------------------


@pytest.mark.parametrize("make", [floating_arm, humanoid])
def test_targets_of_floating_robots_are_met_on_a_gpu(make: Any) -> None:
    robot = make()
    assert robot.nq > robot.nv
    frame, count = robot.tips[0], 40
    T = robot.fk(robot.random(count, seed=12), frame)
    solver = Solver(robot, frame=frame)
    found = Solver(robot, frame=frame, device="cuda").batch(T)
    assert found.success.all()
    np.testing.assert_allclose(robot.fk(found.q, frame), T, rtol=0, atol=2e-6)
    same: Any = solver.batch(there(T))
    assert same.q.shape == (count, robot.nq)
    q = host(same.q)
    np.testing.assert_allclose(q, found.q, rtol=0, atol=1e-12)
    norms = np.linalg.norm(q[:, quaternions(robot)].reshape(count, -1, 4), axis=-1)
    np.testing.assert_allclose(norms, 1, atol=1e-12)


def test_quaternions_in_the_q0_of_floating_robots_may_have_any_length_but_zero() -> None:
    robot = floating_arm()
    q = robot.random(30, seed=13)
    T = robot.fk(q)
    q0 = integrate(robot, q, np.full(robot.nv, 0.02))
    solver = Solver(robot)
    found: Any = solver.batch(there(T), q0=there(rescaled(robot, q0)))
    same = solver.batch(T, q0=q0)
    for one in (found.numpy(), same):
        assert one.success.all()
        moved = np.abs(difference(robot, one.q, q0)).max(axis=-1)
        assert np.median(moved) <= 0.1
    q0[3, quaternions(robot)] = 0.0
    status = solver.batch(there(T), q0=there(q0)).numpy().status
    assert (status == SolveStatus.NONFINITE_INPUT).tolist() == [i == 3 for i in range(30)]


def test_several_solutions_of_floating_robots_are_distinct() -> None:
    robot = floating_arm()
    T = robot.fk(robot.random(4, seed=14))
    found: Any = Solver(robot, prefer="limits").several(there(T), 4)
    for i, few in enumerate(found.numpy().split()):
        assert few.success.all()
        assert len(few) == 4
        np.testing.assert_allclose(robot.fk(few.q), np.stack([T[i]] * 4), rtol=0, atol=2e-6)
        for k in range(1, 4):
            assert np.abs(difference(robot, few.q[k], few.q[:k])).max(axis=-1).min() > 1e-3


def test_configurations_of_equal_orientation_count_as_one_solution_on_a_gpu() -> None:
    """A rotation of a ball joint by π has two rotation vectors, whose axes are opposite."""
    robot, _ = half_turned(0)
    count = nightly(8, 3)
    T = robot.fk(np.stack([half_turned(seed)[1] for seed in range(count)]))
    found: Any = Solver(robot, prefer="limits", max_seeds=200).several(there(T), 8)
    every = found.numpy().split()
    for few in every:
        assert few.success.all()
        assert least_difference(robot, few.q) > 1e-2
    assert sum(len(few) > 1 for few in every) > count // 2


# ---- all solutions, and worlds -------------------------------------------------------------------


@pytest.mark.parametrize("prefer", ["comfortable", "manipulability"])
def test_all_solutions_in_gpu_memory_are_ordered(prefer: str) -> None:
    robot = PUMA
    T = robot.fk(robot.random(6, seed=15))
    found: Any = Solver(robot, prefer=prefer).all(there(T))
    same = Solver(robot, prefer=prefer).all(T)
    np.testing.assert_array_equal(host(found.count), same.count)
    problem = compile_problem(robot, None)
    for few, others in zip(found.numpy().split(), same.split(), strict=True):
        cost = costs(prefer, problem, few.q, None)
        assert (np.diff(cost) >= -1e-12).all()
        np.testing.assert_allclose(cost, costs(prefer, problem, others.q, None), atol=1e-6)
    with pytest.raises(InputError, match="named preference"):
        Solver(robot, prefer=lambda q: 0.0).all(there(T))


def test_several_solutions_in_gpu_memory_avoid_obstacles() -> None:
    where = obstacles()
    q = ARM.random(60, seed=16)
    q = q[~c.collides(ARM, where, q)][:12]
    p = ARM.fk(q)[:, :3, 3]
    for prefer in ("limits", None):
        solver = Solver(ARM, HAND, world=where, prefer=prefer)
        found: Any = solver.several(there(p), 4)
        for few in found.numpy().split():
            assert few.success.all()
            assert not c.collides(ARM, where, few.q).any()
    stuck: Any = Solver(ARM, HAND, world=where).several(there(np.array([[1.0, 0.4, 0.0]])), 4)
    assert stuck.numpy().status.tolist() == [SolveStatus.BLOCKED]


# ---- memory of results ---------------------------------------------------------------------------


def test_memory_of_results_is_reused_only_after_all_references_to_it_are_gone() -> None:
    p = ARM.fk(ARM.random((2, 8), seed=17))[..., :3, 3]
    solver = Solver(ARM, HAND)
    given = [there(one) for one in p]
    kept: list[Any] = [solver.batch(given[i % 2]) for i in range(6)]
    assert len({found.q.pointer for found in kept}) == 6
    expected = [host(found.q) for found in kept]
    array, at = kept[0].q, kept[1].q.pointer
    del kept[0:2]  # `array` still refers to the first result
    more: list[Any] = [solver.batch(given[1]) for _ in range(3)]
    assert at in {found.q.pointer for found in more}
    assert array.pointer not in {found.q.pointer for found in more}
    np.testing.assert_array_equal(host(array), expected[0])
    for found, numbers in zip(kept, expected[2:], strict=True):
        np.testing.assert_array_equal(host(found.q), numbers)
    for found in more:
        np.testing.assert_array_equal(host(found.q), expected[1])
