"""The task for the distance of a frame from a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from supple._core import Goal, InputSpec, TargetKind

from supple._arrays.checks import finite_array
from supple.errors import TASK_HINTS, known_arguments
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD, FixedFrame
from supple.kinematics.frames import ancestors_of, chain_of, placed
from supple.motion.linearization import Array
from supple.tasks.base import Shape, Task
from supple.tasks.rows import TaskRows


@dataclass(frozen=True, eq=False)
class PointDistanceRows(TaskRows):
    """The row of the distance of the first of two `points` from the second."""

    goal: ClassVar[Goal] = Goal.POINT_DISTANCE

    def jacobian(self, robot: Robot, q: Array, target: Array | None = None) -> Array:
        J = np.asarray(chain_of(robot, self.points).jacobian(q, 1), dtype=np.float64)
        away = self._away(robot, q)
        return np.asarray(self.weights[0] * away / np.linalg.norm(away) @ (J[0] - J[1])[:3])[None]

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:
        return np.asarray(self.weights[0] * (target - self.reached(robot, q)))

    def reached(self, robot: Robot, q: Array) -> Array:
        return np.asarray(np.linalg.norm(self._away(robot, q), axis=-1, keepdims=True))

    def command(
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        return np.asarray(self.weights[0] * velocity)

    def moved_by(self, robot: Robot) -> frozenset[int]:
        return frozenset(ancestors_of(robot, self.points[0]).values())

    def _away(self, robot: Robot, q: Array) -> Array:
        T = np.asarray(chain_of(robot, self.points).poses(q, 1), dtype=np.float64)
        return np.asarray(T[..., 0, :3, 3] - T[..., 1, :3, 3])


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class PointDistanceTask(Task):
    """A task for the distance of a frame from a point of the world:  e = d* - |p - c|.

    The target is a distance (1,) [m], the velocity (1,) [m/s].

    Attributes:
        frame: Name of the frame.
        point: The point c (3,) in the world [m].
        weight: Weight of the row.
    """

    target_shapes: ClassVar[tuple[Shape, ...]] = ((1,),)
    velocity_shape: ClassVar[Shape] = (1,)
    target_kind: ClassVar[TargetKind] = TargetKind.NUMBERS

    frame: str
    point: tuple[float, float, float]
    weight: float = 1.0

    def on(self, robot: Robot) -> PointDistanceRows:
        at = np.eye(4)
        at[:3, 3] = self.point
        return PointDistanceRows(
            picked=(0,),
            weights=(self.weight,),
            names=(f"distance of {self.frame}",),
            points=(placed(robot, self.frame), FixedFrame(WORLD, at)),
            shares=(1.0, -1.0),
        )

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:
        return InputSpec(velocity=1, target=1)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:
        return finite_array(given, (1,), "a PointDistanceTask's target", batch=True)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:
        return finite_array(given, (1,), "a PointDistanceTask's velocity", batch=True)

    def differences(self, begin: Array, end: Array) -> Array:
        return np.asarray(end - begin)
