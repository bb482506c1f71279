"""Resolved-acceleration control: a Servo with order=2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from loops import Array, moved, pose_of, robot, run, turned
from supple import (
    DLS,
    Limits,
    PoseTask,
    PositionTask,
    Servo,
    StepStatus,
    damping,
    linearize,
    simulate,
)
from supple.steps import Pseudoinverse

AT = {
    "panda": np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6]),
    "puma560": np.array([0.2, 0.3, 0.4, 0.3, 0.8, -0.4]),
    "stanford": np.array([0.2, 0.7, 0.6, 0.3, 0.8, -0.4]),
}
AXIS = np.array([0.36, -0.48, 0.8])
SIZES, RATES = np.array([-0.05, 0.04, 0.03]), np.array([4.0, 5.0, 3.0])
GAIN, RATE = 100.0, 20.0


class Path:
    """A path of poses on a circle, with rotation back and forth and exact derivatives."""

    def __init__(self, name: str) -> None:
        self.start = pose_of(name, AT[name])

    def pose(self, t: float) -> Array:
        at = SIZES * (1 - np.cos(RATES * t))
        return moved(turned(self.start, AXIS, 0.2 * (1 - math.cos(3 * t))), at)

    def velocity(self, t: float) -> Array:
        v = SIZES * RATES * np.sin(RATES * t)
        return np.concatenate([v, 0.2 * 3 * math.sin(3 * t) * AXIS])

    def acceleration(self, t: float) -> Array:
        a = SIZES * RATES**2 * np.cos(RATES * t)
        return np.concatenate([a, 0.2 * 9 * math.cos(3 * t) * AXIS])


def literal(name: str, path: Path, dt: float, steps: int, drifting: bool) -> Array:
    """Return q (steps + 1, n) of the motion of a Servo, computed in NumPy.

    q̈ = -c q̇ + J⁺(a + k_v (v - J q̇) + k_p e - J̇q̇ + c J q̇),   q̇ += q̈ dt,   q += q̇ dt
    """
    arm = robot(name)
    q, qd = AT[name], np.zeros(arm.dof)
    way = [q]
    for k in range(steps):
        t = k * dt
        J = np.asarray(arm.jacobian(q))
        e = PoseTask().linearize(arm, q, path.pose(t)).e
        asked = path.acceleration(t) + RATE * (path.velocity(t) - J @ qd) + GAIN * e
        if drifting:
            asked = asked - np.asarray(arm.bias_acceleration(q, qd))
        qdd = np.linalg.pinv(J) @ (asked + RATE * J @ qd) - RATE * qd
        qd = qd + dt * qdd
        q = q + dt * qd
        way.append(q)
    return np.array(way)


def followed(name: str, dt: float, steps: int, **more: Any) -> Any:
    path = Path(name)
    given: dict[str, Any] = {
        "target": path.pose,
        "velocity": path.velocity,
        "acceleration": path.acceleration,
    }
    return simulate(
        robot(name), AT[name], dt=dt, duration=steps * dt, order=2,
        limits=Limits.none(robot(name)), **(given | more),
    )  # fmt: skip


def errors(name: str, q: Array, dt: float) -> Array:
    path = Path(name)
    poses = np.array([path.pose(k * dt) for k in range(len(q))])
    return np.linalg.norm(linearize(robot(name), PoseTask(), q, poses).e, axis=1)


@pytest.mark.parametrize("name", AT)
def test_a_servo_of_order_2_moves_as_a_literal_transcription_in_numpy(name: str) -> None:
    result = followed(name, 0.01, 150, step=Pseudoinverse())
    expected = literal(name, Path(name), 0.01, 150, drifting=True)
    np.testing.assert_allclose(result.q, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", AT)
def test_without_the_bias_acceleration_the_error_is_far_larger(name: str) -> None:
    """The bias is J̇q̇. Here, a loop without it is compared with the Servo."""
    dt, steps = 0.002, 500
    mine = errors(name, followed(name, dt, steps).q, dt).max()
    without = errors(name, literal(name, Path(name), dt, steps, drifting=False), dt).max()
    assert mine < 0.6 * without


def worst(name: str, dt: float, **more: Any) -> float:
    return float(errors(name, followed(name, dt, round(1.2 / dt), **more).q, dt).max())


@pytest.mark.parametrize("name", AT)
def test_the_tracking_error_falls_with_the_time_step(name: str) -> None:
    """Halving dt halves the error, because q̇ is constant during dt."""
    coarse, middle, fine = (worst(name, dt, step=Pseudoinverse()) for dt in (0.02, 0.01, 0.005))
    assert 1.6 < coarse / middle < 2.6
    assert 1.6 < middle / fine < 2.6
    assert fine < 5e-3
    assert worst(name, 0.001) < 0.5 * worst(name, 0.01)


def test_the_reported_command_of_order_2_is_the_acceleration_minus_the_bias() -> None:
    """J q̈ equals the reported command, from which J̇q̇ is already subtracted."""
    result = followed("panda", 0.01, 20, step=Pseudoinverse())
    arm = robot("panda")
    for k in range(1, 20):
        J, qdd = np.asarray(arm.jacobian(result.q[k])), (result.qd[k] - result.qd[k - 1]) / 0.01
        np.testing.assert_allclose(J @ qdd, result.command[k], rtol=0, atol=1e-9)


@pytest.mark.parametrize("rest", [2.0, 10.0])
def test_with_order_2_self_motion_decays_at_the_rate_rest_gain(rest: float) -> None:
    """Self-motion decays by the factor (1 - rest_gain dt) in each step; the frame stays."""
    arm, dt = robot("panda"), 0.002
    servo = Servo(arm, dt=dt, order=2, rest_gain=rest, limits=Limits.none(arm))
    q = AT["panda"]
    spin = np.linalg.svd(np.asarray(arm.jacobian(q)))[2][-1]
    servo.reset(spin)
    home, sizes = pose_of("panda", q), []
    for _ in range(500):
        q = servo(q, target=home, velocity=np.zeros(6))
        sizes.append(float(np.linalg.norm(servo.qd)))
    expected = (1 - rest * dt) ** np.arange(1, 501)
    np.testing.assert_allclose(sizes, expected, rtol=0.05, atol=2e-3)
    assert np.abs(pose_of("panda", q) - home).max() < 2e-3


@pytest.mark.parametrize("given", ["target", "nothing", "velocity"])
def test_with_order_2_an_arm_without_a_commanded_velocity_comes_to_rest(given: str) -> None:
    """With a target, the arm rests at the target; without a command, it stops."""
    arm, dt = robot("panda"), 0.005
    servo = Servo(arm, dt=dt, order=2, limits=Limits.none(arm))
    q0 = AT["panda"]
    servo.reset(np.linspace(-0.4, 0.5, 7))
    goal = moved(pose_of("panda", q0), np.array([0.05, 0.05, -0.05]))
    wish: dict[str, Any] = {
        "target": {"target": goal},
        "nothing": {},
        "velocity": {"velocity": np.zeros(6)},
    }[given]
    q, qd = run(servo, q0, 800, **wish)
    assert np.linalg.norm(qd[-1]) < 1e-6
    if given == "target":
        assert np.abs(pose_of("panda", q[-1]) - goal).max() < 1e-7


def test_commanded_accelerations_are_followed_without_feedback() -> None:
    """With both gains zero, the velocity of the hand is v = a t for a commanded acceleration a."""
    arm, dt = robot("panda"), 1e-3
    servo = Servo(arm, PositionTask(), dt=dt, order=2, limits=Limits.none(arm))
    a = np.array([0.1, -0.2, 0.3])
    q, qd = run(servo, AT["panda"], 500, acceleration=a)
    v = np.asarray(arm.jacobian(q[-1]))[:3] @ qd[-1]
    np.testing.assert_allclose(v, 0.5 * a, rtol=0, atol=1e-3)


@pytest.mark.parametrize("mode", ["exact", "scale"])
def test_with_order_2_joint_limits_hold_in_every_step(mode: Any) -> None:
    """Targets jump and limits are tight; the last target is reached."""
    arm, dt = robot("panda"), 0.005
    limits = Limits.for_robot(arm, max_acceleration=5.0, max_norm=1.0, mode=mode)
    servo = Servo(arm, dt=dt, order=2, limits=limits)
    q, before, seen = AT["panda"], np.zeros(7), set()
    for k in range(3):
        goal = pose_of("panda", AT["panda"] + 0.4 * np.cos(np.arange(7) + 2 * k))
        for _ in range(1500):
            q = servo(q, target=goal)
            qd = servo.qd
            seen.update(servo.status)
            assert ((q >= limits.lower) & (q <= limits.upper)).all()
            assert (np.abs(qd) <= limits.max_speed).all()
            assert np.linalg.norm(qd) <= 1.0
            assert (np.abs(qd - before) <= 5 * dt + 1e-12).all()
            before = qd
        assert np.abs(pose_of("panda", q) - goal).max() < 1e-5
    assert StepStatus.ACCELERATION_LIMIT in seen


def test_with_order_2_speeds_from_a_singular_start_are_bounded() -> None:
    arm = robot("ur5e")
    limits = Limits.for_robot(arm, max_norm=1.0, max_acceleration=10.0)
    for step in (None, DLS(damping.Optimal(5.0)), Pseudoinverse()):
        servo = Servo(arm, dt=0.01, order=2, step=step, limits=limits)
        q, qd = run(servo, np.zeros(6), 100, velocity=np.ones(6), acceleration=np.ones(6))
        assert np.isfinite(q).all()
        assert (np.linalg.norm(qd, axis=1) <= 1.0).all()
