"""The task for joint positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, names_of, number_field
from supple._core import Goal, InputSpec, TargetKind
from supple.errors import TASK_HINTS, InputError, known_arguments, unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.configuration import coordinate_difference, to_kernel
from supple.kinematics.frames import owners
from supple.motion.linearization import Array
from supple.tasks.base import Task
from supple.tasks.fields import Weight, checked_weight, set_fields, weights_of, within
from supple.tasks.rows import TaskRows
from supple.tasks.tolerance import Tolerance, ranges_of


@dataclass(frozen=True, eq=False)
class PostureRows(TaskRows):
    """The rows of joint positions:  J selects joints,  e = q* - q."""

    goal: ClassVar[Goal] = Goal.POSTURE

    @property
    def effectors(self) -> tuple[int, ...]:  # noqa: D102
        return tuple(range(len(self.picked)))

    def moved_by(self, robot: Robot) -> frozenset[int]:  # noqa: D102
        return frozenset(self.picked)

    def jacobian(  # noqa: D102
        self, robot: Robot, q: Array, target: Array | None = None
    ) -> Array:
        return np.asarray(np.array(self.weights)[:, None] * np.eye(robot.dof)[list(self.picked)])

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:  # noqa: D102
        away = coordinate_difference(target, to_kernel(robot, q)[list(self.picked)])
        return np.asarray(np.array(self.weights) * away)

    def reached(self, robot: Robot, q: Array) -> Array:  # noqa: D102
        return np.asarray(to_kernel(robot, q)[..., list(self.picked)])

    def command(  # noqa: D102
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        return np.asarray(np.array(self.weights) * velocity)


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class PostureTask(Task):
    """A task for joint positions:  e = q* - q.

    The target is (k,) [rad or m], the velocity (k,) [rad/s or m/s]. Joints with several degrees of
    freedom, such as a floating base, have no posture; if `joints` is None, the target may also be a
    whole configuration (nq,), in which their positions do not matter.

    Attributes:
        joints: Names of the k controlled joints; all joints with one degree of freedom if None.
            Translations of a floating or planar joint may be named as well ("base/z").
        weight: One weight for all joints, or one per joint.
        gain: Factor on the gain of a `Servo` for the error of this task; not for `solve`.
        tolerance: The allowed range of q - q* [rad or m]: a number for ±number, or a pair (lower,
            upper) whose ends may be infinite; one range for all joints, or a mapping from joint
            names to ranges. Only for `Servo` and `simulate`.
    """

    target_kind: ClassVar[TargetKind] = TargetKind.NUMBERS
    is_preference: ClassVar[bool] = True

    joints: Sequence[str] | None = None
    weight: Weight = 1.0
    tolerance: Tolerance | None = None
    gain: float = 1.0

    def __post_init__(self) -> None:
        number_field(self, "gain", least=0)
        tolerance: object = self.tolerance
        if isinstance(tolerance, Mapping):  # converted to a tuple, which is hashable
            set_fields(self, tolerance=tuple(tolerance.items()))
        if self.joints is not None:
            set_fields(self, joints=names_of(self.joints, "PostureTask: joints"))
        count = None if self.joints is None else len(self.joints)
        set_fields(self, weight=checked_weight(self, self.weight, count))

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        names = self._names(robot)
        free = [name for j, name in enumerate(robot.joint_names) if j not in _turns(robot)]
        for name in names:
            if name not in free:
                raise unknown_name_error("joint", name, free)
        if not names:
            raise InputError(
                "a PostureTask needs a joint with one degree of freedom; given: a robot with "
                f"{robot.dof} degrees of freedom in ball, planar or floating joints"
            )
        weight = checked_weight(self, self.weight, len(names))
        made = PostureRows(
            picked=tuple(robot.joint_names.index(name) for name in names),
            weights=weights_of(weight, len(names)),
            names=names,
        )
        ranges = dict(ranges_of(self.tolerance, names, "PostureTask: tolerance", single=True) or ())
        return within(made, [ranges.get(name) for name in names])

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        names = self._names(robot) if self._may_be_whole(robot) else ()
        at = [robot.position_names.index(name) for name in names]
        return InputSpec(velocity=rows, target=rows, positions=at, nq=robot.nq)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        count = len(self._names(robot))
        if self._may_be_whole(robot) and np.shape(given)[-1:] == (robot.nq,):
            q = finite_array(given, (robot.nq,), "a PostureTask's target", batch=True)
            return np.ascontiguousarray(self.on(robot).reached(robot, q))
        return finite_array(given, (count,), "a PostureTask's target", batch=True)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        count = len(self._names(robot))
        return finite_array(given, (count,), "a PostureTask's velocity", batch=True)

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        return end - begin

    def _may_be_whole(self, robot: Robot) -> bool:
        """Whether a target may be a whole configuration, in which other joints do not matter."""
        return self.joints is None and len(self._names(robot)) != robot.dof

    def _names(self, robot: Robot) -> tuple[str, ...]:
        if self.joints is not None:
            return tuple(self.joints)
        every = zip(robot.joint_names, owners(robot), strict=True)
        return tuple(name for name, owner in every if name == owner)


def _turns(robot: Robot) -> frozenset[int]:
    """Return the degrees of freedom that are rotations of ball joints."""
    return frozenset(ball + k for ball in robot._balls for k in range(3))
