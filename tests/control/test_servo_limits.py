"""Limits hold in every step of every motion, and the step inside them is optimal."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from loops import NAMES, Array, robot, somewhere
from supple import DLS, Limits, PoseTask, Servo, StepStatus, damping
from supple.criteria import RestPosture
from supple.redundancy import NullSpace, Priority
from supple.steps import Transpose, WeightedDLS

MODES = ("exact", "scale")


def some_limits(name: str, mode: Any, acceleration: float, **more: Any) -> Limits:
    """Return finite limits; the first joint has no position limit, the last no speed limit."""
    arm = robot(name)
    own = {
        "lower": np.where(np.isfinite(arm.lower), arm.lower, -2.0),
        "upper": np.where(np.isfinite(arm.upper), arm.upper, 2.0),
        "max_speed": np.where(np.isfinite(arm.max_speed), arm.max_speed, 1.5),
        "max_acceleration": np.full(arm.dof, acceleration),
    }
    own["lower"][0], own["upper"][0], own["max_speed"][-1] = -np.inf, np.inf, np.inf
    return Limits(**(own | more), mode=mode)


def wishes(name: str, seed: int) -> Any:
    """Yield commands that jump every 15 steps, often too fast or too far for the robot."""
    arm, rng = robot(name), np.random.default_rng(seed)
    tips = len(arm.tips)
    for k in itertools.count():
        if k % 15 == 0:
            velocity = list(rng.normal(size=(tips, 6)) * rng.choice([0.1, 1.0, 30.0]))
            poses = arm.fk(arm.random(seed=rng), list(arm.tips)).reshape(tips, 4, 4)
            poses[:, :3, 3] *= rng.choice([1.0, 3.0])
            kind = rng.integers(3)
            single = tips == 1
            wish: dict[str, Any] = {}
            if kind != 0:
                wish["velocity"] = velocity[0] if single else velocity
            if kind != 1:
                wish["target"] = poses[0] if single else list(poses)
        yield wish


def walk(servo: Servo, q: Array, steps: int, wishes: Any) -> tuple[Array, Array]:
    """Return q (steps + 1, n) and q̇ (steps, n) of a Servo, given one of `wishes` per step."""
    way, speeds = [q], []
    for _, wish in zip(range(steps), wishes, strict=False):
        way.append(servo(way[-1], **wish))
        speeds.append(servo.qd)
    return np.array(way), np.array(speeds)


def outside(limits: Limits, q: Array) -> Array:
    return np.maximum(np.maximum(limits.lower - q, q - limits.upper), 0.0)


STEPS: dict[str, Any] = {
    "default": None,
    "optimal": DLS(damping.Optimal(3.0)),
    "transpose": Transpose(),
    "undamped": DLS(damping.Constant(0.0)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("acceleration", [math.inf, 8.0])
def test_random_huge_commands_never_exceed_a_limit(
    name: str, mode: str, acceleration: float
) -> None:
    """Limits on positions, speeds, accelerations and the norm of speeds hold."""
    steps = 60 if name == "double_y" else 200
    for seed, (bound, dt) in enumerate([(math.inf, 0.02), (1.2, 0.02), (0.4, 0.003)]):
        limits = some_limits(name, mode, acceleration, max_norm=bound)
        step = list(STEPS.values())[seed % 4]
        servo = Servo(robot(name), dt=dt, limits=limits, step=step)
        q = somewhere(name, seed)
        q[2:4] = 0.0  # many robots are singular there
        q, qd = walk(servo, np.clip(q, limits.lower, limits.upper), steps, wishes(name, seed))
        assert np.isfinite(q).all()
        assert (q >= limits.lower).all()
        assert (q <= limits.upper).all()
        assert (np.abs(qd) <= limits.max_speed).all()
        assert max(np.linalg.norm(one) for one in qd) <= bound
        np.testing.assert_allclose(q[1:], q[:-1] + qd * dt, rtol=0, atol=1e-14)
        assert (np.abs(np.diff(qd, axis=0, prepend=0)) <= acceleration * dt + 1e-12).all()


@pytest.mark.parametrize("name", ["panda", "youbot", "stanford", "y"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("acceleration", [math.inf, 8.0])
@pytest.mark.parametrize("bound", [math.inf, 0.7])
def test_joints_that_start_outside_their_limits_return_inside(
    name: str, mode: str, acceleration: float, bound: float
) -> None:
    """For any command, no joint moves farther outside; in the end, all are inside and stay so."""
    limits = some_limits(name, mode, acceleration, max_norm=bound)
    servo = Servo(robot(name), dt=0.02, limits=limits)
    rng = np.random.default_rng(5)
    q = somewhere(name)
    out = rng.random(len(q)) < 0.6
    out[0] = False  # this joint has no limits
    beyond = np.where(rng.random(len(q)) < 0.5, limits.lower - 0.4, limits.upper + 0.4)
    q[out] = beyond[out]
    way, qd = walk(servo, q, 500, wishes(name, 9))
    away = outside(limits, way)
    assert (np.diff(away, axis=0) <= 1e-15).all()
    assert (np.abs(qd) <= limits.max_speed).all()
    assert max(np.linalg.norm(one) for one in qd) <= bound
    assert not away[-1].any()


def test_a_joint_that_is_too_fast_to_stop_in_time_exceeds_only_its_acceleration_limit() -> None:
    """The joint keeps its position and speed limits."""
    arm = robot("planar2")
    limits = Limits(np.full(2, -1.0), np.full(2, 1.0), np.full(2, 3.0), np.full(2, 1.0))
    servo = Servo(arm, dt=0.01, limits=limits)
    servo.reset([3.0, -3.0])
    q = np.array([0.9, -0.9])
    for _ in range(100):
        q = servo(q, np.array([0.0, 0, 0, 0, 0, 0]))
        assert (np.abs(q) <= 1).all()
        assert (np.abs(servo.qd) <= 3).all()


def kkt(
    J: Array, e: Array, lambda2: float, box: tuple[Array, Array], x: Array, W: Array, slack: float
) -> None:
    """Check that ‖J x - e‖² + λ² xᵀW x falls in no direction that the box allows."""
    low, high = box
    gradient = J.T @ (J @ x - e) + lambda2 * W * x
    noise = 1e-9 * (1 + np.linalg.norm(J)) * (1 + np.linalg.norm(e))
    low, high = low + slack, high - slack  # allows for rounding of the box
    at_low, at_high = x <= low, x >= high
    assert (x >= low - 2 * slack).all()
    assert (x <= high + 2 * slack).all()
    assert (np.abs(gradient[~at_low & ~at_high]) <= noise).all()
    assert (gradient[at_low & ~at_high] >= -noise).all()
    assert (gradient[at_high & ~at_low] <= noise).all()


@pytest.mark.parametrize("name", ["panda", "ur5e", "youbot", "stanford"])
@pytest.mark.parametrize("acceleration", [math.inf, 8.0])
@pytest.mark.parametrize("order", [1, 2])
def test_the_step_within_limits_satisfies_the_kkt_conditions(
    name: str, acceleration: float, order: int
) -> None:
    """J and λ² are those that the Servo reports; some limits include max_norm."""
    arm, dt, rng = robot(name), 0.02, np.random.default_rng(2)
    boxed = 0
    for bound, joints, task in itertools.product(
        (math.inf, 1.0), (None, rng.uniform(0.3, 3.0, arm.dof)), (None, rng.uniform(0.5, 2.0, 6))
    ):
        if bound < math.inf and (joints is not None or order == 2):
            continue  # the bound on the norm then holds without more damping
        limits = some_limits(name, "exact", acceleration, max_norm=bound)
        step = WeightedDLS(damping.Constant(1e-3), task, joints)
        servo = Servo(arm, dt=dt, limits=limits, step=step, order=order)
        W = np.ones(arm.dof) if joints is None else joints
        C = np.ones(6) if task is None else np.sqrt(task)
        q = somewhere(name)
        for _ in range(25):
            before = servo.qd
            box = limits.box(q, before, dt)
            q = servo(q, rng.normal(size=6) * 5)
            lin = servo.linearization
            J, e = C[:, None] * lin.J, C * lin.e
            x = servo.qd
            if order == 2:  # x = q̇ + dt q̈, and the step is q̈ + rest_gain q̇
                rest = 20.0
                box = tuple((end - before) / dt + rest * before for end in box)
                x = (x - before) / dt + rest * before
            kkt(J, e, servo.lambda2, box, x, W, slack=1e-14 if order == 1 else 1e-10)
            boxed += servo.active.any()
    assert boxed > 10


def test_in_mode_scale_joint_speeds_are_a_multiple_of_those_without_limits() -> None:
    """The direction of the motion is therefore kept."""
    arm, step = robot("panda"), DLS(damping.Constant(1e-4))
    servo = Servo(arm, dt=0.01, step=step, limits=Limits.for_robot(arm, mode="scale", max_norm=2.0))
    free = Servo(arm, dt=0.01, step=step, limits=Limits.none(arm))
    rng = np.random.default_rng(1)
    for k in range(50):
        q, twist = somewhere("panda", k), rng.normal(size=6) * 3
        servo(q, twist)
        free(q, twist)
        along = servo.qd @ free.qd / (free.qd @ free.qd)
        assert 0 < along <= 1
        np.testing.assert_allclose(servo.qd, along * free.qd, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("joints", [None, np.linspace(0.5, 2, 7)])
def test_a_step_shortened_by_the_norm_bound_is_not_reported_as_following(
    mode: Any, joints: Array | None
) -> None:
    """The status of such a step does not include FOLLOWING."""
    arm = robot("panda")
    limits = Limits(*(Limits.none(arm).__dict__[k] for k in FIELDS), max_norm=0.1, mode=mode)
    step = WeightedDLS(damping.Constant(0.0), None, joints)
    servo = Servo(arm, dt=0.01, step=step, limits=limits)
    q = somewhere("panda")
    servo(q, np.full(6, 1e-3))
    assert servo.status == StepStatus.FOLLOWING
    servo(q, np.full(6, 1.0))
    assert servo.status == StepStatus.NORM_LIMIT
    assert not servo.active.any()
    assert 0.0999 <= np.linalg.norm(servo.qd) <= 0.1


FIELDS = ("lower", "upper", "max_speed", "max_acceleration")


@pytest.mark.parametrize("mode", MODES)
def test_limits_hold_for_every_kind_of_step(mode: Any) -> None:
    """The steps have objectives, priorities or weights, or are functions of a user."""
    arm = robot("panda")
    rest = RestPosture(np.full(7, 9.0))  # beyond the limits
    damped = DLS(damping.Constant(1e-3))
    ways: list[Any] = [
        NullSpace(damped, rest, 5.0),
        Priority(damped),
        WeightedDLS(damping.Constant(1e-3), None, np.linspace(0.2, 3, 7)),
        lambda lin: 100 * lin.J.T @ lin.e,
    ]
    limits = some_limits("panda", mode, 8.0, max_norm=1.5)
    for step in ways:
        servo = Servo(arm, PoseTask(), dt=0.01, step=step, limits=limits)
        q, qd = walk(servo, somewhere("panda"), 150, wishes("panda", 4))
        assert (outside(limits, q[1:]) == 0).all()
        assert (np.abs(qd) <= limits.max_speed).all()
        assert (np.abs(np.diff(qd, axis=0, prepend=0)) <= 0.08 + 1e-9).all()
        assert max(np.linalg.norm(one) for one in qd) <= 1.5
