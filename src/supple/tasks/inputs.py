"""Targets and velocities of several tasks, as callers give them: one for each task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from supple._arrays.checks import of_other_library, to_numpy
from supple._core import InputSpec, TargetKind
from supple.errors import InputError, join_names, short_repr
from supple.kinematics import Robot
from supple.tasks import Task
from supple.tasks.base import Shape

_MAX_NAMED = 8  # maximum number of tasks named in a message


def per_task(given: Any, single: bool, tasks: Sequence[Task], name: str = "target") -> Any:
    """Return a sequence with one target or velocity for each task.

    `solve`, `plan_path`, `Servo`, `simulate` and `linearize` all read their arguments with it.

    Args:
        given: The value of a single task; for several tasks a sequence with one value per task. If
            the values of k tasks have the same shape, an array (..., k, *shape) may hold all of
            them: (..., k, 4, 4) for the targets of k poses, as `Robot.fk` returns them, (..., k, 3)
            for the targets of k positions. For a sequence of only one task, an array is the value
            of that task.
        single: Whether a task was given, not a sequence of tasks: see `selected_tasks`.
        tasks: The tasks.
        name: Name of the argument: "target", "velocity" or "acceleration".

    Raises:
        InputError: There is not one value for each task, or an array is complex.
    """
    count = len(tasks)
    given = _as_array(given)
    is_array = isinstance(given, np.ndarray)
    if single or (count == 1 and is_array):
        return (_real(given, name),)
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count:
        return [_real(one, name) for one in given]
    stacked = [(count, *shape) for shape in common_shapes(tasks, name)]
    for shape in stacked if is_array else ():
        if given.shape[-len(shape) :] == shape:
            each = np.moveaxis(given, -len(shape), 0)
            return [np.array(_real(one, name), order="C", subok=True) for one in each]
    expected = one_per_task(name, tasks)
    if stacked:
        expected += f", or an array of shape (..., {', '.join(map(str, stacked[0]))})"
    shown = f"shape {given.shape}" if is_array else short_repr(given)
    raise InputError(f"{expected}; given: {shown}")


def common_shapes(tasks: Sequence[Task], name: str = "target") -> tuple[Shape, ...]:
    """Return the shapes that the targets or velocities of all tasks may have."""
    if name == "target":
        each = [task.target_shapes for task in tasks]
    else:
        each = [(task.velocity_shape,) if task.velocity_shape else () for task in tasks]
    return tuple(shape for shape in each[0] if all(shape in other for other in each))


def kind_of_targets(task: Task) -> TargetKind:
    """Return the form of a task's targets; `OTHER` if only its `targets` can read them."""
    known = _describes(type(task), "target_kind", "targets")
    return task.target_kind if known else TargetKind.OTHER


def input_spec(task: Task, robot: Robot, rows: int) -> InputSpec:
    """Return the sizes of a task's velocity and target if compiled code can read both itself.

    Otherwise, return an empty spec: the input is converted in Python.
    """
    read = _describes(type(task), "input_spec", "targets", "velocities")
    return task.input_spec(robot, rows) if read else InputSpec()


def reads_velocities(task: Task) -> bool:
    """Return whether code may read velocities of a task without calling `velocities`."""
    return _describes(type(task), "velocity_shape", "velocities")


def conversion_error(name: str, task: Task) -> InputError:
    """Return the error for a target or velocity in GPU memory that only Python can convert."""
    return InputError(
        f"the {name} of {task_name(task)} must be in host memory, because its class converts it in "
        "Python; given: an array in GPU memory"
    )


def _described(kind: type[Task], attribute: str, *methods: str) -> bool:
    """Return whether an attribute of a class describes its methods.

    It does not describe them if a subclass overrides a method but not the attribute.
    """
    owner = next(each for each in kind.__mro__ if attribute in vars(each))
    return all(getattr(kind, name) is getattr(owner, name) for name in methods)


_describes: Callable[..., bool] = lru_cache(maxsize=256)(_described)


def _as_array(given: Any) -> Any:
    """Return an array of another library as an array of NumPy, and other objects unchanged.

    Masked arrays stay masked, and objects whose conversion fails stay as they are: the task that
    later converts them to numbers raises the error.
    """
    if isinstance(given, Sequence) or not hasattr(given, "__array__"):
        return given
    try:
        return to_numpy(given) if of_other_library(given) else np.asanyarray(given)
    except Exception:  # raised by the object's own conversion
        return given


def _real(given: Any, name: str) -> Any:
    """Return a value, or raise an error if it is complex: NumPy would drop the imaginary part."""
    if isinstance(given, np.ndarray) and given.dtype.kind == "c":
        raise InputError(f"{name} must be real numbers; given: an array of {given.dtype}")
    return given


def one_per_task(name: str, tasks: Sequence[Task]) -> str:
    """Return the beginning of the error for an argument that needs one value per task."""
    expected = f"{name} must be a sequence with one {name} for each of"
    frames = [getattr(task, "frame", None) for task in tasks]
    if all(kind_of_targets(task) == TargetKind.POSE for task in tasks) and all(frames):
        names = join_names(frame for frame in frames if frame is not None)
        selects = f"(frame={frames[0]!r} selects one)"
        return f"{expected} {len(tasks)} tasks, the poses of {names} {selects}"
    return f"{expected} {task_names(tasks)}"


def task_name(task: Task) -> str:
    """Return the name of a task for messages, such as "PoseTask of 'E0'"."""
    frame = getattr(task, "frame", None)
    return type(task).__name__ + (f" of {frame!r}" if frame else "")


def task_names(tasks: Sequence[Task]) -> str:
    """Return the names of tasks for messages: "2 tasks, PoseTask of 'E0', PostureTask"."""
    each = [task_name(task) for task in tasks[:_MAX_NAMED]]
    each += [f"{len(tasks) - _MAX_NAMED} more"] * (len(tasks) > _MAX_NAMED)
    return f"{len(tasks)} tasks, {', '.join(each)}"
