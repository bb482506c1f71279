"""Poses and rotations from what people write, and rotation vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, short_repr
from supple.kinematics.arrays import finite_array
from supple.kinematics.arrays import pose as checked_pose
from supple.kinematics.chain import Matrix


def pose(
    position: ArrayLike = (0.0, 0.0, 0.0),
    *,
    rotation: ArrayLike | None = None,
    wxyz: ArrayLike | None = None,
    xyzw: ArrayLike | None = None,
) -> Matrix:
    """Return a pose (4, 4) from a position and at most one kind of rotation.

    Args:
        position: (3,) [m].
        rotation: A rotation matrix (3, 3).
        wxyz: A quaternion (4,), scalar first, as in MuJoCo and Eigen's constructor.
        xyzw: A quaternion (4,), scalar last, as in ROS and SciPy.

    A quaternion need not have length 1, but must not be zero.
    """
    T = np.eye(4)
    T[:3, 3] = finite_array(position, (3,), "position")
    named = (("rotation", rotation), ("wxyz", wxyz), ("xyzw", xyzw))
    kinds = {name: value for name, value in named if value is not None}
    if len(kinds) > 1:
        raise InputError(f"pose takes one of rotation, wxyz, xyzw; given: {', '.join(kinds)}")
    for name, value in kinds.items():
        if name == "rotation":
            T[:3, :3] = finite_array(value, (3, 3), "rotation")
        else:
            quaternion = finite_array(value, (4,), name)
            T[:3, :3] = _of_quaternion(np.roll(quaternion, 1 if name == "xyzw" else 0), value)
    return checked_pose(T, "pose")


def _of_quaternion(wxyz: Matrix, given: object) -> Matrix:
    largest = np.abs(wxyz).max()
    if largest == 0:
        raise InputError(f"a quaternion must not be zero; given: {short_repr(given)}")
    scaled = wxyz / largest  # so that squares neither overflow nor vanish
    w, x, y, z = scaled / np.linalg.norm(scaled)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def log(R: Matrix) -> Matrix:
    """The rotation vector (3,) of a rotation (3, 3): axis times angle, the angle in [0, π] [rad].

    By the quaternion whose largest entry is taken first, which is accurate near 0 and near π. At a
    half turn the axis is the one whose largest entry (the first of them) is positive.
    """
    trace = float(np.trace(R))
    antisymmetric = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    # 4 q qᵀ, q = (w, x, y, z): linear in R, so that the row of the largest q_i is q up to a factor
    products = np.empty((4, 4))
    products[0, 0] = 1 + trace
    products[0, 1:] = products[1:, 0] = antisymmetric
    products[1:, 1:] = R + R.T + (1 - trace) * np.eye(3)
    q = products[int(np.argmax(np.diag(products)))]
    w, v = (-q[0], -q[1:]) if q[0] < 0 else (q[0], q[1:])
    size = float(np.linalg.norm(v))
    scale = 2 * float(np.arctan2(size, w)) / size if size > 1e-150 else 2 / w
    return np.asarray(scale * v)


def exp(r: Matrix) -> Matrix:
    """The rotation (3, 3) by a rotation vector (3,) [rad]: the inverse of `log`."""
    x, y, z = (float(c) for c in r)
    half = float(np.linalg.norm(r)) / 2
    k = np.sinc(half / np.pi)  # sin(half)/half
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + k * np.cos(half) * K + k**2 / 2 * (K @ K))
