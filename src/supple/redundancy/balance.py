"""A support polygon: the constraint that keeps a standing robot's center of mass above its feet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, number_field
from supple.errors import InputError
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.motion.readable import Readable
from supple.tasks.center_of_mass import CenterOfMassTask
from supple.tasks.open_task import OpenTask
from supple.tasks.rows import TaskRows


@dataclass(frozen=True, eq=False, repr=False)
class SupportPolygon(Readable):
    """A constraint of a `Servo`: the center of mass stays above a convex polygon on the ground.

        Servo(robot, tasks, dt=dt, constraints=[SupportPolygon(corners, margin=0.02)])

    The rows are n·ċ >= -rate d for each edge, where c is the center of mass, n the edge's inward
    normal and d the distance of c from the edge beyond the margin. The center of mass therefore
    approaches an edge exponentially and never crosses the margin; from outside, it moves back in.
    Gravity is along -z of the world.

    Attributes:
        points: Points on the ground (k, 2) or (k, 3) [m], k >= 3, for example the corners of both
            soles; the polygon is their convex hull. z is ignored.
        margin: Distance that the center of mass keeps from the edges [m].
        rate: Rate of approach [1/s], at most 1/dt of the `Servo`.

    Raises:
        InputError: The points are on a line, or the margin leaves no room inside.
    """

    points: ArrayLike
    margin: float = 0.0
    rate: float = 10.0

    def __post_init__(self) -> None:
        given = np.asarray(self.points)
        width = given.shape[-1] if given.ndim == 2 and given.shape[-1] in (2, 3) else 2
        points = finite_array(given, (width,), "SupportPolygon: points", batch=True)
        if points.ndim != 2 or len(points) < 3:
            raise InputError(
                "SupportPolygon: points must be at least three points (k, 2) or (k, 3); given: "
                f"{points.shape}"
            )
        object.__setattr__(self, "points", points)
        number_field(self, "margin", least=0)
        number_field(self, "rate", above=0)
        corners, normals, offsets = _edges(points[:, :2])
        object.__setattr__(self, "_edges", (normals, offsets))
        if len(normals) < 3 or not _has_room(corners, normals, offsets + self.margin):
            raise InputError(
                "SupportPolygon: the points must span an area with room for the margin; given: "
                f"margin={self.margin:g} m, {len(points)} points"
            )

    def distance(self, position: ArrayLike) -> Array:
        """Return the distance (...) of positions (..., 2) or (..., 3) from the edges [m].

        The distance is negative outside of the polygon. The margin is not subtracted.
        """
        normals, offsets = self.__dict__["_edges"]
        given = np.asarray(position)
        width = given.shape[-1] if given.ndim and given.shape[-1] in (2, 3) else 3
        p = finite_array(given, (width,), "position", batch=True)[..., :2]
        return np.asarray((p @ normals.T - offsets).min(axis=-1))

    def rows(self, robot: Robot, q: Array) -> tuple[Array, Array]:
        """Return G (k, n) and h (k,) of the rows G q̇ >= h."""
        normals, offsets = self.__dict__["_edges"]
        room = normals @ robot.center_of_mass(q)[:2] - offsets - self.margin
        return normals @ _center_of_mass(robot).jacobian(robot, q), -self.rate * room

    def task(self, robot: Robot) -> OpenTask:
        """Return the polygon as a task for any place in the order of a `Priority`.

        Its rows are the distances of the center of mass from the edges beyond the margin, one for
        each edge, with the target zero and the range (0, inf) [m]. Tasks before it can move the
        center of mass out of the polygon; tasks after it cannot. The rate of approach is the gain
        of the `Servo`.
        """
        normals, offsets = self.__dict__["_edges"]

        def room(q: Array) -> tuple[Array, Array]:
            distances = normals @ robot.center_of_mass(q)[:2] - offsets - self.margin
            return distances, normals @ _center_of_mass(robot).jacobian(robot, q)

        names = [f"edge {k} of the support polygon" for k in range(len(normals))]
        return OpenTask(room, rows=names, tolerance=(0.0, np.inf))


@lru_cache(maxsize=64)
def _center_of_mass(robot: Robot) -> TaskRows:
    return CenterOfMassTask(("x", "y")).on(robot)


def _has_room(corners: Array, normals: Array, offsets: Array) -> bool:
    """Return whether a part of a polygon is on the inner side of all lines n·p = offset."""
    for n, offset in zip(normals, offsets, strict=True):
        room = corners @ n - offset
        after, next_room = np.roll(corners, -1, axis=0), np.roll(room, -1)
        kept = []
        for p, here, other, there in zip(corners, room, after, next_room, strict=True):
            if here >= 0:
                kept.append(p)
            if here * there < 0:
                kept.append(p + (other - p) * here / (here - there))
        if not kept:
            return False
        corners = np.array(kept)
    return True


def _edges(points: Array) -> tuple[Array, Array, Array]:
    """Return the corners (k, 2) of the convex hull, inward normals (k, 2) and offsets (k,) [m]."""
    order = sorted(map(tuple, points.tolist()))

    def half(corners: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        hull: list[tuple[float, ...]] = []
        for p in corners:
            while len(hull) > 1:
                (ax, ay), (bx, by) = hull[-2:]
                if (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax) > 0:
                    break
                hull.pop()
            hull.append(p)
        return hull[:-1]

    corners = np.array([*half(order), *half(order[::-1])])
    along = np.roll(corners, -1, axis=0) - corners
    lengths = np.linalg.norm(along, axis=1, keepdims=True)
    normals = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.maximum(lengths, 1e-300)
    return corners, normals, np.einsum("ki,ki->k", normals, corners)
