"""Choose among several solutions of each target on a GPU, by a preference or given costs."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from supple._core import Cost
from supple.gpu.queue import Work
from supple.gpu.runtime import Device, compile_source
from supple.gpu.source import block_size, source
from supple.ik.gpu.request import Request, SolutionPointers
from supple.ik.problem import CompiledProblem

# The cost of each preference; on the CPU, `preference.costs` computes them.
COSTS = {
    "fast": Cost.LIMITS,
    "limits": Cost.LIMITS,
    "comfortable": Cost.DISCOMFORT,
    "nearest": Cost.DISPLACEMENT,
    "manipulability": Cost.MANIPULABILITY,
}
KERNELS = ("rank", "fill")  # CUDA kernels of rank.cu


def write_costs(
    problem: CompiledProblem,
    device: Device,
    architecture: str,
    request: Request,
    prefer: str,
    cost: int,
    work: Work,
) -> None:
    """Write the costs (count, max_solutions) of the solutions of a request to an address.

    Args:
        problem: The problem.
        device: The GPU.
        architecture: Architecture of the GPU.
        request: The solutions, their numbers, the targets and q0.
        prefer: The preference, one of `COSTS`.
        cost: The address.
        work: The queue of launches.
    """
    kernel = _cost_kernel(problem, device, architecture)
    rows = request.count * request.max_solutions
    arguments = (request, ctypes.c_int(COSTS[prefer].value), ctypes.c_void_p(cost))
    threads = block_size("costs.cu", "costs")
    work.launch(kernel, -(-rows // threads), threads, *arguments)


def rank(
    device: Device,
    architecture: str,
    found: SolutionPointers,
    cost: tuple[int, int],
    n: int,
    to: SolutionPointers,
    count: int,
    work: Work,
) -> None:
    """Write the solutions with the smallest costs to other arrays, sorted.

    Args:
        device: The GPU.
        architecture: Architecture of the GPU.
        found: The solutions.
        cost: The address of the costs of the solutions, and whether the costs are float32.
        n: Number of coordinates.
        to: Arrays that are filled with the best solutions.
        count: Number of targets.
        work: The queue of launches.
    """
    at, floats = cost
    costs = (ctypes.c_void_p(at), ctypes.c_int(floats), ctypes.c_int(n))
    _start("rank", device, architecture, count, work, found, *costs, to)


def fill(
    device: Device, architecture: str, found: SolutionPointers, n: int, count: int, work: Work
) -> None:
    """Fill the rows of q after the last solution of each target with its first solution."""
    _start("fill", device, architecture, count, work, found, ctypes.c_int(n))


def _start(
    name: str, device: Device, architecture: str, count: int, work: Work, *arguments: Any
) -> None:
    kernel = _kernels(device, architecture)[name]
    threads = block_size("rank.cu", name)
    targets = threads // 32  # number of targets of a block, which have a warp each
    work.launch(kernel, -(-count // targets), threads, *arguments, ctypes.c_int(count))


@lru_cache(maxsize=8)
def _kernels(device: Device, architecture: str) -> dict[str, Any]:
    device.use()
    return device.load(compile_source(source("rank.cu"), architecture), KERNELS)


@lru_cache(maxsize=32)
def _cost_kernel(problem: CompiledProblem, device: Device, architecture: str) -> Any:
    device.use()
    text = source("costs.cu", problem.kernel.constants())
    return device.load(compile_source(text, architecture), ("costs",))["costs"]
