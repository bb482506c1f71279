"""Linearizations at configurations in GPU memory, and steps from them; all calls are asynchronous.

`supple.linearize` calls `resolve` for arrays in GPU memory.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from supple.control.velocity_ik import GeneralVelocityIk, velocity_ik
from supple.errors import InputError, short_repr
from supple.gpu.arrays import DeviceArrayView, layout_of, seen, stream_of
from supple.gpu.device import each_on_gpu
from supple.gpu.libraries import KINDS, in_host_memory, new_result, readable
from supple.gpu.queue import Recorded, Recording, given_array
from supple.gpu.runtime import compile_source, device_named, open_device
from supple.gpu.source import block_size, source
from supple.ik.gpu.targets import Reader
from supple.ik.problem import CompiledProblem, compile_problem
from supple.kinematics import Robot
from supple.motion.linearization import Linearization
from supple.tasks import Task, as_tasks
from supple.tasks.inputs import common_shapes, conversion_error, reads_velocities

_THREADS = block_size("linearize.cu", "linearize")  # number of threads in a block
_STEP_THREADS = block_size("steps.cu", "apply")
_MAX_COUNT = 2**30  # maximum number of configurations of a call
_MAX_KEPT = 64  # maximum number of layouts of arrays whose calls are kept
_REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
_Layout = tuple[tuple[Any, ...], ...]


class Request(ctypes.Structure):
    """Mirrors `Request` in linearize.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "target", "velocity", "J", "e")),
        ("count", ctypes.c_longlong),
        ("velocities", ctypes.c_int),
    )


class StepRequest(ctypes.Structure):
    """Mirrors `StepRequest` in steps.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("J", "e", "dq")),
        ("count", ctypes.c_longlong),
    )


class GpuLinearization(Linearization):
    """A linearization whose J, e and q are in GPU memory, arrays of the library of q.

    A step that the kernel implements returns q̇ (..., n) in GPU memory. All other quantities need
    arrays in host memory, which `numpy()` returns.
    """

    _at: dict[str, int]  # addresses of J and e
    _like: Any  # q
    _given: tuple[Robot, tuple[Task, ...], str, np.dtype[Any]]  # with the name of the GPU

    def __init__(
        self, layout: Any, arrays: dict[str, Any], at: dict[str, int], like: Any, given: Any
    ) -> None:
        self.__dict__.update(dict.fromkeys(("before", "qd", "bias_acceleration")))
        self.__dict__.update(arrays | {"rows": layout.rows, "effectors": layout.all_effectors})
        self.__dict__.update(_at=at, _like=like, _given=given)

    def numpy(self) -> Linearization:
        """Return a copy in host memory; waits for the GPU."""
        J, e, q = (in_host_memory(one) for one in (self.J, self.e, self.q))
        return Linearization(J, e, rows=self.rows, q=q, effectors=self.effectors)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The batch axes; () for one linearization."""
        return tuple(self.J.shape[:-2])

    def _in_host_memory(self, what: str) -> Any:
        raise InputError(
            f"{what} needs arrays in host memory: use numpy(); given: a linearization in GPU memory"
        )

    def single(self) -> Linearization:
        """Raise an error: quantities of one linearization are computed on the CPU."""
        raise self._in_host_memory("this quantity or step")

    def __getitem__(self, index: Any) -> Linearization:
        raise self._in_host_memory("an index")

    @property
    def _svd(self) -> Any:
        return self._in_host_memory("a singular value decomposition")

    @property
    def velocity(self) -> Any:
        """Raise an error: q̇ is not known here."""
        return self._in_host_memory("velocity")

    def __repr__(self) -> str:
        m, n = self.J.shape[-2:]
        shown = f"a batch {self.batch_shape}, " if self.batch_shape else ""
        return f"<Linearization in GPU memory: {shown}{m} rows, {n} joints>"

    def stepped(self, step: Any) -> Any:
        """Return q̇ (..., n) of a step of the kernel."""
        robot, tasks, device, dtype = self._given
        gpu, kernel = _step_kernel(step, robot, tasks, device, dtype)
        gpu.use()
        stream = stream_of(None, (self.J,))
        lead = self.batch_shape
        result = new_result(self._like, (*lead, robot.nv), dtype, gpu, stream)
        request = StepRequest(self._at["J"], self._at["e"], result.pointer, math.prod(lead))
        if request.count:
            blocks = -(-request.count // _STEP_THREADS)
            gpu.launch(kernel, blocks, _STEP_THREADS, stream, request)
        return result.returned()


@lru_cache(maxsize=64)
def _step_kernel(
    step: Any, robot: Robot, tasks: tuple[Task, ...], device: str, dtype: np.dtype[Any]
) -> Any:
    prepared = velocity_ik(robot, tasks, step, None, None)
    if isinstance(prepared, GeneralVelocityIk):
        names = ", ".join(type(task).__name__ for task in tasks)
        raise InputError(f"steps on a GPU take tasks of frames only; given: {names}")
    number, info = device_named(device)
    gpu = open_device(number)
    gpu.use()
    text = source("steps.cu", f"using Real = {_REAL[dtype]};\n{prepared.kernel.constants()}")
    code = compile_source(text, info.architecture, accurate_sines=True)
    return gpu, gpu.load(code, ("apply",))["apply"]


class _Linearizer:
    """The tasks of a robot on one GPU, compiled for each dtype on first use."""

    def __init__(self, problem: CompiledProblem, device: str) -> None:
        number, info = device_named(device)
        self.problem, self.device = problem, open_device(number)
        self._architecture = info.architecture
        self.device.use()
        self.reader = Reader(problem, self.device, info.architecture)
        self._kernels: dict[np.dtype[Any], Any] = {}
        self._calls: dict[_Layout, Recorded] = {}

    def kernel(self, dtype: np.dtype[Any]) -> Any:
        """Return the CUDA kernel for a dtype of q."""
        if dtype not in self._kernels:
            text = f"using Real = {_REAL[dtype]};\n{self.problem.kernel.constants()}"
            code = compile_source(
                source("linearize.cu", text), self._architecture, accurate_sines=True
            )
            self._kernels[dtype] = self.device.load(code, ("linearize",))["linearize"]
        return self._kernels[dtype]

    def call(
        self,
        q: DeviceArrayView,
        targets: Sequence[DeviceArrayView],
        velocities: Sequence[DeviceArrayView],
    ) -> Recorded:
        """Return the recorded call for arrays of these layouts."""
        views = (q, *targets, *velocities)
        key = (len(targets), *((str(one.dtype), one.shape, one.strides) for one in views))
        known = self._calls.get(key)  # type: ignore[arg-type]
        if known is None:
            if len(self._calls) >= _MAX_KEPT:
                self._calls.clear()
            known = self._calls[key] = self._record(q, targets, velocities)  # type: ignore[index]
        return known

    def _record(
        self,
        q: DeviceArrayView,
        targets: Sequence[DeviceArrayView],
        velocities: Sequence[DeviceArrayView],
    ) -> Recorded:
        recording, reader = Recording(self.device), self.reader
        lead, inputs = q.shape[:-1], 1 + len(targets) + len(velocities)
        count, own = math.prod(lead), [given_array(i) for i in range(inputs + 2)]
        tasks = self.problem.layout.tasks
        request = Request(own[0], None, None, own[inputs], own[inputs + 1], count, 0)
        if targets:
            wide = [
                _wide(replace(one, pointer=own[1 + i]), lead, tasks[i].target_shapes, "target")
                for i, one in enumerate(targets)
            ]
            at, number = reader.targets(wide, recording, _MAX_COUNT, -1)
            assert isinstance(number, int)
            assert at == lead
            request.target = number
        if velocities:
            sizes = self.problem.layout.kernel.velocity_sizes
            to = recording.scratch(8 * sum(sizes) * count).pointer
            recording.zero(to, 8 * sum(sizes) * count)
            first = 0
            for i, (task, size, one) in enumerate(zip(tasks, sizes, velocities, strict=True)):
                if not reads_velocities(task):
                    raise conversion_error("velocity", task)
                shape = task.velocity_shape
                moved = replace(one, pointer=own[1 + len(targets) + i])
                view = _wide(moved, lead, (shape,), "velocity")
                place = task.input_spec(self.problem.layout.robot, one.shape[-1]).velocity_begin
                reader.copy(view, to + 8 * (first + place), recording, sum(sizes))
                first += size
            request.velocity, request.velocities = to, sum(sizes)
        if count:
            kernel = self.kernel(q.dtype)
            recording.launch(kernel, -(-count // _THREADS), _THREADS, request)
        return recording.recorded()


def _wide(
    view: DeviceArrayView, lead: tuple[int, ...], shapes: Sequence[tuple[int, ...]], name: str
) -> DeviceArrayView:
    """Return a view whose batch axes are broadcast to the batch axes of q."""
    for shape in shapes:
        own = view.shape[: len(view.shape) - len(shape)]
        if view.shape[len(own) :] == shape:
            break
    else:
        expected = " or ".join(f"(..., {', '.join(map(str, one))})" for one in shapes)
        raise InputError(f"{name} must have the shape {expected}; given: {view.shape}")
    missing = len(lead) - len(own)
    if missing < 0 or any(n not in (1, m) for n, m in zip(own, lead[missing:], strict=True)):
        raise InputError(
            f"{name} must have the batch axes of q, {lead}, or broadcast to them; given: {own}"
        )
    steps = [0 if n == 1 else s for n, s in zip(own, view.strides, strict=False)]
    strides = (*([0] * missing), *steps, *view.strides[len(own) :])
    return replace(view, shape=(*lead, *shape), strides=strides, dense=False)


@lru_cache(maxsize=32)
def _linearizer(problem: CompiledProblem, device: str) -> _Linearizer:
    return _Linearizer(problem, device)


def resolve(
    robot: Robot, tasks: Any, q: Any, target: Any, velocity: Any, qd: Any, threads: int | None
) -> Linearization:
    """Return the linearization of tasks at configurations in GPU memory.

    The arguments are those of `supple.linearize`, all in GPU memory.

    Raises:
        InputError: An argument is malformed, or not available on a GPU.
    """
    if qd is None and threads is None:
        again = _repeated(robot, tasks, q, target, velocity)
        if again is not None:
            return again
    for name, given in (("qd", qd), ("threads", threads)):
        if given is not None:
            raise InputError(
                f"{name} is for arrays in host memory only; given: {short_repr(given)}"
            )
    each = as_tasks(tasks)
    for task in each:
        if task.is_preference or not task.velocity_shape:
            raise InputError(
                "a linearization in GPU memory takes tasks of frames and centers of mass; given: "
                f"{type(task).__name__}"
            )
    problem = compile_problem(robot, each)
    given_q = q
    q = readable(q, "q")
    stream = stream_of(None, (q,))
    at = seen(q, stream, "q", dtypes=KINDS)
    lead = at.shape[:-1]
    if at.shape[-1:] != (robot.nq,) or math.prod(lead) > _MAX_COUNT:
        raise InputError(
            f"q must be at most {_MAX_COUNT} configurations ({robot.nq},) or (..., {robot.nq}); "
            f"given: an array of shape {at.shape}"
        )
    device, layout = f"cuda:{at.device}", problem.layout
    targets = _views(target, "target", layout.tasks, common_shapes(layout.tasks), stream)
    shapes = [(task.velocity_shape,) for task in layout.tasks]
    common = shapes[0] if len(set(shapes)) == 1 else ()
    velocities = _views(velocity, "velocity", layout.tasks, common, stream)
    linearizer, views = _linearizer(problem, device), (at, *targets, *velocities)
    call = _Call(linearizer, linearizer.call(at, targets, velocities), each, device, lead, at.dtype)
    if q is given_q and len(each) == 1:
        call.keep(robot, tasks, q, target, velocity)
    return call(robot, q, stream, [one.pointer for one in views])


@dataclass(frozen=True)
class _Call:
    """An earlier call that can be repeated with other arrays of the same layout."""

    linearizer: _Linearizer
    recorded: Recorded
    tasks: tuple[Task, ...]
    device: str
    lead: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(self, robot: Robot, q: Any, stream: int, pointers: Sequence[int]) -> Linearization:
        """Queue the call on a stream, with the addresses of its arrays."""
        gpu, layout = self.linearizer.device, self.linearizer.problem.layout
        gpu.use()
        tails = (len(layout.rows), robot.nv), (len(layout.rows),)
        J, e = (new_result(q, (*self.lead, *tail), self.dtype, gpu, stream) for tail in tails)
        self.recorded.run(stream, [*pointers, J.pointer, e.pointer])
        arrays = {"J": J.returned(), "e": e.returned(), "q": q}
        given = (robot, self.tasks, self.device, self.dtype)
        return GpuLinearization(layout, arrays, {"J": J.pointer, "e": e.pointer}, q, given)

    def keep(self, robot: Robot, tasks: Any, *arrays: Any) -> None:
        """Let the robot keep the call for other arrays of PyTorch or CuPy with this layout."""
        read = _layouts(tasks, arrays)
        if read is not None:
            known = vars(robot).setdefault("_gpu_linearizations", {})
            if len(known) >= _MAX_KEPT:
                known.clear()
            known[read[0]] = self


def _repeated(robot: Robot, tasks: Any, *arrays: Any) -> Linearization | None:
    """Return the linearization by a call that the robot has kept, if there is one."""
    read = _layouts(tasks, arrays)
    call: _Call | None = None
    if read is not None:
        call = vars(robot).get("_gpu_linearizations", {}).get(read[0])
    if read is None or call is None:
        return None
    return call(robot, arrays[0], read[2], read[1])


def _layouts(tasks: Any, arrays: Sequence[Any]) -> tuple[Any, list[int], int] | None:
    """Return a key for the tasks and the layouts of arrays, their addresses, and the stream."""
    if not isinstance(tasks, str | Task):  # (other sequences are mutable)
        return None
    each = [None if one is None else layout_of(one) for one in arrays]
    given = [one for one in each if one is not None]
    if len(given) != sum(one is not None for one in arrays):
        return None
    key = (tasks, *(None if one is None else one[0] for one in each))
    return key, [one[1] for one in given], given[0][2]


def _views(
    given: Any, name: str, tasks: Sequence[Task], shapes: Sequence[tuple[int, ...]], stream: int
) -> list[DeviceArrayView]:
    """Return one view for each task, or none."""
    if given is None:
        return []
    each = list(each_on_gpu(given, len(tasks), shapes))
    if len(each) != len(tasks):
        raise InputError(
            f"there must be one {name} for each of {len(tasks)} tasks; given: {len(each)}"
        )
    return [seen(one, stream, name, dtypes=KINDS, strided=True) for one in each]
