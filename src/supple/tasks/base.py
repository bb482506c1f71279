"""The interface of a task."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import coordinates
from supple._core import InputSpec, TargetKind
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.robot import check_robot
from supple.motion.linearization import Array, Linearization
from supple.tasks.rows import TaskRows

Shape: TypeAlias = tuple[int, ...]


class Task:
    """Base class of the tasks. Subclasses define the rows, targets and velocities.

    Code outside of a subclass tells kinds of tasks apart only by these attributes, and by the
    attributes of `TaskRows`.

    Attributes:
        target_shapes: The shapes that one target may have; empty if they depend on the robot.
        velocity_shape: The shape of a velocity; empty if it depends on the robot.
        target_kind: The form of targets, for code that reads them without calling `targets`, as on
            a GPU; `OTHER` if only `targets` can read them. This attribute is ignored in a subclass
            that overrides only `targets`.
        is_preference: Whether `solve` meets all other tasks first, and then comes as near to the
            target of this task as possible. The rows of this task must be rows of a posture.
        gain: Factor on the gain of a `Servo`.
    """

    target_shapes: ClassVar[tuple[Shape, ...]] = ()
    velocity_shape: ClassVar[Shape] = ()
    target_kind: ClassVar[TargetKind] = TargetKind.OTHER
    is_preference: ClassVar[bool] = False
    gain: float = 1.0

    def on(self, robot: Robot) -> TaskRows:
        """Return the rows of the task on a robot, with all names resolved.

        Raises:
            UnknownNameError: The robot does not have the frame, row or joint.
            InputError: The task names no frame and the robot has several end effectors.
        """
        raise NotImplementedError

    def targets(self, robot: Robot, given: ArrayLike) -> Array:
        """Check targets (...) and convert them to the kernel's layout (..., k).

        For a pose, k is 12: the columns of the rotation, then the position. For a direction or a
        position it is 3, for a posture the number of rows.
        """
        raise NotImplementedError

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:
        """Check velocities (...) and convert them to the kernel's layout (..., k).

        For a pose and an axis, k is 6: a twist. For a position it is 3, for a posture the number of
        rows.
        """
        raise NotImplementedError

    def differences(self, begin: Array, end: Array) -> Array:
        """Return the motion between targets (..., k), in the kernel's layout of a velocity.

        Raises:
            InputError: The rows are in the axes of another frame, whose motion is unknown.
        """
        raise NotImplementedError

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:
        """Return the sizes of velocities and targets that a compiled `Servo` reads directly.

        By default, the `Servo` reads neither: `velocities` and `targets` convert them in Python.
        This method is ignored in a subclass that overrides one or both of these methods but not
        this one.

        Args:
            robot: The robot.
            rows: The number of rows.
        """
        return InputSpec()

    def rows_of(self, robot: Robot) -> tuple[str, ...]:
        """Return the names of the rows, for example "x of panda_hand"."""
        return self.on(robot).names

    def linearize(
        self,
        robot: Robot,
        q: ArrayLike,
        target: ArrayLike | None = None,
        *,
        velocity: ArrayLike | None = None,
    ) -> Linearization:
        """Return the linearization of the task at a configuration q (n,).

        e is the weighted error to the target, the weighted rows of the velocity, or the sum of both
        (feed-forward plus error); zero if neither is given. e is well defined at singularities.
        Rows of J whose target is met within an allowed range are zero, and so is their e. For a
        rotation error of exactly half a turn, one of the two directions is chosen.

        Args:
            robot: The robot that performs the task.
            q: The configuration (n,) [rad or m].
            target: The target, in the form that the task documents.
            velocity: The velocity, in the form that the task documents.
        """
        check_robot(robot)
        at = coordinates(q, robot.nq, "q").astype(np.float64)
        if at.ndim != 1 or not np.isfinite(at).all():
            raise InputError(
                f"q must be one finite configuration ({robot.nq},); given: {short_repr(q)}. "
                "supple.linearize takes batches"
            )
        rows = self.on(robot)
        e = np.zeros(len(rows.names))
        goal = None if target is None else _single(self.targets(robot, target), "target")
        J = rows.jacobian(robot, at, goal)
        if goal is not None:
            e = e + rows.error(robot, at, goal)
        met = np.array(rows.ranged) & (goal is not None) & (e == 0)
        if velocity is not None:
            speeds = _single(self.velocities(robot, velocity), "velocity")
            e = e + rows.command(robot, at, speeds, goal)
        J[met], e[met] = 0.0, 0.0
        return Linearization(J, e, rows=rows.names, q=at, effectors=rows.effectors)


def _single(array: Array, name: str) -> Array:
    if array.ndim != 1:
        raise InputError(
            f"{name} must not be a batch; given: a batch of the shape {array.shape[:-1]}. "
            "supple.linearize takes batches"
        )
    return array
