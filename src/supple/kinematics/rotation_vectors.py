"""Rotation vectors that change in time: the angular velocity in body axes, and its derivatives.

The velocity of the rotation exp(r) in body axes is J(r) ṙ, with

    J = I - a [r]× + b [r]×²,    a = (1 - cos θ)/θ²,    b = (θ - sin θ)/θ³,    θ = ‖r‖.
"""

from __future__ import annotations

import math

import numpy as np

from supple.kinematics.chain import Matrix
from supple.kinematics.rotation import cross, cross_matrix

_SERIES_ANGLE = 1.0  # angle below which a and b are series in θ² [rad]
_SERIES_TERMS = 12  # number of terms; further terms are below rounding errors


def _series(first: int) -> Matrix:
    """Return the series (12, 3) in x = θ² of a (`first` = 2) or b (3), and of its derivatives.

    The derivatives are (d/dθ)/θ = 2 d/dx, applied once and twice.
    """
    made = np.zeros((_SERIES_TERMS, 3))
    each = np.array([(-1) ** k / math.factorial(2 * k + first) for k in range(_SERIES_TERMS)])
    for i in range(3):
        made[: len(each), i] = each
        each = 2 * np.polynomial.polynomial.polyder(each)
    return made


_COEFFICIENTS = np.hstack([_series(2), _series(3)])


def right_jacobian(r: Matrix) -> Matrix:
    """Return J (..., 3, 3) of rotation vectors r (..., 3)."""
    (a, *_), (b, *_) = (each[..., None, None] for each in _factors(r))
    K = cross_matrix(r)
    return np.asarray(np.eye(3) - a * K + b * (K @ K))


def right_jacobian_inverse(r: Matrix) -> Matrix:
    """Return the inverses of J (..., 3, 3), for angles below 2π."""
    return np.asarray(np.linalg.inv(right_jacobian(r)), np.float64)


def body_velocity(r: Matrix, r1: Matrix, r2: Matrix, r3: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Return the angular velocity in body axes (..., 3) and its first two derivatives.

    Args:
        r: Rotation vectors (..., 3).
        r1: First derivatives of r (..., 3).
        r2: Second derivatives of r (..., 3).
        r3: Third derivatives of r (..., 3).
    """
    (a, a1, a2), (b, b1, b2) = (each[..., None] for each in _factors(r))
    # Time derivatives of a and b: a1 is (da/dθ)/θ, and a2 is (da1/dθ)/θ.
    along = (r * r1).sum(-1, keepdims=True)
    bent = (r1 * r1 + r * r2).sum(-1, keepdims=True)
    da, db = a1 * along, b1 * along
    dda, ddb = a2 * along**2 + a1 * bent, b2 * along**2 + b1 * bent
    side, far = cross(r, r1), cross(r, cross(r, r1))
    whirl = cross(r1, side)

    def turned(v: Matrix) -> Matrix:  # J v
        return np.asarray(v - a * cross(r, v) + b * cross(r, cross(r, v)))

    first = turned(r2) - da * side + db * far + b * whirl
    # J r3 + 2 J' r2 + J'' r1
    second = (
        turned(r3)
        - 2 * (da * cross(r, r2) + a * cross(r1, r2))
        + 2 * db * cross(r, cross(r, r2))
        + 2 * b * (cross(r1, cross(r, r2)) + cross(r, cross(r1, r2)))
        - dda * side
        - a * cross(r2, r1)
        + ddb * far
        + 2 * db * whirl
        + b * (cross(r2, side) + cross(r, cross(r2, r1)))
    )
    return turned(r1), first, second


def bend(r: Matrix, r1: Matrix) -> Matrix:
    """Return the derivative (..., 3) of the angular velocity in body axes if ṙ is constant.

    Args:
        r: Rotation vectors (..., 3).
        r1: Derivatives of r (..., 3).
    """
    (_, a1, _), (b, b1, _) = (each[..., None] for each in _factors(r))
    along = (r * r1).sum(-1, keepdims=True)
    side = cross(r, r1)
    return np.asarray(b1 * along * cross(r, side) - a1 * along * side + b * cross(r1, side))


def _factors(r: Matrix) -> tuple[Matrix, Matrix]:
    """Return a, a1 = (da/dθ)/θ, a2 = (da1/dθ)/θ as one array (3, ...), and likewise for b."""
    angle = np.linalg.norm(r, axis=-1)
    square = angle**2
    near = np.polynomial.polynomial.polyval(np.minimum(square, _SERIES_ANGLE**2), _COEFFICIENTS)
    t = np.maximum(angle, _SERIES_ANGLE)
    sine, cosine = np.sin(t), np.cos(t)
    a1 = (t * sine - 2 + 2 * cosine) / t**4
    b1 = (3 * sine - 2 * t - t * cosine) / t**5
    a = (1 - cosine) / t**2, a1, (t * cosine - sine) / t**5 - 4 * a1 / t**2
    b = (t - sine) / t**3, b1, (2 * cosine - 2 + t * sine) / t**6 - 5 * b1 / t**2
    small = angle < _SERIES_ANGLE
    made = np.where(small, near, np.stack([*a, *b]))
    return made[:3], made[3:]
