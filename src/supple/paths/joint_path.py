"""Paths of joints and their timing: the fastest motion inside the limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import ReadOnlyArrays, coordinates, finite_array, number
from supple.control.arguments import limits_for, step_length
from supple.control.missed import TaskShares
from supple.control.trajectory import Trajectory
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    clipped,
    coordinate_difference,
    difference,
    to_kernel,
)
from supple.kinematics.loops import refuse_loops
from supple.kinematics.robot import check_robot
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.motion.unit_text import joint_unit
from supple.paths.spline import Spline
from supple.paths.timing import Bounds, TimeLaw, time_law
from supple.tasks import PositionTask
from supple.tasks.layout import CompiledTasks, compile_selected

DT = 1e-3  # length of a step of a timed path, if it is not given [s]
_EQUAL_DISTANCE = 1e-9  # configurations closer than this count as equal [rad or m]
_AT_LIMIT = 0.99  # fraction of a limit above which the status reports the limit


@dataclass(frozen=True, eq=False, repr=False)
class JointPath(ReadOnlyArrays):
    """A smooth path of a robot's joints: a cubic spline through given configurations.

    First and second derivatives are continuous. Between configurations the path is not a straight
    line; configurations that are close together determine the path more precisely. The path is
    inside the position limits of the joints everywhere: where the spline would exceed them between
    configurations, its derivatives at the configurations are reduced.

    Attributes:
        robot: The robot.
        q: Joint coordinates (N, nq), N >= 1 [rad or m]; successive configurations differ.
        s: Parameter of each configuration (N,), increasing; by default the sum of distances
            between successive configurations [rad and m mixed].

    Raises:
        InputError: The arrays are malformed, or a configuration is outside the position limits.
    """

    robot: Robot
    q: Array
    s: Array

    def __init__(self, robot: Robot, q: ArrayLike, s: ArrayLike | None = None) -> None:
        check_robot(robot)
        refuse_loops(robot, "JointPath")
        points = coordinates(q, robot.nq, "q").astype(np.float64)
        if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
            raise InputError(f"q must be finite, of shape (N, {robot.nq}); given: {short_repr(q)}")
        points = _inside(robot, points)
        gaps = _lengths(robot, points)
        if s is None:
            keep = np.append(True, gaps > _EQUAL_DISTANCE)
            points = points[keep]
            at = np.append(0.0, np.cumsum(_lengths(robot, points)))
        else:
            at = finite_array(s, (len(points),), "s")
            if not (np.diff(at) > 0).all():
                raise InputError(f"s must increase; given: {short_repr(s)}")
        for name, value in (("q", points), ("s", at)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        object.__setattr__(self, "robot", robot)

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        largest = np.abs(difference(self.robot, self.q[1:], self.q[:-1])).max(initial=0.0)
        return (
            f"<JointPath of {self.robot.name}: {len(self)} configurations, "
            f"{largest:.3g} {joint_unit(self.robot)} at most between two>"
        )

    @cached_property
    def spline(self) -> Spline:
        """The spline through q; it needs two configurations or more."""
        return Spline.inside(self.s, self.q, self.robot.lower, self.robot.upper, self.robot)

    @cached_property
    def extremes(self) -> tuple[Array, Array]:
        """The smallest and the largest value of each joint (n,) anywhere on the path [rad or m].

        For ball joints, the values are those of rotation vectors in the pieces of the spline.
        """
        if len(self) == 1:
            only = to_kernel(self.robot, self.q[0])
            return only, only
        low, high = self.spline.extremes()
        lower, upper = self.robot.lower, self.robot.upper
        return np.clip(low.min(axis=0), lower, upper), np.clip(high.max(axis=0), lower, upper)

    def at(self, s: ArrayLike) -> Array:
        """Return the configurations (..., nq) at parameters s (...).

        Args:
            s: Parameters between the first and the last one of the path.
        """
        where = np.asarray(s, dtype=np.float64)
        if not ((self.s[0] <= where) & (where <= self.s[-1])).all():
            given = short_repr(s)
            raise InputError(f"s must be from {self.s[0]:g} to {self.s[-1]:g}; given: {given}")
        if len(self) == 1:
            return np.broadcast_to(self.q[0], (*where.shape, self.robot.nq)).copy()
        inside = clipped(self.robot, self.spline(where.ravel()))  # removes rounding errors
        return np.asarray(inside).reshape(*where.shape, self.robot.nq)

    def check_inside(self, limits: Limits) -> None:
        """Raise an InputError if the path leaves the position limits of `limits`."""
        low, high = self.extremes
        beyond = np.maximum(limits.lower - low, high - limits.upper)
        if beyond.max() <= _EQUAL_DISTANCE:
            return
        j = int(np.argmax(beyond))
        raise InputError(
            f"the path must be inside the position limits; given: a path of "
            f"{self.robot.joint_names[j]} from {low[j]:g} to {high[j]:g}, with limits "
            f"{limits.lower[j]:g} and {limits.upper[j]:g}. Paths of Robot.with_limits keep them"
        )

    def timed(
        self,
        limits: Limits | None = None,
        *,
        tool_speed: float | None = None,
        frame: str | None = None,
        dt: float = DT,
    ) -> Trajectory:
        """Return the fastest motion along the path, from rest to rest, inside the limits.

        Position, speed, acceleration and jerk of every joint stay inside their limits at all times.
        With `tool_speed` the tool moves at this speed wherever the limits allow it. Without jerk
        limits the motion is time-optimal up to the grid of the path; with jerk limits it is a
        local optimum, and on a straight line the global one (docs/paths.md).

        Args:
            limits: Limits of the joints, whose mode has no effect; by default the robot's own, with
                acceleration limits derived from the speed limits as in `Servo` where it has none.
                Joints that move need limits of speed or acceleration.
            tool_speed: Largest speed of the origin of `frame` [m/s].
            frame: Frame whose motion the trajectory reports; by default all end effectors.
            dt: Length of a step of the trajectory [s]. The duration is rounded up to a multiple.

        Raises:
            InputError: A joint that moves has no limit, or the path leaves the position limits.
        """
        dt, own = step_length(dt), limits_for(limits, self.robot)
        moves = (difference(self.robot, self.q, self.q[:1]) != 0).any(axis=0)
        bounds = bounds_of(self.robot, moves, own, tool_speed, frame)
        self.check_inside(own)
        layout, _ = compile_selected(self.robot, frame, None)
        if len(self) == 1:
            return to_trajectory(layout, [np.repeat(self.q, 2, axis=0)], dt, bounds)
        # Clipping removes rounding errors beyond the position limits.
        inside = clipped(self.robot, sampled(time_law(self.spline, bounds), dt))
        return to_trajectory(layout, [inside], dt, bounds)


def sampled(law: TimeLaw, dt: float) -> Array:
    """Return q (K + 1, n) at intervals of dt; the motion is slowed to end at a multiple of dt."""
    steps = max(1, int(np.ceil(law.duration / dt - 1e-9)))
    return law.at(np.linspace(0, law.duration, steps + 1))[0]


def _lengths(robot: Robot, q: Array) -> Array:
    """Return the lengths (N - 1,) of the steps between configurations (N, n)."""
    return np.asarray(np.linalg.norm(difference(robot, q[1:], q[:-1]), axis=1))


def _inside(robot: Robot, q: Array) -> Array:
    """Return configurations (N, n) without rounding errors beyond the position limits.

    Raises:
        InputError: A configuration is outside the limits.
    """
    low, high = robot.lower, robot.upper
    inside = clipped(robot, q)
    at, near = to_kernel(robot, q), to_kernel(robot, inside)
    out = np.abs(coordinate_difference(at, near)) > _EQUAL_DISTANCE * np.maximum(1, np.abs(near))
    if out.any():
        i, j = np.argwhere(out)[0]
        raise InputError(
            f"q must be inside the position limits of the joints; given: {at[i, j]:g} for "
            f"{robot.joint_names[j]} of configuration {i}, with limits {low[j]:g} and {high[j]:g}"
        )
    return np.asarray(inside)


def bounds_of(
    robot: Robot,
    moves: NDArray[np.bool_],
    limits: Limits,
    tool_speed: float | None,
    frame: str | None,
) -> Bounds:
    """Return the limits along a path on which only some joints (n,) move.

    Raises:
        InputError: A joint that moves has no limit.
    """
    tool = None
    if tool_speed is not None:
        fastest = number(tool_speed, "tool_speed", above=0)
        point, _ = compile_selected(
            robot, None, [PositionTask(name) for name in ([frame] if frame else robot.tips)]
        )

        def tool(q: Array, qd: Array) -> Array:
            rows = np.einsum("kmn,kn->km", point.jacobian(q), qd) / point.weights
            each = np.linalg.norm(rows.reshape(len(q), -1, 3), axis=2)
            return np.asarray(each.max(axis=1) / fastest)

    free = moves & ~np.isfinite(limits.max_speed) & ~np.isfinite(limits.max_acceleration)
    if free.any():
        joint = robot.joint_names[int(np.argmax(free))]
        raise InputError(
            f"each joint that moves must have a limit of speed or acceleration; given: {joint} "
            f"without either. Limits.for_robot(robot, max_speed=...) sets speed limits"
        )
    return Bounds(limits.max_speed, limits.max_acceleration, limits.max_jerk, limits.max_norm, tool)


def to_trajectory(
    layout: CompiledTasks, pieces: list[Array], dt: float, bounds: Bounds
) -> Trajectory:
    """Return a trajectory from consecutive pieces, arrays of q at intervals of dt.

    Each piece starts at the end of the previous one.
    """
    q = np.concatenate([pieces[0], *(each[1:] for each in pieces[1:])])
    steps = len(q) - 1
    qd = difference(layout.robot, q[1:], q[:-1]) / dt
    J = np.asarray(layout.jacobian(q[:-1]), dtype=np.float64)
    rows = np.einsum("kmn,kn->km", J, qd) / layout.weights
    # accelerations at both ends of each step; the joints rest before and after the motion
    resting = np.zeros((1, qd.shape[1]))
    second = np.diff(np.concatenate([resting, qd, resting]), axis=0) / dt
    third = np.diff(second, axis=0) / dt
    ratios = (
        (StepStatus.SPEED_LIMIT, qd / bounds.speed),
        (StepStatus.ACCELERATION_LIMIT, second[1:] / bounds.acceleration),
        (StepStatus.JERK_LIMIT, third / bounds.jerk),
    )
    status, active = np.zeros(steps, np.int32), np.zeros(qd.shape, np.int8)
    for flag, ratio in ratios:
        there = np.abs(ratio) > _AT_LIMIT
        status |= np.where(there.any(axis=1), np.int32(flag), np.int32(0))
        active = np.where(there & (active == 0), np.sign(ratio), active).astype(np.int8)
    return Trajectory(
        t=dt * np.arange(steps + 1, dtype=np.float64),
        q=q,
        qd=qd,
        lambda2=np.zeros(steps),
        sigma_min=_weakest(layout, q[:-1], J),
        command=rows,
        velocity=rows,
        error=np.zeros_like(rows),
        active=active,
        status=StatusArray.of(StepStatus, status),
        rows=layout.rows,
        robot=layout.robot,
        _shares=TaskShares.of(layout, rows * layout.weights, np.zeros_like(rows)),
    )


def _weakest(layout: CompiledTasks, q: Array, J: Array) -> Array:
    """Return the smallest singular values (K,) of the weighted Jacobians J (K, m, n)."""
    rows = [task.on(layout.robot) for task in layout.tasks]
    plain = len(rows) == 1 and rows[0].has_pose and rows[0].base is None
    if plain and len(layout.rows) == 6 and (layout.weights == 1).all():
        return np.asarray(layout.robot.singular_values(q, rows[0].frame)[:, -1])
    return np.asarray(np.linalg.svd(J, compute_uv=False)[:, -1])
