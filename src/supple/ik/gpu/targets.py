"""Convert targets and seeds in GPU memory to the kernel's layout, and solutions back from it.

All calls are asynchronous.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from supple._core import TargetKind
from supple.errors import InputError
from supple.gpu.arrays import DeviceArrayView
from supple.gpu.queue import Work
from supple.gpu.runtime import Device, Memory, compile_source
from supple.gpu.source import source
from supple.ik.problem import CompiledProblem
from supple.tasks.inputs import conversion_error, kind_of_targets

_MAX_AXES = 8  # maximum number of batch axes, the length of `View.size`
DTYPES = (np.float64, np.float32)  # types of targets and seeds
KERNELS = ("read", "to_coordinates", "to_configurations")  # CUDA kernels of targets.cu


class View(ctypes.Structure):
    """Mirrors `View` of view.hpp: the same members in the same order."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("axes", "floats", "rows", "columns")),
        ("size", ctypes.c_longlong * _MAX_AXES),
        ("step", ctypes.c_longlong * _MAX_AXES),
        ("row", ctypes.c_longlong),
        ("column", ctypes.c_longlong),
    )


class Reader:
    """A converter of arrays in the memory of one GPU to and from the kernel's layout.

    The converter must live as long as the calls that are recorded with it.
    """

    def __init__(self, problem: CompiledProblem, device: Device, architecture: str) -> None:
        self.problem, self.device, self.architecture = problem, device, architecture
        self._kernels = _kernels(device, architecture)

    @cached_property
    def _balls(self) -> Memory:
        """The index of the first coordinate of each ball joint, in GPU memory."""
        gpu, places = self.device, np.array(self.problem.layout.robot._balls, np.int32)
        gpu.use()
        stream = gpu.stream()
        memory = gpu.allocate(places.nbytes, stream)
        gpu.upload(memory.pointer, places, stream)
        gpu.wait(stream)
        return memory

    def targets(
        self, given: Sequence[DeviceArrayView], work: Work, max_count: int, direct: int = 0
    ) -> tuple[tuple[int, ...], int | tuple[View, TargetKind]]:
        """Return the batch axes, and the address of targets in the kernel's layout (count, k).

        Args:
            given: One array for each task, of one of `DTYPES` and with any strides.
            work: The queue of launches that the conversion joins.
            max_count: Maximum number of targets.
            direct: Number of targets of a single task up to which the targets are not converted:
                their view and kind are returned instead of an address.

        Raises:
            InputError: A shape does not match its task, there are too many targets, or a task
                converts its targets in Python.
        """
        tasks, sizes = self.problem.layout.tasks, self.problem.layout.kernel.target_sizes
        if len(given) != len(tasks):
            raise InputError(
                f"there must be one target for each of {len(tasks)} tasks; given: {len(given)}"
            )
        each = []
        for task, i, size in zip(tasks, self.problem.order, sizes, strict=True):
            kind = kind_of_targets(task)
            if kind == TargetKind.OTHER:
                raise conversion_error("target", task)
            shapes = ((size,),) if kind == TargetKind.NUMBERS else task.target_shapes
            name = "target" if len(tasks) == 1 else f"target {i}"
            each.append((kind, given[i], *self._shapes(given[i], shapes, name)))
        try:
            lead = np.broadcast_shapes(*(own for _, _, own, _ in each))
        except ValueError:
            shown = ", ".join(str(own) for _, _, own, _ in each)
            raise InputError(
                f"targets must have batch axes that broadcast; given: {shown}"
            ) from None
        count = math.prod(lead)
        if count > max_count or len(lead) > _MAX_AXES:
            raise InputError(
                f"there must be at most {max_count} targets in GPU memory, with at most "
                f"{_MAX_AXES} batch axes; given: batch axes {lead}"
            )
        if count <= direct and len(each) == 1:
            ((kind, array, own, inner),) = each
            return lead, (_view(array, own, inner, lead), kind)
        memory = work.scratch(8 * sum(sizes) * count)
        first = 0
        for (kind, array, own, inner), size in zip(each, sizes, strict=True):
            view = _view(array, own, inner, lead)
            self._read(view, kind, memory.pointer + 8 * first, sum(sizes), count, work)
            first += size
        return lead, memory.pointer

    def seeds(self, given: DeviceArrayView, lead: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape (nq,) or (..., nq) of seeds.

        Raises:
            InputError: The shape is neither (nq,) nor (..., nq) with the batch axes of the targets.
        """
        n = self.problem.layout.robot.nq
        own, _ = self._shapes(given, ((n,),), "q0")
        if own not in ((), lead):
            raise InputError(
                f"q0 must have the shape ({n},), or (..., {n}) with the batch axes of the targets, "
                f"{lead}; given: {given.shape}"
            )
        return (*own, n)

    def copy_seeds(self, given: DeviceArrayView, to: int, work: Work) -> int:
        """Copy seeds to an address, in double; return their address in the kernel's layout."""
        self.copy(given, to, work)
        robot, count = self.problem.layout.robot, math.prod(given.shape[:-1])
        if robot.nq == robot.nv:
            return to
        made = work.scratch(8 * robot.nv * count).pointer
        self._convert("to_coordinates", to, made, count, work)
        return made

    def copy(self, given: DeviceArrayView, to: int, work: Work, width: int = 0) -> None:
        """Copy rows (..., k) to an address, in double precision, with the row stride `width`."""
        *own, n = given.shape
        view = _view(given, tuple(own), (n,), tuple(own))
        self._read(view, TargetKind.NUMBERS, to, width or n, math.prod(own), work)

    def coordinates(self, q: int, count: int, work: Work) -> int:
        """Return an address for solutions; `configurations` then converts them to q (count, nq)."""
        robot = self.problem.layout.robot
        return q if robot.nq == robot.nv else work.scratch(8 * robot.nv * count).pointer

    def configurations(self, x: int, q: int, count: int, work: Work) -> None:
        """Convert solutions at the address x, from `coordinates`, to q (count, nq)."""
        if x != q:
            self._convert("to_configurations", x, q, count, work)

    def _convert(self, name: str, given: int, to: int, count: int, work: Work) -> None:
        if not count:
            return
        robot = self.problem.layout.robot
        addresses = (ctypes.c_void_p(given), ctypes.c_void_p(self._balls.pointer))
        sizes = (ctypes.c_int(len(robot._balls)), ctypes.c_int(robot.nv))
        arguments = (*addresses, *sizes, ctypes.c_void_p(to), ctypes.c_int(count))
        work.launch(self._kernels[name], -(-count // 128), 128, *arguments)

    def _shapes(
        self, array: DeviceArrayView, shapes: Sequence[tuple[int, ...]], name: str
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the batch axes of an array and the shape of one target."""
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
        return array.shape[: len(array.shape) - len(inner)], inner

    def _read(
        self, view: View, kind: TargetKind, to: int, width: int, count: int, work: Work
    ) -> None:
        if not count:
            return
        numbers = (ctypes.c_int(kind.value), ctypes.c_void_p(to), ctypes.c_int(width))
        work.launch(
            self._kernels["read"], -(-count // 128), 128, view, *numbers, ctypes.c_int(count)
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
def _kernels(device: Device, architecture: str) -> dict[str, Any]:
    return device.load(compile_source(source("targets.cu"), architecture), KERNELS)
