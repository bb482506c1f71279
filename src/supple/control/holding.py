"""Tasks that a `Servo` holds exactly: checks of these tasks, and reports on the last step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple._arrays.checks import number
from supple.errors import InputError, short_repr, unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.loops import coupling_rows
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.tasks import Task, TaskLike, as_tasks
from supple.tasks.closure import closure_tasks
from supple.tasks.layout import CompiledTasks, compile_tasks
from supple.tasks.rows import WORLD, TaskRows

_CONFLICT_SHARE = 0.1  # share of an error left by the best joint motion, above which tasks conflict


class HeldTasks:
    """The tasks that a `Servo` may hold.

    Attributes:
        loops: Number of loops and couplings of the robot; these are the first tasks and are always
            held.
        closed: Targets of the loops and couplings, in the kernel's layout.
        tasks: The loops, then the tasks as they were given.
        layout: These tasks with weights of 1, compiled; None if there are no tasks.
    """

    def __init__(self, robot: Robot, given: tuple[Task, ...]) -> None:
        closing, targets = closure_tasks(robot)
        self.loops = len(closing)
        self.closed = [
            np.ascontiguousarray(task.targets(robot, target))
            for task, target in zip(closing, targets, strict=True)
        ]
        self.tasks = tasks = (*closing, *given)
        self.plain = tuple(_plain(robot, task) for task in tasks)
        self.layout = compile_tasks(robot, self.plain) if tasks else None
        self.names = tuple(getattr(task, "frame", None) or "" for task in tasks)
        self._labels = [f"the loop {loop.name!r}" for loop in robot.loops]
        self._labels += [f"{one.follower!r} by {one.leader!r}" for one in robot.couplings]

    @property
    def given(self) -> tuple[Task, ...]:
        """The tasks as they were given, without the loops."""
        return self.tasks[self.loops :]

    def words(self, k: int) -> str:
        """Return the description of a task for messages."""
        if k < self.loops:
            return self._labels[k]
        name, kind = self.names[k], type(self.tasks[k]).__name__
        return f"{kind} of {name}" if name else kind

    def index(self, which: object) -> int:
        """Return the index of a task that is given itself, by its index or by its frame."""
        names = self.names[self.loops :]
        found = [
            k
            for k, (task, name) in enumerate(zip(self.given, names, strict=True))
            if which == (name if isinstance(which, str) else task)
        ]
        if len(found) == 1:
            return self.loops + found[0]
        if isinstance(which, int) and not isinstance(which, bool) and 0 <= which < len(names):
            return self.loops + which
        if not names:
            raise InputError(
                f"this Servo holds no tasks: Servo(..., held=[...]) names them; given: "
                f"{short_repr(which)}"
            )
        if found:
            raise InputError(
                f"several held tasks have the frame {which!r}; give the task itself or its index, "
                f"0 to {len(names) - 1}"
            )
        if isinstance(which, str):
            raise unknown_name_error("held task", which, sorted({*names} - {""}))
        known = ", ".join(map(repr, self.given))
        raise InputError(f"the held tasks are {known}; given: {short_repr(which)}")

    def kernel(self, robot: Robot, layout: CompiledTasks) -> _core.Tasks:
        """Return the compiled tasks of a layout, followed by the held ones."""
        if not self.tasks:
            return layout.kernel
        return compile_tasks(robot, (*layout.tasks, *self.plain)).kernel

    def target(self, k: int, robot: Robot, given: ArrayLike | None) -> Array | None:
        """Return a target of a task in the kernel's layout."""
        if given is None:
            return None
        made = self.plain[k].targets(robot, given)
        if made.ndim != 1:
            raise InputError(f"target must not be a batch; given: batch axes {made.shape[:-1]}")
        return np.ascontiguousarray(made)


def held_tasks(
    robot: Robot, held: TaskLike | Sequence[TaskLike] | None, limits: Limits
) -> HeldTasks:
    """Check the tasks to hold, and return them."""
    tasks = () if held is None or (isinstance(held, Sequence) and not len(held)) else as_tasks(held)
    if (tasks or not robot.is_tree) and limits.mode != "exact":
        what = "held tasks need" if tasks else "the loops of a robot need"
        raise InputError(
            f'{what} limits of mode "exact", because a step that is only scaled cannot '
            f"correct them; given: mode={limits.mode!r}"
        )
    return HeldTasks(robot, tasks)


@dataclass(frozen=True)
class _Unweighted(Task):
    """A task whose weights are 1."""

    task: Task

    def on(self, robot: Robot) -> TaskRows:
        rows = self.task.on(robot)
        return replace(rows, weights=(1.0,) * len(rows.weights))

    def targets(self, robot: Robot, given: ArrayLike) -> Array:
        return self.task.targets(robot, given)


def _plain(robot: Robot, task: Task) -> Task:
    """Return a task without weights after checking that it can be held."""
    rows = task.on(robot)
    name = type(task).__name__
    if any(rows.ranged) or (rows.traits.is_twist and _core.TASK_TILT in rows.picked):
        raise InputError(f"a held {name} has no tolerance and no cone; given: {task!r}")
    if rows.alternate:
        raise InputError(f"a held {name} must not be alternate; given: {task!r}")
    fixed = rows.base is None and rows.axes == WORLD
    if rows.has_pose and rows.axes is not None and not fixed:
        raise InputError(
            f"the rows of a held {name} must be in the axes of its base, or of the world; given: "
            f"axes={rows.axes!r}"
        )
    if rows.in_python:
        raise InputError(f"a {name} cannot be held; it is computed in Python")
    return _Unweighted(task)


def check_over(over: object) -> float:
    """Return the time of switching [s] after checking it."""
    return number(over, "over", least=0)


def missed_words(held: HeldTasks, errors: Array, blame: Callable[[int], str]) -> tuple[str, ...]:
    """Return a sentence about each held task that is off its held value."""
    told = []
    for k in np.flatnonzero(errors > _core.NOTICED_ERROR).tolist():
        told.append(f"{held.words(k)} is {errors[k]:.3g} m or rad off its held value: {blame(k)}")
    return tuple(told)


def reason(held: HeldTasks, robot: Robot, q: Array, targets: Array, shares: Array) -> Any:
    """Return a function from the index of a task to the reason why it is not held exactly."""
    assert held.layout is not None
    J, e, _ = held.layout.kernel.linearize(q, targets, 1)
    if robot.couplings:
        rows = slice(
            sum(held.layout.counts[: len(robot.loops)]), sum(held.layout.counts[: held.loops])
        )
        off, J[rows] = coupling_rows(robot, q)
        e[rows] = -off
    active = np.repeat(shares == 1, held.layout.counts)
    best = np.linalg.lstsq(J[active], e[active], rcond=1e-9)[0]
    left = np.zeros(len(e))
    left[active] = np.abs(e[active] - J[active] @ best)
    ends = np.cumsum(held.layout.counts)

    def of(k: int) -> str:
        rows = slice(ends[k] - held.layout.counts[k], ends[k])  # type: ignore[union-attr]
        conflict = left[rows].max() > _CONFLICT_SHARE * np.abs(e[rows]).max()
        if conflict:
            return "no motion of the joints meets all held tasks"
        return "the limits of the joints do not allow more in this step"

    return of
