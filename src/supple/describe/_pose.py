"""Poses as matrices T_ab (4, 4) [m]: elementary poses, and the rotation nearest to a matrix."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
ROUNDING = 4 * _EPS  # residual of a rotation that is orthonormal to machine precision
# Largest entry of |RᵀR - I| that is corrected: rotations rounded to four decimals have at most
# 1.7e-4; a wrong scale or a typing error causes a far larger entry.
POSE_TOLERANCE = 1e-3
_QUARTERS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))


def cos_sin(angle: float) -> tuple[float, float]:
    """Return cosine and sine of an angle [rad], exactly 0 or ±1 at multiples of 90°.

    A multiple of π/2, up to two full turns, is recognized if it is exact up to rounding; 1.5707963
    is not.
    """
    if math.isfinite(angle):
        k = round(angle / (math.pi / 2))
        if abs(k) <= 8 and abs(angle - k * (math.pi / 2)) <= 4 * _EPS:
            return _QUARTERS[k % 4]
        return math.cos(angle), math.sin(angle)
    return math.nan, math.nan


def translation(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Array:
    """Return a translation [m] as a pose (4, 4)."""
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def rotation(axis: Array, angle: float) -> Array:
    """Return the rotation by an angle [rad] about a unit axis (3,) as a pose (4, 4)."""
    c, s = cos_sin(angle)
    x, y, z = (float(value) for value in axis)
    T = np.eye(4)
    T[:3, :3] = (
        (c + x * x * (1 - c), x * y * (1 - c) - z * s, x * z * (1 - c) + y * s),
        (y * x * (1 - c) + z * s, c + y * y * (1 - c), y * z * (1 - c) - x * s),
        (z * x * (1 - c) - y * s, z * y * (1 - c) + x * s, c + z * z * (1 - c)),
    )
    return T


def rotation_x(angle: float) -> Array:
    """Return the rotation by an angle [rad] about x as a pose (4, 4)."""
    return rotation(np.array((1.0, 0.0, 0.0)), angle)


def rotation_y(angle: float) -> Array:
    """Return the rotation by an angle [rad] about y as a pose (4, 4)."""
    return rotation(np.array((0.0, 1.0, 0.0)), angle)


def rotation_z(angle: float) -> Array:
    """Return the rotation by an angle [rad] about z as a pose (4, 4)."""
    return rotation(np.array((0.0, 0.0, 1.0)), angle)


def from_wxyz(position: Array, wxyz: Array) -> Array:
    """Return the pose (4, 4) of a position (3,) [m] and a nonzero quaternion (4,), scalar first."""
    w, x, y, z = (float(value) for value in wxyz / np.linalg.norm(wxyz))
    T = np.eye(4)
    T[:3, :3] = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    T[:3, 3] = position
    return T


def motion(kind: str, axis: Array, value: float, pitch: float = 0.0) -> Array:
    """Return the transform (4, 4) of a joint at position `value` [rad or m]; pitch in [m/rad]."""
    if kind == "prismatic":
        return translation(*(axis * value))
    if kind == "screw":
        return translation(*(axis * (pitch * value))) @ rotation(axis, value)
    return rotation(axis, value) if kind in ("revolute", "continuous") else np.eye(4)


def rotation_residual(R: Array) -> Array:
    """Return the largest entry (...) of |RᵀR - I| for matrices (..., 3, 3); NaN if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.abs(R.swapaxes(-1, -2) @ R - np.eye(3)).max(axis=(-1, -2)))


def orthonormalized(R: Array, residual: Array, exact: float = ROUNDING) -> Array:
    """Return the nearest rotations (..., 3, 3) to nearly orthonormal matrices.

    Newton's iteration for the polar factor squares the residual in each round: 1e-3, 1e-6, 1e-12,
    0.

    Args:
        R: Matrices (..., 3, 3) with positive determinants.
        residual: The `rotation_residual` of the matrices (...), at most 0.1.
        exact: Residual up to which a matrix is returned unchanged.
    """
    for needed in (exact, exact, 1e-6, 1e-3, 3e-2):
        correct = residual > max(needed, exact)
        if not correct.any():
            break
        nearer = R @ (1.5 * np.eye(3) - 0.5 * R.swapaxes(-1, -2) @ R)
        R = np.where(correct[..., None, None], nearer, R)
    return R


def roll_pitch_yaw(R: Array) -> tuple[float, float, float]:
    """Return the angles of Rz(yaw) Ry(pitch) Rx(roll) = R, to machine precision for every R."""
    yaw = math.atan2(R[1, 0], R[0, 0])
    rest = rotation_z(-yaw)[:3, :3] @ R  # accurate also at a pitch of ±90°, where yaw is arbitrary
    return math.atan2(-rest[1, 2], rest[1, 1]), math.atan2(-rest[2, 0], rest[0, 0]), yaw


def wxyz(R: Array) -> Array:
    """Return the unit quaternion (w, x, y, z) of a rotation, to machine precision."""
    squares = 1 + np.array(
        [
            R[0, 0] + R[1, 1] + R[2, 2],
            R[0, 0] - R[1, 1] - R[2, 2],
            R[1, 1] - R[0, 0] - R[2, 2],
            R[2, 2] - R[0, 0] - R[1, 1],
        ]
    )
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    a, b, c = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    largest = int(np.argmax(squares))  # row i below is 4 q[i] q, which is accurate for this i
    q = np.array(
        [
            (squares[0], x, y, z),
            (x, squares[1], a, b),
            (y, a, squares[2], c),
            (z, b, c, squares[3]),
        ][largest]
    )
    return np.asarray(q / np.linalg.norm(q))
