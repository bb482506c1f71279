"""Checks of all solutions of a pose."""

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
    """Return whether q (n,) is among the configurations `found` (s, n), up to full turns."""
    return bool((np.abs(difference(found, q)).max(axis=-1) <= within).any())


def check_solutions(robot: sp.Robot, T: Array, found: Solutions, within: float = 1e-9) -> None:
    """Check that solutions reach the target, keep the limits and differ from each other."""
    reached = robot.fk(found.q)
    np.testing.assert_allclose(reached, np.broadcast_to(T, reached.shape), atol=within)
    assert (found.position_error <= within).all()
    assert (found.rotation_error <= within).all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    for i, q in enumerate(found.q):
        assert not contains(found.q[:i], q, 1e-6)
