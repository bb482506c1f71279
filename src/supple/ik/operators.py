"""Operators of PyTorch for supple.torch: their registration, and checks of tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from supple.errors import InputError
from supple.ik.adjoints import (
    DifferentiableFrames,
    DifferentiableSolver,
    check_damping,
    check_lambda2,
    check_solver,
)
from supple.ik.solver import Solver
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames, check_robot

# Operators of PyTorch take numbers and tensors only: a solver, or the frames of a robot, is passed
# as the number under which it is registered. The solver or robot keeps the registered object alive.
registered: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()


def _number(owner: Solver | Robot, key: object, make: Callable[[], Any]) -> int:
    """Return the number in `registered` of an object, which `make` makes at the first call.

    The owner keeps the object under a key. If several threads make it at the same time, each object
    is registered before other threads can see its number, and all threads get the number of the
    first object.
    """
    kept: dict[object, tuple[int, Any]] = vars(owner).setdefault("_differentiable", {})
    found = kept.get(key)
    if found is None:
        made = next(_numbers), make()
        registered[made[0]] = made[1]
        found = kept.setdefault(key, made)
    return found[0]


def _as_constants(self: Solver, damping: float) -> tuple[Any, ...]:
    """Return a solver's number in `registered`, the damping, nq, and the shape of a target."""
    made = _number(self, None, lambda: DifferentiableSolver.of(self))
    return made, check_damping(damping), self.robot.nq, *registered[made].target_shape


def _frames_as_constants(self: Robot, frame: FrameNames, lambda2: float) -> tuple[Any, ...]:
    """Return the frames' number in `registered`, the damping, nq, and the axis of the frames."""
    key = frame if frame is None or isinstance(frame, str) else tuple(frame)
    made = _number(self, key, lambda: DifferentiableFrames.of(self, frame))
    return made, check_lambda2(lambda2), self.nq, *registered[made].axes


# `torch.compile` treats the results of these functions as constants. Before PyTorch 2.11 they must
# be methods, because it does not treat arguments that are solvers or robots as constants, and they
# must return tuples of numbers.
for _class, _method in ((Solver, _as_constants), (Robot, _frames_as_constants)):
    # The same as torch.compiler.assume_constant_result, which takes seconds to import the compiler.
    vars(_method)["_dynamo_marked_constant"] = True
    setattr(_class, _method.__name__, _method)


def solver_constants(solver: Any, damping: float) -> tuple[int, float, tuple[int, ...], int]:
    """Return a solver's number in `registered`, the damping, the shape of a target, and nq."""
    check_solver(solver)
    number, damping, nq, *shape = solver._as_constants(damping)
    return number, damping, tuple(shape), nq


def frame_constants(
    robot: Any, frame: FrameNames, lambda2: float = 1.0
) -> tuple[int, float, tuple[int, ...], int]:
    """Return the frames' number in `registered`, the damping, the axis of the frames, and nq."""
    check_robot(robot)
    number, lambda2, nq, *axes = robot._frames_as_constants(frame, lambda2)
    return number, lambda2, tuple(axes), nq


def checked(name: str, given: Any, tail: tuple[int, ...], like: Tensor | None = None) -> Tensor:
    """Return a tensor (..., *tail) of float32 or float64, on the device and of the type of `like`.

    Raises:
        InputError: The argument is not a tensor of this type, shape and device.
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


def host(tensor: Tensor) -> Any:
    """Return a tensor as an array of NumPy."""
    return tensor.detach().cpu().numpy()


def tensor_of(array: Any, like: Tensor) -> Tensor:
    """Return an array as a new tensor on the device and of the type of `like`."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device, like.dtype)


def is_on_gpu(tensor: Tensor) -> bool:
    """Return whether a tensor is in the memory of a GPU."""
    return bool(tensor.is_cuda)


def run_kernel(
    name: str, frames: DifferentiableFrames, q: Tensor, *shapes: Any, **given: Any
) -> Any:
    """Run a CUDA kernel of gradients on the current stream of PyTorch."""
    from supple.ik.gpu.gradients import run  # NVIDIA's packages are optional

    stream = torch.cuda.current_stream(q.device).cuda_stream
    return run(frames, name, q, shapes, stream, **given)


def refuse(*_: Any) -> Any:
    """Raise the error for a second derivative; the autograd formula of all gradient operators."""
    raise InputError("supple.torch has first derivatives only; given: a derivative of a gradient")


def batched(size: int, dims: Any, *tensors: Tensor) -> list[Tensor]:
    """Return the tensors of a call in `torch.vmap` with the mapped axis first."""
    return [
        tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, dims, strict=False)
    ]


class Operator:
    """An operator of PyTorch, supple::NAME, for tensors on any device.

    `torch.library.custom_op` makes the same operator, but imports PyTorch's compiler, which takes
    seconds, when the operator is called for the first time, and each call takes longer.

    Args:
        name: The name.
        schema: Arguments and results of the operator.
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
        """Call the operator."""
        return self.overload(*given)


def operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Operator]:
    """Return a decorator that makes a function an operator."""
    return partial(Operator, name, schema)


def expanded(name: str, given: Tensor, lead: Any, tail: tuple[int, ...]) -> Tensor:
    """Return a tensor that is broadcast to the shape (*lead, *tail)."""
    try:
        return given.expand(*lead, *tail)
    except RuntimeError:
        raise InputError(
            f"{name} must have the batch axes {tuple(lead)}, or broadcast to them; given: "
            f"{tuple(given.shape)}"
        ) from None
