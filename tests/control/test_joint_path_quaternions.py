"""Joint paths and their timing with ball and floating joints.

Velocities along a path are compared with differences of finely sampled configurations by
`Robot.difference`, and for rotations about one axis with splines of the angle.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from generated import seeds
from moving_trees import moving
from sizes import nightly
from supple.errors import InputError
from supple.kinematics.rotation import exp, log
from supple.kinematics.rotation_vectors import body_velocity, right_jacobian_inverse
from supple.paths.spline import Spline

Array = np.ndarray


def walk(robot: sp.Robot, rng: np.random.Generator, steps: int, size: float) -> Array:
    """Return configurations (steps + 1, nq) inside the limits, random displacements apart."""
    q = [robot.random(seed=rng)]
    for _ in range(steps):
        goal = robot.difference(robot.random(seed=rng), q[-1])
        q.append(robot.integrate(q[-1], size * goal / np.linalg.norm(goal)))
    return np.array(q)


def robot_of(seed: int) -> sp.Robot:
    while (robot := moving(seed)).nq == robot.nv:
        seed += 1000
    return robot


def flipped(robot: sp.Robot, q: Array) -> Array:
    """Return q with the signs of all quaternions reversed in every second configuration."""
    made = np.array(q)
    for at, name in enumerate(robot.position_names):
        if name.endswith("/qw"):
            made[::2, at : at + 4] *= -1
    return made


def test_angular_velocities_of_changing_rotation_vectors_are_derivatives_of_rotations() -> None:
    h = 1e-5
    for seed in seeds(30):
        c = np.random.default_rng(seed).normal(size=(4, 3)) * 10.0 ** (seed % 4 - 2)

        def at(t: float) -> tuple[Array, Array, Array, Array]:
            return (
                c[0] + t * (c[1] + t * (c[2] + t * c[3])),  # noqa: B023
                c[1] + t * (2 * c[2] + t * 3 * c[3]),  # noqa: B023
                2 * c[2] + t * 6 * c[3],  # noqa: B023
                6 * c[3],  # noqa: B023
            )

        now = body_velocity(*at(0.0))
        before, after = (body_velocity(*at(t)) for t in (-h, h))
        turned = log(exp(at(-h)[0]).T @ exp(at(h)[0])) / (2 * h)
        scale = 1 + np.abs(c).max() ** 3
        np.testing.assert_allclose(now[0], turned, atol=1e-8 * scale)
        for k in (0, 1):
            slope = (after[k] - before[k]) / (2 * h)
            np.testing.assert_allclose(now[k + 1], slope, atol=1e-7 * scale)
        np.testing.assert_allclose(right_jacobian_inverse(c[0]) @ now[0], c[1], atol=1e-12 * scale)


@pytest.mark.parametrize("points", [2, 3, 4, 9])
def test_a_rotation_about_one_axis_is_a_spline_of_its_angle(points: int) -> None:
    rng = np.random.default_rng(points)
    robot = sp.load("ur5e").with_base("floating")
    s = np.cumsum(rng.uniform(0.3, 2, points))
    angle = np.cumsum(rng.uniform(-1, 2.5, points))
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    q = np.tile(robot.neutral(), (points, 1))
    q[:, 3] = np.cos(angle / 2)
    q[:, 4:7] = np.sin(angle / 2)[:, None] * axis
    path = sp.paths.JointPath(robot, q, s)
    places = np.linspace(s[0], s[-1], 200)
    expected = Spline.through(s, angle[:, None])(places)[:, 0]
    half = expected / 2
    wanted = np.tile(robot.neutral(), (200, 1))
    wanted[:, 3], wanted[:, 4:7] = np.cos(half), np.sin(half)[:, None] * axis
    np.testing.assert_allclose(robot.difference(path.at(places), wanted), 0, atol=1e-12)


def test_velocity_and_acceleration_are_continuous_along_a_path() -> None:
    for seed in seeds(nightly(200, 8)):
        robot, rng = robot_of(seed), np.random.default_rng(seed)
        q = walk(robot, rng, int(rng.integers(1, 12)), rng.uniform(0.01, 1.5))
        path = sp.paths.JointPath(robot, q)
        assert np.abs(robot.difference(path.at(path.s), q)).max() < 1e-12
        other = sp.paths.JointPath(robot, flipped(robot, q))
        places = np.linspace(path.s[0], path.s[-1], 50)
        np.testing.assert_allclose(
            robot.difference(other.at(places), path.at(places)), 0, atol=1e-11
        )
        spline = path.spline
        inner = np.arange(1, len(spline.s) - 1)
        before, after = (spline.derivatives(spline.s[inner], k) for k in (inner - 1, inner))
        assert np.abs(robot.difference(after[0], before[0])).max(initial=0) < 1e-12
        for one, next_one in zip(before[1:3], after[1:3], strict=True):
            scale = 1 + np.abs(one).max(initial=0)
            np.testing.assert_allclose(next_one, one, atol=1e-9 * scale)
        h, at = 1e-6, places[1:-1]
        slope = robot.difference(path.at(at + h), path.at(at - h)) / (2 * h)
        found = spline.derivatives(at, spline.piece(at))[1]
        np.testing.assert_allclose(found, slope, atol=1e-6 * (1 + np.abs(found).max()))
        assert len(path) == 2 or np.isfinite(path.at(places)).all()


def test_a_path_between_two_configurations_takes_the_shortest_rotation() -> None:
    for seed in seeds(10):
        robot, rng = robot_of(seed), np.random.default_rng(seed)
        q = walk(robot, rng, 1, 1.0)
        path = sp.paths.JointPath(robot, q, [0.0, 1.0])
        share = np.linspace(0, 1, 11)
        expected = robot.integrate(q[0], share[:, None] * robot.difference(q[1], q[0]))
        np.testing.assert_allclose(robot.difference(path.at(share), expected), 0, atol=1e-12)


@pytest.mark.parametrize("jerk", [np.inf, 40.0])
def test_a_timed_motion_keeps_all_limits_of_a_floating_robot(jerk: float) -> None:
    robot = sp.load("ur5e").with_base("floating")
    n, dt = robot.nv, 1e-3
    for seed in seeds(nightly(20, 3)):
        rng = np.random.default_rng(seed)
        q = walk(robot, rng, int(rng.integers(1, 7)), 0.5)
        speed, acceleration = rng.uniform(0.5, 2, n), rng.uniform(2, 6, n)
        limits = sp.Limits.for_robot(
            robot, max_speed=speed, max_acceleration=acceleration, max_jerk=np.full(n, jerk)
        )
        path = sp.paths.JointPath(robot, q)
        motion = path.timed(limits, dt=dt)
        slack = 1 + 1e-6
        assert (np.abs(motion.qd) <= slack * speed).all()
        assert (np.abs(motion.qdd) <= slack * acceleration + 1e-6).all()
        assert (np.abs(np.diff(motion.qdd, axis=0) / dt) <= slack * jerk + 1e-3).all()
        # In a fastest motion, some limit acts nearly all the time.
        assert np.mean([bool(each) for each in np.asarray(motion.status)]) > 0.8
        np.testing.assert_allclose(robot.difference(motion.q[[0, -1]], q[[0, -1]]), 0, atol=1e-9)
        again = sp.paths.JointPath(robot, flipped(robot, q)).timed(limits, dt=dt)
        assert len(again) == pytest.approx(len(motion), abs=2)


def test_a_base_that_rests_does_not_change_the_timing_of_an_arm() -> None:
    arm = sp.load("ur5e")
    robot, rng = arm.with_base("floating"), np.random.default_rng(5)
    q = walk(arm, rng, 5, 0.6)
    whole = np.concatenate([np.tile(robot.random(seed=1)[:7], (6, 1)), q], axis=1)
    alone, made = (
        sp.paths.JointPath(one, each).timed() for one, each in ((arm, q), (robot, whole))
    )
    assert len(made) == pytest.approx(len(alone), abs=2)
    assert (made.qd[:, :6] == 0).all()


def test_the_tool_speed_is_bounded_while_the_base_turns() -> None:
    robot = sp.load("ur5e").with_base("floating")
    q = walk(robot, np.random.default_rng(2), 4, 0.5)
    free = sp.Limits.for_robot(robot, max_speed=np.full(12, 3.0))
    motion = sp.paths.JointPath(robot, q).timed(free, tool_speed=0.2, frame=robot.tips[0])
    speed = np.linalg.norm(np.diff(robot.fk(motion.q)[:, :3, 3], axis=0), axis=1) / 1e-3
    assert speed.max() < 0.2 * (1 + 1e-4)
    assert np.median(speed) > 0.199


def test_a_base_without_speed_limits_is_refused_by_name() -> None:
    robot = sp.load("ur5e").with_base("floating")
    path = sp.paths.JointPath(robot, walk(robot, np.random.default_rng(3), 3, 0.5))
    with pytest.raises(InputError, match=r"base/x.*Limits\.for_robot"):
        path.timed(sp.Limits.for_robot(robot))
    outside = np.tile(robot.neutral(), (2, 1))
    outside[1, 8] = 100.0
    with pytest.raises(InputError, match="100 for shoulder_lift_joint"):
        sp.paths.JointPath(robot, outside)


# ---- mode "path" of simulate ---------------------------------------------------------------------


def arc(start: Array, count: int) -> Array:
    """Return poses (count, 4, 4) along an arc on which the tool turns."""
    poses, share = np.tile(start, (count, 1, 1)), np.linspace(0, 1, count)
    poses[:, 0, 3] += 0.15 * share
    poses[:, 1, 3] += 0.05 * np.sin(3 * share)
    poses[:, :3, :3] = start[:3, :3] @ exp(np.outer(share, [0.1, -0.2, 0.4]))
    return poses


def test_in_mode_path_a_floating_robot_stays_on_its_path_inside_the_limits() -> None:
    robot = sp.load("ur5e").with_base("floating")
    for seed in seeds(3):
        rng = np.random.default_rng(seed)
        q = robot.random(seed=rng)
        poses = arc(robot.fk(q), 40)
        speed, acceleration = rng.uniform(0.05, 0.3, 12), rng.uniform(0.5, 2, 12)
        limits = sp.Limits.for_robot(
            robot, max_speed=speed, max_acceleration=acceleration, mode="path"
        )
        motion = sp.simulate(robot, q, target=poses, dt=0.01, limits=limits)
        assert np.abs(motion.error).max() < 1e-4
        np.testing.assert_allclose(robot.fk(motion.q[-1]), poses[-1], atol=1e-8)
        assert (np.abs(motion.qd) <= (1 + 1e-3) * speed).all()
        assert (np.abs(motion.qdd) <= (1 + 1e-2) * acceleration + 1e-3).all()
        again = sp.simulate(robot, flipped(robot, q[None])[0], target=poses, dt=0.01, limits=limits)
        np.testing.assert_allclose(robot.difference(again.q, motion.q), 0, atol=1e-7)


def test_in_mode_path_an_arm_on_a_base_held_by_a_task_moves_as_on_a_fixed_base() -> None:
    arm = sp.load("ur5e")
    robot, base, tip = arm.with_base("floating"), arm.description.root, arm.tips[0]
    q = np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.2])
    poses, holds = arc(arm.fk(q), 40), np.tile(np.eye(4), (40, 1, 1))
    whole = np.concatenate([robot.neutral()[:7], q])
    wide, narrow = (sp.Limits.for_robot(each, mode="path") for each in (robot, arm))
    alone = sp.simulate(arm, q, target=poses, dt=0.01, limits=narrow)
    tasks = [sp.PoseTask(base), sp.PoseTask(tip)]
    both = [[hold, pose] for hold, pose in zip(holds, poses, strict=True)]
    made = sp.simulate(robot, whole, tasks=tasks, target=both, dt=0.01, limits=wide)
    assert len(made) == len(alone)
    np.testing.assert_allclose(made.q[:, 7:], alone.q, atol=1e-6)
    np.testing.assert_allclose(
        robot.fk(made.q, base), np.tile(np.eye(4), (len(made.q), 1, 1)), atol=1e-8
    )
