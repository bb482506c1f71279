"""Maps of the poses that a robot reaches, on a grid of voxels × orientations.

For one orientation, the reachable positions are a region of space. All voxels of a coarse grid are
solved first. On each finer grid, a new voxel whose coarse neighbors are all reached, or all not
reached, gets the same result without a search; only the other new voxels, near the boundary of the
region, are solved. Orientations are independent of each other: each part of the job computes some
orientations.

Tuned constants and the measurements that chose them: docs/constants.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._arrays.checks import finite_array, number
from supple._arrays.tables import pyarrow
from supple.cluster.exploration import Exploration, Grid
from supple.cluster.on_ray import RayOptions
from supple.cluster.parts import fingerprint
from supple.cluster.reach_map import ReachMap, aggregate
from supple.cluster.run import Progress, check_gpus, run
from supple.damping.scale import reach
from supple.errors import InputError, known_arguments, short_repr
from supple.ik.arguments import count_of
from supple.ik.solver import Solver
from supple.kinematics import Robot
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import check_robot
from supple.kinematics.rotation import from_quaternion
from supple.tasks import PoseTask

Array = NDArray[Any]

VERSION = 1
_FEW_SEEDS = 8  # maximum number of seeds of a pose in the first search
_MORE_SEEDS = 32  # maximum in a second search, for unreached poses next to a reached one
_TOGETHER = {"cpu": 1, "cuda": 16}  # orientations in a part: a GPU needs many poses at a time
_SAMPLES = 65_536  # number of random configurations whose positions determine the default bounds
_BOUNDS_MARGIN = 0.05  # margin of the default bounds around these positions, relative to the reach
_MAX_VOXELS = 2**31 - 1
_PSI = 1.533751168755204288118041  # ψ⁴ = ψ + 4


def uniform_orientations(count: int) -> NDArray[np.float64]:
    """Return unit quaternions (count, 4), scalar first, spread evenly over all orientations.

    The quaternions are points of a super-Fibonacci spiral on the sphere S³, evenly spread for any
    count.

    References:
        Alexa 2022, Super-Fibonacci spirals: fast, low-discrepancy sampling of SO(3).
    """
    s = np.arange(count) + 0.5
    inner, outer = np.sqrt(s / count), np.sqrt(1 - s / count)
    alpha, beta = 2 * np.pi * s / math.sqrt(2), 2 * np.pi * s / _PSI
    entries = (
        outer * np.cos(beta),
        inner * np.sin(alpha),
        inner * np.cos(alpha),
        outer * np.sin(beta),
    )
    return np.stack(entries, axis=1)


def grid_around(robot: Robot, frame: str, spacing: float, levels: int, bounds: Any) -> Grid:
    """Return a grid that covers the bounds (2, 3) [m], or all positions of the frame by default.

    The number of voxels along each axis is a multiple of 2^levels plus one, so that the first and
    the last voxel belong to all coarser grids too.
    """
    if bounds is None:
        at = robot.fk(robot.random(_SAMPLES, seed=0), frame)[:, :3, 3]
        away = _BOUNDS_MARGIN * reach(robot, frame)
        low, high = at.min(axis=0) - away, at.max(axis=0) + away
    else:
        low, high = finite_array(bounds, (2, 3), "bounds")
        if not (low <= high).all():
            raise InputError(
                f"bounds must be a lower and an upper corner, lower <= upper; given: {bounds}"
            )
    stride = 2**levels
    first = np.floor(low / spacing)
    cells = np.ceil((np.ceil(high / spacing) - first) / stride).astype(int)
    shape = tuple(int(n) * stride + 1 for n in cells)
    if math.prod(shape) > _MAX_VOXELS:
        raise InputError(
            f"spacing must give at most {_MAX_VOXELS} voxels; given: {spacing} m, which gives "
            f"{math.prod(shape)}"
        )
    return Grid(first * spacing, spacing, shape)


@dataclass(frozen=True, eq=False)
class ReachJob:
    """A job that maps the reach of a robot, in parts of one or more orientations.

    Attributes:
        robot: The robot.
        frame: Name of the frame whose poses are mapped.
        grid: The voxels.
        orientations: Unit quaternions (k, 4) of the frame, scalar first.
        levels: Number of coarser grids before the finest; 0 solves every voxel.
        values: Whether manipulability and smallest singular value are computed.
        device: Name of a GPU; None for the CPU.
    """

    robot: Robot
    frame: str
    grid: Grid
    orientations: NDArray[np.float64]
    levels: int
    values: bool
    device: str | None

    kind = "reach"

    def __post_init__(self) -> None:
        if self.device == "cpu":
            object.__setattr__(self, "device", None)

    @property
    def at_once(self) -> int:
        """Number of parts that one process computes concurrently."""
        return 1 if self.device else 2

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """All settings and versions that the map depends on, as plain values by name."""
        return {
            "robot": self.robot.name,
            "robot fingerprint": fingerprint([self.robot.description, self.robot.base]),
            "frame": self.frame,
            "spacing": self.grid.spacing,
            "origin": self.grid.origin.tolist(),
            "shape": list(self.grid.shape),
            "orientations": self.orientations.tolist(),
            "levels": self.levels,
            "values": self.values,
            "device": self.device or "cpu",
            "instruction set": None if self.device else _core.isa(),
            "base": self.robot.base.tolist(),
            "schema": VERSION,
            "supple": version("supple"),
        }

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The number of poses (voxels times orientations) of each part."""
        count, step = len(self.orientations), self._together
        return [self.grid.size * min(step, count - first) for first in range(0, count, step)]

    @property
    def _together(self) -> int:
        return _TOGETHER["cuda" if self.device else "cpu"]

    def compute(self, index: int, threads: int | None = None) -> tuple[Any, Mapping[str, int]]:
        """Return an Arrow table of the reached poses of a part, and counts of its poses."""
        pa, _ = pyarrow()
        first = index * self._together
        own = self.orientations[first : first + self._together]
        found = self.explore(own, threads)
        which, voxel = np.nonzero(found.reached)
        columns = {
            "orientation": pa.array((first + which).astype(np.int32)),
            "voxel": pa.array(voxel.astype(np.int32)),
            "solved": pa.array(found.solved[which, voxel]),
        }
        if self.values:
            columns["manipulability"] = pa.array(found.manipulability[which, voxel])
            columns["sigma_min"] = pa.array(found.sigma_min[which, voxel])
        table = pa.table(columns).replace_schema_metadata({"supple.schema": f"reach {VERSION}"})
        counts = {
            "poses": self.sizes[index],
            "solved": int(found.solved.sum()),
            "reached": len(which),
        }
        return table, counts

    def explore(self, orientations: Array, threads: int | None = None) -> Exploration:
        """Return which voxels are reached with each of the given orientations (k, 4)."""
        found = Exploration(len(orientations), self.grid, self.values)
        rotations = from_quaternion(orientations)
        for level in range(self.levels, -1, -1):
            todo = found.unknown(2**level, first=level == self.levels)
            for seeds, again in ((_FEW_SEEDS, False), (_MORE_SEEDS, True)):
                which, voxel = found.beside_reached(todo, 2**level) if again else todo
                self._solve(found, rotations, which, voxel, seeds, threads)
        return found

    def _solve(
        self,
        found: Exploration,
        rotations: Array,
        which: Array,
        voxel: Array,
        seeds: int,
        threads: int | None,
    ) -> None:
        if not len(voxel):
            return
        T = np.zeros((len(voxel), 4, 4))
        T[:, :3, :3], T[:, :3, 3], T[:, 3, 3] = rotations[which], self.grid.centers(voxel), 1.0
        made = Solver(
            self.robot,
            PoseTask(self.frame),
            max_seeds=seeds,
            device=self.device,
            threads=None if self.device else threads,
        ).batch(T)
        reached = np.asarray(made.success)
        found.reached[which, voxel] = reached
        found.solved[which, voxel] = True
        if self.values and reached.any():
            at = which[reached], voxel[reached]
            sigma = self.robot.singular_values(made.q[reached], self.frame, threads=threads)
            found.manipulability[at] = sigma.prod(axis=-1)
            found.sigma_min[at] = sigma[..., -1]


def _orientations(given: int | ArrayLike) -> NDArray[np.float64]:
    if isinstance(given, int | np.integer):
        return uniform_orientations(count_of(int(given), "orientations", 1_000_000))
    wxyz = np.array(
        finite_array(np.atleast_2d(np.asarray(given)), (4,), "orientations", batch=True)
    )
    if wxyz.ndim != 2 or not (np.abs(np.linalg.norm(wxyz, axis=1) - 1) < 1e-3).all():
        raise InputError(
            "orientations must be a number of orientations, or unit quaternions (k, 4), scalar "
            f"first; given: {short_repr(given)}"
        )
    return np.asarray(wxyz / np.linalg.norm(wxyz, axis=1, keepdims=True))


@known_arguments()
def reachability(
    robot: Robot,
    folder: str | os.PathLike[str],
    *,
    frame: str | None = None,
    spacing: float = 0.05,
    orientations: int | ArrayLike = 64,
    bounds: ArrayLike | None = None,
    levels: int = 2,
    values: bool = True,
    device: str | None = None,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
) -> ReachMap:
    """Map where a robot can place a frame, with which orientations and which manipulability.

        found = reachability(robot, "map", spacing=0.025)
        found.at([0.4, 0.1, 0.3])            # fraction of the orientations that are reached there

    Each orientation is tried at the center of each voxel. If a run is interrupted or killed, the
    same call continues it. The result does not depend on the number of threads or workers.
    `ReachMap.load(folder)` reads the map again.

    Args:
        robot: The robot.
        folder: A new folder for the map, or the folder of the same map to continue it.
        frame: Name of the frame whose poses are mapped; the end effector by default.
        spacing: Distance between the centers of neighboring voxels [m].
        orientations: Number of orientations, which are spread evenly, or unit quaternions (k, 4)
            of the frame in the world, scalar first.
        bounds: Lower and upper corner (2, 3) of the map in the world [m]; by default a box around
            all positions in reach.
        levels: Number of coarser grids, each with twice the spacing of the next. On the coarsest
            grid every pose is solved; on a finer grid, only poses with both reached and unreached
            neighbors. With 0 levels, every pose is solved.
        values: Whether to compute manipulability and smallest singular value as well.
        device: "cuda" for a GPU; None or "cpu" for the CPU.
        ray: The Ray cluster to run on; None to run in this process.
        progress: Function called repeatedly with the number of finished poses and the number of
            all poses.

    Raises:
        InputError: An argument is malformed, or the folder contains another job.
        MissingExtraError: pyarrow, or Ray, is not installed.
        OSError: The folder cannot be written; parts that were already written are kept.
    """
    check_robot(robot)
    refuse_loops(robot, "a map of reach")
    check_gpus(device, ray)
    if frame is None and len(robot.tips) > 1:
        names = ", ".join(map(repr, robot.tips))
        raise InputError(
            f"frame must name one of the end effectors of {robot.name}; given: none. "
            f"Available: {names}"
        )
    name = robot.tips[0] if frame is None else frame
    size = number(spacing, "spacing", above=0)
    coarser = count_of(levels + 1, "levels + 1", 8) - 1
    grid = grid_around(robot, name, size, coarser, bounds)
    quaternions = _orientations(orientations)
    job = ReachJob(robot, name, grid, quaternions, coarser, bool(values), device)
    place = Path(folder)
    run(job, place / "poses", ray=ray, progress=progress)
    aggregate(place)
    return ReachMap.load(place)
