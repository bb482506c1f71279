"""A lower bound on the time of a search, derived from the arithmetic speed of a GPU.

    time >= operations / (2 × lanes × multiprocessors × clock)
    time >= iterations × depth × latency / clock

A lane of a multiprocessor does one multiplication and one addition per clock cycle. The depth is
the length of the longest chain of operations in an iteration, each of which needs the one before.

Operations are counted in the kernel itself (operation_count.hpp), for the iterations that lead to
solutions. Failed starts and memory access are not included, and a quotient, a root or a sine counts
as one operation, so the result is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.gpu import runtime
from supple.ik.gpu import position, request

LATENCY = 4  # clock cycles until an operation's result can be used
ALONE = 32  # number of starts of one problem that a warp runs at once
# Numbers of float and double lanes of a multiprocessor (CUDA C++ programming guide).
LANES = {"sm_80": (64, 32), "sm_86": (128, 2), "sm_89": (128, 2), "sm_90": (128, 64)}


@dataclass(frozen=True)
class Chip:
    """The speed of a GPU: operations per second in float and double, and clock rate [Hz]."""

    single: float
    double: float
    clock: float

    @staticmethod
    def of(number: int, architecture: str) -> Chip:
        """Return the chip of a device; its speed is infinite if the architecture is unknown."""
        driver = runtime.driver()
        handle = runtime.check(driver.cuDeviceGet(number))

        def attribute(name: str) -> int:
            which = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(runtime.check(driver.cuDeviceGetAttribute(which, handle)))

        clock = 1e3 * attribute("CLOCK_RATE")
        each = 2 * attribute("MULTIPROCESSOR_COUNT") * clock
        lanes = LANES.get(architecture, (np.inf, np.inf))
        return Chip(each * lanes[0], each * lanes[1], clock)


@dataclass(frozen=True)
class Work:
    """Lower bounds on the operations of a batch: in float, in double, and in sequence."""

    single: float
    double: float
    depth: float

    def seconds(self, chip: Chip) -> float:
        """Return the lower bound on the time of this work [s]."""
        chain = self.depth * LATENCY / chip.clock
        return max(self.single / chip.single, self.double / chip.double, chain)


def work(solver: position.GpuSolver, targets: np.ndarray, bounds: request.SearchOptions) -> Work:
    """Return the work of a batch of targets (B, k), summed over its subproblems."""
    total = np.zeros(3)
    for part, numbers in parts(solver, targets.shape[1]):
        found = part.solve(np.ascontiguousarray(targets[:, numbers]), None, bounds)
        iterations = found[3][:, 0, 0]
        multiplications, additions, others, depth = part.problem.kernel.operations()
        each = multiplications + additions + others
        looked_up = 2 * part.entries * (len(numbers) + 1) * len(targets)
        starts = ALONE if len(targets) <= part._few() else 1
        # Each result is verified in double precision, which costs half an iteration.
        total += (
            looked_up + starts * each * iterations.sum(),
            each / 2 * len(targets),
            depth * iterations.mean(),
        )
    return Work(*total)


def parts(solver: position.GpuSolver, width: int) -> list[tuple[position.GpuSolver, np.ndarray]]:
    """Return the subproblems of a solver; each has the indices (k,) of its values in a target."""
    own = getattr(solver, "solvers", None)
    if own is None:
        return [(solver, np.arange(width))]
    return [(one, part.numbers) for one, part in zip(own, solver.parts, strict=True)]
