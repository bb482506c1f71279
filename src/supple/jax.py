"""Inverse kinematics, kinematics and steps on arrays of JAX, with gradients.

    import supple, supple.jax

    solver = supple.Solver(supple.load("panda"))
    q, success = supple.jax.solve(solver, T)            T (..., 4, 4) -> q (..., nq), success (...)
    T = supple.jax.fk(robot, q)                         the poses of the end effectors

All functions work with `jax.jit`, `jax.vmap` and `jax.grad`. Leading axes are batch axes. Results
for float32 are float32; all computations are in float64, on the CPU. Gradients are of first order,
in reverse mode. XLA calls the kernel as foreign functions (`jax.ffi`), without Python. Versions of
JAX without `jax.ffi`, solvers that need Python, and GPUs use `jax.pure_callback`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import jax
except ImportError as error:  # pragma: no cover
    from supple.errors import MissingExtraError

    raise MissingExtraError("jax", "supple.jax") from error

from jax import Array
from jax import numpy as jnp

from supple import _core
from supple.errors import InputError, short_repr
from supple.ik.adjoints import (
    DAMPING,
    DifferentiableFrames,
    DifferentiableSolver,
    check_damping,
    check_lambda2,
)
from supple.ik.foreign import Number, number_of_frames, number_of_solver
from supple.ik.solver import Solver
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames

__all__ = ["fk", "jacobian", "solve", "step"]


def _checked(name: str, given: Any, tail: tuple[int, ...], dtype: Any = None) -> Array:
    """Return an array (..., *tail) of float32 or float64.

    Raises:
        InputError: The argument is not an array of this type and shape.
    """
    try:
        array = jnp.asarray(given)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array; given: {short_repr(given)}") from None
    if array.dtype not in (jnp.float32, jnp.float64):
        raise InputError(f"{name} must be float32 or float64; given: {array.dtype}")
    if array.shape[max(0, array.ndim - len(tail)) :] != tail:
        wide = ", ".join(map(str, tail))
        raise InputError(f"{name} must have the shape (..., {wide}); given: {array.shape}")
    return array if dtype is None else array.astype(dtype)


def _expanded(name: str, given: Array, lead: tuple[int, ...], tail: tuple[int, ...]) -> Array:
    try:
        return jnp.broadcast_to(given, (*lead, *tail))
    except ValueError:
        raise InputError(
            f"{name} must have the batch axes {lead}, or broadcast to them; given: {given.shape}"
        ) from None


@cache
def _has_foreign_functions() -> bool:
    """Register the kernel's functions with XLA; return whether this version of XLA accepts them.

    JAX has had `jax.ffi` since 0.5.0.
    """
    if not hasattr(jax, "ffi"):
        return False
    try:
        for name, function in _core.xla_targets().items():
            jax.ffi.register_ffi_target(name, function, platform="cpu")
    except Exception:  # of a type that depends on the version
        return False
    return True


def _call(
    name: str,
    number: Number | None,
    run: Callable[..., Any],
    shapes: Any,
    *arrays: Array,
    **more: Any,
) -> Any:
    """Call a foreign function on arrays (..., k) and return its results.

    Args:
        name: The name of the foreign function.
        number: The number of the object that the function needs; None if there is no foreign
            function for this call.
        run: The same function of NumPy arrays.
        shapes: Shapes and types of the results.
        arrays: The arrays.
        more: Further attributes of the foreign function.
    """

    def foreign(*given: Array) -> Any:
        call = jax.ffi.ffi_call(f"supple_{name}", shapes, vmap_method="broadcast_all")
        return call(*given, number=number, **more)

    def called_back(*given: Array) -> Any:
        def host(*arrays: Any) -> Any:
            return run(*(np.asarray(one) for one in arrays))

        return jax.pure_callback(host, shapes, *given, vmap_method="broadcast_all")

    if number is None or not _has_foreign_functions():
        return called_back(*arrays)
    if jax.default_backend() == "cpu":
        return foreign(*arrays)
    return jax.lax.platform_dependent(*arrays, cpu=foreign, default=called_back)


def _first_order(function: Callable[..., Any]) -> Any:
    """Return a gradient, function(known, setting, *arrays), whose derivatives raise an error."""
    made = jax.custom_jvp(function, nondiff_argnums=(0, 1))

    def refuse(*_: Any) -> Any:
        raise InputError("supple.jax has first derivatives only; given: a derivative of a gradient")

    made.defjvp(refuse)
    return made


def _like(array: Array) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


# ---- solutions -----------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _solve(known: DifferentiableSolver, damping: float, target: Array, q0: Array | None) -> Any:
    lead = target.shape[: target.ndim - len(known.target_shape)]
    shapes = (
        jax.ShapeDtypeStruct((*lead, known.solver.robot.nq), target.dtype),
        jax.ShapeDtypeStruct(lead, jnp.bool_),
    )

    number = number_of_solver(known)
    return _call(
        "solve",
        number if number.solves[q0 is not None] else None,
        lambda target, q0=None: known.solve(target, q0),
        shapes,
        *((target,) if q0 is None else (target, q0)),
    )


def _solve_forward(known: Any, damping: float, target: Array, q0: Array | None) -> Any:
    q, success = _solve(known, damping, target, q0)
    return (q, success), (q, success, q0 is not None)


@_first_order
def _solve_adjoint(known: Any, damping: float, q: Array, success: Array, q_bar: Array) -> Any:
    lead = q.shape[:-1]
    target = jax.ShapeDtypeStruct((*lead, *known.target_shape), q.dtype)
    return _call(
        "solve_adjoint",
        number_of_solver(known),
        lambda *given: known.adjoint(*given, damping),
        (target, _like(q)),
        *(q, success, q_bar),
        value=np.float64(damping),
    )


def _solve_backward(known: Any, damping: float, kept: Any, bars: Any) -> Any:
    q, success, seeded = kept
    target_bar, q0_bar = _solve_adjoint(known, damping, q, success, bars[0])
    return target_bar, q0_bar if seeded else None


_solve.defvjp(_solve_forward, _solve_backward)


def solve(
    solver: Solver, target: ArrayLike, q0: ArrayLike | None = None, *, damping: float = DAMPING
) -> tuple[Array, Array]:
    """Return a solution of each target, and whether it meets the target; differentiable.

    The arguments, the gradients and the results are those of `supple.torch.solve`: gradients with
    respect to the targets are tangent to the rotations, zero for targets that are not met, and
    damped near singularities; joints at a limit stay there.

    Args:
        solver: The solver. Its tasks are poses of frames, or positions.
        target: Targets (..., 4, 4), or (..., 3) for a position [m]; for k tasks (..., k, 4, 4) or
            (..., k, 3).
        q0: Seeds (nq,) or (..., nq) [rad or m].
        damping: λ of the gradient as a fraction of the norm of the Jacobian.

    Raises:
        InputError: An argument is malformed, or the solver has other tasks.
    """
    known = DifferentiableSolver.of(solver)
    T = _checked("target", target, known.target_shape)
    lead, nq = T.shape[: T.ndim - len(known.target_shape)], solver.robot.nq
    seeds = None
    if q0 is not None:
        seeds = _expanded("q0", _checked("q0", q0, (nq,), T.dtype), lead, (nq,))
    q, success = _solve(known, check_damping(damping), T, seeds)
    return q, success


# ---- kinematics and steps ------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _kinematics(frames: DifferentiableFrames, name: str, q: Array) -> Any:
    tail = (4, 4) if name == "fk" else (6, frames.robot.nv)
    shape = (*q.shape[:-1], *frames.axes, *tail)
    number, run = number_of_frames(frames), getattr(frames, name)
    return _call(name, number, run, jax.ShapeDtypeStruct(shape, q.dtype), q)


@_first_order
def _kinematics_adjoint(frames: Any, name: str, q: Array, bar: Array) -> Any:
    adjoint = f"{name}_adjoint"
    return _call(adjoint, number_of_frames(frames), getattr(frames, adjoint), _like(q), q, bar)


def _kinematics_backward(frames: Any, name: str, q: Array, bar: Array) -> Any:
    return (_kinematics_adjoint(frames, name, q, bar),)


_kinematics.defvjp(lambda frames, name, q: (_kinematics(frames, name, q), q), _kinematics_backward)


def fk(robot: Robot, q: ArrayLike, frame: FrameNames = None) -> Array:
    """Return poses (..., 4, 4) of a frame, or (..., k, 4, 4) of several; differentiable.

    Args:
        robot: The robot.
        q: Configurations (..., nq) [rad or m].
        frame: Name of a frame, or a sequence of names; the end effectors by default.

    Raises:
        InputError: An argument is malformed.
        UnknownNameError: The robot has no such frame.
    """
    frames = DifferentiableFrames.of(robot, frame)
    poses: Array = _kinematics(frames, "fk", _checked("q", q, (robot.nq,)))
    return poses


def jacobian(robot: Robot, q: ArrayLike, frame: FrameNames = None) -> Array:
    """Return Jacobians (..., 6, n) in world axes, or (..., k, 6, n); differentiable.

    The arguments are those of `fk`.
    """
    frames = DifferentiableFrames.of(robot, frame)
    J: Array = _kinematics(frames, "jacobian", _checked("q", q, (robot.nq,)))
    return J


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _step(frames: DifferentiableFrames, lambda2: float, q: Array, twist: Array) -> Any:
    shape = jax.ShapeDtypeStruct((*q.shape[:-1], frames.robot.nv), q.dtype)
    return _call(
        "step",
        number_of_frames(frames),
        lambda q, x: frames.step(q, x, lambda2),
        shape,
        *(q, twist),
        value=np.float64(lambda2),
    )


@_first_order
def _step_adjoint(frames: Any, lambda2: float, q: Array, twist: Array, qd_bar: Array) -> Any:
    return _call(
        "step_adjoint",
        number_of_frames(frames),
        lambda *given: frames.step_adjoint(*given, lambda2),
        (_like(q), _like(twist)),
        *(q, twist, qd_bar),
        value=np.float64(lambda2),
    )


def _step_backward(frames: Any, lambda2: float, kept: Any, qd_bar: Array) -> Any:
    return _step_adjoint(frames, lambda2, *kept, qd_bar)


_step.defvjp(lambda f, lambda2, q, x: (_step(f, lambda2, q, x), (q, x)), _step_backward)


def step(
    robot: Robot,
    q: ArrayLike,
    twist: ArrayLike,
    frame: FrameNames = None,
    *,
    lambda2: float,
) -> Array:
    """Return joint velocities (..., n) of damped least squares for a twist; differentiable.

        q̇ = Jᵀ (J Jᵀ + lambda2 I)⁻¹ twist

    Args:
        robot: The robot.
        q: Configurations (..., nq) [rad or m].
        twist: Twists [v; w] in world axes (..., 6), or (..., k, 6) for k frames [m/s, rad/s], with
            the batch axes of q.
        frame: Name of a frame, or a sequence of names; the end effectors by default.
        lambda2: Damping λ², above zero.

    Raises:
        InputError: An argument is malformed.
        UnknownNameError: The robot has no such frame.
    """
    frames = DifferentiableFrames.of(robot, frame)
    at = _checked("q", q, (robot.nq,))
    tail = (*frames.axes, 6)
    x = _expanded("twist", _checked("twist", twist, tail, at.dtype), at.shape[:-1], tail)
    qd: Array = _step(frames, check_lambda2(lambda2), at, x)
    return qd
