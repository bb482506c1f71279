"""All solutions of random 6-joint arms of every structure are found, or called incomplete.

SUPPLE_ARMS sets the number of arms; the nightly size is 10000.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import RobotFiles
from tests.support import arms_6r

import supple as sp
from generated import seeds
from sizes import nightly
from solving import solve

Array = NDArray[np.float64]
ARMS = int(os.environ.get("SUPPLE_ARMS", "64"))
GROUPS = 4  # number of tests among which the arms are divided
SEARCHED = nightly(8, 4)  # number of arms of each group whose solutions are also searched
TIGHT = {"position_tolerance": 1e-10, "rotation_tolerance": 1e-10}


def away(found: Array, q: Array) -> float:
    """Return the distance [rad] of q from the nearest of some configurations (s, 6), modulo 2π."""
    off = (found - q + np.pi) % (2 * np.pi) - np.pi
    return float(np.abs(off).max(axis=1).min(initial=np.inf))


def sensitivity(robot: sp.Robot, q: Array) -> float:
    """Return the largest change of joint angles per change of the pose, with lengths relative to
    that of the arm.
    """
    J = robot.jacobian(q)
    J[:3] /= robot.structure.length
    return 1 / max(float(np.linalg.svd(J, compute_uv=False)[-1]), 1e-12)


def check(robot: sp.Robot, q: Array, found: sp.Solutions) -> None:
    """Check that solutions are valid and distinct, and that complete ones contain q."""
    T = robot.fk(q)
    assert np.isfinite(found.q).all()
    assert ((found.q >= robot.lower) & (found.q <= robot.upper)).all()
    reached = robot.fk(found.q)
    np.testing.assert_allclose(reached, np.broadcast_to(T, reached.shape), atol=5e-6)
    for i, one in enumerate(found.q):
        assert away(found.q[:i], one) > 1e-6
    if not found.complete:
        assert found.reason
    elif not found.sampled.any():  # (a continuum is sampled, so q may lie between samples)
        assert away(found.q, q) <= 1e-7 + 1e-9 * sensitivity(robot, q)


@pytest.mark.parametrize("group", range(GROUPS))
def test_all_solutions_of_random_six_joint_arms_are_found_or_called_incomplete(group: int) -> None:
    kinds = set()
    for seed in seeds(ARMS)[group::GROUPS]:
        robot = arms_6r.arm(seed)
        q = robot.random(seed=seed)
        found = solve(robot, robot.fk(q), solutions="all")
        check(robot, q, found)
        kinds.add((robot.structure.form, bool(found.complete)))
    assert {(None, True), ("spherical", True)} <= kinds


@pytest.mark.parametrize("group", range(GROUPS))
def test_solutions_found_by_a_search_are_among_those_called_complete(group: int) -> None:
    """The search is independent of the method that finds all solutions."""
    compared = 0
    for seed in seeds(ARMS)[group::GROUPS]:
        robot = arms_6r.arm(seed)
        T = robot.fk(robot.random(seed=seed + 1))
        found = solve(robot, T, solutions="all")
        if not found.complete or found.sampled.any():
            continue
        searched = solve(robot, T, solutions=32, max_seeds=400, **TIGHT)
        for one in searched.q[searched.success]:
            if sensitivity(robot, one) < 1e4:
                assert away(found.q, one) < 1e-5
        compared += 1
        if compared >= SEARCHED:
            break
    assert compared >= min(SEARCHED, ARMS // GROUPS // 4)


@pytest.mark.parametrize("a1", [0.0, 0.1])
@pytest.mark.parametrize("a3", [0.0, 0.03])
def test_all_solutions_are_found_for_arms_with_a_wrist_offset(a1: float, a3: float) -> None:
    """The wrist has an offset; shoulder and elbow are drawn with and without offsets."""
    h = np.pi / 2
    rows = [(a1, -h, 0.3, 0.0), (0.4, 0.0, 0.0, -h), (a3, -h, 0.0, 0.0), (0.0, h, 0.4, 0.0)]
    wrist = [(0.07, -h, 0.0, 0.0), (0.0, 0.0, 0.1, 0.0)]
    robot = sp.dh([*rows, *wrist], limits=[(-2.8, 2.8)] * 6)
    q = robot.random(20, seed=0)
    found = solve(robot, robot.fk(q), solutions="all")
    assert found.complete.mean() > 0.9
    for one, solutions in zip(q, found.split(), strict=True):
        check(robot, one, solutions)
    ends = robot.fk([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.2, 0.3, 0.3, 0.4, 0.6, 0.6]])
    path = sp.plan_path(robot, sp.poses.interpolate(*ends, np.linspace(0, 1, 20)))
    assert path.success


@pytest.mark.parametrize("seed", [1646, 3887, 5309, 6621, 7147, 8509, 9405])
def test_solutions_are_right_for_axes_that_are_almost_parallel(seed: int) -> None:
    """Within a tolerance, such axes count as parallel, and may also intersect or coincide."""
    robot = arms_6r.arm(seed)
    q = robot.random(seed=seed)
    check(robot, q, solve(robot, robot.fk(q), solutions="all"))


def test_solutions_at_joint_limits_are_found(robot_files: RobotFiles) -> None:
    """Solutions at a joint limit are found, although their eigenvalues are inaccurate."""
    robot = sp.urdf(robot_files("ManipulaPy", "ManipulaPy_data/xarm/xarm6_robot.urdf"))
    # Here, candidates from the eigenvalues have errors of up to 7e-7 rad.
    for q in robot.random(200, seed=1)[[71, 174]]:
        low, high = np.minimum(robot.lower, q - 0.1), np.maximum(robot.upper, q + 0.1)
        for limits in ((q, high), (low, q)):
            limited = robot.with_limits(lower=limits[0], upper=limits[1])
            check(limited, q, solve(limited, robot.fk(q), solutions="all"))
