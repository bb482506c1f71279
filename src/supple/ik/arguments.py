"""What `solve` is given: taken as it is meant, or refused by name."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, join_names, short_repr
from supple.ik.problem import Search
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates, number
from supple.motion.linearization import Array
from supple.motion.task import PoseTask, Task, TaskLike

MOST_STARTS = 2**31 - 1  # what the kernel counts to
MOST_SOLUTIONS = 100_000  # there is room for all of them from the beginning
LARGEST = 1e9  # of a target's numbers and a start's: as the kernel has it
_ENDLESS = 1e9  # [s]: who waits longer does not wait for the clock


def each_of(
    target: Any, tasks: TaskLike | Sequence[TaskLike] | None, search: Search
) -> Sequence[ArrayLike]:
    """One target for each task."""
    all_tasks = search.layout.tasks
    count = len(all_tasks)
    if isinstance(tasks, str | Task) or (
        count == 1 and (tasks is None or isinstance(target, np.ndarray))
    ):
        return (_real(target),)
    if isinstance(target, Sequence) and not isinstance(target, str):
        return [_real(one) for one in target]
    expected = f"target must be a sequence with one for each of {count} tasks"
    if tasks is None:
        expected += f", the end effectors {join_names(search.layout.robot.tips)}"
    if all(isinstance(task, PoseTask) for task in all_tasks):
        if isinstance(target, np.ndarray) and target.shape[-3:] == (count, 4, 4):
            return [np.ascontiguousarray(_real(target[..., i, :, :])) for i in range(count)]
        expected += f", or an array of shape (..., {count}, 4, 4)"
    given = f"shape {target.shape}" if isinstance(target, np.ndarray) else short_repr(target)
    raise InputError(f"{expected}; given: {given}")


def _real(target: Any) -> Any:
    """A target, if it is not complex: NumPy would drop the imaginary part with a warning."""
    if isinstance(target, np.ndarray) and target.dtype.kind == "c":
        raise InputError(f"target must be real numbers; given: an array of {target.dtype}")
    return target


def start_of(q0: ArrayLike, robot: Robot, lead: tuple[int, ...]) -> Array:
    """A start for all (n,), or one for each (..., n)."""
    q = np.ascontiguousarray(coordinates(q0, robot.dof, "q0"), dtype=np.float64)
    if q.ndim == 1:
        if not np.isfinite(q).all():
            raise InputError(f"q0 must be finite; given: {short_repr(q0)}")
        return q
    if q.shape[:-1] != lead:
        raise InputError(
            f"q0 must be ({robot.dof},), or have the batch axes of the targets, {lead}; "
            f"given: {q.shape}"
        )
    return q


def refuse(goal: Array, start: Array | None) -> NoReturn:
    """Raise the error for numbers that the kernel did not take."""
    given = {"q0": np.empty(0) if start is None else start, "target": goal}
    for name, numbers in given.items():
        wrong = numbers[~(np.abs(numbers) <= LARGEST)]
        if wrong.size:
            raise InputError(f"{name} must be finite, and within 1e9; given: {wrong[0]:g} in it")
    raise AssertionError("the kernel refuses nothing else")


def seconds(timeout: object) -> float:
    """A time [s], infinite if it is so long that nobody sees the end of it."""
    if isinstance(timeout, float | np.floating) or type(timeout) is int:
        if timeout >= _ENDLESS:
            return math.inf
        if timeout >= 0:  # (a control loop asks a thousand times a second)
            return float(timeout)
    return number(timeout, "timeout", least=0)


def count_of(given: int, what: str, most: int) -> int:
    """A whole number from 1 to `most`."""
    try:
        count = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        count = 0
    if not 0 < count <= most:
        raise InputError(
            f"{what} must be a whole number from 1 to {most}; given: {short_repr(given)}"
        )
    return count
