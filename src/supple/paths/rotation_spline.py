"""Smooth rotations through given ones: cubic splines of rotation vectors, one for each piece.

On piece i, the rotation is the given rotation i times exp(p(s)), with a cubic p(s) that is zero at
its beginning. The angular velocity and its derivative are continuous. For rotations about a single
axis, the result is a cubic spline of the angle.

References:
    Park & Kang 1997, with conditions at both ends instead of only at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from supple.kinematics.rotation import exp
from supple.kinematics.rotation_vectors import (
    bend,
    right_jacobian,
    right_jacobian_inverse,
)
from supple.motion.linearization import Array

# Returns the angular velocities (N, 3) for given values `bent` (N - 1, 3) of the nonlinear term at
# the ends of the pieces.
Solve: TypeAlias = Callable[[Array], Array]

_MAX_CORRECTIONS = 60  # maximum number of corrections of the angular velocities
_VELOCITY_TOLERANCE = 1e-13  # relative change at which the corrections end


def rotation_pieces(s: Array, steps: Array) -> Array:
    """Return the cubics p (4, N - 1, 3) of the pieces in s - s[i], lowest power first.

    Args:
        s: Parameters of the rotations (N,), increasing.
        steps: The rotation vectors (N - 1, 3) from each rotation to the next, in its axes.
    """
    h = np.diff(s)[:, None]
    slopes = _velocities(h, steps / h, steps)
    begin = slopes[:-1]
    end = _times(right_jacobian_inverse(steps), slopes[1:])
    chord = steps / h
    second = (3 * chord - 2 * begin - end) / h
    third = (begin + end - 2 * chord) / h**2
    return np.stack([np.zeros_like(steps), begin, second, third])


def _velocities(h: Array, chord: Array, steps: Array) -> Array:
    """Return the angular velocities (N, 3) in body axes for which the acceleration is continuous.

    The equations are linear but for a small term, the acceleration of a constant ṗ. The value of
    this term is taken from the previous round.
    """
    if len(steps) == 1:
        return np.repeat(chord, 2, axis=0)
    inverse = right_jacobian_inverse(steps)
    solve = (_three if len(steps) == 2 else _many)(h, chord, steps, inverse)
    made, bent = np.zeros((len(steps) + 1, 3)), np.zeros_like(steps)
    for _ in range(_MAX_CORRECTIONS):
        before = made
        made = solve(bent)
        bent = bend(steps, _times(inverse, made[1:]))
        if np.abs(made - before).max() <= _VELOCITY_TOLERANCE * np.abs(made).max():
            break
    return made


def _three(h: Array, chord: Array, steps: Array, inverse: Array) -> Solve:
    """Return the function that solves the equations of three rotations, by two parabolas."""
    last = right_jacobian(steps[1])

    def solve(bent: Array) -> Array:
        middle = (chord[0] / h[0] + chord[1] / h[1] - bent[0] / 2) / (1 / h[0] + 1 / h[1])
        first = 2 * chord[0] - inverse[0] @ middle
        return np.stack([first, middle, last @ (2 * chord[1] - middle)])

    return solve


def _many(h: Array, chord: Array, steps: Array, inverse: Array) -> Solve:
    """Return the function that solves the equations of four or more rotations.

    Row i is lower[i] ω[i-1] + diagonal[i] ω[i] + upper[i] ω[i+1] = right[i], with blocks (3, 3).
    """
    n, one = len(steps), np.eye(3)
    lower, diagonal, upper = np.zeros((3, n + 1, 3, 3))
    right = np.zeros((n + 1, 3))
    before, after = h[:-1, :, None], h[1:, :, None]
    lower[1:n] = 2 / before * right_jacobian(steps[:-1])
    diagonal[1:n] = 4 * (1 / before + 1 / after) * one
    upper[1:n] = 2 / after * inverse[1:]
    right[1:n] = 6 * (chord[:-1] / h[:-1] + chord[1:] / h[1:])
    # At both ends the third derivative is continuous for rotations about one axis ("not a knot").
    both = h[0] + h[1]
    diagonal[0], upper[0] = h[1] * exp(steps[0]).T, both * one
    right[0] = ((h[0] + 2 * both) * h[1] * chord[0] + h[0] ** 2 * chord[1]) / both
    both = h[-1] + h[-2]
    lower[n], diagonal[n] = both * one, h[-2] * exp(steps[-1])
    right[n] = (h[-1] ** 2 * chord[-2] + (2 * both + h[-1]) * h[-2] * chord[-1]) / both
    # Only the right-hand sides depend on `bent`: the blocks are eliminated once.
    for i in range(n + 1):
        if i:
            lower[i] = lower[i] @ diagonal[i - 1]
            diagonal[i] -= lower[i] @ upper[i - 1]
        diagonal[i] = np.linalg.inv(diagonal[i])
    upper = diagonal @ upper

    def solve(bent: Array) -> Array:
        made = right.copy()
        made[1:n] -= bent[:-1]
        for i in range(1, n + 1):
            made[i] -= lower[i] @ made[i - 1]
        made = _times(diagonal, made)
        for i in range(n - 1, -1, -1):
            made[i] -= upper[i] @ made[i + 1]
        return made

    return solve


def _times(M: Array, v: Array) -> Array:
    return np.asarray(np.einsum("kij,kj->ki", M, v))
