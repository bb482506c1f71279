"""Sentences that say why a solution misses some of its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supple.ik.limbs import kernel_order
from supple.ik.status import SolveStatus
from supple.ik.task_errors import TaskTargets
from supple.kinematics import Robot
from supple.kinematics.configuration import to_kernel
from supple.motion.linearization import Array
from supple.motion.unit_text import error_text
from supple.tasks import Task
from supple.tasks.inputs import task_name
from supple.tasks.layout import compile_tasks

if TYPE_CHECKING:
    from supple.ik.solution import Solution

_AT_LIMIT = 1e-6  # distance from a limit below which a joint is at the limit [rad or m]
# Smallest relevant part of the gradient of a task's error, relative to ‖J‖ ‖e‖ of its rows.
_MIN_GRADIENT_SHARE = 1e-3
_MAX_NAMED = 3  # number of joints at limits that a sentence names
# Statuses for which q is the closest configuration found.
_JUDGED_STATUSES = (SolveStatus.NOT_CONVERGED, SolveStatus.UNREACHABLE)


def reasons_of(solution: Solution) -> tuple[str, ...]:
    """Return a sentence about each task that a solution misses: by how much, and why."""
    missed = np.flatnonzero(solution.missed).tolist()
    if not missed:
        return ()
    errors = zip(solution.position_errors.tolist(), solution.rotation_errors.tolist(), strict=True)
    away = [error_text(*both) for both in errors]
    given, tasks = solution._task_targets, solution.tasks
    if solution.robot is None or given is None or solution.status not in _JUDGED_STATUSES:
        why = [solution.status.sentence] * len(tasks)
    else:
        why = _reasons(solution.robot, tasks, np.asarray(solution.q), TaskTargets.of(given).targets)
    return tuple(f"{task_name(tasks[k])} by {away[k]}: {why[k]}" for k in missed)


def _reasons(robot: Robot, tasks: tuple[Task, ...], q: Array, targets: Array) -> list[str]:
    """Return why each task is not met better at the closest configuration q (n,).

    If the free joints could still reduce the error of a task, tasks whose errors would then grow
    hold it back; otherwise joint limits or a singularity do.
    """
    order = kernel_order(robot, tuple(tasks))
    layout = compile_tasks(robot, tuple(tasks[i] for i in order))
    J, e = (np.asarray(x, np.float64) for x in layout._rows(q, targets))
    if robot.loops or robot.couplings:  # displacements that keep the loops closed
        closed = robot.loop_jacobian(q)
        J = J - J @ np.linalg.pinv(closed, rcond=1e-9) @ closed
    x = np.asarray(to_kernel(robot, q))
    lower, upper = x <= robot.lower + _AT_LIMIT, x >= robot.upper - _AT_LIMIT
    ends = np.cumsum(layout.counts)
    own = [slice(end - rows, end) for rows, end in zip(layout.counts, ends, strict=True)]
    pulls = np.array([J[rows].T @ e[rows] for rows in own])
    made = [""] * len(tasks)
    for k, (rows, pull) in enumerate(zip(own, pulls, strict=True)):
        least = _MIN_GRADIENT_SHARE * np.linalg.norm(J[rows]) * np.linalg.norm(e[rows])
        held = (lower & (pull < -least)) | (upper & (pull > least))
        against = (pulls * ~held) @ (pull * ~held) < 0
        if np.linalg.norm(pull * ~held) > least and against.any():
            others = [task_name(tasks[order[i]]) for i in np.flatnonzero(against).tolist()]
            made[order[k]] = f"{' and '.join(others)} would be missed by more"
        elif held.any():
            names = [robot.joint_names[j] for j in np.flatnonzero(held).tolist()]
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            limits = "its limit" if len(names) == 1 else "their limits"
            made[order[k]] = f"{', '.join(names[:_MAX_NAMED])}{more} at {limits}"
        else:
            made[order[k]] = "no motion of the joints leads closer"
    return made
