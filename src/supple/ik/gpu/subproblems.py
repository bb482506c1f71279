"""Subproblems on a GPU: each is solved separately, and the solutions are merged on the GPU."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from supple.gpu.queue import Work
from supple.gpu.runtime import Device, compile_source, open_device
from supple.gpu.source import source
from supple.ik.gpu.position import GpuSolver, allocate_arrays
from supple.ik.gpu.request import SearchOptions
from supple.ik.gpu.targets import View
from supple.ik.gpu.world import NO_WORLD, WorldSizes
from supple.ik.problem import CompiledProblem
from supple.ik.subproblems import Subproblem

KERNELS = ("begin", "split", "merge")  # CUDA kernels of subproblems.cu
_THREADS = 128  # number of threads in a block


class SolutionPointers(ctypes.Structure):
    """Mirrors `SolutionArrays` of policy.hpp: the same members in the same order."""

    _fields_ = (
        ("capacity", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("q", "outcome", "error", "effort", "found")),
    )

    @classmethod
    def among(cls, at: dict[str, int]) -> SolutionPointers:
        """Return pointers to arrays with one solution per target, given their addresses."""
        return cls(1, *(at[name] for name in ("q", "outcome", "error", "effort")), None)


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
        self._limits = self._kept(np.stack([robot.lower, robot.upper]), stream)
        self._joints = [self._kept(part.joints, stream) for part in parts]
        self._numbers = [self._kept(part.numbers, stream) for part in parts]
        indices = np.full((len(parts), robot.nq), -1, np.int32)
        for row, part in zip(indices, parts, strict=True):
            row[part.joints] = np.arange(len(part.joints))
        self._indices = [self._kept(row, stream) for row in indices]
        gpu.wait(stream)

    def _reads(self) -> int:
        return 0  # the targets are converted before they are split

    @cached_property
    def _whole(self) -> GpuSolver:
        """The solver of the undecoupled problem, for several solutions per target.

        The subproblems give only one solution per target, because the CUDA kernel `merge` combines
        one solution of each subproblem.
        """
        return GpuSolver(self.problem, *self._how)

    def launch(
        self,
        at: dict[str, int],
        count: int,
        options: SearchOptions,
        work: Work,
        q0_stride: int = 0,
        given: tuple[View, int] | None = None,
    ) -> None:
        """Solve asynchronously; `at` holds the addresses of the arrays, with converted targets."""
        if options.max_solutions > 1:
            return self._whole.launch(at, count, options, work, q0_stride)
        each = ctypes.c_int(count)
        layout = self.problem.layout
        dof, width = layout.robot.dof, layout.kernel.targets

        def start(name: str, threads: int, *arguments: object) -> None:
            work.launch(self.kernels[name], -(-threads // _THREADS), _THREADS, *arguments)

        def split(name: str, columns: int, of: int, part: int, to: int) -> None:
            sizes = (ctypes.c_int(of), ctypes.c_int(columns), each)
            start("split", columns * count, *map(ctypes.c_void_p, (at[name], to, part)), *sizes)

        limits = (ctypes.c_void_p(self._limits.pointer), ctypes.c_int(dof))
        whole = (*limits, SolutionPointers.among(at), each)
        start("begin", count, ctypes.c_void_p(at["q0"]), ctypes.c_int(q0_stride), *whole)
        for part, solver, joints, numbers, indices in zip(
            self.parts, self.solvers, self._joints, self._numbers, self._indices, strict=True
        ):
            n, k = len(part.joints), len(part.numbers)
            sizes = {"q": 8 * n, "error": 16, "effort": 8, "outcome": 1, "target": 8 * k}
            sizes["q0"] = 8 * n if at["q0"] else 0
            memory, own = allocate_arrays({name: s * count for name, s in sizes.items()}, work)
            split("target", k, width, numbers.pointer, own["target"])
            if at["q0"]:
                split("q0", n, q0_stride, joints.pointer, own["q0"])
            else:
                own["q0"] = 0
            # With a world there is one part, and the other joints stay where `begin` moved them.
            check = options.check and replace(options.check, joint=indices.pointer, still=at["q"])
            solver.launch(own, count, replace(options, check=check), work, n)
            columns = (ctypes.c_void_p(joints.pointer), ctypes.c_int(n))
            start("merge", count, SolutionPointers.among(own), *columns, *whole)
            del memory  # freed on the stream, after its last use there
        return None


@lru_cache(maxsize=8)
def _kernels(gpu: Device, architecture: str) -> dict[str, Any]:
    """Return the CUDA kernels, which are the same for all robots."""
    gpu.use()
    return gpu.load(compile_source(source("subproblems.cu", ""), architecture), KERNELS)
