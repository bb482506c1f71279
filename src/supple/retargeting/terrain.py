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

MAX_SURFACE_DEPTH = 0.05  # a point deeper than this below a surface counts as not on it [m]
MAX_EXIT_RATIO = 3.0  # longest way out of a box that counts, relative to the shortest one
# No point is moved out of a box through a face whose normal has a smaller z component.
_MIN_EXIT_NORMAL_Z = -0.5


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
        """Return the ground and the surfaces of a world's boxes and half-spaces."""
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
        heights, normals = _core.surfaces(self._flat, self._boxes, _in_space(at))
        count = len(heights)
        return heights.reshape(count, *at.shape[:-1]), normals.reshape(count, *at.shape[:-1], 3)

    def height(self, at: Array) -> Array:
        """Return the height (...) of the highest surface at or below points (..., 3) [m].

        A surface up to 5 cm above the point counts as below it. If all surfaces are higher, the
        result is the height of the lowest surface.
        """
        found = _core.height_below(self._flat, self._boxes, _in_space(at), MAX_SURFACE_DEPTH)
        return np.asarray(found.reshape(at.shape[:-1]))

    def rise(self, poses: Array, points: Array, clear: Array) -> Array:
        """Return how far bodies must rise to be clear of the planes (k,) [m].

        Args:
            poses: Poses of the body (k, 4, 4).
            points: Points of the body (n, 3), in its frame [m].
            clear: Least height of each body above the planes (k,) [m].
        """
        return np.asarray(_core.rise(self._flat, np.ascontiguousarray(poses), points, clear))

    def way_out(self, poses: Array, points: Array, margin: Array) -> Array:
        """Return displacements (k, 3) that take bodies out of the boxes [m].

        A body leaves a box through the face to which the way is shortest. Where ways to other faces
        are less than three times as long, as at an upper edge, it also moves along a part of these,
        so that it passes the edge at a distance and does not jump from one way to another.

        Args:
            poses: Poses of the body (k, 4, 4).
            points: Points of the body (n, 3), in its frame [m].
            margin: Distance to the upper faces and the sides (k,) [m].
        """
        if not self.boxes:
            return np.zeros((len(poses), 3))
        made = _core.way_out(
            self._boxes,
            np.ascontiguousarray(poses),
            points,
            margin,
            MAX_EXIT_RATIO,
            _MIN_EXIT_NORMAL_Z,
        )
        return np.asarray(made)

    @cached_property
    def _boxes(self) -> Array:
        """Rotations by rows, centers and half edges of the boxes (b, 15)."""
        each = [[*T[:3, :3].ravel(), *T[:3, 3], *half] for T, half in self.boxes]
        return np.array(each).reshape(len(each), 15)

    @cached_property
    def _flat(self) -> Array:
        """Poses (p, 4, 4) of the planes that are not walls."""
        flat = [T for T in self.planes if T[2, 2] >= _core.VERTICAL_PART]
        return np.array(flat).reshape(len(flat), 4, 4)


def _in_space(at: Array) -> Array:
    """Return points (..., 2 or 3) as rows (n, 3)."""
    made = np.zeros((int(np.prod(at.shape[:-1])), 3))
    made[:, : at.shape[-1]] = at.reshape(len(made), at.shape[-1])
    return made
