"""The task for half the squared distance of two frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from supple._core import Goal

from supple._arrays.checks import finite_array
from supple.errors import TASK_HINTS, known_arguments
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.tasks.base import Shape, Task
from supple.tasks.rows import TaskRows


@dataclass(frozen=True, eq=False)
class SpreadRows(TaskRows):
    """The row of half the squared distance of the frame from its base."""

    goal: ClassVar[Goal] = Goal.SPREAD

    def jacobian(self, robot: Robot, q: Array, target: Array | None = None) -> Array:
        J = robot.jacobian(q, self.frame)[:3]
        if self.base is not None:
            J = J - robot.jacobian(q, self.base)[:3]
        return np.asarray(self.weights[0] * self._away(robot, q) @ J)[None]

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:
        return np.asarray(self.weights[0] * (target - self.reached(robot, q)))

    def reached(self, robot: Robot, q: Array) -> Array:
        away = self._away(robot, q)
        return np.asarray(0.5 * (away**2).sum(axis=-1, keepdims=True))

    def command(
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        return np.asarray(self.weights[0] * velocity)

    def _away(self, robot: Robot, q: Array) -> Array:
        p: Array = robot.fk(q, self.frame)[..., :3, 3]
        return p if self.base is None else np.asarray(p - robot.fk(q, self.base)[..., :3, 3])


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class SpreadTask(Task):
    """A task for half the squared distance of two frames:  e = x* - |p - p_b|²/2.

    The target is (1,) [m²], the velocity (1,) [m²/s].

    Attributes:
        frame: Name of the frame.
        base: Name of the other frame; the origin of the world if None.
        weight: Weight of the row.
    """

    target_shapes: ClassVar[tuple[Shape, ...]] = ((1,),)
    velocity_shape: ClassVar[Shape] = (1,)

    frame: str
    base: str | None = None
    weight: float = 1.0

    def on(self, robot: Robot) -> SpreadRows:
        return SpreadRows(
            picked=(0,),
            weights=(self.weight,),
            names=(f"spread of {self.frame}",),
            frame=self.frame,
            base=self.base,
        )

    def targets(self, robot: Robot, given: ArrayLike) -> Array:
        return finite_array(given, (1,), "a SpreadTask's target", batch=True)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:
        return finite_array(given, (1,), "a SpreadTask's velocity", batch=True)

    def differences(self, begin: Array, end: Array) -> Array:
        return np.asarray(end - begin)
