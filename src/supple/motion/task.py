"""Tasks: the desired motion of a frame, an axis or the joints.

A task is a small frozen class. Its `linearize` returns J and e at one configuration;
`supple.linearize` does the same for batches. Targets are expressed in the world, or in the
coordinates of a frame `base` that may itself move; rows are expressed in the base's axes unless
`axes` names others. Weights multiply rows: W₁ = diag(weight²) in Deo & Walker's eq. (2).

A row may have an allowed range, its tolerance: inside the range it neither costs nor pulls, and
outside its error is the distance to the range,  e - min(max(e, lower), upper).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, TypeAlias, TypeVar

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
from supple.motion.task_rows import (
    BODY,
    SPATIAL,
    WORLD,
    TaskRows,
    about_axis,
    in_cone,
    rows_of_frame,
)
from supple.motion.tolerance import Tolerance, cone_of, is_free, ranges_of

Weight: TypeAlias = float | Sequence[float]
RowsT = TypeVar("RowsT", bound=TaskRows)


class Task:
    """Base class of the tasks. Subclasses define the rows, targets and velocities."""

    def on(self, robot: Robot) -> TaskRows:
        """Return the rows of the task on a robot, with all names resolved.

        Raises:
            UnknownNameError: The robot does not have the frame, row or joint.
            InputError: The task names no frame and the robot has several end effectors.
        """
        raise NotImplementedError

    def targets(self, robot: Robot, given: ArrayLike) -> Array:
        """Return checked targets in the kernel's form (..., 12 or 3 or rows)."""
        raise NotImplementedError

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:
        """Return checked velocities in the kernel's form (..., 6 or rows)."""
        raise NotImplementedError

    def differences(self, begin: Array, end: Array) -> Array:
        """Return the motion between targets (..., 12 or 3 or rows), as a velocity for the kernel.

        Raises:
            InputError: The rows are in the axes of another frame, whose motion is not known.
        """
        raise NotImplementedError

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
        (feed-forward plus error); zero if neither is given. It is well defined at singularities.
        Rows of J whose target is met within an allowed range are zero, and so is their e. For a
        rotation error of exactly half a turn, one of the two directions is chosen.

        Args:
            robot: The robot that performs the task.
            q: The configuration (n,) [rad or m].
            target: The target, in the form that the task documents.
            velocity: The velocity, in the form that the task documents.
        """
        check_robot(robot)
        at = coordinates(q, robot.dof, "q").astype(np.float64)
        if at.ndim != 1 or not np.isfinite(at).all():
            raise InputError(
                f"q must be one finite configuration ({robot.dof},); given: {short_repr(q)}. "
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
    tolerance: Tolerance | None = None

    def __post_init__(self) -> None:
        _check_frames(self, "frame", "axes", "base")
        if self.axes == SPATIAL and self.known != ROWS:
            raise InputError(
                f"{type(self).__name__}: spatial coordinates need position and rotation, as in a "
                "PoseTask; given: axes='spatial'"
            )
        rows = _rows(self, self.rows, self.known)
        name = f"{type(self).__name__}: tolerance"
        ranges = ranges_of(self.tolerance, rows, name, single=len(self.known) == 3)
        _set(self, rows=rows, weight=_weight(self, self.weight, len(rows)), tolerance=ranges)
        free = [row for row, ends in ranges or () if is_free(ends)]
        if ranges and self.axes == SPATIAL:
            raise InputError(f"{name} needs rows in the axes of a frame; given: axes='spatial'")
        if any(row.startswith("r") for row in free):
            raise InputError(
                f"{name} of a rotation must be finite; given: {free}. Free rotation about an axis "
                "of the frame is about='x', 'y' or 'z'"
            )
        if len(free) == len(rows):
            raise InputError(f"{name} must leave a row with an end; given: all rows free")

    def on(self, robot: Robot) -> TaskRows:
        rows = self.known if self.rows is None else tuple(self.rows)
        ranges = _read(self.tolerance)
        weights = dict(zip(rows, _each(self.weight, len(rows)), strict=True))
        rows = tuple(row for row in rows if row not in ranges or not is_free(ranges[row]))
        scaled = tuple(
            weights[row] if row.startswith("r") else weights[row] / self._metre for row in rows
        )
        made = rows_of_frame(robot, self.frame, rows, scaled, self.base, self.axes, self._alternate)
        return _within(made, [ranges.get(row) for row in rows])

    def differences(self, begin: Array, end: Array) -> Array:
        if self.axes not in (None, BODY) and not (self.axes == WORLD and self.base is None):
            raise InputError(
                f"velocities in the axes of {self.axes!r} do not follow from targets: give both"
            )
        R, to = (x[..., :9].reshape(*x.shape[:-1], 3, 3).swapaxes(-1, -2) for x in (begin, end))
        turn = np.array([log(r) for r in (to @ R.swapaxes(-1, -2)).reshape(-1, 3, 3)])
        moved = end[..., 9:] - begin[..., 9:], turn.reshape(*begin.shape[:-1], 3)
        if self.axes == BODY:
            moved = tuple(np.einsum("...ij,...i->...j", R, part) for part in moved)
        return np.concatenate(moved, axis=-1)

    @property
    def _metre(self) -> float:
        """Number of metres that weigh as much as a radian."""
        return 1.0

    @property
    def _alternate(self) -> bool:
        """Whether J is that of the target."""
        return False


@dataclass(frozen=True)
class _MetricTask(_FrameTask):
    """Rows of a frame's twist that include lengths."""

    length: float = 1.0
    alternate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        alternate: object = self.alternate
        if not isinstance(alternate, bool):
            what = f"{type(self).__name__}: alternate must be True or False"
            raise InputError(f"{what}; given: {short_repr(alternate)}")
        if alternate and self.axes == SPATIAL:
            raise InputError(
                f"{type(self).__name__}: an alternate J is that of the target, a spatial one that "
                "of the base's origin; given: alternate=True and axes='spatial'"
            )
        length = numbers_of(self.length, f"{type(self).__name__}: length")
        if length.shape or length <= 0:
            given = short_repr(self.length)
            raise InputError(f"{type(self).__name__}: length must be above 0; given: {given}")
        _set(self, length=float(length))

    @property
    def _metre(self) -> float:
        return self.length

    @property
    def _alternate(self) -> bool:
        return self.alternate


@dataclass(frozen=True)
class PoseTask(_MetricTask):
    """The pose of a frame:  e = [p* - p; log(R* Rᵀ)],  with the rotation vector in [rad].

    The target is a pose (4, 4), the velocity a twist [v; w] (6,) in the axes of the rows [m/s,
    rad/s]. J is the Jacobian of the frame, relative to the base if there is one.

    Attributes:
        frame: Name of the controlled frame; the robot's only end effector if None.
        rows: The controlled rows, among "x", "y", "z", "rx", "ry", "rz"; all if None.
        weight: One weight for all rows, or one per row.
        axes: The axes in which rows are expressed: "world", "body" (those of the frame itself) or
            the name of any frame; those of the base, or of the world, if None. With "spatial", v is
            the velocity of the frame's point at the base's origin, in the base's axes, and e is
            [p* - p + p × w; w] with the rotation vector w; not for `solve`.
        base: Name of the frame in which targets are expressed; the world if None.
        length: Number of metres that weigh as much as a radian [m]; divides the weights of the
            position rows.
        alternate: Whether J has the velocity of the target, as if it were attached to the frame's
            link, in the place of the frame's own (`steps.alternate_jacobian`). Without a target it
            is the ordinary J. `solve` searches with the ordinary J: the solutions are the same.
        tolerance: The allowed range of the frame minus its target for some rows, by their names: a
            number for ±number, or a pair (lower, upper), infinite for none [m, rad]. {"x": 0.01,
            "z": (0, inf)} is a strip in a half-space. Rotations are components of the rotation
            vector in the axes of the rows.
        about: The axis of the frame, "x", "y" or "z", about which it may turn freely; None for
            none. Only the direction of this axis is controlled, by the two rotations about the
            other axes of the frame. A row of rotation about it is omitted.
        cone: Angle by which that axis may be off its target [rad], for `about`; None for none. Its
            row, the tilt, replaces the two of rotation.

    References:
        Buss 2009, section 2, for `alternate`.
    """

    _: KW_ONLY
    about: str | None = None
    cone: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_about(self)

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        return _turning(super().on(robot), self.about, self.cone)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return _twelve(poses(given, "a PoseTask's target"))

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return finite_array(given, (6,), "a PoseTask's velocity", batch=True)


@dataclass(frozen=True)
class PositionTask(_MetricTask):
    """The position of a frame:  e = p* - p.  The target is (3,) [m], the velocity (3,) [m/s].

    The attributes are those of `PoseTask` without `about` and `cone`, with the rows "x", "y", "z".
    A single `tolerance` holds for all rows.
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
    """The orientation of a frame:  e = log(R* Rᵀ) [rad].

    The target is a rotation (3, 3), or a pose (4, 4) whose position is ignored; the velocity is
    (3,) [rad/s].

    The attributes are those of `PoseTask` without `length`, with the rows "rx", "ry", "rz". A
    single `tolerance` holds for all rows.
    """

    known = ROWS[3:]
    _: KW_ONLY
    about: str | None = None
    cone: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_about(self)

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        return _turning(super().on(robot), self.about, self.cone)

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
    """The direction of an axis of a frame, which may rotate freely about that axis.

        e = angle (a × a*)/|a × a*|  [rad]

    There are two rows, the rotations about two axes of the frame perpendicular to a, so that J does
    not lose rank by construction. If a is opposite to the target, where all rotation axes are
    equivalent, one is chosen. The target is a direction (3,), normalized; the velocity is an
    angular velocity (3,) [rad/s]. Both are expressed in the coordinates of the base.

    Attributes:
        frame: Name of the controlled frame; the robot's only end effector if None.
        axis: The axis a (3,), in the coordinates of the frame.
        weight: One weight for both rows, or one per row.
        base: Name of the frame in which targets are expressed; the world if None.
        cone: Angle by which the axis may be off its target [rad]; None for none. There is then one
            row, the tilt  e = max(angle - cone, 0).
    """

    frame: str | None = None
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    weight: Weight = 1.0
    base: str | None = None
    cone: float | None = None

    def __post_init__(self) -> None:
        _check_frames(self, "frame", "base")
        _set(self, cone=cone_of(self.cone, "AxisTask: cone"))
        axis = _unit(finite_array(self.axis, (3,), "AxisTask: axis"), "AxisTask: axis", self.axis)
        _set(self, axis=tuple(axis.tolist()), weight=_weight(self, self.weight, 2))

    def on(self, robot: Robot) -> TaskRows:  # noqa: D102
        weights = _each(self.weight, 2)
        rows = rows_of_frame(robot, self.frame, ("rx", "ry"), weights, self.base, BODY)
        along = ", ".join(f"{x:.3g}" for x in self.axis)
        turned = "" if self.axis == (0.0, 0.0, 1.0) else f" with z along ({along})"
        if self.cone is not None:
            first = replace(rows, picked=(3,), weights=weights[:1], names=rows.names[:1])
            rows = in_cone(first, self.cone)
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
    """Joint positions:  e = q* - q.

    The target is (k,) [rad or m], the velocity (k,) [rad/s or m/s].

    Attributes:
        joints: Names of the k controlled joints; all n if None.
        weight: One weight for all joints, or one per joint.
        tolerance: The allowed range of the joints minus their targets: a number for ±number, or a
            pair (lower, upper), infinite for none, for all joints or by their names [rad or m].
            For `Servo` and `track`.
    """

    joints: Sequence[str] | None = None
    weight: Weight = 1.0
    tolerance: Tolerance | None = None

    def __post_init__(self) -> None:
        tolerance: object = self.tolerance
        if isinstance(tolerance, Mapping):  # frozen, to be a key
            _set(self, tolerance=tuple(tolerance.items()))
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
        made = TaskRows(
            goal=Goal.POSTURE,
            picked=tuple(robot.joint_names.index(name) for name in names),
            weights=_each(weight, len(names)),
            names=names,
        )
        ranges = dict(ranges_of(self.tolerance, names, "PostureTask: tolerance", single=True) or ())
        return _within(made, [ranges.get(name) for name in names])

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
    """Return tasks given as a task, the name of a frame (for its pose), or a sequence of these.

    Raises:
        InputError: Not tasks, or an empty sequence.
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


def _set(task: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(task, name, value)


def _check_frames(task: object, *fields: str) -> None:
    """Raise an error if a field is neither the name of a frame nor None."""
    for field in fields:
        given = getattr(task, field)
        if not isinstance(given, str | None):
            what = f"{type(task).__name__}: {field} must be the name of a frame, or None"
            raise InputError(f"{what}; given: {short_repr(given)}")


def _weight(task: object, weight: ArrayLike, count: int | None) -> Weight:
    """Return a checked weight: positive, one or `count` numbers; any number of them if None."""
    name = f"{type(task).__name__}: weight"
    w = numbers_of(weight, name)
    fits = w.ndim == 0 or (w.ndim == 1 and len(w) > 0 and count in (None, len(w)))
    if not fits or (w <= 0).any():
        many = f"{count} of them" if count else "a sequence of them"
        raise InputError(f"{name} must be a number above 0 or {many}; given: {short_repr(weight)}")
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


def _read(tolerance: object) -> dict[str, tuple[float, float]]:
    """Return the ranges by row of a tolerance that __post_init__ has read."""
    return dict(tolerance) if isinstance(tolerance, tuple) else {}


def _within(rows: RowsT, ranges: Sequence[tuple[float, float] | None]) -> RowsT:
    """Return rows with the allowed range of the current value minus the target, or None, of each.

    e is the target minus the current value: its ends are the opposite ones.
    """
    if not any(ranges):
        return rows
    ends = [(0.0, 0.0) if one is None else (-one[1], -one[0]) for one in ranges]
    lower, upper = zip(*ends, strict=True)
    return replace(rows, lower=lower, upper=upper)


def _check_about(task: PoseTask | OrientationTask) -> None:
    """Raise an error if the free axis or its cone cannot be."""
    name = type(task).__name__
    _set(task, cone=cone_of(task.cone, f"{name}: cone"))
    if task.about is None:
        if task.cone is not None:
            raise InputError(f"{name}: cone needs an axis, as in about='z'; given: about=None")
        return
    if task.about not in ("x", "y", "z"):
        raise unknown_name_error(f"axis for {name}: about=", task.about, ("x", "y", "z"))
    if task.axes == SPATIAL or getattr(task, "alternate", False):
        raise InputError(
            f"{name}: about needs the ordinary J of rows in the axes of a frame; given: "
            f"axes={task.axes!r}, alternate={getattr(task, 'alternate', False)}"
        )
    turns = [row for row in task.rows or () if row.startswith("r") and row != f"r{task.about}"]
    if len(turns) < 2:
        raise InputError(
            f"{name}: about={task.about!r} needs the rows of rotation about the other two axes; "
            f"given: {task.rows}"
        )
    ranged = [row for row in _read(task.tolerance) if row.startswith("r")]
    if ranged and task.cone is not None:
        raise InputError(
            f"{name}: tolerance of a rotation and cone must not be given together; given: "
            f"tolerance of {', '.join(ranged)}"
        )


def _turning(rows: TaskRows, about: str | None, cone: float | None) -> TaskRows:
    """Return rows that leave the rotation about an axis of the frame free."""
    return rows if about is None else about_axis(rows, "xyz".index(about), cone)


def _unit(v: Array, name: str, given: object) -> Array:
    """Return unit vectors (..., 3)."""
    largest = np.abs(v).max(axis=-1, keepdims=True)
    if not largest.all():
        raise InputError(f"{name} must be a nonzero direction; given: {short_repr(given)}")
    scaled = v / largest  # squares of scaled entries neither overflow nor vanish
    return np.asarray(scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))


def _twelve(T: Array) -> Array:
    """Return poses (..., 4, 4) in the kernel's form (..., 12): axes x, y, z and the position."""
    return T[..., :3, :].swapaxes(-1, -2).reshape(*T.shape[:-2], 12)


def _single(array: Array, name: str) -> Array:
    if array.ndim != 1:
        raise InputError(
            f"{name} must be a single one; given: a batch of the shape {array.shape[:-1]}"
        )
    return array
