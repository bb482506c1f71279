"""The number of Newton iterations of the optimal damping, counted as in the paper from λ = 0, and
how close it comes to its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from supple.papers.style import Array

import supple

Step: TypeAlias = Callable[[supple.Linearization], NDArray[np.float64]]


def iterations(
    linearizations: Iterable[supple.Linearization], max_speed: float, tolerance: float
) -> dict[str, float]:
    """Return the mean number of iterations, over cases that need damping, for each form.

    `newton` is (17) and `reciprocal` is (18), cold: from zero, until ‖q̇‖ is within the tolerance of
    the bound. `supple` is (18) as in this library, from a lower bound, to the last digit.
    """
    needing = [
        each
        for each in linearizations
        if np.linalg.norm(supple.steps.Pseudoinverse()(each)) > max_speed * (1 + tolerance)
    ]
    newton, reciprocal = (supple.damping.Optimal(max_speed, newton=form) for form in (True, False))

    def printed(rule: supple.damping.Optimal) -> float:
        return _mean(rule.solve(each, tolerance=tolerance, from_zero=True)[1] for each in needing)

    return {
        "newton": printed(newton),
        "reciprocal": printed(reciprocal),
        "supple": _mean(reciprocal.solve(each)[1] for each in needing),
    }


def under(speeds: Array, max_speed: float) -> str:
    """Return the largest speed as text that shows on which side of the bound it is."""
    off = float(speeds.max()) - max_speed
    return f"Δ {'-' if off < 0 else '+'} {abs(off):.0e} rad/s"


def _mean(counts: Iterable[int]) -> float:
    return float(np.mean(list(counts)))
