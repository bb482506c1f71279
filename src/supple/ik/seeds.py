"""The seeds of a search, and the sizes of a robot and its tasks from which they are computed.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._core import Target
from supple.kinematics import Robot
from supple.kinematics.configuration import from_kernel
from supple.kinematics.frames import longest_path, may_turn
from supple.motion.linearization import Array
from supple.tasks.layout import CompiledTasks
from supple.tasks.rows import TaskRows

# Weight of a rotation by 1 rad in the look-up of seeds, relative to a translation by the reach.
_ROTATION_WEIGHT = 0.1
_LEAST_REACH = 1e-2  # smallest reach of a task, relative to the size of the robot
_LARGEST_LIMIT = 1e9  # [rad or m]: larger limits are treated as infinite


@dataclass(frozen=True, eq=False)
class SeedTable:
    """A table of seeds, looked up by the targets that they reach: src/core/drivers/seed_table.hpp.

    Attributes:
        seeds: Configurations (N, n) in the kernel's coordinates.
        discomfort: The discomfort of each seed (N,).
        scale: Weights of the target values in the distance used to look up seeds (k,).
    """

    seeds: Array
    discomfort: Array
    scale: Array

    @staticmethod
    def of(robot: Robot, shares: Array, scale: Array) -> SeedTable:
        """Return the table for evenly distributed fractions `shares` (N, n) of the joint ranges."""
        seed_lower, seed_range, _ = seed_sequence(robot)
        is_even = np.arange(1, len(shares) + 1)[:, None] % _core.EVEN_SEEDS == 1
        spacing = np.where(is_even | (turns(robot) > 0), 1.0, _core.MIDDLE_SPACING)
        u = 2 * shares - 1
        x = u * (spacing + (1 - spacing) * u**2)
        limited = np.isfinite(robot.lower) | np.isfinite(robot.upper)
        seeds = seed_lower + 0.5 * (1 + x) * seed_range
        return SeedTable(seeds, (limited * x**2).sum(axis=-1), scale)

    def table(self, layout: CompiledTasks) -> NDArray[np.float32]:
        """Return scaled targets (N, k + 1), each followed by the constant term of its distance."""
        scaled = layout.reached(from_kernel(layout.robot, self.seeds)) * self.scale.astype(
            np.float32
        )
        weight = _core.LOOKED_UP_DISCOMFORT * scaled.var(axis=0).sum()
        half = 0.5 * (scaled**2).sum(axis=-1) + weight * self.discomfort
        return np.concatenate([scaled, half[:, None]], axis=-1).astype(np.float32)


def turns(robot: Robot) -> Array:
    """Return 2π for each coordinate whose range has room for a 2π wrap, else 0 (n,) [rad]."""
    roomy = robot.upper - robot.lower >= 2 * np.pi
    return np.where(roomy & may_turn(robot), 2 * np.pi, 0.0)


@lru_cache(maxsize=64)
def seed_sequence(robot: Robot) -> tuple[Array, Array, Array]:
    """Return seed_lower, seed_range and seed_stride of the sequence of seeds, each (n,).

    Seed k is seed_lower + seed_range ((0.5 + k seed_stride) mod 1), component by component. The
    sequence fills the range evenly in any dimension n: seed_stride_j = φ^-j with φ^(n+1) = φ + 1.
    """
    reach = np.where(robot.prismatic, robot_size(robot), np.pi)
    lower = np.where(robot.lower > -_LARGEST_LIMIT, robot.lower, -np.inf)
    upper = np.where(robot.upper < _LARGEST_LIMIT, robot.upper, np.inf)
    low = np.where(np.isfinite(upper), upper - 2 * reach, -reach)
    low = np.where(np.isfinite(lower), lower, low)
    high = np.where(np.isfinite(upper), upper, low + 2 * reach)
    # For joints that may turn freely, the middle revolution suffices: other turns repeat its
    # postures.
    many = may_turn(robot) & (high - low > 4 * np.pi)
    low = np.where(many, np.clip(-2 * np.pi, low, high - 4 * np.pi), low)
    high = np.where(many, low + 4 * np.pi, high)
    several, middle = may_turn(robot) & (high - low > 2 * np.pi), 0.5 * (low + high)
    low = np.where(several, middle - np.pi, low)
    high = np.where(several, middle + np.pi, high)
    phi = 2.0
    for _ in range(60):
        phi = (1 + phi) ** (1 / (robot.nv + 1))
    made = low, high - low, phi ** -np.arange(1.0, robot.nv + 1)
    for each in made:
        each.flags.writeable = False
    return made


def joint_ranges(robot: Robot) -> Array:
    """Return the range of each joint (n,) [rad or m]; infinite without limits."""
    far = (robot.lower <= -_LARGEST_LIMIT) | (robot.upper >= _LARGEST_LIMIT)
    return np.where(far, np.inf, robot.upper - np.where(far, 0.0, robot.lower))


@lru_cache(maxsize=64)
def robot_size(robot: Robot) -> float:
    """Return the order of magnitude of a robot's lengths [m]; 1 for a robot without lengths.

    The result is the largest distance that a frame may have from the first joint that carries it
    while prismatic joints are at zero. If all links have zero length, the result is the largest
    range of a prismatic joint or advance of a screw per turn or, if no range is finite, the largest
    limit or else the largest offset of a mimic joint. Without any of these, the result is the
    distance of the robot from the origin of the world.
    """
    ranges = np.where(robot.prismatic, joint_ranges(robot), 2 * np.pi)
    slides = [joint for joint in robot._tree.joints if joint.prismatic]
    travels = [abs(joint.scale) * float(ranges[joint.coordinate]) for joint in slides]
    limits = np.abs([robot.lower, robot.upper])[:, robot.prismatic]
    return (
        longest_path(robot)
        or max((each for each in travels if math.isfinite(each)), default=0.0)
        or float(limits[limits < _LARGEST_LIMIT].max(initial=0.0))
        or max((abs(joint.offset) for joint in slides), default=0.0)
        or longest_path(robot, from_world=True)
        or 1.0
    )


def task_sizes(
    rows: Sequence[TaskRows], layout: CompiledTasks, reached: Array
) -> tuple[float, float]:
    """Return the size of the workspace and the largest coordinate of a frame [m].

    The size is the largest distance of a frame from its mean position over `reached` (N, k), but at
    least a fraction of the robot's size: the positions of a frame that only turns differ by
    rounding errors, which are not the size of a workspace.
    """
    ends = np.cumsum(layout.kernel.target_sizes)
    at = [reached[:, end - 3 : end] for one, end in zip(rows, ends, strict=False) if _moves(one)]
    size = robot_size(layout.robot)
    if not at:
        return size, size
    far = max(float(np.linalg.norm(p - p.mean(axis=0), axis=1).max()) for p in at)
    return max(far, _LEAST_REACH * size), max(float(np.abs(p).max()) for p in at)


def _moves(rows: TaskRows) -> bool:
    """Return whether a task has position rows."""
    return rows.has_position and min(rows.picked) < 3


def seed_features(rows: TaskRows, reach: float) -> list[float]:
    """Return the weight of each target value in the distance used to look up seeds.

    A power of two, the unit of these distances, keeps their squares from underflow in float32.
    """
    place = 2.0 ** -math.frexp(reach)[1]
    reach *= place
    turning, target = reach * _ROTATION_WEIGHT**0.5, rows.traits.target
    if rows.traits.is_linear:
        return [0.0] * len(rows.picked)
    if target == Target.OTHER:  # how near two targets are to each other is not known
        return [0.0] * (rows.traits.target_size or len(rows.picked))
    if target == Target.DIRECTION:
        return [turning] * rows.traits.target_size
    if target == Target.NUMBERS:
        return [turning if turns else place for turns in rows.turns]
    if target == Target.POSITION:
        return [float(c in rows.picked) for c in range(3)]
    turns = [len([c for c in rows.picked if c >= 3]) == 3] * 3
    if rows.about >= 0:
        turns = [axis == rows.about for axis in range(3)]
    places = [c in rows.picked or (rows.axes is not None and _moves(rows)) for c in range(3)]
    return [
        *(reach * (_ROTATION_WEIGHT / 2) ** 0.5 * one for one in turns for _ in range(3)),
        *(place * one for one in places),
    ]
