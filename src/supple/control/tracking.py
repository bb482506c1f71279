"""Whole motions: a robot follows targets, or velocities, in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple.control.controller import AnyStep
from supple.control.servo import Servo
from supple.control.trajectory import EXCEEDS, Status, Trajectory
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.arrays import as_doubles, coordinates, number, real_numbers
from supple.motion.layout import CompiledTasks, compile_given
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.task import OrientationTask, PoseTask, Task, TaskLike

_MAX_STEPS = 10_000_000

Reference: TypeAlias = Callable[[float], Any] | Sequence[Any] | ArrayLike | None


def track(
    robot: Robot,
    q0: ArrayLike,
    *,
    target: Reference = None,
    velocity: Reference = None,
    acceleration: Reference = None,
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    dt: float | None = None,
    times: ArrayLike | None = None,
    duration: float | None = None,
    feedforward: bool = True,
    step: AnyStep | None = None,
    limits: Limits | None = None,
    gain: float | None = None,
    order: int = 1,
    rate_gain: float | None = None,
    rest_gain: float | None = None,
    qd0: ArrayLike | None = None,
) -> Trajectory:
    """Follow a moving target, a velocity, or both: a `Servo` stepped through time.

    Args:
        robot: That moves.
        q0: Where it starts (n,) [rad or m]; outside its limits it comes back first.
        target: Where the tasks shall be: a function of time [s], or K + 1 of them, one at each
            time; for one task also a constant one. With several tasks each is a sequence with one
            for each task.
        velocity: How fast the tasks shall go: a function of time, K (or K + 1) of them, or a
            constant one.
        acceleration: Likewise, with order=2.
        tasks: As in `Servo`: a task, a frame's name, a sequence of those, or all end frames.
        dt: Length of a step [s], where `times` are left out.
        times: Times (K + 1,), rising [s]. Joints brake for the steps that are to come; after the
            last one, for steps as long as that one.
        duration: How long [s], where neither times nor arrays tell.
        feedforward: Where targets come without velocities, take these from their differences.
        step: As in `Servo`.
        limits: As in `Servo`.
        gain: As in `Servo`.
        order: As in `Servo`.
        rate_gain: As in `Servo`.
        rest_gain: As in `Servo`.
        qd0: Speeds at the start (n,); zero if left out.

    Raises:
        InputError: courses of different lengths, times that do not rise, or neither target nor
            velocity.
    """
    if not isinstance(robot, Robot):
        raise InputError(f"robot must be a Robot; given: {short_repr(robot)}")
    layout, single = compile_given(robot, tasks)
    if target is None and velocity is None and acceleration is None:
        raise InputError("track needs a target, a velocity or an acceleration; given: none")
    courses = {"target": target, "velocity": velocity, "acceleration": acceleration}
    for name, course in courses.items():
        if single and _is_constant(course, name, layout.tasks[0]):
            courses[name] = _always(course)
        elif course is not None and not callable(course):
            courses[name] = _listed(course, name)
    t = _times(dt, times, duration, *courses.values())
    steps = len(t) - 1
    targets = _sampled(courses["target"], t, steps + 1, "target", layout, single)
    velocities = _sampled(courses["velocity"], t, steps, "velocity", layout, single)
    accelerations = _sampled(courses["acceleration"], t, steps, "acceleration", layout, single)
    if targets is not None and velocities is None and feedforward:
        velocities = layout.differences(targets[:-1], targets[1:]) / np.diff(t)[:, None]

    servo = Servo(
        robot,
        layout.tasks,
        dt=float(t[1] - t[0]),
        step=step,
        limits=limits,
        gain=gain,
        order=order,
        rate_gain=rate_gain,
        rest_gain=rest_gain,
    )
    servo.reset(qd0)
    q = np.empty((steps + 1, robot.dof))
    q[0] = _start(q0, robot)
    qd, side = np.empty((steps, robot.dof)), np.empty((steps, robot.dof))
    lambda2, asked = np.empty(steps), np.empty((steps, len(layout.rows)))
    held = np.empty(steps, dtype=bool)
    lengths = np.diff(t)
    uneven = not np.allclose(lengths, servo.dt, rtol=1e-12, atol=0)
    for k in range(steps):
        if uneven:
            servo._pace(lengths, k)
        servo._raw(
            q[k],
            None if velocities is None else velocities[k],
            None if targets is None else targets[k],
            None if accelerations is None else accelerations[k],
            q[k + 1],
        )
        qd[k], side[k] = servo._qd, servo._side
        lambda2[k], asked[k], held[k] = servo._lambda2, servo._asked, servo._held
    weights = layout.weights
    J = layout.jacobian(q[:-1])
    error = np.zeros((steps, len(weights))) if targets is None else layout.error(q[1:], targets[1:])
    less = np.where((lambda2 > 0) | held, Status.DAMPED, Status.FOLLOWING)
    status = np.where(side.any(axis=1), Status.AT_LIMIT, less)
    speeds = np.vstack([np.zeros(robot.dof) if qd0 is None else qd0, qd])
    taken = lengths[:, None] if uneven else servo.dt
    exceeds = servo.limits.exceeded(speeds[:-1], qd, taken).max(axis=1) > EXCEEDS
    status[exceeds] = Status.ACCELERATION_EXCEEDED
    return Trajectory(
        t=t,
        q=q,
        qd=qd,
        lambda2=lambda2,
        sigma_min=np.linalg.svd(J.astype(np.float64), compute_uv=False)[:, -1],
        asked=asked / weights,
        velocity=np.einsum("kmn,kn->km", J, qd) / weights,
        error=error / weights,
        active=side.astype(np.int8),
        status=status.astype(np.int8),
        rows=layout.rows,
    )


def _times(
    dt: float | None, times: ArrayLike | None, duration: float | None, *courses: Reference
) -> Array:
    """Times (K + 1,), rising."""
    if times is not None:
        if dt is not None or duration is not None:
            raise InputError("times say all: dt and duration must be left out")
        expected = "times must be (K + 1,), finite and rising"
        t = as_doubles(real_numbers(times, expected))
        if t.ndim != 1 or len(t) < 2 or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
            raise InputError(f"{expected}; given: {short_repr(times)}")
        return t
    each = number(dt, "dt (or times instead)", above=0)
    if duration is not None:
        whole = number(duration, f"duration (at most {_MAX_STEPS} steps)", least=each)
        number(whole / each, "duration / dt", most=_MAX_STEPS)
        return each * np.arange(round(whole / each) + 1, dtype=np.float64)
    target, velocity, acceleration = courses
    for course, more in ((target, 0), (velocity, 1), (acceleration, 1)):
        if course is not None and not callable(course):
            count = len(course) + more  # type: ignore[arg-type]
            if count < 2:
                raise InputError(
                    f"a course must have at least one step; given: {short_repr(course)}"
                )
            return each * np.arange(count, dtype=np.float64)
    raise InputError("duration or times must say how long; given: only functions of time")


def _is_constant(course: Reference, name: str, task: Task) -> bool:
    """Whether a course of one task is the same at all times: as many axes as one of them has."""
    matrix = name == "target" and isinstance(task, PoseTask | OrientationTask)
    try:
        return not callable(course) and np.ndim(course) == (2 if matrix else 1)  # type: ignore[arg-type]
    except Exception:  # lists of different lengths, or an object's own conversion
        return False


def _listed(course: Any, name: str) -> list[Any]:
    """A course given as a sequence or an array, one by one."""
    try:
        if not hasattr(course, "__len__"):
            raise TypeError
        return list(course)
    except Exception as error:  # an object's own
        what = f"{name} must be a function of time, or a sequence with one for each time"
        raise InputError(f"{what}; given: {short_repr(course)}") from error


def _always(value: Reference) -> Callable[[float], Any]:
    return lambda time: value


def _sampled(
    course: Reference, t: Array, count: int, name: str, layout: CompiledTasks, single: bool
) -> Array | None:
    """A course as the kernel's numbers (count, k)."""
    if course is None:
        return None
    if callable(course):
        each = [course(float(time)) for time in t[:count]]
    else:
        each = course  # type: ignore[assignment]
        if len(each) not in (count, len(t)):
            raise InputError(f"{name} must have {count} entries; given: {len(each)}")
        each = each[:count]
    make = layout.targets if name == "target" else layout.velocities
    rows = [make((one,) if single else one) for one in each]
    if any(row.ndim != 1 for row in rows):
        raise InputError(f"each {name} must be one, not a batch; given: {short_repr(each[0])}")
    return np.array(rows)


def _start(q0: ArrayLike, robot: Robot) -> Array:
    q = coordinates(q0, robot.dof, "q0").astype(np.float64)
    if q.ndim != 1 or not np.isfinite(q).all():
        raise InputError(f"q0 must be finite, ({robot.dof},); given: {short_repr(q0)}")
    return q
