"""Parameters of an orientation, and maps (..., k, 3) from angular velocity to their rates.

    "rpy"                  roll, pitch, yaw (3) [rad], as in URDF: the same as "extrinsic xyz"
    "intrinsic zyx", ...   Euler angles (3) [rad] about the moving axes: R = Rz(a) Ry(b) Rx(c)
    "extrinsic xyz", ...   Euler angles (3) [rad] about the fixed axes:  R = Rz(c) Ry(b) Rx(a)
    "wxyz", "xyzw"         Euler parameters: a unit quaternion (4) whose scalar is not negative
    "direction_cosines"    the rotation matrix (9), row by row

All twelve sequences of axes are supported: sequences of three different axes (Tait-Bryan angles),
and sequences whose last axis equals the first (proper Euler angles).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import InputError, unknown_name_error
from supple.kinematics.rotation import quaternion

_XYZ = "xyz"
SEQUENCES = tuple(
    "".join(axes) for axes in product(_XYZ, repeat=3) if axes[0] != axes[1] != axes[2]
)
PARAMETERS = (
    "rpy",
    "wxyz",
    "xyzw",
    "direction_cosines",
    *(f"{kind} {axes}" for kind in ("intrinsic", "extrinsic") for axes in SEQUENCES),
)

Array = NDArray[np.floating[Any]]

# Levi-Civita's symbol: (a × b)_i = Σ PERMUTATION[i, j, k] a_j b_k.
PERMUTATION = np.zeros((3, 3, 3))
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    PERMUTATION[_i, _j, _k], PERMUTATION[_i, _k, _j] = 1.0, -1.0


@dataclass(frozen=True)
class EulerAngles:
    """Euler angles about the moving axes i, j, k.

        R = R_i(first) R_j(middle) R_k(last)

    Angles about fixed axes are the same angles in reverse order.
    """

    i: int
    j: int
    k: int
    reverse: bool

    @property
    def proper(self) -> bool:
        """Whether the first and the last axis are the same, as in "zyz"."""
        return self.i == self.k

    @property
    def sign(self) -> float:
        """1 if i, j and the remaining axis are an even permutation of x, y, z; else -1."""
        return float(PERMUTATION[self.i, self.j, 3 - self.i - self.j])

    def angles(self, R: Array) -> Array:
        """Return the angles (..., 3) [rad] of rotations (..., 3, 3).

        The middle angle is in [0, π] for proper Euler angles and in [-π/2, π/2] for Tait-Bryan
        angles. At a singularity the angle about the moving axis i is 0.
        """
        i, j, k, s = self.i, self.j, self.k, self.sign
        third = 3 - i - j
        # Column k of R is the last axis; the angle between it and the first axis is the middle one.
        u, v = (R[..., j, k], -s * R[..., third, k])
        if not self.proper:
            u, v = -s * R[..., j, k], R[..., k, k]
        away = np.hypot(u, v)
        first = np.where(away > 4 * np.finfo(R.dtype).eps, np.arctan2(u, v), 0.0)
        if self.proper:
            middle = np.arctan2(away, R[..., i, i])
        else:
            middle = np.arctan2(s * R[..., i, k], away)
        # R_i(-first) R = R_j R_k, and row j of this product equals row j of R_k. So the last angle
        # is accurate even where the first one is not.
        c, m = np.cos(first)[..., None], s * np.sin(first)[..., None]
        row = c * R[..., j, :] + m * R[..., third, :]
        other = 3 - j - k
        last = np.arctan2(-PERMUTATION[k, j, other] * row[..., other], row[..., j])
        return np.stack([last, middle, first] if self.reverse else [first, middle, last], axis=-1)

    def rates(self, R: Array) -> Array:
        """Return the map (..., 3, 3) from the angular velocity to the rates of the angles.

        With the axes a, b, c of the three rotations, w = a ẋ₁ + b ẋ₂ + c ẋ₃; b is normal to a and
        c.
        """
        a = np.zeros(R.shape[:-1], R.dtype)
        a[..., self.i] = 1.0
        c = R[..., :, self.k]
        normal = np.cross(c, a)  # parallel to b
        size = np.linalg.norm(normal, axis=-1, keepdims=True)
        _check_regular(size[..., 0], self)
        # The sign of b matches `angles`, where the middle angle of proper Euler angles is positive.
        b = normal / size * (-1.0 if self.proper else self.sign)
        volume = (b * normal).sum(axis=-1, keepdims=True)
        rows = [np.cross(b, c) / volume, b, np.cross(a, b) / volume]
        return np.stack(rows[::-1] if self.reverse else rows, axis=-2)

    def __str__(self) -> str:
        axes = "".join(_XYZ[axis] for axis in (self.i, self.j, self.k))
        return f"extrinsic {axes[::-1]}" if self.reverse else f"intrinsic {axes}"


def _check_regular(size: Array, angles: EulerAngles) -> None:
    """Raise InputError if the first and last axes are nearly parallel.

    Args:
        size: Distances of the middle angle from the value where the axes are parallel [rad].
        angles: The Euler angles.
    """
    # The relative error of the rates is eps/size; with this limit half of the digits are correct.
    singular = ~(size > np.sqrt(np.finfo(size.dtype).eps))
    if not singular.any():
        return
    where = np.unravel_index(int(np.argmax(singular)), singular.shape)
    place = f"[{', '.join(str(int(i)) for i in where)}]" if where else ""
    middle = "0 or ±180°" if angles.proper else "±90°"
    raise InputError(
        f"the rates of {str(angles)!r} angles are not defined where the middle angle is {middle}; "
        f"given: pose{place}, {float(size[where]):.1e} rad from it. "
        "Without singularities: 'wxyz', 'xyzw', 'direction_cosines'."
    )


@cache
def euler_angles(parameters: str) -> EulerAngles | None:
    """Return the Euler angles of a name such as "intrinsic zyx" or "rpy"; None for other names."""
    kind, _, axes = ("extrinsic xyz" if parameters == "rpy" else parameters).partition(" ")
    if not axes:
        return None
    i, j, k = (_XYZ.index(axis) for axis in axes)
    reverse = kind == "extrinsic"
    return EulerAngles(*((k, j, i) if reverse else (i, j, k)), reverse)


def check_parameters(given: object) -> str:
    """Return the name of orientation parameters, or raise an error that lists the valid names."""
    if isinstance(given, str) and given in PARAMETERS:
        return given
    if isinstance(given, str) and given.lower() in SEQUENCES:
        raise InputError(
            "Euler angles need the word 'intrinsic' (about moving axes) or 'extrinsic' (about "
            f"fixed axes) before the sequence; given: {given!r}"
        )
    raise unknown_name_error("orientation", given, PARAMETERS)


def rate_map(R: Array, parameters: str) -> Array:
    """Return Ω (..., k, 3) at rotations (..., 3, 3):  d/dt parameters = Ω w,  w in world axes."""
    angles = euler_angles(parameters)
    if angles is not None:
        return angles.rates(R)
    if parameters == "direction_cosines":  # d/dt R = [w] R
        of_rows = np.einsum("raj,...jc->...rca", PERMUTATION, R)
        return np.asarray(of_rows.reshape(*R.shape[:-2], 9, 3))
    unit = quaternion(R.astype(np.float64))
    s, v = unit[..., 0], unit[..., 1:]  # d/dt (s, v) = (-v·w, s w + w × v)/2
    rows = s[..., None, None] * np.eye(3) + np.einsum("iaj,...j->...ia", PERMUTATION, v)
    scalar = -v[..., None, :]
    order = [scalar, rows] if parameters == "wxyz" else [rows, scalar]
    return np.asarray(np.concatenate(order, axis=-2) / 2)
