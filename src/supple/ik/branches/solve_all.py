"""All solutions of poses, in closed form or as eigenvalues; for other robots, by a search.

src/core/drivers/branches.hpp verifies the solutions and applies the joint limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.errors import InputError, short_repr
from supple.ik.arguments import SolveOptions, seeds_of
from supple.ik.branches.arms import AnyArm, ClosedFormArm, Found, arm_of
from supple.ik.branches.same_branch import largest_move
from supple.ik.driver import Driver
from supple.ik.preference import costs
from supple.ik.problem import CompiledProblem, compile_problem
from supple.ik.solutions import Solutions, all_of_one
from supple.kinematics import Robot
from supple.kinematics.configuration import from_kernel
from supple.motion.linearization import Array
from supple.tasks.inputs import per_task

if TYPE_CHECKING:
    from supple.ik.gpu.calls import Record

SAMPLES = 16  # number of samples of a joint that moves freely at a singular target
MAX_SOLUTIONS = 64  # maximum number of solutions that a search returns
TOLERANCE = 1e-6  # default tolerances of `solve` [m], [rad]

_SEEDS = "these were found by a search from seeds"


def solve_all(
    problem: CompiledProblem,
    target: Any,
    single: bool,
    q0: ArrayLike | None,
    wraps: bool,
    options: SolveOptions,
) -> Solutions:
    """Return all solutions of one target or of a batch."""
    robot = problem.layout.robot
    if options.gpu is not None:
        _closed_form(problem, wraps)
    targets = problem.targets(per_task(target, single, problem.layout.tasks), options.threads)
    return solutions_of(problem, targets, seeds_of(q0, robot, targets.shape[:-1]), options, wraps)


def record_all(problem: CompiledProblem, wraps: bool, options: SolveOptions) -> Record:
    """Return a function that records a call for all solutions of targets in GPU memory."""
    from supple.ik.gpu.branches import gpu_branches  # (NVIDIA's packages are optional)
    from supple.ik.gpu.world import world_sizes

    assert options.gpu is not None
    sizes, arm = world_sizes(options.check), _closed_form(problem, wraps)
    solver = gpu_branches(problem, arm, options.gpu.device, sizes)
    prefer = options.prefer
    if callable(prefer):
        raise InputError(
            "all solutions of targets in GPU memory are sorted by a named preference; given: "
            f"{short_repr(prefer)}"
        )
    order = None if prefer in ("fast", "limits", "nearest") else prefer
    return partial(solver.record, spec=_spec(options, False), check=options.check, order=order)


def _closed_form(problem: CompiledProblem, wraps: bool) -> ClosedFormArm:
    """Return the arm of a problem whose solutions a GPU computes.

    Raises:
        InputError: The arm has no closed form, or solutions that differ by full turns are wanted.
    """
    arm = arm_of(problem)
    if isinstance(arm, ClosedFormArm) and not wraps:
        return arm
    name = problem.layout.robot.name
    why = "wraps=True" if wraps else f"{name}, which has no closed form"
    raise InputError(
        f"all solutions on a GPU need an arm with a closed form, and wraps=False; given: {why}"
    )


def solutions_of(
    problem: CompiledProblem,
    targets: Array,
    seeds: Array | None,
    options: SolveOptions,
    wraps: bool = False,
) -> Solutions:
    """Return all solutions of targets (..., k) in the kernel's layout."""
    robot, arm = problem.layout.robot, arm_of(problem)
    if isinstance(arm, str):
        return _searched(problem, targets, seeds, replace(options, solutions=MAX_SOLUTIONS), arm)
    batch = targets.shape[:-1]
    start = None if seeds is None else from_kernel(robot, seeds)
    if seeds is not None and seeds.ndim > 1:
        seeds = seeds.reshape(-1, robot.nv)
    spec = _spec(options, wraps)
    flat = targets.reshape(-1, 12)
    if options.gpu is not None:
        assert isinstance(arm, ClosedFormArm)
        from supple.ik.gpu.branches import solve_on_gpu  # (NVIDIA's packages are optional)

        found = solve_on_gpu(problem, arm, flat, seeds, spec, options.gpu.device)
    else:
        found = arm.solve(problem, flat, seeds, spec)
    missing = (found[4] == 0) & ~found[5] & np.isfinite(flat).all(axis=1)
    if missing.any():
        found = _with_searched(found, missing, flat, seeds, Driver(problem, options))
    if options.max_move is not None and seeds is not None:
        found = _near(found, seeds, options.max_move)
    q, position, rotation, sampled, count, certain = found
    if not arm.ordered or options.prefer not in ("fast", "limits", "nearest"):
        of = np.repeat(np.arange(len(count)), count)
        own = seeds if seeds is None or seeds.ndim == 1 else seeds[of]
        order = np.lexsort((costs(options.prefer, problem, q, own), of))
        q, position, rotation, sampled = q[order], position[order], rotation[order], sampled[order]
    if not batch:
        complete = bool(certain[0])
        made = all_of_one(q, position, rotation, complete, arm.reason, robot, arm.frame)
        return replace(made, sampled=sampled, q0=start, tasks=problem.layout.tasks)
    return Solutions(
        q,
        position_error=position,
        rotation_error=rotation,
        sampled=sampled,
        reason=arm.reason,
        robot=robot,
        q0=start,
        tasks=problem.layout.tasks,
        frame=arm.frame,
        _targets=batch,
        _count=count.reshape(batch),
        _complete=certain.reshape(batch),
    )


def _spec(options: SolveOptions, wraps: bool) -> _core.BranchSpec:
    return _core.BranchSpec(
        position_tolerance=options.position_tolerance,
        rotation_tolerance=options.rotation_tolerance,
        samples=SAMPLES,
        wraps=wraps,
        nearest=options.prefer == "nearest",
        threads=options.threads,
    )


@lru_cache(maxsize=64)
def all_solver(robot: Robot) -> Callable[[object], Solutions | None] | None:
    """Return a function that computes all solutions of one pose of the end effector: a fast path.

    Return None if the solutions can only be found by a search. The function itself returns None if
    the slow path is needed: the target needs to be checked, may have more solutions or has a
    continuum of them, or the arm is misaligned and its closed form is not sufficient.
    """
    problem = compile_problem(robot, None)
    arm = arm_of(problem)
    spec = _core.BranchSpec(
        position_tolerance=TOLERANCE,
        rotation_tolerance=TOLERANCE,
        samples=SAMPLES,
        wraps=False,
        nearest=False,
        threads=1,
    )
    if not isinstance(arm, ClosedFormArm | AnyArm):
        return None
    tasks = problem.layout.tasks
    shared = {"reason": "", "robot": robot, "tasks": tasks, "frame": arm.frame, "_targets": ()}
    only_certain = isinstance(arm, AnyArm) or arm.spec.slack > 0
    arm.kernel.prepare(spec, Solutions, shared, only_certain)
    function: Callable[[object], Solutions | None] = arm.kernel.solve_pose
    return function


def _with_searched(
    found: Found, missing: NDArray[np.bool_], targets: Array, seeds: Array | None, driver: Driver
) -> Found:
    """Return `found` with a solution from a search for each target of the mask `missing` (B,)."""
    q, position, rotation, sampled, count, certain = found
    own = seeds if seeds is None or seeds.ndim == 1 else seeds[missing]
    more = driver.solve_batch(targets[missing], own)
    good = more.success
    which = np.concatenate([np.repeat(np.arange(len(count)), count), np.nonzero(missing)[0][good]])
    order = np.argsort(which, kind="stable")
    count = count.copy()
    count[np.nonzero(missing)[0][good]] = 1
    return (
        np.concatenate([q, more.q[good]])[order],
        np.concatenate([position, more.position_error[good]])[order],
        np.concatenate([rotation, more.rotation_error[good]])[order],
        np.concatenate([sampled, np.ones(int(good.sum()), dtype=np.bool_)])[order],
        count,
        certain,
    )


def _near(found: Found, seeds: Array, max_move: float) -> Found:
    """Return the solutions within `max_move` of seeds (n,) or (B, n)."""
    q, position, rotation, sampled, count, certain = found
    of = np.repeat(np.arange(len(count)), count)
    keep = largest_move(None, q, seeds if seeds.ndim == 1 else seeds[of]) <= max_move
    count = np.bincount(of[keep], minlength=len(count)).astype(np.int32)
    return q[keep], position[keep], rotation[keep], sampled[keep], count, certain


def _searched(
    problem: CompiledProblem,
    targets: Array,
    seeds: Array | None,
    options: SolveOptions,
    why: str,
) -> Solutions:
    """Return the solutions that a search finds."""
    driver, reason = Driver(problem, options), f"{why}; {_SEEDS}"
    batch, robot = targets.shape[:-1], problem.layout.robot
    rows, frame = problem.layout.tasks[0].on(robot), None
    if len(problem.layout.tasks) == 1 and rows.has_pose and {0, 1, 2} < set(rows.picked):
        frame = rows.frame

    def one(target: Array, seed: Array | None) -> Solutions:
        found = driver.solve_several(target, seed)
        converged = found[found.success]
        sampled = np.full(len(converged), problem.primary < robot.dof)
        return replace(converged, sampled=sampled, reason=reason, frame=frame)

    if not batch:
        return one(targets, seeds)
    flat = targets.reshape(-1, targets.shape[-1])
    every = [
        one(target, seeds if seeds is None or seeds.ndim == 1 else seeds.reshape(-1, robot.nv)[i])
        for i, target in enumerate(flat)
    ]
    empty = np.empty((0, robot.nq)), *(np.empty(0, dtype) for dtype in (np.int8, float, float))
    columns = [[first] for first in (*empty, *(np.empty(0, dtype) for dtype in (np.int32,) * 2))]
    for found in every:
        for column, part in zip(columns, found._parts(), strict=True):
            column.append(part)
    return Solutions(
        *(np.concatenate(column) for column in columns),  # type: ignore[arg-type]
        sampled=np.concatenate([np.empty(0, np.bool_), *(found.sampled for found in every)]),
        reason=reason,
        robot=robot,
        q0=None if seeds is None else from_kernel(robot, seeds),
        tasks=driver._tasks,
        frame=frame,
        _targets=batch,
        _count=np.array([len(found) for found in every], dtype=np.int32).reshape(batch),
    )
