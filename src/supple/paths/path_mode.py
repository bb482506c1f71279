"""Mode "path" of `simulate`: the tool stays on its path, and only the timing changes.

The path is the sequence of targets. First, the joints follow the path without limits of speed:
q(s), where s is the time at which the tool should be at this point. Then s(t) is the fastest motion
with ds/dt <= 1 inside the limits, computed with the whole path known (`timing.py`).

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.control.servo import Servo
from supple.errors import InputError
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    Coordinates,
    clipped,
    coordinate_difference,
    to_kernel,
)
from supple.kinematics.rotation import exp, log
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.status import StepStatus
from supple.paths.references import Commands
from supple.paths.spline import Spline
from supple.paths.timing import Bounds, time_law
from supple.tasks.layout import CompiledTasks

MET_TOLERANCE = 1e-9  # error at which a target counts as reached [m or rad, weighted]
_ROUNDS = 50  # number of steps toward a target before it counts as out of reach
_NARROWING_ROUNDS = 4  # number of times that the ranges of joints are narrowed
_EASING_TARGETS = 10  # number of targets after which a joint that begins at its limit has left it
_POSE_VALUES = 12  # number of values of a target that is a pose


class PathMotion(NamedTuple):
    """A motion along a path of targets.

    Attributes:
        t: Times (K + 1,) [s].
        q: Joint coordinates (K + 1, nq) [rad or m].
        s: Path parameter at each time (K + 1,): the time for which this point is commanded [s].
        targets: Targets at these parameters (K + 1, k), in the kernel's layout.
        status: Status of the step toward the first target not reached; 0 if all are reached.
    """

    t: Array
    q: Array
    s: Array
    targets: Array
    status: int


def path_motion(
    layout: CompiledTasks,
    limits: Limits,
    q0: Array,
    commands: Commands,
    dt: float,
    tolerance: float,
) -> PathMotion:
    """Return the fastest motion along the targets that is nowhere faster than commanded.

    It ends, at rest, before the first target that the joints do not reach.

    Args:
        layout: The tasks.
        limits: Limits of the joints.
        q0: Initial joint coordinates (nq,), at the first target.
        commands: Targets and their times.
        dt: Length of a step of the motion [s].
        tolerance: Largest deviation of a row of the tasks from the path [m or rad].

    Raises:
        InputError: There is no path, q0 is not at its beginning, or the targets are too far apart.
    """
    if commands.targets is None:
        raise InputError('mode "path" needs a target at each time; given: none')
    robot = layout.robot
    q, splines, status = _joint_path(layout, limits, q0, commands)
    t, targets = commands.t[: len(q)], commands.targets[: len(q)]
    off = np.abs(layout.error(q0, targets[0]) / layout.weights).max()
    if off > tolerance:
        raise InputError(
            f'mode "path" needs q0 at the first target; given: q0 that is off by {off:.3g} m or rad'
        )
    if not splines:
        rest = np.repeat(q, 2, axis=0), np.repeat(t, 2), np.repeat(targets, 2, axis=0)
        return PathMotion(t[0] + np.array([0.0, dt]), *rest, status)
    middle = 0.5 * (t[1:] + t[:-1])
    between = np.concatenate([one(0.5 * (one.s[1:] + one.s[:-1])) for one in splines])[:, :-1]
    errors = np.abs(layout.error(between, _at(layout, commands, middle)) / layout.weights).max(1)
    if errors.max() > tolerance:
        worst = int(np.argmax(errors))
        raise InputError(
            f"targets must be close enough together that the motion between them stays within "
            f"{tolerance:g} m or rad of the path; given: a deviation of {errors[worst]:.3g} "
            f"between the times {t[worst]:.4g} and {t[worst + 1]:.4g} s"
        )
    made = [splines[0](splines[0].s[:1])]
    for spline in splines:
        law = time_law(spline, _bounds(limits))
        steps = max(1, int(np.ceil(law.duration / dt - 1e-9)))
        made.append(law.at(np.linspace(0, law.duration, steps + 1)[1:])[0])
    every = np.concatenate(made)
    s = np.clip(every[:, -1], t[0], t[-1])
    inside = clipped(robot, every[:, :-1], limits.lower, limits.upper)  # no rounding errors
    times = t[0] + dt * np.arange(len(every))
    return PathMotion(times, inside, s, _at(layout, commands, s), status)


def _bounds(limits: Limits) -> Bounds:
    """Return the limits of the joints and of s, which is the last coordinate of the path."""

    def norm(q: Array, qd: Array) -> Array:
        return np.asarray(np.linalg.norm(qd[:, :-1], axis=1) / limits.max_norm)

    return Bounds(
        np.append(limits.max_speed, 1.0),
        np.append(limits.max_acceleration, np.inf),
        np.append(limits.max_jerk, np.inf),
        tool=norm if np.isfinite(limits.max_norm) else None,
    )


def _joint_path(
    layout: CompiledTasks, limits: Limits, q0: Array, commands: Commands
) -> tuple[Array, list[Spline], int]:
    """Return the joint path q(s), with s as its last coordinate, to the last target in reach.

    Where a joint meets its position limit, a spline through the configurations overshoots the
    limit. A redundant robot then follows the targets with a smaller range of this joint. If this
    does not help, the motion stops there: each spline is a motion from rest to rest.

    Returns:
        Configurations at the targets (K, nq), splines through them (none if K = 1), and the status
        of the step toward the first target that is not reached (0 if all are).
    """
    assert commands.targets is not None
    robot = layout.robot
    begin = clipped(robot, q0, limits.lower, limits.upper)  # the motion begins where the robot is
    margin = np.zeros(robot.nv)
    q, status = _joints(layout, limits, margin, begin, commands.targets)
    for _ in range(_NARROWING_ROUNDS):
        q[0] = begin
        spline = _spline(robot, commands.t, q) if len(q) > 1 else None
        over = np.zeros(1) if spline is None else _overshoot(spline, limits).max(axis=0)
        if not over.any():
            break
        margin += 2 * over
        found, its_status = _joints(layout, limits, margin, begin, commands.targets)
        if its_status and not status:
            break  # the robot needs its whole range to reach all targets
        q, status = found, its_status
    q[0] = begin
    return q, _splines(robot, commands.t[: len(q)], q, limits), status


def _spline(robot: Robot, t: Array, q: Array) -> Spline:
    """Return the spline through q (K, nq) at the first K of the times, with a coordinate s = t."""
    layout = Coordinates(robot.nq + 1, robot.nv + 1, robot._balls)
    return Spline.through(t[: len(q)], np.column_stack([q, t[: len(q)]]), layout)


def _overshoot(spline: Spline, limits: Limits) -> Array:
    """Return how far each piece of a path exceeds the range of each joint (K - 1, n)."""
    low, high = (each[:, :-1] for each in spline.extremes())
    over = np.maximum(limits.lower - low, high - limits.upper)
    rounding = 16 * np.finfo(float).eps * np.maximum(np.maximum(np.abs(low), np.abs(high)), 1)
    return np.where(over > rounding, over, 0)


def _splines(robot: Robot, t: Array, q: Array, limits: Limits) -> list[Spline]:
    """Return splines through q (K, nq) that stay inside the ranges of all joints.

    A spline that leaves the range of a joint is divided at one of the two targets around its
    largest overshoot, the one where the joint turns more sharply. A spline of two targets is a
    line, which stays inside.
    """
    made, waiting = [], [(0, len(q))] if len(q) > 1 else []
    positions = to_kernel(robot, q)
    while waiting:
        first, end = waiting.pop()
        spline = _spline(robot, t[first:end], q[first:end])
        over = _overshoot(spline, limits)
        if end - first == 2 or not over.any():
            made.append(spline)
            continue
        piece, joint = np.unravel_index(over.argmax(), over.shape)
        own = positions[first:end, joint]
        steps = coordinate_difference(own[1:], own[:-1])
        turn = np.abs(np.diff(steps))  # at the targets 1, 2, ...
        near = np.clip([piece, piece + 1], 1, end - first - 2)
        at = first + int(near[np.argmax(turn[near - 1])])
        waiting += [(at, end), (first, at + 1)]
    return made


def _joints(
    layout: CompiledTasks, limits: Limits, margin: Array, begin: Array, targets: Array
) -> tuple[Array, int]:
    """Return q (K, nq) at the targets before the first one out of reach, and the status there.

    The joints keep distances `margin` (n,) from their position limits. A joint that begins closer
    to a limit (`begin`, (nq,)) has the full distance only after a few targets.
    """
    q = np.empty((len(targets), layout.robot.nq))
    here, first = begin, to_kernel(layout.robot, begin)
    for k, target in enumerate(targets):
        if k <= _EASING_TARGETS and (k == 0 or margin.any()):
            part = margin * (k / _EASING_TARGETS)
            servo = _unhurried(
                layout,
                limits,
                np.minimum(limits.lower + margin, np.maximum(first, limits.lower + part)),
                np.maximum(limits.upper - margin, np.minimum(first, limits.upper - part)),
            )
        for _ in range(_ROUNDS):
            if np.abs(layout.error(here, target)).max() < MET_TOLERANCE:
                break
            servo._raw(here, None, target, None, q[k])
            here = q[k].copy()
        else:
            return q[: max(k, 1)], servo._causes() | int(StepStatus.OUT_OF_REACH)
        q[k] = here
    return q, 0


def _unhurried(layout: CompiledTasks, limits: Limits, lower: Array, upper: Array) -> Servo:
    """Return a Servo with only these position limits; each of its steps aims at the target."""
    free = np.full(len(lower), np.inf)
    box = Limits(lower, upper, free, free, joints=limits.joints)
    return Servo(layout.robot, layout.tasks, dt=1.0, limits=box, gain=1.0)


def _at(layout: CompiledTasks, commands: Commands, s: Array) -> Array:
    """Return the targets (..., k) at parameters s (...), interpolated between the given ones."""
    t, targets = commands.t, commands.targets
    assert targets is not None
    k = np.clip(np.searchsorted(t, s, side="right") - 1, 0, len(t) - 2)
    part = ((s - t[k]) / (t[k + 1] - t[k]))[:, None]
    made = targets[k] + part * (targets[k + 1] - targets[k])
    begin = 0
    for task, size in zip(layout.tasks, layout.kernel.target_sizes, strict=True):
        if task.on(layout.robot).has_pose:  # the columns of a rotation, then a position
            place = slice(begin, begin + size)
            made[:, place] = _poses(targets[k][:, place], targets[k + 1][:, place], part[:, 0])
        begin += size
    return made


def _poses(begin: Array, end: Array, part: Array) -> Array:
    """Return poses (K, 12) at fractions `part` (K,) of the way from `begin` to `end` (K, 12)."""
    one, other = (each.reshape(-1, 4, 3).swapaxes(1, 2) for each in (begin, end))
    turn = log(one[..., :3].swapaxes(1, 2) @ other[..., :3])
    rotation = one[..., :3] @ exp(part[:, None] * turn)
    position = one[..., 3:] + part[:, None, None] * (other[..., 3:] - one[..., 3:])
    return np.concatenate([rotation, position], axis=2).swapaxes(1, 2).reshape(-1, _POSE_VALUES)
