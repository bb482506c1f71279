"""Targets of robots with prismatic joints of any length, with or without limits, are met.

The robot is a mobile manipulator: a base that slides along x and y and rotates carries a six-joint
arm of about a meter. Targets are poses at random configurations, so each of them has a solution.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from mobile import AXES, PLACES, joint, mobile
from sizes import nightly
from solving import solve
from supple import PositionTask, SolveStatus
from targets import hold

COUNT = nightly(2000, 800)


@pytest.mark.parametrize("turn_first", [False, True], ids=["slides first", "turns first"])
@pytest.mark.parametrize("limit", [3.0, 100.0, 1000.0, 1e4])
def test_targets_of_an_arm_on_a_long_limited_base_are_met(limit: float, turn_first: bool) -> None:
    robot = mobile(limit, turn_first)
    T = robot.fk(robot.random(COUNT, seed=0))
    found = solve(robot, T)
    assert np.all(found.success), (~found.success).sum()
    hold(robot, T, found)


@pytest.mark.parametrize("far", [1.0, 100.0, 1e4, 1e6])
def test_targets_of_an_arm_on_an_unlimited_base_are_met(far: float) -> None:
    robot = mobile(None)
    q = robot.random(COUNT, seed=0)
    q[:, :2] *= far
    T = robot.fk(q)
    for start in (None, robot.neutral()):
        found = solve(robot, T, q0=start)
        assert np.all(found.success), (~found.success).sum()
        hold(robot, T, found)


def test_targets_100000_km_away_need_few_starts() -> None:
    """At this distance, float32 resolves only meters, and float64 about 10 nm."""
    robot = mobile(None)
    q = robot.random(10 * COUNT, seed=0)
    q[:, :2] *= 1e8
    found = solve(robot, robot.fk(q), max_seeds=32)
    assert np.all(found.success), (~found.success).sum()


def test_a_single_target_200_km_away_is_met() -> None:
    robot = mobile(None)
    q = robot.neutral()
    q[:2] = 3e3, -2e5
    assert solve(robot, robot.fk(q)).success


@each("limit", [None, 1e3])
def test_targets_of_a_single_prismatic_joint_are_met_with_and_without_limits(
    limit: float | None,
) -> None:
    rest = "" if limit is None else f'<limit lower="{-limit}" upper="{limit}"/>'
    robot = supple.urdf(
        f'<robot name="slider"><link name="a"/>{joint("b", "prismatic", "a", rest)}</robot>'
    )
    assert solve(robot, [1e3, 0, 0], tasks=PositionTask()).success
    beyond = solve(robot, [2e3, 0, 0], tasks=PositionTask())
    assert (beyond.status == SolveStatus.CONVERGED) == (limit is None)
    np.testing.assert_allclose(beyond.q, [2e3 if limit is None else limit], atol=1e-6)


def test_revolute_joints_with_wide_limits_make_no_needless_full_turns() -> None:
    links = '<link name="a"/>'
    parent = "a"
    for i, (axis, place) in enumerate(zip(AXES, PLACES, strict=True)):
        rest = f'<origin xyz="{place}"/><axis xyz="{axis}"/><limit lower="-1000" upper="1000"/>'
        links += joint(f"j{i}", "revolute", parent, rest)
        parent = f"j{i}"
    robot = supple.urdf(f'<robot name="winding">{links}</robot>')
    T = robot.fk(robot.random(COUNT, seed=1))
    found = solve(robot, T)
    assert np.all(found.success), (~found.success).sum()
    assert np.abs(found.q).max() < 4 * np.pi, "joints have needless turns"
    hold(robot, T, found)
