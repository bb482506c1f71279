"""Subproblems on a GPU: each is solved separately, and the solutions are merged on the GPU."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from supple._core import TargetKind
from supple.gpu.queue import Work, allocate_arrays
from supple.gpu.runtime import Device, Memory, compile_source, open_device
from supple.gpu.source import source
from supple.ik.gpu.position import GpuSolver
from supple.ik.gpu.request import SearchOptions, SolutionPointers
from supple.ik.gpu.targets import View
from supple.ik.gpu.world import NO_WORLD, WorldSizes
from supple.ik.problem import CompiledProblem
from supple.ik.subproblems import Subproblem, moving_subproblem

KERNELS = ("begin", "split", "merge", "spread")  # CUDA kernels of subproblems.cu
_THREADS = 128  # number of threads in a block


class GpuSubproblems(GpuSolver):
    """The subproblems of a problem, compiled for a GPU."""

    def __init__(
        self,
        problem: CompiledProblem,
        parts: tuple[Subproblem, ...],
        precision: str,
        several: bool,
        number: int,
        architecture: str,
        world: WorldSizes = NO_WORLD,
    ) -> None:
        self.problem, self.parts = problem, parts
        self._how = (precision, several, number, architecture, world)
        self._architecture = architecture
        self.device = gpu = open_device(number)
        with ThreadPoolExecutor() as pool:  # (the compiler releases the GIL)
            own = pool.submit(_kernels, gpu, architecture)
            self.solvers = list(pool.map(lambda part: GpuSolver(part.problem, *self._how), parts))
            self.kernels = own.result()
        gpu.use()
        robot, stream = problem.layout.robot, gpu.stream()
        self._stream = stream
        self._limits = self._kept(np.stack([robot.lower, robot.upper]), stream)
        self._joints = [self._kept(part.joints, stream) for part in parts]
        self._numbers = [self._kept(part.numbers, stream) for part in parts]
        indices = np.full((len(parts), robot.nv), -1, np.int32)
        for row, part in zip(indices, parts, strict=True):
            row[part.joints] = np.arange(len(part.joints))
        self._indices = [self._kept(row, stream) for row in indices]
        gpu.wait(stream)

    def _reads(self, options: SearchOptions) -> int:
        return 0  # the targets are converted before they are split

    @cached_property
    def _moving(self) -> tuple[Subproblem | None, GpuSolver, Memory | None]:
        """The joints that move a task, their solver for several solutions, and their indices.

        The first and the last item are None if all joints are searched; the indices are in GPU
        memory. Subproblems are not solved separately here, because the several solutions of each
        would have to be combined.
        """
        if len(self.parts) == 1:
            return self.parts[0], self.solvers[0], self._joints[0]
        moving = moving_subproblem(self.problem)
        if moving is None:
            return None, GpuSolver(self.problem, *self._how), None
        kept = self._kept(moving.joints, self._stream)
        self.device.wait(self._stream)
        return moving, GpuSolver(moving.problem, *self._how), kept

    def launch(
        self,
        at: dict[str, int],
        count: int,
        options: SearchOptions,
        work: Work,
        q0_stride: int = 0,
        given: tuple[View, TargetKind] | None = None,
    ) -> None:
        """Solve asynchronously; `at` holds the addresses of the arrays, with converted targets."""
        if options.max_solutions > 1:
            self._launch_several(at, count, options, work, q0_stride)
            return
        layout = self.problem.layout
        dof, width = layout.robot.dof, layout.kernel.targets
        limits = (ctypes.c_void_p(self._limits.pointer), ctypes.c_int(dof))
        whole = (*limits, SolutionPointers.among(at), ctypes.c_int(count))
        q0 = (ctypes.c_void_p(at["q0"]), ctypes.c_int(q0_stride))
        self._start("begin", count, work, *q0, *whole)
        for part, solver, joints, numbers, indices in zip(
            self.parts, self.solvers, self._joints, self._numbers, self._indices, strict=True
        ):
            n, k = len(part.joints), len(part.numbers)
            sizes = {"q": 8 * n, "error": 16, "effort": 8, "outcome": 1, "target": 8 * k}
            sizes["q0"] = 8 * n if at["q0"] else 0
            memory, own = allocate_arrays({name: s * count for name, s in sizes.items()}, work)
            self._split(at["target"], width, numbers, k, own["target"], count, work)
            if at["q0"]:
                self._split(at["q0"], q0_stride, joints, n, own["q0"], count, work)
            else:
                own["q0"] = 0
            # With a world there is one part, and the other joints stay where `begin` moved them.
            check = options.check and replace(options.check, joint=indices.pointer, still=at["q"])
            solver.launch(own, count, replace(options, check=check), work, n)
            columns = (ctypes.c_void_p(joints.pointer), ctypes.c_int(n))
            self._start("merge", count, work, SolutionPointers.among(own), *columns, *whole)
            del memory  # freed on the stream, after its last use there

    def _launch_several(
        self, at: dict[str, int], count: int, options: SearchOptions, work: Work, q0_stride: int
    ) -> None:
        """Search for several solutions; joints that move no task stay at q0 or neutral."""
        moving, solver, joints = self._moving
        if moving is None or joints is None:
            solver.launch(at, count, options, work, q0_stride)
            return
        n, robot, rows = len(moving.joints), self.problem.layout.robot, options.rows
        sizes = {"still": robot.nv, "part": rows * n, "q0": n if at["q0"] else 0}
        sizes |= {"error": 2, "effort": 1, "outcome": 1}
        memory, own = allocate_arrays({name: 8 * s * count for name, s in sizes.items()}, work)
        start = SolutionPointers.among(own | {"q": own["still"]})
        limits = (ctypes.c_void_p(self._limits.pointer), ctypes.c_int(robot.nv))
        given = (ctypes.c_void_p(at["q0"]), ctypes.c_int(q0_stride))
        self._start("begin", count, work, *given, *limits, start, ctypes.c_int(count))
        if at["q0"]:
            self._split(at["q0"], q0_stride, joints, n, own["q0"], count, work)
        inner = at | {"q": own["part"], "q0": own["q0"] if at["q0"] else 0}
        check = options.check
        if check is not None:
            check = replace(check, joint=self._indices[0].pointer, still=own["still"])
        solver.launch(inner, count, replace(options, check=check), work, n)
        columns = (ctypes.c_void_p(joints.pointer), ctypes.c_int(n))
        whole = SolutionPointers.among(at, rows)
        ends = (*limits, start, whole, ctypes.c_int(count))
        self._start("spread", rows * count, work, ctypes.c_void_p(own["part"]), *columns, *ends)
        del memory  # freed on the stream, after its last use there

    def _start(self, name: str, threads: int, work: Work, *arguments: object) -> None:
        work.launch(self.kernels[name], -(-threads // _THREADS), _THREADS, *arguments)

    def _split(
        self, whole: int, width: int, column: Memory, columns: int, to: int, count: int, work: Work
    ) -> None:
        """Copy columns of a matrix (count, width)."""
        addresses = map(ctypes.c_void_p, (whole, to, column.pointer))
        sizes = (ctypes.c_int(width), ctypes.c_int(columns), ctypes.c_int(count))
        self._start("split", columns * count, work, *addresses, *sizes)


@lru_cache(maxsize=8)
def _kernels(gpu: Device, architecture: str) -> dict[str, Any]:
    """Return the CUDA kernels, which are the same for all robots."""
    gpu.use()
    return gpu.load(compile_source(source("subproblems.cu", ""), architecture), KERNELS)
