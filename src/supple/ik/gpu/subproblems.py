"""A search that falls into parts, on a GPU: each solved on its own, answers put together there."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from supple.gpu.runtime import Machine, compile_source, machine
from supple.gpu.source import source
from supple.ik.gpu.position import Bounds, GpuSolver
from supple.ik.problem import Search
from supple.ik.subproblems import Part

KERNELS = ("begin", "split", "merge")  # of subproblems.cu
_THREADS = 128  # of a block


class Answers(ctypes.Structure):
    """`Solutions` of subproblems.cu: the same members in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "error", "effort", "outcome")),
        ("n", ctypes.c_int),
    )

    @classmethod
    def among(cls, at: dict[str, int], n: int) -> Answers:
        """Those of n joints, of arrays with their addresses."""
        return cls(*(at[name] for name in ("q", "error", "effort", "outcome")), n)


class GpuParts(GpuSolver):
    """Parts of a search, compiled for a GPU."""

    def __init__(
        self,
        search: Search,
        parts: tuple[Part, ...],
        precision: str,
        several: bool,
        number: int,
        architecture: str,
    ) -> None:
        self.search, self.parts = search, parts
        self._how = (precision, several, number, architecture)
        self._architecture = architecture
        self.machine = gpu = machine(number)
        with ThreadPoolExecutor() as pool:  # (the compiler lets go of the interpreter)
            own = pool.submit(_kernels, gpu, architecture)
            self.solvers = list(pool.map(lambda part: GpuSolver(part.search, *self._how), parts))
            self.kernels = own.result()
        gpu.use()
        robot, stream = search.layout.robot, gpu.stream()
        self._limits = self._kept(np.stack([robot.lower, robot.upper]), stream)
        self._joints = [self._kept(part.joints, stream) for part in parts]
        self._numbers = [self._kept(part.numbers, stream) for part in parts]
        gpu.wait(stream)

    @cached_property
    def _whole(self) -> GpuSolver:
        """The search that is not divided: several answers to each are not put together."""
        return GpuSolver(self.search, *self._how)

    def launch(
        self, at: dict[str, int], count: int, bounds: Bounds, stream: int, q0_step: int = 0
    ) -> None:
        """Solve on a stream, without waiting: `at` are addresses of arrays on the GPU."""
        if bounds.most > 1:
            return self._whole.launch(at, count, bounds, stream, q0_step)
        gpu, each = self.machine, ctypes.c_int(count)
        layout = self.search.layout
        dof, width = layout.robot.dof, layout.kernel.targets

        def start(name: str, threads: int, *arguments: object) -> None:
            gpu.launch(self.kernels[name], -(-threads // _THREADS), _THREADS, stream, *arguments)

        def split(name: str, columns: int, of: int, part: int, to: int) -> None:
            sizes = (ctypes.c_int(of), ctypes.c_int(columns), each)
            start("split", columns * count, *map(ctypes.c_void_p, (at[name], to, part)), *sizes)

        whole = Answers.among(at, dof)
        limits = ctypes.c_void_p(self._limits.pointer)
        q0 = (ctypes.c_void_p(at["q0"]), ctypes.c_int(q0_step))
        start("begin", count, *q0, limits, whole, each)
        for part, solver, joints, numbers in zip(
            self.parts, self.solvers, self._joints, self._numbers, strict=True
        ):
            n, k = len(part.joints), len(part.numbers)
            sizes = {"q": 8 * n, "error": 16, "effort": 8, "outcome": 1, "target": 8 * k}
            sizes["q0"] = 8 * n if at["q0"] else 0
            memory, own = self.laid_out({name: s * count for name, s in sizes.items()}, stream)
            split("target", k, width, numbers.pointer, own["target"])
            if at["q0"]:
                split("q0", n, q0_step, joints.pointer, own["q0"])
            else:
                own["q0"] = 0
            solver.launch(own, count, bounds, stream, n)
            column = ctypes.c_void_p(joints.pointer)
            start("merge", count, Answers.among(own, n), whole, column, each)
            del memory  # given back on the stream, after its last use there
        return None


@lru_cache(maxsize=8)
def _kernels(gpu: Machine, architecture: str) -> dict[str, Any]:
    """The kernels of any robot on a GPU."""
    gpu.use()
    return gpu.load(compile_source(source("subproblems.cu", ""), architecture), KERNELS)
