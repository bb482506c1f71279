"""Tasks: what a frame, an axis or the joints shall do.

A task is a small frozen class. `linearize` makes the rows of J and e of it at one configuration;
`supple.linearize` does so for batches. Targets are given in the world, or in the coordinates of a
frame `base` that may move itself; rows are written in the base's axes unless `axes` says otherwise.
Weights multiply rows: W1 = diag(weight²) in Deo & Walker's eq. (2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._core import Goal
from supple.errors import InputError, short_repr, unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates, finite_array, names_of, poses, real_numbers
from supple.kinematics.chain import z_onto
from supple.kinematics.robot import ROWS, check_robot
from supple.kinematics.rotation import log
from supple.motion.linearization import Array, Linearization, numbers_of
from supple.motion.task_rows import BODY, WORLD, TaskRows, rows_of_frame

Weight: TypeAlias = float | Sequence[float]


class Task:
    """What every task has. Derived classes say what its rows, targets and velocities are."""

    def on(self, robot: Robot) -> TaskRows:
        """The task with every name looked up on a robot.

        Raises:
            UnknownNameError: a frame, row or joint that the robot does not have.
            InputError: no frame is named and the robot has several end frames.
        """
        raise NotImplementedError

    def targets(self, robot: Robot, given: ArrayLike) -> Array:
        """Targets as the kernel takes them (..., 12 or 3 or rows): checked, batch axes first."""
        raise NotImplementedError

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:
        """Velocities as the kernel takes them (..., 6 or rows): checked, batch axes first."""
        raise NotImplementedError

    def differences(self, begin: Array, end: Array) -> Array:
        """From targets to targets (..., 12 or 3 or rows), as the kernel takes velocities.

        Raises:
            InputError: rows are in axes that move on their own, so targets do not tell.
        """
        raise NotImplementedError

    def rows_of(self, robot: Robot) -> tuple[str, ...]:
        """The names of its rows, as "x of panda_hand"."""
        return self.on(robot).names

    def linearize(
        self,
        robot: Robot,
        q: ArrayLike,
        target: ArrayLike | None = None,
        *,
        velocity: ArrayLike | None = None,
    ) -> Linearization:
        """Return the rows of J and e at a configuration q (n,).

        e is the weighted error to the target, or the weighted rows of the velocity, or the sum of
        both (feed-forward plus error); zero if neither is given. Nothing special happens at a
        singularity; half a turn away from the target the error takes one of the two ways.
        """
        check_robot(robot)
        at = coordinates(q, robot.dof, "q").astype(np.float64)
        if at.ndim != 1 or not np.isfinite(at).all():
            raise InputError(
                f"q must be finite, ({robot.dof},); given: {short_repr(q)} (supple.linearize takes "
                "batches)"
            )
        rows = self.on(robot)
        e = np.zeros(len(rows.names))
        if target is not None:
            e = e + rows.error(robot, at, _single(self.targets(robot, target), "target"))
        if velocity is not None:
            e = e + rows.command(robot, at, _single(self.velocities(robot, velocity), "velocity"))
        return Linearization(rows.jacobian(robot, at), e, rows=rows.names, q=at)


@dataclass(frozen=True)
class _FrameTask(Task):
    """Rows of a frame's twist."""

    known: ClassVar[tuple[str, ...]] = ROWS

    frame: str | None = None
    _: KW_ONLY
    rows: Sequence[str] | None = None
    weight: Weight = 1.0
    axes: str | None = None
    base: str | None = None

    def __post_init__(self) -> None:
        _check_frames(self, "frame", "axes", "base")
        rows = _rows(self, self.rows, self.known)
        _set(self, rows=rows, weight=_weight(self, self.weight, len(rows)))

    def on(self, robot: Robot) -> TaskRows:
        rows = self.known if self.rows is None else tuple(self.rows)
        weights = zip(rows, _each(self.weight, len(rows)), strict=True)
        scaled = tuple(w if row.startswith("r") else w / self._metre for row, w in weights)
        return rows_of_frame(robot, self.frame, rows, scaled, self.base, self.axes)

    def differences(self, begin: Array, end: Array) -> Array:
        if self.axes not in (None, BODY) and not (self.axes == WORLD and self.base is None):
            raise InputError(
                f"targets do not tell velocities in the axes of {self.axes!r}: give these as well"
            )
        R, to = (x[..., :9].reshape(*x.shape[:-1], 3, 3).swapaxes(-1, -2) for x in (begin, end))
        turn = np.array([log(r) for r in (to @ R.swapaxes(-1, -2)).reshape(-1, 3, 3)])
        moved = end[..., 9:] - begin[..., 9:], turn.reshape(*begin.shape[:-1], 3)
        if self.axes == BODY:
            moved = tuple(np.einsum("...ij,...i->...j", R, part) for part in moved)
        return np.concatenate(moved, axis=-1)

    @property
    def _metre(self) -> float:
        """How many metres weigh as much as a radian."""
        return 1.0


@dataclass(frozen=True)
class _MetricTask(_FrameTask):
    """Rows of a frame's twist, lengths among them."""

    length: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        length = numbers_of(self.length, f"{type(self).__name__}: length")
        if length.shape or length <= 0:
            given = short_repr(self.length)
            raise InputError(f"{type(self).__name__}: length must be above 0; given: {given}")
        _set(self, length=float(length))

    @property
    def _metre(self) -> float:
        return self.length


@dataclass(frozen=True)
class PoseTask(_MetricTask):
    """A frame's pose:  e = [p* - p; log(R* Rᵀ)],  the rotation vector in [rad].

    The target is a pose (4, 4), the velocity a twist [v; w] (6,) in the axes of the rows [m/s,
    rad/s]. J is the frame's Jacobian, relative to the base if there is one.

    Attributes:
        frame: That moves; the robot's only end frame if None.
        rows: Which of "x", "y", "z", "rx", "ry", "rz"; all if None.
        weight: Of all rows, or one for each.
        axes: In whose axes rows are written: "world", "body" (the frame's own) or the name of any
            frame; those of the base, or the world, if None.
        base: The frame in whose coordinates targets are given; the world if None.
        length: How many metres weigh as much as a radian: weights of position rows are divided by
            it [m].
    """

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return _twelve(poses(given, "a PoseTask's target"))

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (6,), "a PoseTask's velocity", batch=True)


@dataclass(frozen=True)
class PositionTask(_MetricTask):
    """A frame's position:  e = p* - p.  The target is (3,) [m], the velocity (3,) [m/s].

    Attributes: those of `PoseTask`, with rows "x", "y", "z".
    """

    known = ROWS[:3]

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        position = finite_array(given, (3,), "a PositionTask's target", batch=True)
        T = np.broadcast_to(np.eye(4), (*position.shape[:-1], 4, 4)).copy()
        T[..., :3, 3] = position
        return _twelve(T)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        v = finite_array(given, (3,), "a PositionTask's velocity", batch=True)
        return np.concatenate([v, np.zeros_like(v)], axis=-1)


@dataclass(frozen=True)
class OrientationTask(_FrameTask):
    """A frame's orientation:  e = log(R* Rᵀ) [rad].

    The target is a rotation (3, 3), or a pose (4, 4) whose position is not looked at; the velocity
    is (3,) [rad/s].

    Attributes: those of `PoseTask` but length, with rows "rx", "ry", "rz".
    """

    known = ROWS[3:]

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        name = "an OrientationTask's target"
        given = real_numbers(given, f"{name} must be (..., 3, 3) or (..., 4, 4)")
        if given.shape[-2:] != (4, 4):
            R = finite_array(given, (3, 3), name, batch=True)
            T = np.broadcast_to(np.eye(4), (*R.shape[:-2], 4, 4)).copy()
            T[..., :3, :3] = R
            given = T
        return _twelve(poses(given, name))

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        w = finite_array(given, (3,), "an OrientationTask's velocity", batch=True)
        return np.concatenate([np.zeros_like(w), w], axis=-1)


@dataclass(frozen=True)
class AxisTask(Task):
    """An axis of a frame points along a direction; the frame is free to turn about it.

        e = angle (a × a*)/|a × a*|  [rad]

    Two rows: the rotations about the two axes of the frame that are across a. So J does not lose
    rank by construction. Opposite to the target, where every way is as short, one is chosen. The
    target is a direction (3,), made a unit vector; the velocity an angular velocity (3,) [rad/s];
    both in the coordinates of the base.

    Attributes:
        frame: That moves; the robot's only end frame if None.
        axis: a, in the frame's own coordinates.
        weight: Of both rows, or one for each.
        base: The frame in whose coordinates targets are given; the world if None.
    """

    frame: str | None = None
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    weight: Weight = 1.0
    base: str | None = None

    def __post_init__(self) -> None:
        _check_frames(self, "frame", "base")
        axis = _unit(finite_array(self.axis, (3,), "AxisTask: axis"), "AxisTask: axis", self.axis)
        _set(self, axis=tuple(axis.tolist()), weight=_weight(self, self.weight, 2))

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        weights = _each(self.weight, 2)
        rows = rows_of_frame(robot, self.frame, ("rx", "ry"), weights, self.base, BODY)
        along = ", ".join(f"{x:.3g}" for x in self.axis)
        turned = "" if self.axis == (0.0, 0.0, 1.0) else f" with z along ({along})"
        return replace(
            rows,
            goal=Goal.AXIS,
            names=tuple(name + turned for name in rows.names),
            turn=z_onto(np.array(self.axis)),
        )

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        name = "an AxisTask's target"
        return _unit(finite_array(given, (3,), name, batch=True), name, given)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        w = finite_array(given, (3,), "an AxisTask's velocity", batch=True)
        return np.concatenate([np.zeros_like(w), w], axis=-1)

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        across = np.cross(begin, end)
        sine = np.linalg.norm(across, axis=-1, keepdims=True)
        angle = np.arctan2(sine, (begin * end).sum(axis=-1, keepdims=True))
        w = across * np.divide(angle, sine, out=np.ones_like(sine), where=sine > 0)
        return np.concatenate([np.zeros_like(w), w], axis=-1)


@dataclass(frozen=True)
class PostureTask(Task):
    """Coordinates of the robot:  e = q* - q.  The target is (k,) [rad or m], the velocity (k,).

    Attributes:
        joints: Names of k coordinates; all n if None.
        weight: Of all, or one for each.
    """

    joints: Sequence[str] | None = None
    weight: Weight = 1.0

    def __post_init__(self) -> None:
        if self.joints is not None:
            _set(self, joints=names_of(self.joints, "PostureTask: joints"))
        count = None if self.joints is None else len(self.joints)
        _set(self, weight=_weight(self, self.weight, count))

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        names = robot.joint_names if self.joints is None else tuple(self.joints)
        for name in names:
            if name not in robot.joint_names:
                raise unknown_name_error("joint", name, robot.joint_names)
        weight = _weight(self, self.weight, len(names))
        return TaskRows(
            goal=Goal.POSTURE,
            picked=tuple(robot.joint_names.index(name) for name in names),
            weights=_each(weight, len(names)),
            names=names,
        )

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (self._count(robot),), "a PostureTask's target", batch=True)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (self._count(robot),), "a PostureTask's velocity", batch=True)

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        return end - begin

    def _count(self, robot: Robot) -> int:
        return robot.dof if self.joints is None else len(self.joints)


TaskLike: TypeAlias = str | Task


def as_tasks(given: TaskLike | Sequence[TaskLike]) -> tuple[Task, ...]:
    """A frame's name -> a PoseTask of it, a task -> itself, a sequence of those -> all of them.

    Raises:
        InputError: something else, or none at all.
    """
    if isinstance(given, str):
        return (PoseTask(given),)
    if isinstance(given, Task):
        return (given,)
    several: object = given
    each = tuple(several) if isinstance(several, Sequence) else ()
    if not each or not all(isinstance(one, str | Task) for one in each):
        raise InputError(
            "tasks must be a task, a frame's name, or a sequence of those; given: "
            f"{short_repr(given)}"
        )
    return tuple(PoseTask(one) if isinstance(one, str) else one for one in each)


def _set(task: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(task, name, value)


def _check_frames(task: object, *fields: str) -> None:
    """Refuse what is neither a frame's name nor None."""
    for field in fields:
        given = getattr(task, field)
        if not isinstance(given, str | None):
            what = f"{type(task).__name__}: {field} must be a frame's name, or None"
            raise InputError(f"{what}; given: {short_repr(given)}")


def _weight(task: object, weight: ArrayLike, count: int | None) -> Weight:
    """A positive number, or one for each of `count` rows (of any number, if None)."""
    name = f"{type(task).__name__}: weight"
    w = numbers_of(weight, name)
    fits = w.ndim == 0 or (w.ndim == 1 and len(w) > 0 and count in (None, len(w)))
    if not fits or (w <= 0).any():
        rows = f"{count} of them" if count else "a sequence of them"
        raise InputError(f"{name} must be a number above 0 or {rows}; given: {short_repr(weight)}")
    return float(w) if w.ndim == 0 else tuple(w.tolist())


def _each(weight: Weight, count: int) -> tuple[float, ...]:
    return tuple(weight) if isinstance(weight, Sequence) else (weight,) * count


def _rows(task: object, rows: Sequence[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    names = known if rows is None else names_of(rows, f"{type(task).__name__}: rows")
    for name in names:
        if name not in known:
            raise unknown_name_error(f"row of a {type(task).__name__}", name, known)
    if len(set(names)) < len(names):
        raise InputError(f"{type(task).__name__}: rows must differ; given: {names}")
    return names


def _unit(v: Array, name: str, given: object) -> Array:
    """Unit vectors (..., 3)."""
    largest = np.abs(v).max(axis=-1, keepdims=True)
    if not largest.all():
        raise InputError(f"{name} must be a direction, not zero; given: {short_repr(given)}")
    scaled = v / largest  # so that squares neither overflow nor vanish
    return np.asarray(scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))


def _twelve(T: Array) -> Array:
    """Poses (..., 4, 4) as the kernel takes them (..., 12): columns x, y, z and the position."""
    return T[..., :3, :].swapaxes(-1, -2).reshape(*T.shape[:-2], 12)


def _single(array: Array, name: str) -> Array:
    if array.ndim != 1:
        raise InputError(f"{name} must be one, not a batch; given: {array.shape[:-1]} of them")
    return array
