"""Random targets of robots on bases that move freely: floating, planar, or on virtual joints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from sizes import nightly
from supple.describe import Joint

TARGETS = nightly(100_000 // 12, 120)  # number of targets for each pair of robot and base
FILES = {
    "g1": ("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"),
    "anymal": (
        "cmeel.prefix",
        "share/example-robot-data/robots/anymal_c_simple_description/urdf/anymal.urdf",
    ),
}
LONG = 1000.0  # the virtual prismatic joints have the limits ±LONG [m]


def virtual(robot: sp.Robot) -> sp.Robot:
    """Return a robot on three prismatic joints, with limits of ±1 km, and three revolute joints."""
    described, axes = robot.description, np.eye(3)
    made, parent = [], "far"
    for i in range(6):
        child = described.root if i == 5 else f"virtual_link{i}"
        kind, most = ("prismatic", LONG) if i < 3 else ("revolute", np.pi)
        axis = axes[i % 3]
        made.append(Joint(f"virtual{i}", kind, parent, child, axis=axis, lower=-most, upper=most))
        parent = child
    joints = (*made, *described.joints)
    return sp.Robot(replace(described, joints=joints, tips=robot.tips))


@pytest.mark.parametrize("base", ["floating", "planar", "virtual"])
@pytest.mark.parametrize("name", ["panda", "ur5e", *FILES])
def test_nearly_all_random_targets_are_solved(
    name: str, base: str, robot_files: Callable[[str, str], Path]
) -> None:
    """A nightly run solves at least 99.99 % of its targets, an ordinary run all of
    its fewer ones.
    """
    fixed = sp.urdf(robot_files(*FILES[name])) if name in FILES else sp.load(name)
    robot = virtual(fixed) if base == "virtual" else fixed.with_base(base)
    tip = fixed.tips[-1]
    targets = robot.fk(robot.random(TARGETS, seed=1), tip)
    found = sp.Solver(robot, frame=tip).batch(targets)
    assert np.count_nonzero(~np.asarray(found.success)) <= 1e-4 * TARGETS
    away = robot.fk(found.q, tip) - targets
    assert np.abs(away[np.asarray(found.success)]).max() < 1e-5


def limbs(name: str, robot: sp.Robot) -> list[sp.PoseTask | sp.PositionTask]:
    """Return the tasks of all hands and feet, with a foot after each hand."""
    if name == "g1":
        frames = ("left_ankle_roll_link", "left_rubber_hand", "right_ankle_roll_link")
        return [sp.PoseTask(frame) for frame in (*frames, "right_rubber_hand")]
    return [sp.PositionTask(tip) for tip in robot.tips if "FOOT" in tip]


def targets_of(robot: sp.Robot, tasks: list[sp.PoseTask | sp.PositionTask], q: np.ndarray) -> list:
    poses = [robot.fk(q, task.frame) for task in tasks]
    return [
        T if isinstance(task, sp.PoseTask) else np.ascontiguousarray(T[..., :3, 3])
        for task, T in zip(tasks, poses, strict=True)
    ]


def check(
    robot: sp.Robot, tasks: list[sp.PoseTask | sp.PositionTask], found: sp.Solutions, targets: list
) -> None:
    """Check that all targets are met inside the limits."""
    solved = np.asarray(found.success)
    for task, target, reached in zip(
        tasks, targets, targets_of(robot, tasks, found.q), strict=True
    ):
        away = np.abs(reached - target)[solved]
        assert away.max() < 2e-6, task
    x = sp.kinematics.configuration.to_kernel(robot, found.q)
    assert ((x >= robot.lower) & (x <= robot.upper)).all()


@pytest.mark.parametrize("base", ["floating", "planar", "virtual"])
@pytest.mark.parametrize("name", FILES)
def test_nearly_all_random_targets_of_hands_and_feet_are_solved(
    name: str, base: str, robot_files: Callable[[str, str], Path]
) -> None:
    fixed = sp.urdf(robot_files(*FILES[name]))
    robot = virtual(fixed) if base == "virtual" else fixed.with_base(base)
    tasks = limbs(name, fixed)
    targets = targets_of(robot, tasks, robot.random(TARGETS, seed=2))
    solver = sp.Solver(robot, tasks)
    found = solver.batch(targets)
    assert np.count_nonzero(~np.asarray(found.success)) <= 1e-4 * TARGETS
    check(robot, tasks, found, targets)
    for i in range(0, TARGETS, max(1, TARGETS // nightly(50, 20))):
        assert solver([target[i] for target in targets]).success
    again = solver.batch([target[::3] for target in targets], q0=robot.random(seed=3))
    assert np.count_nonzero(~np.asarray(again.success)) <= 1e-4 * TARGETS


@pytest.mark.parametrize("name", FILES)
def test_a_free_base_takes_hands_and_feet_to_targets_a_kilometer_away(
    name: str, robot_files: Callable[[str, str], Path]
) -> None:
    fixed = sp.urdf(robot_files(*FILES[name]))
    for robot in (fixed.with_base("floating"), virtual(fixed)):
        tasks, q = limbs(name, fixed), robot.random(50, seed=4)
        q[:, :3] += (700.0, -600.0, 300.0)
        q[:, :3] = np.clip(q[:, :3], -LONG, LONG)
        targets = targets_of(robot, tasks, q)
        found = sp.Solver(robot, tasks).batch(targets)
        assert np.asarray(found.success).all()
        check(robot, tasks, found, targets)


@pytest.mark.parametrize("base", ["floating", "virtual"])
@pytest.mark.parametrize("name", FILES)
def test_a_robot_on_a_free_base_gets_a_solution_near_q0(
    name: str, base: str, robot_files: Callable[[str, str], Path]
) -> None:
    fixed = sp.urdf(robot_files(*FILES[name]))
    robot = virtual(fixed) if base == "virtual" else fixed.with_base(base)
    tasks, q, rng = limbs(name, fixed), robot.random(30, seed=5), np.random.default_rng(0)
    away = rng.uniform(-0.1, 0.1, (30, robot.nv))
    targets = targets_of(robot, tasks, q)
    solver = sp.Solver(robot, tasks)
    moves = []
    for i, q0 in enumerate(sp.kinematics.configuration.integrate(robot, q, away)):
        found = solver([target[i] for target in targets], q0=q0)
        assert found.success
        moves.append(found.moved)
    assert np.median(moves) < 0.5, moves


def test_targets_of_feet_farther_apart_than_the_legs_allow_are_not_called_converged(
    robot_files: Callable[[str, str], Path],
) -> None:
    robot = sp.urdf(robot_files(*FILES["anymal"])).with_base("floating")
    tasks = limbs("anymal", robot)
    targets = [np.array([5.0 * k, 0.0, 0.0]) for k in range(len(tasks))]
    found = sp.Solver(robot, tasks, max_seeds=64)(targets)
    assert found.status == sp.SolveStatus.NOT_CONVERGED
    assert found.position_error > 1
