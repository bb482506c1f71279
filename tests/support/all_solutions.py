"""Checks of solvers that return all solutions of a pose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.ik.solutions import Solutions

Array = NDArray[np.float64]
TURN = 2 * np.pi


def difference(a: Array, b: Array) -> Array:
    """Return a - b for angles, wrapped to [-π, π)."""
    return np.asarray((a - b + np.pi) % TURN - np.pi)


def contains(found: Array, q: Array, within: float) -> bool:
    """Return whether q (n,) is, up to full turns, one of the configurations `found` (s, n)."""
    return bool((np.abs(difference(found, q)).max(axis=-1) <= within).any())


def contain(found: Solutions, q: Array, within: Array | float) -> NDArray[np.bool_]:
    """Return whether each q (B, n) is, up to full turns, one of the solutions of its target."""
    of = np.repeat(np.arange(len(q)), found.count)
    same = np.abs(difference(found.q, q[of])).max(axis=-1) <= np.broadcast_to(within, len(q))[of]
    return np.bincount(of, same, len(q)) > 0


def check_solutions(robot: sp.Robot, T: Array, found: Solutions, within: float = 1e-9) -> None:
    """Check that solutions reach their targets, keep the limits and differ from each other.

    T is one target (4, 4) or several (B, 4, 4), whose solutions are `found`.
    """
    of = np.repeat(np.arange(T.size // 16), np.ravel(found.count))
    np.testing.assert_allclose(robot.fk(found.q), T.reshape(-1, 4, 4)[of], atol=within)
    assert (found.position_error <= within).all()
    assert (found.rotation_error <= within).all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    for step in range(1, int(np.max(found.count, initial=0))):
        one, other = found.q[step:], found.q[:-step]
        near = np.abs(difference(one[:, 0], other[:, 0])) <= 1e-6
        near &= of[step:] == of[:-step]
        assert (np.abs(difference(one[near], other[near])).max(axis=-1) > 1e-6).all()
