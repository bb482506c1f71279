"""Acceleration limits hold from feasible states; from infeasible states, excess is reported.

The checker does not use the kernel's formulas. A state is feasible if each joint that brakes at its
acceleration limit comes to rest before it passes a position limit, unless it has passed this limit
already, and if its speed is within its limit from this step on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops import Array, robot
from sizes import nightly
from supple import Limits, Linearization, Servo, StepStatus, simulate

ROOM = 1e-9  # for states with a smaller margin, rounding decides


def margin(q: float, speed: float, lengths: Sequence[float], limits: Sequence[float]) -> float:
    """Return the smallest distance to a limit while a joint brakes; negative if it is passed."""
    lower, upper, most, acceleration = limits
    left, at, first = np.inf, q, True
    for dt in chain(lengths, repeat(lengths[-1])):
        speed = np.sign(speed) * max(abs(speed) - acceleration * dt, 0.0)
        if first:
            left, first = most - abs(speed), False
        at += speed * dt
        if q <= upper and speed > 0:
            left = min(left, upper - at)
        if q >= lower and speed < 0:
            left = min(left, at - lower)
        if speed == 0 or left < 0:
            return float(left)
    raise AssertionError


class SolveArguments:
    """A step that returns given joint speeds, which may make limits hard to keep."""

    def __init__(self, each: Iterator[Array]) -> None:
        self.each = each

    def __call__(self, linearization: Linearization) -> Array:
        return next(self.each)


def wild(rng: np.random.Generator, size: float, n: int) -> Iterator[Array]:
    """Yield speeds (n,): full speed up or down, zero, or random speeds, for random times."""
    while True:
        kind = rng.integers(4)
        held = rng.choice([-1.0, 0.0, 1.0], n) * size
        for _ in range(rng.integers(1, 60)):
            yield rng.normal(size=n) * size if kind == 0 else held


def problem(seed: int) -> tuple[Limits, Array, Array, float, np.random.Generator]:
    """Return limits of two joints, q and q̇ inside or outside these limits, dt and a generator."""
    rng = np.random.default_rng(seed)
    dt = 10 ** rng.uniform(-3, -1.3)
    acceleration = 10 ** rng.uniform(-0.5, 1.5, 2)
    width = 10 ** rng.uniform(-4, 0.5, 2) * rng.choice([0.0, 1.0, 1.0, 1.0], 2)
    lower = rng.uniform(-2, 2, 2)
    speed = 10 ** rng.uniform(-1, 1, 2)
    limits = Limits(lower, lower + width, speed, acceleration)
    inside = lower + rng.random(2) * width
    beyond = rng.choice([-1.0, 1.0], 2) * rng.exponential(0.3, 2)
    q = np.where(rng.random(2) < 0.5, inside, np.where(beyond < 0, lower, lower + width) + beyond)
    qd = rng.normal(size=2) * rng.choice([0.0, 0.1, 1.0]) * np.sqrt(acceleration * (width + 0.1))
    return limits, q, np.clip(qd, -speed, speed), float(dt), rng


def of_joint(limits: Limits, j: int) -> tuple[float, ...]:
    ends = (limits.lower, limits.upper, limits.max_speed, limits.max_acceleration)
    return tuple(float(end[j]) for end in ends)


def hold(limits: Limits, lengths: Array, q: Array, qd: Array, statuses: Array) -> None:
    """Check a motion q (K + 1, n) with speeds qd (K + 1, n); qd[0] are those before the motion.

    Only the first step may exceed acceleration limits: after it, all states are feasible.
    """
    change = np.abs(np.diff(qd, axis=0)) / (limits.max_acceleration * lengths[:, None])
    left = [margin(q[0, j], qd[0, j], lengths, of_joint(limits, j)) for j in range(q.shape[1])]
    exceeds = change > 1 + 1e-9
    assert not exceeds[1:].any(), np.argwhere(exceeds)
    assert not exceeds[0, np.array(left) > ROOM].any(), left
    assert exceeds[0, np.array(left) < -ROOM].all(), left
    said = (statuses & StepStatus.ACCELERATION_EXCEEDED) != 0
    assert (said == exceeds.any(axis=1)).all()
    assert (np.abs(qd[1:]) <= limits.max_speed).all()
    # No step passes a limit that the joint had not passed before.
    assert (q[1:] <= np.maximum(q[:-1], limits.upper))[q[:-1] <= limits.upper].all()
    assert (q[1:] >= np.minimum(q[:-1], limits.lower))[q[:-1] >= limits.lower].all()


@pytest.mark.parametrize("mode", ["exact", "scale"])
@settings(max_examples=nightly(100, 8), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_acceleration_limits_hold_from_every_feasible_state(mode: str, seed: int) -> None:
    limits, q, qd, dt, rng = problem(seed)
    limits = Limits(*(getattr(limits, name) for name in FIELDS), mode=mode)  # type: ignore[arg-type]
    step = SolveArguments(wild(rng, 3 * float(limits.max_speed.max()), 2))
    servo = Servo(robot("planar2"), dt=dt, limits=limits, step=step)
    servo.reset(qd)
    motion, speeds, statuses = [q], [qd], []
    for _ in range(200):
        motion.append(servo(motion[-1], np.zeros(6)))
        speeds.append(servo.qd)
        statuses.append(servo.status)
    hold(limits, np.full(200, dt), np.array(motion), np.array(speeds), np.array(statuses))


FIELDS = ("lower", "upper", "max_speed", "max_acceleration")


def uneven(kind: int, dt: float, rng: np.random.Generator) -> Array:
    """Return 150 time steps [s]: a few longer or shorter ones, random, growing or falling ones."""
    every = np.arange(150) % 50 == 49
    ways: list[Callable[[], Array]] = [
        lambda: np.where(every, 100 * dt, dt),
        lambda: np.where(every, dt / 100, dt),
        lambda: dt * 10 ** rng.uniform(-2, 1, 150),
        lambda: dt * 1.03 ** np.arange(150),
        lambda: dt * 1.03 ** -np.arange(150),
    ]
    return ways[kind]()


@settings(max_examples=nightly(100, 8), deadline=None)
@given(seed=st.integers(0, 2**32), kind=st.integers(0, 4))
def test_acceleration_limits_hold_in_uneven_steps(seed: int, kind: int) -> None:
    limits, q, qd, dt, rng = problem(seed)
    times = np.cumsum(np.r_[0.0, uneven(kind, dt / 3, rng)])
    step = SolveArguments(wild(rng, 3 * float(limits.max_speed.max()), 2))
    motion = simulate(
        robot("planar2"), q, velocity=lambda t: np.zeros(6), times=times, step=step, limits=limits,
        qd0=qd,
    )  # fmt: skip
    hold(limits, np.diff(times), motion.q, np.vstack([qd, motion.qd]), motion.status)


def test_random_states_of_the_braking_tests_include_feasible_and_infeasible_ones() -> None:
    """More than a few states of `problem` are of each kind."""
    margins = []
    for seed in range(300):
        limits, q, qd, dt, _ = problem(seed)
        margins += [margin(q[j], qd[j], [dt], of_joint(limits, j)) for j in range(2)]
    assert np.mean(np.array(margins) > ROOM) > 0.3
    assert np.mean(np.array(margins) < -ROOM) > 0.1


def test_a_joint_returns_into_a_narrow_range_within_its_acceleration_limit() -> None:
    a, dt = 1.0, 0.001
    limits = Limits([-1.0, 0.0], [1.0, 0.001], [10.0, 10.0], [a, a])  # type: ignore[arg-type]
    servo = Servo(robot("planar2"), dt=dt, limits=limits)
    q, before = np.array([0.0, 0.5]), np.zeros(2)
    for _ in range(3000):
        q = servo(q, np.zeros(6))
        assert (np.abs(servo.qd - before) <= a * dt * (1 + 1e-9)).all()
        before = servo.qd
    assert 0 <= q[1] <= 0.001


@pytest.mark.parametrize("bound", [0.2, 1.0])
def test_acceleration_and_norm_limits_hold_while_joints_return_inside(bound: float) -> None:
    """Several joints return into their ranges at the same time, within the bound on the norm."""
    arm, dt, a = robot("panda"), 0.01, 2.0
    middle = (arm.lower + arm.upper) / 2
    limits = Limits(middle - 0.05, middle + 0.05, arm.max_speed, np.full(7, a), max_norm=bound)
    rng = np.random.default_rng(1)
    for _ in range(10):
        servo = Servo(arm, dt=dt, limits=limits)
        q, speeds = middle + rng.normal(size=7) * 0.5, [np.zeros(7)]
        for twist in rng.normal(size=(1500, 6)):
            q = servo(q, twist)
            speeds.append(servo.qd)
        assert max(map(np.linalg.norm, speeds)) <= bound
        assert (np.abs(np.diff(speeds, axis=0)) <= a * dt * (1 + 1e-9)).all()
        assert (np.abs(q - middle) <= 0.05 + 1e-12).all()


def test_a_joint_that_cannot_stop_in_time_exceeds_only_its_acceleration_limit() -> None:
    limits = Limits([-1.0, -1.0], [1.0, 1.0], [3.0, 3.0], [1.0, 1.0])  # type: ignore[arg-type]
    servo = Servo(robot("planar2"), dt=0.01, limits=limits)
    servo.reset([2.0, 0.0])
    q = servo([0.9, 0.0], np.zeros(6))
    assert StepStatus.ACCELERATION_EXCEEDED in servo.status
    for _ in range(100):
        q = servo(q, np.zeros(6))
        assert StepStatus.ACCELERATION_EXCEEDED not in servo.status
        assert (np.abs(q) <= 1).all()


def test_rounding_takes_no_joint_past_its_limit() -> None:
    """Rounding makes q + ((upper - q)/dt) dt exceed upper for some q; a Servo's q does not."""
    rng, arm = np.random.default_rng(3), robot("planar2")
    past = 0
    for _ in range(300):
        lower, upper = -rng.uniform(0.1, 3, 2), rng.uniform(0.1, 3, 2)
        dt = float(rng.uniform(1e-3, 0.5))
        limits = Limits(lower, upper, np.full(2, np.inf), np.full(2, np.inf))
        q = rng.uniform(lower, upper)
        for end in (upper, lower):
            servo = Servo(arm, dt=dt, limits=limits, step=lambda lin, end=end: 1e6 * np.sign(end))
            new = servo(q, np.zeros(6))
            assert (new >= lower).all()
            assert (new <= upper).all()
            assert new == pytest.approx(end, abs=1e-14)
            # Without the clamp, q + dt q̇ may be beyond the limit.
            for a, b in zip(q, end, strict=True):
                moved = float(Fraction((b - a) / dt) * Fraction(dt) + Fraction(a))
                past += moved * np.sign(b) > abs(b)
    assert past > 10
