"""Grids of cells on which the squared speed b(u) = u̇² is a spline (`graded_law.py`).

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array
from supple.paths.graded_law import Grading
from supple.paths.spline import Spline

MIN_CELLS = 300  # minimum number of cells of b(u)
_TURNING_SPEED = 1e-9  # |q'| where the path turns back, relative to its largest value nearby
_POINT_TOLERANCE = 1e-9  # distance of points that count as one, relative to the piece's length
_MAX_DURATION_LOSS = 1e-3  # fraction of the duration that may be lost because cells are coarse
_MAX_PARTS = 9  # maximum number of parts into which a cell is divided at a time
_MAX_GROWTH = 0.5  # largest relative growth of the number of cells in a round to lose less time


def cells(spline: Spline, grading: Grading) -> tuple[Array, NDArray[np.intp], Array]:
    """Divide the pieces of a spline into cells.

    Returns:
        The ends of the cells in u (M + 1,), the index of the piece that contains each cell (M,),
        and the ends (K,) where the path turns back. Without limits of acceleration or jerk (order
        1), b would be infinite at these ends, so they are left out and K is 0.
    """
    turns = turning_points(spline) if grading.order > 1 else spline.s[:0]
    inner = np.setdiff1d(turns, spline.s)
    s = np.sort(np.concatenate([spline.s, inner]))
    ends = grading.inverse(s)
    ends[0], ends[-1] = 0.0, 1.0
    parts = np.maximum(1, np.ceil(np.diff(ends) * MIN_CELLS - 1e-9)).astype(np.intp)
    u, piece, _ = divided(ends, spline.piece((s[1:] + s[:-1]) / 2), parts)
    return u, piece, ends[np.isin(s, turns)]


def turning_points(spline: Spline) -> Array:
    """Return the parameters (K,) inside a path where q' is zero.

    At these places b' may jump, because the acceleration depends on b' only by q' b'/2. If such a
    place is a point of the spline, its parameter is returned exactly.
    """
    slope, second, third = spline.coefficients[1:]
    h = np.diff(spline.s)
    size = np.abs([slope, second * h[:, None], third * h[:, None] ** 2]).max(axis=0)
    piece = np.arange(len(h))
    fast = size.argmax(axis=1)  # the joint that moves most in each piece
    a, b, c = (each[piece, fast] for each in (slope, second, third))
    far = -(b + np.copysign(np.sqrt(np.maximum(b * b - 3 * a * c, 0)), b))
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.nan_to_num(np.concatenate([far / (3 * c), a / far]), nan=-1)
    piece, near = np.tile(piece, 2), _POINT_TOLERANCE * np.tile(h, 2)
    inside = (x >= -near) & (x <= np.tile(h, 2) + near)
    x, piece, near = x[inside], piece[inside], near[inside]
    s = spline.s[piece] + x
    _, q1, _, _ = spline.derivatives(s, piece)
    still = np.abs(q1).max(axis=1) <= _TURNING_SPEED * size[piece].max(axis=1)
    s, piece, near = s[still], piece[still], near[still]
    for end in (spline.s[piece], spline.s[piece + 1]):
        s = np.where(np.abs(s - end) <= near, end, s)
    return np.setdiff1d(s, spline.s[[0, -1]])


def divided(
    u: Array, piece: NDArray[np.intp], parts: NDArray[np.intp]
) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """Divide each cell into a number of parts (M,).

    Returns:
        The new cells, and the index of the old cell that contains each new cell.
    """
    cell = np.repeat(np.arange(len(piece)), parts)
    rank = np.arange(len(cell)) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(u[cell] + np.diff(u)[cell] * rank / parts[cell], 1.0), piece[cell], cell


def thirds(where: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return numbers of parts (M,): 3 for the cells in `where` and their neighbors, else 1."""
    near = where.copy()
    near[1:] |= where[:-1]
    near[:-1] |= where[1:]
    return np.where(near, 3, 1)


def divisions(lost: Array) -> NDArray[np.intp]:
    """Return the numbers of parts (M,) into which to divide cells so that less time is lost.

    A cell that loses a fraction x of the duration loses about x/k if it is divided into k parts.
    The fewest parts with a given sum of these losses have k in proportion to √x.
    """
    root, target = np.sqrt(lost), max(_MAX_DURATION_LOSS, float(lost.sum()) / 4)
    while True:
        wanted = np.ceil(root * (root.sum() / target) - 0.5)
        parts = np.asarray(np.clip(wanted, 1, _MAX_PARTS), np.intp)
        if (parts - 1).sum() <= _MAX_GROWTH * len(lost):
            return parts
        target *= 1.2


def envelope(u: Array, need: Array, steepest: float) -> Array:
    """Return the largest b (M,) at or below 1/need (M,) with a limited slope of log b(u)."""
    middle = (u[1:] + u[:-1]) / 2 * steepest
    low = -np.log(np.maximum(need, 1e-300))
    low = middle + np.minimum.accumulate(low - middle)
    low = -middle + np.minimum.accumulate((low + middle)[::-1])[::-1]
    return np.asarray(np.exp(low))
