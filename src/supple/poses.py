"""Poses (4, 4): conversion to and from quaternions, Euler angles and other forms; interpolation.

    T = sp.pose([0.4, 0, 0.3], rpy=[np.pi, 0, 0])       # position [m], roll, pitch, yaw [rad]
    poses.wxyz(T), poses.rpy(T), poses.rotation_vector(T), poses.euler(T, "intrinsic zyz")
    poses.interpolate(T, goal, np.linspace(0, 1, 50))    # straight line and slerp, (50, 4, 4)
    poses.orthonormalize(T_rounded), poses.correction(T_rounded)

Every function of supple that takes a pose replaces its rotation matrix R by the nearest rotation,
as `orthonormalize` does, if the largest entry of |RᵀR - I| is at most `TOLERANCE`; other matrices
are rejected. Leading axes are batch axes. Functions of a pose also take rotations (..., 3, 3),
except `adjoint` and `interpolate`, which need positions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import (
    POSE_TOLERANCE,
    finite_array,
    number,
    real_numbers,
    rotations,
)
from supple._arrays.checks import poses as checked_poses
from supple.errors import InputError, known_arguments, short_repr
from supple.kinematics.chain import Matrix
from supple.kinematics.orientation import check_parameters, euler_angles
from supple.kinematics.orientation import rate_map as rate_map_of_rotation
from supple.kinematics.pose_filter import PoseFilter
from supple.kinematics.rotation import exp, from_quaternion, log, quaternion

__all__ = [
    "TOLERANCE",
    "PoseFilter",
    "adjoint",
    "correction",
    "euler",
    "interpolate",
    "orthonormalize",
    "rate_map",
    "rotation_vector",
    "rpy",
    "wxyz",
    "xyzw",
]


def __dir__() -> list[str]:
    return __all__


TOLERANCE = POSE_TOLERANCE
_MAX_ANGLE = 4 * np.pi  # a larger angle is probably in degrees [rad]
_MAX_TOLERANCE = 0.1  # with a larger one, the nearest rotation may be far from the intended one


_QUATERNION = "A quaternion is given by its order: wxyz=(w, x, y, z) or xyzw=(x, y, z, w)."


@known_arguments(quat=_QUATERNION, quaternion=_QUATERNION, orientation=_QUATERNION)
def pose(
    position: ArrayLike = (0.0, 0.0, 0.0),
    *,
    rotation: ArrayLike | None = None,
    wxyz: ArrayLike | None = None,
    xyzw: ArrayLike | None = None,
    rpy: ArrayLike | None = None,
    rotation_vector: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
) -> Matrix:
    """Return a pose (..., 4, 4) from a position and at most one kind of rotation.

    Args:
        position: Position (..., 3) [m].
        rotation: Rotation matrix (..., 3, 3). A matrix that is not exactly orthonormal, for example
            rounded to four decimals, is replaced by the nearest rotation; `correction` returns the
            angle between the two.
        wxyz: Quaternion (..., 4), scalar first, as in MuJoCo and Eigen's constructor.
        xyzw: Quaternion (..., 4), scalar last, as in ROS and SciPy.
        rpy: Roll, pitch and yaw (..., 3) [rad], as in URDF: about the fixed x, y and z axes, in
            this order; R = Rz(yaw) Ry(pitch) Rx(roll).
        rotation_vector: Rotation vector (..., 3) [rad]: axis times angle.
        tolerance: Largest entry of |RᵀR - I| that is corrected, at most 0.1.

    Quaternions are normalized and must not be zero. Angles beyond two turns, 4π, are rejected,
    because they are probably in degrees: `rpy=np.radians([180, 0, 90])`.

    Raises:
        InputError: A shape is wrong, numbers are not finite, several kinds of rotation are given, a
            matrix is not a rotation within the tolerance, or a component of `rpy` or
            `rotation_vector` is beyond 4π.
    """
    at = _vectors(position)
    kinds = {
        "rotation": rotation,
        "wxyz": wxyz,
        "xyzw": xyzw,
        "rpy": rpy,
        "rotation_vector": rotation_vector,
    }
    given = {name: value for name, value in kinds.items() if value is not None}
    if len(given) > 1:
        raise InputError(f"pose takes one of {', '.join(kinds)}; given: {', '.join(given)}")
    R = np.eye(3)
    for name, value in given.items():
        R = _rotation(name, value)
    try:
        lead = np.broadcast_shapes(at.shape[:-1], R.shape[:-2])
    except ValueError:
        raise InputError(
            f"position and {next(iter(given))} must have the same leading axes, or broadcast; "
            f"given: {at.shape} and {R.shape}"
        ) from None
    T = np.zeros((*lead, 4, 4))
    T[..., :3, :3], T[..., :3, 3], T[..., 3, 3] = R, at, 1.0
    return checked_poses(T, "pose", tolerance=_tolerance(tolerance))


def _vectors(position: ArrayLike) -> Matrix:
    """Return positions (..., 3) after checking; the error for poses names `orthonormalize`."""
    array = real_numbers(position, "position must be finite real numbers of shape (..., 3)")
    if array.shape[-2:] == (4, 4):
        raise InputError(
            "position must be (..., 3); given: a matrix (4, 4), which is a pose already "
            "(supple.poses.orthonormalize corrects its rotation)"
        )
    return finite_array(array, (3,), "position", batch=array.ndim > 1)


def _rotation(name: str, value: ArrayLike) -> Matrix:
    shape = {"rotation": (3, 3), "wxyz": (4,), "xyzw": (4,)}.get(name, (3,))
    array = real_numbers(value, f"{name} must be finite real numbers of shape {shape}")
    array = finite_array(array, shape, name, batch=array.ndim > len(shape))
    if name == "rotation":
        return array
    if shape == (3,) and (np.abs(array) > _MAX_ANGLE).any():
        worst = array.flat[np.abs(array).argmax()]
        raise InputError(
            f"angles of {name} must be in radians and at most 4π; given: {worst:g}. "
            "numpy.radians converts degrees"
        )
    if name == "rpy":
        return _from_rpy(array)
    if name == "rotation_vector":
        return exp(array)
    if not array.any(axis=-1).all():
        raise InputError(f"a quaternion must not be zero; given: {short_repr(value)}")
    return from_quaternion(np.roll(array, 1, axis=-1) if name == "xyzw" else array)


def _from_rpy(angles: Matrix) -> Matrix:
    (cr, cp, cy), (sr, sp, sy) = (np.moveaxis(f(angles), -1, 0) for f in (np.cos, np.sin))
    entries = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.moveaxis(np.array(entries), (0, 1), (-2, -1))


def _tolerance(given: float) -> float:
    return number(given, "tolerance", least=0.0, most=_MAX_TOLERANCE)


def _matrices(given: ArrayLike, tolerance: float) -> tuple[Matrix, Matrix]:
    """Return poses or rotations in float64, unchanged, and their nearest rotations (..., 3, 3)."""
    expected = "pose must be (..., 4, 4), or a rotation (..., 3, 3)"
    array = real_numbers(given, expected)
    if array.shape[-2:] == (3, 3):
        R = finite_array(array, (3, 3), "rotation", batch=True)
        what = "rotation must be orthonormal and right-handed (..., 3, 3)"
        return R, rotations(R, "rotation", what, tolerance=tolerance)
    if array.shape[-2:] != (4, 4):
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    T = finite_array(array, (4, 4), "pose", batch=True)
    return T, checked_poses(array, "pose", tolerance=tolerance)[..., :3, :3]


def orthonormalize(pose: ArrayLike, *, tolerance: float = TOLERANCE) -> Matrix:
    """Return the poses (..., 4, 4) or rotations (..., 3, 3) nearest to rounded matrices.

    Args:
        pose: Matrices (..., 4, 4) or (..., 3, 3).
        tolerance: Largest entry of |RᵀR - I| that is corrected, at most 0.1.

    Raises:
        InputError: A matrix is not a rotation within the tolerance.
    """
    T, R = _matrices(pose, _tolerance(tolerance))
    if T.shape[-1] == 3:
        return R
    T[..., :3, :3], T[..., 3, :] = R, (0.0, 0.0, 0.0, 1.0)
    return T


def correction(pose: ArrayLike) -> Matrix | np.float64:
    """Return the angles (...) [rad] by which `orthonormalize` rotates the axes of matrices.

    The result is the largest of the three angles between an axis (a column of R) and the corrected
    axis; about 1e-4 for entries rounded to four decimals. Matrices must be rotations within a
    tolerance of 0.1.
    """
    T, nearest = _matrices(pose, _MAX_TOLERANCE)
    R = T[..., :3, :3]
    sines = np.linalg.norm(np.cross(R, nearest, axis=-2), axis=-2)
    angles = np.arctan2(sines, (R * nearest).sum(axis=-2)).max(axis=-1)
    return angles if angles.ndim else np.float64(angles)


def wxyz(pose: ArrayLike) -> Matrix:
    """Return unit quaternions (..., 4) of poses, scalar first and not negative."""
    return quaternion(_matrices(pose, TOLERANCE)[1])


def xyzw(pose: ArrayLike) -> Matrix:
    """Return unit quaternions (..., 4) of poses, scalar last and not negative."""
    return np.roll(wxyz(pose), -1, axis=-1)


def rpy(pose: ArrayLike) -> Matrix:
    """Return roll, pitch and yaw (..., 3) [rad] of poses:  R = Rz(yaw) Ry(pitch) Rx(roll).

    The pitch is in [-π/2, π/2]. At the ends of this range roll and yaw rotate about the same axis,
    and the yaw is 0.
    """
    return euler(pose, "rpy")


def euler(pose: ArrayLike, sequence: str) -> Matrix:
    """Return Euler angles (..., 3) [rad] of poses, for any of the twelve sequences of axes.

        "intrinsic zyx"     about the moving axes:  R = Rz(a) Ry(b) Rx(c)
        "extrinsic xyz"     about the fixed axes:   R = Rz(c) Ry(b) Rx(a), the same as "rpy"

    The middle angle is in [0, π] if the first and last axes are the same, else in [-π/2, π/2]. At
    the ends of this range, the other two angles rotate about the same axis, and the leftmost angle
    in the formula of R is set to 0.

    Args:
        pose: Poses (..., 4, 4), or rotations (..., 3, 3).
        sequence: "intrinsic" or "extrinsic" with three axes, or "rpy".
    """
    angles = euler_angles(check_parameters(sequence))
    if angles is None:
        raise InputError(
            "sequence must be 'rpy', or 'intrinsic' or 'extrinsic' with three axes, for example "
            f"'intrinsic zyx'; given: {sequence!r}"
        )
    return np.asarray(angles.angles(_matrices(pose, TOLERANCE)[1]), np.float64)


def rate_map(pose: ArrayLike, orientation: str) -> Matrix:
    """Return the map Ω (..., k, 3) from angular velocity to the rates of orientation parameters.

        d/dt parameters = Ω w          w in world axes [rad/s]

    Args:
        pose: Poses (..., 4, 4), or rotations (..., 3, 3).
        orientation: "rpy", Euler angles as in `euler`, a unit quaternion "wxyz" or "xyzw" (Euler
            parameters), or "direction_cosines", the nine entries of R row by row.

    Raises:
        InputError: The first and the last axis of the Euler angles are parallel, where the rates
            are not defined.

    References:
        Wampler 1986, eq. (9).
    """
    name = check_parameters(orientation)
    return np.asarray(rate_map_of_rotation(_matrices(pose, TOLERANCE)[1], name), np.float64)


def adjoint(pose: ArrayLike) -> Matrix:
    """Return the matrix (..., 6, 6) that converts a twist [v; w] from body to spatial coordinates.

        spatial twist = adjoint(T) body twist,      adjoint(T) = [[R, [p] R], [0, R]]

    T is the pose of the frame in the world. The transpose converts wrenches [force; moment] in the
    opposite direction: body wrench = adjoint(T)ᵀ spatial wrench. The adjoint of the translation
    alone, `adjoint(pose(p))`, converts a twist in world axes at the frame's origin to spatial
    coordinates.

    Args:
        pose: Poses (..., 4, 4) [m].
    """
    T = checked_poses(pose, "pose")
    R, p = T[..., :3, :3], T[..., :3, 3]
    A = np.zeros((*T.shape[:-2], 6, 6))
    A[..., :3, :3] = A[..., 3:, 3:] = R
    A[..., :3, 3:] = np.cross(p[..., None], R, axis=-2)
    return A


def rotation_vector(pose: ArrayLike) -> Matrix:
    """Return rotation vectors (..., 3) of poses [rad]: axis times angle, the angle in [0, π]."""
    return log(_matrices(pose, TOLERANCE)[1])


def interpolate(start: ArrayLike, end: ArrayLike, times: ArrayLike) -> Matrix:
    """Interpolate between two poses: the origin on a straight line, the rotation by slerp.

        p(s) = (1 - s) p0 + s p1        R(s) = R0 exp(s log(R0ᵀ R1))

    The rotation has constant angular velocity along the shorter arc; for rotations half a
    turn apart, the axis is that of `rotation_vector`. Times outside [0, 1] extrapolate.

    Args:
        start: Poses (..., 4, 4) at s = 0.
        end: Poses (..., 4, 4) at s = 1; leading axes broadcast.
        times: The values of s, one number or (k,).

    Returns:
        Poses (..., 4, 4) for one time, (..., k, 4, 4) for k times.
    """
    A, B = checked_poses(start, "start"), checked_poses(end, "end")
    s = real_numbers(times, "times must be finite numbers, one or (k,)")
    s = finite_array(s, s.shape, "times")
    if s.ndim > 1:
        raise InputError(f"times must be one number or (k,); given: an array of shape {s.shape}")
    try:
        np.broadcast_shapes(A.shape, B.shape)
    except ValueError:
        raise InputError(
            "start and end must have the same leading axes, or broadcast; "
            f"given: {A.shape} and {B.shape}"
        ) from None
    turn = log(A[..., :3, :3].swapaxes(-1, -2) @ B[..., :3, :3])
    p, d = A[..., :3, 3], B[..., :3, 3]
    if s.ndim:
        A, turn, p, d = A[..., None, :, :], turn[..., None, :], p[..., None, :], d[..., None, :]
        s = s[:, None]
    R = A[..., :3, :3] @ exp(s * turn)
    T = np.zeros((*R.shape[:-2], 4, 4))
    T[..., :3, :3], T[..., :3, 3], T[..., 3, 3] = R, (1 - s) * p + s * d, 1.0
    return T
