"""All solutions of targets at singularities and near them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import supple as sp
from all_solutions import check_solutions, contains, difference
from solving import solve
from supple.ik.solutions import Solutions

Array = NDArray[np.float64]


def check_continuum(robot: sp.Robot, q: Array, free: list[int], distinct: int) -> Solutions:
    """Check that at least `distinct` samples of the self-motion at q are found, in which exactly
    the joints `free` move.
    """
    T = robot.fk(q)
    found = solve(robot, T, solutions="all")
    check_solutions(robot, T, found, 2e-7)
    moving = found.free.any(axis=1)
    assert moving.sum() >= distinct
    near = np.abs(difference(found.q, q))
    others = [j for j in range(6) if j not in free]
    same = moving & (near[:, others].max(axis=1, initial=0.0) < 1e-3)
    assert same.sum() >= distinct
    expected = np.isin(np.arange(6), free)
    assert (found.free[same] == expected).all()
    return found


def test_aligned_wrist_axes_give_a_continuum_of_solutions() -> None:
    q = np.array([0.3, -1.0, 0.7, 0.4, 0.0, -0.9])
    robot = sp.load("puma560").with_limits(lower=np.full(6, -np.pi), upper=np.full(6, np.pi))
    found = check_continuum(robot, q, [3, 5], 8)
    # The sum of the two angles is that of q, up to full turns.
    straight = np.abs(difference(found.q[:, :3], q[:3])).max(axis=1) < 1e-3
    total = difference(found.q[straight][:, 3] + found.q[straight][:, 5], q[3] + q[5])
    np.testing.assert_allclose(total, 0.0, atol=1e-6)


def test_four_parallel_axes_give_a_continuum_of_solutions() -> None:
    """If the last axis of a UR5e is parallel to axes 2 to 4, these four joints move freely."""
    q = np.array([0.3, -1.2, 1.4, 0.4, 0.0, -0.9])
    T = sp.load("ur5e").fk(q)
    found = solve(sp.load("ur5e"), T, solutions="all")
    check_solutions(sp.load("ur5e"), T, found, 2e-7)
    planar = np.abs(found.q[:, 4]) < 1e-6
    assert planar.sum() >= 8
    assert (found.free[planar] == [False, True, True, True, False, True]).all()


def test_a_wrist_on_the_first_axis_gives_a_continuum_of_solutions() -> None:
    """If the center of the wrist is on the first axis, the first joint moves freely."""
    h = np.pi / 2
    arm = [(0, h, 0.4, 0), (0.5, 0, 0, 0), (0, h, 0, 0), (0, -h, 0.5, 0), (0, h, 0, 0)]
    robot = sp.dh([*arm, (0, 0, 0.1, 0)])
    # The upper arm and the forearm are mirror images about the first axis.
    q = np.array([0.3, 0.9, 0.0, 0.8, 0.7, 0.2])
    wrist = robot.with_tool(sp.pose([0, 0, -0.1]))
    from_axis = [np.hypot(*wrist.fk(np.array([0, 0.9, b, 0, 0, 0]))[:2, 3]) for b in ANGLES]
    q[2] = ANGLES[int(np.argmin(from_axis))]
    assert min(from_axis) < 1e-12
    found = solve(robot, robot.fk(q), solutions="all")
    check_solutions(robot, robot.fk(q), found, 2e-7)
    assert found.free[:, 0].any()
    assert len(np.unique(np.round(found.q[:, 0], 3))) >= 8


# Candidates of q3: either sign of twice the angle between upper arm and vertical, for any zero of
# q3.
ANGLES = [a * (np.pi / 2 - 0.9) * 2 + b for a in (1, -1) for b in (0, np.pi / 2, -np.pi / 2, np.pi)]


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
def test_the_solution_of_a_stretched_arm_is_isolated(name: str) -> None:
    """At the end of the reach, the solution is found, `complete` is true and no joint is free."""
    robot = sp.load(name).with_limits(lower=np.full(6, -4.0), upper=np.full(6, 4.0))
    q = robot.random(50, seed=17)
    q[:, 2] = 0.0 if name == "ur5e" else np.arctan2(0.0203, 0.4318) + np.pi / 2
    assert (robot.singular_values(q)[:, -1] < 1e-4).all()
    for one, found in zip(q, solve(robot, robot.fk(q), solutions="all").split(), strict=True):
        assert contains(found.q, one, 1e-3)
        assert not found.free.any()
        assert found.complete


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
@pytest.mark.parametrize("angle", [1e-3, 1e-5, 1e-6, 3e-7, 1e-8, 1e-12])
def test_all_solutions_are_found_near_wrist_singularities(name: str, angle: float) -> None:
    robot = sp.load(name)
    for q in robot.random(20, seed=11):
        q[4] = angle
        T = robot.fk(q)
        found = solve(robot, T, solutions="all")
        check_solutions(robot, T, found, 1e-6)
        assert contains(found.q[:, 4:5], q[4:5], 1e-6)
        if angle > 1e-7:  # (the cosine of a smaller angle is rounded to 1)
            # The isolated solution is found besides the samples of the nearby continuum.
            assert contains(found.q, q, 1e-3)


@pytest.mark.parametrize("away", [1e-4, 1e-6, 1e-7, 3e-8, 1e-9])
def test_isolated_solutions_are_found_for_targets_near_the_first_axis(away: float) -> None:
    """Isolated solutions are found for a wrist so near the first axis that joint 1
    is almost free.
    """
    h = np.pi / 2
    table = [(0.1, -h, 0.6, 0), (0.7, 0, 0, -h), (0.1, -h, 0, 0), (0, h, 0.8, 0), (0, -h, 0, 0)]
    robot = sp.dh([*table, (0, 0, 0.1, 0)])
    wrist = robot.with_tool(sp.pose([0, 0, -0.1]))
    q = np.random.default_rng(3).uniform(-2.0, 2.0, (20, 6))
    low, high = np.full(20, 0.3), np.full(20, -2.8)  # limits of joint 3 on either side of the axis
    q[:, 1] = 0.4
    for _ in range(60):  # the distance from the axis is a signed coordinate in the arm's plane
        q[:, 2] = 0.5 * (low + high)
        p = wrist.fk(q)[:, :3, 3]
        right = p[:, 0] * np.cos(q[:, 0]) + p[:, 1] * np.sin(q[:, 0]) > away
        low, high = np.where(right, q[:, 2], low), np.where(right, high, q[:, 2])
    assert np.allclose(np.hypot(*wrist.fk(q)[:, :2, 3].T), away, rtol=1e-3)
    for one, found in zip(q, solve(robot, robot.fk(q), solutions="all").split(), strict=True):
        check_solutions(robot, robot.fk(one), found, 1e-6)
        assert contains(found.q, one, 1e-3)
