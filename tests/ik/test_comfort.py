"""Without q0, `solve` returns a comfortable posture: joints near the middle of their ranges."""

from __future__ import annotations

import os

import numpy as np
import pytest

import supple
from cases import each
from generated import case, seeds
from sizes import nightly
from solving import solve
from supple.ik.preference import discomfort

Array = np.ndarray
COUNT = int(os.environ.get("SUPPLE_COMFORT_TARGETS", "300"))
CASES = int(os.environ.get("SUPPLE_COMFORT_CASES", nightly("40", "20")))


def top_down(count: int, seed: int, reach: tuple[float, float]) -> Array:
    """Return poses of the hand in front of the base that point down."""
    rng = np.random.default_rng(seed)
    angle, turn = rng.uniform(-np.pi / 2, np.pi / 2, count), rng.uniform(-np.pi, np.pi, count)
    radius = rng.uniform(*reach, count)
    T = np.zeros((count, 4, 4))
    T[:, 0, 0], T[:, 0, 1], T[:, 1, 0], T[:, 1, 1] = (
        np.cos(turn),
        np.sin(turn),
        np.sin(turn),
        -np.cos(turn),
    )
    T[:, 2, 2], T[:, 3, 3] = -1, 1
    T[:, 0, 3], T[:, 1, 3] = radius * np.cos(angle), radius * np.sin(angle)
    T[:, 2, 3] = rng.uniform(0.05, 0.45, count)
    return T


def behind(q: Array, T: Array) -> Array:
    """Return a mask of configurations with joint 1 more than 90° away from the target's azimuth."""
    away = q[:, 0] - np.arctan2(T[:, 1, 3], T[:, 0, 3])
    return np.abs((away + np.pi) % (2 * np.pi) - np.pi) > np.pi / 2


@pytest.mark.parametrize("alone", [False, True])
def test_the_first_joint_of_a_panda_turns_toward_the_target(alone: bool) -> None:
    robot = supple.load("panda")
    T = top_down(COUNT, 1, (0.35, 0.6))
    q = np.array([solve(robot, t).q for t in T]) if alone else solve(robot, T).q
    assert behind(q, T).mean() < 0.08
    near = (np.minimum(q - robot.lower, robot.upper - q) < 0.05).any(axis=1)
    assert near.mean() < 0.1


@each("name", ["panda", "iiwa14", "ur5e", "puma560", "youbot"])
def test_the_default_preference_is_more_comfortable_than_the_first_solution(name: str) -> None:
    robot = supple.load(name)
    T = robot.fk(robot.random(COUNT, seed=2))
    default, first = solve(robot, T), solve(robot, T, prefer="fast")
    assert default.success.all()
    assert first.success.all()
    assert discomfort(robot, default.q).mean() < discomfort(robot, first.q).mean()


def test_solve_without_q0_prefers_comfortable_for_arrays_nested_lists_and_batches() -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(20, seed=3))
    for t in T:
        q = solve(robot, t).q
        for target in (t, t.tolist()):
            np.testing.assert_array_equal(q, solve(robot, target, prefer="comfortable").q)
    q = solve(robot, T).q
    np.testing.assert_array_equal(q, solve(robot, T, prefer="comfortable", threads=1).q)
    np.testing.assert_array_equal(q[7:], solve(robot, T[7:]).q)


@pytest.mark.parametrize("alone", [False, True])
def test_full_turns_are_unwound_toward_the_middle(alone: bool) -> None:
    """A joint whose range exceeds a full turn ends at most half a turn away from zero."""
    robot = supple.load("ur5e")
    T = robot.fk(robot.random(COUNT, seed=4))
    found = [solve(robot, t) for t in T] if alone else list(solve(robot, T))
    for one, t in zip(found, T, strict=True):
        assert one.success
        roomy = robot.upper - robot.lower > 2 * np.pi + 1e-9
        assert np.abs(one.q[roomy]).max() <= np.pi + 1e-9
        np.testing.assert_allclose(robot.fk(one.q), t, atol=3e-6)


def test_preferring_comfort_misses_hardly_more_targets_than_prefer_fast() -> None:
    """On generated robots, "comfortable" misses at most 0.1 % more of the targets than "fast"."""
    missed = np.zeros(2, dtype=int)
    for seed in seeds(CASES):
        made = case(seed)
        for k, options in enumerate(({}, {"prefer": "fast"})):
            missed[k] += (~made.solve(**options).success).sum()
    assert missed[0] <= missed[1] + CASES // 20, missed  # at most a thousandth of the targets


def test_with_prefer_comfortable_several_solutions_are_ordered_by_discomfort() -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(1, seed=5)[0])
    found = solve(robot, T, solutions=6, prefer="comfortable")
    cost = discomfort(robot, found.q)
    assert len(found) == 6
    assert (np.diff(cost) >= 0).all()
    assert discomfort(robot, robot.neutral()[None] * 0 + (robot.lower + robot.upper) / 2) == 0


@each("seed", range(8))
def test_discomfort_does_not_depend_on_joints_without_limits(seed: int) -> None:
    one = case(seed, 16)
    free = ~np.isfinite(one.robot.lower) & ~np.isfinite(one.robot.upper)
    moved = np.where(free, np.random.default_rng(seed).normal(size=one.q.shape), one.q)
    np.testing.assert_array_equal(discomfort(one.robot, moved), discomfort(one.robot, one.q))
