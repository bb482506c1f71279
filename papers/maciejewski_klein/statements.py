"""The paper's statements about the PUMA's trajectories, as functions of the runs along one path.

The experiments apply these functions to one reconstruction of each path, `mk-paths` to hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from supple.papers.maciejewski_klein.courses import Runs
from supple.papers.maciejewski_klein.inverse import A2, FOREARM, INNER
from supple.papers.maciejewski_klein.methods import norm
from supple.papers.style import Array

# The nominal error as read from the printed plot, and the uncertainty of the reading.
NOMINAL, NEAR = 0.15, 0.05
PRESENT = 0.02  # smallest error that is called present throughout a path
ZERO = 0.01  # largest mean error that is called near zero
AVOIDABLE = 0.1  # largest fraction of the error along directions that are not singular


def nominal(runs: Runs) -> bool:
    """Return whether constant damping has an error of 15 %, and more near the singularity."""
    away, peak = runs.away("constant"), runs.errors("constant").max()
    return bool(abs(away - NOMINAL) <= NEAR and peak > 1.5 * away)


def throughout(runs: Runs) -> bool:
    """Return whether the error with constant damping is at least 10 % everywhere."""
    return bool(runs.errors("constant").min() >= NOMINAL - NEAR)


def near_zero(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether filtering brings the error near zero away from singularities."""
    return runs.away(method) < ZERO


def notched(runs: Runs) -> bool:
    """Return whether the error with constant damping dips between two peaks well above 15 %."""
    _, e = runs.notch("constant")
    return bool(min(e[0], e[2]) > 1.5 * runs.away("constant") and e[1] < min(e[0], e[2]))


def depth(runs: Runs) -> float:
    """Return the depth of the dip between the two peaks of the error with constant damping."""
    _, e = runs.notch("constant")
    return float(min(e[0], e[2]) - e[1])


def ends_at_wrist(runs: Runs) -> bool:
    """Return whether the error rises near the end of the path, where hand and forearm align."""
    constant = runs.errors("constant")
    half = len(constant) // 2
    aligned = np.abs(np.sin(runs.moved["constant"].q[:-1, 4]))
    last = aligned[half:].argmin() + half
    return bool(constant[-1] > 2 * constant[half:].min() and last >= 0.9 * len(constant))


def only_lost(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether at most a tenth of the error lies along directions that are not singular, and
    less than half of the fraction with constant damping.
    """
    share, constant = (
        runs.avoidable(name) / runs.errors(name).sum() for name in (method, "constant")
    )
    return bool(share < AVOIDABLE and share < constant / 2)


def better(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether filtering has a smaller integral error than variable damping."""
    return bool(runs.errors(method).sum() < runs.errors("variable").sum())


def present(runs: Runs) -> bool:
    """Return whether the error with constant damping is nowhere near zero."""
    return bool(runs.errors("constant").min() >= PRESENT)


def within_axes(runs: Runs) -> bool:
    """Return whether, for both methods that Fig. 8 compares, errors are within its axis up to 0.6,
    and joint speeds within its axis up to 0.01 rad per interval.
    """
    both = ("constant", "filtered_as_printed")
    fastest = max(float(norm(runs.moved[name].qd).max()) for name in both)
    return max(float(runs.errors(name).max()) for name in both) <= 0.6 and fastest <= 0.01


def wrist_share(Vt: Array) -> Array:
    """Return the share (..., 6) of the wrist, joints 4 and 6, in each singular vector of J; it is
    one at a singularity of the wrist alone.
    """
    return np.asarray(Vt[..., 3] ** 2 + Vt[..., 5] ** 2)


@dataclass(frozen=True)
class Switch:
    """The rotation of the singular direction from the shoulder's to the wrist's.

    Attributes:
        shoulder: Interval in which the wrist is nearest to the shoulder's axis.
        at: Interval after `shoulder` in which u6 turns the most.
        turn: Rotation of u6 from 20 intervals before `at` to 20 after it [deg].
        shares: Shares of the wrist in v6 at the shoulder and at the end of the path.
    """

    shoulder: int
    at: int
    turn: float
    shares: tuple[float, float]


def switch(runs: Runs, method: str = "filtered_as_printed") -> Switch:
    """Return where and how far u6 turns after the shoulder singularity."""
    U, _, Vt = runs.spectrum(method)
    q, u, share = runs.moved[method].q[:-1], U[:, :, -1], wrist_share(Vt)[:, -1]
    eighth = len(q) // 8
    ahead = A2 * np.cos(q[:, 1]) + FOREARM * np.cos(q[:, 1] + q[:, 2] - INNER)
    shoulder = eighth + int(np.abs(ahead[eighth:-eighth]).argmin())
    cosine = np.abs((u[1:] * u[:-1]).sum(axis=1))[shoulder:]
    at = shoulder + int(cosine.argmin())
    a, b = u[max(at - 20, 0)], u[min(at + 20, len(u) - 1)]
    turn = float(np.degrees(np.arccos(min(1.0, abs(float(a @ b))))))
    return Switch(shoulder, at, turn, (float(share[shoulder]), float(share[-1])))


def switches(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether u6 turns rapidly from the shoulder's singular direction to the wrist's."""
    found = switch(runs, method)
    return found.shares[0] < 0.5 < found.shares[1] and found.turn > 45


def twins_above(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether the two smallest singular values are above 1/θ̇max, so that λ = 0, when u6
    turns from the shoulder's singular direction to the wrist's.
    """
    at = switch(runs, method).at
    above = bool(runs.singular_values(method)[at, -1] >= 1 / runs.max_gain)
    return switches(runs, method) and above


def dips_in_the_middle(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether the three smallest singular values have minima near the middle of the path, of
    which at least one is not zero.
    """
    sigma = runs.singular_values(method)
    closest = sigma[:, 3:].sum(axis=1).argmin()
    return bool(abs(closest / len(sigma) - 0.5) < 0.1 and sigma[:, 4].min() > 0.01)


def kinds(runs: Runs, method: str = "filtered_as_printed") -> tuple[int, tuple[float, ...]]:
    """Return the interval closest to the triple singularity, and the shares of the 100 intervals
    about it in which v6 belongs to the wrist (joints 4 and 6), v5 to the elbow (joints 2, 3 and 5)
    and v4 to the shoulder (joint 1): in which these joints make up more than half of the vector.
    """
    _, sigma, Vt = runs.spectrum(method)
    closest = int(sigma[:, 3:].sum(axis=1).argmin())
    near = Vt[max(0, closest - 50) : closest + 50] ** 2
    of_joints = ((5, (3, 5)), (4, (1, 2, 4)), (3, (0,)))
    shares = (float((near[:, k, list(j)].sum(axis=1) > 0.5).mean()) for k, j in of_joints)
    return closest, tuple(shares)


def in_order(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether σ6 belongs to the wrist, σ5 to the elbow and σ4 to the shoulder in most of the
    intervals near the triple singularity.
    """
    return min(kinds(runs, method)[1]) > 0.5


def fourth_is_small(runs: Runs, method: str = "filtered_as_printed") -> bool:
    """Return whether σ4 is always less than half of σ2."""
    sigma = runs.singular_values(method)
    return bool(sigma[:, 3].max() < sigma[:, 1].min() / 2)
