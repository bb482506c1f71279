"""Position inverse kinematics on a GPU: what `supple.solve(device="cuda")` runs."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import InputError, shown
from supple.motion.linearization import Array
from supple.solve.cuda.arrays import GpuArray, seen, stream_of
from supple.solve.cuda.source import source
from supple.solve.cuda.toolkit import Machine, Memory, compile_linked, compile_source, device_named
from supple.solve.parts import parts_of
from supple.solve.search import Search
from supple.solve.solution import Solution

# The kernels of files that are compiled at the same time, and linked.
KERNELS = {
    ("search.cu",): ("look_up", "search", "finish"),
    ("explore.cu", "settle.cu"): ("explore",),
}
GENERAL = ("read_poses", "begin", "split", "merge")  # of any robot, in arrays.cu

_LISTED = 4  # `listed` in search.cu
FEW = 9_000  # from so many targets on a thread for each is sooner than a warp for each
_MOST = 1 << 23  # targets of a launch: indices are ints
_THREADS = {"look_up": 128, "search": 128, "finish": 128, "explore": 64}
_ALIGNED = 256  # [bytes]


class Request(ctypes.Structure):
    """`Request` of problem.hpp: the same members in the same order."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "target",
                "q0",
                "table",
                "seeds",
                "q",
                "outcome",
                "error",
                "effort",
                "near",
                "rough",
                "left",
                "counter",
            )
        ),
        ("position", ctypes.c_double),
        ("rotation", ctypes.c_double),
        ("rough_position", ctypes.c_float),
        ("rough_rotation", ctypes.c_float),
        ("count", ctypes.c_int),
        ("entries", ctypes.c_int),
        ("max_starts", ctypes.c_int),
    )


@dataclass(frozen=True)
class Bounds:
    """What is near enough [m], [rad], and how many starts a target may have."""

    position: float
    rotation: float
    max_starts: int


@dataclass(frozen=True)
class Raw:
    """Results as they come: q (B, n), outcome (B,), errors (B, 2), iterations, restarts (B, 2)."""

    q: Array
    outcome: NDArray[np.int8]
    error: Array
    effort: NDArray[np.int32]


class GpuSolver:
    """A search that was compiled for a GPU, with its table of starts there."""

    def __init__(self, search: Search, number: int, architecture: str) -> None:
        self.search = search
        self.machine = machine(number)
        self.machine.use()
        constants = search.kernel.constants()

        def compiled(names: tuple[str, ...]) -> bytes:
            self.machine.use()
            return compile_linked([source(name, constants) for name in names], architecture)

        with ThreadPoolExecutor() as pool:  # (the compiler lets go of the interpreter)
            codes = list(pool.map(compiled, KERNELS))
        self.kernels: dict[str, Any] = {}
        for code, kernels in zip(codes, KERNELS.values(), strict=True):
            self.kernels |= self.machine.load(code, kernels)
        stream = self.machine.stream()
        table = np.ascontiguousarray(search.starts.table().T)
        self._table = self._kept(table, stream)
        self._seeds = self._kept(np.ascontiguousarray(search.starts.seeds), stream)
        self.machine.wait(stream)
        self.entries = table.shape[1]

    def _kept(self, array: NDArray[Any], stream: int) -> Memory:
        memory = self.machine.allocate(array.nbytes, stream)
        self.machine.upload(memory.pointer, array, stream)
        return memory

    def solve(self, targets: Array, q0: Array | None, bounds: Bounds) -> Raw:
        """Solve the kernel's targets (B, k), from starts (B, n) where there are any."""
        pieces = [
            self._piece(targets[i : i + _MOST], None if q0 is None else q0[i : i + _MOST], bounds)
            for i in range(0, max(len(targets), 1), _MOST)
        ]
        if len(pieces) == 1:
            return pieces[0]
        joined = zip(*((p.q, p.outcome, p.error, p.effort) for p in pieces), strict=True)
        return Raw(*(np.concatenate(parts) for parts in joined))

    def _piece(self, targets: Array, q0: Array | None, bounds: Bounds) -> Raw:
        gpu, count, n = self.machine, len(targets), self.search.layout.robot.dof
        gpu.use()
        stream = gpu.stream()
        sizes = {
            "q": 8 * n * count,
            "error": 16 * count,
            "effort": 8 * count,
            "outcome": count,
            "target": targets.nbytes,
            "q0": 0 if q0 is None else q0.nbytes,
        }
        memory, at = self.laid_out(sizes, stream)
        gpu.upload(at["target"], targets, stream)
        if q0 is not None:
            gpu.upload(at["q0"], q0, stream)
        else:
            at["q0"] = 0
        if count:
            self.launch(at, count, bounds, stream)
        host = np.empty(at["target"] - memory.pointer, dtype=np.uint8)  # all results at once
        gpu.download(host, memory.pointer, stream)

        def part(name: str, dtype: Any, *shape: int) -> NDArray[Any]:
            first = at[name] - memory.pointer
            piece: NDArray[Any] = host[first : first + sizes[name]].view(dtype)
            return piece.reshape(shape)

        return Raw(
            part("q", np.float64, count, n),
            part("outcome", np.int8, count),
            part("error", np.float64, count, 2),
            part("effort", np.int32, count, 2),
        )

    def solve_there(self, target: object, q0: Any, bounds: Bounds, stream: object) -> Solution:
        """Solve poses (..., 4, 4) that are in the GPU's memory; results stay there.

        Nothing is waited for. What is not finite, or no pose, gets `Status.NONFINITE_INPUT`.
        """
        layout, gpu = self.search.layout, self.machine
        n = layout.robot.dof
        if self.search.poses != 1:
            raise InputError(
                f"a target in a GPU's memory must be of one PoseTask; given: {len(layout.tasks)} "
                f"tasks, {layout.tasks[0]!r} first"
            )
        gpu.use()
        on = stream_of(stream, (target, q0))
        poses = seen(target, on, "target")
        lead, count = poses.shape[:-2], int(np.prod(poses.shape[:-2]))
        if poses.shape[-2:] != (4, 4) or poses.device != gpu.number or count > _MOST:
            raise InputError(
                f"target must be up to {_MOST} poses (..., 4, 4) on cuda:{gpu.number}; "
                f"given: {poses.shape} on cuda:{poses.device}"
            )
        start = None if q0 is None else seen(q0, on, "q0")
        if start is not None and (start.shape != (*lead, n) or start.device != gpu.number):
            raise InputError(
                f"q0 must be {(*lead, n)} on cuda:{gpu.number}; "
                f"given: {start.shape} on cuda:{start.device}"
            )
        sizes = {"q": 8 * n * count, "error": 16 * count, "effort": 8 * count, "outcome": count}
        memory, at = self.laid_out(sizes, on)
        scratch = gpu.allocate(96 * count, on)
        at |= {"target": scratch.pointer, "q0": start.pointer if start else 0}
        if count:
            numbers = (ctypes.c_void_p(poses.pointer), ctypes.c_void_p(scratch.pointer))
            blocks, threads = -(-count // 128), 128
            read = general(gpu.number, gpu.architecture)["read_poses"]
            gpu.launch(read, blocks, threads, on, *numbers, ctypes.c_int(count))
            self.launch(at, count, bounds, on)
        steps = [int(np.prod(lead[i + 1 :])) for i in range(len(lead))]

        def part(name: str, dtype: Any, width: int, first: int = 0, *more: int) -> GpuArray:
            strides = (*(width * step for step in steps), *(1 for _ in more))
            kind = np.dtype(dtype)
            pointer = at[name] + first * kind.itemsize
            return GpuArray((*lead, *more), kind, strides, pointer, memory)

        results: list[Any] = [
            part("q", np.float64, n, 0, n),
            part("outcome", np.int8, 1),
            *(part("error", np.float64, 2, i) for i in range(2)),
            *(part("effort", np.int32, 2, i) for i in range(2)),
        ]
        return Solution(*results)

    def laid_out(self, sizes: dict[str, int], stream: int) -> tuple[Memory, dict[str, int]]:
        """One piece of memory for several arrays, and where each is."""
        ends = np.cumsum([-(-size // _ALIGNED) * _ALIGNED for size in sizes.values()]).tolist()
        memory = self.machine.allocate(ends[-1], stream)
        begins = [memory.pointer, *(memory.pointer + end for end in ends[:-1])]
        return memory, dict(zip(sizes, begins, strict=True))

    def launch(self, at: dict[str, int], count: int, bounds: Bounds, stream: int) -> None:
        """Solve on a stream, without waiting: `at` are addresses of arrays on the GPU."""
        gpu, n = self.machine, self.search.layout.robot.dof
        many, memory = count > FEW, None
        own: dict[str, int] = {}
        if many:
            memory, own = self.laid_out(
                {
                    "counter": 8,
                    "near": 2 * _LISTED * count,
                    "rough": 4 * n * count,
                    "left": 4 * count,
                },
                stream,
            )
            gpu.zero(own["counter"], 8, stream)
        request = Request(
            **at,
            **own,
            table=self._table.pointer,
            seeds=self._seeds.pointer,
            position=bounds.position,
            rotation=bounds.rotation,
            rough_position=max(bounds.position, self.search.coarse),
            rough_rotation=max(bounds.rotation, 2e-5),
            count=count,
            entries=self.entries,
            max_starts=bounds.max_starts,
        )

        def start(name: str, blocks: int, *more: Any) -> None:
            threads = _THREADS[name]
            gpu.launch(self.kernels[name], max(1, blocks), threads, stream, request, *more)

        if many:
            start("look_up", -(-count // (4 * 128)))
            start("search", min(-(-count // 128), 4 * gpu.processors))
            start("finish", -(-count // 128))
        start("explore", min(-(-count // 2), 4 * gpu.processors), ctypes.c_int(many))
        del memory  # given back on the stream, after its last use there


@lru_cache(maxsize=8)
def machine(number: int) -> Machine:
    """A GPU, made when first asked for."""
    return Machine(number)


@lru_cache(maxsize=8)
def general(number: int, architecture: str) -> dict[str, Any]:
    """The kernels of any robot on a GPU."""
    code = compile_source(source("arrays.cu", ""), architecture)
    gpu = machine(number)
    gpu.use()
    return gpu.load(code, GENERAL)


@lru_cache(maxsize=32)
def solver_of(search: Search, device: str) -> GpuSolver:
    """A search on a GPU, compiled when first asked for."""
    number, info = device_named(device)
    if search.rest:
        raise InputError(f"a PostureTask is not for device={shown(device)} yet; given: one")
    parts = parts_of(search)
    if parts[0].search is search:
        return GpuSolver(search, number, info.architecture)
    from supple.solve.cuda.parts import GpuParts  # (which has a GpuSolver for each)

    return GpuParts(search, parts, number, info.architecture)
