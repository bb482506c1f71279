"""Motions under jerk limits keep all limits, are as fast as possible and monotone in limits.

SUPPLE_TIMING_CASES enlarges the number of random paths.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.typing import NDArray

import supple as sp
from generated import seeds
from sizes import nightly
from supple.paths import JointPath
from supple.paths.jerk_timing import fastest_with_jerk
from supple.paths.spline import Spline
from supple.paths.timing import Bounds, TimeLaw, time_law
from timed_paths import timed_path
from timing_oracle import chord_spline, limit_by_jerk, line_duration, turning_duration

Array = NDArray[np.float64]

CASES = int(os.environ.get("SUPPLE_TIMING_CASES", "8"))

# The limits that Franka publishes for its arm.
SPEED = np.array([2.175] * 4 + [2.61] * 3)
ACCELERATION = np.array([15, 7.5, 10, 12.5, 15, 20, 20.0])
JERK = np.array([7500, 3750, 5000, 6250, 7500, 10000, 10000.0])


def optimum(q: Array, bounds: Bounds) -> float:
    size = np.maximum(np.abs(q[1] - q[0]), 1e-300)
    return line_duration(*(float((limit / size).min()) for limit in bounds[:3]))


def assert_inside(law: TimeLaw, bounds: Bounds) -> None:
    """Check the limits at 20,000 times, and at the ends of all phases of constant jerk."""
    q, *rates = law.at(np.union1d(np.linspace(0, law.duration, 20_001), law.t))
    for rate, limit in zip(rates, bounds[:3], strict=True):
        assert (np.abs(rate) <= limit * (1 + 1e-12)).all()
    assert np.isfinite(q).all()


@pytest.mark.parametrize("seed", seeds(CASES))
def test_a_line_takes_the_time_of_its_formula(seed: int) -> None:
    path = timed_path(seed, "line")
    law = time_law(path.spline, path.bounds)
    expected = optimum(path.q, path.bounds)
    assert law.duration == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(law.at(np.array([0.0, law.duration]))[0], path.q, atol=1e-12)
    assert_inside(law, path.bounds)
    # the optimization finds the same duration within its accuracy
    found = fastest_with_jerk(path.spline, path.bounds)
    assert expected * (1 - 1e-9) <= found.duration <= expected * 1.002


@pytest.mark.parametrize("seed", sorted({*seeds(CASES), 2811348}))
def test_a_line_there_and_back_takes_the_time_of_its_formula(seed: int) -> None:
    """Where the line turns back, the speed is zero but the acceleration is not."""
    path = timed_path(seed, "back")
    joint = int(np.abs(np.ptp(path.q, axis=0)).argmax())
    sign = np.sign(path.q[1, joint] - path.q[0, joint])
    top = (sign * np.concatenate(path.spline.extremes())[:, joint]).max()
    ends = top - sign * path.q[[0, -1], joint]
    ratio = np.abs(np.ptp(path.q, axis=0)) / np.ptp(path.q[:, joint])
    limits = [float((limit / ratio).min()) for limit in path.bounds[:3]]
    law = time_law(path.spline, path.bounds)
    assert law.duration == pytest.approx(turning_duration(*ends, *limits), rel=1e-5)
    assert_inside(law, path.bounds)
    q = law.at(np.linspace(0, law.duration, 20_001))[0][:, joint]
    assert (sign * q).max() == pytest.approx(top, abs=1e-6 * ends.max())
    np.testing.assert_allclose(q[[0, -1]], path.q[[0, -1], joint], atol=1e-12)
    # without jerk limits, the acceleration jumps
    free = time_law(path.spline, path.bounds._replace(jerk=np.full(len(ratio), np.inf)))
    speed, acceleration, _ = limits
    peaks = np.minimum(speed, np.sqrt(acceleration * ends))
    assert free.duration == pytest.approx((ends / peaks + peaks / acceleration).sum(), rel=1e-6)


@pytest.mark.parametrize("seed", [27, 42, 57])  # in these, one joint turns back two or three times
def test_paths_that_turn_back_often_are_as_fast_as_the_optimization(seed: int) -> None:
    path = timed_path(seed)
    law = time_law(path.spline, path.bounds)
    assert_inside(law, path.bounds)
    assert law.duration <= fastest_with_jerk(path.spline, path.bounds).duration


@pytest.mark.parametrize("seed", range(3))
def test_lines_of_a_panda_are_timed_optimally(seed: int) -> None:
    robot = sp.load("panda")
    q = np.random.default_rng(seed).uniform(robot.lower + 0.1, robot.upper - 0.1, (2, 7))
    before = 0.0
    for scale in (1.0, 0.1, 0.01):
        limits = sp.Limits.for_robot(
            robot, max_speed=SPEED, max_acceleration=ACCELERATION, max_jerk=JERK * scale
        )
        # more configurations on the line give the same duration
        for count in (2, 12):
            line = q[0] + np.linspace(0, 1, count)[:, None] * (q[1] - q[0])
            motion = JointPath(robot, line).timed(limits, dt=1e-4)
            expected = optimum(q, Bounds(SPEED, ACCELERATION, JERK * scale))
            assert expected * (1 - 1e-9) <= motion.t[-1] <= expected * (1 + 1e-9) + 1e-4
        assert motion.t[-1] >= before
        before = motion.t[-1]


@pytest.mark.parametrize(  # these have two or three joints
    "seed", nightly([11, 21, 48, 54, 56, 41012, 41038], [11, 48])
)
def test_motions_on_curves_are_as_fast_as_by_successive_lps(seed: int) -> None:
    path = timed_path(seed)
    oracle = limit_by_jerk(chord_spline(path.q), *path.bounds[:3])
    assert 0.99 * oracle < time_law(path.spline, path.bounds).duration < 1.01 * oracle


@pytest.mark.parametrize(  # 74 and 84 have a sharp corner; 0 to 3 are of the other kinds
    "seed", nightly(sorted({*seeds(CASES), 74, 84}), [0, 1, 2, 3, 74, 84])
)
def test_a_stricter_limit_never_gives_a_shorter_motion(seed: int) -> None:
    path, rng = timed_path(seed), np.random.default_rng(seed)
    law = time_law(path.spline, path.bounds)
    assert_inside(law, path.bounds)
    for name in ("speed", "acceleration", "jerk"):
        limit = getattr(path.bounds, name)
        factor = np.ones(len(limit))
        factor[rng.integers(len(limit)) if rng.integers(2) else slice(None)] = rng.choice(
            [0.999, 0.99, 0.9, 0.5]
        )
        stricter = path.bounds._replace(**{name: limit * factor})
        slower = time_law(path.spline, stricter)
        assert slower.duration >= law.duration * (1 - 1e-3), name
        assert_inside(slower, stricter)
    free = time_law(path.spline, path.bounds._replace(jerk=np.full(len(limit), np.inf)))
    assert law.duration >= free.duration * (1 - 2e-3)  # each duration is accurate to a thousandth


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("seed", nightly([2, 12, 37, 43, 84], [12, 43, 84]))
def test_removing_limits_never_lengthens_a_motion(seed: int, back: bool) -> None:
    """This holds also on a curve there and back, where the motion stops at the turn."""
    path = timed_path(seed)
    if back:
        path = path._replace(q=np.concatenate([path.q, path.q[-2::-1]]))
    none = np.full(path.q.shape[1], np.inf)
    bounds = path.bounds, path.bounds._replace(jerk=none), Bounds(path.bounds.speed, none, none)
    durations = [time_law(path.spline, each).duration for each in bounds]
    assert durations[1] <= durations[0] * (1 + 2e-3)
    assert durations[2] <= durations[1] * (1 + 2e-3)
    # if only speeds are limited, one joint is always at its limit
    spline = chord_spline(path.q)
    s = np.linspace(0, spline.x[-1], 20_001)
    rate = np.abs(spline(s, 1) / path.bounds.speed).max(axis=1)
    assert durations[2] == pytest.approx(np.trapezoid(rate, s), rel=5e-3)


@pytest.mark.parametrize("name", ["ur5e", "panda"])
def test_timed_planned_paths_keep_speed_acceleration_and_jerk_limits(name: str) -> None:
    robot = sp.load(name)
    turn = np.random.default_rng(1).uniform(-0.4, 0.4, robot.dof)
    found = sp.plan_path(robot, robot.fk(robot.neutral() + np.linspace(0, 1, 100)[:, None] * turn))
    limits = sp.Limits.for_robot(
        robot, max_speed=2.0, max_acceleration=10.0, max_jerk=5000.0, mode="exact"
    )
    dt = 1e-4
    motion = found.timed(limits, dt=dt)
    rest = np.concatenate([motion.q[:1]] * 3 + [motion.q] + [motion.q[-1:]] * 3)
    for order, limit in enumerate((2.0, 10.0, 5000.0), 1):
        rates = np.diff(rest, n=order, axis=0) / dt**order
        assert np.abs(rates).max() <= limit * (1 + 1e-9) + 2**order * 4e-16 / dt**order


@pytest.mark.parametrize("seed", seeds(CASES // 5))
@pytest.mark.parametrize(("jerk", "power"), [(np.inf, 2), (1e3, 3)])
def test_the_duration_of_a_short_line_there_and_back_scales_with_its_length(
    seed: int, jerk: float, power: int
) -> None:
    """The duration is proportional to length^(1/2), or to length^(1/3) under jerk limits."""
    rng = np.random.default_rng((9, seed))
    n = int(rng.integers(1, 8))
    start, way = rng.uniform(-3, 3, n), rng.uniform(-1, 1, n)
    way /= np.abs(way).max()
    s, x = np.arange(4.0), np.array([0.0, 1.0, rng.uniform(-0.5, 0.5), 0.0])
    bounds = Bounds(np.full(n, 1e3), np.full(n, 10.0), np.full(n, jerk))
    durations = []
    for size in (1e-5, 1e-8, 1e-9):
        law = time_law(Spline.through(s, start + size * x[:, None] * way), bounds)
        ends = law.at(np.array([0.0, law.duration]))[0]
        np.testing.assert_allclose(ends, [start, start], atol=1e-15)
        durations.append(law.duration / size ** (1 / power))
    np.testing.assert_allclose(durations, durations[0], rtol=1e-4)
    for size in (1e-13, 1e-15):  # such lengths are of the size of rounding errors
        law = time_law(Spline.through(s, start + size * x[:, None] * way), bounds)
        assert law.duration < 1e-3
