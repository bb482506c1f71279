"""Targets of the position benchmark; all except those out of reach have known solutions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import supple as sp

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/support"))
from targets import apart as apart
from targets import boundary

Array = NDArray[np.float64]

NOISE = 0.1  # largest joint difference between an initial guess and the solution near it [rad]
NEAR = 1e-3  # distance from a singular configuration [rad]
BEYOND = 0.05  # distance of unreachable targets T5 from the boundary poses T0 [m]
FAR = 1.0  # distance of targets that are clearly out of reach [m]


@dataclass(frozen=True)
class Situation:
    """Targets of one kind.

    Attributes:
        title: Name in the tables.
        gates: Pairs of tolerances [m], [rad]; the targets are solved with each pair.
        targets: Poses (count, 4, 4), or (count, k, 4, 4) of several frames.
        starts: Initial configurations (count, n), or None for the library's own choice.
        closest: Closest poses of targets out of reach.
    """

    title: str
    gates: tuple[tuple[float, float], ...]
    targets: Array
    starts: Array | None = None
    closest: Array | None = None

    @property
    def reachable(self) -> bool:
        """Whether the targets are reachable."""
        return self.closest is None


LOOSE, TIGHT = (1e-4, 1e-3), (1e-6, 1e-6)


def situations(robot: sp.Robot, frames: tuple[str, ...], count: int) -> dict[str, Situation]:
    """Return all situations of an arm, or the two that apply to a tree."""
    frame = frames if len(frames) > 1 else frames[0]
    q = robot.random(count, seed=1)
    T = robot.fk(q, frame)
    noise = np.random.default_rng(2).uniform(-NOISE, NOISE, q.shape)
    starts = np.clip(q + noise, robot.lower, robot.upper)
    made = {
        "random": Situation("random, no start", (LOOSE, TIGHT), T),
        "near": Situation(f"start within {NOISE} rad", (LOOSE, TIGHT), T, starts),
    }
    if len(frames) > 1:
        return made
    few = min(count, 1000)
    # `boundary` moves T0 along a direction u to T5. No pose is farther along u than T0, so T0 is
    # the closest pose to any target beyond it along u.
    _, T0, T5 = boundary(robot, few)
    far = T5.copy()
    far[:, :3, 3] += (FAR / BEYOND - 1) * (T5 - T0)[:, :3, 3]
    near = robot.fk(singular(robot, few), frame)
    return made | {
        "singular": Situation(f"{NEAR:g} rad from singular", (LOOSE,), near),
        "edge": Situation("boundary, T0", (LOOSE,), T0),
        "beyond": Situation("boundary, T5: 5 cm beyond", (LOOSE,), T5, None, T0),
        "far": Situation(f"{FAR:g} m beyond", (LOOSE,), far, None, T0),
    }


def singular(robot: sp.Robot, count: int) -> Array:
    """Return configurations (count, n) inside the limits, NEAR [rad] away from singular ones."""
    q, h = robot.random(4 * count, seed=3), 1e-6
    steps = h * np.eye(robot.dof)
    for _ in range(30):  # Newton's method for a zero of the smallest singular value
        least = robot.singular_values(q)[:, -1]
        ahead, behind = (robot.singular_values(q[:, None] + s * steps)[..., -1] for s in (1, -1))
        slope = (ahead - behind) / (2 * h)
        step = least[:, None] * slope / np.maximum((slope**2).sum(1), 1e-4)[:, None]
        q = np.clip(q - step, robot.lower, robot.upper)
    q = q[robot.singular_values(q)[:, -1] < 1e-5][:count]
    if len(q) < count:
        raise RuntimeError(f"found only {len(q)} of {count} singular configurations")
    away = np.random.default_rng(4).normal(size=q.shape)
    away *= NEAR / np.linalg.norm(away, axis=1)[:, None]
    return np.clip(q + away, robot.lower, robot.upper)


def posture(robot: sp.Robot, frames: tuple[str, ...]) -> Array:
    """Return a configuration (n,) far from singularities and limits, as default seed."""
    q = 0.5 * robot.random(256, seed=5) + 0.25 * (robot.lower + robot.upper)
    least = [robot.singular_values(q, frame)[:, -1] for frame in frames]
    return q[np.min(least, axis=0).argmax()]
