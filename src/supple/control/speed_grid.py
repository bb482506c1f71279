"""Grids of cells on which the squared speed b(u) = u̇² is a spline (`graded_law.py`).

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.control.graded_law import Grading
from supple.control.spline import Spline
from supple.motion.linearization import Array

CELLS = 300  # least number of cells of b(u)

Cells = tuple[Array, NDArray[np.intp]]
"""Ends of the cells in u (M + 1,), and the index of the piece that contains each cell (M,)."""


def cells(spline: Spline, grading: Grading) -> Cells:
    """Divide the pieces of a spline into cells."""
    ends = grading.inverse(spline.s)
    ends[0], ends[-1] = 0.0, 1.0
    parts = np.maximum(1, np.ceil(np.diff(ends) * CELLS - 1e-9)).astype(np.intp)
    u, piece, _ = divided(ends, np.arange(len(parts)), parts)
    return u, piece


def divided(
    u: Array, piece: NDArray[np.intp], parts: NDArray[np.intp]
) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """Divide each cell into a number of parts (M,).

    Returns:
        The new cells, and the index of the old cell that contains each of them.
    """
    cell = np.repeat(np.arange(len(piece)), parts)
    rank = np.arange(len(cell)) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(u[cell] + np.diff(u)[cell] * rank / parts[cell], 1.0), piece[cell], cell


def thirds(where: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the numbers of parts (M,) that divide some cells and their neighbors into three."""
    near = where.copy()
    near[1:] |= where[:-1]
    near[:-1] |= where[1:]
    return np.where(near, 3, 1)


def envelope(u: Array, need: Array, steepest: float) -> Array:
    """Return the largest b (M,) at or below 1/need (M,) with a limited slope of log b(u)."""
    middle = (u[1:] + u[:-1]) / 2 * steepest
    low = -np.log(np.maximum(need, 1e-300))
    low = middle + np.minimum.accumulate(low - middle)
    low = -middle + np.minimum.accumulate((low + middle)[::-1])[::-1]
    return np.asarray(np.exp(low))
