"""Targets of a Servo that jump, move, or leave the reach and come back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cases import each
from loops import Array, moved, pose_of, robot, run, somewhere, turned
from supple import DLS, Limits, PoseTask, PositionTask, Servo, damping, simulate
from supple.steps import Pseudoinverse

AT = {
    "panda": np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6]),
    "ur5e": np.array([0.3, -1.5, 1.8, -0.9, 1.3, 0.2]),
    "puma560": np.array([0.2, 0.3, 0.4, 0.3, 0.8, -0.4]),
    "stanford": np.array([0.2, 0.7, 0.6, 0.3, 0.8, -0.4]),
}
PLANE = PositionTask(rows=("x", "y"))


def distance(name: str, q: Array, target: Array) -> float:
    return float(np.abs(pose_of(name, q) - target).max())


def turns(qd: Array) -> int:
    """Return the largest number of reversals of a joint that moves at noticeable speed."""
    fast = np.where(np.abs(qd) > 1e-3 * np.abs(qd).max(), np.sign(qd), 0.0)
    return max(int((np.diff(column[column != 0]) != 0).sum()) for column in fast.T)


@each("name", AT)
@each("order", [1, 2])
def test_limits_hold_and_each_target_is_reached_when_the_target_jumps(
    name: str, order: int
) -> None:
    """Limits of speed and acceleration hold at every jump, and every target is reached."""
    arm, dt = robot(name), 0.01
    limits = Limits.for_robot(arm, max_norm=1.5, max_acceleration=20.0)
    servo = Servo(arm, dt=dt, limits=limits, order=order)
    q, before = AT[name], np.zeros(arm.dof)
    for k in range(4):
        target = pose_of(name, AT[name] + 0.3 * np.cos(np.arange(arm.dof) + 2 * k))
        q_all, qd = run(servo, q, 600, target=target)
        q = q_all[-1]
        speeds = np.vstack([before, qd])
        assert (np.linalg.norm(qd, axis=1) <= 1.5).all()
        assert (np.abs(np.diff(speeds, axis=0)) <= 20 * dt + 1e-12).all()
        assert distance(name, q, target) < 1e-6
        assert turns(qd) <= 5  # in 600 steps: some joints overshoot, but none oscillates quickly
        before = qd[-1]


def reach() -> float:
    return float(np.linalg.norm(pose_of("planar2", np.zeros(2))[:2, 3]))


@pytest.mark.parametrize("beyond", [1.0, 1.05, 1.5, 4.0])
@pytest.mark.parametrize("dt", [0.002, 0.02])
def test_a_planar_arm_stretches_toward_an_unreachable_target(beyond: float, dt: float) -> None:
    """The stretched arm stops without oscillating, and meets the target exactly when it returns."""
    arm = robot("planar2")
    servo = Servo(arm, PLANE, dt=dt, limits=Limits.none(arm))
    angle = 0.7
    far = beyond * reach() * np.array([math.cos(angle), math.sin(angle), 0.0])
    q, qd = run(servo, np.array([0.1, 1.2]), round(12 / dt), target=far)
    assert turns(qd) <= 1
    at = pose_of("planar2", q[-1])[:3, 3]
    closest = far / max(beyond, 1.0)
    # Near the boundary, a joint error of √ε causes only a position error of order ε.
    np.testing.assert_allclose(at, closest, atol=1e-6 if beyond > 1.01 else 1e-3)
    if beyond > 1.01:
        assert np.abs(qd[-1]).max() < 1e-4
    near = 0.6 * reach() * np.array([math.cos(0.9), math.sin(0.9), 0.0])
    q, qd = run(servo, q[-1], round(12 / dt), target=near)
    np.testing.assert_allclose(pose_of("planar2", q[-1])[:3, 3], near, atol=1e-9)


def test_damping_by_curvature_stops_the_arm_at_the_end_of_its_reach() -> None:
    """DW, Conclusions: damping by the curvature of the reach prevents the oscillation of the
    undamped step (see the next test), and the arm stretches toward its target.
    """
    arm, dt = robot("planar2"), 0.02
    step = DLS(damping.Curvature.for_robot(arm, dt=1 / 20))  # the default gain is 20 per second
    limits = Limits.for_robot(arm, max_norm=2.0)
    servo = Servo(arm, PLANE, dt=dt, step=step, limits=limits)
    q, qd = run(servo, np.array([0.1, 1.2]), 600, target=np.array([1.5 * reach(), 0.0, 0.0]))
    assert turns(qd) < 10
    np.testing.assert_allclose(pose_of("planar2", q[-1])[:3, 3], [reach(), 0, 0], atol=1e-3)


def test_the_undamped_step_oscillates_at_the_end_of_the_reach() -> None:
    """This shows that the previous test can fail."""
    arm = robot("planar2")
    servo = Servo(
        arm, PLANE, dt=0.02, step=Pseudoinverse(), limits=Limits.for_robot(arm, max_norm=2.0)
    )
    _, qd = run(servo, np.array([0.1, 1.2]), 600, target=np.array([1.5 * reach(), 0.0, 0.0]))
    assert turns(qd) > 50


def stationary(name: str, q: Array, target: Array) -> float:
    """Return the norm of the gradient of ½‖e‖² divided by ‖e‖ [m or rad of e per rad of q]."""
    lin = PoseTask().linearize(robot(name), q, target)
    return float(np.linalg.norm(lin.J.T @ lin.e) / np.linalg.norm(lin.e))


@pytest.mark.parametrize("name", ["panda", "ur5e", "puma560"])
def test_an_arm_rests_near_a_target_out_of_reach_and_then_follows_it_back(name: str) -> None:
    """The arm rests at a local minimum of the error, without oscillating."""
    arm, q0 = robot(name), AT[name]
    free = Limits(*(end(arm) for end in (_lower, _upper, _speed, _speed)), max_norm=2.0)
    servo = Servo(arm, dt=0.01, limits=free)
    home = pose_of(name, q0)
    far = moved(home, home[:3, 3] / np.linalg.norm(home[:3, 3]) * 1.5)
    q, qd = run(servo, q0, 3000, target=far)
    assert (np.linalg.norm(qd, axis=1) <= 2.0).all()
    assert turns(qd) <= 3
    assert np.linalg.norm(qd[-1]) < 1e-3
    assert stationary(name, q[-1], far) < 1e-4
    # A dense random search finds no configuration nearby with a smaller error.
    rng = np.random.default_rng(3)

    def far_off(at: Array) -> float:
        return float(np.linalg.norm(PoseTask().linearize(arm, at, far).e))

    here = far_off(q[-1])
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(40):
            assert far_off(q[-1] + size * rng.normal(size=arm.dof)) > here - 1e-5
    q, qd = run(servo, q[-1], 3000, target=home)
    assert (np.linalg.norm(qd, axis=1) <= 2.0).all()
    assert distance(name, q[-1], home) < 1e-6


def _lower(arm: Any) -> Array:
    return np.full(arm.dof, -math.inf)


def _upper(arm: Any) -> Array:
    return np.full(arm.dof, math.inf)


_speed = _upper


# ---- targets that move -------------------------------------------------------------------------


def circle(name: str) -> Any:
    """Return a function of time that returns a pose, which moves on a circle and rocks, and its
    twist.
    """
    T = pose_of(name, AT[name])
    axis = np.array([0.36, -0.48, 0.8])

    def pose(t: float) -> Array:
        at = 0.1 * np.array([math.cos(2 * t) - 1, math.sin(2 * t), 0.5 * math.sin(t)])
        return moved(turned(T, axis, 0.3 * math.sin(1.5 * t)), at)

    def twist(t: float) -> Array:
        v = 0.1 * np.array([-2 * math.sin(2 * t), 2 * math.cos(2 * t), 0.5 * math.cos(t)])
        return np.concatenate([v, 0.3 * 1.5 * math.cos(1.5 * t) * axis])

    return pose, twist


def worst(name: str, dt: float, **more: Any) -> float:
    pose, twist = circle(name)
    arm = robot(name)
    if more.pop("exact", False):
        more["velocity"] = twist
    result = simulate(
        arm, AT[name], target=pose, dt=dt, duration=2.0, limits=Limits.none(arm), **more
    )
    return float(np.linalg.norm(result.error[len(result) // 2 :], axis=1).max())


@pytest.mark.parametrize("name", AT)
def test_with_gain_1_over_dt_the_tracking_error_is_of_second_order(name: str) -> None:
    """With gain 1/dt, only the error of one step remains, so halving dt divides it by four.

    The error of one explicit step is of order dt². A fixed gain removes only the fraction gain dt
    of the error in each step, so that the error is of first order. The default step uses J in the
    middle of the step: its error is of second order with a fixed gain.
    """
    coarse, fine = (worst(name, dt, gain=1 / dt, step=Pseudoinverse()) for dt in (0.02, 0.01))
    assert 3.5 < coarse / fine < 4.5
    coarse, fine = (worst(name, dt, gain=10.0, step=Pseudoinverse()) for dt in (0.01, 0.005))
    assert 1.7 < coarse / fine < 2.5
    coarse, fine = (worst(name, dt, gain=10.0) for dt in (0.01, 0.005))
    assert 3.5 < coarse / fine < 4.5


@pytest.mark.parametrize("name", AT)
def test_without_feed_forward_the_arm_lags_by_speed_over_gain(name: str) -> None:
    """Without feed-forward, the arm follows the target at a distance of speed/gain."""
    without = worst(name, 0.005, feedforward=False, gain=10.0)
    differences = worst(name, 0.005, gain=10.0)
    exact = worst(name, 0.005, gain=10.0, exact=True)
    assert differences < 0.1 * without
    assert exact < 0.1 * without
    assert 0.01 < without < 0.1


@each("gain", [0.0, 1.0, 10.0, 50.0])
@each("dt", [0.001, 0.02])
def test_feedback_reduces_an_error_to_zero_geometrically(gain: float, dt: float) -> None:
    """Each step multiplies the error to a fixed target by (1 - gain dt)."""
    arm, q0 = robot("panda"), AT["panda"]
    target = moved(pose_of("panda", q0), np.array([1e-4, -2e-4, 1e-4]))
    steps = 20
    result = simulate(
        arm, q0, target=lambda t: target, dt=dt, duration=steps * dt, gain=gain,
        limits=Limits.none(arm),
    )  # fmt: skip
    errors = np.linalg.norm(result.error, axis=1)
    expected = np.sqrt(6e-8) * (1 - gain * dt) ** np.arange(1, steps + 1)
    np.testing.assert_allclose(errors, expected, rtol=1e-2, atol=1e-7)


def test_targets_at_uneven_times_give_the_same_path_as_at_even_times() -> None:
    """Speeds are computed for each interval from its own duration."""
    pose, twist = circle("ur5e")
    arm = robot("ur5e")
    rng = np.random.default_rng(8)
    t = np.concatenate([[0.0], np.cumsum(rng.uniform(0.002, 0.01, 300))])
    result = simulate(arm, AT["ur5e"], target=pose, times=t, limits=Limits.none(arm))
    np.testing.assert_array_equal(result.t, t)
    np.testing.assert_allclose(
        np.diff(result.q, axis=0), result.qd * np.diff(t)[:, None], rtol=0, atol=1e-14
    )
    assert np.linalg.norm(result.error, axis=1).max() < 2e-3
    given = simulate(
        arm, AT["ur5e"], target=[pose(x) for x in t], velocity=[twist(x) for x in t], times=t,
        limits=Limits.none(arm),
    )  # fmt: skip
    assert np.linalg.norm(given.error, axis=1).max() < 3e-3


def test_a_frame_moves_by_its_twist_times_the_duration() -> None:
    """Commanded by a twist without a target, the frame has moved by twist × 1 s after a second."""
    arm, q0 = robot("panda"), AT["panda"]
    v = np.array([0.1, -0.05, 0.05, 0.0, 0.0, 0.0])
    dt, goal = 1e-3, moved(pose_of("panda", q0), v[:3])
    own = Limits.for_robot(arm)
    result = simulate(arm, q0, velocity=lambda t: v, dt=dt, duration=1.0, limits=own)
    assert distance("panda", result.q[-1], goal) < 1e-4
    assert not result.error.any()
    # With default limits on acceleration, the frame starts from rest and lags behind.
    result = simulate(arm, q0, velocity=lambda t: v, dt=dt, duration=1.0)
    limits = Servo(arm, dt=dt).limits
    start = (np.abs(result.qd[60]) / limits.max_acceleration).max()
    assert 0 < start < 0.05
    assert distance("panda", result.q[-1], goal) < np.linalg.norm(v) * (start / 2 + dt) + 1e-4


def test_motion_to_a_target_half_a_turn_away_is_finite_and_bounded() -> None:
    arm = robot("ur5e")
    q0 = somewhere("ur5e")
    half = turned(pose_of("ur5e", q0), np.array([0.0, 0.0, 1.0]), math.pi)
    servo = Servo(arm, dt=0.01, limits=Limits.for_robot(arm, max_norm=2.0))
    q, qd = run(servo, q0, 400, target=half)
    assert np.isfinite(q).all()
    assert (np.linalg.norm(qd, axis=1) <= 2.0).all()
