"""Decouple tasks that share no joint into subproblems; the compiled solver merges the solutions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.damping import Region
from supple.ik.limbs import groups_of, moving_joints, others
from supple.ik.problem import CompiledProblem, compile_problem


@dataclass(frozen=True, eq=False)
class Subproblem:
    """Some tasks of a problem, and the joints that move them.

    Attributes:
        problem: The compiled problem of these tasks, for a robot that has only these joints.
        joints: Indices of the subproblem's coordinates in the whole robot (k,).
        numbers: Indices of the subproblem's target values in the whole target.
    """

    problem: CompiledProblem
    joints: NDArray[np.int32]
    numbers: NDArray[np.int32]


@lru_cache(maxsize=64)
def subproblems_of(problem: CompiledProblem) -> tuple[Subproblem, ...]:
    """Return the smallest subproblems such that each joint moves tasks of at most one of them.

    The squared error is a sum over tasks and the limits are a box, so the closest configurations of
    the subproblems together form the closest configuration of the whole problem. Fewer seeds are
    needed, because a start has to meet only the targets of one subproblem. Joints that move no task
    are in no subproblem.

    The problem itself is the only subproblem if it cannot be decoupled, if it has postures, or if
    its damping rule has a direction that refers to all rows.
    """
    robot, tasks = problem.layout.robot, problem.layout.tasks
    groups = groups_of([moving_joints(robot, task) for task in tasks])
    whole = len(groups) == 1 and len(groups[0][1]) == robot.dof
    rule = problem.settings[0]
    if not groups or whole or problem.rest or (isinstance(rule, Region) and rule.direction):
        every = (np.arange(robot.dof), np.arange(problem.layout.kernel.targets))
        return (Subproblem(problem, *(x.astype(np.int32) for x in every)),)
    ends = np.cumsum([0, *problem.layout.kernel.target_sizes])
    subproblems = []
    for members, joints in groups:
        own = compile_problem(
            robot.freeze(others(robot, joints)),
            tuple(tasks[k] for k in members),
            *problem.settings,
        )
        numbers = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in members])
        indices = np.array(sorted(joints), np.int32)
        subproblems.append(Subproblem(own, indices, numbers.astype(np.int32)))
    return tuple(subproblems)


@lru_cache(maxsize=64)
def moving_subproblem(problem: CompiledProblem) -> Subproblem | None:
    """Return the problem of the joints that move a task; None if it is the problem itself.

    In the whole problem, several solutions of one target could differ only in joints that move no
    task, such as those of a gripper. The result is also None for a problem with postures.
    """
    robot, tasks = problem.layout.robot, problem.layout.tasks
    moving = frozenset[int]().union(*(moving_joints(robot, task) for task in tasks))
    if problem.rest or not moving or len(moving) == robot.dof:
        return None
    own = compile_problem(robot.freeze(others(robot, moving)), tasks, *problem.settings)
    numbers = np.arange(problem.layout.kernel.targets, dtype=np.int32)
    return Subproblem(own, np.array(sorted(moving), np.int32), numbers)


@lru_cache(maxsize=64)
def decoupled_solver(problem: CompiledProblem) -> _core.Solver:
    """Return the compiled solver of a problem, with its subproblems set."""
    if is_separable(problem):
        problem.kernel.set_subproblems(
            [
                (part.problem.kernel, part.joints.tolist(), part.numbers.tolist())
                for part in subproblems_of(problem)
            ]
        )
    return problem.kernel


@lru_cache(maxsize=64)
def checked_solver(problem: CompiledProblem) -> _core.Solver:
    """Return the compiled solver of a problem, for solutions that are checked as a whole.

    Joints that move no task stay at q0, or neutral without q0.
    """
    moving = moving_subproblem(problem)
    if moving is not None:
        problem.kernel.set_moving(
            (moving.problem.kernel, moving.joints.tolist(), moving.numbers.tolist())
        )
    return problem.kernel


def is_separable(problem: CompiledProblem) -> bool:
    """Return whether a problem reduces to smaller, independent subproblems."""
    return subproblems_of(problem)[0].problem is not problem
