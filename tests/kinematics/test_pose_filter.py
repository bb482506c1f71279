"""Targets from a tracked hand are continuous, bounded, and follow the hand while it is tracked."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import supple as sp
from cases import each
from generated import seeds
from sizes import nightly
from supple.errors import InputError
from supple.kinematics.rotation import exp
from supple.poses import PoseFilter, interpolate

Array = np.ndarray
SEEDS = nightly(8, 1)  # number of random motions of a hand in each test
DT = nightly(2e-3, 4e-3)  # time step of the loop [s]


def drawn(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return irregular times (k,) and smooth poses (k, 4, 4) of a hand whose speed is within the
    bounds of `PoseFilter`.
    """
    t = np.cumsum(rng.uniform(0.004, 0.016, 200))
    a, b, c = rng.normal(size=(3, 3)), rng.uniform(1, 3, (3, 3)), rng.normal(size=3)
    position = 0.1 * np.sin(t[:, None, None] * b) @ c + a[0]
    turn = 0.3 * np.sin(t[:, None] * b[0])
    return t, np.array([sp.pose(p, rotation_vector=r) for p, r in zip(position, turn, strict=True)])


def speed(T: Array, dt: float) -> tuple[float, float]:
    """Return the largest speed and angular speed between successive poses (k, 4, 4)."""
    step = np.linalg.norm(np.diff(T[:, :3, 3], axis=0), axis=1).max()
    turns = [b[:3, :3] @ a[:3, :3].T for a, b in pairwise(T)]
    angle = max(np.arccos(np.clip((np.trace(R) - 1) / 2, -1, 1)) for R in turns)
    return float(step / dt), float(angle / dt)


def run(f: PoseFilter, t: Array, hand: Array | list[Array | None], tool: Array) -> Array:
    """Return the targets in a loop of time step DT that passes each pose of the hand on when its
    time has come.
    """
    f.engage(tool, 0.0)
    k, made = 0, []
    for now in np.arange(0, t[-1] + 0.3, DT):
        while k < len(t) and t[k] <= now:
            f.put(t[k], hand[k])
            k += 1
        made.append(f.at(now))
    return np.array(made)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_the_tool_repeats_the_motion_of_the_hand_after_the_lag(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, hand = drawn(rng)
    tool = sp.pose(rng.normal(size=3), rotation_vector=rng.normal(size=3))
    f = PoseFilter(lag=0.03)
    f.engage(tool, 0.0)
    for now, pose in zip(t, hand, strict=True):
        assert f.put(now, pose)
        if now > t[0] + 0.1:
            (k,) = np.flatnonzero(t <= now - 0.03)[-1:]
            s = (now - 0.03 - t[k]) / (t[k + 1] - t[k])
            there = interpolate(hand[k], hand[k + 1], [s])[0]
            expected = tool.copy()
            expected[:3, 3] += there[:3, 3] - hand[0, :3, 3]
            expected[:3, :3] = there[:3, :3] @ hand[0, :3, :3].T @ tool[:3, :3]
            np.testing.assert_allclose(f.at(now), expected, atol=1e-12)
    assert f.state == "tracking"


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_glitches_give_the_same_targets_as_if_their_samples_were_missing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, hand = drawn(rng)
    wrong = rng.random(len(t)) < 0.1
    wrong[0] = False
    wrong[1:] &= ~wrong[:-1]
    spoiled = [
        sp.pose(rng.normal(size=3) * 3, rotation_vector=rng.normal(size=3) * 3) if bad else one
        for bad, one in zip(wrong, hand, strict=True)
    ]
    tool = np.eye(4)
    with_glitches = run(PoseFilter(lag=0.05), t, spoiled, tool)
    without = run(PoseFilter(lag=0.05), t[~wrong], list(hand[~wrong]), tool)
    np.testing.assert_array_equal(with_glitches[: len(without)], without[: len(with_glitches)])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_targets_do_not_jump_when_the_tracker_loses_the_hand_or_jumps(
    seed: int, smoothing: float
) -> None:
    rng = np.random.default_rng(seed)
    t, hand = drawn(rng)
    given: list[Array | None] = list(hand)
    for _ in range(3):
        lost = int(rng.integers(0, 150))
        given[lost : lost + 40] = [None] * 40
        jump = int(rng.integers(0, 150))
        offset = sp.pose(rng.normal(size=3), rotation_vector=rng.normal(size=3))
        given[jump:] = [None if one is None else offset @ one for one in given[jump:]]
    f = PoseFilter(smoothing=smoothing)
    targets = run(f, t, given, sp.pose(rng.normal(size=3)))
    moving, turning = speed(targets, DT)
    assert moving <= f.max_speed + 1e-9
    assert turning <= f.max_turn + 1e-6
    f.release()
    assert f.state == "released"
    rest = f.at(t[-1] + 1.0)
    assert not f.put(t[-1] + 1.0, hand[0])
    np.testing.assert_array_equal(f.at(t[-1] + 2.0), rest)


@pytest.mark.parametrize("seed", seeds(2 * SEEDS))
def test_a_tracker_that_jumps_does_not_move_the_tool(seed: int) -> None:
    """A jump is ignored whether the tracker stays or jumps back, even after a time in which the
    bounds would allow this motion.
    """
    rng = np.random.default_rng(seed)
    t = 0.01 * np.arange(120)
    jumped = sp.pose(rng.normal(size=3) * 10 ** rng.uniform(-1, 1))
    jumped[0, 3] += 0.04  # more than the bounds allow
    begin, back = 20, 20 + int(rng.integers(1, 15))
    hand: list[Array | None] = [np.eye(4)] * len(t)
    hand[begin : back if seed % 2 else None] = [jumped] * (back if seed % 2 else len(t))
    hand = hand[: len(t)]
    tool = sp.pose(rng.normal(size=3), rotation_vector=rng.normal(size=3))
    f = PoseFilter()
    np.testing.assert_allclose(run(f, t, hand, tool) - tool, 0, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_hand_that_was_too_fast_for_a_moment_is_followed_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = 0.01 * np.arange(100)
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    speeds = np.where((t > 0.3) & (t < 0.35), 4.0, 2.0 * (t < 0.6))
    hand = [sp.pose(s * direction) for s in np.cumsum(speeds) * 0.01]
    f = PoseFilter()
    targets = run(f, t, hand, np.eye(4))
    np.testing.assert_allclose(targets[-1], hand[-1] @ sp.pose(-hand[0][:3, 3]), atol=1e-9)


@each("axes", ["world", "body"])
@each("seed", seeds(SEEDS))
def test_the_target_repeats_the_motion_of_the_hand_in_the_chosen_axes(seed: int, axes: str) -> None:
    rng = np.random.default_rng(seed)
    begin, tool = (
        sp.pose(*rng.normal(size=(1, 3)), rotation_vector=rng.normal(size=3)) for _ in "ht"
    )
    scale, step = 0.5, sp.pose(0.02 * rng.normal(size=3), rotation_vector=0.1 * rng.normal(size=3))
    f = PoseFilter(lag=0.0, scale=scale, axes=axes)
    f.engage(tool, 0.0)
    f.put(0.0, begin)
    expected = step.copy()
    expected[:3, 3] *= scale
    if axes == "body":  # equal motions, each in its own frame
        f.put(0.1, begin @ step)
        expected = tool @ expected
    else:  # displacement and rotation in the world are the same
        moved = sp.pose(begin[:3, 3] + step[:3, 3], rotation=step[:3, :3] @ begin[:3, :3])
        f.put(0.1, moved)
        expected = sp.pose(tool[:3, 3] + expected[:3, 3], rotation=step[:3, :3] @ tool[:3, :3])
    np.testing.assert_allclose(f.at(1.0), expected, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_samples_that_arrive_late_or_twice_change_no_target(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, hand = drawn(rng)
    one, other = PoseFilter(), PoseFilter()
    for f in (one, other):
        f.engage(np.eye(4), 0.0)
    assert not one.put(-0.01, hand[0])
    for k in range(len(t)):
        assert one.put(t[k], hand[k])
        assert other.put(t[k], hand[k])
        old = int(rng.integers(0, k + 1))
        assert not one.put(t[old], hand[rng.integers(0, k + 1)])
        assert not one.put(t[k] - 1e-9, None)
        np.testing.assert_array_equal(one.at(t[k]), other.at(t[k]))
    assert one.state == "tracking"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_targets_follow_a_steady_motion_with_a_constant_delay(seed: int, smoothing: float) -> None:
    """The motion may turn the hand around several times."""
    rng = np.random.default_rng(seed)
    t, _ = drawn(rng)
    v, axis = rng.uniform(-1, 1, 3), rng.normal(size=3)
    w = 10 * axis / np.linalg.norm(axis)  # [rad/s]
    f = PoseFilter(lag=0.02, smoothing=smoothing)
    f.engage(np.eye(4), 0.0)
    for k, now in enumerate(t):
        assert f.put(now, sp.pose(v * now, rotation=exp(w * now)))
        if k > 50:
            then = now - 0.02 - smoothing / 2 - t[0]
            expected = sp.pose(v * then, rotation=exp(w * then))
            np.testing.assert_allclose(f.at(now), expected, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_smoothing_removes_a_tremor_and_reduces_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, _ = drawn(rng)
    tremor = 0.002 * np.sin(2 * np.pi * 10 * t)  # at 10 Hz: a window of 0.2 s removes it
    noise = 0.001 * rng.normal(size=(len(t), 3))
    for disturbed, left in ((np.outer(tremor, [1, 0, 0]), 0.02), (noise, 0.5)):
        hand = np.array([sp.pose(p, rotation_vector=10 * p) for p in disturbed])
        smooth = run(PoseFilter(smoothing=0.2), t, hand, np.eye(4))
        smooth = smooth[int(0.5 / DT) : int(1.8 / DT)]
        for rows in (np.s_[:3, 3], np.s_[:3, :3]):
            before, after = (T[(slice(None), *rows)].std(axis=0).max() for T in (hand, smooth))
            assert after <= left * before


def test_a_filter_stores_only_the_samples_of_its_delay() -> None:
    f = PoseFilter(smoothing=0.1)
    f.engage(np.eye(4), 0.0)
    for k in range(300):
        f.put(0.01 * k, np.eye(4))
    assert len(f._path) < 50


def test_a_hand_without_new_samples_is_called_lost() -> None:
    f = PoseFilter(lost_after=0.1)
    assert f.state == "released"
    f.engage(np.eye(4), 0.0)
    assert f.state == "lost"
    f.put(0.0, np.eye(4))
    f.at(0.09)
    assert f.state == "tracking"
    f.at(0.11)
    assert f.state == "lost"
    f.put(0.12, sp.pose([1, 2, 3]))
    np.testing.assert_array_equal(f.at(0.5), np.eye(4))


def test_times_may_start_again_from_zero_when_the_hand_is_engaged() -> None:
    f = PoseFilter()
    f.engage(np.eye(4), 1e9)
    f.put(1e9, np.eye(4))
    f.engage(np.eye(4), 0.0)
    assert f.put(0.0, np.eye(4))


@pytest.mark.parametrize("axes", ["world", "body"])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rotations_of_targets_stay_orthonormal_however_often_the_hand_is_lost(
    axes: str, precision: type
) -> None:
    rng = np.random.default_rng(0)
    f = PoseFilter(axes=axes, lag=0.0)  # type: ignore[arg-type]
    f.engage(sp.pose(rng.normal(size=3), rpy=rng.normal(size=3)), 0.0)
    for t in np.arange(0.1, 6.0, 0.1):
        hand = sp.pose(rng.normal(size=3), rpy=rng.normal(size=3)).astype(precision)
        f.put(t, None)
        assert f.put(t + 0.01, hand)
        R = f.at(t + 0.02)[:3, :3]
        assert np.abs(R @ R.T - np.eye(3)).max() < 1e-13


def test_a_pose_filter_refuses_invalid_arguments() -> None:
    f = PoseFilter()
    with pytest.raises(InputError, match="engage"):
        f.at(0.0)
    f.engage(np.eye(4), 1.0)
    with pytest.raises(InputError, match="pose"):
        f.put(1.5, np.ones((4, 4)))
    with pytest.raises(InputError, match="pose"):
        f.put(1.5, np.eye(4)[None])
    with pytest.raises(InputError, match="finite"):
        f.put(np.nan, np.eye(4))
    with pytest.raises(InputError, match="world"):
        PoseFilter(axes="tool")  # type: ignore[arg-type]
