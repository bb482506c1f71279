"""Counts of the Newton iterations of the optimal damping, started at λ = 0 as in the paper, and the
distance of the resulting speed from its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from supple.papers.style import Array

import supple

TOLERANCE = 1e-12  # relative difference of ‖q̇‖ from Δ at which the iteration ends
TOLERANCES = tuple(10.0**-k for k in range(2, 13))  # tolerances for which the counts are compared
STATED = (
    f"Iterations end within {TOLERANCE:.0e} of Δ, in all experiments; the paper gives no "
    "tolerance. The curves over `tolerance` show how the counts depend on it."
)

Step: TypeAlias = Callable[[supple.Linearization], NDArray[np.float64]]


def iterations(
    linearizations: Iterable[supple.Linearization], max_speed: float, tolerance: float = TOLERANCE
) -> dict[str, float]:
    """Return the mean number of iterations of each form of Newton's method, by name.

    `newton` is eq. (17) and `reciprocal` is (18). Both start at zero and end when ‖q̇‖ is within a
    tolerance of the bound; names with `_warm` are the same iterations, started at the λ of the
    previous case. `supple` is (18) as in this library, started at a lower bound on λ and ended at
    rounding accuracy. The mean is over the cases that need damping; it is zero without such cases.
    """
    needing = [
        each
        for each in linearizations
        if np.linalg.norm(supple.steps.Pseudoinverse()(each)) > max_speed * (1 + tolerance)
    ]
    newton, reciprocal = (supple.damping.Optimal(max_speed, newton=form) for form in (True, False))

    def printed(rule: supple.damping.Optimal) -> float:
        return _mean(rule.solve(each, tolerance=tolerance, from_zero=True)[1] for each in needing)

    def warm(rule: supple.damping.Optimal) -> float:
        counts, last = [], None
        for each in needing:
            last, count = rule.solve(each, last, tolerance=tolerance, from_zero=True)
            counts.append(count)
        return _mean(counts)

    return {
        "newton": printed(newton),
        "reciprocal": printed(reciprocal),
        "newton_warm": warm(newton),
        "reciprocal_warm": warm(reciprocal),
        "supple": _mean(reciprocal.solve(each)[1] for each in needing),
    }


def under(speeds: Array, max_speed: float) -> str:
    """Return the largest speed as text relative to the bound, such as "Δ - 1e-15 rad/s"."""
    off = float(speeds.max()) - max_speed
    return f"Δ {'-' if off < 0 else '+'} {abs(off):.0e} rad/s"


def _mean(counts: Iterable[int]) -> float:
    every = list(counts)
    return float(np.mean(every)) if every else 0.0


def by_tolerance(
    linearizations: Sequence[supple.Linearization], max_speed: float
) -> dict[str, Array]:
    """Return the results of `iterations` for all `TOLERANCES`, as columns of a table."""
    found = [iterations(linearizations, max_speed, tolerance) for tolerance in TOLERANCES]
    columns = {f"{form}.iterations": np.array([each[form] for each in found]) for form in found[0]}
    return {"tolerance": np.array(TOLERANCES), **columns}
