"""Robots, tasks and configurations drawn from a seed, of every kind that a user may have.

A robot has 1 to 30 joints in a chain or in branches, revolute, prismatic and screw joints with
random or tidy axes, a size from 1e-6 to 1e4 m, joint ranges from zero to unbounded, and joints that
mimic others. `case(seed)` draws a robot with tasks and targets that forward kinematics shows to be
reachable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import supple
from solving import batch
from supple.describe import Description, Joint, Mimic
from targets import reached
from trees import axis, pose

CASES = int(os.environ.get("SUPPLE_CASES", "60"))  # number of robots in tests
TARGETS = int(os.environ.get("SUPPLE_TARGETS", "16"))  # number of targets of each robot
FIRST = int(os.environ.get("SUPPLE_SEED", "0"))  # first seed


Array = np.ndarray
ROWS = ("x", "y", "z", "rx", "ry", "rz")


def seeds(count: int) -> range:
    """Return the seeds of `count` cases of a test, from SUPPLE_SEED on."""
    return range(FIRST, FIRST + count)


@dataclass(frozen=True)
class Case:
    """A robot with tasks, and targets that its configurations q (count, n) meet."""

    robot: supple.Robot
    tasks: tuple[Any, ...]
    q: Array
    targets: list[Array]
    size: float  # order of magnitude of the lengths of links [m]

    def solve(self, **options: Any) -> Any:
        """Solve for the targets, with a position tolerance of 1e-6 of the robot's size."""
        options.setdefault("position_tolerance", 1e-6 * self.size)
        return batch(self.robot, self.targets, tasks=self.tasks, **options)


def size_of(rng: np.random.Generator) -> float:
    """Return a length between 1e-6 and 1e4 m, often 1 m."""
    return 1.0 if rng.random() < 0.3 else float(10 ** rng.uniform(-6, 4))


def limits(rng: np.random.Generator, unit: float) -> tuple[float, float]:
    """Return the limits of a joint: from a range of zero to no limits at all."""
    kind = rng.integers(8)
    if kind == 0:
        return -math.inf, math.inf
    middle = unit * rng.uniform(-1, 1)
    width = unit * rng.choice(
        [0.0, 1e-3, 0.3, 1.5, 3.0, 6.0, 12.0], p=[0.04, 0.06, 0.2, 0.2, 0.2, 0.2, 0.1]
    )
    if kind == 1:  # one-sided
        return (middle, math.inf) if rng.random() < 0.5 else (-math.inf, middle)
    return float(middle - width / 2), float(middle + width / 2)


def robot(
    seed: int | np.random.Generator, joints: int | None = None, size: float | None = None
) -> supple.Robot:
    """Return a random robot with up to 30 joints."""
    rng = np.random.default_rng(seed)
    count = joints or int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 30]))
    size = size or size_of(rng)
    tidy, branching = rng.random() < 0.5, rng.random() < 0.25
    slides, turns = rng.choice([0.0, 0.2, 0.5]), rng.random() < 0.1
    made: list[Joint] = []
    leaders: list[int] = []
    for i in range(count):
        slides_here = rng.random() < slides
        kind: Any = "prismatic" if slides_here else "revolute"
        pitch = 0.0
        if turns and not slides_here and rng.random() < 0.3:
            kind, pitch = "screw", size * rng.uniform(-0.1, 0.1)
        unit = size if slides_here else 1.0
        lower, upper = limits(rng, unit)
        origin = pose(rng, tidy)
        origin[:3, 3] *= size * 10 ** rng.uniform(-2, 0)
        mimic = None
        if leaders and rng.random() < 0.1:
            leader = int(rng.choice(leaders))
            own, other = (
                size if made_or == "prismatic" else 1.0 for made_or in (kind, made[leader].kind)
            )
            ratio = rng.choice([1.0, -1.0, 0.5, 0.1]) * own / other
            mimic = Mimic(f"joint{leader}", float(ratio), float(own * rng.uniform(-0.5, 0.5)))
            lower, upper = -math.inf, math.inf
        else:
            leaders.append(i)
        parent = int(rng.integers(max(0, i - 4), i + 1)) if branching else i
        made.append(
            Joint(
                f"joint{i}",
                kind,
                f"link{parent}",
                f"link{i + 1}",
                origin=origin,
                axis=axis(rng, tidy),
                lower=lower,
                upper=upper,
                mimic=mimic,
                pitch=pitch,
            )
        )
    return supple.Robot(Description("generated", tuple(made)))


def configurations(
    robot: supple.Robot, count: int, seed: int | np.random.Generator, size: float = 1.0
) -> Array:
    """Return configurations (count, n) inside the limits; some joints are at a limit."""
    rng = np.random.default_rng(seed)
    span = np.where(robot.prismatic, size, np.pi)
    lower = np.where(
        np.isfinite(robot.lower),
        robot.lower,
        np.where(np.isfinite(robot.upper), robot.upper - 2 * span, -span),
    )
    upper = np.where(np.isfinite(robot.upper), robot.upper, lower + 2 * span)
    share = rng.uniform(size=(count, robot.dof))
    at = rng.random((count, robot.dof))
    ends = rng.choice([0.0, 0.1, 0.5, 1.0], size=(count, 1), p=[0.6, 0.2, 0.1, 0.1])
    share = np.where(at < ends / 2, 0.0, np.where(at > 1 - ends / 2, 1.0, share))
    return np.clip(lower + share * (upper - lower), robot.lower, robot.upper)


def tasks(
    robot: supple.Robot, seed: int | np.random.Generator, size: float = 1.0
) -> tuple[Any, ...]:
    """Return one or two tasks of a robot: all or some rows, relative or not, in any axes."""
    rng = np.random.default_rng(seed)
    links = [frame for frame in robot.frames if frame != robot.frames[0]]
    frames: Sequence[str] = robot.tips if rng.random() < 0.7 else links
    count = min(len(frames), int(rng.choice([1, 1, 1, 2])))
    chosen = rng.choice(len(frames), count, replace=False)
    return tuple(_task(robot, frames[int(i)], rng, size) for i in chosen)


def _task(robot: supple.Robot, frame: str, rng: np.random.Generator, size: float) -> Any:
    kind = rng.integers(8)
    others = [name for name in robot.frames if name != frame]
    base = str(rng.choice(others)) if others and rng.random() < 0.25 else None
    length = float(size * rng.choice([0.1, 1.0, 1.0]))
    if kind <= 3:
        return supple.PoseTask(frame, base=base, length=length)
    if kind == 4:
        return supple.PositionTask(frame, base=base)
    if kind == 5:
        return supple.OrientationTask(frame, base=base)
    if kind == 6:
        return supple.AxisTask(frame, tuple(rng.normal(size=3)), base=base)
    some = tuple(row for row in ROWS if rng.random() < 0.5) or ("z",)
    axes = rng.choice(np.array([None, "body"], dtype=object))
    return supple.PoseTask(frame, rows=some, base=base, length=length, axes=axes)


def case(seed: int, count: int = 64, **options: Any) -> Case:
    """Return a robot with tasks and targets that the robot reaches."""
    rng = np.random.default_rng(seed)
    size = options.pop("size", None) or size_of(rng)
    made = robot(rng, size=size, **options)
    chosen = tasks(made, rng, size)
    q = configurations(made, count, rng, size)
    return Case(made, chosen, q, reached(made, chosen, q), size)
