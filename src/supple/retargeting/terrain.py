"""The surfaces on which feet can stand: the ground and the tops of obstacles.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.collision import Box, HalfSpace
from supple.collision.world import World
from supple.motion.linearization import TINY, Array

INSIDE = 0.05  # a point that is deeper below a surface is beside it [m]
LONGER = 3.0  # ways out of a box up to this factor longer than the shortest one have a share
_DOWN = -0.5  # nothing leaves a box through faces whose normals have a smaller vertical part
_VERTICAL = 1e-6  # a face whose normal has a smaller vertical part is a wall


@dataclass(frozen=True, eq=False)
class Terrain:
    """Surfaces to stand on: the ground z = 0 and the upper faces of boxes and half-spaces.

    Attributes:
        boxes: Poses (4, 4) and half edges (3,) of the boxes [m].
        planes: Poses (4, 4) of the half-spaces; their surface is z = 0 in their own axes.
    """

    boxes: tuple[tuple[Array, Array], ...] = ()
    planes: tuple[Array, ...] = (np.eye(4),)

    @classmethod
    def of(cls, world: World | None) -> Terrain:
        """Return the surfaces of a world's boxes and half-spaces, besides the ground."""
        if world is None:
            return cls()
        shapes = list(world.obstacles.values())
        boxes = tuple(
            (np.asarray(shape.pose), 0.5 * np.asarray(shape.size))
            for shape in shapes
            if isinstance(shape, Box)
        )
        planes = tuple(np.asarray(shape.pose) for shape in shapes if isinstance(shape, HalfSpace))
        return cls(boxes, (np.eye(4), *planes))

    def surfaces(self, at: Array) -> tuple[Array, Array]:
        """Return the heights (s, ...) of all surfaces at points (..., 2 or 3), and the normals.

        The height is -inf where a surface does not extend to. Normals are (s, ..., 3).
        """
        heights = list(self._of_planes(at))
        normals = [
            np.broadcast_to(T[:3, 2], (*at.shape[:-1], 3))
            for T in self.planes
            if T[2, 2] >= _VERTICAL
        ]
        for T, half in self.boxes:
            R = T[:3, :3]
            level = np.zeros((*at.shape[:-1], 3))
            level[..., :2] = at[..., :2] - T[:2, 3]
            start, way = level @ R, R[2]  # of the vertical line, in the axes of the box
            wall = np.abs(way) < _VERTICAL  # its line never leaves, or never enters
            side = np.where(way < 0, -1.0, 1.0)
            steep = np.where(wall, 1.0, np.abs(way))
            beside = np.where(np.abs(start) <= half, np.inf, -np.inf)
            leave = np.where(wall, beside, (half - side * start) / steep)
            enter = np.where(wall, -beside, (-half - side * start) / steep)
            axis = leave.argmin(axis=-1)
            top = leave.min(axis=-1)
            heights.append(np.where(top > enter.max(axis=-1), top + T[2, 3], -np.inf))
            normals.append(side[axis][..., None] * R.T[axis])
        return np.stack(heights), np.stack(normals)

    def _of_planes(self, at: Array) -> Array:
        """Return the heights (p, ...) of all planes that are not walls, at points (..., 2 or 3)."""
        return np.stack(
            [
                T[2, 3] - (at[..., :2] - T[:2, 3]) @ T[:2, 2] / T[2, 2]
                for T in self.planes
                if T[2, 2] >= _VERTICAL
            ]
        )

    def height(self, at: Array) -> Array:
        """Return the height (...) of the highest surface at or below points (..., 3) [m].

        Points may be up to 5 cm inside, and are above the lowest surface otherwise.
        """
        found = self.surfaces(at)[0]
        below = np.where(found <= at[..., 2] + INSIDE, found, -np.inf).max(axis=0)
        return np.asarray(
            np.where(
                np.isfinite(below), below, found.min(axis=0, initial=0.0, where=np.isfinite(found))
            )
        )

    def rise(self, points: Array, clear: Array) -> Array:
        """Return how far bodies must rise to be clear of the planes (k,) [m].

        Args:
            points: Points of each body (k, n, 3) [m].
            clear: Least height of each body above the planes (k,) [m].
        """
        above = points[..., 2] - self._of_planes(points).max(axis=0)
        return np.asarray(np.maximum(0.0, clear - above.min(axis=1, initial=np.inf)))

    def way_out(self, points: Array, margin: Array) -> Array:
        """Return displacements (k, 3) that take bodies out of the boxes [m].

        A body leaves a box through the face to which the way is shortest. Where ways to other faces
        are less than three times as long, as at an upper edge, it takes a share of these as well:
        it passes the edge at a distance and does not jump from one way to the other.

        Args:
            points: Points of each body (k, n, 3) [m].
            margin: Distance to the upper faces and the sides (k,) [m].
        """
        made = np.zeros((3, len(points)))
        if not (len(points) and self.boxes):
            return made.T
        every = np.ascontiguousarray(points.T)  # (3, n, k): loops are over bodies
        middle = every.mean(axis=1)
        reach = np.sqrt(((every - middle[:, None]) ** 2).sum(axis=0).max(axis=0)) + margin
        for T, half in self.boxes:
            R, at = T[:3, :3], T[:3, 3:]
            away = np.abs(R.T @ (middle + made - at)) - half[:, None]
            near = np.flatnonzero((away < reach).all(axis=0))
            if not len(near):
                continue
            moved = every[..., near] + (made[:, near] - at)[:, None]
            own = (R.T @ moved.reshape(3, -1)).reshape(moved.shape)
            normals = np.concatenate([R.T, -R.T])
            exits = normals[:, 2] > _DOWN
            room = half[:, None, None] + margin[near]
            ways = np.concatenate([room - own, room + own])
            inside = (ways > 0).all(axis=0)
            way = np.where(inside, ways, 0.0).max(axis=1)[exits]
            least = way.min(axis=0)
            share = np.clip((LONGER - way / np.maximum(least, TINY)) / (LONGER - 1), 0, 1)
            made[:, near] += normals[exits].T @ (share * way)
        return made.T
