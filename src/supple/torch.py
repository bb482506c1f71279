"""Inverse kinematics, kinematics and steps on tensors of PyTorch, with gradients.

    import supple, supple.torch

    solver = supple.Solver(supple.load("panda"))
    q, success = supple.torch.solve(solver, T)          T (..., 4, 4) -> q (..., nq), success (...)
    T = supple.torch.fk(robot, q)                       the poses of the end effectors

All functions are operators of PyTorch: they work with autograd, `torch.vmap` and
`torch.compile(fullgraph=True)`. Leading axes are batch axes. Results for float32 are float32; all
computations are in float64, on the device of the arguments, where the results stay. Gradients are
of first order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import torch
except ImportError as error:  # pragma: no cover
    from supple.errors import MissingExtraError

    raise MissingExtraError("torch", "supple.torch") from error

from torch import Tensor

from supple.ik.adjoints import DAMPING, DifferentiableFrames, DifferentiableSolver
from supple.ik.operators import (
    Operator,
    batched,
    checked,
    expanded,
    frame_constants,
    host,
    is_on_gpu,
    operator,
    refuse,
    registered,
    run_kernel,
    solver_constants,
    tensor_of,
)
from supple.ik.solver import Solver
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames

__all__ = ["fk", "jacobian", "solve", "step"]

# ---- solutions -----------------------------------------------------------------------------------


@operator("solve", "(Tensor target, Tensor? q0, int solver, float damping) -> (Tensor, Tensor)")
def _solve(target: Tensor, q0: Tensor | None, solver: int, damping: float) -> tuple[Tensor, Tensor]:
    known: DifferentiableSolver = registered[solver]
    if not is_on_gpu(target):
        q, success = known.solve(host(target), None if q0 is None else host(q0))
        return tensor_of(q, target), torch.from_numpy(np.array(success))
    lead, nq = target.shape[: target.ndim - len(known.target_shape)], known.solver.robot.nq
    wide, seeds = target.detach().double().reshape(-1, *known.target_shape).contiguous(), None
    if q0 is not None:
        seeds = q0.detach().double().reshape(-1, nq).contiguous()
    stream = torch.cuda.current_stream(target.device)
    found = known.solver.batch(wide, q0=seeds, stream=stream)
    q = torch.from_dlpack(found.q).reshape(*lead, nq).to(target.dtype, copy=True)
    return q, torch.from_dlpack(found.status).reshape(lead) == int(SolveStatus.CONVERGED)


@_solve.register_fake
def _(target: Tensor, q0: Tensor | None, solver: int, damping: float) -> tuple[Tensor, Tensor]:
    known: DifferentiableSolver = registered[solver]
    lead = target.shape[: target.ndim - len(known.target_shape)]
    q = target.new_empty((*lead, known.solver.robot.nq))
    return q, target.new_empty(lead, dtype=torch.bool)


@operator(
    "solve_adjoint",
    "(Tensor q, Tensor success, Tensor q_bar, int solver, float damping) -> (Tensor, Tensor)",
)
def _solve_adjoint(
    q: Tensor, success: Tensor, q_bar: Tensor, solver: int, damping: float
) -> tuple[Tensor, Tensor]:
    if is_on_gpu(q):
        known: DifferentiableSolver = registered[solver]
        shapes = (*q.shape[:-1], *known.target_shape), q.shape
        given = {"bar": q_bar, "success": success}
        given |= {"positions": known.positions, "scale": known.joint_scale}
        target_bar, q0_bar = run_kernel(
            "solve_backward", known.frames, q, *shapes, parameter=damping, **given
        )
        return target_bar, q0_bar
    bars = registered[solver].adjoint(host(q), host(success), host(q_bar), damping)
    return tensor_of(bars[0], q), tensor_of(bars[1], q)


@_solve_adjoint.register_fake
def _(
    q: Tensor, success: Tensor, q_bar: Tensor, solver: int, damping: float
) -> tuple[Tensor, Tensor]:
    return q.new_empty((*q.shape[:-1], *registered[solver].target_shape)), q.new_empty(q.shape)


def _keep_solution(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.seeded, ctx.numbers = inputs[1] is not None, inputs[2:]
    ctx.save_for_backward(*output)
    ctx.mark_non_differentiable(output[1])


def _solution_backward(ctx: Any, q_bar: Tensor, _: Any) -> tuple[Any, ...]:
    target_bar, q0_bar = _solve_adjoint(*ctx.saved_tensors, q_bar, *ctx.numbers)
    return target_bar, q0_bar if ctx.seeded else None, None, None


_solve.register_autograd(_solution_backward, setup_context=_keep_solution)
_solve_adjoint.register_autograd(refuse)


@_solve.register_vmap
def _(info: Any, dims: Any, target: Tensor, q0: Any, *numbers: Any) -> Any:
    mapped = batched(info.batch_size, dims, target, *(() if q0 is None else (q0,)))
    return _solve(mapped[0], mapped[1] if len(mapped) > 1 else None, *numbers), (0, 0)


@_solve_adjoint.register_vmap
def _(info: Any, dims: Any, q: Tensor, success: Tensor, q_bar: Tensor, *numbers: Any) -> Any:
    return _solve_adjoint(*batched(info.batch_size, dims, q, success, q_bar), *numbers), (0, 0)


def solve(
    solver: Solver, target: Tensor, q0: Tensor | None = None, *, damping: float = DAMPING
) -> tuple[Tensor, Tensor]:
    """Return a solution of each target, and whether it meets the target; differentiable.

        q, success = solve(solver, T)           T (..., 4, 4) -> q (..., nq), success (...)
        q, success = solve(solver, T, q0)       solutions near q0 (nq,) or (..., nq)

    With J the Jacobian of the joints F that are not at a limit, and λ the damping,

        T̄ -> x̄ = (J Jᵀ + λ²I)⁻¹ J q̄_F         q̄0 = q̄_F - Jᵀ x̄

    is the derivative of the solution that stays nearest to q as T changes: joints at a limit stay
    there, and a redundant arm moves as little as possible. For redundant arms, this is the
    derivative of `solve` as q0 tends to q; its image J dq is always exact. The gradient with
    respect to T is tangent to the rotations: it gives the right result for any parametrization of
    T.

    A target that is not met has a zero gradient. Near a singularity the gradient is damped: it is
    at most |q̄| / (2λ), with λ = damping ‖J‖, where the rows of positions and rotations are
    scaled to the same norm.

    Args:
        solver: The solver. Its tasks are poses of frames, or positions.
        target: Targets (..., 4, 4), or (..., 3) for a position [m]; for k tasks (..., k, 4, 4) or
            (..., k, 3).
        q0: Seeds (nq,) or (..., nq) [rad or m].
        damping: λ as a fraction of the norm of J.

    Raises:
        InputError: An argument is malformed, or the solver has other tasks.
    """
    number, damping, shape, nq = solver_constants(solver, damping)
    target = checked("target", target, shape)
    lead = target.shape[: target.ndim - len(shape)]
    if q0 is not None:
        q0 = expanded("q0", checked("q0", q0, (nq,), target), lead, (nq,))
    q, success = _solve(target, q0, number, damping)
    return q, success


# ---- kinematics and steps ------------------------------------------------------------------------


def _function_of_q(name: str, tail: Callable[[int], tuple[int, ...]]) -> Operator:
    """Return the operator of a function of q, `name` of `DifferentiableFrames`.

    Args:
        name: The function; its adjoint is `name`_adjoint.
        tail: Shape of the result for one frame and nv velocities.
    """

    def run(q: Tensor, frames: int) -> Tensor:
        function = getattr(registered[frames], name)
        return function(q.detach()) if is_on_gpu(q) else tensor_of(function(host(q)), q)

    def adjoint(q: Tensor, bar: Tensor, frames: int) -> Tensor:
        if is_on_gpu(q):
            return run_kernel(f"{name}_backward", registered[frames], q, q.shape, bar=bar)[0]
        return tensor_of(getattr(registered[frames], f"{name}_adjoint")(host(q), host(bar)), q)

    forward = Operator(name, "(Tensor q, int frames) -> Tensor", run)
    backward = Operator(f"{name}_adjoint", "(Tensor q, Tensor bar, int frames) -> Tensor", adjoint)

    def fake(q: Tensor, frames: int) -> Tensor:
        known: DifferentiableFrames = registered[frames]
        return q.new_empty((*q.shape[:-1], *known.axes, *tail(known.robot.nv)))

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.frames = inputs[1]
        ctx.save_for_backward(inputs[0])

    forward.register_fake(fake)
    backward.register_fake(lambda q, bar, frames: torch.empty_like(q))
    forward.register_autograd(
        lambda ctx, bar: (backward(*ctx.saved_tensors, bar, ctx.frames), None), setup_context=keep
    )
    backward.register_autograd(refuse)
    forward.register_vmap(
        lambda info, dims, q, frames: (forward(*batched(info.batch_size, dims, q), frames), 0)
    )
    backward.register_vmap(
        lambda info, dims, q, bar, frames: (
            backward(*batched(info.batch_size, dims, q, bar), frames),
            0,
        )
    )
    return forward


_fk = _function_of_q("fk", lambda n: (4, 4))
_jacobian = _function_of_q("jacobian", lambda n: (6, n))


def fk(robot: Robot, q: Tensor, frame: FrameNames = None) -> Tensor:
    """Return poses (..., 4, 4) of a frame, or (..., k, 4, 4) of several; differentiable.

    Args:
        robot: The robot.
        q: Configurations (..., nq) [rad or m].
        frame: Name of a frame, or a sequence of names; the end effectors by default.

    Raises:
        InputError: An argument is malformed.
        UnknownNameError: The robot has no such frame.
    """
    number, _, _, nq = frame_constants(robot, frame)
    poses: Tensor = _fk(checked("q", q, (nq,)), number)
    return poses


def jacobian(robot: Robot, q: Tensor, frame: FrameNames = None) -> Tensor:
    """Return Jacobians (..., 6, n) in world axes, or (..., k, 6, n); differentiable.

    The arguments are those of `fk`.
    """
    number, _, _, nq = frame_constants(robot, frame)
    J: Tensor = _jacobian(checked("q", q, (nq,)), number)
    return J


@operator("step", "(Tensor q, Tensor twist, int frames, float lambda2) -> Tensor")
def _step(q: Tensor, twist: Tensor, frames: int, lambda2: float) -> Tensor:
    known: DifferentiableFrames = registered[frames]
    if is_on_gpu(q):
        shape = (*q.shape[:-1], known.robot.nv)
        return run_kernel("step_forward", known, q, shape, twist=twist, parameter=lambda2)[0]
    return tensor_of(known.step(host(q), host(twist), lambda2), q)


@operator(
    "step_adjoint",
    "(Tensor q, Tensor twist, Tensor qd_bar, int frames, float lambda2) -> (Tensor, Tensor)",
)
def _step_adjoint(
    q: Tensor, twist: Tensor, qd_bar: Tensor, frames: int, lambda2: float
) -> tuple[Tensor, Tensor]:
    if is_on_gpu(q):
        given = {"twist": twist, "bar": qd_bar, "parameter": lambda2}
        bars = run_kernel("step_backward", registered[frames], q, q.shape, twist.shape, **given)
        return bars[0], bars[1]
    bars = registered[frames].step_adjoint(host(q), host(twist), host(qd_bar), lambda2)
    return tensor_of(bars[0], q), tensor_of(bars[1], q)


_step.register_fake(
    lambda q, twist, frames, lambda2: q.new_empty((*q.shape[:-1], registered[frames].robot.nv))
)
_step_adjoint.register_fake(
    lambda q, twist, qd_bar, frames, lambda2: (q.new_empty(q.shape), q.new_empty(twist.shape))
)


def _keep_step(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.numbers = inputs[2:]
    ctx.save_for_backward(*inputs[:2])


_step.register_autograd(
    lambda ctx, bar: (*_step_adjoint(*ctx.saved_tensors, bar, *ctx.numbers), None, None),
    setup_context=_keep_step,
)

_step_adjoint.register_autograd(refuse)


@_step.register_vmap
def _(info: Any, dims: Any, q: Tensor, twist: Tensor, *numbers: Any) -> Any:
    return _step(*batched(info.batch_size, dims, q, twist), *numbers), 0


@_step_adjoint.register_vmap
def _(info: Any, dims: Any, q: Tensor, twist: Tensor, bar: Tensor, *numbers: Any) -> Any:
    return _step_adjoint(*batched(info.batch_size, dims, q, twist, bar), *numbers), (0, 0)


def step(
    robot: Robot, q: Tensor, twist: Tensor, frame: FrameNames = None, *, lambda2: float
) -> Tensor:
    """Return joint velocities (..., n) of damped least squares for a twist; differentiable.

        q̇ = Jᵀ (J Jᵀ + lambda2 I)⁻¹ twist

    This is the step `DLS(Constant(lambda2))` without limits, with gradients for q and the twist.

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
    number, lambda2, axes, nq = frame_constants(robot, frame, lambda2)
    q = checked("q", q, (nq,))
    x = checked("twist", twist, (*axes, 6), q)
    x = expanded("twist", x, q.shape[:-1], (*axes, 6))
    qd: Tensor = _step(q, x, number, lambda2)
    return qd
