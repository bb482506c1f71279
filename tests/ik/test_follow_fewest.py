"""The fewest reconfigurations: an exhaustive search over dense samples never needs fewer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

import supple as sp

Array = NDArray[np.float64]

UR5E = sp.load("ur5e")
PANDA = sp.load("panda")
DENSE = 20  # samples of the oracle for each target
NEAR = 0.02  # steps between them on one branch [rad]: across a fold, the tool moves 0.05 mm


def wandering(rng: np.random.Generator, joints: int, turns: Array) -> Array:
    """Joint coordinates (80, n) along a smooth path."""
    s = np.linspace(0, 1, 80)[:, None]
    return rng.uniform(-1, 1, joints) + s * turns + 0.6 * np.sin(5 * s + rng.uniform(0, 6, joints))


def dense(poses: Array) -> Array:
    """Poses between those of a path, DENSE for each."""
    f = np.arange(DENSE) / DENSE
    every = [sp.poses.interpolate(A, B, f) for A, B in pairwise(poses)]
    return np.concatenate([*every, poses[-1:]])


def solutions(robot: sp.Robot, poses: Array) -> list[Array]:
    """All solutions of each pose."""
    found = sp.solve(robot, poses, solutions="all")
    return np.split(found.q, np.cumsum(found.count)[:-1])


def fewest(layers: list[Array], each: int, near: float) -> int | None:
    """The fewest changes through all solutions of all samples; None if a target has none.

    There are `each` samples for a target. A way continues to every solution that is near. Changes
    happen at targets only, and across an interval between targets only if no way crosses it.
    """
    if any(not len(q) for q in layers[::each]):
        return None
    changes = np.zeros(len(layers[0]))
    for i in range(0, len(layers) - 1, each):
        interval = layers[i : i + each + 1]
        # without a change, and after a change at the target before
        passed = carried(np.minimum(changes, changes.min() + 1), interval, near)
        if not np.isfinite(passed).any():
            passed[:] = changes.min() + 1
        changes = np.minimum(passed, passed.min() + 1)
    return int(changes.min())


def carried(changes: Array, layers: list[Array], near: float) -> Array:
    """The fewest changes of the solutions of the last layer, without another one."""
    for before, after in pairwise(layers):
        step = np.abs(after[:, None] - before).max(axis=2, initial=0.0)
        changes = np.where(step < near, changes, np.inf).min(axis=1, initial=np.inf)
    return changes


@pytest.mark.parametrize("seed", [*range(24), 38])  # 38: targets next to a fold of the elbow
def test_six_joints_change_as_rarely_as_possible(seed: int) -> None:
    """Joints wind by more than their ranges, which are less than a full turn."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1, 1, 6)
    room = rng.uniform(2.6, 3.1, 6)
    robot = UR5E.with_limits(lower=middle - room, upper=middle + room)
    turns = rng.uniform(-1, 1, 6) * [4, 0.6, 0.6, 4, 4, 9]
    poses = UR5E.fk(middle + wandering(rng, 6, turns))
    least = fewest(solutions(robot, dense(poses)), DENSE, NEAR)
    found = sp.follow(robot, poses)
    assert found.success == (least is not None)
    if least is not None:
        assert len(found.reconfigurations) <= least
    for change in found.reconfigurations:
        at = int(change.at)
        assert np.abs(robot.fk(change.after) - poses[at]).max() < 1e-6
        assert min(np.abs(robot.fk(change.before) - poses[at - k]).max() for k in (0, 1)) < 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_seven_joints_change_as_rarely_as_possible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    middle = (PANDA.lower + PANDA.upper) / 2
    room = 0.5 * (PANDA.upper - PANDA.lower)
    turns = rng.uniform(-1, 1, 7) * room
    q = np.clip(wandering(rng, 7, turns) + middle, PANDA.lower, PANDA.upper)
    poses = PANDA.fk(q)
    robot = PANDA.with_limits(lower=middle - 0.85 * room, upper=middle + 0.85 * room)
    joint = "panda_joint5"
    j = PANDA.joint_names.index(joint)
    parts: list[list[Array]] = [[] for _ in poses]
    for value in np.linspace(robot.lower[j], robot.upper[j], 120):
        every = solutions(robot.freeze({joint: value}), poses)
        for part, q in zip(parts, every, strict=True):
            part.append(np.insert(q, j, value, axis=1))
    least = fewest([np.concatenate(each) for each in parts], 1, 0.15)
    found = sp.follow(robot, poses)
    if least is None:
        return
    assert found.success
    assert len(found.reconfigurations) <= least
