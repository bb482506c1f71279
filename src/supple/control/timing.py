"""Time-optimal motion along a path, under limits of speed, acceleration and jerk.

The square of u̇, where u is a parameter of the path (`graded_law.py`), is a spline b(u) whose
coefficients are optimized (`src/core/drivers/timing.hpp`): linear in each cell without jerk limits,
quadratic with them (`jerk_timing.py`). A straight line with jerk limits has a closed form
(`line_law.py`).

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.control.graded_law import GradedLaw, Grading, durations, in_u
from supple.control.jerk_timing import fastest_with_jerk
from supple.control.line_law import LineLaw
from supple.control.speed_grid import cells, divided, envelope, thirds
from supple.control.spline import Spline
from supple.motion.linearization import Array

_STEEPEST = 30.0  # largest slope of log b(u) in the initial guess of the optimization
_GAP = 1e-3  # relative accuracy of the duration
_FINE = 1.004  # value of `_excess` above which a cell is divided
_ROUNDS = 14  # maximum number of divisions
_CHECKS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # where limits are verified, from 0 to 1 in a cell
_MARGIN = 1e-9  # relative distance that is kept from the limits, larger than rounding errors

TimeLaw: TypeAlias = GradedLaw | LineLaw


class Bounds(NamedTuple):
    """Limits that apply along a path; infinite for quantities without a limit.

    Attributes:
        speed: Joint speed limits (n,) [rad/s or m/s].
        acceleration: Joint acceleration limits (n,).
        jerk: Joint jerk limits (n,).
        norm: Bound on the norm of all joint speeds.
        tool: Function of q and q̇ (K, n): the speed of the tool divided by its limit (K,).
    """

    speed: Array
    acceleration: Array
    jerk: Array
    norm: float = np.inf
    tool: Callable[[Array, Array], Array] | None = None

    def speeds(self, q: Array, qd: Array) -> Array:
        """Return the largest ratio (K,) of a speed to its limit, at q (K, n) with q̇ (K, n)."""
        worst = np.maximum(
            np.abs(qd / self.speed).max(axis=1), np.linalg.norm(qd, axis=1) / self.norm
        )
        return np.asarray(worst if self.tool is None else np.maximum(worst, self.tool(q, qd)))


def time_law(spline: Spline, bounds: Bounds) -> TimeLaw:
    """Return the fastest motion along a path, from rest to rest."""
    moves = (spline.coefficients[1:] != 0).any(axis=(0, 1))
    if np.isfinite(bounds.jerk[moves]).any():
        return LineLaw.fastest(spline, bounds) or fastest_with_jerk(spline, bounds)
    accelerated = bool(np.isfinite(bounds.acceleration).any())
    grading = Grading(float(spline.s[0]), float(spline.s[-1]), 1 + accelerated)
    u, piece = cells(spline, grading)
    for _ in range(_ROUNDS):
        squared = _squared_speed(spline, grading, u, piece, bounds)
        law = GradedLaw(spline, grading, u, piece, squared, np.zeros(len(u)))
        excess = _excess(law, bounds)
        if excess.max() <= _FINE:
            break
        u, piece, _ = divided(u, piece, thirds(excess > _FINE))
    squared = law.squared / (excess.max() * (1 + _MARGIN))
    t = np.concatenate([[0.0], np.cumsum(durations(squared, np.diff(law.u)))])
    return replace(law, squared=squared, t=t)


def _squared_speed(
    spline: Spline, grading: Grading, u: Array, piece: NDArray[np.intp], bounds: Bounds
) -> Array:
    """Return coefficients (M, 3) of the largest u̇² that keeps the limits at the ends of cells.

    It is linear in each cell; the unknowns are its values at the ends.
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
    need = np.maximum(slow, np.abs(acceleration[..., 1]).max(axis=1))
    low = envelope(u, need.reshape(count, 2).max(axis=1), _STEEPEST)
    b = _core.squared_speed(
        first=cell.tolist(),
        kinds=[1] * len(cell),
        basis=basis.reshape(len(x), -1),
        weight=h / 2,
        speed=slow,
        acceleration=np.ascontiguousarray(acceleration.reshape(len(x), 2 * n)),
        jerk=None,
        starts=np.concatenate([low[:1], np.minimum(low[1:], low[:-1]), low[-1:]])[None],
        joints=n,
        degree=1,
        begin=1.0,
        end=_GAP,
    )
    return np.stack([b[:-1], np.diff(b) / np.diff(u), np.zeros(count)], -1)


def _excess(law: GradedLaw, bounds: Bounds) -> Array:
    """Return the factor by which to divide b in each cell (M,) so that all limits hold."""
    count = len(law.piece)
    cell = np.repeat(np.arange(count), len(_CHECKS))
    x = np.outer(np.diff(law.u), _CHECKS).ravel()
    q, first, second, _ = law.state(cell, x)

    def peak(ratio: Array) -> Array:
        each = ratio.reshape(count, len(_CHECKS), -1)
        # Between the checks, a parabola through three neighbors exceeds them by at most an eighth
        # of their second difference; twice that also covers a second difference that varies.
        bend = np.abs(np.diff(each, 2, axis=1)).max(axis=1) / 4
        return np.asarray((np.abs(each).max(axis=1) + bend).max(axis=1))

    slow, by_acceleration = peak(bounds.speeds(q, first)), peak(second / bounds.acceleration)
    return np.asarray(np.maximum(slow**2, by_acceleration))
