"""The surfaces on which feet can stand: the ground and the tops of obstacles.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supple import _core
from supple.collision import Box, HalfSpace
from supple.collision.world import World
from supple.motion.linearization import Array

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

        The height is -inf beyond the edges of a surface. Normals are (s, ..., 3).
        """
        flat = [T for T in self.planes if T[2, 2] >= _VERTICAL]
        every = at[..., :2].reshape(-1, 2)
        shape = (len(flat) + len(self.boxes), len(every))
        heights, normals = np.full(shape, -np.inf), np.zeros((*shape, 3))
        for k, T in enumerate(flat):
            heights[k] = T[2, 3] - (every - T[:2, 3]) @ (T[:2, 2] / T[2, 2])
            normals[k] = T[:3, 2]
        for k, (T, half) in enumerate(self.boxes, len(flat)):
            level = every - T[:2, 3]
            near = (level**2).sum(axis=-1) <= half @ half * (1 + _VERTICAL)
            heights[k, near], normals[k, near] = _top(T, half, level[near])
        count = len(heights)
        return heights.reshape(count, *at.shape[:-1]), normals.reshape(count, *at.shape[:-1], 3)

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

    def rise(self, poses: Array, points: Array, clear: Array) -> Array:
        """Return how far bodies must rise to be clear of the planes (k,) [m].

        Args:
            poses: Poses of the body (k, 4, 4).
            points: Points of the body (n, 3), in its frame [m].
            clear: Least height of each body above the planes (k,) [m].
        """
        made = np.zeros(len(poses))
        for T in self.planes:
            n = T[:3, 2]
            if n[2] < _VERTICAL:
                continue
            up = (poses[:, :3, :3] * n[:, None]).sum(axis=1).T  # in the axes of the body
            above = _along(points, up).min(axis=0) + ((poses[:, :3, 3] - T[:3, 3]) * n).sum(axis=1)
            made = np.maximum(made, clear - above / n[2])
        return made

    def way_out(self, poses: Array, points: Array, margin: Array) -> Array:
        """Return displacements (k, 3) that take bodies out of the boxes [m].

        A body leaves a box through the face to which the way is shortest. Where ways to other faces
        are less than three times as long, as at an upper edge, it takes a share of these as well:
        it passes the edge at a distance and does not jump from one way to the other.

        Args:
            poses: Poses of the body (k, 4, 4).
            points: Points of the body (n, 3), in its frame [m].
            margin: Distance to the upper faces and the sides (k,) [m].
        """
        if not self.boxes:
            return np.zeros((len(poses), 3))
        made = _core.way_out(
            self._boxes, np.ascontiguousarray(poses), points, margin, LONGER, _DOWN
        )
        return np.asarray(made)

    @cached_property
    def _boxes(self) -> Array:
        """Rotations by rows, centers and half edges of the boxes (b, 15)."""
        return np.array([[*T[:3, :3].ravel(), *T[:3, 3], *half] for T, half in self.boxes])


def _along(rows: Array, columns: Array) -> Array:
    """Return the products of rows (n, m) with columns (m, k), each rounded as alone."""
    return np.asarray(sum(rows[:, j, None] * columns[j] for j in range(len(columns))))


def _top(T: Array, half: Array, level: Array) -> tuple[Array, Array]:
    """Return heights (k,) and normals (k, 3) of a box's upper side; -inf beside it.

    Args:
        T: Pose of the box (4, 4).
        half: Half of its edges (3,) [m].
        level: Points (k, 2) from its center [m].
    """
    R = T[:3, :3]
    start, way = _along(R[:2].T, level.T).T, R[2]  # of the vertical line, in the axes of the box
    wall = np.abs(way) < _VERTICAL  # its line never leaves, or never enters
    side = np.where(way < 0, -1.0, 1.0)
    steep = np.where(wall, 1.0, np.abs(way))
    beside = np.where(np.abs(start) <= half, np.inf, -np.inf)
    leave = np.where(wall, beside, (half - side * start) / steep)
    enter = np.where(wall, -beside, (-half - side * start) / steep)
    axis, top = leave.argmin(axis=-1), leave.min(axis=-1)
    heights = np.where(top > enter.max(axis=-1), top + T[2, 3], -np.inf)
    return heights, side[axis][:, None] * R.T[axis]
