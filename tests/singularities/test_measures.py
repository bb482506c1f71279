"""Measures of the benchmark, for motions with known measures."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from singularities.measures import HALT, measured
from singularities.passages import DT, Passage, passage
from singularities.singular import Array, moved

SPEED = 0.2  # [rad/s]


@pytest.fixture
def known() -> tuple[Passage, Array]:
    """Return a passage on which joint 1 moves at a constant speed, and its joint angles."""
    here = passage("ur5e", "elbow")  # gives the time at which the motion is singular
    q = here.q0 + np.outer(SPEED * here.t, np.eye(6)[0])
    return replace(here, poses=here.robot.fk(q)), q


def test_an_exact_motion_has_no_error(known: tuple[Passage, Array]) -> None:
    here, q = known
    m = measured(here, q)
    assert m.speed == pytest.approx(SPEED)
    assert m.speed_share == pytest.approx(SPEED / here.robot.max_speed[0])
    assert m.acceleration == pytest.approx(SPEED / DT)  # speed is reached from rest in one step
    assert max(m.position_max, m.position_rms, m.angle_max, m.angle_rms) < 1e-7
    assert (m.recovery, m.violations, m.farthest, m.halted, m.finite) == (0, 0, 0, 0, True)


def test_errors_of_a_motion_are_the_distances_and_angles_from_its_poses(
    known: tuple[Passage, Array],
) -> None:
    here, q = known
    aside = np.array([0.003, 0.004, 0.0, 0.0, 0.0, 0.02])  # 5 mm, 0.02 rad
    half = len(here.t) // 2
    poses = np.array([moved(T, aside) if k < half else T for k, T in enumerate(here.poses)])
    m = measured(replace(here, poses=poses), q)
    assert (m.position_max, m.angle_max) == pytest.approx((0.005, 0.02))
    assert m.position_rms == pytest.approx(0.005 * math.sqrt(half / len(here.t)))
    assert m.angle_rms == pytest.approx(0.02 * math.sqrt(half / len(here.t)))


@pytest.mark.parametrize(("after", "expected"), [(-0.5, 0.0), (0.2975, 0.3), (9, math.inf)])
def test_recovery_is_the_time_from_the_end_of_the_singular_part_to_the_last_error(
    known: tuple[Passage, Array], after: float, expected: float
) -> None:
    here, q = known
    aside = np.array([moved(T, np.array([0.002, 0, 0])) for T in here.poses])
    off = here.t < here.singular[1] + after
    poses = np.where(off[:, None, None], aside, here.poses)
    assert measured(replace(here, poses=poses), q).recovery == pytest.approx(expected, abs=1e-9)


def test_violations_of_speed_and_position_limits_are_counted(known: tuple[Passage, Array]) -> None:
    here, q = known
    fast = q.copy()
    fast[100:, 5] += 0.1  # a jump of 20 rad/s in one step
    assert measured(here, fast).too_fast == 1
    out = q.copy()
    out[300:310, 2] = here.robot.upper[2] + 0.25
    m = measured(here, out)
    assert m.outside == 10
    assert m.farthest == pytest.approx(0.25)
    assert m.too_fast == 2


def test_the_halted_time_counts_long_rest_only_while_a_reachable_pose_is_not_met(
    known: tuple[Passage, Array],
) -> None:
    here, q = known
    stopped = q.copy()
    stopped[200:300] = q[200]
    radius = np.linalg.norm(here.poses[0, :2, 3])  # distance from the axis of joint 1
    before_it_is_off = 0.001 / (SPEED * radius)
    rest = 99 * DT - before_it_is_off
    assert measured(here, stopped).halted == pytest.approx(rest, abs=1.5 * DT)
    nowhere = replace(here, reachable=np.zeros(len(here.t), bool))
    assert measured(nowhere, stopped).halted == 0
    short = q.copy()
    short[200 : 200 + round(HALT / DT)] = q[200]
    assert measured(here, short).halted == 0


def test_a_motion_with_nan_is_reported_as_not_finite(known: tuple[Passage, Array]) -> None:
    here, q = known
    q[7:] = np.nan
    m = measured(here, q)
    assert not m.finite
    assert math.isinf(m.speed)


def test_jerk_is_the_third_difference_of_a_motion_that_starts_at_rest(
    known: tuple[Passage, Array],
) -> None:
    here, q = known
    bent = q.copy()
    bent[100:, 2] += 1e-5  # the third differences of this jump are 1, -2, 1 times 1e-5
    m = measured(here, bent)
    assert m.jerk == pytest.approx(max(3 * 1e-5, SPEED * DT) / DT**3)
    jerk = np.diff(np.vstack([q[:1].repeat(3, axis=0), bent])[:, [0, 2]], n=3, axis=0) / DT**3
    assert m.jerk_rms == pytest.approx(math.sqrt((jerk[1:] ** 2).sum() / (len(q) - 1) / 6))


def test_the_deviation_from_the_path_ignores_delays(known: tuple[Passage, Array]) -> None:
    here, q = known
    late = np.vstack([q[:1].repeat(40, axis=0), q[:-40]])  # 0.2 s late on the same path
    m = measured(here, late)
    assert m.position_max == pytest.approx(
        np.linalg.norm(here.poses[0, :3, 3] - here.poses[40, :3, 3]), rel=1e-6
    )
    assert m.deviation < 1e-6  # the path is a polyline, the motion an arc
    aside = np.array([moved(T, np.array([0, 0, 0.01])) for T in here.poses])
    off = measured(replace(here, poses=aside), q)
    assert (off.deviation, off.deviation_rms) == pytest.approx((0.01, 0.01), rel=1e-3)


def test_the_duration_is_the_time_at_which_the_last_pose_is_reached(
    known: tuple[Passage, Array],
) -> None:
    here, q = known
    assert measured(here, q).duration == pytest.approx(here.t[-1], abs=0.2)
    stops = q.copy()
    stops[600:] = q[600]
    ends = replace(here, poses=here.robot.fk(stops))
    reach = np.linalg.norm(here.poses[600, :3, 3] - here.poses[580, :3, 3]) / 20
    early = math.ceil(0.001 / reach)  # number of steps within a millimeter of the last pose
    assert measured(ends, stops).duration == pytest.approx((600 - early) * DT, abs=4 * DT)
    assert math.isinf(measured(ends, q).duration)
