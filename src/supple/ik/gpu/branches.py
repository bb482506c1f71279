"""All solutions of poses of an arm with a closed form, on a GPU."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Any

import numpy as np

from supple import _core
from supple.gpu.arrays import GpuArray, stream_of
from supple.gpu.runtime import Memory, compile_linked, compile_source, device_named, open_device
from supple.gpu.source import source
from supple.ik.branches.arms import ClosedFormArm, Found, replaced
from supple.ik.gpu.request import Request as SearchRequest
from supple.ik.gpu.targets import Reader
from supple.ik.gpu.world import NO_WORLD, GpuCheck, WorldSizes, gpu_check
from supple.ik.problem import CompiledProblem
from supple.ik.solutions import Solutions
from supple.ik.world_check import WorldCheck
from supple.motion.linearization import Array

CAPACITY = 8  # the same as `capacity` in branches.cu
_THREADS = 64  # number of threads in a block, the same as `threads` in branches.cu
_PER_PROCESSOR = 8192  # targets per multiprocessor whose candidates, 768 bytes each, are in memory
_CHOSEN = 1 << 16  # number of blocked targets whose solutions are in memory, 1.3 kB each
_MAX_TARGETS = 1 << 22  # maximum number of targets per launch, whose results take 2.4 GB


class Request(ctypes.Structure):
    """Mirrors `BranchRequest` of branches.cu: the same members in the same order."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in ("target", "q0", "turn", "q", "error", "found", "certain")
        ),
        ("position", ctypes.c_double),
        ("rotation", ctypes.c_double),
        *((name, ctypes.c_int) for name in ("count", "q0_stride", "nearest")),
        ("list", ctypes.c_void_p),
        ("listed", ctypes.c_void_p),
        ("first", ctypes.c_int),
    )


def texts_of(
    problem: CompiledProblem, arm: _core.ArmSpec, world: WorldSizes = NO_WORLD
) -> list[str]:
    """Return the sources of the CUDA kernels for an arm, which are linked."""
    constants = problem.kernel.constants()
    own = source("branches.cu", constants + _constants(arm), world=world)
    return [own, source("collide.cu", constants, world=world)] if any(world) else [own]


class GpuBranches:
    """The closed form of an arm, compiled for a GPU."""

    def __init__(
        self,
        problem: CompiledProblem,
        arm: ClosedFormArm,
        number: int,
        architecture: str,
        world: WorldSizes = NO_WORLD,
    ) -> None:
        self.problem, self.device = problem, open_device(number)
        self._architecture, self._frame = architecture, arm.frame
        self.device.use()
        texts, names = texts_of(problem, arm.spec, world), ("find", "verify", "choose", "keep")
        if any(world):
            self.kernels = self.device.load(compile_linked(texts, architecture), names)
        else:
            self.kernels = self.device.load(compile_source(texts[0], architecture), names[:2])

    def solve(self, targets: Array, seeds: Array | None, spec: _core.BranchSpec) -> Found:
        """Return the solutions of targets (B, 12), with 2π wraps near the seeds (n,) or (B, n).

        Targets with a continuum of solutions are marked as not complete.
        """
        parts = [
            self._piece(
                targets[i : i + _MAX_TARGETS],
                seeds if seeds is None or seeds.ndim == 1 else seeds[i : i + _MAX_TARGETS],
                spec,
            )
            for i in range(0, max(len(targets), 1), _MAX_TARGETS)
        ]
        if len(parts) == 1:
            return parts[0]
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))  # type: ignore[return-value]

    def _piece(self, targets: Array, seeds: Array | None, spec: _core.BranchSpec) -> Found:
        gpu, count = self.device, len(targets)
        gpu.use()
        stream = gpu.stream()
        there = gpu.allocate(targets.nbytes, stream)
        gpu.upload(there.pointer, np.ascontiguousarray(targets), stream)
        near = None
        if seeds is not None:
            near = gpu.allocate(seeds.nbytes, stream)
            gpu.upload(near.pointer, np.ascontiguousarray(seeds), stream)
        step = self.problem.layout.robot.nq if seeds is not None and seeds.ndim > 1 else 0
        start = (0 if near is None else near.pointer, step)
        made = self.launch(count, there.pointer, start, spec, stream)
        q, error, found, certain = (self._download(*part, stream) for part in made)
        gpu.wait(stream)
        kept = np.arange(CAPACITY) < found[:, None]
        sampled = np.zeros(int(found.sum()), dtype=np.bool_)
        return q[kept], error[kept][:, 0], error[kept][:, 1], sampled, found, certain != 0

    def launch(
        self,
        count: int,
        target: int,
        start: tuple[int, int],
        spec: _core.BranchSpec,
        stream: int,
        check: GpuCheck | None = None,
    ) -> list[tuple[Memory, tuple[int, ...], Any]]:
        """Solve on a stream, asynchronously; return the memory, shape and type of each result.

        With a check, only solutions that keep its clearance are returned.
        """
        n = self.problem.layout.robot.nq
        shapes: list[tuple[tuple[int, ...], Any]] = [
            ((count, CAPACITY, n), np.float64),
            ((count, CAPACITY, 2), np.float64),
            ((count,), np.int32),
            ((count,), np.int8),
        ]
        made = [
            (
                self.device.allocate(math.prod(shape) * np.dtype(kind).itemsize, stream),
                shape,
                kind,
            )
            for shape, kind in shapes
        ]
        most = min(count, self.device.processors * _PER_PROCESSOR)
        turns = self.device.allocate(most * CAPACITY * 12 * 8, stream)
        for first in range(0, count, max(most, 1)):
            some = min(count - first, most)
            request = Request(
                target + first * 12 * 8,
                start[0] and start[0] + first * start[1] * 8,
                turns.pointer,
                *(
                    memory.pointer + first * math.prod(shape[1:]) * np.dtype(kind).itemsize
                    for memory, shape, kind in made
                ),
                position=spec.position_tolerance,
                rotation=spec.rotation_tolerance,
                count=some,
                q0_stride=start[1],
                nearest=spec.nearest,
            )
            self._start("find", some, stream, request)
            self._start("verify", some * CAPACITY, stream, request)
            if check is not None:
                world = SearchRequest(**check.members())
                self._start("keep", some * CAPACITY, stream, world, request)
        return made

    def _start(self, name: str, threads: int, stream: int, *arguments: ctypes.Structure) -> None:
        blocks = -(-threads // _THREADS)
        self.device.launch(self.kernels[name], blocks, _THREADS, stream, *arguments)

    def choose(self, search: SearchRequest, second: SearchRequest, stream: int) -> None:
        """Decide the blocked targets of a search on a stream, asynchronously.

        Targets that may have more solutions than those computed are left to the second search.
        """
        n, most = self.problem.layout.robot.nq, min(search.count, _CHOSEN)
        each = {"turns": 96 * CAPACITY, "q": 8 * n * CAPACITY, "error": 16 * CAPACITY}
        each |= {"found": 4, "certain": 1}
        ends = np.cumsum([most * size for size in (*each.values(), 0)]).tolist()
        memory = self.device.allocate(ends[-1], stream)
        for first in range(0, search.count, most):
            request = Request(
                search.target,
                search.q0,
                *(memory.pointer + begin for begin in (0, *ends[: len(each) - 1])),
                position=search.position,
                rotation=search.rotation,
                count=most,
                q0_stride=search.q0_stride,
                nearest=search.nearest,
                list=search.blocked,
                listed=search.counter + 8,
                first=first,
            )
            self._start("find", most, stream, request)
            self._start("verify", most * CAPACITY, stream, request)
            self._start("choose", most * CAPACITY, stream, second, request)

    def _download(self, memory: Memory, shape: tuple[int, ...], kind: Any, stream: int) -> Any:
        host = np.empty(shape, dtype=kind)
        if host.size:
            self.device.download(host, memory.pointer, stream)
        return host

    def solve_on_device(
        self,
        target: object,
        q0: object,
        spec: _core.BranchSpec,
        stream: object,
        check: WorldCheck | None = None,
    ) -> Solutions:
        """Solve poses in GPU memory; the results stay there. The call is asynchronous.

        With a check, only solutions that keep its clearance are returned.
        """
        gpu = self.device
        gpu.use()
        on = stream_of(stream, (target, q0))
        reader = Reader(self.problem, gpu, self._architecture)
        lead, numbers = reader.targets((target,), on, _MAX_TARGETS)
        start, n = (0, 0), self.problem.layout.robot.nq
        if q0 is not None:
            seeds = reader.seeds(q0, lead, on)
            start = (seeds.pointer, n if len(seeds.shape) > 1 else 0)
        count, here = math.prod(lead), gpu_check(check, gpu, 0)
        q, error, found, certain = self.launch(count, numbers.pointer, start, spec, on, here)

        def array(
            part: tuple[Memory, tuple[int, ...], Any], inner: tuple[int, ...], first: int = 0
        ) -> GpuArray:
            memory, shape, kind = part
            steps = [math.prod(shape[i + 1 :]) for i in range(1 + len(inner))]
            outer = [steps[0] * math.prod(lead[i + 1 :]) for i in range(len(lead))]
            dtype = np.dtype(kind)
            pointer = memory.pointer + first * dtype.itemsize
            return GpuArray((*lead, *inner), dtype, (*outer, *steps[1:]), pointer, memory)

        arrays: Any = {
            "q": array(q, (CAPACITY, n)),
            "position_error": array(error, (CAPACITY,), 0),
            "rotation_error": array(error, (CAPACITY,), 1),
            "_count": array(found, ()),
            "_complete": array(certain, ()),
        }
        return Solutions(
            **arrays,
            reason="they form a continuum, of which there is one sample",
            robot=self.problem.layout.robot,
            tasks=self.problem.layout.tasks,
            frame=self._frame,
            _targets=lead,
            _check=check,
        )


@lru_cache(maxsize=32)
def gpu_branches(
    problem: CompiledProblem, arm: ClosedFormArm, device: str, world: WorldSizes = NO_WORLD
) -> GpuBranches:
    """Return the closed form of an arm on a GPU, compiled on first use."""
    number, info = device_named(device)
    return GpuBranches(problem, arm, number, info.architecture, world)


def _constants(arm: _core.ArmSpec) -> str:
    """Return the constants of an arm as C++ source, with all bits of each number."""

    def vectors(numbers: list[float]) -> list[str]:
        each = [x.hex() for x in numbers]
        return [f"{{{', '.join(each[i : i + 3])}}}" for i in range(0, len(each), 3)]

    lines = ", ".join(
        f"{{{h}, {p}}}" for h, p in zip(vectors(arm.axes), vectors(arm.points), strict=True)
    )
    *columns, position = vectors(arm.home)
    kind = "parallel" if arm.parallel else "spherical"
    return (
        "namespace supple {\n\nstruct Arm {\n"
        f"  static constexpr ClosedForm<double> form = {{.kind = ArmKind::{kind}, "
        f".first = {arm.first}, .axis = {{{lines}}}, .length = {arm.length.hex()}, "
        f".slack = {arm.slack.hex()}, .samples = 1}};\n"
        f"  static constexpr int coordinate[6] = {{{', '.join(map(str, arm.coordinates))}}};\n"
        f"  static constexpr Pose<double> home = {{{{{', '.join(columns)}}}, {position}}};\n"
        "};\n\n}  // namespace supple\n"
    )


def solve_on_gpu(
    problem: CompiledProblem,
    arm: ClosedFormArm,
    targets: Array,
    seeds: Array | None,
    spec: _core.BranchSpec,
    device: str,
) -> Found:
    """Return the solutions of `arm.solve`, computed on a GPU.

    The CPU solves targets with a continuum of solutions, and targets for which the solutions of the
    GPU may not be complete.
    """
    found = gpu_branches(problem, arm, device).solve(targets, seeds, spec)
    again = ~found[5] & np.isfinite(targets).all(axis=1)
    if not again.any():
        return found
    own = seeds if seeds is None or seeds.ndim == 1 else seeds[again]
    more = arm.solve(problem, targets[again], own, spec)
    return replaced(found, again, more, np.ones(len(more[4]), dtype=np.bool_))
