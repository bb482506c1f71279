"""The task for joint positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, names_of
from supple._core import Goal, InputSpec
from supple.errors import unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.configuration import coordinate_difference
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
        away = coordinate_difference(target, q[list(self.picked)])
        return np.asarray(np.array(self.weights) * away)

    def reached(self, robot: Robot, q: Array) -> Array:  # noqa: D102
        return np.asarray(q[..., list(self.picked)])

    def command(  # noqa: D102
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        return np.asarray(np.array(self.weights) * velocity)


@dataclass(frozen=True)
class PostureTask(Task):
    """A task for joint positions:  e = q* - q.

    The target is (k,) [rad or m], the velocity (k,) [rad/s or m/s].

    Attributes:
        joints: Names of the k controlled joints; all n if None.
        weight: One weight for all joints, or one per joint.
        tolerance: The allowed range of q - q* [rad or m]: a number for ±number, or a pair (lower,
            upper) whose ends may be infinite; one range for all joints, or a mapping from joint
            names to ranges. Only for `Servo` and `simulate`.
    """

    is_preference: ClassVar[bool] = True

    joints: Sequence[str] | None = None
    weight: Weight = 1.0
    tolerance: Tolerance | None = None

    def __post_init__(self) -> None:
        tolerance: object = self.tolerance
        if isinstance(tolerance, Mapping):  # converted to a tuple, which is hashable
            set_fields(self, tolerance=tuple(tolerance.items()))
        if self.joints is not None:
            set_fields(self, joints=names_of(self.joints, "PostureTask: joints"))
        count = None if self.joints is None else len(self.joints)
        set_fields(self, weight=checked_weight(self, self.weight, count))

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        names = robot.joint_names if self.joints is None else tuple(self.joints)
        for name in names:
            if name not in robot.joint_names:
                raise unknown_name_error("joint", name, robot.joint_names)
        weight = checked_weight(self, self.weight, len(names))
        made = PostureRows(
            picked=tuple(robot.joint_names.index(name) for name in names),
            weights=weights_of(weight, len(names)),
            names=names,
        )
        ranges = dict(ranges_of(self.tolerance, names, "PostureTask: tolerance", single=True) or ())
        return within(made, [ranges.get(name) for name in names])

    def input_spec(self, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=rows, target=rows)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (self._count(robot),), "a PostureTask's target", batch=True)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (self._count(robot),), "a PostureTask's velocity", batch=True)

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        return end - begin

    def _count(self, robot: Robot) -> int:
        return robot.dof if self.joints is None else len(self.joints)
