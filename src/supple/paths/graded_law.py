"""A motion along a path, with a parameter u that resolves its start and its stop finely.

The path q(s) is traversed by s = σ(u), where σ' vanishes at both ends like u (acceleration limits)
or u² (jerk limits). A motion from rest to rest then has a finite, nonzero u̇ everywhere, and its
square b(u) is a spline.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array
from supple.paths.spline import Spline

RAMP = 0.25  # fraction of u in which the motion starts from rest, and in which it stops
_DESCENT = 12  # steps of Newton's method that invert s(u) to rounding errors


@dataclass(frozen=True)
class Grading:
    """The map s = σ(u) of [0, 1] onto [first, last]; near an end, σ' ~ (distance)^(order - 1)."""

    first: float
    last: float
    order: int

    def __call__(self, u: Array) -> tuple[Array, Array, Array, Array]:
        """Return σ, σ', σ'' and σ''' at u."""
        if self.order == 1:
            one, zero = np.full_like(u, self.last - self.first), np.zeros_like(u)
            return self.first + one * u, one, zero, zero
        begin, end = u < RAMP, u > 1 - RAMP
        x = np.where(begin, u, np.where(end, 1 - u, RAMP)) / RAMP
        area, g, g1, g2 = _ramp(x, self.order)
        whole = _ramp(np.ones(1), self.order)[0][0]
        k = (self.last - self.first) / (2 * RAMP * whole + 1 - 2 * RAMP)
        far = self.last - k * RAMP * area
        s = np.where(end, far, self.first + k * (RAMP * area + np.where(begin, 0, u - RAMP)))
        side, ramp = np.where(end, -1, 1), begin | end
        return (
            s,
            k * g,
            np.where(ramp, k * side * g1 / RAMP, 0),
            np.where(ramp, k * g2, 0) / RAMP**2,
        )

    def inverse(self, s: Array) -> Array:
        """Return u for each s."""
        if self.order == 1:
            return np.asarray((s - self.first) / (self.last - self.first))
        whole = float(_ramp(np.ones(1), self.order)[0][0])
        share = RAMP * whole / (2 * RAMP * whole + 1 - 2 * RAMP)  # of s in a ramp
        y = (s - self.first) / (self.last - self.first)
        near = (
            np.clip(np.minimum(y, 1 - y) / share, 0, 1) * whole
        )  # area of the ramp that is nearer
        # The area is convex and at least `whole` x^order: Newton's method descends to the root.
        x = (near / whole) ** (1 / self.order)
        for _ in range(_DESCENT):
            area, slope, *_ = _ramp(x, self.order)
            x = np.maximum(x - (area - near) / np.maximum(slope, 1e-300), 0)
        flat = RAMP + (y - share) / (1 - 2 * share) * (1 - 2 * RAMP)
        return np.where(y < share, RAMP * x, np.where(y > 1 - share, 1 - RAMP * x, flat))


def _ramp(x: Array, order: int) -> tuple[Array, Array, Array, Array]:
    """Return ∫g, g, g' and g'' at x, where g(0) = 0, g(1) = 1 and g'(1) = 0."""
    if order == 2:
        return x * x * (1 - x / 3), x * (2 - x), 2 - 2 * x, np.full_like(x, -2.0)
    return (
        x**3 * (2 - 2 * x + 0.6 * x * x),
        x * x * (6 - 8 * x + 3 * x * x),
        12 * x * (1 - x) ** 2,
        12 * (1 - x) * (1 - 3 * x),
    )


@dataclass(frozen=True, eq=False)
class GradedLaw:
    """The motion of a path parameter u from rest to rest; in each cell, u̇² is quadratic in u.

    Attributes:
        spline: The path q(s).
        grading: The map from u to s.
        u: Ends of the cells (M + 1,), from 0 to 1.
        piece: Piece of the spline in which each cell lies (M,).
        squared: Coefficients of u̇² in each cell (M, 3), in powers of u - u[i], lowest first.
        t: Times at the ends of the cells (M + 1,) [s].
    """

    spline: Spline
    grading: Grading
    u: Array
    piece: NDArray[np.intp]
    squared: Array
    t: Array

    @property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return float(self.t[-1])

    def at(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """Return q, q̇, q̈ and the third derivative (K, n) at times (K,)."""
        cell = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.piece) - 1)
        x = travelled(self.squared[cell], t - self.t[cell])
        x = np.clip(x, 0, self.u[cell + 1] - self.u[cell])
        return self.state(cell, x)

    def state(self, cell: NDArray[np.intp], x: Array) -> tuple[Array, Array, Array, Array]:
        """Return q and its first three time derivatives at u[cell] + x."""
        q, q1, q2, q3 = in_u(self.spline, self.grading, self.u[cell] + x, self.piece[cell])
        b, b1, b2 = (each[:, None] for each in values(self.squared[cell], x))
        rate = np.sqrt(np.maximum(b, 0))
        return (
            q,
            q1 * rate,
            q2 * b + q1 * b1 / 2,
            (q3 * b + 1.5 * q2 * b1 + 0.5 * q1 * b2) * rate,
        )


def in_u(
    spline: Spline, grading: Grading, u: Array, piece: NDArray[np.intp]
) -> tuple[Array, Array, Array, Array]:
    """Return q (K, n) and its first three derivatives with respect to u, each (K, n)."""
    s, *rates = grading(u)
    s1, s2, s3 = (each[:, None] for each in rates)
    q, q1, q2, q3 = spline.derivatives(s, piece)
    return (
        q,
        q1 * s1,
        q2 * s1**2 + q1 * s2,
        q3 * s1**3 + 3 * q2 * s1 * s2 + q1 * s3,
    )


def values(squared: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return b = u̇² and its derivatives b' and b'' in each cell, at distance x from its start."""
    b0, b1, b2 = (squared[..., k] for k in range(3))
    return b0 + x * (b1 + x * b2), b1 + 2 * x * b2, 2 * b2


def travelled(squared: Array, t: Array) -> Array:
    """Return the distance x traveled in each cell after times t: ẍ = b'/2 is linear in x."""
    b0, b1, b2 = squared.T
    z = b2 * t * t
    root = np.sqrt(np.abs(z))
    small = np.abs(z) < 1e-2
    safe = np.where(small, 1.0, root)
    growing = z > 0
    capped = np.minimum(safe, 700.0)
    sine = np.where(growing, np.sinh(capped), np.sin(safe)) / safe
    cosine = np.where(growing, np.cosh(capped) - 1, 1 - np.cos(safe)) / safe**2
    # sinh(√z)/√z and (cosh(√z) - 1)/z; five terms are exact to rounding if |z| < 1e-2
    sine = np.where(small, 1 + z / 6 * (1 + z / 20 * (1 + z / 42 * (1 + z / 72))), sine)
    cosine = np.where(small, 0.5 + z / 24 * (1 + z / 30 * (1 + z / 56 * (1 + z / 90))), cosine)
    return np.asarray(np.sqrt(np.maximum(b0, 0)) * t * sine + b1 / 2 * t * t * cosine)


def durations(squared: Array, h: Array) -> Array:
    """Return the durations t (M,) of cells of lengths h.

    h = (√b(0) + √b(h)) tanh(√b₂ t/2)/√b₂       with tan for negative b₂
    """
    y = h / (np.sqrt(squared[:, 0]) + np.sqrt(values(squared, h)[0]))
    w = squared[:, 2] * y * y
    small = np.abs(w) < 1e-3
    root = np.sqrt(np.where(small, 1.0, np.abs(w)))
    ratio = np.where(w > 0, np.arctanh(np.where(small | (w < 0), 0, root)), np.arctan(root)) / root
    series = 1 + w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9 + w / 11))))
    return np.asarray(2 * y * np.where(small, series, ratio))
