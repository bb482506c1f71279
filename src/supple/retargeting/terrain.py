"""The surfaces on which feet can stand: the ground and the tops of obstacles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.collision import Box, HalfSpace
from supple.collision.world import World
from supple.motion.linearization import Array

INSIDE = 0.05  # a point that is deeper below a surface is beside it [m]
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
        heights, normals = [], []
        for T in self.planes:
            n = T[:3, 2]
            if n[2] < _VERTICAL:
                continue
            away = (at[..., :2] - T[:2, 3]) @ n[:2]
            heights.append(T[2, 3] - away / n[2])
            normals.append(np.broadcast_to(n, (*at.shape[:-1], 3)))
        for T, half in self.boxes:
            R = T[:3, :3]
            level = np.zeros((*at.shape[:-1], 3))
            level[..., :2] = at[..., :2] - T[:2, 3]
            start, way = level @ R, R[2]  # of the vertical line, in the axes of the box
            steep = np.where(np.abs(way) < _VERTICAL, _VERTICAL, np.abs(way))
            side = np.where(way < 0, -1.0, 1.0)
            leave, enter = (half - side * start) / steep, (-half - side * start) / steep
            axis = leave.argmin(axis=-1)
            top = leave.min(axis=-1)
            heights.append(np.where(top > enter.max(axis=-1), top + T[2, 3], -np.inf))
            normals.append(side[axis][..., None] * R.T[axis])
        return np.stack(heights), np.stack(normals)

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
