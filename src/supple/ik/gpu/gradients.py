"""Gradients of kinematics, steps and solutions as CUDA kernels, on tensors of PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.gpu.runtime import compile_source
from supple.gpu.source import source
from supple.ik.adjoints import AT_LIMIT, DifferentiableFrames
from supple.kinematics.gpu_frames import REAL, gpu_frames

KERNELS = ("fk_backward", "jacobian_backward", "solve_backward", "step_forward", "step_backward")
_THREADS = 64  # number of threads in a block: few, because each needs many registers
_ADDRESSES = ("q", "twist", "bar", "success", "result", "other")
_HUGE = 2.0**1023  # instead of an infinite limit


class Request(ctypes.Structure):
    """Mirrors `Request` in gradients.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _ADDRESSES),
        ("count", ctypes.c_longlong),
        ("parameter", ctypes.c_double),
    )


class GpuGradients:
    """The gradients of some frames of a robot on one GPU, compiled for each dtype on first use.

    Attributes:
        positions: Whether targets of solutions are positions, not poses.
        scale: Scales of the coordinates q / scale, in which solutions move as little as possible;
            () if all are 1.
    """

    def __init__(
        self,
        frames: DifferentiableFrames,
        positions: bool,
        scale: tuple[float, ...],
        device: str,
    ) -> None:
        self._frames = gpu_frames(frames.robot, frames.frame, "world", device)
        self._robot, self.positions, self.scale = frames.robot, positions, scale
        self._kernels: dict[np.dtype[Any], dict[str, Any]] = {}

    def text(self, dtype: np.dtype[Any]) -> str:
        """Return the CUDA source for one dtype."""
        arrays: dict[str, Any] = {
            "lower": self._robot.lower,
            "upper": self._robot.upper,
            "scale": self.scale,
        }
        joints = "\n".join(
            f"  static constexpr double {name}[] = {{{_numbers(values)}}};"
            if len(values)
            else f"  static constexpr const double* {name} = nullptr;"
            for name, values in arrays.items()
        )
        given = (
            f"using Real = {REAL[dtype]};\nnamespace supple {{\n"
            f"constexpr bool positions = {str(self.positions).lower()};\n"
            f"constexpr double slack = {AT_LIMIT.hex()};\n"
            f"struct Joints {{\n{joints}\n}};\n}}  // namespace supple\n"
        )
        return source("gradients.cu", given + self._frames.constants)

    def launch(self, name: str, dtype: np.dtype[Any], request: Request, stream: int) -> None:
        """Queue a CUDA kernel on a stream."""
        frames = self._frames
        frames.device.use()
        if dtype not in self._kernels:
            code = compile_source(self.text(dtype), frames.architecture, accurate_sines=True)
            self._kernels[dtype] = frames.device.load(code, KERNELS)
        blocks, kernel = -(-request.count // _THREADS), self._kernels[dtype][name]
        frames.device.launch(kernel, blocks, _THREADS, stream, request)


def _numbers(values: Any) -> str:
    return ", ".join(float(x).hex() for x in np.clip(values, -_HUGE, _HUGE))


def run(
    frames: DifferentiableFrames,
    name: str,
    q: Any,
    shapes: Sequence[tuple[int, ...] | None],
    stream: int,
    *,
    parameter: float = 0.0,
    positions: bool = False,
    scale: Any = None,
    **given: Any,
) -> list[Any]:
    """Return the results of a CUDA kernel of `KERNELS`, asynchronously on a stream.

    Args:
        frames: The frames.
        name: Name of the CUDA kernel.
        q: Configurations (..., nq), a tensor of PyTorch of float32 or float64 in GPU memory.
        shapes: The shapes of one or two results, which have the type of q; None for a result that
            is not wanted.
        stream: The CUDA stream.
        parameter: The damping λ² of a step; for a solution, its damping relative to the norm of J.
        positions: Whether targets of solutions are positions, not poses.
        scale: Scales of the coordinates q / scale, in which solutions move as little as possible;
            None if all are 1.
        given: Further tensors, by names of members of `Request`. All except `success` have the
            type of q.
    """
    made = [None if shape is None else q.new_empty(shape) for shape in shapes]
    read = {key: one.detach().contiguous() for key, one in {"q": q, **given}.items()}
    count = q.numel() // q.shape[-1]
    if not count:
        return made
    dtype = np.dtype(np.float32 if q.dtype.itemsize == 4 else np.float64)
    at = dict.fromkeys(_ADDRESSES, 0) | {key: one.data_ptr() for key, one in read.items()}
    at |= {
        key: one.data_ptr()
        for key, one in zip(("result", "other"), made, strict=False)
        if one is not None
    }
    request = Request(*at.values(), count, parameter)
    scales = () if scale is None else tuple(map(float, scale))
    known = gradients(frames, positions, scales, f"cuda:{q.device.index or 0}")
    known.launch(name, dtype, request, stream)
    return made


def gradients(
    frames: DifferentiableFrames, positions: bool, scale: tuple[float, ...], device: str
) -> GpuGradients:
    """Return the gradients of frames on a GPU; the robot keeps them for later calls."""
    kept: dict[Any, GpuGradients] = vars(frames.robot).setdefault("_gpu_gradients", {})
    key = (frames.frame, positions, scale, device)
    found = kept.get(key)
    if found is None:  # several threads may make it, and all get the first one
        found = kept.setdefault(key, GpuGradients(frames, positions, scale, device))
    return found
