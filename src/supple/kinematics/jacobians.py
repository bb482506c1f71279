"""Jacobians, their derivatives, joint torques and singular values: methods of `Robot`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import FloatArray, coordinates, finite_array, like, real_numbers
from supple._runtime.environment import DEFAULT_THREADS, thread_count
from supple.errors import InputError, short_repr
from supple.gpu.arrays import on_gpu
from supple.kinematics.orientation import check_parameters, rate_map

if TYPE_CHECKING:
    from supple.kinematics.robot import FrameNames, Robot


def jacobian(
    self: Robot,
    q: ArrayLike,
    frame: FrameNames = None,
    *,
    axes: str = "world",
    threads: int | None = None,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return the Jacobian, (..., 6, n) or (..., k, 6, n): twist = J q̇.

    Column j is the twist [v; w] of the frame for unit speed of joint j [m or rad, per rad or
    m]. Wampler calls J the partial-velocity matrix.

    Args:
        q: Configurations (..., n) [rad or m].
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        axes: Axes of v and w: "world", "body", "spatial" or the name of any frame.
        threads: Maximum number of threads; all cores by default.
        out: Array for the result, of its shape and type.

    References:
        Wampler 1986, eq. (6), Theorems 1 and 2.
    """
    try:  # the body of `_chain`, inlined to save the cost of a call
        found = self._chains[frame, axes, None]
    except (KeyError, TypeError, ValueError):
        found = self._chain(frame, axes)
    try:
        return found.jacobian(q, DEFAULT_THREADS if threads is None else thread_count(threads), out)
    except InputError:
        if not on_gpu(q):
            raise
    from supple.kinematics.gpu_frames import resolve  # NVIDIA's packages are optional

    J: FloatArray = resolve(self, q, frame, axes, (False, True), threads, (None, out))[0]
    return J


def fk_jacobian(
    self: Robot,
    q: ArrayLike,
    frame: FrameNames = None,
    *,
    axes: str = "world",
    threads: int | None = None,
    out: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the poses of `fk` and the Jacobian of `jacobian`, computed in one pass.

    The arguments are those of `jacobian`; `out` is a pair of arrays, for poses and Jacobian.
    """
    try:  # the body of `_chain`, inlined to save the cost of a call
        found = self._chains[frame, axes, None]
    except (KeyError, TypeError, ValueError):
        found = self._chain(frame, axes)
    count = DEFAULT_THREADS if threads is None else thread_count(threads)
    poses = jacobian = None
    if out is not None:
        try:
            poses, jacobian = out
        except (TypeError, ValueError):
            raise InputError(
                f"out must be a pair of arrays (poses, jacobian); given: {short_repr(out)}"
            ) from None
    try:
        return found.poses_and_jacobian(q, count, poses, jacobian)
    except InputError:
        if not on_gpu(q):
            raise
    from supple.kinematics.gpu_frames import resolve  # NVIDIA's packages are optional

    T, J = resolve(self, q, frame, axes, (True, True), threads, (poses, jacobian))
    return T, J


def analytic_jacobian(
    self: Robot,
    q: ArrayLike,
    frame: FrameNames = None,
    *,
    orientation: str = "rpy",
    threads: int | None = None,
) -> FloatArray:
    """Return the Jacobian ∂x/∂q of position and orientation parameters, (..., 3 + k, n).

        x = [p; parameters]          d/dt x = J_x q̇,  J_x = blockdiag(I, Ω) J

    p is the position of the frame, and Ω maps its angular velocity to the rates of the k
    parameters. The first three rows are those of `jacobian`. For several frames, the result has an
    axis of frames before the matrix axes.

    Args:
        q: Configurations (..., n) [rad or m].
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        orientation: The parameters: "rpy"; Euler angles about moving or fixed axes, such as
            "intrinsic zyz" or "extrinsic xyz"; a unit quaternion "wxyz" or "xyzw"; or
            "direction_cosines", the nine entries of R row by row. `supple.poses` computes the
            parameters (`rpy`, `euler`, `wxyz`) and Ω (`rate_map`).
        threads: Maximum number of threads; all cores by default.

    Raises:
        InputError: The first and the last axis of the Euler angles are parallel at one of the
            configurations, where their rates are not defined. Quaternions and direction cosines
            have no such singularities.

    References:
        Wampler 1986, eqs. (2), (3), (9) and (10).
    """
    parameters = check_parameters(orientation)
    at = real_numbers(q, "q must be real numbers")
    T, J = self.fk_jacobian(at, frame, threads=threads)
    rates = rate_map(T[..., :3, :3], parameters).astype(J.dtype, copy=False)
    return like(q, np.concatenate([J[..., :3, :], rates @ J[..., 3:, :]], axis=-2))  # type: ignore[no-any-return]


def joint_torques(
    self: Robot,
    q: ArrayLike,
    wrench: ArrayLike,
    frame: FrameNames = None,
    *,
    axes: str = "world",
    threads: int | None = None,
) -> FloatArray:
    """Return the joint torques (..., n) that correspond to wrenches at frames:  τ = Jᵀ f.

    The power is the same on both sides: τ·q̇ = f·twist. To exert a wrench on its surroundings, the
    robot needs these torques [N m, or N for a prismatic joint]; to balance a wrench that acts on
    the robot, it needs the negative torques. Gravity and friction are not included.

    Args:
        q: Configurations (..., n) [rad or m].
        wrench: Force and moment [f; m] [N, N m] (..., 6), or (..., k, 6) for k frames, in the
            coordinates of `axes`: the force at the frame's origin, or at the world's origin if
            spatial. Leading axes broadcast.
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        axes: Axes of the wrench: "world", "body", "spatial" or the name of any frame.
        threads: Maximum number of threads; all cores by default.

    References:
        Wampler 1986, eq. (24).
    """
    at = real_numbers(q, "q must be real numbers")
    J = self.jacobian(at, frame, axes=axes, threads=threads)
    many = J.ndim > 2 and J.ndim == at.ndim + 2
    shape = J.shape[-3:-1] if many else (6,)
    f = finite_array(wrench, shape, "wrench", batch=True).astype(J.dtype, copy=False)
    try:
        torques = np.einsum("...kij,...ki->...j" if many else "...ij,...i->...j", J, f)
    except ValueError:
        lead = J.shape[: -len(shape) - 1]
        raise InputError(
            f"wrench must have the leading axes of q, {lead}, or broadcast to them; "
            f"given: an array of shape {f.shape}"
        ) from None
    return like(q, np.asarray(torques))  # type: ignore[no-any-return]


def bias_acceleration(
    self: Robot,
    q: ArrayLike,
    qd: ArrayLike,
    frame: FrameNames = None,
    *,
    axes: str = "world",
    threads: int | None = None,
) -> FloatArray:
    """Return the bias acceleration J̇q̇, (..., 6) or (..., k, 6): d/dt of the twist if q̈ = 0.

        d/dt twist = J q̈ + J̇ q̇

    In "world" axes, the result consists of the acceleration of the frame's origin [m/s²] and the
    angular acceleration [rad/s²]; in other axes, it is the derivative of the twist's components.

    Args:
        q: Configurations (..., n) [rad or m].
        qd: Joint velocities [rad/s or m/s], of the shape of q or broadcast to it.
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        axes: Axes of the twist: "world", "body", "spatial" or the name of any frame.
        threads: Maximum number of threads; all cores by default.

    References:
        Wampler 1986, eq. (51): the forward pass of the Newton-Euler method without its q̈ terms.
    """
    return self._chain(frame, axes).bias_acceleration(q, qd, thread_count(threads))


def bias_jerk(
    self: Robot,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    frame: FrameNames = None,
    *,
    axes: str = "world",
    threads: int | None = None,
) -> FloatArray:
    """Return the bias jerk, (..., 6) or (..., k, 6): d²/dt² of the twist if q⃛ = 0.

        d²/dt² twist = J q⃛ + 2 J̇ q̈ + J̈ q̇

    In "world" axes, the result consists of the jerk of the frame's origin [m/s³] and the derivative
    of the angular acceleration [rad/s³]; in other axes, it is the second derivative of the twist's
    components.

    Args:
        q: Configurations (..., n) [rad or m].
        qd: Joint velocities [rad/s or m/s], of the shape of q or broadcast to it.
        qdd: Joint accelerations [rad/s² or m/s²], of the shape of q or broadcast to it.
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        axes: Axes of the twist: "world", "body", "spatial" or the name of any frame.
        threads: Maximum number of threads; all cores by default.

    References:
        Wampler 1986, after eq. (51), on higher derivatives.
    """
    at, faster = coordinates(q, self.nq, "q"), coordinates(qdd, self.dof, "qdd")
    if not np.isfinite(faster).all():
        raise InputError(f"qdd must be finite; given: {short_repr(qdd)}")
    shape = (*at.shape[:-1], self.dof)
    try:
        faster = np.array(np.broadcast_to(faster, shape), at.dtype)
    except ValueError:
        raise InputError(
            f"qdd must have the shape of qd, {shape}, or broadcast to it; given: {faster.shape}"
        ) from None
    found = self._chain(frame, axes).bias_jerk(at, qd, faster, thread_count(threads))
    return like(q, found)  # type: ignore[no-any-return]


def singular_values(
    self: Robot,
    q: ArrayLike,
    frame: FrameNames = None,
    *,
    rows: Sequence[str] | None = None,
    axes: str = "world",
    threads: int | None = None,
) -> FloatArray:
    """Return the singular values of the Jacobian, (..., min(m, n)), largest first.

    For several frames, their Jacobians are stacked. At a singularity the smallest value is zero.
    The values mix meters and radians and therefore depend on the unit of length.

    Args:
        q: Configurations (..., n) [rad or m].
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        rows: Rows of each frame's Jacobian to use, from "x", "y", "z", "rx", "ry", "rz"; all by
            default.
        axes: Axes of these rows: "world", "body", "spatial" or the name of any frame.
        threads: Maximum number of threads; all cores by default.
    """
    return self._chain(frame, axes, rows).singular_values(q, thread_count(threads))


def manipulability(
    self: Robot,
    q: ArrayLike,
    frame: FrameNames = None,
    *,
    rows: Sequence[str] | None = None,
    axes: str = "world",
    threads: int | None = None,
) -> FloatArray | np.floating[Any]:
    """Return Yoshikawa's manipulability w, (...): the product of the singular values.

        w = sqrt(det(J Jᵀ)),  or sqrt(det(Jᵀ J)) if J has more rows than columns

    w is zero at a singularity. The arguments are those of `singular_values`.
    """
    w = self._chain(frame, axes, rows).manipulability(q, thread_count(threads))
    return w if w.ndim else w[()]
