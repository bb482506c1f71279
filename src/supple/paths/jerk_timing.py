"""Time-optimal motion along a path under limits of jerk, speed and acceleration.

b(u) = u̇² is a quadratic spline (`graded_law.py`), so that jerk is finite and jumps between cells.
A phase of constant jerk may cover only a short interval of u although b changes much within it, and
where this interval lies is not known in advance. The weight of the barrier therefore decreases from
round to round. Each round starts from the result of the previous one. Between rounds, cells are
divided where a limit is exceeded between the points at which the optimization keeps it, and where
no limit is reached: an optimal motion always is at a limit.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.motion.linearization import Array
from supple.paths.graded_law import GradedLaw, Grading, durations, in_u, values
from supple.paths.speed_grid import cells, divided, divisions, envelope, thirds
from supple.paths.spline import Spline

if TYPE_CHECKING:
    from supple.paths.timing import Bounds

_MAX_SLOPES = (10.0, 30.0, 100.0, 300.0, 1000.0)  # largest slopes of log b(u) in initial guesses
_MAX_TURN_CHANGE = 0.5  # largest change of log b in a cell where the path turns sharply
_DURATION_TOLERANCE = 1e-4  # relative accuracy of the duration
_RESTART_TOLERANCE = 3e-4  # finest accuracy with which a round begins
_MAX_ROUNDS = 10
# Rounds that divide cells at exceeded limits; _MIN_ROUND_GAIN is tenfold in later rounds.
_DIVIDING_ROUNDS = 4
_ACCEPTED_EXCESS = 1.0005  # excess up to which the rounds may end
_DIVIDED_EXCESS = 1.01  # value of an excess above which a cell is divided
_MIN_ROUND_GAIN = 1e-3  # fraction of the duration, before more cells are divided
_CHECK_PLACES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # checked places of a cell, from 0 to 1
_LIMIT_MARGIN = 1e-9  # relative distance that is kept from the limits, larger than rounding errors


def fastest_with_jerk(spline: Spline, bounds: Bounds) -> GradedLaw:
    """Return the fastest motion along a path, from rest to rest."""
    grading = Grading(float(spline.s[0]), float(spline.s[-1]), 3)
    u, piece, turns = _cells(spline, grading, bounds)
    rows = _Rows.along(spline, grading, u[:-1], np.diff(u), piece, bounds)
    low = np.stack([envelope(u, rows.need(), slope) for slope in _MAX_SLOPES])
    at = np.flatnonzero(np.isin(u[1:-1], turns))
    starts = np.insert(low, at + 1, np.minimum(low[:, at], low[:, at + 1]), axis=1)
    tight, begin, before = np.ones((3, len(piece))), 1.0, np.inf
    best = np.inf, u, piece, np.ones((len(piece), 3))
    for k in range(_MAX_ROUNDS):
        end = max(_DURATION_TOLERANCE, 10.0 ** (-2 - k))
        squared = _squared_speed(rows, u, turns, starts, tight, begin, end)
        peaks, held, used = rows.of(squared, np.diff(u))
        excess, t = peaks.max(axis=0), durations(squared, np.diff(u))
        worst, duration = excess.max(), t.sum()
        if duration * np.sqrt(worst) < best[0]:
            best = duration * np.sqrt(worst), u, piece, squared / worst
        if end == _DURATION_TOLERANCE and worst <= _ACCEPTED_EXCESS:
            break
        begin = max(end, _RESTART_TOLERANCE)
        tight = np.where(peaks > 1, np.maximum(tight, peaks / np.maximum(held, 0.1)), tight)
        parts = np.ones(len(piece), np.intp)
        if k < _DIVIDING_ROUNDS:
            parts = thirds(excess > max(_DIVIDED_EXCESS, 1 + 10 * end))
        gain = _MIN_ROUND_GAIN * (1 if k < _DIVIDING_ROUNDS else 10)
        if k < _MAX_ROUNDS - 2 and duration < before * (1 - gain):
            lost = np.maximum(0, 1 / tight.max(axis=0) - used - end / 10) * t / duration
            parts = np.maximum(parts, divisions(lost))
            begin = max(begin, lost.sum())
        before = duration
        if (parts > 1).any():
            old = u
            u, piece, cell = divided(u, piece, parts)
            squared = _shifted(squared[cell], u[:-1] - old[cell])
            tight = np.where(parts[cell] > 1, 1, tight[:, cell])
            rows = rows.divided(cell, parts, spline, grading, u, piece, bounds)
        at = np.flatnonzero(np.isin(u[:-1], turns))
        middle = squared[:, 0] + squared[:, 1] * np.diff(u) / 2
        starts = np.insert(middle, at, squared[at, 0])[None]
    _, u, piece, squared = best
    squared = squared / (1 + _LIMIT_MARGIN)
    t = np.concatenate([[0.0], np.cumsum(durations(squared, np.diff(u)))])
    return GradedLaw(spline, grading, u, piece, squared, t)


class _Rows(NamedTuple):
    """The limits at the checks of each cell, as factors of b and its derivatives.

    Attributes:
        speed: Squared ratio of speed to limit for b = 1 (M, 5).
        acceleration: q' and q'' of each joint, divided by its limit (M, 5, n, 2).
        jerk: q', q'' and q''' of each joint, divided by its limit (M, 5, n, 3).
    """

    speed: Array
    acceleration: Array
    jerk: Array

    @staticmethod
    def along(
        spline: Spline,
        grading: Grading,
        u: Array,
        h: Array,
        piece: NDArray[np.intp],
        bounds: Bounds,
    ) -> _Rows:
        """Return the limits in the cells of a path that begin at u (M,) and have lengths h (M,)."""
        count, k = len(piece), len(_CHECK_PLACES)
        at = (u[:, None] + np.outer(h, _CHECK_PLACES)).ravel()
        q, q1, q2, q3 = in_u(spline, grading, at, np.repeat(piece, k))
        speed = bounds.speeds(q, q1).reshape(count, k) ** 2
        moves = (spline.coefficients[1:] != 0).any(axis=(0, 1))
        derivatives = np.stack([q1, q2, q3], -1)[:, moves].reshape(count, k, -1, 3)
        acceleration = derivatives[..., :2] / bounds.acceleration[moves, None]
        return _Rows(speed, acceleration, derivatives / bounds.jerk[moves, None])

    def divided(
        self,
        cell: NDArray[np.intp],
        parts: NDArray[np.intp],
        spline: Spline,
        grading: Grading,
        u: Array,
        piece: NDArray[np.intp],
        bounds: Bounds,
    ) -> _Rows:
        """Return the limits after cells were divided into some numbers of parts (`divided`)."""
        new = parts[cell] > 1
        fresh = _Rows.along(spline, grading, u[:-1][new], np.diff(u)[new], piece[new], bounds)
        made = _Rows(*(each[cell] for each in self))
        for each, other in zip(made, fresh, strict=True):
            each[new] = other
        return made

    def need(self) -> Array:
        """Return the least 1/b (M,) in each cell that keeps the limits if b is constant."""
        curved = np.abs(self.acceleration[..., 1]).max(axis=2, initial=0)
        bent = np.cbrt(np.abs(self.jerk[..., 2]).max(axis=2, initial=0)) ** 2
        return np.asarray(np.maximum(self.speed, np.maximum(curved, bent)).max(axis=1))

    def of(self, squared: Array, h: Array) -> tuple[Array, Array, Array]:
        """Compare a motion with its limits.

        Returns:
            Factors by which to divide b in each cell so that the limits of speed, acceleration and
            jerk hold everywhere (3, M); the same factors for only the points of `_squared_speed`
            (3, M); and the mean fraction of the limits that each cell uses (M,).
        """
        x = np.outer(h, _CHECK_PLACES)
        b, b1, b2 = values(squared[:, None], x)
        speed = self.speed * b
        second = self.acceleration[..., 1] * b[..., None] + self.acceleration[..., 0] * (
            b1[..., None] / 2
        )
        third = self.jerk[..., 2] * (b * np.sqrt(b))[..., None]
        third += self.jerk[..., 1] * (1.5 * b1 * np.sqrt(b))[..., None]
        third += self.jerk[..., 0] * (0.5 * b2 * np.sqrt(b))[..., None]
        peaks = [_peak(np.sqrt(speed)[..., None]) ** 2, _peak(second), np.cbrt(_peak(third)) ** 2]
        each = np.stack(
            [
                speed,
                np.abs(second).max(axis=2, initial=0),
                np.cbrt(np.abs(third).max(axis=2, initial=0)) ** 2,
            ]
        )
        held = each[..., ::2].copy()
        held[2, :, 1] = 0
        return np.stack(peaks), held.max(axis=2), each.max(axis=0).mean(axis=1)


def _peak(each: Array) -> Array:
    """Return the largest absolute value (M,) of quantities (M, 5, k) inside each cell."""
    # Between the checks, a parabola through three neighboring values exceeds the largest of them by
    # at most an eighth of their second difference. A quarter also covers second differences that
    # vary.
    bend = np.abs(np.diff(each, 2, axis=1)).max(axis=1) / 4
    return np.asarray((np.abs(each).max(axis=1) + bend).max(axis=1, initial=0))


def _cells(
    spline: Spline, grading: Grading, bounds: Bounds
) -> tuple[Array, NDArray[np.intp], Array]:
    """Divide the pieces of a spline into cells, more densely where the path turns sharply.

    There, b is at most 1/max|q''/a|, and its slope at most 2/max|q'/a|.
    """
    u, piece, turns = cells(spline, grading)
    s = grading(u)[0]
    _, begin, bent, _ = spline.derivatives(s[:-1], piece)
    _, end, curved, _ = spline.derivatives(s[1:], piece)
    bent, curved, begin, end = (
        np.abs(each / bounds.acceleration).max(axis=1) for each in (bent, curved, begin, end)
    )
    slope = np.maximum(np.maximum(begin, end), 1e-300)
    parts = np.diff(s) * np.maximum(bent, curved) * 2 / slope / _MAX_TURN_CHANGE
    near = parts.copy()
    for k in (1, 2):
        near[k:] = np.maximum(near[k:], parts[:-k] / 2)
        near[:-k] = np.maximum(near[:-k], parts[k:] / 2)
    u, piece, _ = divided(u, piece, np.clip(np.ceil(near), 1, 9).astype(np.intp))
    return u, piece, turns


def _shifted(squared: Array, x: Array) -> Array:
    """Return the coefficients of b about points at distance x from the starts of the cells."""
    b, b1, _ = values(squared, x)
    return np.stack([b, b1, squared[:, 2]], -1)


def _squared_speed(
    rows: _Rows, u: Array, turns: Array, starts: Array, tight: Array, begin: float, end: float
) -> Array:
    """Return coefficients (M, 3) of the largest u̇² that keeps the limits at three points of a cell.

    A spline that keeps the limits only at the ends of cells oscillates between these ends.

    Args:
        rows: The limits.
        u: Ends of the cells (M + 1,).
        turns: Those ends of cells at which the path turns back.
        starts: Positive coefficients to start from (k, M + number of turns).
        tight: Factors (3, M) by which squared speed, acceleration and jerk^(2/3) are reduced.
        begin: Relative accuracy of the duration after the first round of the optimization.
        end: Relative accuracy of the duration after its last round.
    """
    h = np.diff(u)
    joints, points = rows.jerk.shape[2], 3 * len(h)
    basis, first = _basis(u, turns)
    shared = np.repeat(tight[..., None], 3, axis=2)
    shared[:2, 1:, 0] = np.maximum(tight[:2, 1:], tight[:2, :-1])
    slow, weak, smooth = shared
    # b and b' are the same at the end of a cell and at the beginning of the next one.
    kinds = [3, 1, 2] * (len(h) - 1) + [3, 1, 3]
    c = _core.squared_speed(
        first=np.repeat(first, 3).tolist(),
        kinds=kinds,
        basis=basis.reshape(points, 9),
        weight=np.outer(h, [1 / 6, 4 / 6, 1 / 6]).ravel(),
        speed=(rows.speed[:, ::2] * slow).ravel(),
        acceleration=(rows.acceleration[:, ::2] * weak[..., None, None]).reshape(points, -1),
        jerk=(rows.jerk[:, ::2] * smooth[..., None, None] ** 1.5).reshape(points, -1),
        starts=starts,
        joints=joints,
        degree=2,
        begin=begin,
        end=end,
    )
    own = c[first[:, None] + np.arange(3)]
    return np.asarray(np.einsum("idk,ik->id", basis[:, 0], own) * [1, 1, 0.5])


def _basis(u: Array, turns: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return quadratic B-splines at the ends and in the middle of each cell.

    Returns:
        The contributions of three coefficients to b, b' and b'' (M, 3 points, 3, 3), and the index
        of the first of these coefficients (M,). The spline is linear in the first and the last
        cell, where nothing else would determine its curvature. Turns are double knots, at which
        b' may jump.
    """
    h = np.diff(u)[:, None]
    count = len(h)
    before, after = h.copy(), h.copy()
    single = ~np.isin(u[1:-1], turns)
    before[1:] += h[:-1] * single[:, None]
    after[:-1] += h[1:] * single[:, None]
    x = h * [0.0, 0.5, 1.0]
    y = h - x
    two = np.full_like(x, 2.0)
    left = np.stack([y * y, -2 * y, two], -1) / (before * h)[..., None]
    right = np.stack([x * x, 2 * x, two], -1) / (after * h)[..., None]
    made = np.stack([left, np.array([1.0, 0, 0]) - left - right, right], -1)
    # b'' = 0 at the ends eliminates the first and the last coefficient
    for cell, out, shift in ((0, 0, -1), (count - 1, 2, 1)):
        end = made[cell]
        end += end[:, :, out, None] * (-end[:, 2] / end[:, 2, out, None])[:, None]
        end[:, :, out] = 0
        made[cell] = np.roll(end, shift, axis=2)
    first = np.append(-1, np.cumsum(2 - single) - 1)
    return made, np.clip(first, 0, first[-1] - 1)
