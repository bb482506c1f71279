"""Time-optimal motion along a path under limits of speed and acceleration.

b(u) = u̇² is linear in each cell (`graded_law.py`). Cells are divided where a limit is exceeded
between their ends, and where no limit is reached: an optimal motion always is at a limit. Each
round starts from the result of the previous one.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.motion.linearization import Array
from supple.paths.graded_law import GradedLaw, Grading, durations, in_u, values
from supple.paths.speed_grid import cells, divided, divisions, envelope, thirds
from supple.paths.spline import Spline

if TYPE_CHECKING:
    from supple.paths.timing import Bounds

_MAX_SLOPE = 30.0  # largest slope of log b(u) in the initial guess of the optimization
_DURATION_TOLERANCE = 3e-4  # relative accuracy of the duration
_RESTART_TOLERANCE = 1e-2  # tolerance of a round that starts from a result on a coarser grid
_DIVIDED_EXCESS = 1.001  # value of `_excess` above which a cell is divided
_MAX_ROUNDS = 14  # maximum number of rounds that divide cells
_LOSS_ROUNDS = 6  # number of first rounds that also divide cells where coarse cells lose time
_MIN_ROUND_GAIN = 3e-4  # fraction of the duration that the last round must gain for such divisions
_CHECK_PLACES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # checked places of a cell, from 0 to 1
# Least squared speed for b = 1, relative to the largest, where only speeds are limited.
_MIN_SQUARED_SPEED = 1e-6
_LIMIT_MARGIN = 1e-9  # relative distance that is kept from the limits, larger than rounding errors


def fastest_without_jerk(spline: Spline, bounds: Bounds, rounds: int = _MAX_ROUNDS) -> GradedLaw:
    """Return the fastest motion along a path without jerk limits, from rest to rest.

    With fewer rounds, the cells are coarser and the motion loses more time.
    """
    accelerated = bool(np.isfinite(bounds.acceleration).any())
    grading = Grading(float(spline.s[0]), float(spline.s[-1]), 1 + accelerated)
    u, piece, _ = cells(spline, grading)
    before, start = np.inf, None
    for k in range(rounds):
        squared = _squared_speed(spline, grading, u, piece, bounds, start)
        law = GradedLaw(spline, grading, u, piece, squared, np.zeros(len(u)))
        excess, used = _excess(law, bounds)
        t = durations(squared, np.diff(u))
        parts = thirds(excess > _DIVIDED_EXCESS)
        if k < _LOSS_ROUNDS and t.sum() < before * (1 - _MIN_ROUND_GAIN):
            lost = np.maximum(0, 1 - used - _DURATION_TOLERANCE) * t / t.sum()
            parts = np.maximum(parts, divisions(lost))
        before = t.sum()
        if parts.max() == 1:
            break
        b = np.append(squared[:, 0], values(squared[-1], np.diff(u)[-1])[0])
        u, piece, _ = divided(u, piece, parts)
        start = np.interp(u, law.u, b)
    squared = law.squared / (excess.max() * (1 + _LIMIT_MARGIN))
    t = np.concatenate([[0.0], np.cumsum(durations(squared, np.diff(law.u)))])
    return replace(law, squared=squared, t=t)


def _squared_speed(
    spline: Spline,
    grading: Grading,
    u: Array,
    piece: NDArray[np.intp],
    bounds: Bounds,
    start: Array | None,
) -> Array:
    """Return coefficients (M, 3) of the largest u̇² that keeps the limits at the ends of cells.

    u̇² is linear in each cell; the unknowns are its values at the ends of the cells. `start` (M +
    1,) has these values as found on a coarser grid, if any.
    """
    count, h = len(piece), np.diff(u)
    cell, x = np.repeat(np.arange(count), 2), np.stack([0 * h, h], 1).ravel()
    q, q1, q2, _ = in_u(spline, grading, u[cell] + x, piece[cell])
    slow = bounds.speeds(q, q1) ** 2
    y, h = np.repeat(h, 2) - x, np.repeat(h, 2)
    basis = np.zeros((len(x), 3, 2))
    basis[:, 0] = np.stack([y, x], -1) / h[:, None]
    basis[:, 1] = np.stack([-1 / h, 1 / h], -1)
    n = q1.shape[1]
    acceleration = np.stack([q1, q2], -1) / bounds.acceleration[:, None]
    # Where no acceleration is limited, b would be infinite if q' is zero.
    bend = np.abs(acceleration[..., 1]).max(axis=1)
    free = bend <= _MIN_SQUARED_SPEED**2 * bend.max()
    slow[free] = np.maximum(slow[free], _MIN_SQUARED_SPEED * slow.max())
    begin = _RESTART_TOLERANCE
    if start is None:
        need = np.maximum(slow, bend)
        low = envelope(u, need.reshape(count, 2).max(axis=1), _MAX_SLOPE)
        start = np.concatenate([low[:1], np.minimum(low[1:], low[:-1]), low[-1:]])
        begin = 1.0
    b = _core.squared_speed(
        first=cell.tolist(),
        kinds=[1] * len(cell),
        basis=basis.reshape(len(x), -1),
        weight=h / 2,
        speed=slow,
        acceleration=np.ascontiguousarray(acceleration.reshape(len(x), 2 * n)),
        jerk=None,
        starts=start[None],
        joints=n,
        degree=1,
        begin=begin,
        end=_DURATION_TOLERANCE,
    )
    return np.stack([b[:-1], np.diff(b) / np.diff(u), np.zeros(count)], -1)


def _excess(law: GradedLaw, bounds: Bounds) -> tuple[Array, Array]:
    """Compare a motion with its limits.

    Returns:
        The factor by which to divide b in each cell (M,) so that all limits hold; and the mean
        fraction of the limits that each cell uses (M,).
    """
    count = len(law.piece)
    cell = np.repeat(np.arange(count), len(_CHECK_PLACES))
    x = np.outer(np.diff(law.u), _CHECK_PLACES).ravel()
    q, first, second, _ = law.state(cell, x)

    speed, acceleration = (
        each.reshape(count, len(_CHECK_PLACES), -1)
        for each in (bounds.speeds(q, first), second / bounds.acceleration)
    )

    def peak(each: Array) -> Array:
        # Between the checks, a parabola through three neighboring values exceeds the largest of
        # them by at most an eighth of their second difference. A quarter also covers second
        # differences that vary.
        bend = np.abs(np.diff(each, 2, axis=1)).max(axis=1) / 4
        return np.asarray((np.abs(each).max(axis=1) + bend).max(axis=1))

    used = np.maximum(speed[..., 0] ** 2, np.abs(acceleration).max(axis=2)).mean(axis=1)
    return np.maximum(peak(speed) ** 2, peak(acceleration)), used
