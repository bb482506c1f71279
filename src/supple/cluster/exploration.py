"""Results for the poses on a grid of voxels × orientations, from coarse grids to fine ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid of voxels, whose centers are at multiples of the spacing in the world.

    Attributes:
        origin: Center of the first voxel (3,) [m].
        spacing: Distance between neighboring centers [m].
        shape: Number of voxels along x, y and z.
    """

    origin: NDArray[np.float64]
    spacing: float
    shape: tuple[int, int, int]

    @property
    def size(self) -> int:
        """The number of voxels."""
        return math.prod(self.shape)

    def centers(self, voxels: Array) -> Array:
        """Return the centers (N, 3) [m] of voxels (N,), given by flat indices; z varies fastest."""
        return self.origin + self.spacing * np.stack(np.unravel_index(voxels, self.shape), axis=1)


class Exploration:
    """Results for k orientations and all voxels, filled in from the coarsest grid to the finest.

    Attributes:
        reached: Whether a pose is reached (k, voxels).
        solved: Whether a search decided the result of a pose (k, voxels); other poses have the
            result of their neighbors.
        manipulability: Manipulability of the solution (k, voxels); interpolated if not solved.
        sigma_min: Smallest singular value of the solution (k, voxels); interpolated if not solved.
    """

    def __init__(self, count: int, grid: Grid, values: bool) -> None:
        self._grid = grid
        self.reached = np.zeros((count, grid.size), bool)
        self.solved = np.zeros((count, grid.size), bool)
        sizes = (count, grid.size if values else 0)
        self.manipulability = np.zeros(sizes, np.float32)
        self.sigma_min = np.zeros(sizes, np.float32)

    def unknown(self, stride: int, *, first: bool) -> tuple[Array, Array]:
        """Return the poses to solve on a grid: indices of orientations (N,) and of voxels (N,).

        On the first grid these are all poses. On later grids, a new voxel gets the result of its
        neighbors on the previous grid if they all have the same one; the remaining poses are
        returned.

        Args:
            stride: Spacing of the grid, in voxels of the finest grid.
            first: Whether this is the first (coarsest) grid.
        """
        if first:
            chosen = self._mask(stride, (0, 0, 0))
            which, voxel = np.nonzero(np.broadcast_to(chosen.ravel(), self.reached.shape))
            return which, voxel
        todo = np.zeros((len(self.reached), *self._grid.shape), bool)
        for offset in itertools.product((0, stride), repeat=3):
            if any(offset):
                self._between(todo, stride, offset)
        which, voxel = np.nonzero(todo.reshape(self.reached.shape))
        return which, voxel

    def _between(self, todo: Array, stride: int, offset: tuple[int, ...]) -> None:
        """Interpolate the voxels at an offset from the coarser grid, or mark them in `todo`.

        The coarser grid has twice the stride. Each entry of the offset is 0 or the stride.
        """
        corners = list(itertools.product(*[(-each, each) if each else (0,) for each in offset]))
        fine = self._places(stride, offset, (0, 0, 0))
        reached = self.reached.reshape(todo.shape)
        around = sum(reached[self._places(stride, offset, c)].astype(np.int8) for c in corners)
        todo[fine] = (around > 0) & (around < len(corners))
        inside = around == len(corners)
        reached[fine] = inside
        if self.manipulability.shape[1]:
            for values in (self.manipulability, self.sigma_min):
                shaped = values.reshape(todo.shape)
                mean = sum(shaped[self._places(stride, offset, c)] for c in corners) / len(corners)
                shaped[fine] = np.where(inside, mean, 0)

    def _places(self, stride: int, offset: Sequence[int], move: Sequence[int]) -> tuple[Any, ...]:
        """Return slices that select the voxels at `offset` + `move` from the coarser grid."""
        slices = []
        for o, m, n in zip(offset, move, self._grid.shape, strict=True):
            last = (n - 1) // (2 * stride) - (1 if o else 0)  # one fewer gap than coarse voxels
            slices.append(slice(o + m, o + m + 2 * stride * last + 1, 2 * stride))
        return slice(None), *slices

    def _mask(self, stride: int, offset: Sequence[int]) -> Array:
        chosen = np.zeros(self._grid.shape, bool)
        chosen[tuple(slice(o, None, stride) for o in offset)] = True
        return chosen

    def beside_reached(self, todo: tuple[Array, Array], stride: int) -> tuple[Array, Array]:
        """Return the poses of `todo` that are not reached and have a reached neighbor.

        Neighbors are voxels at the distance of the stride along x, y or z.
        """
        which, voxel = todo
        at = np.stack(np.unravel_index(voxel, self._grid.shape), axis=1)
        beside = np.zeros(len(voxel), bool)
        shape = np.array(self._grid.shape)
        for axis, step in itertools.product(range(3), (-stride, stride)):
            moved = at.copy()
            moved[:, axis] += step
            inside = (moved[:, axis] >= 0) & (moved[:, axis] < shape[axis])
            index = np.ravel_multi_index(moved[inside].T, self._grid.shape)
            beside[inside] |= self.reached[which[inside], index]
        chosen = beside & ~self.reached[which, voxel]
        return which[chosen], voxel[chosen]
