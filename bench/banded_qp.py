"""Convex quadratic programs for a sequence of points whose values and differences are bounded.

    minimize  ½ yᵀH y + gᵀy      lower <= y_k <= upper,  |Δy_k| <= first,  |Δ²y_k| <= second

y (N, n) is a sequence of N points with n coordinates, preceded by points at zero. H is positive
semidefinite and couples points that are at most three apart. The solver is a primal-dual
interior-point method (Mehrotra 1992), whose matrix is banded, so that an iteration takes time
proportional to N n³.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded

Array = NDArray[np.float64]
ITERATIONS, TOLERANCE = 60, 1e-8
PROXIMAL = 1e-5  # weight of the distance from the last iterate; it bounds condition numbers
SHORTENED = 0.995  # fraction of the largest step for which slacks and multipliers stay positive


@dataclass(frozen=True)
class Bounds:
    """Bounds of the points, lower and upper (N, n), and of their differences (n,).

    All bounds together are A y >= b, with two rows of opposite signs for each bounded quantity.
    Differences are divided by their bounds.
    """

    lower: Array
    upper: Array
    first: Array
    second: Array

    def times(self, y: Array) -> Array:
        """Return A y (2, 3, N, n)."""
        rows = np.stack([y, differences(y) / self.first, differences(y, 2) / self.second])
        return np.stack([rows, -rows])

    def transposed(self, x: Array) -> Array:
        """Return Aᵀx (N, n)."""
        rows = x[0] - x[1]
        once = differences(rows[1, ::-1] / self.first)[::-1]
        twice = differences(rows[2, ::-1] / self.second, 2)[::-1]
        return np.asarray(rows[0] + once + twice)

    @property
    def least(self) -> Array:
        """The bounds b (2, 3, N, n)."""
        ends = np.full((2, 3, *self.lower.shape), -1.0)
        ends[0, 0], ends[1, 0] = self.lower, -self.upper
        return ends

    def violation(self, y: Array) -> float:
        """Return the largest violation of a bound, relative to the bound for differences."""
        return max(0.0, float((self.least - self.times(y)).max()))


def differences(y: Array, order: int = 1) -> Array:
    """Return the differences (N, n) of a sequence that is preceded by zeros."""
    return np.diff(y, n=order, axis=0, prepend=np.zeros((order, y.shape[1])))


def banded(blocks: Array, weights: Array, bounds: Bounds) -> Array:
    """Return H + AᵀWA as a lower band. W is diagonal, with equal weights (3, N, n) for both signs.

    `blocks` (4, N, n, n) is H: blocks[o, k] is the block in row k + o and column k.
    """
    _, N, n, _ = blocks.shape
    first, second = weights[1] / bounds.first**2, weights[2] / bounds.second**2
    later = [np.vstack([each, np.zeros((2, n))]) for each in (first, second)]
    diagonals = (  # products of the coefficients of Δ (1, -1) and Δ² (1, -2, 1)
        weights[0] + first + later[0][1 : N + 1] + second + 4 * later[1][1 : N + 1] + later[1][2:],
        -later[0][1 : N + 1] - 2 * later[1][1 : N + 1] - 2 * later[1][2:],
        later[1][2:],
    )
    band = np.zeros((4 * n, N, n))  # band[d, k, c] is at row k n + c + d, column k n + c
    for apart in range(4):
        for c in range(n):
            from_row = max(0, c - apart * n)
            band[apart * n + from_row - c : (apart + 1) * n - c, :, c] += blocks[
                apart, :, from_row:, c
            ].T
    for apart, diagonal in enumerate(diagonals):
        band[apart * n] += diagonal
    return band.reshape(4 * n, N * n)


def minimizer(blocks: Array, g: Array, bounds: Bounds, start: Array) -> Array:
    """Return the minimizer (N, n).

    Args:
        blocks: Blocks of H, (4, N, n, n): blocks[o, k] is at row k + o and column k.
        g: Linear part of the cost (N, n).
        bounds: The bounds.
        start: A sequence (N, n) near the minimizer; it may violate the bounds.
    """
    scale = 1 / max(float(np.abs(g).max()), 1e-12)
    blocks, g, y, least = scale * blocks, scale * g, start, bounds.least
    slack = np.maximum(bounds.times(y) - least, 0.05)
    dual = 0.1 / slack
    for _ in range(ITERATIONS):
        off = bounds.times(y) - least - slack
        gradient = _product(blocks, y) + g - bounds.transposed(dual)
        gap = float((slack * dual).sum())
        if max(gap, float(np.abs(gradient).max()), float(np.abs(off).max())) < TOLERANCE:
            break
        soft = slack + PROXIMAL * dual
        factor = _factor(banded(blocks, (dual / soft).sum(axis=0), bounds))
        newton = _Newton(bounds, slack, dual, soft, off, gradient, factor)
        _, ds, dz = newton.step(np.zeros_like(slack))
        ahead = (slack + _length(slack, ds) * ds) * (dual + _length(dual, dz) * dz)
        center = (float(ahead.sum()) / gap) ** 3 * gap / slack.size
        step, ds, dz = newton.step(center - ds * dz)
        primal, other = SHORTENED * _length(slack, ds), SHORTENED * _length(dual, dz)
        y, slack, dual = y + primal * step, slack + primal * ds, dual + other * dz
    return y


@dataclass(frozen=True)
class _Newton:
    """Newton's method at an iterate: slacks s, multipliers z, residuals, Cholesky factor."""

    bounds: Bounds
    slack: Array
    dual: Array
    soft: Array
    off: Array
    gradient: Array
    factor: Array

    def step(self, products: Array) -> tuple[Array, Array, Array]:
        """Return the changes of y, s and z toward s z = products."""
        s, z = self.slack, self.dual
        pull = (products - s * z - z * self.off) / self.soft
        right = self.bounds.transposed(pull) - self.gradient
        step = cho_solve_banded((self.factor, True), right.ravel()).reshape(right.shape)
        moved = self.bounds.times(step)
        dz = pull - z * moved / self.soft
        return step, moved + self.off + PROXIMAL * dz, dz


def _product(blocks: Array, y: Array) -> Array:
    """Return H y (N, n)."""
    made = np.einsum("kij,kj->ki", blocks[0], y)
    for o in range(1, 4):
        made[o:] += np.einsum("kij,kj->ki", blocks[o, :-o], y[:-o])
        made[:-o] += np.einsum("kji,kj->ki", blocks[o, :-o], y[o:])
    return np.asarray(made)


def _factor(matrix: Array) -> Array:
    """Return the Cholesky factor of a banded matrix plus a small multiple of the identity."""
    ridge = PROXIMAL
    while True:
        try:
            shifted = np.vstack([matrix[:1] + ridge, matrix[1:]])
            return np.asarray(cholesky_banded(shifted, lower=True, check_finite=False))
        except np.linalg.LinAlgError:  # can occur by rounding in a long sequence of short steps
            ridge *= 10


def _length(values: Array, steps: Array) -> float:
    """Return the largest length, at most 1, of a step that keeps all values nonnegative."""
    falls = steps < 0
    return min(1.0, float((-values[falls] / steps[falls]).min(initial=1.0)))
