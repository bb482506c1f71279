"""Limits on position, speed, acceleration and jerk hold together in every step.

The oracle for the speeds that `Limits.box` allows simulates a stop step by step.
"""

from __future__ import annotations

import copy
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops import robot
from sizes import nightly
from supple import Limits, Servo, StepStatus, load, simulate
from supple.errors import InputError

EPS = float(np.finfo(np.float64).eps)
Limit = tuple[float, float, float, float, float]  # lower, upper, speed, acceleration, jerk


def change_to_rest(speed: float, ramp: float) -> float:
    """Return the largest change a of a stop: a + (a - ramp) + ..., while positive, sum to speed."""
    low, high = 0.0, speed + ramp
    for _ in range(64):
        a = 0.5 * (low + high)
        terms = a - ramp * np.arange(math.ceil(a / ramp) + 1)
        low, high = (a, high) if terms[terms > 0].sum() <= speed else (low, a)
    return low


def stop(q: float, v: float, c: float, dt: float, limit: Limit) -> tuple[float, float, float]:
    """Return the largest position, the smallest position and the largest speed during a stop."""
    _, _, _, acceleration, jerk = limit
    ramp, most = jerk * dt * dt, acceleration * dt
    ends = [q, q, abs(v)]
    for _ in range(3000):
        to_rest = -math.copysign(change_to_rest(abs(v), ramp), v)
        c = min(max(to_rest, c - ramp, -most), c + ramp, most)
        v += c
        q += v * dt
        ends = [max(ends[0], q), min(ends[1], q), max(ends[2], abs(v))]
        if abs(v) < 1e-9 * ramp:
            return ends[0], ends[1], ends[2]
    raise AssertionError("the joint does not stop")


def one_joint(rng: np.random.Generator) -> tuple[Limit, float]:
    """Return random limits of a joint and dt; a stop takes at most some hundred steps."""
    dt = 10 ** rng.uniform(-3, -1)
    speed = 10 ** rng.uniform(-1, 1)
    acceleration = speed / dt / 10 ** rng.uniform(0, 1.5)
    jerk = acceleration / dt / 10 ** rng.uniform(0, 1.2)
    width = speed * dt * 10 ** rng.uniform(0, 2.5)
    lower = rng.uniform(-1, 1)
    return (lower, lower + width, speed, acceleration, jerk), float(dt)


def box(limit: Limit, q: float, v: float, c: float, dt: float) -> tuple[float, float]:
    limits = Limits(*([end] for end in limit))  # type: ignore[arg-type]
    low, high = limits.box([q], [v], dt, change=[c])
    return float(low[0]), float(high[0])


@settings(max_examples=nightly(60, 20), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_limits_box_returns_the_extreme_speeds_from_which_a_joint_can_stop(seed: int) -> None:
    """From both returned speeds a joint can stop within all limits, but not from beyond them."""
    rng = np.random.default_rng(seed)
    limit, dt = one_joint(rng)
    lower, upper, speed, acceleration, jerk = limit
    ramp, most = jerk * dt * dt, acceleration * dt
    q, v, c = rng.uniform(lower, upper), 0.0, 0.0
    kind = rng.integers(3)
    for _ in range(int(rng.integers(60))):
        low, high = box(limit, q, v, c, dt)
        x = (high, low, rng.uniform(low, high))[kind]
        q, v, c = q + x * dt, x, x - v
    low, high = box(limit, q, v, c, dt)
    assert low <= high
    size = 1e-7 * (abs(v) + most)
    for end, sign in ((high, 1.0), (low, -1.0)):
        within = stop(q + end * dt, end, end - v, dt, limit)
        assert within[0] <= upper + 1e-9 * (upper - lower)
        assert within[1] >= lower - 1e-9 * (upper - lower)
        assert within[2] <= speed * (1 + 1e-9)
        beyond = end + sign * size
        past = stop(q + beyond * dt, beyond, beyond - v, dt, limit)
        out = (
            abs(beyond - v) > most
            or abs(beyond - v - c) > ramp
            or past[0] > upper
            or past[1] < lower
            or past[2] > speed
        )
        assert out, (end, v, c)


def check(limits: Limits, q: np.ndarray, dt: float) -> None:
    """Check the limits of a motion q (K + 1, n) that starts at rest, by differences of q."""
    rest = np.zeros((1, q.shape[1]))
    speed = np.diff(q, axis=0) / dt
    acceleration = np.diff(speed, axis=0, prepend=rest) / dt
    jerk = np.diff(acceleration, axis=0, prepend=rest) / dt
    noise = 4 * EPS * np.abs(q).max()  # rounding error of a position
    assert (q >= limits.lower).all()
    assert (q <= limits.upper).all()
    for order, (motion, most) in enumerate(
        (
            (speed, limits.max_speed),
            (acceleration, limits.max_acceleration),
            (jerk, limits.max_jerk),
        ),
        start=1,
    ):
        assert (np.abs(motion) <= most * (1 + 1e-8) + 2**order * noise / dt**order).all(), order


@pytest.mark.parametrize("mode", ["exact", "scale"])
@pytest.mark.parametrize("name", ["panda", "ur5e", "puma560"])
def test_all_limits_hold_while_targets_and_velocities_jump(name: str, mode: str) -> None:
    rng = np.random.default_rng(sum(map(ord, name + mode)))
    arm = load(name)
    for _ in range(6):
        dt = 10 ** rng.uniform(-3.3, -1.7)
        speed = np.minimum(arm.max_speed, 3.0) * 10 ** rng.uniform(-1, 0.3, arm.dof)
        acceleration = speed / 10 ** rng.uniform(-2.5, 0.5, arm.dof)
        jerk = acceleration / 10 ** rng.uniform(-2.5, 0, arm.dof)
        if rng.random() < 0.3:
            acceleration = np.full(arm.dof, np.inf)
        middle = np.clip(0.5 * (arm.lower + arm.upper), -1, 1)
        lower, upper = (
            middle + s * rng.uniform(0.01, 1, arm.dof) * np.minimum(arm.upper - middle, 3.0)
            for s in (-1, 1)
        )
        limits = Limits(lower, upper, speed, acceleration, jerk, mode=mode)  # type: ignore[arg-type]
        servo = Servo(arm, dt=dt, limits=limits, gain=min(1 / dt, 10 ** rng.uniform(0, 2.5)))
        q = np.empty((801, arm.dof))
        q[0] = rng.uniform(lower, upper)
        for k in range(800):
            if k % 40 == 0:
                target, velocity = arm.fk(rng.uniform(lower - 0.3, upper + 0.3)), rng.normal(size=6)
            q[k + 1] = servo(q[k], velocity, target)
            assert StepStatus.JERK_EXCEEDED not in servo.status
        check(limits, q, dt)


def test_a_joint_that_cannot_stop_smoothly_exceeds_only_its_jerk_limit() -> None:
    """All other limits hold, and the status reports JERK_EXCEEDED."""
    arm = robot("planar2")
    limits = Limits([-1, -1], [1, 1], [3, 3], [20, 20], [50, 50])  # type: ignore[arg-type]
    servo = Servo(arm, dt=0.01, limits=limits)
    servo.reset([2.0, 0.0])
    q, moved = np.array([0.85, 0.3]), []  # the fastest stop takes 2²/(2 · 20) = 0.1 rad
    before = np.array([2.0, 0.0])
    for _ in range(100):
        q = servo(q, np.zeros(6))
        moved.append(q)
        assert np.abs(servo.qd - before).max() <= 20 * 0.01 * (1 + 1e-9)
        before = servo.qd
        if len(moved) == 1:
            assert StepStatus.JERK_EXCEEDED in servo.status
    assert np.max(moved) <= 1.0
    assert servo.qd == pytest.approx(0, abs=1e-9)


def test_a_joint_outside_its_range_returns_within_its_jerk_limit() -> None:
    arm = robot("planar2")
    limits = Limits([-1, -1], [1, 1], [3, 3], [20, 20], [200, 200])  # type: ignore[arg-type]
    servo = Servo(arm, dt=0.005, limits=limits)
    q = np.empty((600, 2))
    q[0] = [1.4, 0.3]
    for k in range(599):
        q[k + 1] = servo(q[k], [0.3, 0, 0, 0, 0, 0])
    assert q[-1, 0] <= 1.0
    third = np.diff(np.vstack([q[:1]] * 3 + [q]), n=3, axis=0) / 0.005**3
    assert np.abs(third).max() <= 200 * (1 + 1e-6)


def test_the_report_names_a_jerk_limit_that_acts() -> None:
    arm = robot("planar2")
    limits = Limits.for_robot(arm, max_speed=5.0, max_acceleration=10.0, max_jerk=100.0)
    servo = Servo(arm, dt=0.01, limits=limits)
    servo([0.3, 0.9], [1.0, 1.0, 0, 0, 0, 0])
    assert StepStatus.JERK_LIMIT in servo.status
    assert "jerk" in str(servo.explain())
    assert any(held.limit == "jerk" and held.value == 100 for held in servo.explain().held)
    assert "100 rad/s³" in repr(limits)


def test_a_servo_copied_during_a_motion_under_a_jerk_limit_continues_like_the_original() -> None:
    arm = load("panda")
    limits = Limits.for_robot(arm, max_acceleration=5.0, max_jerk=50.0)
    servo, q = Servo(arm, dt=0.004, limits=limits), np.clip(arm.lower / 2 + arm.upper / 2, -2, 2)
    for _ in range(20):
        q = servo(q, [0.2, 0.1, 0, 0, 0, 0])
    other = copy.deepcopy(servo)
    for _ in range(20):
        np.testing.assert_array_equal(servo(q, np.zeros(6)), other(q, np.zeros(6)))


def test_jerk_limits_with_uneven_time_steps_are_refused() -> None:
    arm = robot("planar2")
    limits = Limits.for_robot(arm, max_jerk=10.0)
    with pytest.raises(InputError, match="max_jerk needs times with steps of equal lengths"):
        simulate(arm, [0.1, 0.2], velocity=np.zeros(6), times=[0, 0.1, 0.3], limits=limits)


@settings(max_examples=nightly(60, 20), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_after_a_change_of_speed_above_the_limits_a_joint_keeps_its_speed_limit(seed: int) -> None:
    """The next change of speed cannot keep both the jerk and the acceleration limit."""
    rng = np.random.default_rng(seed)
    limit, dt = one_joint(rng)
    lower, upper, speed, acceleration, _ = limit
    q = rng.uniform(lower, upper)
    v = float(rng.uniform(-speed, speed))
    c = float(rng.choice([-1, 1]) * rng.uniform(1, 50) * acceleration * dt)
    low, high = box(limit, q, v, c, dt)
    assert -speed * (1 + 1e-9) <= low <= high <= speed * (1 + 1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, "much"])
def test_jerk_limits_that_are_not_positive_numbers_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match="max_jerk"):
        Limits.for_robot(load("panda"), max_jerk=bad)  # type: ignore[arg-type]


def test_two_million_random_steps_of_single_joints_exceed_no_limit(tmp_path: Path) -> None:
    """A C++ program checks every step; `make soak` runs the program with 10^9 steps."""
    root, program = Path(__file__).parents[2], tmp_path / "soak"
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler
    options = ["-O2", "-std=c++20", "-ffp-contract=off", f"-I{root / 'include'}"]
    source = str(root / "tools/soak_limits.cpp")
    subprocess.run([compiler, *options, source, "-o", str(program)], check=True)
    found = subprocess.run([str(program), "1000"], capture_output=True, text=True, check=False)
    assert found.stdout == "2000000 steps, 0 beyond a limit\n"
    assert found.returncode == 0
