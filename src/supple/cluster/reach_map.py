"""A finished map of a robot's reach: values at positions, slices, plots and base placement."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import finite_array, poses
from supple._arrays.tables import pyarrow, replacing
from supple.cluster.parts import fingerprint, finished_parts, read_manifest, remove_temporary
from supple.cluster.source import to_numpy
from supple.errors import InputError, check_one_of, short_repr
from supple.ik.solver import Solver
from supple.kinematics import Robot
from supple.kinematics.rotation import quaternion
from supple.tasks import PoseTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]

VALUES = ("dexterity", "manipulability", "manipulability_mean", "sigma_min")
_AXES = "xyz"
_TABLE = "voxels.parquet"
_YAWS = 16  # number of yaw angles of a base that are tried by default
_AT_ONCE = 65_536  # number of poses that are looked up at a time


def aggregate(folder: Path) -> None:
    """Write the table of voxels of a map, from its finished table of poses."""
    pa, parquet = pyarrow()
    manifest = read_manifest(folder / "poses")
    settings = manifest["settings"]
    size, own = int(np.prod(settings["shape"])), settings["values"]
    reached = np.zeros(size, np.int32)
    total, best, sigma = np.zeros(size), np.zeros(size, np.float32), np.zeros(size, np.float32)
    for path in finished_parts(folder / "poses"):
        for batch in parquet.ParquetFile(path).iter_batches():
            voxel = to_numpy(batch.column("voxel"))
            np.add.at(reached, voxel, 1)
            if own:
                w, s = (to_numpy(batch.column(name)) for name in ("manipulability", "sigma_min"))
                np.add.at(total, voxel, w)
                np.maximum.at(best, voxel, w)
                np.maximum.at(sigma, voxel, s)
    there = np.nonzero(reached)[0]
    index = np.stack(np.unravel_index(there, settings["shape"]), axis=1)
    at = np.array(settings["origin"]) + settings["spacing"] * index
    columns: dict[str, Any] = dict(zip(_AXES, at.T, strict=True))
    columns |= {"voxel": there.astype(np.int32), "reached": reached[there]}
    columns["dexterity"] = (reached[there] / len(settings["orientations"])).astype(np.float32)
    if own:
        columns["manipulability"] = best[there]
        columns["manipulability_mean"] = (total[there] / reached[there]).astype(np.float32)
        columns["sigma_min"] = sigma[there]
    table = pa.table(columns).replace_schema_metadata({"supple.schema": "voxels 1"})
    remove_temporary(folder)
    with replacing(folder / _TABLE) as stream:
        parquet.write_table(table, stream, write_page_checksum=True)


@dataclass(frozen=True, eq=False)
class Placement:
    """A pose of a robot's base, and the given poses that the robot reaches from it.

    Attributes:
        base: Pose (4, 4) of the root link in the world [m], for `robot.with_base(base)`.
        reached: Whether each given pose is reached (k,), verified by `supple.solve`.
        q: Configurations (k, n) [rad or m] that solve the poses or, where a pose is not reached,
            come closest to it.
    """

    base: NDArray[np.float64]
    reached: NDArray[np.bool_]
    q: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ReachMap:
    """A map of the poses that a robot reaches with a frame.

    Positions are in the world, with the robot's base as it was when the map was computed. Each
    voxel has these values, which are zero where nothing is reached:

        dexterity             fraction of the orientations that are reached, 0 to 1
        manipulability        largest manipulability of the solutions for all orientations
        manipulability_mean   mean manipulability of the solutions for the reached orientations
        sigma_min             largest value, over all orientations, of the smallest singular value
                              of the Jacobian at the solution

    Attributes:
        folder: The folder of the map.
        origin: Center of the first voxel (3,) [m].
        spacing: Distance between the centers of neighboring voxels [m].
        orientations: Unit quaternions (k, 4), scalar first.
        dexterity, manipulability, manipulability_mean, sigma_min: Values of all voxels; the axes of
            the arrays are x, y and z.
    """

    folder: Path
    origin: NDArray[np.float64]
    spacing: float
    orientations: NDArray[np.float64]
    dexterity: NDArray[np.float32]
    manipulability: NDArray[np.float32]
    manipulability_mean: NDArray[np.float32]
    sigma_min: NDArray[np.float32]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ReachMap:
        """Return the map in a folder, written by `reachability`.

        Raises:
            InputError: The folder does not contain a map, or the map is not finished.
        """
        _, parquet = pyarrow()
        place = Path(folder)
        manifest = read_manifest(place / "poses")
        finished_parts(place / "poses")
        if manifest["kind"] != "reach":
            raise InputError(
                f"{place} must be the folder of a reach map; given: a job of kind "
                f"{manifest['kind']!r}"
            )
        settings = manifest["settings"]
        table = parquet.read_table(place / _TABLE)
        voxel = table["voxel"].to_numpy()
        dense = []
        for name in VALUES:
            values = np.zeros(int(np.prod(settings["shape"])), np.float32)
            if name in table.column_names:
                values[voxel] = table[name].to_numpy()
            dense.append(values.reshape(settings["shape"]))
        return cls(
            place,
            np.array(settings["origin"]),
            settings["spacing"],
            np.array(settings["orientations"]),
            *dense,
        )

    def __repr__(self) -> str:
        sizes = " × ".join(map(str, self.dexterity.shape))
        there = int((self.dexterity > 0).sum())
        return (
            f"<ReachMap of {self._settings['robot']}: {sizes} voxels of {self.spacing:g} m, "
            f"{len(self.orientations)} orientations, {there} voxels reached>"
        )

    # ---- values --------------------------------------------------------------------------------

    @overload
    def at(self, position: Sequence[float], value: str = "dexterity") -> np.float32: ...
    @overload
    def at(
        self, position: ArrayLike, value: str = "dexterity"
    ) -> NDArray[np.float32] | np.float32: ...

    def at(self, position: ArrayLike, value: str = "dexterity") -> NDArray[np.float32] | np.float32:
        """Return the values (...) of the voxels nearest to positions; zero outside the map.

        Args:
            position: Positions (..., 3) in the world [m].
            value: Name of the value: "dexterity" or another one listed in `ReachMap`.
        """
        where = finite_array(position, (3,), "position", batch=True)
        index, inside = self._voxel(where)
        found = np.where(inside, self._value(value).ravel()[index], np.float32(0))
        return found if found.ndim else np.float32(found)

    def reaches(self, pose: ArrayLike) -> NDArray[np.bool_] | np.bool_:
        """Return for each given pose whether the nearest pose of the map is reached (...).

        This is only a lookup: `supple.solve` may have another result for the given pose itself.

        Args:
            pose: Poses (..., 4, 4) of the frame in the world [m].
        """
        T = poses(pose, "pose")
        flat = T.reshape(-1, 4, 4)
        found = np.empty(len(flat), bool)
        for first in range(0, len(flat), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            index, inside = self._voxel(flat[some, :3, 3])
            likeness = np.abs(quaternion(flat[some, :3, :3]) @ self.orientations.T)
            nearest = likeness.argmax(axis=1)
            bits = self._bits[nearest, index >> 3] >> (7 - (index & 7)) & 1
            found[some] = inside & (bits == 1)
        shaped = found.reshape(T.shape[:-2])
        return shaped if shaped.ndim else np.bool_(shaped)

    def slice(self, axis: str, position: float, value: str = "dexterity") -> Array:
        """Return the values of the voxels nearest to a plane, an array over the two axes in the
        plane.

        Args:
            axis: Normal of the plane, "x", "y" or "z".
            position: Coordinate of the plane along the axis, in the world [m].
            value: Name of the value: "dexterity" or another one listed in `ReachMap`.
        """
        check_one_of(axis, "axis", tuple(_AXES))
        k = _AXES.index(axis)
        values = self._value(value)
        index = round((float(position) - self.origin[k]) / self.spacing)
        if not 0 <= index < values.shape[k]:
            low, high = self.origin[k], self.origin[k] + self.spacing * (values.shape[k] - 1)
            raise InputError(
                f"position must be from {low:g} to {high:g} m along {axis}; given: {position}"
            )
        return np.asarray(np.take(values, index, axis=k))

    def points(self, value: str = "dexterity", least: float = 0.0) -> tuple[Array, Array]:
        """Return the centers (N, 3) [m] and values (N,) of the voxels with values above `least`."""
        values = self._value(value)
        chosen = np.argwhere(values > least)
        return self.origin + self.spacing * chosen, values[tuple(chosen.T)]

    def _value(self, name: str) -> Array:
        check_one_of(name, "value", VALUES)
        found: Array = getattr(self, name)
        return found

    def _voxel(self, position: Array) -> tuple[Array, NDArray[np.bool_]]:
        shape = self.dexterity.shape
        nearest = np.rint((position - self.origin) / self.spacing)
        inside = np.asarray(((nearest >= 0) & (nearest < shape)).all(axis=-1))
        index = np.where(inside[..., None], nearest, 0).astype(np.int64)
        return np.ravel_multi_index(tuple(np.moveaxis(index, -1, 0)), shape), inside

    @cached_property
    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = read_manifest(self.folder / "poses")["settings"]
        return found

    @cached_property
    def _bits(self) -> NDArray[np.uint8]:
        """One bit per orientation and voxel, set if the pose is reached: bytes (k, voxels / 8)."""
        _, parquet = pyarrow()
        bits = np.zeros((len(self.orientations), (self.dexterity.size + 7) // 8), np.uint8)
        for path in finished_parts(self.folder / "poses"):
            for batch in parquet.ParquetFile(path).iter_batches(columns=["orientation", "voxel"]):
                which, voxel = (to_numpy(batch.column(k)) for k in (0, 1))
                marks = (128 >> (voxel & 7)).astype(np.uint8)
                np.bitwise_or.at(bits, (which, voxel >> 3), marks)
        return bits

    # ---- pictures ------------------------------------------------------------------------------

    def plot(self, value: str = "dexterity", *, at: ArrayLike | None = None) -> Figure:
        """Return a Matplotlib figure of the three slices through a point.

        Args:
            value: Name of the value: "dexterity" or another one listed in `ReachMap`.
            at: The point (3,) in the world [m]; by default the base of the robot. A point outside
                the map is replaced by the nearest one inside.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        from supple.plot.figures import slices_figure

        self._value(value)
        high = self.origin + self.spacing * (np.array(self.dexterity.shape) - 1)
        given = np.array(self._settings["base"])[:3, 3] if at is None else at
        point = np.clip(finite_array(given, (3,), "at"), self.origin, high)
        slices = [self.slice(axis, point[k], value) for k, axis in enumerate(_AXES)]
        title = f"{self._settings['robot']}: {value.replace('_', ' ')}"
        return slices_figure(slices, self.origin, self.spacing, point, title)

    # ---- placement -----------------------------------------------------------------------------

    def best_base(
        self,
        robot: Robot,
        pose: ArrayLike,
        *,
        bases: ArrayLike | None = None,
        verify: int = 64,
    ) -> Placement:
        """Return the pose of the base from which a robot reaches the largest number of given poses.

        The map ranks the candidates for the base by the number of given poses in reach and then by
        the mean manipulability. `supple.solve` verifies the first `verify` of them, and the
        candidate with the most verified poses is returned.

        Args:
            robot: The robot of the map.
            pose: Poses (k, 4, 4) of the frame in the world [m].
            bases: Candidates: poses (m, 4, 4) of the root link in the world [m]. By default a grid
                of positions around the given poses, at the height of the robot's base, each with
                16 yaw angles.
            verify: Number of candidates to verify.

        Raises:
            InputError: The robot is not the robot of the map, or a pose is malformed.
        """
        own = fingerprint([robot.description, robot.base])
        if own != self._settings["robot fingerprint"]:
            raise InputError(
                f"robot must be the robot of the map, {self._settings['robot']!r}, with the same "
                f"base; given: {short_repr(robot)}"
            )
        T = np.atleast_3d(poses(pose, "pose")).reshape(-1, 4, 4)
        places = self._bases_around(robot, T) if bases is None else poses(bases, "bases")
        places = places.reshape(-1, 4, 4)
        scores = np.array([self._score(robot, base, T) for base in places])
        order = np.lexsort((-scores[:, 1], -scores[:, 0]))[: max(1, verify)]
        best: Placement | None = None
        solver = Solver(robot, PoseTask(self._settings["frame"]))
        for base in places[order]:
            found = solver.batch(_moved(robot, base, T))
            if best is None or found.success.sum() > best.reached.sum():
                best = Placement(base, np.array(found.success), np.array(found.q))
        assert best is not None
        return best

    def _score(self, robot: Robot, base: Array, T: Array) -> tuple[float, float]:
        moved = _moved(robot, base, T)
        reached = self.reaches(moved)
        return float(reached.mean()), float(self.at(moved[:, :3, 3], "manipulability").mean())

    def _bases_around(self, robot: Robot, T: Array) -> Array:
        """Return candidates (m, 4, 4) around the mean position of poses (k, 4, 4).

        The candidates are at the height of the robot's base.
        """
        away = self.points()[0] - robot.base[:3, 3]
        far = float(np.linalg.norm(away[:, :2], axis=1).max(initial=0.0))
        step = max(2 * self.spacing, far / 10)
        line = np.arange(-far, far + step / 2, step)
        middle = T[:, :3, 3].mean(axis=0)
        yaw = 2 * np.pi * np.arange(_YAWS) / _YAWS
        x, y, a = (each.ravel() for each in np.meshgrid(line, line, yaw, indexing="ij"))
        turn = np.zeros((len(a), 4, 4))
        turn[:, 0, 0] = turn[:, 1, 1] = np.cos(a)
        turn[:, 1, 0], turn[:, 0, 1] = np.sin(a), -np.sin(a)
        turn[:, 2, 2] = turn[:, 3, 3] = 1.0
        placed = turn @ robot.base
        placed[:, 0, 3], placed[:, 1, 3] = middle[0] + x, middle[1] + y
        placed[:, 2, 3] = robot.base[2, 3]
        return placed


def _moved(robot: Robot, base: Array, T: Array) -> Array:
    """Return the poses T after the motion that takes `base` to the robot's own base.

    The robot at its own base reaches a returned pose if and only if, at `base`, it reaches T.
    """
    return np.asarray(robot.base @ np.linalg.inv(base) @ T)
