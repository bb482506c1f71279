"""Passages of the benchmark lead through singularities, are smooth, and reachable as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple as sp
from cases import each
from singularities.arms import ROBOTS, arms, more_arms
from singularities.measures import errors
from singularities.passages import BEYOND, DT, INSIDE, KINDS, MOVES, across, passage
from singularities.singular import Array, difference, moved, reached, unit
from sizes import nightly
from solving import solve

ALL = [(name, kind) for name in ROBOTS for kind in KINDS]
# Each kind of passage for at least one robot, two kinds for each robot, and one with self-motion.
SOME = nightly(ALL, [pair for k, pair in enumerate(ALL) if (k // len(KINDS) + k) % 3 == 1])
SEVERAL = pytest.mark.parametrize(("name", "kind"), SOME, ids=[" ".join(each) for each in SOME])
POSTURES = [(name, posture) for name in ROBOTS for posture in ("stretched", "wrist", "shoulder")]
DEEP = 0.01  # upper bound on σ_min at mid-path; at regular configurations σ_min is 0.05 or more
AVOIDABLE = {("panda", "wrist"), ("panda", "shoulder"), ("iiwa14", "shoulder")}


@SEVERAL
def test_every_passage_leads_through_a_singularity(name: str, kind: str) -> None:
    here = passage(name, kind)
    middle = np.abs(here.t - MOVES / 2) < 0.1
    assert here.sigma[-1] > 0.05
    if kind == "start":
        assert here.sigma[0] < 1e-9
        assert np.array_equal(here.q0, arms()[name].singularity("stretched").q)
    else:
        assert here.sigma[0] > 0.05
        assert here.sigma[middle].min() < DEEP
    a, b = here.singular
    assert 0 <= a < b < MOVES


@SEVERAL
def test_the_nominal_motion_of_a_passage_follows_it_inside_the_joint_limits(
    name: str, kind: str
) -> None:
    here = passage(name, kind)
    exact = errors(here, here.nominal)[here.reachable]
    # Its nominal motion ends SHORT of the edge.
    assert exact.max() < (2e-4 if kind == "reach" else 1e-7)
    assert (here.nominal > here.robot.lower).all()
    assert (here.nominal < here.robot.upper).all()
    assert here.reachable.all() == (kind != "reach")


@SEVERAL
def test_a_passage_is_smooth_and_starts_and_ends_at_rest(name: str, kind: str) -> None:
    here = passage(name, kind)
    for k in range(0, len(here.twists), 20):
        assert np.allclose(moved(here.poses[k], DT * here.twists[k]), here.poses[k + 1], atol=1e-12)
    assert np.linalg.norm(here.twists[0]) < 1e-3
    assert not here.twists[here.t[:-1] > MOVES].any()
    # Differences are proportional to dt and dt², so velocity and acceleration do not jump.
    for order, bound in ((1, 2.0), (2, 20.0)):
        assert np.abs(np.diff(here.twists, order, axis=0)).max() < bound * DT**order


@pytest.mark.parametrize("name", ROBOTS)
def test_poses_of_a_passage_beyond_the_edge_of_the_reach_are_unreachable(name: str) -> None:
    """A solver with restarts finds a solution 1 mm inside the edge, and none 1 mm outside."""
    arm = arms()[name]
    at = arm.singularity("stretched")
    T = arm.robot.fk(at.q)
    assert solve(arm.robot, moved(T, 1e-3 * at.inward)).success
    assert not solve(arm.robot, moved(T, -1e-3 * at.inward)).success
    here = passage(name, "reach")
    far = (T[:3, 3] - here.poses[:, :3, 3]) @ at.inward
    assert far.max() == pytest.approx(BEYOND * arm.reach)
    assert np.array_equal(here.reachable, far <= 0)


@each(("name", "posture"), POSTURES)
def test_no_joint_moves_the_tool_along_the_lost_direction_of_a_singularity(
    name: str, posture: str
) -> None:
    at, robot = arms()[name].singularity(posture), arms()[name].robot
    J = robot.jacobian(at.q)
    assert np.abs(at.u @ J).max() < 1e-12
    assert np.abs(J @ at.null.T).max() < 1e-12
    assert len(at.null) == robot.dof - 5
    # A self-motion by h n, for n in the null space, moves the frame along u by ½ h² H(n, n).
    h, rng = 1e-3, np.random.default_rng(0)
    for _ in range(5):
        c = rng.normal(size=len(at.null))
        ways = [difference(robot.fk(at.q), robot.fk(at.q + s * h * c @ at.null)) for s in (-1, 1)]
        assert (ways[0] + ways[1]) @ at.u / h**2 == pytest.approx(c @ at.H @ c, abs=1e-5)


@SEVERAL
def test_a_passage_is_avoidable_where_self_motion_leads_away_from_its_singularity(
    name: str, kind: str
) -> None:
    here = passage(name, kind)
    assert here.avoidable == ((name, kind) in AVOIDABLE)
    if not here.avoidable:
        return
    # Along a self-motion that starts in a direction n with H(n, n) = 0, σ_min grows.
    at, robot = arms()[name].singularity(kind), here.robot
    values, vectors = np.linalg.eigh(at.H)
    way = (np.sqrt(values[-1]) * vectors[:, 0] + np.sqrt(-values[0]) * vectors[:, -1]) @ at.null
    sigma = self_motion(robot, at.q, way / np.linalg.norm(way))
    assert (np.diff(sigma) > 0).all()
    # σ_min grows slowly at the wrist of a Panda.
    assert sigma[-1] > (1e-3 if kind == "wrist" else 5e-2)


def self_motion(robot: sp.Robot, q: Array, way: Array) -> Array:
    """Return σ_min (20,) along a self-motion of 1 rad from q that starts in the direction `way`."""
    T, sigma = robot.fk(q), []
    for _ in range(20):
        there = reached(robot, q + 0.05 * way, T)
        assert there is not None
        q, way = there, unit(there - q)
        sigma.append(robot.singular_values(q)[-1])
    return np.array(sigma)


def test_rounding_errors_do_not_change_the_direction_of_a_passage() -> None:
    rng = np.random.default_rng(3)
    for arm in (*arms().values(), *more_arms().values()):
        at = arm.singularity("stretched")
        sideways = across(arm, at)
        assert sideways @ at.inward == pytest.approx(0, abs=1e-9)
        for _ in range(10):
            near = replace(at, q=at.q + 1e-12 * rng.normal(size=at.q.shape))
            np.testing.assert_allclose(across(arm, near), sideways, atol=1e-9)


def test_the_passage_along_the_boundary_is_inside_the_sphere_of_the_reach() -> None:
    """The distance from the center of the sphere is slightly less than its radius `Arm.reach`."""
    for name in ROBOTS:
        arm, here = arms()[name], passage(name, "boundary")
        tips = here.poses[:, :3, 3]
        center = arm.robot.fk(arm.singularity("stretched").q)[:3, 3]
        center = center + arm.reach * arm.singularity("stretched").inward
        far = np.linalg.norm(tips - center, axis=1)
        assert far.min() == pytest.approx((1 - INSIDE) * arm.reach)
        assert 0 < arm.reach - far.max() < 2e-4
