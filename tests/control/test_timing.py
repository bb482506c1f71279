"""Timed paths keep all limits at 10 kHz, and take little longer than the optimum of an LP."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial import cKDTree

import supple as sp
from sizes import nightly
from supple import errors
from supple.paths import JointPath
from supple.paths.spline import Spline
from timing_oracle import chord_spline, duration_by_acceleration, duration_by_jerk

Array = NDArray[np.float64]

RATE = 1e-4  # 10 kHz
ROBOT = sp.load("panda").with_limits(lower=-10, upper=10)  # wide enough for all paths
SPEED = np.array([2.0, 1.5, 2.0, 1.5, 2.5, 2.5, 2.5])
ACCELERATION = np.array([10.0, 7.0, 8.0, 10.0, 12.0, 12.0, 15.0])


def limits(jerk: float = np.inf, **more: float) -> sp.Limits:
    return sp.Limits.for_robot(
        ROBOT,
        max_speed=SPEED,
        max_acceleration=ACCELERATION,
        max_jerk=jerk,
        **more,
    )


def waves(seed: int, points: int = 200) -> Array:
    """Return the configurations of a smooth path on which the joints move back and forth."""
    rng = np.random.default_rng(seed)
    s = np.linspace(0, 1, points)[:, None]
    return sum(
        rng.normal(size=7)
        / k
        * np.sin(np.pi * k * s * rng.uniform(0.5, 1.5) + rng.uniform(0, 6, 7))
        for k in (1, 2, 3)
    )


def corner() -> Array:
    """Return the configurations of two lines that meet at a corner, where an arm nearly stops."""
    ends = ROBOT.neutral() + np.array(
        [[0.0] * 7, [0.6, 0.3, 0, 0, 0, 0, 0], [0.2, 0.9, 0, 0, 0, 0, 1]]
    )
    there = np.linspace(0, 1, 60)[:, None]
    first, second = (a + there * (b - a) for a, b in pairwise(ends))
    return np.concatenate([first, second[1:]])


PATHS = {
    "waves": waves(0),
    "more waves": waves(1),
    "corner": corner(),
    "four points": waves(2, 4),
    "three points": waves(3, 3),
    "line": ROBOT.neutral() + np.array([[0.0], [1.0]]) * [1, 0.5, -0.3, 0, 0, 0, 0.2],
}


def assert_inside(q: Array, dt: float, bounds: sp.Limits) -> None:
    """Check the limits by differences of q, for a motion with rest before and after it."""
    rest = np.concatenate([np.repeat(q[:1], 3, axis=0), q, np.repeat(q[-1:], 3, axis=0)])
    for order, limit in enumerate((bounds.max_speed, bounds.max_acceleration, bounds.max_jerk), 1):
        values = np.diff(rest, n=order, axis=0) / dt**order
        rounding = 2**order * 4e-16 / dt**order  # for coordinates of about 1
        assert (np.abs(values) <= limit * (1 + 1e-9) + rounding).all(), order


@pytest.mark.parametrize("count", [2, 3, 4, 5, 50])
def test_the_spline_of_a_joint_path_is_that_of_scipy(count: int) -> None:
    rng = np.random.default_rng(count)
    s, q = np.cumsum(rng.uniform(0.1, 1, count)), rng.normal(size=(count, 3))
    ours, theirs = Spline.through(s, q), CubicSpline(s, q)
    at = rng.uniform(s[0], s[-1], 100)
    values = ours.derivatives(at, ours.piece(at))
    for order, value in enumerate(values):
        np.testing.assert_allclose(value, theirs(at, order), atol=1e-9 * 10**order)


@pytest.mark.parametrize("jerk", [np.inf, 300.0, 60.0])
@pytest.mark.parametrize("name", PATHS)
def test_a_timed_path_sampled_at_10_khz_exceeds_no_limit(name: str, jerk: float) -> None:
    motion = JointPath(ROBOT, PATHS[name]).timed(limits(jerk), dt=RATE)
    assert_inside(motion.q, RATE, limits(jerk))
    np.testing.assert_allclose(motion.q[[0, -1]], PATHS[name][[0, -1]], atol=1e-12)


@pytest.mark.parametrize("name", PATHS)
def test_a_timed_motion_stays_on_its_path(name: str) -> None:
    path = JointPath(ROBOT, PATHS[name])
    motion = path.timed(limits(200.0), dt=0.01)
    fine = path.at(np.linspace(0, path.s[-1], 20_001))
    away, _ = cKDTree(fine).query(motion.q)
    assert away.max() <= np.linalg.norm(np.diff(fine, axis=0), axis=1).max()


@pytest.mark.parametrize("name", nightly([*PATHS], ["waves", "corner", "four points", "line"]))
def test_a_timed_path_is_nearly_as_fast_as_the_optimum_of_an_lp(name: str) -> None:
    oracle = duration_by_acceleration(chord_spline(PATHS[name]), SPEED, ACCELERATION)
    motion = JointPath(ROBOT, PATHS[name]).timed(limits(), dt=RATE)
    assert 0.995 * oracle < motion.t[-1] < 1.005 * oracle


@pytest.mark.parametrize(
    ("name", "slow"),
    [
        *(("waves", 0.2), ("four points", 0.2)),
        *nightly([("waves", 0.01), ("four points", 0.01)], []),
        *nightly([("more waves", 0.2), ("more waves", 0.01)], []),
    ],
)
def test_under_jerk_limits_a_timed_path_is_nearly_as_fast_as_by_successive_lps(
    name: str, slow: float
) -> None:
    path, jerk = chord_spline(PATHS[name]), np.full(7, 150.0)
    oracle = duration_by_jerk(path, SPEED, ACCELERATION, jerk, nodes=300, slow=slow)
    motion = JointPath(ROBOT, PATHS[name]).timed(limits(150.0), dt=RATE)
    assert 0.98 * oracle < motion.t[-1] < 1.02 * oracle


@pytest.mark.parametrize("distance", [0.01, 0.3, 3.0])
def test_a_straight_motion_takes_the_time_of_its_formula(distance: float) -> None:
    v, a, j = 2.0, 10.0, 100.0
    robot = sp.dh([(1.0, 0, 0, 0)], limits=[(-9, 9)])
    path = JointPath(robot, [[0.0], [distance]])

    def duration(**bounds: float) -> float:
        made = sp.Limits.for_robot(robot, **bounds)
        return float(path.timed(made, dt=RATE).t[-1])

    rises = distance >= v * v / a
    trapezoid = distance / v + v / a if rises else 2 * np.sqrt(distance / a)
    assert duration(max_speed=v, max_acceleration=a) == pytest.approx(trapezoid, rel=5e-3)
    # Without a phase of constant speed, the peak v solves v (v/a + a/j) = d or 2 v √(v/j) = d.
    peak = np.roots([1 / a, a / j, -distance]).max()
    peak = peak if peak >= a * a / j else np.cbrt(distance**2 * j / 4)
    peak = min(peak, v)
    ramp = peak / a + a / j if peak >= a * a / j else 2 * np.sqrt(peak / j)
    expected = 2 * ramp + (distance - peak * ramp) / peak
    assert duration(max_speed=v, max_acceleration=a, max_jerk=j) == pytest.approx(
        expected, rel=1e-2
    )


def test_without_acceleration_limits_a_joint_always_moves_at_its_speed_limit() -> None:
    robot = sp.dh([(1.0, 0, 0, 0)], limits=[(-9, 9)])
    made = sp.Limits.for_robot(robot, max_speed=2.0)
    assert JointPath(robot, [[0.0], [1.0]]).timed(made).t[-1] == pytest.approx(0.5, rel=5e-3)


def test_the_tool_moves_at_tool_speed_where_the_limits_allow_it() -> None:
    path = JointPath(ROBOT, ROBOT.neutral() + 0.2 * waves(4))
    motion = path.timed(limits(300.0), tool_speed=0.1)
    speeds = np.linalg.norm(np.diff(ROBOT.fk(motion.q)[:, :3, 3], axis=0), axis=1) / 1e-3
    assert speeds.max() <= 0.1 * (1 + 1e-6)
    assert np.median(speeds) > 0.099  # in most steps
    assert_inside(motion.q, 1e-3, limits(300.0))
    fast = path.timed(limits(300.0), tool_speed=100.0)
    # A tool speed beyond the limits changes nothing.
    assert len(fast) == len(path.timed(limits(300.0)))


def test_a_timed_path_reaches_and_keeps_the_bound_on_the_norm_of_speeds() -> None:
    motion = JointPath(ROBOT, PATHS["waves"]).timed(limits(max_norm=1.2))
    speeds = np.linalg.norm(motion.qd, axis=1)
    assert 1.19 < speeds.max() <= 1.2


@pytest.mark.parametrize("dt", [1e-4, 0.003, 0.01])
def test_a_motion_that_is_saved_loaded_and_resampled_keeps_its_limits(
    dt: float, tmp_path: Path
) -> None:
    motion = JointPath(ROBOT, PATHS["waves"]).timed(limits(200.0))
    again = sp.Trajectory.load(motion.save(tmp_path / "timed.npz"), ROBOT).resampled(dt)
    assert_inside(again.q, dt, limits(200.0))
    there = again.t - motion.t[1]  # `again` has a step of rest before and after the motion
    off = np.abs(again.q - np.stack([np.interp(there, motion.t, c) for c in motion.q.T], -1))
    np.testing.assert_allclose(again.q[[0, -1]], motion.q[[0, -1]], atol=1e-12)
    assert off.max() < ACCELERATION.max() * 1e-3**2
    assert len(again.status) == len(again) == len(again.qd)


def test_resampling_a_motion_with_uneven_steps_interpolates_linearly() -> None:
    times = np.cumsum([0.01, 0.02, 0.01, 0.005] * 5)
    there = ROBOT.fk(ROBOT.neutral() + 0.1)
    motion = sp.simulate(
        ROBOT, ROBOT.neutral(), target=np.tile(there, (len(times), 1, 1)), times=times
    )
    again = motion.resampled(0.001)
    for column, given in zip(again.q.T, motion.q.T, strict=True):
        at = np.minimum(again.t, motion.t[-1])
        np.testing.assert_allclose(column, np.interp(at, motion.t, given), atol=1e-12)


def test_the_status_names_the_limit_that_acts() -> None:
    motion = JointPath(ROBOT, PATHS["line"]).timed(limits())
    steps = motion.status
    assert ((np.asarray(steps) & sp.StepStatus.ACCELERATION_LIMIT) != 0)[1:50].all()
    assert motion.active[10, 0] == 1
    assert motion.active[-10, 0] == -1


def test_bad_arguments_of_a_joint_path_are_refused() -> None:
    free = sp.Limits.for_robot(ROBOT, max_speed=np.inf)
    with pytest.raises(errors.InputError, match="panda_joint1 without either"):
        JointPath(ROBOT, PATHS["line"]).timed(free)
    with pytest.raises(errors.InputError, match="s must increase"):
        JointPath(ROBOT, PATHS["line"], [0.0, 0.0])
    with pytest.raises(errors.InputError, match="q must be finite"):
        JointPath(ROBOT, np.full((3, 7), np.nan))
    with pytest.raises(errors.InputError, match="s must be from 0 to"):
        JointPath(ROBOT, PATHS["line"]).at(-1.0)


def test_a_timed_path_of_equal_configurations_has_one_sample_at_rest() -> None:
    motion = JointPath(ROBOT, [ROBOT.neutral()] * 3).timed()
    assert len(motion) == 1
    assert not motion.qd.any()
