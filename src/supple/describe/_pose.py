"""Small poses for the readers: 4x4 matrices T_ab [m], exact at quarter turns."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_QUARTERS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))


def cos_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine of an angle [rad], exactly 0 or ±1 at multiples of 90°.

    Two full turns either way; beyond, a multiple is no longer told from its neighbours. A double
    is within rounding of k pi/2 or it is not: 1.5707963 stays what it is.
    """
    if math.isfinite(angle):
        k = round(angle / (math.pi / 2))
        if abs(k) <= 8 and abs(angle - k * (math.pi / 2)) <= 4 * _EPS:
            return _QUARTERS[k % 4]
        return math.cos(angle), math.sin(angle)
    return math.nan, math.nan


def translation(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Array:
    """A pure translation [m] as a pose (4, 4)."""
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def rotation(axis: Array, angle: float) -> Array:
    """A rotation by an angle [rad] about a unit axis (3,) as a pose (4, 4): Rodrigues' formula."""
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
    """A rotation [rad] about x as a pose (4, 4)."""
    return rotation(np.array((1.0, 0.0, 0.0)), angle)


def rotation_y(angle: float) -> Array:
    """A rotation [rad] about y as a pose (4, 4)."""
    return rotation(np.array((0.0, 1.0, 0.0)), angle)


def rotation_z(angle: float) -> Array:
    """A rotation [rad] about z as a pose (4, 4)."""
    return rotation(np.array((0.0, 0.0, 1.0)), angle)


def from_wxyz(position: Array, wxyz: Array) -> Array:
    """The pose (4, 4) of a position (3,) [m] and a quaternion (4,), scalar first, not zero."""
    w, x, y, z = (float(value) for value in wxyz / np.linalg.norm(wxyz))
    T = np.eye(4)
    T[:3, :3] = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    T[:3, 3] = position
    return T


def motion(kind: str, axis: Array, value: float) -> Array:
    """What a joint does at a coordinate [rad or m]: the pose (4, 4) between origin and tail."""
    if kind == "prismatic":
        return translation(*(axis * value))
    return rotation(axis, value) if kind in ("revolute", "continuous") else np.eye(4)
