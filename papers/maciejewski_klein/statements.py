"""The paper's statements about the PUMA's trajectories, as functions of the runs along one path.

The experiments apply them to one reconstruction of each path, and `mk-paths` to hundreds of paths.
"""

from __future__ import annotations

import numpy as np
from supple.papers.maciejewski_klein.courses import Runs
from supple.papers.maciejewski_klein.methods import norm

NOMINAL, NEAR = 0.15, 0.05  # error read off a plot, and the tolerance on it
ZERO = 0.01  # largest mean error that counts as near zero
AVOIDABLE = 0.1  # largest fraction of the error along directions that are not singular


def nominal(runs: Runs) -> bool:
    """Whether constant damping has a nominal error of 15 %, and more near the singularity."""
    away, peak = runs.away("constant"), runs.errors("constant").max()
    return bool(abs(away - NOMINAL) <= NEAR and peak > 1.5 * away)


def throughout(runs: Runs) -> bool:
    """Whether the error with constant damping is at least 10 % everywhere (nominal: 15 %)."""
    return bool(runs.errors("constant").min() >= NOMINAL - NEAR)


def near_zero(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether filtering brings the error near zero away from singularities."""
    return runs.away(method) < ZERO


def notched(runs: Runs) -> bool:
    """Whether the error with constant damping dips between two peaks well above 15 %."""
    _, e = runs.notch("constant")
    return bool(min(e[0], e[2]) > 1.5 * runs.away("constant") and e[1] < min(e[0], e[2]))


def depth(runs: Runs) -> float:
    """Return the depth of the dip between the two peaks of the error with constant damping."""
    _, e = runs.notch("constant")
    return float(min(e[0], e[2]) - e[1])


def ends_at_wrist(runs: Runs) -> bool:
    """Whether the error rises near the end of the path, where hand and forearm are aligned best."""
    constant = runs.errors("constant")
    half = len(constant) // 2
    aligned = np.abs(np.sin(runs.moved["constant"].q[:-1, 4]))
    last = aligned[half:].argmin() + half
    return bool(constant[-1] > 2 * constant[half:].min() and last >= 0.9 * len(constant))


def only_lost(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether little of the error lies along directions that are not singular: at most a tenth, and
    less than half of the fraction with constant damping.
    """
    share, constant = (
        runs.avoidable(name) / runs.errors(name).sum() for name in (method, "constant")
    )
    return bool(share < AVOIDABLE and share < constant / 2)


def better(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether filtering has a smaller integral error than variable damping: the main claim."""
    return bool(runs.errors(method).sum() < runs.errors("variable").sum())


def switch(runs: Runs, method: str = "filtered_as_printed") -> tuple[int, float]:
    """Return the interval after the shoulder singularity in which u6 turns the most, and the angle
    [deg]. The shoulder singularity is where σ6 is smallest in the middle half of the path.
    """
    U, sigma = runs.spectrum(method)
    u, quarter = U[:, :, -1], len(sigma) // 4
    shoulder = quarter + int(sigma[quarter:-quarter, -1].argmin())
    cosine = np.minimum(np.abs((u[1:] * u[:-1]).sum(axis=1)), 1)[shoulder:]
    return shoulder + int(cosine.argmin()), float(np.degrees(np.arccos(cosine.min())))


def twins_above(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether the two smallest singular values are above 1/θ̇max, so that λ = 0, when u6 turns from
    the shoulder's singular direction to the wrist's.
    """
    at, _ = switch(runs, method)
    return bool(runs.singular_values(method)[at, -1] >= 1 / runs.max_gain)


def dips_in_the_middle(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether the three smallest singular values have minima near the middle of the path that are
    not all zero.
    """
    sigma = runs.singular_values(method)
    closest = sigma[:, 3:].sum(axis=1).argmin()
    return bool(abs(closest / len(sigma) - 0.5) < 0.1 and sigma[:, 4].min() > 0.01)


def rotations(runs: Runs, method: str = "filtered_as_printed") -> tuple[int, np.ndarray]:
    """Return the interval closest to the triple singularity, and the rotation norms of u4 to u6."""
    U, sigma = runs.spectrum(method)
    closest = int(sigma[:, 3:].sum(axis=1).argmin())
    return closest, norm(U[closest].T[3:, 3:])


def wrist_is_least(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether u6 has a larger rotation part than u4 and u5, as at a singularity of the wrist."""
    _, turning = rotations(runs, method)
    return bool(turning[2] > max(turning[:2]))


def fourth_is_small(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Whether σ4 is always less than half of σ2."""
    sigma = runs.singular_values(method)
    return bool(sigma[:, 3].max() < sigma[:, 1].min() / 2)
