"""Every kind of task is met: with rows, axes, bases, several frames, or a secondary posture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from cases import each
from sizes import nightly
from solving import solve
from supple import PoseTask, PositionTask, PostureTask
from supple.errors import InputError
from supple.ik.problem import compile_problem
from supple.ik.seeds import seed_sequence
from supple.ik.subproblems import subproblems_of
from supple.tasks.layout import compile_tasks
from targets import PANDA, reached


def residual(robot: supple.Robot, tasks: tuple[Any, ...], q: np.ndarray, targets: list) -> float:
    """Return the largest error of all rows, computed with the Python formulas of the tasks."""
    worst = 0.0
    for task, target in zip(tasks, targets, strict=True):
        for one, goal in zip(q, target, strict=True):
            lin = task.linearize(robot, one, goal)
            worst = max(worst, float(np.abs(lin.e / np.array(task.on(robot).weights)).max()))
    return worst


@pytest.mark.parametrize("kind", PANDA)
def test_targets_of_every_kind_of_task_are_met(kind: str) -> None:
    robot, tasks = supple.load("panda"), PANDA[kind]
    frames = set(robot.frames)
    assert {task.frame for task in tasks} <= frames
    targets = reached(robot, tasks, robot.random(nightly(100, 40), seed=1))
    found = solve(robot, targets, tasks=tasks)
    assert found.success.all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    assert residual(robot, tasks, found.q, targets) <= 1e-6
    for i in range(5):
        one = solve(robot, [target[i] for target in targets], tasks=tasks)
        assert one.success
        assert residual(robot, tasks, one.q[None], [t[i : i + 1] for t in targets]) <= 1e-6


@each("kind", PANDA)
def test_a_configuration_has_no_error_at_the_targets_that_it_reaches(kind: str) -> None:
    robot, tasks = supple.load("panda"), PANDA[kind]
    layout = compile_tasks(robot, tasks)
    q = robot.random(50, seed=2)
    assert np.abs(layout.error(q, layout.reached(q))).max() < 1e-12


@pytest.mark.parametrize("kind", PANDA)
def test_starts_from_the_seed_table_need_fewer_iterations_than_its_entries_as_q0(kind: str) -> None:
    """Before such a start, one Newton step is made from the entry of the table."""
    robot, tasks = supple.load("panda"), PANDA[kind]
    (part,) = subproblems_of(compile_problem(robot, tasks))  # only joints that move the task
    entries = np.tile(robot.neutral(), (200, 1))
    entries[:, part.joints] = part.problem.seed_table.seeds[:200]
    q = np.clip(
        entries + np.random.default_rng(0).uniform(-0.05, 0.05, entries.shape),
        robot.lower,
        robot.upper,
    )
    targets = reached(robot, tasks, q)
    listed = solve(robot, targets, tasks=tasks, prefer="fast")
    begun = solve(robot, targets, tasks=tasks, q0=entries, prefer="fast", max_seeds=1)
    assert listed.success.all()
    # The search may start from another, nearer entry.
    assert np.mean(listed.iterations < begun.iterations) > 0.4


@pytest.mark.parametrize("name", ["y", "double_y"])
def test_positions_of_all_end_effectors_of_a_tree_are_met(name: str) -> None:
    robot = supple.load(name)
    tasks = tuple(PositionTask(tip) for tip in robot.tips)
    targets = reached(robot, tasks, robot.random(nightly(200, 80), seed=3))
    found = solve(robot, targets, tasks=tasks)
    assert found.success.mean() >= 0.99
    assert (
        residual(robot, tasks, found.q[found.success], [t[found.success] for t in targets]) <= 1e-6
    )


@pytest.mark.parametrize("far", [0, 1])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_reported_error_is_that_of_the_worst_task(far: int, weight: float) -> None:
    """It is not multiplied by the weight of the task."""
    robot = supple.load("y")
    tasks = tuple(PositionTask(tip, weight=weight) for tip in robot.tips)
    targets = reached(robot, tasks, robot.random(10, seed=4))
    targets[far] += 9.0
    found = solve(robot, targets, tasks=tasks)
    assert not found.success.any()
    off = [
        np.linalg.norm(robot.fk(found.q, tip)[:, :3, 3] - goal, axis=1)
        for tip, goal in zip(robot.tips, targets, strict=True)
    ]
    np.testing.assert_allclose(found.position_error, np.max(off, axis=0), rtol=1e-9)


def test_poses_of_all_four_limbs_of_a_humanoid_are_met(
    robot_files: Callable[[str, str], Path],
) -> None:
    robot = supple.urdf(robot_files("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"))
    assert robot.dof == 29
    frames = [
        "left_ankle_roll_link",
        "right_ankle_roll_link",
        "left_wrist_yaw_link",
        "right_wrist_yaw_link",
    ]
    tasks = tuple(PoseTask(frame) for frame in frames)
    targets = reached(robot, tasks, robot.random(40, seed=4))
    found = solve(robot, targets, tasks=tasks)
    assert found.success.mean() >= 0.95
    assert (
        residual(robot, tasks, found.q[found.success], [t[found.success] for t in targets]) <= 1e-6
    )


# ---- a secondary posture -------------------------------------------------------------------------


def test_a_posture_is_approached_without_disturbing_the_task() -> None:
    robot = supple.load("panda")
    pose, rest = PoseTask(), robot.neutral()
    T = robot.fk(robot.random(60, seed=5))
    plain = solve(robot, T)
    drawn = solve(robot, [T, rest], tasks=[pose, PostureTask()])
    assert drawn.success.all()
    assert residual(robot, (pose,), drawn.q, [T]) <= 1e-6
    far = np.linalg.norm(plain.q - rest, axis=1), np.linalg.norm(drawn.q - rest, axis=1)
    assert far[1].mean() < far[0].mean()
    # No motion inside the limits that keeps the task brings q closer to the posture.
    for q in drawn.q:
        free = (q > robot.lower + 1e-9) & (q < robot.upper - 1e-9)
        J = robot.jacobian(q)[:, free]
        nullspace = np.linalg.svd(J)[2][6:]
        if np.linalg.svd(J, compute_uv=False)[-1] > 0.05 and len(nullspace):
            assert np.abs(nullspace @ (rest - q)[free]).max() < 1e-2


def test_a_posture_of_one_joint_may_precede_the_task() -> None:
    robot = supple.load("panda")
    name = robot.joint_names[2]
    T = robot.fk(robot.random(20, seed=6))
    tasks = [PostureTask([name]), PositionTask()]
    batch = solve(robot, [[0.3], T[:, :3, 3]], tasks=tasks)
    assert batch.success.all()
    assert np.median(np.abs(batch.q[:, 2] - 0.3)) < 1e-3
    for target in T[:5]:
        one = solve(robot, [[0.3], target[:3, 3]], tasks=tasks)
        assert one.success
        assert np.abs(robot.fk(one.q)[:3, 3] - target[:3, 3]).max() <= 1e-6


def test_a_posture_alone_is_refused() -> None:
    robot = supple.load("panda")
    with pytest.raises(InputError, match="must not all be PostureTask"):
        solve(robot, robot.neutral(), tasks=PostureTask())


@each(
    ("lower", "upper", "first", "width"),
    [
        (-2 * np.pi, 2 * np.pi, -np.pi, 2 * np.pi),
        (-1.0, 7.0, 3.0 - np.pi, 2 * np.pi),
        (-np.inf, np.inf, -np.pi, 2 * np.pi),
        (-3.0, 3.0, -3.0, 6.0),
    ],
)
def test_seeds_of_a_joint_with_many_turns_are_in_the_middle_turn_of_its_range(
    lower: float, upper: float, first: float, width: float
) -> None:
    """Seeds in other turns would repeat postures and cause solutions with needless full turns."""
    robot = supple.load("planar3").with_limits(lower=lower, upper=upper)
    seed_lower, seed_range, _ = seed_sequence(robot)
    np.testing.assert_allclose(seed_lower, first)
    np.testing.assert_allclose(seed_range, width)
