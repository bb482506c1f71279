"""Decouple tasks that share no joint into subproblems, and merge their solutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._core import Goal
from supple.ik.arguments import LARGEST, Progress
from supple.ik.problem import CompiledProblem, compile_problem
from supple.ik.status import SolveStatus
from supple.kinematics import Robot
from supple.kinematics.robot import ancestors
from supple.motion.damping import Region
from supple.motion.linearization import Array
from supple.motion.task import Task
from supple.motion.task_rows import BODY, WORLD

# Arrays (B, s, ...): q, status, errors, iterations and seeds; then the number of solutions (B,) and
# the statistics of failed seeds (B, 4).
RawSolutions: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Subproblem:
    """Some tasks of a problem, and the joints that move them.

    Attributes:
        problem: Those tasks, for a robot with those joints only.
        joints: Index of each of its coordinates in the whole robot (k,).
        numbers: Index of each of its target's numbers in the whole target.
    """

    problem: CompiledProblem
    joints: NDArray[np.int32]
    numbers: NDArray[np.int32]


@lru_cache(maxsize=64)
def subproblems_of(problem: CompiledProblem) -> tuple[Subproblem, ...]:
    """Return the subproblems of a problem: no task of one moves with a joint of another.

    The squared error is a sum over tasks and the limits are a box, so the closest configurations of
    the subproblems, put together, are the closest configuration of the whole. Fewer seeds are
    needed: those of one subproblem do not have to meet the targets of the others. Joints that move
    no task are in no subproblem.

    The only subproblem is the problem itself if it cannot be decoupled, if it has postures, or if
    its damping rule has a direction of the whole task.
    """
    robot, tasks = problem.layout.robot, problem.layout.tasks
    groups = _groups([moving_joints(robot, task) for task in tasks])
    whole = len(groups) == 1 and len(groups[0][1]) == robot.dof
    rule = problem.settings[0]
    if not groups or whole or problem.rest or (isinstance(rule, Region) and rule.direction):
        every = (np.arange(robot.dof), np.arange(problem.layout.kernel.targets))
        return (Subproblem(problem, *(x.astype(np.int32) for x in every)),)
    ends = np.cumsum([0, *problem.layout.kernel.target_sizes])
    subproblems = []
    for members, joints in groups:
        still = [name for j, name in enumerate(robot.joint_names) if j not in joints]
        own = compile_problem(
            robot.freeze(still), tuple(tasks[k] for k in members), *problem.settings
        )
        numbers = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in members])
        indices = np.array(sorted(joints), np.int32)
        subproblems.append(Subproblem(own, indices, numbers.astype(np.int32)))
    return tuple(subproblems)


@lru_cache(maxsize=64)
def decoupled_solver(problem: CompiledProblem) -> _core.Solver:
    """Return the compiled solver of a problem, which knows its subproblems."""
    if is_separable(problem):
        problem.kernel.divide(
            [
                (part.problem.kernel, part.joints.tolist(), part.numbers.tolist())
                for part in subproblems_of(problem)
            ]
        )
    return problem.kernel


def is_separable(problem: CompiledProblem) -> bool:
    """Return whether a problem reduces to smaller, independent subproblems."""
    return subproblems_of(problem)[0].problem is not problem


def solve_subproblems(
    problem: CompiledProblem,
    run: Callable[..., RawSolutions],
    targets: Array,
    seeds: Array | None,
    size: int,
    progress: Progress | None,
) -> RawSolutions:
    """Solve a separable problem.

    Args:
        problem: The whole problem.
        run: Function that solves a subproblem, `run(problem, targets, seeds, progress, shares)`, in
            one of `shares` equal shares of the time that is left.
        targets: Targets (B, k) for the kernel.
        seeds: Seeds (B, n), one for all (n,), or None.
        size: Number of targets at a time: a target is solved when all its subproblems are.
        progress: Function that is called with the number of finished targets, and of all.
    """
    chunks = []
    for first in range(0, max(len(targets), 1), size):
        chunk = slice(first, first + size)
        own = seeds if seeds is None or seeds.ndim == 1 else seeds[chunk]
        tell = None if progress is None else partial(_tell, progress, first, len(targets))
        chunks.append(_merged(problem, run, targets[chunk], own, tell))
    return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))


def _merged(
    problem: CompiledProblem,
    run: Callable[..., RawSolutions],
    targets: Array,
    seeds: Array | None,
    progress: Progress | None,
) -> RawSolutions:
    """Merge the solutions of all subproblems, as `PySolver::run_parts` does for one target."""
    robot, parts, count = problem.layout.robot, subproblems_of(problem), len(targets)
    given = np.broadcast_to(0.0 if seeds is None else seeds, (count, robot.dof))
    good = np.asarray(np.abs(given).max(axis=1, initial=0.0) <= LARGEST)
    q = np.clip(np.where(good[:, None], given, 0.0), robot.lower, robot.upper)
    status = np.where(good, SolveStatus.CONVERGED, SolveStatus.NONFINITE_INPUT).astype(np.int8)
    error = np.where(good[:, None], [0.0, 0.0], math.inf)
    effort = np.tile(np.array([0, 1], np.intc), (count, 1))
    failed = np.zeros((count, 4))
    for i, part in enumerate(parts):
        own = None if seeds is None else np.ascontiguousarray(seeds[..., part.joints])
        aim = np.ascontiguousarray(targets[:, part.numbers])
        tell = None if progress is None else partial(_tell_share, progress, i, len(parts))
        found = run(part.problem, aim, own, tell, len(parts) - i)
        q[:, part.joints] = found[0][:, 0]
        status = np.maximum(status, found[1][:, 0])
        error = np.maximum(error, found[2][:, 0])
        effort += np.maximum(found[3][:, 0] - np.array([0, 1], np.intc), 0)
        if len(found[5]):  # statistics are collected for `explain` only
            failed[:, :2] += found[5][:, :2]
            failed[:, 2:] = np.maximum(failed[:, 2:], found[5][:, 2:])
    bad = status == SolveStatus.NONFINITE_INPUT
    q[bad], effort[bad] = robot.neutral(), 0
    there = np.ones(count, np.intc)
    return q[:, None], status[:, None], error[:, None], effort[:, None], there, failed


def _tell_share(progress: Progress, part: int, parts: int, done: int, total: int) -> None:
    """Report progress of one of some subproblems."""
    progress((part * total + done) // parts, total)


def _tell(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    """Report progress of one chunk of targets."""
    progress(before + done, total)


def moving_joints(robot: Robot, task: Task) -> frozenset[int]:
    """Return the coordinates that the error of a task depends on."""
    rows = task.on(robot)
    if rows.goal == Goal.POSTURE:
        return frozenset(rows.picked)
    frame = ancestors(robot, rows.frame)
    base = ancestors(robot, rows.base) if rows.base is not None else {}
    if rows.axes in (None, BODY):  # common ancestors do not move one frame relative to the other
        return frozenset((frame | base)[j] for j in frame.keys() ^ base.keys())
    axes = {} if rows.axes == WORLD else ancestors(robot, rows.axes)
    return frozenset((frame | base | axes).values())


def _groups(moving: list[frozenset[int]]) -> list[tuple[list[int], frozenset[int]]]:
    """Group tasks that share a coordinate, directly or through others.

    Returns the tasks and the coordinates of each group. Tasks that no joint moves are in the first.
    """
    groups: list[tuple[list[int], frozenset[int]]] = []
    for task, joints in enumerate(moving):
        if not joints:
            continue
        members, shared, apart = [task], joints, []
        for group in groups:
            if group[1] & shared:
                members, shared = [*group[0], *members], shared | group[1]
            else:
                apart.append(group)
        groups = [*apart, (members, shared)]
    groups.sort(key=lambda group: group[0])
    still = [task for task, joints in enumerate(moving) if not joints]
    if groups and still:
        groups[0] = (sorted([*groups[0][0], *still]), groups[0][1])
    return groups
