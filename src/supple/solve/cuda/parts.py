"""A search that falls into parts, on a GPU: each solved on its own, answers put together there."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from supple.solve.cuda.position import Bounds, GpuSolver, general, machine
from supple.solve.parts import Part
from supple.solve.search import Search

_THREADS = 128  # of a block


class Answers(ctypes.Structure):
    """`Answers` of arrays.cu: the same members in the same order."""

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

    def __init__(self, search: Search, parts: tuple[Part, ...], number: int, code: str) -> None:
        self.search, self.parts = search, parts
        self.machine = gpu = machine(number)
        with ThreadPoolExecutor() as pool:
            self.solvers = list(pool.map(lambda p: GpuSolver(p.search, number, code), parts))
        self.kernels = general(number, code)
        robot, stream = search.layout.robot, gpu.stream()
        self._limits = self._kept(np.stack([robot.lower, robot.upper]), stream)
        self._joints = [self._kept(part.joints, stream) for part in parts]
        self._numbers = [self._kept(part.numbers, stream) for part in parts]
        gpu.wait(stream)

    def launch(self, at: dict[str, int], count: int, bounds: Bounds, stream: int) -> None:
        """Solve on a stream, without waiting: `at` are addresses of arrays on the GPU."""
        gpu, each = self.machine, ctypes.c_int(count)
        layout = self.search.layout
        dof, width = layout.robot.dof, layout.kernel.targets

        def start(name: str, threads: int, *arguments: object) -> None:
            gpu.launch(self.kernels[name], -(-threads // _THREADS), _THREADS, stream, *arguments)

        def split(name: str, columns: int, of: int, part: int, to: int) -> None:
            sizes = (ctypes.c_int(of), ctypes.c_int(columns), each)
            start("split", columns * count, *map(ctypes.c_void_p, (at[name], to, part)), *sizes)

        whole = Answers.among(at, dof)
        given = (ctypes.c_void_p(at["q0"]), ctypes.c_void_p(self._limits.pointer))
        start("begin", count, *given, whole, each)
        for part, solver, joints, numbers in zip(
            self.parts, self.solvers, self._joints, self._numbers, strict=True
        ):
            n, k = len(part.joints), len(part.numbers)
            sizes = {"q": 8 * n, "error": 16, "effort": 8, "outcome": 1, "target": 8 * k}
            sizes["q0"] = 8 * n if at["q0"] else 0
            memory, own = self.laid_out({name: s * count for name, s in sizes.items()}, stream)
            split("target", k, width, numbers.pointer, own["target"])
            if at["q0"]:
                split("q0", n, dof, joints.pointer, own["q0"])
            else:
                own["q0"] = 0
            solver.launch(own, count, bounds, stream)
            column = ctypes.c_void_p(joints.pointer)
            start("merge", count, Answers.among(own, n), whole, column, each)
            del memory  # given back on the stream, after its last use there
