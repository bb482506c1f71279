"""Smooth paths through configurations: cubic splines with continuous second derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.kinematics.configuration import coordinate_difference
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
        everywhere = np.full(q.shape[1], np.inf)
        return Spline.inside(s, q, -everywhere, everywhere)

    @staticmethod
    def inside(s: Array, q: Array, lower: Array, upper: Array) -> Spline:
        """Return a spline through q (N, n) at s (N,) that stays between limits (n,) everywhere.

        It is `through` wherever that stays inside. Elsewhere it has more pieces, and second
        derivatives are continuous too (src/core/drivers/spline.hpp).

        Args:
            s: Parameters (N,), increasing.
            q: Points (N, n), between the limits.
            lower: Lower limits (n,).
            upper: Upper limits (n,).
        """
        s, q = np.ascontiguousarray(s), np.ascontiguousarray(q)
        h, rise = np.diff(s)[:, None], coordinate_difference(q[1:], q[:-1])
        if len(s) == 2:
            slopes = np.repeat(rise / h, 2, axis=0)
        elif len(s) == 3:
            chords = rise / h
            bend = (chords[1] - chords[0]) / (h[0] + h[1])
            ends = chords[0] - h[0] * bend, chords[1] + h[1] * bend
            slopes = np.stack([ends[0], chords[0] + h[0] * bend, ends[1]])
        else:
            slopes = np.asarray(_core.spline_slopes(s, q, q.shape[1]), dtype=np.float64)
        return Spline(*_core.spline_inside(s, q, slopes, lower, upper))

    def piece(self, s: Array) -> NDArray[np.intp]:
        """Return the index (K,) of the piece in which each parameter (K,) lies."""
        return np.clip(np.searchsorted(self.s, s, side="right") - 1, 0, len(self.s) - 2)

    def between(self, begin: float, end: float) -> Spline:
        """Return the part of the spline between two of its points."""
        i, j = np.searchsorted(self.s, [begin, end])
        return Spline(self.s[i : j + 1], self.coefficients[:, i:j])

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
        piece = self.piece(s)
        x = (s - self.s[piece])[:, None]
        a, b, c, d = (each[piece] for each in self.coefficients)
        return np.asarray(a + x * (b + x * (c + x * d)))

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
