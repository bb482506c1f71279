"""All solutions of poses of an arm with a closed form, on a GPU."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from supple import _core
from supple.gpu.arrays import DeviceArrayView
from supple.gpu.queue import Queue, Recording, Work, placed
from supple.gpu.runtime import compile_linked, compile_source, device_named, open_device
from supple.gpu.source import constant_of, source
from supple.ik.branches.arms import ClosedFormArm, Found, replaced
from supple.ik.gpu.calls import DeviceCall, Part
from supple.ik.gpu.ranking import rank, write_costs
from supple.ik.gpu.request import Request as SearchRequest
from supple.ik.gpu.request import SolutionPointers
from supple.ik.gpu.targets import Reader
from supple.ik.gpu.world import NO_WORLD, GpuCheck, WorldSizes, gpu_check
from supple.ik.problem import CompiledProblem
from supple.ik.world_check import WorldCheck
from supple.motion.linearization import Array

CAPACITY = constant_of("branches.cu", "capacity")  # number of solutions of a target
_THREADS = constant_of("branches.cu", "threads")  # number of threads in a block
_PER_PROCESSOR = 1024  # targets per multiprocessor at a time, with 768 bytes of candidates each
_CHOSEN = 1 << 16  # number of blocked targets solved at a time, with 1.3 kB of solutions each
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
        *((name, ctypes.c_int) for name in ("count", "q0_stride", "nearest", "comfortable")),
        ("list", ctypes.c_void_p),
        ("listed", ctypes.c_void_p),
        ("first", ctypes.c_int),
    )


@dataclass(frozen=True)
class Result:
    """Shape and type of an array of results."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Size of the array [bytes]."""
        return math.prod(self.shape) * self.dtype.itemsize


def texts_of(
    problem: CompiledProblem, arm: _core.ArmSpec, world: WorldSizes = NO_WORLD
) -> list[str]:
    """Return the source texts of the CUDA kernels for an arm, which are linked to each other."""
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
        """Return the solutions of targets (B, 12), wrapped by 2π toward seeds (n,) or (B, n).

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
        work = Queue(gpu, stream)
        near = np.zeros(0) if seeds is None else seeds
        arrays = self.results(count)
        begins, size = placed({name: one.size for name, one in arrays.items()})
        inputs, end = placed({"target": targets.nbytes, "q0": near.nbytes})
        memory = work.scratch(size + end)
        at = {name: memory.pointer + begin for name, begin in begins.items()}
        there = {name: memory.pointer + size + begin for name, begin in inputs.items()}
        gpu.upload(there["target"], np.ascontiguousarray(targets), stream)
        if near.size:
            gpu.upload(there["q0"], np.ascontiguousarray(near), stream)
        step = self.problem.layout.robot.nq if near.ndim > 1 else 0
        start = (0 if seeds is None else there["q0"], step)
        self.launch(count, there["target"], start, spec, at, work)
        host = np.empty(size, np.uint8)
        gpu.download(host, memory.pointer, stream)
        q, error, found, certain = (
            host[begins[name] :][: one.size].view(one.dtype).reshape(one.shape)
            for name, one in arrays.items()
        )
        kept = np.arange(CAPACITY) < found[:, None]
        sampled = np.zeros(int(found.sum()), dtype=np.bool_)
        return q[kept], error[kept][:, 0], error[kept][:, 1], sampled, found, certain != 0

    def results(self, count: int) -> dict[str, Result]:
        """Return the arrays of the results."""
        n = self.problem.layout.robot.nq
        return {
            "q": Result((count, CAPACITY, n), np.dtype(np.float64)),
            "error": Result((count, CAPACITY, 2), np.dtype(np.float64)),
            "found": Result((count,), np.dtype(np.int32)),
            "certain": Result((count,), np.dtype(np.int8)),
        }

    def launch(
        self,
        count: int,
        target: int,
        start: tuple[int, int],
        spec: _core.BranchSpec,
        at: dict[str, int],
        work: Work,
        check: GpuCheck | None = None,
        comfortable: bool = False,
    ) -> None:
        """Solve asynchronously; `at` holds the addresses of the results.

        With a check, only solutions that keep its clearance are returned. `comfortable` says
        whether the most comfortable solutions come first.
        """
        results = self.results(count)
        most = min(count, self.device.processors * _PER_PROCESSOR)
        turns = work.scratch(most * CAPACITY * 12 * 8)
        for first in range(0, count, max(most, 1)):
            some = min(count - first, most)
            request = Request(
                target + first * 12 * 8,
                start[0] and start[0] + first * start[1] * 8,
                turns.pointer,
                *(at[name] + first * one.size // count for name, one in results.items()),
                position=spec.position_tolerance,
                rotation=spec.rotation_tolerance,
                count=some,
                q0_stride=start[1],
                nearest=spec.nearest,
                comfortable=comfortable,
            )
            self._start("find", some, work, request)
            self._start("verify", some * CAPACITY, work, request)
            if check is not None:
                world = SearchRequest(**check.members())
                self._start("keep", some * CAPACITY, work, world, request)

    def _start(self, name: str, threads: int, work: Work, *arguments: ctypes.Structure) -> None:
        work.launch(self.kernels[name], -(-threads // _THREADS), _THREADS, *arguments)

    def choose(self, search: SearchRequest, second: SearchRequest, work: Work) -> None:
        """Choose free solutions for the blocked targets of a search, asynchronously.

        Targets that may have more solutions than the computed ones are left to the second search.
        """
        n, most = self.problem.layout.robot.nq, min(search.count, _CHOSEN)
        each = {"turns": 96 * CAPACITY, "q": 8 * n * CAPACITY, "error": 16 * CAPACITY}
        each |= {"found": 4, "certain": 1}
        ends = np.cumsum([most * size for size in (*each.values(), 0)]).tolist()
        memory = work.scratch(ends[-1])
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
            self._start("find", most, work, request)
            self._start("verify", most * CAPACITY, work, request)
            self._start("choose", most * CAPACITY, work, second, request)

    def record(
        self,
        views: Sequence[DeviceArrayView],
        seeded: bool,
        spec: _core.BranchSpec,
        check: WorldCheck | None = None,
        *,
        order: str | None = None,
        library: str = "",
    ) -> DeviceCall:
        """Record a call with poses in GPU memory; the results stay there.

        With a check, only solutions that keep its clearance are returned.

        Args:
            views: The poses, then the seeds if there are any.
            seeded: Whether there are seeds.
            spec: Options of the search.
            check: The clearance to keep.
            order: The preference by which solutions are sorted, if it is not that of `spec`.
            library: Name of the library of the arrays.
        """
        n, layout = self.problem.layout.robot.nq, self.problem.layout
        reader = Reader(self.problem, self.device, self._architecture)
        recording = Recording(self.device)
        lead, numbers = reader.targets(views[:1], recording, _MAX_TARGETS)
        assert isinstance(numbers, int)
        start = (0, 0)
        if seeded:
            shape = reader.seeds(views[1], lead)
            seeds = recording.scratch(8 * math.prod(shape))
            reader.copy_seeds(views[1], seeds.pointer, recording)
            start = (seeds.pointer, n if len(shape) > 1 else 0)
        count = math.prod(lead)
        begins, at = recording.arrays({k: one.size for k, one in self.results(count).items()})
        here = gpu_check(check, self.device, 0)
        comfortable = order == "comfortable"
        if order is None or comfortable or not count:
            self.launch(count, numbers, start, spec, at, recording, here, comfortable)
        else:
            own = {k: recording.scratch(one.size).pointer for k, one in self.results(count).items()}
            own["certain"] = at["certain"]
            self.launch(count, numbers, start, spec, own, recording, here)
            self._sort(count, numbers, start, order, own, at, recording)
        eight, double = (*lead, CAPACITY), np.dtype(np.float64)
        parts = {
            "q": Part(begins["q"], double, eight, (n,), n),
            "position_error": Part(begins["error"], double, eight, (), 2),
            "rotation_error": Part(begins["error"] + double.itemsize, double, eight, (), 2),
            "_count": Part(begins["found"], np.dtype(np.int32), lead, (), 1),
            "_complete": Part(begins["certain"], np.dtype(np.int8), lead, (), 1),
        }
        fields = {
            "reason": "they form a continuum, of which there is one sample",
            "robot": layout.robot,
            "tasks": layout.tasks,
            "frame": self._frame,
            "_targets": lead,
            "_check": check,
        }
        return DeviceCall(recording.recorded(), parts, fields)

    def _sort(
        self,
        count: int,
        target: int,
        start: tuple[int, int],
        order: str,
        found: dict[str, int],
        to: dict[str, int],
        work: Work,
    ) -> None:
        """Copy solutions from the arrays `found` to the arrays `to`, sorted by a preference."""
        n, gpu, cost = self.problem.layout.robot.nq, self.device, work.scratch(8 * CAPACITY * count)
        request = SearchRequest(
            target=target,
            q0=start[0] or None,
            q=found["q"],
            count=count,
            q0_stride=start[1],
            max_solutions=CAPACITY,
            solutions=found["found"],
        )
        made = (gpu, self._architecture)
        write_costs(self.problem, *made, request, order, cost.pointer, work)
        arrays = [
            SolutionPointers(CAPACITY, one["q"], None, one["error"], None, one["found"])
            for one in (found, to)
        ]
        rank(*made, arrays[0], (cost.pointer, 0), n, arrays[1], count, work)


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
