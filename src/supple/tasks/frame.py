"""Tasks of a frame: its pose, position or orientation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, number_field, poses, real_numbers
from supple._core import InputSpec, TargetKind
from supple.errors import TASK_HINTS, InputError, known_arguments, short_repr, unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.named_chain import ROWS
from supple.kinematics.rotation import log
from supple.motion.linearization import Array, numbers_of
from supple.tasks.base import Shape, Task
from supple.tasks.fields import (
    Weight,
    check_frames,
    checked_rows,
    checked_weight,
    set_fields,
    weights_of,
    within,
)
from supple.tasks.rows import BODY, SPATIAL, WORLD, TaskRows, about_axis, rows_of_frame
from supple.tasks.tolerance import Tolerance, cone_of, is_free, ranges_of


@dataclass(frozen=True)
class _FrameTask(Task):
    """Base class of the tasks whose rows are components of a frame's twist."""

    known: ClassVar[tuple[str, ...]] = ROWS

    frame: str | None = None
    _: KW_ONLY
    rows: Sequence[str] | None = None
    weight: Weight = 1.0
    axes: str | None = None
    base: str | None = None
    tolerance: Tolerance | None = None
    gain: float = 1.0

    def __post_init__(self) -> None:
        number_field(self, "gain", least=0)
        check_frames(self, "frame", "axes", "base")
        if self.axes == SPATIAL and self.known != ROWS:
            raise InputError(
                f"{type(self).__name__}: spatial coordinates need position and rotation, as in a "
                "PoseTask; given: axes='spatial'"
            )
        rows = checked_rows(self, self.rows, self.known)
        name = f"{type(self).__name__}: tolerance"
        ranges = ranges_of(self.tolerance, rows, name, single=len(self.known) == 3)
        set_fields(
            self, rows=rows, weight=checked_weight(self, self.weight, len(rows)), tolerance=ranges
        )
        free = [row for row, ends in ranges or () if is_free(ends)]
        if ranges and self.axes == SPATIAL:
            raise InputError(f"{name} needs rows in the axes of a frame; given: axes='spatial'")
        if any(row.startswith("r") for row in free):
            raise InputError(
                f"{name} of a rotation must be finite; given: {free}. For free rotation about an "
                "axis of the frame, use about='x', 'y' or 'z'"
            )
        if len(free) == len(rows):
            raise InputError(f"{name} must bound at least one row; given: no bound in any row")

    def on(self, robot: Robot) -> TaskRows:
        rows = self.known if self.rows is None else tuple(self.rows)
        ranges = _read(self.tolerance)
        weights = dict(zip(rows, weights_of(self.weight, len(rows)), strict=True))
        rows = tuple(row for row in rows if row not in ranges or not is_free(ranges[row]))
        scaled = tuple(
            weights[row] if row.startswith("r") else weights[row] / self._meter for row in rows
        )
        made = rows_of_frame(robot, self.frame, rows, scaled, self.base, self.axes, self._alternate)
        return within(made, [ranges.get(row) for row in rows])

    def differences(self, begin: Array, end: Array) -> Array:
        if self.axes not in (None, BODY) and not (self.axes == WORLD and self.base is None):
            raise InputError(
                f"axes={self.axes!r} needs targets and velocities: velocities in these axes cannot "
                "be derived from targets; given: targets only"
            )
        R, to = (x[..., :9].reshape(*x.shape[:-1], 3, 3).swapaxes(-1, -2) for x in (begin, end))
        moved = end[..., 9:] - begin[..., 9:], log(to @ R.swapaxes(-1, -2))
        if self.axes == BODY:
            moved = tuple(np.einsum("...ij,...i->...j", R, part) for part in moved)
        return np.concatenate(moved, axis=-1)

    @property
    def _meter(self) -> float:
        """The position error that counts as much as 1 rad [m]."""
        return 1.0

    @property
    def _alternate(self) -> bool:
        """Whether J is the alternate Jacobian, the Jacobian of the target."""
        return False


@dataclass(frozen=True)
class _MetricTask(_FrameTask):
    """Base class of the tasks of a frame with position rows."""

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
                f"{type(self).__name__}: alternate=True needs axes other than 'spatial'; given: "
                "axes='spatial'"
            )
        length = numbers_of(self.length, f"{type(self).__name__}: length")
        if length.shape or length <= 0:
            given = short_repr(self.length)
            raise InputError(f"{type(self).__name__}: length must be above 0; given: {given}")
        set_fields(self, length=float(length))

    @property
    def _meter(self) -> float:
        return self.length

    @property
    def _alternate(self) -> bool:
        return self.alternate


@dataclass(frozen=True)
class _TurningTask(_FrameTask):
    """Base class of the tasks of a frame that may leave the rotation about one axis free."""

    _: KW_ONLY
    about: str | None = None
    cone: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        set_fields(self, cone=cone_of(self.cone, f"{name}: cone"))
        if self.about is None:
            if self.cone is not None:
                raise InputError(f"{name}: cone needs an axis, as in about='z'; given: about=None")
            return
        if self.about not in ("x", "y", "z"):
            raise unknown_name_error(f"axis in about= of {name}", self.about, ("x", "y", "z"))
        if self.axes == SPATIAL or self._alternate:
            raise InputError(
                f"{name}: about= needs axes other than 'spatial', and alternate=False; given: "
                f"axes={self.axes!r}, alternate={self._alternate}"
            )
        turns = [row for row in self.rows or () if row.startswith("r") and row != f"r{self.about}"]
        if len(turns) < 2:
            raise InputError(
                f"{name}: about={self.about!r} needs the rows of rotation about the other two "
                f"axes; given: {self.rows}"
            )
        ranged = [row for row in _read(self.tolerance) if row.startswith("r")]
        if ranged and self.cone is not None:
            raise InputError(
                f"{name}: tolerance of a rotation and cone must not be given together; given: "
                f"tolerance of {', '.join(ranged)}"
            )

    def on(self, robot: Robot) -> TaskRows:
        rows = super().on(robot)
        return rows if self.about is None else about_axis(rows, "xyz".index(self.about), self.cone)


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class PoseTask(_TurningTask, _MetricTask):
    """A task for the pose of a frame:  e = [p* - p; log(R* Rᵀ)],  the rotation vector in [rad].

    The target is a pose (4, 4), the velocity a twist [v; w] (6,) in the axes of the rows [m/s,
    rad/s]. J is the Jacobian of the frame, relative to the base if there is one.

    Attributes:
        frame: Name of the controlled frame; the robot's only end effector if None.
        rows: The controlled rows, among "x", "y", "z", "rx", "ry", "rz"; all if None.
        weight: One weight for all rows, or one per row.
        gain: Factor on the gain of a `Servo` for the error of this task; not for `solve`.
        axes: The axes in which rows are expressed: "world", "body" (those of the frame itself) or
            the name of any frame; those of the base, or of the world, if None. With "spatial", v is
            the velocity of the frame's point at the base's origin, in the base's axes, and e is
            [p* - p + p × w; w] with the rotation vector w; not for `solve`.
        base: Name of the frame in which targets are expressed; the world if None.
        length: The position error that counts as much as a rotation error of 1 rad [m]; it divides
            the weights of the position rows.
        alternate: Whether J is the Jacobian of the target, as if it were attached to the frame's
            link, instead of the Jacobian of the frame (`steps.alternate_jacobian`). Without a
            target, J is the ordinary one. `solve` always searches with the ordinary J, because the
            solutions are the same.
        tolerance: The allowed ranges of the frame's pose relative to its target, as a mapping from
            names of rows: a number for ±number, or a pair (lower, upper) whose ends may be infinite
            [m, rad]. {"x": 0.01, "z": (0, inf)} is a strip in a half-space. Rotations are
            components of the rotation vector in the axes of the rows.
        about: The axis of the frame, "x", "y" or "z", about which the frame may turn freely; None
            for no free rotation. Only the direction of this axis is controlled, by the two
            rotations about the other axes of the frame. A rotation row about this axis is omitted.
        cone: Largest allowed angle between the axis `about` and its target [rad]; None for no cone.
            With a cone, one row, the tilt, replaces the two rotation rows.

    References:
        Buss 2009, section 2, for `alternate`.
    """

    target_shapes: ClassVar[tuple[Shape, ...]] = ((4, 4),)
    velocity_shape: ClassVar[Shape] = (6,)
    target_kind: ClassVar[TargetKind] = TargetKind.POSE

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=6, target=16)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        with _remedies(given, _NOT_A_POSE):
            return _twelve(poses(given, "a PoseTask's target"))

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        with _remedies(given, _NOT_A_VELOCITY):
            return finite_array(given, (6,), "a PoseTask's velocity", batch=True)


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class PositionTask(_MetricTask):
    """A task for the position of a frame:  e = p* - p.

    The target is (3,) [m], the velocity (3,) [m/s].

    The attributes are those of `PoseTask` without `about` and `cone`, with the rows "x", "y", "z".
    A single `tolerance` holds for all rows.
    """

    known = ROWS[:3]
    target_shapes: ClassVar[tuple[Shape, ...]] = ((3,),)
    velocity_shape: ClassVar[Shape] = (3,)
    target_kind: ClassVar[TargetKind] = TargetKind.POSITION

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=3, target=3)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        with _remedies(given, _NOT_A_POSITION):
            position = finite_array(given, (3,), "a PositionTask's target", batch=True)
        T = np.broadcast_to(np.eye(4), (*position.shape[:-1], 4, 4)).copy()
        T[..., :3, 3] = position
        return _twelve(T)

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        with _remedies(given, _NOT_A_VELOCITY):
            v = finite_array(given, (3,), "a PositionTask's velocity", batch=True)
        return np.concatenate([v, np.zeros_like(v)], axis=-1)


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True)
class OrientationTask(_TurningTask):
    """A task for the orientation of a frame:  e = log(R* Rᵀ) [rad].

    The target is a rotation (3, 3), or a pose (4, 4) whose position is ignored; the velocity is
    (3,) [rad/s].

    The attributes are those of `PoseTask` without `length` and `alternate`, with the rows "rx",
    "ry", "rz". A single `tolerance` holds for all rows.
    """

    known = ROWS[3:]
    target_shapes: ClassVar[tuple[Shape, ...]] = ((3, 3), (4, 4))
    velocity_shape: ClassVar[Shape] = (3,)
    target_kind: ClassVar[TargetKind] = TargetKind.ORIENTATION

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=3, velocity_begin=3, target=9)

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


_Remedies: TypeAlias = Mapping[tuple[int, ...], str]
# Remedies for arrays that a task does not take, by the sizes of their last axes.
_NOT_A_POSE: _Remedies = {
    (3,): "A position alone is the target of a PositionTask: tasks=supple.PositionTask()",
    (7,): "supple.pose(position, xyzw=...) makes a pose of a position and a quaternion",
}
_NOT_A_POSITION: _Remedies = {
    (4, 4): "A pose is the target of a PoseTask; its position is pose[..., :3, 3]"
}
_NOT_A_VELOCITY: _Remedies = {(4, 4): "A pose is given as target="}


@contextmanager
def _remedies(given: ArrayLike, remedies: _Remedies) -> Iterator[None]:
    """Add a remedy to an InputError, if the shape of `given` shows what the user may mean."""
    try:
        yield
    except InputError as error:
        if "given: an array of shape" not in str(error):
            raise  # what was given is not an array of numbers, or has the right shape
        shape = np.shape(given)
        for ends, remedy in remedies.items():
            if shape[-len(ends) :] == ends:
                raise InputError(f"{error}. {remedy}") from None
        raise


def _read(tolerance: object) -> dict[str, tuple[float, float]]:
    """Return the ranges by row of a tolerance that `__post_init__` has converted."""
    return dict(tolerance) if isinstance(tolerance, tuple) else {}


def _twelve(T: Array) -> Array:
    """Convert poses (..., 4, 4) to the kernel's layout (..., 12): axes x, y, z and position."""
    return T[..., :3, :].swapaxes(-1, -2).reshape(*T.shape[:-2], 12)
