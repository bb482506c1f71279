"""Tasks: the desired motion of a frame, an axis, the center of mass or the joints.

The tasks of frames, axes and postures are in `supple`. The tasks of the center of mass and of the
user's own functions are here, with `Task`, the base class of all tasks.

A task is a small frozen class. Its `linearize` returns J and e at one configuration;
`supple.linearize` does the same for batches. Targets are expressed in the world, or in the
coordinates of a frame `base` that may itself move; rows are expressed in the base's axes unless
`axes` names others. Weights multiply rows: W₁ = diag(weight²) in Deo & Walker's eq. (2).

A row may have an allowed range, its tolerance. Inside the range its error is zero; outside, it is
the signed distance to the range,  o - min(max(o, lower), upper)  for the offset o.
"""

from collections.abc import Sequence
from typing import TypeAlias

from supple.errors import InputError, short_repr
from supple.tasks.axis import AxisTask as AxisTask
from supple.tasks.base import Task
from supple.tasks.center_of_mass import CenterOfMassTask, PointsRows
from supple.tasks.fields import Weight as Weight
from supple.tasks.frame import OrientationTask as OrientationTask
from supple.tasks.frame import PoseTask as PoseTask
from supple.tasks.frame import PositionTask as PositionTask
from supple.tasks.open_task import OpenTask
from supple.tasks.posture import PostureTask as PostureTask
from supple.tasks.rows import TaskRows

__all__ = ["CenterOfMassTask", "OpenTask", "PointsRows", "Task", "TaskLike", "TaskRows"]


def __dir__() -> list[str]:
    return __all__


TaskLike: TypeAlias = str | Task


def as_tasks(given: TaskLike | Sequence[TaskLike]) -> tuple[Task, ...]:
    """Convert a task, the name of a frame (for its pose), or a sequence of these to tasks.

    Raises:
        InputError: An entry is not a task or a name, or the sequence is empty.
    """
    if isinstance(given, str):
        return (PoseTask(given),)
    if isinstance(given, Task):
        return (given,)
    several: object = given
    each = tuple(several) if isinstance(several, Sequence) else ()
    if not each or not all(isinstance(one, str | Task) for one in each):
        raise InputError(
            "tasks must be a task, the name of a frame, or a sequence of these; given: "
            f"{short_repr(given)}"
        )
    return tuple(PoseTask(one) if isinstance(one, str) else one for one in each)
