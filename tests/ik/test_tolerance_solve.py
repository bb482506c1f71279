"""Allowed ranges of tasks in `solve`: each solution of 10⁴ random targets is checked in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import supple
from solving import solve
from supple import DLS, AxisTask, PoseTask, PositionTask, PostureTask, SolveStatus, damping
from supple.errors import InputError
from supple.kinematics.rotation import exp, log
from tolerances import angle_between, box_distance, pose_at

Array = np.ndarray
INF = math.inf
COUNT = 2000
MET = (1e-6, 1e-6)  # [m], [rad]: the default tolerances of a solution


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def off_targets(
    robot: supple.Robot, lower: Array, upper: Array, turn: float, seed: int
) -> tuple[Array, Array]:
    """Return targets (COUNT, 4, 4), and configurations that meet them within an allowed range.

    The range is a box of positions, and rotations by at most `turn` about any axis.
    """
    draw = np.random.default_rng(seed)
    q = robot.random(COUNT, seed=seed)
    T = robot.fk(q).copy()
    T[:, :3, 3] -= draw.uniform(lower, upper, (COUNT, 3))
    axis = draw.normal(size=(COUNT, 3))
    axis *= turn * draw.uniform(0, 1, (COUNT, 1)) / np.linalg.norm(axis, axis=1, keepdims=True)
    T[:, :3, :3] = exp(axis) @ T[:, :3, :3]
    return T, q


def check_limits(robot: supple.Robot, q: Array) -> None:
    assert ((robot.lower - 1e-12 <= q) & (q <= robot.upper + 1e-12)).all()


@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_targets_within_ranges_of_position_and_rotation_are_met(name: str) -> None:
    robot = supple.load(name)
    lower, upper = np.array([-0.05, -0.02, 0.0]), np.array([0.05, 0.03, 0.1])
    T, _ = off_targets(robot, lower, upper, 0.1, seed=1)
    ranges = {"x": 0.05, "y": (-0.02, 0.03), "z": (0.0, 0.1), "rx": 0.1, "ry": 0.1, "rz": 0.1}
    found = solve(robot, T, tasks=PoseTask(tolerance=ranges))
    assert found.success.all()
    check_limits(robot, found.q)
    is_at = pose_at(robot, found.q)
    far = box_distance(is_at[:, :3, 3] - T[:, :3, 3], lower, upper)
    turn = log(is_at[:, :3, :3] @ T[:, :3, :3].swapaxes(1, 2))
    assert np.linalg.norm(far, axis=1).max() <= MET[0] + 1e-12
    assert np.linalg.norm(box_distance(turn, -0.1, 0.1), axis=1).max() <= MET[1] + 1e-9


@pytest.mark.parametrize(("name", "about"), [("youbot", "z"), ("panda", "x"), ("ur5e", "y")])
def test_a_pose_with_a_free_rotation_axis_is_met(name: str, about: str) -> None:
    """The position is met, and so is the direction of the axis about which the tool may turn."""
    robot = supple.load(name)
    k = "xyz".index(about)
    q = robot.random(COUNT, seed=2)
    T = robot.fk(q).copy()
    draw = rng()
    T[:, :3, :3] = T[:, :3, :3] @ exp(draw.uniform(-3, 3, (COUNT, 1)) * np.eye(3)[k])
    found = solve(robot, T, tasks=PoseTask(about=about))
    assert found.success.mean() > 0.999
    check_limits(robot, found.q)
    is_at, T = pose_at(robot, found.q[found.success]), T[found.success]
    assert np.linalg.norm(is_at[:, :3, 3] - T[:, :3, 3], axis=1).max() <= MET[0] + 1e-12
    assert angle_between(is_at[:, :3, k], T[:, :3, k]).max() <= MET[1] + 1e-9


@pytest.mark.parametrize("name", ["youbot", "panda", "ur5e"])
def test_a_tool_axis_within_a_cone_is_met(name: str) -> None:
    robot = supple.load(name)
    cone = 0.3
    T, _ = off_targets(robot, np.full(3, -0.01), np.full(3, 0.01), cone, seed=3)
    task = PoseTask(about="z", cone=cone, tolerance={"x": 0.01, "y": 0.01, "z": 0.01})
    found = solve(robot, T, tasks=task)
    assert found.success.all()
    check_limits(robot, found.q)
    is_at = pose_at(robot, found.q)
    far = box_distance(is_at[:, :3, 3] - T[:, :3, 3], -0.01, 0.01)
    assert np.linalg.norm(far, axis=1).max() <= MET[0] + 1e-12
    assert angle_between(is_at[:, :3, 2], T[:, :3, 2]).max() <= cone + MET[1] + 1e-9


def test_a_half_space_and_a_cone_of_an_axis_are_met() -> None:
    robot = supple.load("panda")
    q = robot.random(COUNT, seed=4)
    p = robot.fk(q)[:, :3, 3] - [0.0, 0.0, 0.2]
    d = robot.fk(q)[:, :3, 2]
    tasks = [PositionTask(tolerance={"z": (0.0, INF)}), AxisTask(cone=0.5)]
    found = solve(robot, [p, d], tasks=tasks)
    assert found.success.all()
    T = pose_at(robot, found.q)
    assert np.linalg.norm(T[:, :2, 3] - p[:, :2], axis=1).max() <= MET[0] + 1e-12
    assert (T[:, 2, 3] >= p[:, 2] - MET[0]).all()
    assert angle_between(T[:, :3, 2], d).max() <= 0.5 + MET[1]


def test_a_q0_inside_the_range_is_returned_unchanged() -> None:
    robot = supple.load("panda")
    T, q = off_targets(robot, np.full(3, -0.02), np.full(3, 0.02), 0.0, seed=5)
    task = PoseTask(tolerance={"x": 0.02, "y": 0.02, "z": 0.02})
    for i in range(50):
        inside = solve(robot, T[i], tasks=task, q0=q[i])
        np.testing.assert_allclose(inside.q, q[i], atol=1e-12)  # q0 is inside the range and is kept
        found = solve(robot, T[i], tasks=task)
        off = pose_at(robot, found.q)[:3, 3] - T[i, :3, 3]
        assert found.success
        assert np.linalg.norm(box_distance(off, -0.02, 0.02)) <= MET[0]
        assert found.position_error == pytest.approx(
            np.linalg.norm(box_distance(off, -0.02, 0.02)), abs=1e-12
        )


def test_without_a_solution_errors_are_the_distances_to_the_range() -> None:
    robot = supple.load("panda")
    p = np.array([1.5, 0.0, 0.4])
    far = solve(robot, p, tasks=PositionTask())
    box = solve(robot, p, tasks=PositionTask(tolerance={"x": 0.1, "y": 0.1, "z": 0.1}))
    assert far.status != SolveStatus.CONVERGED
    assert box.status != SolveStatus.CONVERGED
    off = box_distance(pose_at(robot, box.q)[:3, 3] - p, -0.1, 0.1)
    assert box.position_error == pytest.approx(np.linalg.norm(off), abs=1e-9)
    assert far.position_error - 0.1 * math.sqrt(3) - 1e-6 <= box.position_error
    assert box.position_error <= far.position_error - 0.09
    wide = solve(robot, p, tasks=PositionTask(tolerance=1.0))
    assert wide.success


def test_a_search_that_repeats_a_given_step_meets_ranges() -> None:
    robot = supple.load("ur5e")
    T, _ = off_targets(robot, np.full(3, -0.02), np.full(3, 0.02), 0.2, seed=6)
    task = PoseTask(about="z", cone=0.2, tolerance={"x": 0.02, "y": 0.02, "z": 0.02})
    found = solve(robot, T[:50], tasks=task, step=DLS(damping.Constant(1e-4)))
    assert found.success.mean() > 0.9
    for q, target in zip(found.q[found.success], T[:50][found.success], strict=True):
        is_at = pose_at(robot, q)
        off = box_distance(is_at[:3, 3] - target[:3, 3], -0.02, 0.02)
        assert np.linalg.norm(off) <= MET[0] + 1e-12
        assert angle_between(is_at[:3, 2], target[:3, 2]) <= 0.2 + MET[1] + 1e-9


def test_a_secondary_posture_does_not_move_the_frame_out_of_its_range() -> None:
    robot = supple.load("panda")
    T, _ = off_targets(robot, np.full(3, -0.05), np.full(3, 0.05), 0.2, seed=7)
    rest = robot.neutral()
    task = PoseTask(about="z", cone=0.2, tolerance={"x": 0.05, "y": 0.05, "z": 0.05})
    for target in T[:20]:
        free = solve(robot, target, tasks=task, prefer="fast")
        tasks = [task, PostureTask()]
        found = solve(robot, [target, rest], tasks=tasks)
        pulled = solve(robot, [target, rest], tasks=tasks, q0=free.q)  # on the branch of q0
        for each in (found, pulled):
            assert each.success
            off = box_distance(pose_at(robot, each.q)[:3, 3] - target[:3, 3], -0.05, 0.05)
            assert np.linalg.norm(off) <= MET[0] + 1e-12
        assert np.linalg.norm(pulled.q - rest) <= np.linalg.norm(free.q - rest) + 1e-6


def test_a_posture_with_a_range_is_refused() -> None:
    robot = supple.load("panda")
    with pytest.raises(InputError, match="tolerance"):
        solve(robot, [np.eye(4), robot.neutral()], tasks=[PoseTask(), PostureTask(tolerance=0.1)])


def test_reachable_targets_with_a_cone_are_met_in_a_batch_and_alone() -> None:
    robot = supple.load("youbot")
    q = robot.random(100, seed=8)
    T = robot.fk(q)
    task = PoseTask(about="z", cone=0.1)
    many = solve(robot, T, tasks=task)
    one = [solve(robot, target, tasks=task) for target in T]
    assert many.success.all()
    assert all(found.success for found in one)


def test_rows_that_stay_inside_their_range_add_no_iterations() -> None:
    """The search takes as many iterations as without these rows."""
    robot = supple.load("panda")
    wide, without = PositionTask(tolerance={"y": 10, "z": 10}), PositionTask(rows=("x",))
    for k in range(20):
        q0 = robot.random(seed=k)
        target = robot.fk(q0)[:3, 3].copy()
        target[0] = robot.fk(robot.random(seed=100 + k))[0, 3]
        found, same = (
            solve(robot, target, tasks=task, q0=q0, prefer="fast", max_seeds=1)
            for task in (wide, without)
        )
        assert found.iterations == same.iterations
        np.testing.assert_allclose(found.q, same.q, rtol=0, atol=1e-6)
