"""The rows of a task on a robot: the formulas of J and e, here for the pose of a frame.

Rows of other quantities are subclasses, each in the file of its task. The twin in the kernel is
`include/supple/task/task.hpp`, which batches and `Servo` use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from supple._core import TASK_TILT, Goal, GoalTraits, Target, traits_of
from supple.errors import unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.chain import FixedFrame
from supple.kinematics.frames import ancestors, only_tip, placed
from supple.kinematics.named_chain import AXES, ROWS
from supple.kinematics.rotation import cross, log
from supple.motion.direction_text import axes_name, row_name
from supple.motion.linearization import Array

BODY = "body"
SPATIAL = "spatial"
WORLD = "world"


@dataclass(frozen=True, eq=False)
class TaskRows:
    """The rows of a task on a robot, with all names resolved.

    Attributes:
        picked: Component of the twist for each row, 0 to 5, or 6 for the tilt of an axis, which is
            the last row; for joints, their indices. Rows of other quantities may use 0 to 5 with a
            meaning of their own; see `turns`.
        weights: The weight of each row.
        names: The name of each row.
        frame: The controlled frame; empty if there is none.
        base: The frame in which the target is expressed; None for the world.
        axes: The axes in which rows are expressed: the name of a frame, "body" or "world"; the
            base's axes if None. With "spatial", rows are in the base's axes, and v is the velocity
            of the body's point at the base's origin.
        turn: A rotation (3, 3) of the frame's axes that makes the controlled axis the z axis; None
            for no rotation.
        alternate: Whether J is the Jacobian of the target, as if attached to the frame's link.
        about: The axis of the frame, 0, 1 or 2, about which the frame may turn freely; the rotation
            rows are then in the frame's axes. -1 for no free rotation.
        lower: The lower end of the allowed range of each row of e, not weighted; zero for a row
            without a range, empty if no row has one.
        upper: The upper end of each range, in the same form.
        points: For a weighted sum of points, the frames whose origins are the points.
        shares: The weight of each point.
        leader: For a coupling, the index of the joint that is followed; else -1.
        curve: For a coupling, the coefficients (5,) of the polynomial of its position.
    """

    goal: ClassVar[Goal] = Goal.FRAME  # the quantity in the kernel
    in_python: ClassVar[bool] = False  # whether Python evaluates the rows, instead of the kernel

    picked: tuple[int, ...]
    weights: tuple[float, ...]
    names: tuple[str, ...]
    frame: str = ""
    base: str | None = None
    axes: str | None = None
    turn: Array | None = None
    alternate: bool = False
    about: int = -1
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    points: tuple[FixedFrame, ...] = ()
    shares: tuple[float, ...] = ()
    leader: int = -1
    curve: tuple[float, ...] = ()

    @property
    def traits(self) -> GoalTraits:
        """The properties of the rows that code outside of their class needs."""
        return traits_of(self.goal)

    @property
    def turns(self) -> tuple[bool, ...]:
        """Whether each row is an angle [rad]; other rows are lengths [m]."""
        return tuple(c >= 3 for c in self.picked)

    @property
    def fits_tree(self) -> bool:
        """Whether the rows are forms of the twists of bodies, or coordinates of q."""
        traits = self.traits
        return traits.is_twist or traits.is_sum or traits.is_linear

    @property
    def has_pose(self) -> bool:
        """Whether a target is a pose, and the rows are components of the twist toward it."""
        return self.traits.target == Target.POSE

    @property
    def has_position(self) -> bool:
        """Whether the last three values of a target are a position [m]."""
        return self.traits.target in (Target.POSE, Target.POSITION)

    @property
    def is_whole_pose(self) -> bool:
        """Whether the rows are the pose of a frame in the world, without a tolerance."""
        return (
            self.has_pose
            and set(self.picked) == set(range(len(ROWS)))
            and self.base is None
            and self.about < 0
            and not self.lower
        )

    @property
    def ranged(self) -> tuple[bool, ...]:
        """Whether each row has an allowed range."""
        if not self.lower:
            return (False,) * len(self.names)
        return tuple(a < b for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def effectors(self) -> tuple[int, ...]:
        """The group of each row, position or rotation, whose errors are clamped together."""
        kinds = [min(c // 3, 1) for c in self.picked]
        return tuple(sorted(set(kinds)).index(kind) for kind in kinds)

    def moved_by(self, robot: Robot) -> frozenset[int]:
        """Return the coordinates on which the rows depend."""
        frame = ancestors(robot, self.frame)
        base = ancestors(robot, self.base) if self.base is not None else {}
        if self.axes in (None, BODY):  # joints that move both frames do not count
            return frozenset((frame | base)[j] for j in frame.keys() ^ base.keys())
        axes = {} if self.axes == WORLD else ancestors(robot, self.axes)
        return frozenset((frame | base | axes).values())

    def jacobian(self, robot: Robot, q: Array, target: Array | None = None) -> Array:
        """Return the weighted J (rows, n).

        In the base's coordinates the rows are R_bᵀ(v - v_b - w_b × (p - p_b)) and R_bᵀ(w - w_b),
        which are then rotated into the axes of the rows; v and w are the linear and angular
        velocities and p the position of the frame, and the index b denotes the base. For
        an alternate J with a target at t, v + w × (t - p) replaces v, and t replaces p. The row of
        a tilt is n·w, with n perpendicular to the axis and to its target; it is zero without a
        target.
        """
        W = np.array(self.weights)[:, None]
        v, w = np.split(robot.jacobian(q, self.frame).astype(np.float64), 2)
        if self.base is not None:
            v_b, w_b = np.split(robot.jacobian(q, self.base).astype(np.float64), 2)
            p, p_b = (robot.fk(q, name)[:3, 3] for name in (self.frame, self.base))
            v, w = v - v_b - np.cross(w_b, p - p_b, axis=0), w - w_b
        if self.axes == SPATIAL:
            v = v + np.cross(self._arm(robot, q), w, axisb=0, axisc=0)
        if self.alternate and target is not None:
            T_b = np.eye(4) if self.base is None else robot.fk(q, self.base)
            t = T_b[:3, 3] + T_b[:3, :3] @ target[9:]
            v = v + np.cross(w, t - robot.fk(q, self.frame)[:3, 3], axis=0)
        w = self._turn_axes(robot, q).T @ w
        parts = [self._axes(robot, q).T @ v, w, self._tilt_row(robot, q, target)[None] @ w]
        return np.asarray(W * np.vstack(parts)[list(self.picked)])

    def error(self, robot: Robot, q: Array, target: Array) -> Array:
        """Return the weighted e (rows,) for a target in the kernel's layout (12, 3 or rows,).

        e is the signed distance of the offset to its allowed range, zero inside the range.
        """
        offset = self.offset(robot, q, target)
        if not self.lower:
            return offset
        W = np.array(self.weights)
        with np.errstate(invalid="ignore"):
            lower, upper = (np.nan_to_num(W * ends) for ends in (self.lower, self.upper))
        return np.asarray(offset - np.clip(offset, lower, upper))

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:
        """Return the weighted offset (rows,): target minus current value."""
        W = np.array(self.weights)
        T_b = np.eye(4) if self.base is None else robot.fk(q, self.base)
        R_b = T_b[:3, :3]
        T = robot.fk(q, self.frame)
        R, p = R_b.T @ T[:3, :3], R_b.T @ (T[:3, 3] - T_b[:3, 3])
        shall = target.reshape(4, 3).T
        e = np.concatenate([shall[:, 3] - p, log(shall[:, :3] @ R.T)])
        if self.axes == SPATIAL:
            e[:3] += cross(p, e[3:])
        rows = np.append(self._turned(robot, q, e), 0.0)
        if self.about >= 0:
            rows[3:] = self._tilts(robot, q, target)
        return np.asarray(W * rows[list(self.picked)])

    def reached(self, robot: Robot, q: Array) -> Array:
        """Return the targets reached at configurations q (..., n), in the kernel's layout."""
        R, p = self._pose(robot, q)
        return np.concatenate([R[..., :, 0], R[..., :, 1], R[..., :, 2], p], axis=-1)

    def _pose(self, robot: Robot, q: Array) -> tuple[Array, Array]:
        """Return the rotation (..., 3, 3) and the position (..., 3) of the frame in its base."""
        T: Array = robot.fk(q, self.frame).astype(np.float64, copy=False)
        R, p = T[..., :3, :3], T[..., :3, 3]
        if self.turn is not None:
            R = R @ self.turn
        if self.base is not None:
            T_b: Array = robot.fk(q, self.base).astype(np.float64, copy=False)
            R_b = T_b[..., :3, :3].swapaxes(-1, -2)
            R, p = R_b @ R, np.einsum("...ij,...j->...i", R_b, p - T_b[..., :3, 3])
        return R, p

    def command(
        self, robot: Robot, q: Array, velocity: Array, target: Array | None = None
    ) -> Array:
        """Convert a commanded velocity to weighted rows (rows,).

        The velocity is a twist (6,) in the axes of the rows. The row of a tilt is zero without a
        target.
        """
        W, twist = np.array(self.weights), velocity
        if self.about >= 0:
            turned = self._turn_axes(robot, q).T @ self._axes(robot, q) @ twist[3:]
            twist = np.concatenate([twist[:3], turned])
        tilting = self._tilt_row(robot, q, target) @ twist[3:]
        return np.asarray(W * np.append(twist, tilting)[list(self.picked)])

    def _desired_axis(self, robot: Robot, q: Array, target: Array) -> Array:
        """Return the target direction (3,) of the controlled axis in the frame's axes.

        The frame's axes are permuted cyclically, such that the controlled axis is z.
        """
        direction = self._direction(target)
        d = self._turn_axes(robot, q).T @ self._rotation(robot, q, self.base) @ direction
        return np.roll(d, 2 - self._axis)

    def _direction(self, target: Array) -> Array:
        """Return the target direction (3,) of the controlled axis in the axes of the base."""
        return target[3 * self.about : 3 * self.about + 3]

    @property
    def _axis(self) -> int:
        return self.about

    def _tilts(self, robot: Robot, q: Array, target: Array) -> Array:
        """Return the rotation vector from the controlled axis to its target, and its angle (4,)."""
        d = self._desired_axis(robot, q, target)
        angle = math.atan2(math.hypot(d[0], d[1]), d[2])
        return np.append(np.roll(tilt(d), self._axis - 2), angle)

    def _tilt_row(self, robot: Robot, q: Array, target: Array | None) -> Array:
        """Return n (3,), perpendicular to the controlled axis and its target, in frame axes."""
        if TASK_TILT not in self.picked or target is None:
            return np.zeros(3)
        d = self._desired_axis(robot, q, target)
        sine = math.hypot(d[0], d[1])
        n = np.array([-d[1], d[0], 0.0]) / sine if sine > 1e-150 else np.array([1.0, 0.0, 0.0])
        return np.roll(n, self._axis - 2)

    def _turn_axes(self, robot: Robot, q: Array) -> Array:
        """Return the axes of the rotation rows, as a rotation (3, 3) in the world."""
        if self.about < 0:
            return self._axes(robot, q)
        return self._rotation(robot, q, self.frame)

    def _turned(self, robot: Robot, q: Array, twist: Array) -> Array:
        """Convert a twist (6,) from the axes of the base to the axes of the rows."""
        R = self._axes(robot, q).T @ self._rotation(robot, q, self.base)
        return np.concatenate([R @ twist[:3], R @ twist[3:]])

    def _axes(self, robot: Robot, q: Array) -> Array:
        """Return the axes of the rows, as a rotation (3, 3) in the world."""
        if self.axes == BODY:
            R = self._rotation(robot, q, self.frame)
            return R if self.turn is None else np.asarray(R @ self.turn)
        named = self.axes not in (None, SPATIAL)
        return self._rotation(robot, q, self.axes if named else self.base)

    def _arm(self, robot: Robot, q: Array) -> Array:
        """Return the position (3,) of the frame minus that of the base, in world axes [m]."""
        p = robot.fk(q, self.frame)[:3, 3]
        return np.asarray(p if self.base is None else p - robot.fk(q, self.base)[:3, 3])

    @staticmethod
    def _rotation(robot: Robot, q: Array, frame: str | None) -> Array:
        return np.eye(3) if frame in (None, WORLD) else np.asarray(robot.fk(q, frame)[:3, :3])


def rows_of_frame(
    robot: Robot,
    frame: str | None,
    rows: Sequence[str],
    weights: tuple[float, ...],
    base: str | None,
    axes: str | None,
    alternate: bool = False,
) -> TaskRows:
    """Return the rows "x" to "rz" of a frame's twist in the given axes.

    Raises:
        UnknownNameError: The robot does not have the frame.
        InputError: No frame is named and the robot has several end effectors.
    """
    frame = only_tip(robot) if frame is None else frame
    placed(robot, frame)
    if base is not None:
        placed(robot, base, "frame for base=")
    if axes is not None and axes not in AXES and axes not in robot.frames:
        raise unknown_name_error("frame for axes=", axes, (*AXES, *robot.frames))
    written = axes_name(axes or base or WORLD, frame)
    return TaskRows(
        picked=tuple(ROWS.index(row) for row in rows),
        weights=weights,
        names=tuple(row_name(row, frame, base, written) for row in rows),
        frame=frame,
        base=base,
        axes=None if axes == WORLD and base is None else axes,
        alternate=alternate,
    )


def about_axis(rows: TaskRows, about: int, cone: float | None) -> TaskRows:
    """Return the rows of a frame that may turn freely about one of its own axes.

    Args:
        rows: The rows of the frame, including at least one rotation row.
        about: The axis about which the frame may turn: 0, 1 or 2 for x, y or z.
        cone: Largest allowed tilt of this axis [rad], which gives one rotation row, the tilt. None
            for two rotation rows, about the other two axes.
    """
    places = [i for i, c in enumerate(rows.picked) if c < 3]
    turns = [i for i, c in enumerate(rows.picked) if c >= 3 and c != 3 + about]
    if cone is not None:
        turns = turns[:1]
    kept = [*places, *turns]

    def pick(each: Sequence[float]) -> tuple[float, ...]:
        return tuple(each[i] for i in kept)

    names = [rows.names[i] for i in places]
    names += [
        row_name(ROWS[rows.picked[i]], rows.frame, rows.base, axes_name(BODY, rows.frame))
        for i in turns
    ]
    made = replace(
        rows,
        picked=tuple(rows.picked[i] for i in kept),
        weights=pick(rows.weights),
        names=tuple(names),
        about=about,
        lower=pick(rows.lower) if rows.lower else (),
        upper=pick(rows.upper) if rows.upper else (),
    )
    return made if cone is None else in_cone(made, cone)


def in_cone(rows: TaskRows, cone: float) -> TaskRows:
    """Return the rows with the last one replaced by a tilt of at most `cone` [rad]."""
    none = (0.0,) * len(rows.names)
    relative = f" relative to {rows.base}" if rows.base else ""
    return replace(
        rows,
        picked=(*rows.picked[:-1], TASK_TILT),
        names=(*rows.names[:-1], f"tilt of {rows.frame}{relative}"),
        lower=(*(rows.lower or none)[:-1], -math.inf),
        upper=(*(rows.upper or none)[:-1], cone),
    )


def tilt(d: Array) -> Array:
    """Return the shortest rotation vector (3,) that rotates z to a unit vector d.

    The result is angle (z × d)/|z × d|, or a half turn about x if d = -z.
    """
    sine = math.hypot(d[0], d[1])
    if sine <= 1e-150:
        return np.array([math.pi if d[2] < 0 else -d[1], 0.0 if d[2] < 0 else d[0], 0.0])
    return math.atan2(sine, d[2]) / sine * np.array([-d[1], d[0], 0.0])
