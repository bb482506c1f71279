"""Convert targets and seeds in GPU memory to the kernel's layout, asynchronously."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from supple.errors import InputError
from supple.gpu.arrays import DeviceArrayView, GpuArray, seen
from supple.gpu.runtime import Device, Memory, compile_source
from supple.gpu.source import source
from supple.ik.problem import CompiledProblem
from supple.tasks import AxisTask, OrientationTask, PoseTask, PositionTask, Task

# The value of `Kind` in targets.cu for tasks whose targets are converted.
KINDS: dict[type[Task], int] = {PoseTask: 0, PositionTask: 1, AxisTask: 2, OrientationTask: 3}
PLAIN = 4  # `Kind` of values that are copied unchanged: other targets, and seeds
_MAX_AXES = 8  # maximum number of batch axes, the length of `View.size`
_DTYPES = (np.float64, np.float32)


class View(ctypes.Structure):
    """Mirrors `View` of targets.cu: the same members in the same order."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("axes", "floats", "rows", "columns")),
        ("size", ctypes.c_longlong * _MAX_AXES),
        ("step", ctypes.c_longlong * _MAX_AXES),
        ("row", ctypes.c_longlong),
        ("column", ctypes.c_longlong),
    )


class Reader:
    """A converter of targets and seeds in the memory of one GPU to the kernel's layout."""

    def __init__(self, problem: CompiledProblem, device: Device, architecture: str) -> None:
        self.problem, self.device = problem, device
        self._kernel = _kernel(device, architecture)

    def targets(
        self, given: Sequence[object], stream: int, max_count: int
    ) -> tuple[tuple[int, ...], Memory]:
        """Return the batch axes, and the targets in the kernel's layout (count, k) in new memory.

        Raises:
            InputError: A shape does not match its task, or there are too many targets.
        """
        tasks, sizes = self.problem.layout.tasks, self.problem.layout.kernel.target_sizes
        if len(given) != len(tasks):
            raise InputError(
                f"there must be one target for each of {len(tasks)} tasks; given: {len(given)}"
            )
        each = []
        for task, i, size in zip(tasks, self.problem.order, sizes, strict=True):
            kind = next((KINDS[one] for one in type(task).__mro__ if one in KINDS), PLAIN)
            shapes = ((size,),) if kind == PLAIN else task.target_shapes
            name = "target" if len(tasks) == 1 else f"target {i}"
            each.append((kind, *self._viewed(given[i], shapes, stream, name)))
        try:
            lead = np.broadcast_shapes(*(lead for _, _, lead, _ in each))
        except ValueError:
            shown = ", ".join(str(lead) for _, _, lead, _ in each)
            raise InputError(
                f"targets must have batch axes that broadcast; given: {shown}"
            ) from None
        count = math.prod(lead)
        if count > max_count or len(lead) > _MAX_AXES:
            raise InputError(
                f"there must be at most {max_count} targets in GPU memory, with at most "
                f"{_MAX_AXES} batch axes; given: batch axes {lead}"
            )
        memory = self.device.allocate(8 * sum(sizes) * count, stream)
        first = 0
        for (kind, array, own, inner), size in zip(each, sizes, strict=True):
            view = _view(array, own, inner, lead)
            self._read(view, kind, memory.pointer + 8 * first, sum(sizes), count, stream)
            first += size
        return lead, memory

    def seeds(self, given: object, lead: tuple[int, ...], stream: int) -> GpuArray:
        """Return a copy of seeds (n,) or (..., n), because the caller may change the original.

        Raises:
            InputError: The shape is neither (n,) nor (..., n) with the batch axes of the targets.
        """
        n = self.problem.layout.robot.dof
        array, own, inner = self._viewed(given, ((n,),), stream, "q0")
        if own not in ((), lead):
            raise InputError(
                f"q0 must have the shape ({n},), or (..., {n}) with the batch axes of the targets, "
                f"{lead}; given: {array.shape}"
            )
        count = math.prod(own)
        memory = self.device.allocate(8 * n * count, stream)
        self._read(_view(array, own, inner, own), PLAIN, memory.pointer, n, count, stream)
        strides = tuple(n * math.prod(own[i + 1 :]) for i in range(len(own)))
        return GpuArray((*own, n), np.dtype(np.float64), (*strides, 1), memory.pointer, memory)

    def _viewed(
        self, given: object, shapes: Sequence[tuple[int, ...]], stream: int, name: str
    ) -> tuple[DeviceArrayView, tuple[int, ...], tuple[int, ...]]:
        array = seen(given, stream, name, dtypes=_DTYPES, strided=True)
        for inner in shapes:
            if array.shape[-len(inner) :] == inner and len(array.shape) >= len(inner):
                break
        else:
            expected = " or ".join(f"(..., {', '.join(map(str, inner))})" for inner in shapes)
            raise InputError(f"{name} must have the shape {expected}; given: {array.shape}")
        if array.device != self.device.number:
            raise InputError(
                f"{name} must be on cuda:{self.device.number}; given: on cuda:{array.device}"
            )
        return array, array.shape[: len(array.shape) - len(inner)], inner

    def _read(self, view: View, kind: int, to: int, width: int, count: int, stream: int) -> None:
        if not count:
            return
        numbers = (ctypes.c_int(kind), ctypes.c_void_p(to), ctypes.c_int(width))
        blocks, threads = -(-count // 128), 128
        self.device.launch(
            self._kernel, blocks, threads, stream, view, *numbers, ctypes.c_int(count)
        )


def _view(
    array: DeviceArrayView, own: tuple[int, ...], inner: tuple[int, ...], lead: tuple[int, ...]
) -> View:
    """Return a view of an array whose own batch axes are broadcast to the given ones."""
    strides = array.strides
    missing = len(lead) - len(own)
    along = [0] * missing + [0 if n == 1 else s for n, s in zip(own, strides, strict=False)]
    row, column = strides[-2:] if len(inner) == 2 else (0, strides[-1])
    return View(
        array.pointer,
        len(lead),
        int(array.dtype == np.float32),
        inner[0] if len(inner) == 2 else 1,
        inner[-1],
        (ctypes.c_longlong * _MAX_AXES)(*reversed(lead)),
        (ctypes.c_longlong * _MAX_AXES)(*reversed(along)),
        row,
        column,
    )


@lru_cache(maxsize=8)
def _kernel(device: Device, architecture: str) -> Any:
    code = compile_source(source("targets.cu"), architecture)
    return device.load(code, ("read",))["read"]
