"""Time-optimal motion along a path, under limits of speed, acceleration and jerk.

The square of u̇, where u is a parameter of the path (`graded_law.py`), is a spline b(u) whose
coefficients are optimized (`src/core/drivers/timing.hpp`): linear in each cell without jerk limits
(`acceleration_timing.py`), quadratic with them (`jerk_timing.py`). A straight line, which may turn
back, has a closed form (`line_law.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from supple.motion.linearization import Array
from supple.paths.acceleration_timing import fastest_without_jerk
from supple.paths.graded_law import GradedLaw
from supple.paths.jerk_timing import fastest_with_jerk
from supple.paths.line_law import LineLaw
from supple.paths.spline import Spline

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
    line = LineLaw.fastest(spline, bounds)
    if line is not None:
        return line
    moves = (spline.coefficients[1:] != 0).any(axis=(0, 1))
    if np.isfinite(bounds.jerk[moves]).any():
        return fastest_with_jerk(spline, bounds)
    return fastest_without_jerk(spline, bounds)
