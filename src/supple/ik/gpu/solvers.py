"""The solver of a problem on a GPU: for the whole problem, or for its subproblems."""

from __future__ import annotations

from functools import lru_cache

from supple.gpu.runtime import device_named
from supple.ik.gpu.position import GpuSolver
from supple.ik.gpu.subproblems import GpuSubproblems
from supple.ik.gpu.world import NO_WORLD, WorldSizes
from supple.ik.problem import CompiledProblem
from supple.ik.subproblems import is_separable, moving_subproblem, subproblems_of


@lru_cache(maxsize=32)
def gpu_solver(
    problem: CompiledProblem,
    device: str,
    precision: str = "mixed",
    several: bool = False,
    world: WorldSizes = NO_WORLD,
) -> GpuSolver:
    """Return the solver of a problem on a GPU, compiled on first use.

    Args:
        problem: The problem to solve.
        device: Name of the GPU, for example "cuda:0".
        precision: Precision of the search, "mixed" or "double".
        several: Whether several solutions of a target are compared.
        world: Sizes of the robot in a world.
            With a world, all joints that move a task are searched together, because solutions are
            checked as a whole.
    """
    number, info = device_named(device)
    options = (precision, several, number, info.architecture, world)
    moving = moving_subproblem(problem) if any(world) else None
    if moving is None and several and not is_separable(problem):
        moving = moving_subproblem(problem)
    if moving is not None:
        return GpuSubproblems(problem, (moving,), *options)
    if any(world) or not is_separable(problem):
        return GpuSolver(problem, *options)
    return GpuSubproblems(problem, subproblems_of(problem), *options)
