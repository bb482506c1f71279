"""Smooth paths through configurations: cubic splines with continuous second derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.motion.linearization import Array


@dataclass(frozen=True, eq=False)
class Spline:
    """A cubic spline q(s) through N points; its third derivative jumps at the points.

    Attributes:
        s: Parameters of the points (N,), increasing.
        coefficients: Polynomials of the N - 1 pieces (4, N - 1, n) in s - s[i], lowest power first.
    """

    s: Array
    coefficients: Array

    @staticmethod
    def through(s: Array, q: Array) -> Spline:
        """Return the spline through q (N, n) at s (N,): a line for N = 2, a parabola for 3."""
        s, q = np.ascontiguousarray(s), np.ascontiguousarray(q)
        h, rise = np.diff(s)[:, None], np.diff(q, axis=0)
        chords = rise / h
        if len(s) == 2:
            slopes = np.repeat(chords, 2, axis=0)
        elif len(s) == 3:
            bend = (chords[1] - chords[0]) / (h[0] + h[1])
            ends = chords[0] - h[0] * bend, chords[1] + h[1] * bend
            slopes = np.stack([ends[0], chords[0] + h[0] * bend, ends[1]])
        else:
            slopes = np.asarray(_core.spline_slopes(s, q, q.shape[1]), dtype=np.float64)
        second = (3 * chords - 2 * slopes[:-1] - slopes[1:]) / h
        third = (slopes[:-1] + slopes[1:] - 2 * chords) / h**2
        return Spline(s, np.stack([q[:-1], slopes[:-1], second, third]))

    def piece(self, s: Array) -> NDArray[np.intp]:
        """Return the index (K,) of the piece in which each parameter (K,) lies."""
        return np.clip(np.searchsorted(self.s, s, side="right") - 1, 0, len(self.s) - 2)

    def derivatives(self, s: Array, piece: NDArray[np.intp]) -> tuple[Array, Array, Array, Array]:
        """Return q, q', q'' and q''' (K, n) of given pieces at parameters (K,)."""
        x = (s - self.s[piece])[:, None]
        a, b, c, d = (each[piece] for each in self.coefficients)
        return (
            a + x * (b + x * (c + x * d)),
            b + x * (2 * c + x * 3 * d),
            2 * c + x * 6 * d,
            6 * d,
        )

    def __call__(self, s: Array) -> Array:
        """Return q (K, n) at parameters (K,)."""
        return self.derivatives(s, self.piece(s))[0]

    def extremes(self) -> tuple[Array, Array]:
        """Return the smallest and the largest value of each coordinate in each piece (N - 1, n)."""
        a, b, c, d = self.coefficients
        root = np.sqrt(np.maximum(c * c - 3 * b * d, 0))
        far = -(c + np.copysign(root, c))  # the roots of b + 2 c x + 3 d x²: far/(3 d), b/far
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.nan_to_num(np.stack([far / (3 * d), b / far]))
        h = np.diff(self.s)[:, None]
        x = np.clip(np.stack([0 * both[0], *both, both[0] + np.inf]), 0, h)
        values = a + x * (b + x * (c + x * d))
        return values.min(axis=0), values.max(axis=0)
