"""Check all solutions of targets for collisions, if all can be computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple.ik.arguments import SolveOptions
from supple.ik.branches.arms import arm_of
from supple.ik.branches.solve_all import solutions_of
from supple.ik.problem import CompiledProblem
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.status import SolveStatus
from supple.ik.world_check import WorldCheck
from supple.motion.linearization import Array

_CHUNK = 4096  # number of blocked targets whose solutions are computed at a time
_COMPLETE_ARM_DOF = 6  # number of joints of arms all of whose solutions are computed


def settled(
    problem: CompiledProblem,
    target: Array,
    seed: Array | None,
    options: SolveOptions,
    found: Solution,
) -> Solution:
    """Return a blocked solution, or a free one if the arm has any.

    For arms whose solutions can all be computed, each solution is checked. If all collide, the
    target is proven to be blocked.

    Args:
        problem: The compiled problem.
        target: Target in the kernel's layout (k,).
        seed: Seed (n,), if any.
        options: Options of the call.
        found: A solution with the status BLOCKED.
    """
    check = options.check
    if check is None or isinstance(arm_of(problem), str):
        return found
    every = solutions_of(problem, target, seed, replace(options, check=None, gpu=None, threads=1))
    if not len(every.q):
        return found
    free = np.flatnonzero(check.free(every.q))
    if len(free):
        best = every[int(free[0])]
        return replace(
            best,
            iterations=found.iterations,
            restarts=found.restarts,
            _q0=found._q0,
            tasks=found.tasks,
            _check=check,
        )
    distances = [check.distance(q) for q in every.q]
    # Joints that do not move the frame may still move colliding parts away from each other.
    complete = bool(every.complete) and problem.layout.robot.dof == _COMPLETE_ARM_DOF
    proven = check.with_branches(every.q, complete)
    best = every[int(np.argmax(distances))]
    return replace(
        found,
        q=best.q,
        position_error=best.position_error,
        rotation_error=best.rotation_error,
        _check=proven,
    )


def settled_batch(
    problem: CompiledProblem,
    targets: Array,
    seeds: Array | None,
    options: SolveOptions,
    found: Solutions,
) -> Solutions:
    """Return the solutions of a batch; blocked targets get a free solution if the arm has any."""
    check = options.check
    if check is None or isinstance(arm_of(problem), str):
        return found
    blocked = np.nonzero(found.status == SolveStatus.BLOCKED)
    alone = replace(options, check=None, gpu=None, progress=None)
    for first in range(0, len(blocked[0]), _CHUNK):
        index = tuple(axis[first : first + _CHUNK] for axis in blocked)
        own = seeds if seeds is None or seeds.ndim == 1 else seeds[index]
        every = solutions_of(problem, targets[index], own, alone)
        free = np.flatnonzero(check.free(every.q))
        of, best = np.unique(every.target[free], return_index=True)
        place, best = tuple(axis[of] for axis in index), free[best]
        found.q[place] = every.q[best]
        found.status[place] = SolveStatus.CONVERGED
        found.position_error[place] = every.position_error[best]
        found.rotation_error[place] = every.rotation_error[best]
    return found


def free_solutions(found: Solutions, check: WorldCheck) -> Solutions:
    """Return the solutions of `Solver.all` that keep the clearance.

    `complete` does not change: if `found` has all solutions, the result has all solutions that keep
    the clearance.
    """
    kept = np.flatnonzero(check.free(found.q))
    if len(kept) == len(found.q):
        return replace(found, _check=check)
    part = found[kept]
    assert isinstance(part, Solutions)
    return replace(part, reason=found.reason, _complete=found._complete, _check=check)
