"""Inverse kinematics, kinematics and steps on tensors of PyTorch, with gradients.

    import supple, supple.torch

    solver = supple.Solver(supple.load("panda"))
    q, success = supple.torch.solve(solver, T)          T (..., 4, 4) -> q (..., nq), success (...)
    T = supple.torch.fk(robot, q)                       the poses of the end effectors

All functions are operators of PyTorch: they work with autograd, `torch.vmap` and
`torch.compile(fullgraph=True)`. Leading axes are batch axes; float32 gives float32, and the work is
done in float64. Results are on the device of the arguments, where the work is done. Gradients are
of first order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

try:
    import torch
except ImportError as error:  # pragma: no cover
    from supple.errors import MissingExtraError

    raise MissingExtraError("torch", "supple.torch") from error

from torch import Tensor
from torch.autograd import forward_ad

from supple.errors import InputError
from supple.ik.adjoints import (
    DAMPING,
    DifferentiableFrames,
    DifferentiableSolver,
    check_damping,
    check_lambda2,
    check_solver,
)
from supple.ik.solver import Solver
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames, check_robot

__all__ = ["fk", "jacobian", "solve", "step"]

# Operators of PyTorch take numbers and tensors only: a solver, or the frames of a robot, is passed
# as its number. The solver or robot keeps it.
_known: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()


def _number(owner: Solver | Robot, key: object, make: Callable[[], Any]) -> int:
    """Return the number of what `make` returns, made on first use with an owner and a key."""
    kept: dict[object, tuple[int, Any]] = vars(owner).setdefault("_differentiable", {})
    if key not in kept:
        kept[key] = next(_numbers), make()
        _known[kept[key][0]] = kept[key][1]
    return kept[key][0]


def _as_constants(self: Solver, damping: float) -> tuple[Any, ...]:
    """Return the number of a solver, the damping, nq, and the shape of a target."""
    made = _number(self, None, lambda: DifferentiableSolver.of(self))
    return made, check_damping(damping), self.robot.nq, *_known[made].target_shape


def _frames_as_constants(self: Robot, frame: FrameNames, lambda2: float) -> tuple[Any, ...]:
    """Return the number of frames of a robot, the damping, nq, and the axis of the frames."""
    key = frame if frame is None or isinstance(frame, str) else tuple(frame)
    made = _number(self, key, lambda: DifferentiableFrames.of(self, frame))
    return made, check_lambda2(lambda2), self.nq, *_known[made].axes


# `torch.compile` takes the results of these functions for constants. Until PyTorch 2.11 this needs
# methods, because solvers and robots are not constants as arguments, and tuples of numbers.
for _class, _method in ((Solver, _as_constants), (Robot, _frames_as_constants)):
    # As torch.compiler.assume_constant_result does, which first imports the compiler, in seconds.
    vars(_method)["_dynamo_marked_constant"] = True
    setattr(_class, _method.__name__, _method)


def _solver(solver: Any, damping: float) -> tuple[int, float, tuple[int, ...], int]:
    """Return the number of a solver, the damping, the shape of a target, and nq."""
    check_solver(solver)
    number, damping, nq, *shape = solver._as_constants(damping)
    return number, damping, tuple(shape), nq


def _frames(
    robot: Any, frame: FrameNames, lambda2: float = 1.0
) -> tuple[int, float, tuple[int, ...], int]:
    """Return the number of frames of a robot, the damping, the axis of the frames, and nq."""
    check_robot(robot)
    number, lambda2, nq, *axes = robot._frames_as_constants(frame, lambda2)
    return number, lambda2, tuple(axes), nq


def _checked(name: str, given: Any, tail: tuple[int, ...], like: Tensor | None = None) -> Tensor:
    """Return a tensor (..., *tail) of float32 or float64, on the device and of the type of another.

    Raises:
        InputError: The argument is no such tensor.
    """
    if not isinstance(given, Tensor):
        raise InputError(f"{name} must be a torch.Tensor; given: {type(given).__name__}")
    if given.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} must be float32 or float64; given: {given.dtype}")
    if given.ndim < len(tail) or tuple(given.shape[given.ndim - len(tail) :]) != tail:
        wide = ", ".join(map(str, tail))
        raise InputError(f"{name} must have the shape (..., {wide}); given: {tuple(given.shape)}")
    if not torch.compiler.is_compiling() and _has_tangent(given):
        raise InputError(
            f"{name} must not have a tangent: there are gradients in reverse mode only; given: a "
            "tensor of forward mode (torch.func.jvp)"
        )
    if like is not None and given.device != like.device:
        raise InputError(
            f"all tensors must be on one device; given: {name} on {given.device}, and a tensor on "
            f"{like.device}"
        )
    return given if like is None else given.to(like.dtype)


def _has_tangent(given: Tensor) -> bool:
    """Return whether a tensor carries a tangent, which the operators would drop."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(given).tangent is not None


def _host(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy()


def _back(array: Any, like: Tensor) -> Tensor:
    """Return an array as a new tensor on the device and of the type of another."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device, like.dtype)


def _on_gpu(tensor: Tensor) -> bool:
    return bool(tensor.is_cuda)


def _run(name: str, frames: DifferentiableFrames, q: Tensor, *shapes: Any, **given: Any) -> Any:
    """Run a CUDA kernel of gradients on the current stream of PyTorch."""
    from supple.ik.gpu.gradients import run  # NVIDIA's packages are optional

    stream = torch.cuda.current_stream(q.device).cuda_stream
    return run(frames, name, q, shapes, stream, **given)


def _refuse(*_: Any) -> Any:
    """Raise the error for a second derivative: the autograd formula of all gradients."""
    raise InputError("gradients of supple.torch are of first order; given: a derivative of one")


def _batched(size: int, dims: Any, *tensors: Tensor) -> list[Tensor]:
    """Return the tensors of a call in `torch.vmap` with the mapped axis first."""
    return [
        tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, dims, strict=False)
    ]


class _Operator:
    """An operator of PyTorch, supple::NAME, for tensors on any device.

    `torch.library.custom_op` makes the same, but imports PyTorch's compiler, in seconds, when the
    operator is called for the first time, and each call takes longer.

    Args:
        name: The name.
        schema: Its arguments and results.
        run: The function.
    """

    def __init__(self, name: str, schema: str, run: Callable[..., Any]) -> None:
        full = f"supple::{name}"
        torch.library.define(full, schema, tags=torch.Tag.pt2_compliant_tag)
        torch.library.impl(full, "default")(run)
        self.overload = getattr(torch.ops.supple, name).default
        self.register_fake = partial(torch.library.register_fake, full)
        self.register_autograd = partial(torch.library.register_autograd, full)
        self.register_vmap = partial(torch.library.register_vmap, full)

    def __call__(self, *given: Any) -> Any:
        return self.overload(*given)


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], _Operator]:
    return partial(_Operator, name, schema)


# ---- solutions -----------------------------------------------------------------------------------


@_operator("solve", "(Tensor target, Tensor? q0, int solver, float damping) -> (Tensor, Tensor)")
def _solve(target: Tensor, q0: Tensor | None, solver: int, damping: float) -> tuple[Tensor, Tensor]:
    known: DifferentiableSolver = _known[solver]
    if not _on_gpu(target):
        q, success = known.solve(_host(target), None if q0 is None else _host(q0))
        return _back(q, target), torch.from_numpy(np.array(success))
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
    known: DifferentiableSolver = _known[solver]
    lead = target.shape[: target.ndim - len(known.target_shape)]
    q = target.new_empty((*lead, known.solver.robot.nq))
    return q, target.new_empty(lead, dtype=torch.bool)


@_operator(
    "solve_adjoint",
    "(Tensor q, Tensor success, Tensor q_bar, int solver, float damping) -> (Tensor, Tensor)",
)
def _solve_adjoint(
    q: Tensor, success: Tensor, q_bar: Tensor, solver: int, damping: float
) -> tuple[Tensor, Tensor]:
    if _on_gpu(q):
        known: DifferentiableSolver = _known[solver]
        shapes = (*q.shape[:-1], *known.target_shape), q.shape
        given = {"bar": q_bar, "success": success}
        given |= {"positions": known.positions, "scale": known.joint_scale}
        target_bar, q0_bar = _run(
            "solve_backward", known.frames, q, *shapes, parameter=damping, **given
        )
        return target_bar, q0_bar
    bars = _known[solver].adjoint(_host(q), _host(success), _host(q_bar), damping)
    return _back(bars[0], q), _back(bars[1], q)


@_solve_adjoint.register_fake
def _(
    q: Tensor, success: Tensor, q_bar: Tensor, solver: int, damping: float
) -> tuple[Tensor, Tensor]:
    return q.new_empty((*q.shape[:-1], *_known[solver].target_shape)), q.new_empty(q.shape)


def _keep_solution(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.seeded, ctx.numbers = inputs[1] is not None, inputs[2:]
    ctx.save_for_backward(*output)
    ctx.mark_non_differentiable(output[1])


def _solution_backward(ctx: Any, q_bar: Tensor, _: Any) -> tuple[Any, ...]:
    target_bar, q0_bar = _solve_adjoint(*ctx.saved_tensors, q_bar, *ctx.numbers)
    return target_bar, q0_bar if ctx.seeded else None, None, None


_solve.register_autograd(_solution_backward, setup_context=_keep_solution)
_solve_adjoint.register_autograd(_refuse)


@_solve.register_vmap
def _(info: Any, dims: Any, target: Tensor, q0: Any, *numbers: Any) -> Any:
    mapped = _batched(info.batch_size, dims, target, *(() if q0 is None else (q0,)))
    return _solve(mapped[0], mapped[1] if len(mapped) > 1 else None, *numbers), (0, 0)


@_solve_adjoint.register_vmap
def _(info: Any, dims: Any, q: Tensor, success: Tensor, q_bar: Tensor, *numbers: Any) -> Any:
    return _solve_adjoint(*_batched(info.batch_size, dims, q, success, q_bar), *numbers), (0, 0)


def solve(
    solver: Solver, target: Tensor, q0: Tensor | None = None, *, damping: float = DAMPING
) -> tuple[Tensor, Tensor]:
    """Return a solution of each target, and whether it meets the target; differentiable.

        q, success = solve(solver, T)           T (..., 4, 4) -> q (..., nq), success (...)
        q, success = solve(solver, T, q0)       solutions near q0 (nq,) or (..., nq)

    With J the Jacobian of the joints F that are not at a limit, and λ the damping,

        T̄ -> x̄ = (J Jᵀ + λ²I)⁻¹ J q̄_F         q̄0 = q̄_F - Jᵀ x̄

    is the derivative of the solution that is nearest to the last one: joints at a limit stay there,
    and a redundant arm moves as little as possible. For redundant arms it is the derivative of
    `solve` as q0 tends to q; its image J dq is always exact. The gradient with respect to T is
    tangent to the rotations: it gives the right result for any parametrization of T.

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
    number, damping, shape, nq = _solver(solver, damping)
    target = _checked("target", target, shape)
    lead = target.shape[: target.ndim - len(shape)]
    if q0 is not None:
        q0 = _expanded("q0", _checked("q0", q0, (nq,), target), lead, (nq,))
    q, success = _solve(target, q0, number, damping)
    return q, success


def _expanded(name: str, given: Tensor, lead: Any, tail: tuple[int, ...]) -> Tensor:
    try:
        return given.expand(*lead, *tail)
    except RuntimeError:
        raise InputError(
            f"{name} must have the batch axes {tuple(lead)}, or broadcast to them; given: "
            f"{tuple(given.shape)}"
        ) from None


# ---- kinematics and steps ------------------------------------------------------------------------


def _function_of_q(name: str, tail: Callable[[int], tuple[int, ...]]) -> _Operator:
    """Return the operator of a function of q, `name` of `DifferentiableFrames`.

    Args:
        name: The function; its adjoint is `name`_adjoint.
        tail: Shape of the result for one frame and nv velocities.
    """

    def run(q: Tensor, frames: int) -> Tensor:
        function = getattr(_known[frames], name)
        return function(q.detach()) if _on_gpu(q) else _back(function(_host(q)), q)

    def adjoint(q: Tensor, bar: Tensor, frames: int) -> Tensor:
        if _on_gpu(q):
            return _run(f"{name}_backward", _known[frames], q, q.shape, bar=bar)[0]
        return _back(getattr(_known[frames], f"{name}_adjoint")(_host(q), _host(bar)), q)

    forward = _Operator(name, "(Tensor q, int frames) -> Tensor", run)
    backward = _Operator(f"{name}_adjoint", "(Tensor q, Tensor bar, int frames) -> Tensor", adjoint)

    def fake(q: Tensor, frames: int) -> Tensor:
        known: DifferentiableFrames = _known[frames]
        return q.new_empty((*q.shape[:-1], *known.axes, *tail(known.robot.nv)))

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.frames = inputs[1]
        ctx.save_for_backward(inputs[0])

    forward.register_fake(fake)
    backward.register_fake(lambda q, bar, frames: torch.empty_like(q))
    forward.register_autograd(
        lambda ctx, bar: (backward(*ctx.saved_tensors, bar, ctx.frames), None), setup_context=keep
    )
    backward.register_autograd(_refuse)
    forward.register_vmap(
        lambda info, dims, q, frames: (forward(*_batched(info.batch_size, dims, q), frames), 0)
    )
    backward.register_vmap(
        lambda info, dims, q, bar, frames: (
            backward(*_batched(info.batch_size, dims, q, bar), frames),
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
    number, _, _, nq = _frames(robot, frame)
    poses: Tensor = _fk(_checked("q", q, (nq,)), number)
    return poses


def jacobian(robot: Robot, q: Tensor, frame: FrameNames = None) -> Tensor:
    """Return Jacobians (..., 6, n) in world axes, or (..., k, 6, n); differentiable.

    The arguments are those of `fk`.
    """
    number, _, _, nq = _frames(robot, frame)
    J: Tensor = _jacobian(_checked("q", q, (nq,)), number)
    return J


@_operator("step", "(Tensor q, Tensor twist, int frames, float lambda2) -> Tensor")
def _step(q: Tensor, twist: Tensor, frames: int, lambda2: float) -> Tensor:
    known: DifferentiableFrames = _known[frames]
    if _on_gpu(q):
        shape = (*q.shape[:-1], known.robot.nv)
        return _run("step_forward", known, q, shape, twist=twist, parameter=lambda2)[0]
    return _back(known.step(_host(q), _host(twist), lambda2), q)


@_operator(
    "step_adjoint",
    "(Tensor q, Tensor twist, Tensor qd_bar, int frames, float lambda2) -> (Tensor, Tensor)",
)
def _step_adjoint(
    q: Tensor, twist: Tensor, qd_bar: Tensor, frames: int, lambda2: float
) -> tuple[Tensor, Tensor]:
    if _on_gpu(q):
        given = {"twist": twist, "bar": qd_bar, "parameter": lambda2}
        bars = _run("step_backward", _known[frames], q, q.shape, twist.shape, **given)
        return bars[0], bars[1]
    bars = _known[frames].step_adjoint(_host(q), _host(twist), _host(qd_bar), lambda2)
    return _back(bars[0], q), _back(bars[1], q)


_step.register_fake(
    lambda q, twist, frames, lambda2: q.new_empty((*q.shape[:-1], _known[frames].robot.nv))
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

_step_adjoint.register_autograd(_refuse)


@_step.register_vmap
def _(info: Any, dims: Any, q: Tensor, twist: Tensor, *numbers: Any) -> Any:
    return _step(*_batched(info.batch_size, dims, q, twist), *numbers), 0


@_step_adjoint.register_vmap
def _(info: Any, dims: Any, q: Tensor, twist: Tensor, bar: Tensor, *numbers: Any) -> Any:
    return _step_adjoint(*_batched(info.batch_size, dims, q, twist, bar), *numbers), (0, 0)


def step(
    robot: Robot, q: Tensor, twist: Tensor, frame: FrameNames = None, *, lambda2: float
) -> Tensor:
    """Return joint velocities (..., n) of damped least squares for a twist; differentiable.

        q̇ = Jᵀ (J Jᵀ + lambda2 I)⁻¹ twist

    It is the step `DLS(Constant(lambda2))` without limits, with gradients for q and the twist.

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
    number, lambda2, axes, nq = _frames(robot, frame, lambda2)
    q = _checked("q", q, (nq,))
    x = _checked("twist", twist, (*axes, 6), q)
    x = _expanded("twist", x, q.shape[:-1], (*axes, 6))
    qd: Tensor = _step(q, x, number, lambda2)
    return qd
