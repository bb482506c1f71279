"""Whole paths of robots with ball and floating joints.

Targets are poses of a tip during a smooth motion of the joints, so a solution exists; paths that
are found are judged by forward kinematics, also between the targets.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from generated import seeds
from moving_trees import moving
from sizes import nightly
from supple.describe import Description, Joint

Array = np.ndarray


def robot_of(seed: int) -> sp.Robot:
    """Return a random robot of about a meter with quaternions, whose tip can move in all
    directions.
    """
    rng = np.random.default_rng(seed)
    if seed % 2:
        return sp.load(str(rng.choice(["ur5e", "panda"]))).with_base("floating")
    places = [sp.pose(rng.normal(size=3) * 0.3) for _ in range(4)]
    turn = np.array([0.0, 0.0, 1.0])
    joints = (
        Joint("shoulder", "ball", "base", "upper", origin=places[0]),
        Joint("elbow", "revolute", "upper", "lower", places[1], turn, lower=-2.5, upper=2.5),
        Joint("wrist", "ball", "lower", "hand", origin=places[2]),
        Joint("slide", "prismatic", "hand", "tool", places[3], turn, lower=-0.2, upper=0.2),
    )
    return sp.Robot(Description("balls", joints))


def inside(robot: sp.Robot, q: Array) -> bool:
    """Return whether joints of one coordinate are in their ranges, and quaternions
    have length 1.
    """
    for j, name in enumerate(robot.joint_names):
        if name in robot.position_names:
            own = q[:, robot.position_names.index(name)]
            if not ((robot.lower[j] <= own) & (own <= robot.upper[j])).all():
                return False
    at = [i for i, name in enumerate(robot.position_names) if name.endswith("/qw")]
    return all(np.allclose(np.linalg.norm(q[:, i : i + 4], axis=1), 1, atol=1e-12) for i in at)


def walk(robot: sp.Robot, seed: int, count: int) -> Array:
    """Return configurations (count, nq) of a motion of about a radian."""
    ends = robot.random(2, seed=seed)
    middle = robot.integrate(ends[0], 0.3 * robot.difference(ends[1], ends[0]))
    return robot.integrate(
        middle, np.linspace(0, 0.5, count)[:, None] * robot.difference(ends[1], middle)
    )


def flipped(robot: sp.Robot, q: Array) -> Array:
    made = np.array(q)
    for at, name in enumerate(robot.position_names):
        if name.endswith("/qw"):
            made[at : at + 4] *= -1
    return made


def between(poses: Array, k: int, share: float) -> Array:
    """Return the pose at a fraction `share` of the way from target k to target k + 1."""
    return sp.poses.interpolate(poses[k], poses[k + 1], np.array([share]))[0]


@pytest.mark.parametrize("seed", seeds(nightly(60, 2)))
def test_a_path_that_can_be_followed_is_followed(seed: int) -> None:
    robot = robot_of(seed)
    tip, q = robot.tips[0], walk(robot, seed, 25)
    poses = robot.fk(q, tip)
    for start in (None, q[0]):
        found = sp.plan_path(robot, poses, frame=tip, q0=start)
        assert found.success, str(found)
        assert found.continuous or seed % 2 == 0  # tracks may drift to joint limits
        assert inside(robot, found.q)
        assert np.abs(robot.fk(found.q, tip) - poses).max() < 1e-6
        for piece in found.pieces:
            at = np.linspace(piece.s[0], piece.s[-1], 8 * len(q))
            k = np.minimum(at.astype(int), len(q) - 2)
            wanted = np.array([between(poses, *each) for each in zip(k, at - k, strict=True)])
            off = robot.fk(piece.at(at), tip) - wanted
            assert np.linalg.norm(off[:, :3, 3], axis=1).max() < 1e-4
            assert np.abs(off[:, :3, :3]).max() < 1e-3
        if start is not None:
            assert np.abs(robot.difference(found.q[0], start)).max() < 1e-6
            other = sp.plan_path(robot, poses, frame=tip, q0=flipped(robot, start))
            np.testing.assert_allclose(robot.difference(other.q, found.q), 0, atol=1e-6)


def test_paths_of_positions_are_followed_by_random_robots() -> None:
    for seed in seeds(nightly(60, 4)):
        robot = moving(seed)
        q = walk(robot, seed, 12)
        tip = robot.tips[0]
        places = robot.fk(q, tip)[:, :3, 3]
        size = max(float(np.ptp(places, axis=0).max()), 1e-6)
        task = sp.PositionTask(tip)
        found = sp.plan_path(robot, places, tasks=task, q0=q[0], position_tolerance=1e-3 * size)
        assert found.success, str(found)
        assert inside(robot, found.q)
        assert np.abs(robot.fk(found.q, tip)[:, :3, 3] - places).max() <= 1e-3 * size


def test_a_timed_path_keeps_the_limits_of_a_floating_base() -> None:
    robot = robot_of(1)
    poses = robot.fk(walk(robot, 3, 20))
    limits = sp.Limits.for_robot(robot, max_speed=0.7, max_acceleration=2.0)
    found = sp.plan_path(robot, poses, prefer="limits")
    motion = found.timed(limits)
    assert (np.abs(motion.qd) <= 0.7 * (1 + 1e-6)).all()
    assert (np.abs(motion.qdd) <= 2.0 * (1 + 1e-5) + 1e-6).all()
    np.testing.assert_allclose(robot.fk(motion.q[[0, -1]]), poses[[0, -1]], atol=1e-6)


def test_a_floating_base_held_by_a_task_stays_and_the_arm_moves_as_on_a_fixed_base() -> None:
    arm = sp.load("ur5e")
    robot, base, tip = arm.with_base("floating"), arm.description.root, arm.tips[0]
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.2])
    goal = arm.fk(q)
    goal[:3, 3] += [0.1, 0.1, -0.05]
    poses = sp.poses.interpolate(arm.fk(q), goal, np.linspace(0, 1, 15))
    tasks = [sp.PoseTask(base), sp.PoseTask(tip)]
    whole = np.concatenate([robot.neutral()[:7], q])
    still = np.tile(np.eye(4), (15, 1, 1))
    found = sp.plan_path(robot, [still, poses], tasks=tasks, q0=whole)
    alone = sp.plan_path(arm, poses, q0=q)
    assert found.continuous
    assert alone.continuous
    np.testing.assert_allclose(found.q[:, 7:], alone.q, atol=1e-5)
    assert np.abs(robot.fk(found.q, base) - still).max() < 1e-6


def test_a_path_from_outside_the_limits_first_returns_inside() -> None:
    robot = robot_of(1)
    q = walk(robot, 5, 10)
    j = robot.position_names.index(robot.joint_names[-1])
    poses = robot.fk(q)
    outside = q[0].copy()
    outside[j] = robot.upper[-1] + 0.1
    poses = np.concatenate([robot.fk(outside)[None], robot.fk(outside)[None]])
    poses[1, 0, 3] += 0.05
    found = sp.plan_path(robot, poses, q0=outside)
    assert found.success
    assert robot.joint_names[-1] in found.reconfigurations[0].reason
    assert "a joint moves by" in str(found)
    limits = sp.Limits.for_robot(robot, max_speed=1.0, max_acceleration=3.0)
    motion = found.timed(limits)
    np.testing.assert_allclose(robot.difference(motion.q[0], outside), 0, atol=1e-9)
    assert (np.abs(motion.qd) <= 1 + 1e-6).all()


def test_a_path_out_of_reach_ends_with_a_reason() -> None:
    robot = robot_of(0)
    start = robot.fk(robot.random(seed=1), "tool")
    poses = np.tile(start, (30, 1, 1))
    poses[:, 0, 3] += np.linspace(0, 20, 30)
    found = sp.plan_path(robot, poses, frame="tool")
    assert not found.success
    assert found.obstacle
    assert np.isfinite(found.q[0]).all()
    assert np.isnan(found.q[-1]).all()
