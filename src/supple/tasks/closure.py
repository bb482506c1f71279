"""The loops and couplings of a robot as tasks on its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supple.motion.linearization import Array
from supple.tasks.base import Task
from supple.tasks.frame import PoseTask, PositionTask

if TYPE_CHECKING:
    from supple.kinematics import Robot


def closure_tasks(robot: Robot) -> tuple[tuple[Task, ...], tuple[Array, ...]]:
    """Return tasks that hold every loop and coupling of a robot closed, and their targets."""
    tasks: list[Task] = []
    targets: list[Array] = []
    for loop in robot.loops:
        if loop.kind == "point":
            tasks.append(PositionTask(loop.frame_a, base=loop.frame_b))
            targets.append(np.zeros(3))
        else:
            tasks.append(PoseTask(loop.frame_a, base=loop.frame_b))
            targets.append(np.eye(4))
    return tuple(tasks), tuple(targets)
