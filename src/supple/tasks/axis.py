"""The task for the direction of an axis of a frame."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, number_field
from supple._core import Goal, InputSpec, TargetKind
from supple.errors import TASK_HINTS, known_arguments
from supple.kinematics import Robot
from supple.kinematics.chain import z_onto
from supple.motion.linearization import Array
from supple.tasks.base import Shape, Task
from supple.tasks.fields import (
    Weight,
    check_frames,
    checked_weight,
    set_fields,
    unit,
    weights_of,
)
from supple.tasks.rows import BODY, TaskRows, in_cone, rows_of_frame
from supple.tasks.tolerance import cone_of


@dataclass(frozen=True, eq=False)
class AxisRows(TaskRows):
    """The rows of the direction of the z axis of a frame whose axes are rotated by `turn`.

    The target is a direction. A velocity is a twist in the axes of the base.
    """

    goal: ClassVar[Goal] = Goal.AXIS

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:  # noqa: D102
        tilts = self._tilts(robot, q, target)[[c - 3 for c in self.picked]]
        return np.asarray(np.array(self.weights) * tilts)

    def reached(self, robot: Robot, q: Array) -> Array:  # noqa: D102
        return np.asarray(self._pose(robot, q)[0][..., :, 2])

    def command(  # noqa: D102
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        return super().command(robot, q, self._turned(robot, q, velocity), target)

    def _direction(self, target: Array) -> Array:
        return target

    @property
    def _axis(self) -> int:
        return 2


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class AxisTask(Task):
    """A task for the direction of an axis of a frame, which may rotate freely about this axis.

        e = angle (a × a*)/|a × a*|  [rad]

    The task has two rows, the rotations about two axes of the frame perpendicular to a. A third
    row, about a itself, would always be zero and make J singular. If a is opposite to the target,
    all rotation axes are equivalent, and one of them is chosen. The target is a direction (3,),
    which need not be normalized; the velocity is an angular velocity (3,) [rad/s]. Both are
    expressed in the coordinates of the base.

    Attributes:
        frame: Name of the controlled frame; the robot's only end effector if None.
        axis: The axis a (3,), in the coordinates of the frame.
        weight: One weight for both rows, or one per row.
        gain: Factor on the gain of a `Servo` for the error of this task; not for `solve`.
        base: Name of the frame in which targets are expressed; the world if None.
        cone: Largest allowed angle between the axis and its target [rad]; None for no cone. With a
            cone, there is only one row, the tilt  e = max(angle - cone, 0).
    """

    target_shapes: ClassVar[tuple[Shape, ...]] = ((3,),)
    velocity_shape: ClassVar[Shape] = (3,)
    target_kind: ClassVar[TargetKind] = TargetKind.DIRECTION

    frame: str | None = None
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    weight: Weight = 1.0
    base: str | None = None
    cone: float | None = None
    gain: float = 1.0

    def __post_init__(self) -> None:
        check_frames(self, "frame", "base")
        set_fields(self, cone=cone_of(self.cone, "AxisTask: cone"))
        axis = unit(finite_array(self.axis, (3,), "AxisTask: axis"), "AxisTask: axis", self.axis)
        number_field(self, "gain", least=0)
        set_fields(self, axis=tuple(axis.tolist()), weight=checked_weight(self, self.weight, 2))

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        weights = weights_of(self.weight, 2)
        rows = rows_of_frame(robot, self.frame, ("rx", "ry"), weights, self.base, BODY)
        along = ", ".join(f"{x:.3g}" for x in self.axis)
        turned = "" if self.axis == (0.0, 0.0, 1.0) else f" with z along ({along})"
        if self.cone is not None:
            first = replace(rows, picked=(3,), weights=weights[:1], names=rows.names[:1])
            rows = in_cone(first, self.cone)
        changed = {
            "names": tuple(name + turned for name in rows.names),
            "turn": z_onto(np.array(self.axis)),
        }
        return AxisRows(**{f.name: getattr(rows, f.name) for f in fields(rows)} | changed)

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=3, velocity_begin=3)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        name = "an AxisTask's target"
        return unit(finite_array(given, (3,), name, batch=True), name, given)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        w = finite_array(given, (3,), "an AxisTask's velocity", batch=True)
        return np.concatenate([np.zeros_like(w), w], axis=-1)

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        across = np.cross(begin, end)
        sine = np.linalg.norm(across, axis=-1, keepdims=True)
        angle = np.arctan2(sine, (begin * end).sum(axis=-1, keepdims=True))
        w = across * np.divide(angle, sine, out=np.ones_like(sine), where=sine > 0)
        return np.concatenate([np.zeros_like(w), w], axis=-1)
