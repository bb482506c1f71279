"""Joint velocities of many robots toward targets, on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._core import TargetKind
from supple.control.target_velocities import TargetVelocityIk, raise_not_valid
from supple.errors import InputError, short_repr
from supple.gpu.arrays import seen, stream_of
from supple.gpu.libraries import KINDS, given_result, new_result, readable
from supple.gpu.runtime import compile_source, device_named, open_device
from supple.gpu.source import block_size, source
from supple.kinematics import Robot
from supple.tasks import Task
from supple.tasks.inputs import (
    conversion_error,
    input_spec,
    kind_of_targets,
    one_per_task,
    task_name,
)
from supple.tasks.layout import compile_tasks

_REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
THREADS = block_size("whole_body.cu", "reach")  # number of threads in a block
_MAX_COUNT = 2**30  # maximum number of robots per call
_ZERO, _ONE = -1, -2  # places of constants in a target


@dataclass(frozen=True)
class Places:
    """For each number of a target in the kernel, its place in the caller's array.

    Attributes:
        shape: Shape of one target.
        place: For each number of the kernel, its place in the flattened target; `_ZERO` or `_ONE`
            for a constant.
    """

    shape: tuple[int, ...]
    place: tuple[int, ...]


def places_of(task: Task, robot: Robot) -> tuple[Places, ...]:
    """Return the forms that the target of a task may have in GPU memory."""
    kind = kind_of_targets(task)
    if kind == TargetKind.OTHER:
        raise conversion_error("target", task)
    rotation = tuple(3 * row + column for column in range(3) for row in range(3))
    turned = tuple(4 * row + column for column in range(3) for row in range(3))
    still = tuple(_ONE if row == column else _ZERO for column in range(3) for row in range(3))
    if kind == TargetKind.POSE:
        return (Places((4, 4), (*turned, 3, 7, 11)),)
    if kind == TargetKind.POSITION:
        return (Places((3,), (*still, 0, 1, 2)),)
    if kind == TargetKind.ORIENTATION:  # positions do not matter
        none = (_ZERO,) * 3
        return (Places((3, 3), rotation + none), Places((4, 4), turned + none))
    (size,) = compile_tasks(robot, (task,)).kernel.target_sizes
    own = Places((size,), tuple(range(size)))
    whole = tuple(input_spec(task, robot, size).positions)
    return (own, Places((robot.nq,), whole)) if whole else (own,)


def request_type(tasks: int) -> type[ctypes.Structure]:
    """Return the mirror of `Request` in whole_body.cu: the same members in the same order."""

    class Request(ctypes.Structure):
        _fields_ = (
            ("q", ctypes.c_void_p),
            ("qd", ctypes.c_void_p),
            ("target", ctypes.c_void_p * tasks),
            ("stride", ctypes.c_longlong * tasks),
            ("result", ctypes.c_void_p),
            ("listed", ctypes.c_void_p),
            ("count", ctypes.c_int),
        )

    return Request


def text_of(
    prepared: TargetVelocityIk, dtype: np.dtype[Any], forms: tuple[Places, ...], options: str = ""
) -> str:
    """Return the CUDA source of a step for one type of arrays and the forms of the targets."""
    place = ", ".join(str(one) for form in forms for one in form.place)
    sizes = np.cumsum([0, *(len(form.place) for form in forms)])[:-1]
    offset = ", ".join(map(str, sizes))
    given = (
        f"using Real = {_REAL[dtype]};\n"
        f"struct Places {{\n  static constexpr int offset[] = {{{offset}}};\n"
        f"  static constexpr int place[] = {{{place}}};\n}};\n"
    )
    options += f"#define SUPPLE_MULTIPLIERS {prepared.multipliers}\n"
    return options + source("whole_body.cu", given + prepared.kernel.constants())


class GpuTargetVelocityIk:
    """A step toward targets on a GPU, compiled for each type of arrays on first use."""

    def __init__(self, prepared: TargetVelocityIk, number: int, architecture: str) -> None:
        self.prepared, self.architecture = prepared, architecture
        self.device = open_device(number)
        self._request = request_type(len(prepared.layout.tasks))
        self._kernels: dict[Any, list[tuple[Any, int]]] = {}

    def kernels(self, dtype: np.dtype[Any], forms: tuple[Places, ...]) -> list[tuple[Any, int]]:
        """Return the CUDA kernels for a type, each with the number of blocks that run together."""
        key = dtype, forms
        if key not in self._kernels:
            text = text_of(self.prepared, dtype, forms)
            code = compile_source(text, self.architecture, accurate_sines=True)
            loaded = self.device.load(code, ("reach", "limit")).values()
            self._kernels[key] = [(one, self.device.resident(one, THREADS)) for one in loaded]
        return self._kernels[key]

    def resolve(self, q: Any, target: Any, qd: Any, out: Any, stream: Any) -> NDArray[Any]:
        """Return q̇ (..., nv) for arrays in host memory, after waiting for the GPU."""
        prepared, gpu = self.prepared, self.device
        if stream is not None:
            raise InputError(f"stream is for arrays in GPU memory; given: {short_repr(stream)}")
        at, goals, before = prepared.numbers(q, target, qd)
        speeds, returned = prepared.result(q, at.shape[:-1], out)
        if not at.size:
            return returned()
        on = gpu.stream()
        gpu.use()
        arrays = [one for one in (at, goals, before) if one is not None]
        memory = [gpu.allocate(one.nbytes, on) for one in (*arrays, speeds)]
        for one, to in zip(arrays, memory, strict=False):
            gpu.upload(to.pointer, one, on)
        first = [one.pointer for one in memory]
        sizes = prepared.layout.kernel.target_sizes
        forms = tuple(Places((size,), tuple(range(size))) for size in sizes)
        starts = np.cumsum([0, *sizes])[:-1].tolist()
        given = ~np.isnan(goals.reshape(-1, goals.shape[-1])[0, starts])
        pointers = [
            first[1] + 8 * start if has else 0 for start, has in zip(starts, given, strict=True)
        ]
        speed = 0 if before is None else first[2]
        count = at.size // at.shape[-1]
        self.launch(
            at.dtype,
            forms,
            first[0],
            speed,
            pointers,
            [goals.shape[-1]] * len(sizes),
            first[-1],
            count,
            on,
        )
        gpu.download(speeds, first[-1], on)
        for row in np.flatnonzero(~np.isfinite(speeds).all(axis=-1).ravel())[:1]:
            raise_not_valid(at, int(row))
        return returned()

    def resolve_on_device(self, q: Any, target: Any, qd: Any, out: Any, stream: Any) -> Any:
        """Queue the step on a stream; return q̇ (..., nv) in GPU memory without waiting."""
        layout, gpu = self.prepared.layout, self.device
        robot, tasks = layout.robot, layout.tasks
        gpu.use()
        q = readable(q, "q")
        on = stream_of(stream, (q,))
        at = seen(q, on, "q", dtypes=KINDS)
        lead, count = at.shape[:-1], int(np.prod(at.shape[:-1]))
        if at.shape[-1:] != (robot.nq,) or at.device != gpu.number or count > _MAX_COUNT:
            raise InputError(
                f"q must be up to {_MAX_COUNT} configurations (..., {robot.nq}) on "
                f"cuda:{gpu.number}; given: {at.shape} on cuda:{at.device}"
            )
        goals = (target,) if self.prepared.single else _one_per_task(target, tasks)
        forms, pointers, strides, kept = [], [], [], []
        for task, goal in zip(tasks, goals, strict=True):
            possible = places_of(task, robot)
            if goal is None:
                forms.append(possible[0])
                pointers.append(0)
                strides.append(0)
                continue
            name = f"the target of {task_name(task)}"
            view = seen(readable(goal, name), on, name, dtypes=KINDS)
            fitting = [
                (form, size)
                for form in possible
                for size in (0, int(np.prod(form.shape)))
                if view.shape == ((*lead, *form.shape) if size else form.shape)
            ]
            if not fitting or (view.dtype, view.device) != (at.dtype, at.device):
                shapes = " or ".join(f"{(*lead, *form.shape)}" for form in possible)
                raise InputError(
                    f"the target of {task_name(task)} must be {shapes}, or one for all robots, "
                    f"{at.dtype} on cuda:{at.device}, as q is; given: {view.shape}, {view.dtype} "
                    f"on cuda:{view.device}"
                )
            form, size = fitting[0]
            forms.append(form)
            pointers.append(view.pointer)
            strides.append(size)
            kept.append(view)
        before = 0
        if self.prepared.brakes:
            speed = seen(readable(qd, "qd"), on, "qd", dtypes=KINDS)
            if (speed.shape, speed.dtype, speed.device) != (
                (*lead, robot.nv),
                at.dtype,
                at.device,
            ):
                raise InputError(
                    f"qd must be {(*lead, robot.nv)}, {at.dtype} on cuda:{at.device}, as q is; "
                    f"given: {speed.shape}, {speed.dtype} on cuda:{speed.device}"
                )
            before = speed.pointer
            kept.append(speed)
        shape = (*lead, robot.nv)
        if out is None:
            result = new_result(q, shape, at.dtype, gpu, on)
        else:
            result = given_result(out, shape, at.dtype, gpu, on, "out")
        self.launch(
            at.dtype, tuple(forms), at.pointer, before, pointers, strides, result.pointer, count, on
        )
        return result.returned()

    def launch(
        self,
        dtype: np.dtype[Any],
        forms: tuple[Places, ...],
        q: int,
        qd: int,
        targets: list[int],
        strides: list[int],
        out: int,
        count: int,
        stream: int,
    ) -> None:
        """Launch the CUDA kernels on a stream, asynchronously, given addresses in GPU memory."""
        if not count:
            return
        tasks, gpu = len(targets), self.device
        (reach, most), (limit, most_limited) = self.kernels(dtype, forms)
        listed = gpu.allocate(4 * (2 + 2 * count), stream)
        gpu.zero(listed.pointer, 8, stream)
        request = self._request(
            q,
            qd,
            (ctypes.c_void_p * tasks)(*targets),
            (ctypes.c_longlong * tasks)(*strides),
            out,
            listed.pointer,
            count,
        )
        blocks = -(-count // THREADS)
        gpu.launch(reach, min(blocks, most), THREADS, stream, request)
        for number in range(2):
            at = ctypes.c_int(number)
            gpu.launch(limit, min(blocks, most_limited), THREADS, stream, request, at)


def _one_per_task(given: Any, tasks: tuple[Task, ...]) -> Sequence[Any]:
    """Return the targets, one for each task.

    Raises:
        InputError: There is not one target for each task.
    """
    if isinstance(given, list | tuple) and len(given) == len(tasks):
        return given
    raise InputError(f"{one_per_task('target', tasks)}; given: {short_repr(given)}")


@lru_cache(maxsize=32)
def on_device(prepared: TargetVelocityIk, device: str) -> GpuTargetVelocityIk:
    """Return a step prepared for a GPU; results are cached."""
    number, info = device_named(device)
    return GpuTargetVelocityIk(prepared, number, info.architecture)
