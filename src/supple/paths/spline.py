"""Smooth paths through configurations: cubic splines with continuous second derivatives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.kinematics.configuration import (
    Layout,
    coordinate_difference,
    difference,
    in_balls,
    integrate,
    quaternions,
    to_kernel,
)
from supple.kinematics.rotation_vectors import body_velocity
from supple.motion.linearization import Array
from supple.paths.rotation_spline import rotation_pieces


@dataclass(frozen=True, eq=False)
class Spline:
    """A cubic spline q(s) through N points; its third derivative jumps at the points.

    The orientation of a ball joint is the anchor of its piece times the rotation by the rotation
    vector that the polynomials describe (`rotation_spline.py`).

    Attributes:
        s: Parameters of the points (N,), increasing.
        coefficients: Polynomials of the N - 1 pieces (4, N - 1, n) in s - s[i], lowest power first.
        layout: The robot, or its coordinates; None if no joint has a quaternion.
        anchors: The anchors (N - 1, nq), zero except for quaternions; None without quaternions.
    """

    s: Array
    coefficients: Array
    layout: Layout = None
    anchors: Array | None = None

    @staticmethod
    def through(s: Array, q: Array, layout: Layout = None) -> Spline:
        """Return the spline through q (N, nq) at s (N,): a line for N = 2, a parabola for 3."""
        everywhere = np.full(q.shape[1] if layout is None else layout.nv, np.inf)
        return Spline.inside(s, q, -everywhere, everywhere, layout)

    @staticmethod
    def inside(s: Array, q: Array, lower: Array, upper: Array, layout: Layout = None) -> Spline:
        """Return a spline through q (N, nq) at s (N,) that stays between limits (n,) everywhere.

        The result equals the spline of `through` wherever the latter stays inside. Elsewhere the
        result has more pieces; its second derivatives are continuous there too
        (src/core/drivers/spline.hpp).

        Args:
            s: Parameters (N,), increasing.
            q: Points (N, nq), between the limits.
            lower: Lower limits (n,).
            upper: Upper limits (n,).
            layout: The robot, or its coordinates, if a joint has a quaternion.
        """
        if layout is not None and layout.nq != layout.nv:
            return _with_rotations(s, q, lower, upper, layout)
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
        anchors = None if self.anchors is None else self.anchors[i:j]
        return replace(
            self, s=self.s[i : j + 1], coefficients=self.coefficients[:, i:j], anchors=anchors
        )

    def derivatives(self, s: Array, piece: NDArray[np.intp]) -> tuple[Array, Array, Array, Array]:
        """Return q (K, nq), the velocities q' (K, n) and their derivatives q'' and q''' (K, n).

        Args:
            s: Parameters (K,).
            piece: The pieces in which they are (K,).
        """
        x = (s - self.s[piece])[:, None]
        a, b, c, d = (each[piece] for each in self.coefficients)
        made = (
            a + x * (b + x * (c + x * d)),
            b + x * (2 * c + x * 3 * d),
            2 * c + x * 6 * d,
            6 * d,
        )
        if self.layout is None or self.anchors is None:
            return made
        for ball in self.layout._balls:
            own = slice(ball, ball + 3)
            turns = body_velocity(*(each[:, own] for each in made))
            for each, turned in zip(made[1:], turns, strict=True):
                each[:, own] = turned
        return integrate(self.layout, self.anchors[piece], made[0]), *made[1:]

    def __call__(self, s: Array) -> Array:
        """Return q (K, nq) at parameters (K,)."""
        piece = self.piece(s)
        x = (s - self.s[piece])[:, None]
        a, b, c, d = (each[piece] for each in self.coefficients)
        made = np.asarray(a + x * (b + x * (c + x * d)))
        if self.anchors is None:
            return made
        return np.asarray(integrate(self.layout, self.anchors[piece], made))

    def extremes(self) -> tuple[Array, Array]:
        """Return the smallest and the largest value of each coordinate in each piece (N - 1, n).

        For ball joints, the coordinates are those of the rotation vectors in the piece.
        """
        a, b, c, d = self.coefficients
        root = np.sqrt(np.maximum(c * c - 3 * b * d, 0))
        far = -(c + np.copysign(root, c))  # the roots of b + 2 c x + 3 d x²: far/(3 d), b/far
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.nan_to_num(np.stack([far / (3 * d), b / far]))
        h = np.diff(self.s)[:, None]
        x = np.clip(np.stack([0 * both[0], *both, both[0] + np.inf]), 0, h)
        values = a + x * (b + x * (c + x * d))
        return values.min(axis=0), values.max(axis=0)


def _with_rotations(s: Array, q: Array, lower: Array, upper: Array, layout: Layout) -> Spline:
    """Return `Spline.inside` for a robot with quaternions.

    The limits of joints without quaternions may require more knots; the rotations get the same
    knots.
    """
    assert layout is not None
    turns, steps = in_balls(layout), difference(layout, q[1:], q[:-1])
    if turns.all():
        knots, other = np.asarray(s, np.float64), np.zeros((4, len(s) - 1, 0))
    else:
        at = np.ascontiguousarray(to_kernel(layout, q)[:, ~turns])
        plain = Spline.inside(s, at, lower[~turns], upper[~turns])
        knots, other = plain.s, plain.coefficients
    piece = np.clip(np.searchsorted(s, knots[:-1], side="right") - 1, 0, len(s) - 2)
    made = np.empty((4, len(piece), layout.nv))
    made[:, :, ~turns] = other
    x = (knots[:-1] - s[piece])[:, None]
    for ball in layout._balls:
        own = slice(ball, ball + 3)
        a, b, c, d = (each[piece] for each in rotation_pieces(s, steps[:, own]))
        made[:, :, own] = (
            a + x * (b + x * (c + x * d)),
            b + x * (2 * c + x * 3 * d),
            c + x * 3 * d,
            d,
        )
    anchors = np.array(q[piece])
    anchors[:, ~quaternions(layout)] = 0
    return Spline(knots, made, layout, anchors)
