"""Limits that change during a motion take effect within the limits on acceleration and jerk.

SUPPLE_MOTIONS sets the number of random motions.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace

import numpy as np
import pytest

import generated
from loops import Array, robot
from supple import DLS, Limits, PostureTask, Robot, Servo, StepStatus, damping, simulate
from supple.errors import InputError
from supple.tasks import OpenTask

MOTIONS = int(os.environ.get("SUPPLE_MOTIONS", "24"))
# Seeds of motions in which rounding errors matter, and of a motion that loses its direction.
HARD = (197, 337, 467, 1702)
STEPS = 300  # number of steps of a motion
TOO_FAST = StepStatus.SPEED_EXCEEDED | StepStatus.NORM_EXCEEDED
Q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])


def some_limits(rng: np.random.Generator, arm: Robot, mode: str) -> Limits:
    """Return limits on acceleration, often also on jerk and norm, and wide position limits."""
    n = arm.dof
    acceleration = 10 ** rng.uniform(-0.5, 1.5, n)
    jerk = acceleration * 10 ** rng.uniform(0.5, 2, n)
    return Limits(
        np.full(n, -1e3),
        np.full(n, 1e3),
        10 ** rng.uniform(-1, 1, n),
        acceleration,
        jerk if rng.random() < 0.6 else np.full(n, np.inf),
        max_norm=float(10 ** rng.uniform(-1, 1)) if rng.random() < 0.5 else np.inf,
        mode=mode,  # type: ignore[arg-type]
    )


def changed(rng: np.random.Generator, limits: Limits) -> Limits:
    """Return limits that differ in speed and norm, with higher acceleration and jerk."""
    n = len(limits.lower)
    more = rng.choice([1.0, 1.0, 3.0])
    return replace(
        limits,
        max_speed=limits.max_speed * 10 ** rng.uniform(-1.5, 0.5, n),
        max_acceleration=limits.max_acceleration * more,
        max_jerk=limits.max_jerk * more,
        max_norm=float(10 ** rng.uniform(-1.5, 1)) if rng.random() < 0.5 else np.inf,
    )


def steps_to_slow_down(limits: Limits, speed: Array, dt: float) -> float:
    """Return an upper bound on the number of steps to rest within acceleration and jerk."""
    ramp_time = limits.max_acceleration / limits.max_jerk  # zero if the jerk is not limited
    peak = np.abs(speed) + 0.5 * limits.max_acceleration * ramp_time
    return float((2 * ramp_time + peak / limits.max_acceleration).max()) / dt + 6


@pytest.mark.parametrize("mode", ["exact", "scale"])
@pytest.mark.parametrize("seed", sorted({*generated.seeds(MOTIONS), *HARD}))
def test_joints_slow_down_to_new_limits_within_acceleration_and_jerk(seed: int, mode: str) -> None:
    """Joints exceed limits on speed or norm only while they slow down; the status reports this."""
    rng = np.random.default_rng((1, seed))
    arm = generated.robot(rng, joints=int(rng.integers(1, 8)), size=1.0)
    arm = arm.with_limits(lower=-1e3, upper=1e3)
    dt = float(10 ** rng.uniform(-3, -1.5))
    limits = some_limits(rng, arm, mode)
    servo = Servo(arm, PostureTask(), dt=dt, limits=limits, step=DLS(damping.Constant(1e-6)))
    q = rng.normal(size=arm.dof)
    speeds, said, bounds, norms = [np.zeros(arm.dof)], [], [], []
    allowed = 0.0  # steps for which the speeds may exceed the limits
    for k in range(STEPS):
        if k % 60 == 0:
            velocity = rng.normal(size=arm.dof) * 10 ** rng.uniform(-1, 1.5)
        if k and k % 30 == 0:
            limits = changed(rng, limits)
            servo.limits = limits
            allowed = k + steps_to_slow_down(limits, speeds[-1], dt)
        q = servo(q, velocity)
        speeds.append(servo.qd)
        said.append(int(servo.status))
        bounds.append((limits.max_speed, limits.max_acceleration, limits.max_jerk))
        norms.append(limits.max_norm)
        assert not said[-1] & TOO_FAST or k <= allowed
    qd, status, norm = np.array(speeds), np.array(said), np.array(norms)
    speed, acceleration, jerk = np.array(bounds).swapaxes(0, 1)
    change = np.diff(qd, axis=0)
    noise = 32 * np.finfo(float).eps * (np.abs(qd[:-1]) + np.abs(qd[1:]))
    assert (np.abs(change) <= acceleration * dt * (1 + 1e-9) + noise).all()
    bend = np.abs(np.diff(change, axis=0, prepend=0))
    assert (bend <= jerk * dt * dt * (1 + 1e-6) + 3 * noise).all()
    too_fast = (np.abs(qd[1:]) > speed * (1 + 1e-9)).any(axis=1)
    np.testing.assert_array_equal(too_fast, (status & StepStatus.SPEED_EXCEEDED) != 0)
    too_fast = np.linalg.norm(qd[1:], axis=1) > norm * (1 + 1e-9)
    np.testing.assert_array_equal(too_fast, (status & StepStatus.NORM_EXCEEDED) != 0)


def test_changed_limits_take_effect_in_the_next_step() -> None:
    arm = robot("ur5e")
    servo = Servo(arm, dt=0.01, limits=Limits.for_robot(arm))
    q = np.array([0.3, -1.2, 1.4, -1.1, 0.5, 0.2])
    servo(q, [0.5, 0, 0, 0, 0, 0])
    assert np.abs(servo.qd).max() > 0.1
    servo.limits = slow = Limits.for_robot(arm, max_speed=0.05)
    assert servo.limits is slow
    servo(q, [0.5, 0, 0, 0, 0, 0])
    assert np.abs(servo.qd).max() <= 0.05


@pytest.mark.parametrize("case", ["default", "open task", "halt", "norm of the step"])
def test_a_servo_given_new_limits_equals_one_created_with_them(case: str) -> None:
    """This includes values that depend on the limits, such as the default gain."""
    arm = robot("panda")
    mode = "halt" if case == "halt" else "exact"
    before, after = (
        Limits.for_robot(arm, max_acceleration=a, max_norm=b, mode=mode, slow_condition=c)  # type: ignore[arg-type]
        for a, b, c in ((10.0, np.inf, 17.0), (0.8, 0.5, 5.0))
    )
    task = OpenTask(lambda q: q[:3], rows=3) if case == "open task" else None
    step = DLS(damping.Optimal(0.3)) if case == "norm of the step" else None
    target = [0.3, -0.2, 0.1] if task else arm.fk(Q + 0.2)
    made = [Servo(arm, task, dt=0.01, limits=one, step=step) for one in (before, after)]
    made[0].limits = after
    assert made[0].gain == made[1].gain
    if case == "default":  # the default step brakes by itself: limits do not lower its gain
        assert made[0].gain == 20.0
    elif case != "halt":
        assert made[0].gain < Servo(arm, task, dt=0.01, limits=before, step=step).gain
    q = [Q, Q]
    for _ in range(50):
        q = [servo(at, target=target) for servo, at in zip(made, q, strict=True)]
        np.testing.assert_array_equal(q[0], q[1])
        assert made[0].status == made[1].status


def test_a_copied_servo_slows_down_like_the_original() -> None:
    arm = robot("panda")
    limits = Limits.for_robot(arm, max_acceleration=5.0, max_jerk=100.0)
    servo, q = Servo(arm, dt=0.004, limits=limits), Q
    for _ in range(100):
        q = servo(q, [0.4, 0.2, 0, 0, 0, 0])
    servo.limits = replace(limits, max_speed=0.02 * limits.max_speed, max_norm=0.05)
    q = servo(q, np.zeros(6))
    other = copy.deepcopy(servo)
    for _ in range(150):
        np.testing.assert_array_equal(servo(q, np.zeros(6)), other(q, np.zeros(6)))
        assert servo.status == other.status
    assert not servo.status & TOO_FAST


def test_a_servo_reset_to_excessive_speeds_slows_down_to_its_limits() -> None:
    arm = robot("planar2")
    limits = Limits.for_robot(arm, max_speed=0.5, max_acceleration=8.0)
    servo = Servo(arm, dt=0.01, limits=limits)
    servo.reset([1.5, 0.0])
    speeds = [1.5]
    q = np.array([0.3, 0.9])
    while speeds[-1] > 0.5:
        q = servo(q, np.zeros(6))
        speeds.append(float(servo.qd[0]))
    np.testing.assert_allclose(np.diff(speeds), -0.08, atol=1e-12)
    assert len(speeds) == 14
    made = simulate(arm, [0.3, 0.9], velocity=np.zeros(6), dt=0.01, duration=0.3, limits=limits,
                 qd0=[1.5, 0.0])  # fmt: skip
    assert made.status.count(StepStatus.SPEED_EXCEEDED) == 12


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (None, "Limits of 7 joints"),
        (Limits.for_robot(robot("ur5e")), "Limits of 7 joints"),
        (Limits.for_robot(robot("panda"), mode="scale"), "mode of a Servo cannot change"),
        (Limits.for_robot(robot("panda"), mode="path"), "only for supple.simulate"),
    ],
)
def test_limits_of_another_robot_or_mode_are_refused(bad: object, match: str) -> None:
    servo = Servo(robot("panda"), dt=0.01)
    limits = servo.limits
    with pytest.raises(InputError, match=match):
        servo.limits = bad  # type: ignore[assignment]
    assert servo.limits is limits
