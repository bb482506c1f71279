"""Families of random paths for trajectories B, C and modified C, whose geometry is not printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from supple.papers.maciejewski_klein.courses import INTERVAL, TRIPLE, Course
from supple.papers.maciejewski_klein.inverse import (
    A2,
    D6,
    FOREARM,
    INNER,
    PUMA,
    configurations,
)
from supple.papers.style import Array

Mask: TypeAlias = NDArray[np.bool_]

LENGTH = {"b": 436, "c": 785}  # number of intervals of all paths of a family
AWAY = 0.1  # smallest σ_min of starts away from singularities, the value of λ


@dataclass(frozen=True, eq=False)
class Family:
    """A set of P paths of one kind.

    Attributes:
        start: Configurations at the starts (P, 6) [rad].
        poses: Poses of the tool (K + 1, P, 4, 4) [m].
        both_ends: Whether the ends are away from singularities, as in `Course`.
    """

    start: Array
    poses: Array
    both_ends: bool

    def __len__(self) -> int:
        return len(self.start)

    def only(self, which: Mask | NDArray[np.integer[Any]]) -> Family:
        """Return a family of the selected paths."""
        return Family(self.start[which], self.poses[:, which], self.both_ends)

    def course(self, number: int) -> Course:
        """Return the path with this index."""
        return Course(self.start[number], self.poses[:, number], self.both_ends)


def lines(rng: np.random.Generator, count: int) -> Family:
    """Return candidates for trajectory B: horizontal lines of 0.654 m past the shoulder.

    The wrist passes a shoulder singularity 0.2 to 0.45 m after the start, with any angles of upper
    arm and elbow, at a distance of at most 10 mm and at most 10° off the tangent of the cylinder
    that the wrist cannot enter. The orientation of the hand is such that on some branch the hand
    ends at most 12° off the line of the forearm. The start is on any of the eight branches.
    `is_like_b` selects the paths that match the paper's description.
    """
    q = np.zeros((count, 6))
    q[:, 1] = rng.uniform(-np.pi, np.pi, count)
    inner = np.arccos(-A2 * np.cos(q[:, 1]) / FOREARM)  # the wrist is over the shoulder
    q[:, 2] = rng.choice([-1.0, 1.0], count) * inner + INNER - q[:, 1]
    wrist = PUMA.fk(q, "link4")[:, :3, 3]
    heading = np.radians(rng.uniform(-10, 10, count)) + rng.choice([0, np.pi], count)
    begin, beside = rng.uniform(-0.45, -0.2, count), rng.uniform(-0.01, 0.01, count)
    along = begin + INTERVAL * np.arange(LENGTH["b"] + 1)[:, None]
    moved = np.stack(
        [along * np.cos(heading), along * np.sin(heading) + beside, np.zeros_like(along)], axis=-1
    )
    # End poses with the wrist at the required position and a random orientation of the hand.
    upright = np.tile(np.eye(4), (count, 1, 1))
    upright[:, :3, 3] = wrist + moved[-1] + [0, 0, D6]
    end = configurations(upright, rng.choice([-1.0, 1.0], (count, 3)))
    end[:, 3] = rng.uniform(-np.pi, np.pi, count)
    end[:, 4] = np.radians(rng.uniform(-12, 12, count)) + rng.choice([0, np.pi], count)
    pose = PUMA.fk(np.nan_to_num(end))
    pose[:, :3, 3] -= moved[-1]
    return _reachable(rng, pose, moved, np.asarray(np.isfinite(end).all(axis=1)), both_ends=False)


def circles(rng: np.random.Generator, count: int) -> Family:
    """Return trajectories of kind C: vertical circular arcs of 1.18 m, with radii of 0.2 to 0.4 m,
    in planes at up to 20° to the x-z plane, starting on any branch. The middle of each arc is its
    top, and the arm is at the triple singularity there.
    """
    radius, plane = rng.uniform(0.2, 0.4, count), np.radians(rng.uniform(-20, 20, count))
    plane += rng.choice([0, np.pi], count)
    angle = INTERVAL * (np.arange(LENGTH["c"] + 1)[:, None] - LENGTH["c"] / 2) / radius
    across = radius * np.sin(angle)
    moved = np.stack(
        [across * np.cos(plane), across * np.sin(plane), radius * (np.cos(angle) - 1)], axis=-1
    )
    pose = np.tile(PUMA.fk(TRIPLE), (count, 1, 1))
    return _reachable(rng, pose, moved, np.ones(count, dtype=bool), both_ends=True)


def _reachable(
    rng: np.random.Generator, pose: Array, moved: Array, valid: Mask, *, both_ends: bool
) -> Family:
    """Return those valid paths whose start is reachable and away from singularities."""
    poses = np.tile(pose, (len(moved), 1, 1, 1))
    poses[..., :3, 3] += moved
    start = configurations(poses[0], rng.choice([-1.0, 1.0], (len(pose), 3)))
    good = valid & np.asarray(np.isfinite(start).all(axis=1))
    sigma = np.linalg.svd(PUMA.jacobian(np.where(good[:, None], start, 0)), compute_uv=False)
    return Family(start, poses, both_ends).only(good & (sigma[:, -1] >= AWAY))


def is_like_b(q: Array) -> Mask:
    """Return a mask (P,) of the motions (K + 1, P, 6) that pass the shoulder singularity in their
    middle half, and end with hand and forearm aligned within 15°, having been more than 30° apart.
    """
    ahead = A2 * np.cos(q[..., 1]) + FOREARM * np.cos(q[..., 1] + q[..., 2] - INNER)
    middle = slice(len(q) // 4, -len(q) // 4)
    straight = np.degrees(np.arcsin(np.abs(np.sin(q[..., 4]))))
    passes = np.abs(ahead[middle]).min(axis=0) < 0.02
    return np.asarray(passes & (straight[-1] < 15) & (straight[middle].max(axis=0) > 30))
