"""Ordinary and hard targets, all of which a robot can reach by construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robots_files import End
from supple.kinematics.frames import ancestors
from supple.motion.plausible import plausible_range

Array = np.ndarray


@dataclass(frozen=True)
class Set:
    """Configurations whose poses are the targets, and optional initial guesses of the search."""

    q: Array  # (N, n)
    q0: Array | None = None  # (n,) or (N, n)


def sets(
    end: End, count: int, hard: int, seed: int = 0, spread: float | None = None
) -> dict[str, Set]:
    """Return the targets of an end effector: `count` random ones, up to `hard` of each other kind.

    random: configurations uniformly distributed inside the limits.
    limits: every limited joint at one of its two limits.
    singular: joints at multiples of 90° at which the task's Jacobian loses rank, or stretched out.
    half turn: with an initial guess that differs from the solution by 180° in one joint.
    far: with an initial guess as far away as `solve` accepts (two turns, or 1000 rad or m where a
        joint has no limits), or with all joints at their lower limits.

    Prismatic joints without limits are within ±1 m. If `spread` is given, they are within
    ±`spread`, and the only hard set is "far", with the neutral configuration as initial guess.
    """
    rng = np.random.default_rng(seed)
    robot = end.robot
    free = robot.prismatic & ~np.isfinite(robot.upper - robot.lower)
    wide = np.where(free, 1.0 if spread is None else spread, 1.0)
    made = {"random": Set(robot.random(count, seed=rng) * wide)}
    if spread is not None:
        made["far"] = Set(made["random"].q[: count // 4], robot.neutral())
        return made
    made["limits"] = Set(_corners(end, rng, hard))
    made["singular"] = Set(_singular(end, rng, hard // 4))
    made["half turn"] = _half_turns(end, rng, hard // 4)
    far = np.where(np.isfinite(robot.lower), robot.lower, -1000.0)
    start = np.where(rng.random((hard // 2, 1)) < 0.5, far, np.full(robot.dof, 1000.0))
    made["far"] = Set(robot.random(hard // 2, seed=rng), np.clip(start, *plausible_range(robot)))
    return {name: one for name, one in made.items() if len(one.q)}


def _corners(end: End, rng: np.random.Generator, count: int) -> Array:
    """Return corners of the box of limits, each at most once unless a joint has no limits."""
    robot = end.robot
    q = robot.random(count, seed=rng)
    bound = np.where(rng.random(q.shape) < 0.5, robot.lower, robot.upper)
    bound = np.where(np.isfinite(bound), bound, np.where(bound < 0, robot.upper, robot.lower))
    q = np.where(np.isfinite(bound), bound, q)
    own = sorted(set(ancestors(robot, end.frame).values()))
    return q[np.sort(np.unique(q[:, own], axis=0, return_index=True)[1])]


def _jacobian(end: End, q: Array) -> Array:
    """Return the rows of J (N, m, n) that the tasks of an end effector use."""
    T, J = end.robot.fk_jacobian(q, end.frame)
    J = J[:, :, sorted(set(ancestors(end.robot, end.frame).values()))]
    if end.kind == "pose":
        return J
    if end.kind == "position":
        return J[:, :3]
    z = T[:, :3, 2]
    turning = np.cross(J[:, 3:].swapaxes(1, 2), z[:, None]).swapaxes(1, 2)
    across = np.linalg.svd(z[:, None])[2][:, 1:]
    return np.concatenate([J[:, :3], across @ turning], axis=1)


def _singular(end: End, rng: np.random.Generator, count: int) -> Array:
    """Return singular configurations: a tenth of them stretched out, where the reach is largest."""
    robot = end.robot
    q = robot.random(8 * count, seed=rng)
    snapped = np.where(rng.random(q.shape) < 0.8, np.round(q / (np.pi / 2)) * (np.pi / 2), q)
    snapped = np.clip(np.where(robot.prismatic, q, snapped), robot.lower, robot.upper)
    s = np.linalg.svd(_jacobian(end, snapped), compute_uv=False)
    quarter = snapped[s[:, -1] <= 1e-10 * s[:, 0]][: count - count // 10]
    return np.concatenate([quarter, _stretched(end, rng, count // 10)])


def _stretched(end: End, rng: np.random.Generator, count: int) -> Array:
    """Return configurations that reach farthest along random directions, by projected ascent."""
    robot = end.robot
    u = rng.normal(size=(count, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    q = robot.random(count, seed=rng)

    def height(q: Array) -> Array:
        return np.einsum("bi,bi->b", robot.fk(q, end.frame)[:, :3, 3], u)

    step, value = np.full((count, 1), 0.3), height(q)
    for _ in range(150):
        slope = np.einsum("bij,bi->bj", robot.jacobian(q, end.frame)[:, :3], u)
        moved = np.clip(q + step * slope, robot.lower, robot.upper)
        # Keep joints without limits bounded.
        moved = np.where(np.abs(moved) < 10, moved, q)
        there = height(moved)
        up = there >= value
        q, value = np.where(up[:, None], moved, q), np.where(up, there, value)
        step = np.where(up[:, None], np.minimum(1.5 * step, 20), 0.4 * step)
    return q


def _half_turns(end: End, rng: np.random.Generator, count: int) -> Set:
    """Return targets whose solutions differ from q0 by exactly 180° in one joint."""
    robot = end.robot
    chain = ancestors(robot, end.frame)
    alone = [c for c in chain.values() if list(chain.values()).count(c) == 1]
    plain = {c for j, c in chain.items() if robot._tree.joints[j].scale == 1.0}
    able = [
        c
        for c in alone
        if c in plain and not robot.prismatic[c] and robot.upper[c] - robot.lower[c] > np.pi
    ]
    if not able:
        return Set(np.empty((0, robot.dof)))
    start = robot.random(count, seed=rng)
    q = start.copy()
    rows, which = np.arange(count), rng.choice(able, count)
    low = np.where(np.isfinite(robot.lower), robot.lower, -np.pi)[which]
    high = np.where(np.isfinite(robot.upper), robot.upper, 2 * np.pi)[which]
    high = np.maximum(low, high - np.pi)
    start[rows, which] = low + rng.random(count) * (high - low)
    q[rows, which] = np.clip(start[rows, which] + np.pi, robot.lower[which], robot.upper[which])
    return Set(q, start)
