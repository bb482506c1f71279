"""Quaternions in motions, files, criteria and limits: q has nq numbers, and q̇ has nv.

Changing the sign of the quaternions in q changes no result, and derivatives are those along
`Robot.integrate`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supple as sp
from cases import each
from generated import seeds
from moving_trees import Drawn, moving
from sizes import nightly
from supple.criteria import GravityTorque, LimitDistance, RestPosture
from supple.damping import Constant
from supple.errors import InputError
from supple.redundancy import NullSpace, extended_task

Array = np.ndarray
STEP = 1e-6


def other_sign(robot: sp.Robot, q: Array, seed: int = 0) -> Array:
    """Return q (..., nq) with quaternions of the other sign in a random part of the
    configurations.
    """
    made, rng = np.array(q), np.random.default_rng(seed)
    for at, name in enumerate(robot.position_names):
        if name.endswith("/qw"):
            made[..., at : at + 4] *= rng.choice([-1, 1], (*q.shape[:-1], 1))
    return made


def floating(seed: int) -> sp.Robot:
    """Return a random robot that has quaternions."""
    while (robot := moving(seed)).nq == robot.nv:
        seed += 1000
    return robot


def motion(robot: sp.Robot, q: Array, dt: float) -> sp.Trajectory:
    """Return the trajectory through configurations (K + 1, nq) with a time step dt."""
    steps = len(q) - 1
    one = sp.simulate(robot, q[0], velocity=np.zeros(6), frame=robot.tips[0], dt=dt, duration=dt)
    qd = robot.difference(q[1:], q[:-1]) / dt
    many = {
        name: np.repeat(getattr(one, name), steps, axis=0)
        for name in ("lambda2", "sigma_min", "command", "velocity", "error", "active")
    }
    status = type(one.status).of(sp.StepStatus, np.zeros(steps, np.int32))
    return sp.Trajectory(
        t=dt * np.arange(steps + 1), q=q, qd=qd, status=status, rows=one.rows, robot=robot, **many
    )


def wandering(robot: sp.Robot, rng: np.random.Generator, steps: int = 30) -> Array:
    """Return random successive configurations (steps + 1, nq) of a motion that
    bends and turns far.
    """
    q, v = [robot.random(seed=rng)], rng.normal(size=robot.nv)
    for _ in range(steps):
        v = 0.8 * v + rng.normal(size=robot.nv)
        q.append(robot.integrate(q[-1], 0.2 * v))
    return np.array(q)


# ---- motions -------------------------------------------------------------------------------------


def test_a_resampled_motion_does_not_depend_on_the_signs_of_quaternions() -> None:
    for seed in seeds(nightly(8, 4)):
        robot, rng = floating(seed), np.random.default_rng(seed)
        q = wandering(robot, rng)
        one = motion(robot, q, 0.01).resampled(0.003)
        other = motion(robot, other_sign(robot, q, seed), 0.01).resampled(0.003)
        np.testing.assert_allclose(robot.difference(other.q, one.q), 0, atol=1e-12)
        np.testing.assert_allclose(robot.difference(one.q[0], q[0]), 0, atol=1e-12)
        for ball in robot._balls:
            at = ball + sum(each < ball for each in robot._balls)
            size = np.linalg.norm(one.q[:, at : at + 4], axis=1)
            np.testing.assert_allclose(size, 1, atol=1e-14)
            own = slice(ball, ball + 3)
            fastest = np.linalg.norm(motion(robot, q, 0.01).qd[:, own], axis=1).max()
            assert np.linalg.norm(one.qd[:, own], axis=1).max() <= fastest * (1 + 1e-12)


@each("even", [True, False])
def test_a_rotation_of_a_base_about_one_axis_is_resampled_like_that_of_a_revolute_joint(
    even: bool,
) -> None:
    arm = sp.load("ur5e")
    free, rng = arm.with_base("floating"), np.random.default_rng(4)
    angle = np.cumsum(rng.uniform(-0.3, 0.9, 40))  # in total more than a turn
    q = np.zeros((40, free.nq))
    q[:, 3], q[:, 6], q[:, 7] = np.cos(angle / 2), np.sin(angle / 2), angle
    times = np.cumsum(np.full(40, 0.01) if even else rng.uniform(0.005, 0.02, 40))
    made, alone = (
        sp.Trajectory(**{**vars(motion(one, at, 0.01)), "t": times}).resampled(0.004)
        for one, at in ((free, q), (arm, q[:, 7:]))
    )
    np.testing.assert_allclose(made.q[:, 7:], alone.q, atol=1e-12)
    turned = free.difference(made.q, q[:1])[:, 5]  # equal up to full turns
    away = turned + angle[0] - alone.q[:, 0]
    np.testing.assert_allclose(away - 2 * np.pi * np.round(away / (2 * np.pi)), 0, atol=1e-12)


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_trajectories_with_quaternions_are_saved_and_loaded_with_and_without_a_robot(
    suffix: str, tmp_path: Path
) -> None:
    for seed in seeds(nightly(3, 1)):
        robot, rng = floating(seed), np.random.default_rng(seed)
        before = motion(robot, other_sign(robot, wandering(robot, rng)), 0.01)
        first = sp.Trajectory.load(before.save(tmp_path / f"one.{suffix}"))
        second = sp.Trajectory.load(first.save(tmp_path / f"two.{suffix}"))
        third = sp.Trajectory.load(tmp_path / f"two.{suffix}", robot)
        for after in (first, second, third):
            assert (after.q == before.q).all()
            assert (after.resampled(0.004).q == before.resampled(0.004).q).all()
        back = motion(robot, other_sign(robot, before.q[::-1], seed), 0.01)
        assert len(first + back) == len(before + back) == 2 * len(before)
        assert "joint speeds" in first._repr_html_()


def test_the_plot_of_a_trajectory_has_a_curve_for_each_velocity(tmp_path: Path) -> None:
    robot = sp.load("ur5e").with_base("floating")
    known = motion(robot, wandering(robot, np.random.default_rng(1)), 0.01)
    for one in (known, sp.Trajectory.load(known.save(tmp_path / "motion.npz"))):
        assert len(one.plot().axes[0].lines) == robot.nv


def test_the_error_for_a_gap_between_two_motions_names_the_joint_and_both_positions() -> None:
    robot = sp.load("ur5e").with_base("floating")
    q = robot.neutral()
    end = q.copy()
    end[-1] = 0.25
    first, second = motion(robot, np.stack([q, q]), 0.1), motion(robot, np.stack([end, end]), 0.1)
    with pytest.raises(InputError, match=r"wrist_3_joint at 0, then at 0\.25"):
        first + second


# ---- criteria ------------------------------------------------------------------------------------


def slopes(value: object, robot: sp.Robot, q: Array) -> Array:
    """Return the derivatives along `integrate`, by central differences."""
    sides = [robot.integrate(q, sign * STEP * np.eye(robot.nv)) for sign in (1, -1)]
    return np.array([(value(a) - value(b)) / (2 * STEP) for a, b in zip(*sides, strict=True)])  # type: ignore[operator]


def test_gradients_of_criteria_are_derivatives_along_displacements() -> None:
    for seed in seeds(nightly(12, 5)):
        robot, rng = Drawn(seed).robot, np.random.default_rng(seed)
        lower = np.where(rng.random(robot.nv) < 0.7, -rng.uniform(0.1, 2, robot.nv), -np.inf)
        every = (
            RestPosture(robot.random(seed=rng), rng.uniform(0, 2, robot.nv), robot),
            RestPosture(robot.random(seed=rng), robot=robot),
            LimitDistance(lower, -lower, robot),
            LimitDistance.for_robot(robot),
            GravityTorque(robot, rng.uniform(0, 2, robot.nv)),
        )
        for criterion in every:
            q = robot.random(seed=rng)
            h, gradient = criterion.value(q), criterion(q)
            assert gradient.shape == (robot.nv,)
            expected = slopes(criterion.value, robot, q)
            np.testing.assert_allclose(gradient, expected, atol=1e-8 * (1 + abs(h)), rtol=1e-7)
            same = other_sign(robot, q, seed)
            assert criterion.value(same) == pytest.approx(h, rel=1e-12)
            np.testing.assert_allclose(criterion(same), gradient, atol=1e-9 * (1 + abs(h)))


def test_the_limit_distance_depends_only_on_joints_with_limits() -> None:
    arm = sp.load("panda")
    robot = arm.with_base("floating")
    for q in robot.random(20, seed=1):
        on_base, alone = LimitDistance.for_robot(robot), LimitDistance.for_robot(arm)
        assert on_base.value(q) == pytest.approx(alone.value(q[7:]), rel=1e-14)
        np.testing.assert_allclose(on_base(q)[6:], alone(q[7:]), rtol=1e-14)
        assert (on_base(q)[:6] == 0).all()


def test_null_space_motion_of_a_floating_arm_minimizes_its_criterion() -> None:
    robot = sp.load("panda").with_base("floating")
    rest, q = robot.random(2, seed=7)
    criterion, start = RestPosture(rest, robot=robot), robot.fk(q)
    servo = sp.Servo(robot, dt=0.02, step=NullSpace(sp.DLS(Constant(1e-6)), criterion, 5.0))
    before = criterion.value(q)
    for _ in range(300):
        q = servo(q, target=start)
        assert criterion.value(q) < before + 1e-9
        before = criterion.value(q)
    assert np.abs(robot.fk(q) - start).max() < 1e-4
    gradient = criterion(q)  # where q is stationary, the gradient is orthogonal to the null space
    J = robot.jacobian(q)
    assert np.linalg.norm(gradient - np.linalg.pinv(J) @ (J @ gradient)) < 1e-2


def test_an_extended_task_has_the_derivatives_along_displacements() -> None:
    """Lengths are compared, because the basis of the null space turns with q, and lengths do not
    depend on the basis.
    """
    robot, h = sp.load("ur5e").with_base("floating"), 1e-5
    for seed in seeds(4):
        q, rest = robot.random(2, seed=seed)
        criterion = RestPosture(rest, robot=robot)
        task = extended_task(robot, sp.PoseTask(robot.tips[0]), criterion)
        value, J = task.function(q)
        assert (value.shape, J.shape) == ((6,), (6, robot.nv))

        def free(q: Array) -> Array:
            J = robot.jacobian(q)
            return np.eye(robot.nv) - np.linalg.pinv(J) @ J

        for v in np.eye(robot.nv):
            ends = [robot.integrate(q, sign * h * v) for sign in (1, -1)]
            plus, minus = (free(end) @ criterion(end) for end in ends)
            expected = np.linalg.norm(free(q) @ (plus - minus) / (2 * h))
            assert np.linalg.norm(J @ v) == pytest.approx(expected, abs=1e-6)


# ---- limits and messages -------------------------------------------------------------------------


def test_limits_that_a_joint_cannot_have_are_refused() -> None:
    robot = sp.load("panda").with_base("floating")
    for limits in ({"lower": {"base/x": -1.0}}, {"max_speed": {"base/rz": 1.0}}):
        with pytest.raises(InputError, match="base/"):
            robot.with_limits(**limits)
    with pytest.raises(InputError, match="base/x"):
        robot.with_limits(max_speed=np.full(robot.nv, 0.5))
    slower = robot.with_limits(max_speed=0.5)
    assert (slower.max_speed[6:] == 0.5).all()
    assert np.isinf(slower.max_speed[:6]).all()
    with pytest.raises(InputError, match="base/ry"):
        sp.Servo(robot, dt=0.01, limits=sp.Limits.for_robot(robot, upper={"base/ry": 1.0}))


def test_the_error_for_angles_in_degrees_has_their_index_in_q() -> None:
    robot = sp.load("panda").with_base("floating")
    q = robot.neutral()
    at = robot.position_names.index("panda_joint4")
    q[at] = 90.0
    servo, target = sp.Servo(robot, dt=0.01), robot.fk(robot.neutral())
    for call in (lambda: servo(q, target=target), lambda: sp.solve(robot, target, q0=q)):
        with pytest.raises(InputError, match=rf"\[{at}\] = 90 for the joint 'panda_joint4'"):
            call()
