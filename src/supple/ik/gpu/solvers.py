"""The solver of a problem on a GPU: whole, or decoupled into subproblems."""

from __future__ import annotations

from functools import lru_cache

from supple.gpu.runtime import device_named
from supple.ik.gpu.position import GpuSolver
from supple.ik.gpu.subproblems import GpuSubproblems
from supple.ik.problem import CompiledProblem
from supple.ik.subproblems import is_separable, subproblems_of


@lru_cache(maxsize=32)
def gpu_solver(
    problem: CompiledProblem, device: str, precision: str = "mixed", several: bool = False
) -> GpuSolver:
    """Return the solver of a problem on a GPU, compiled on first use.

    Args:
        problem: The problem to solve.
        device: Name of the GPU, for example "cuda:0".
        precision: Precision of the search, "mixed" or "double".
        several: Whether several solutions of a target are compared.
    """
    number, info = device_named(device)
    options = (precision, several, number, info.architecture)
    if not is_separable(problem):
        return GpuSolver(problem, *options)
    return GpuSubproblems(problem, subproblems_of(problem), *options)
