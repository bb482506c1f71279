"""The loops and couplings of a robot as tasks on its tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple.motion.linearization import Array
from supple.tasks.base import Task
from supple.tasks.frame import PoseTask, PositionTask
from supple.tasks.posture import PostureRows, PostureTask

if TYPE_CHECKING:
    from supple.kinematics import Robot

_COEFFICIENTS = 5  # number of coefficients of a polynomial in the kernel


@dataclass(frozen=True)
class CouplingTask(PostureTask):
    """A joint's position minus a polynomial of its leader's position; a `Servo` can only hold it.

    Attributes:
        follower, leader: Names of the joints.
        coefficients: The polynomial, lowest power first.
    """

    follower: str = ""
    leader: str = ""
    coefficients: tuple[float, ...] = ()

    def on(self, robot: Robot) -> PostureRows:  # noqa: D102
        more = _COEFFICIENTS - len(self.coefficients)
        return PostureRows(
            picked=(robot.joint_names.index(self.follower),),
            weights=(1.0,),
            names=(f"{self.follower} by {self.leader}",),
            leader=robot.joint_names.index(self.leader),
            curve=(*self.coefficients, *(0.0,) * more),
        )


def loop_tasks(robot: Robot) -> tuple[tuple[Task, ...], tuple[Array, ...]]:
    """Return tasks that hold every loop of a robot closed, and their targets."""
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


def closure_tasks(robot: Robot) -> tuple[tuple[Task, ...], tuple[Array, ...]]:
    """Return tasks that hold every loop and coupling of a robot closed, and their targets."""
    closing, ends = loop_tasks(robot)
    tasks, targets = list(closing), list(ends)
    for coupling in robot.couplings:
        follower, leader = coupling.follower, coupling.leader
        tasks.append(
            CouplingTask(
                joints=(follower,),
                follower=follower,
                leader=leader,
                coefficients=coupling.coefficients,
            )
        )
        targets.append(np.zeros(1))
    return tuple(tasks), tuple(targets)
