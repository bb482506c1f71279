"""Compute the errors of each task at a solution, and detect tasks with too many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import FloatArray
from supple.ik.limbs import groups_of, kernel_order, moving_joints
from supple.ik.problem import moving_joints_and_rows
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.motion.unit_text import error_text
from supple.tasks import Task
from supple.tasks.inputs import task_name
from supple.tasks.layout import CompiledTasks, compile_tasks


class TaskTargets(NamedTuple):
    """The targets and tolerances of a call with several tasks.

    Attributes:
        targets: Targets in the kernel's layout, (..., k) or (k,) for all.
        tolerances: Tolerances of position and rotation [m], [rad].
    """

    targets: Array
    tolerances: tuple[float, float]

    def part(self, index: Any, shape: tuple[int, ...]) -> TaskTargets:
        """Return the targets at an index of a batch with the axes `shape`, and the tolerances."""
        shared = self.targets.ndim == 1 and shape
        return self if shared else TaskTargets(np.array(self.targets[index]), self.tolerances)

    def tobytes(self) -> bytes:
        """Return one target and the tolerances as bytes, which are faster to copy."""
        return np.append(self.targets, self.tolerances).tobytes()

    @staticmethod
    def of(data: bytes) -> TaskTargets:
        """Return the targets and tolerances that `tobytes` has converted."""
        *target, position, rotation = np.frombuffer(data).tolist()
        return TaskTargets(np.array(target), (position, rotation))


def errors_of_tasks(
    layout: CompiledTasks, e: FloatArray, rotating: Sequence[NDArray[np.bool_]] | None = None
) -> Array:
    """Return the position and rotation errors of each task (B, k, 2) [m, rad].

    `e` (B, m) is the weighted error; `rotating` is the result of `rotating_rows`, if it is known.
    """
    plain = e / layout.weights
    kinds = rotating_rows(layout) if rotating is None else rotating
    errors = np.zeros((len(e), len(kinds), 2))
    ends = np.cumsum(layout.counts)
    for k, (turns, rows, end) in enumerate(zip(kinds, layout.counts, ends, strict=True)):
        own = plain[:, end - rows : end]
        for kind in (0, 1):
            errors[:, k, kind] = np.linalg.norm(own[:, turns == bool(kind)], axis=1)
    return errors


def largest_errors(
    layout: CompiledTasks, e: FloatArray, rotating: Sequence[NDArray[np.bool_]] | None = None
) -> Array:
    """Return the largest position and rotation errors of all tasks (B, 2) [m, rad]."""
    return np.asarray(errors_of_tasks(layout, e, rotating).max(axis=1, initial=0.0))


def rotating_rows(layout: CompiledTasks) -> list[NDArray[np.bool_]]:
    """Return, for each task, a mask of the rows that are rotations."""
    return [np.array(task.on(layout.robot).turns) for task in layout.tasks]


def solution_errors(robot: Robot, tasks: Sequence[Task], q: Array, targets: Array) -> Array:
    """Return the position and rotation errors of each task (..., k, 2) [m, rad].

    Args:
        robot: The robot.
        tasks: The tasks, in the caller's order.
        q: Configurations (..., n).
        targets: Targets (..., k) in the kernel's layout, in the order of `kernel_order`.

    A posture is a preference and has no error. The errors of a target that is not finite are
    infinite.
    """
    order = kernel_order(robot, tuple(tasks))
    layout = compile_tasks(robot, tuple(tasks[i] for i in order))
    lead = q.shape[:-1]
    flat = np.ascontiguousarray(q.reshape(-1, robot.nq))
    aims = np.broadcast_to(targets, (*lead, targets.shape[-1])).reshape(len(flat), -1)
    finite = np.isfinite(aims).all(axis=1)
    made = np.full((len(flat), len(tasks), 2), np.inf)
    made[finite] = errors_of_tasks(layout, layout.error(flat[finite], aims[finite]))
    for k, i in enumerate(order):
        if tasks[i].is_preference:
            made[finite, k] = 0.0
    return made[:, np.argsort(order)].reshape(*lead, len(tasks), 2)


def missed_norms(
    errors: Array, tolerances: tuple[float, float] | None, success: NDArray[np.bool_] | bool
) -> Array:
    """Return the norms (..., k) of the errors (..., k, 2) of tasks that are not met, else zero.

    A single task, without `tolerances`, is met if the solution is a success.
    """
    met = (errors <= tolerances).all(axis=-1) if tolerances else np.asarray(success)[..., None]
    return np.where(met, 0.0, np.hypot(errors[..., 0], errors[..., 1]))


def missed_tasks(
    tasks: Sequence[Task], errors: Array, tolerances: tuple[float, float]
) -> tuple[tuple[str, float, float], ...]:
    """Return the tasks with errors (k, 2) above the tolerances: name, position, rotation error."""
    return tuple(
        (task_name(task), float(position), float(rotation))
        for task, (position, rotation) in zip(tasks, errors, strict=True)
        if position > tolerances[0] or rotation > tolerances[1]
    )


def missed_text(missed: Sequence[tuple[str, float, float]]) -> str:
    """Return a sentence that names the missed tasks and their errors."""
    each = (f"{name} by {error_text(position, rotation)}" for name, position, rotation in missed)
    return f"missed: {'; '.join(each)}"


def surplus_rows(robot: Robot, tasks: Sequence[Task]) -> str:
    """Return a sentence if tasks have more rows than joints that move them, else "".

    Rows with an allowed range do not count, because a whole set of configurations meets them.
    """
    if any(task.on(robot).in_python for task in tasks):
        return ""  # the joints that move them are not known
    met = [task for task in tasks if not task.is_preference]
    for members, _ in groups_of([moving_joints(robot, task) for task in met]):
        layout = compile_tasks(robot, tuple(met[k] for k in members))
        joints, rows = moving_joints_and_rows(layout, len(layout.rows))
        if rows > joints:
            return (
                f"{joints} joint{'s' * (joints != 1)} cannot meet {rows} rows except at special "
                "targets: ask for fewer with rows= or tolerance= of a task, with a PositionTask, "
                "or with a PositionTask and an AxisTask"
            )
    return ""
