"""Parse and validate the arguments of `Servo` and `simulate`.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import damping
from supple._arrays.checks import number
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import from_kernel, in_balls
from supple.kinematics.frames import ancestors
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.motion.plausible import check_plausible
from supple.tasks import Task
from supple.tasks.evaluation import linearize
from supple.tasks.inputs import per_task
from supple.tasks.layout import CompiledTasks
from supple.tasks.rows import TaskRows

_LONGEST_STEP = 5.0  # [s]: a larger value is probably in milliseconds, or a rate in Hz
DEFAULT_GAIN = 20.0  # default gain of the error to a target [1/s]
ACCELERATION_TIME = 0.15  # default time in which a joint reaches its speed limit [s]


def check_robot_first(robot: object, usage: str, *others: object) -> None:
    """Raise an error if the first argument is not a robot.

    Args:
        robot: The argument that must be a `Robot`.
        usage: The correct call, shown if the robot is among the other arguments.
        others: The other arguments, one of which may be the robot by mistake.
    """
    if isinstance(robot, Robot):
        return
    if any(isinstance(other, Robot) for other in others):
        raise InputError(f"the robot is the first argument: {usage}; given: {short_repr(robot)}")
    raise InputError(f"robot must be a Robot; given: {short_repr(robot)}")


def step_length(dt: object, name: str = "dt") -> float:
    """Return the length of a step [s] as a float after checking it."""
    value = number(dt, name, above=0)
    if value > _LONGEST_STEP:
        raise InputError(
            f"{name} is in seconds and must be at most {_LONGEST_STEP:g}; given: {short_repr(dt)}. "
            f"For {value:g} ms use {value / 1e3:g}; for a rate of {value:g} Hz use {1 / value:.4g}"
        )
    return value


def check_order(order: object) -> None:
    """Raise an error if `order` is neither 1 nor 2."""
    if not isinstance(order, int) or order not in (1, 2):
        raise InputError(f"order must be 1 (rate) or 2 (acceleration); given: {short_repr(order)}")


def limits_for(limits: object, robot: Robot) -> Limits:
    """Return the limits of a robot's joints after checking them.

    By default they are the robot's own; acceleration limits that it does not have are derived from
    its speed limits.
    """
    if limits is None:
        return _own_limits(robot)
    if not isinstance(limits, Limits) or len(limits.lower) != robot.dof:
        raise InputError(
            f"limits must be Limits of {robot.dof} joints; given: {short_repr(limits)}"
        )
    limited = in_balls(robot) & (np.isfinite(limits.lower) | np.isfinite(limits.upper))
    if limited.any():
        name = robot.joint_names[int(limited.argmax())]
        raise InputError(f"the orientation of a ball joint has no limits; given: limits of {name}")
    return limits


@lru_cache(maxsize=64)
def _own_limits(robot: Robot) -> Limits:
    return Limits.for_robot(robot, acceleration_time=ACCELERATION_TIME)


def default_gain(limits: Limits, dt: float, layout: CompiledTasks, *, brakes: bool) -> float:
    """Return the default gain of the error to a target [1/s].

    The gain is at most 1/dt, which reaches the target in one step. Unless the step brakes in time
    (`brakes`, as `Yielding` does), it is also at most the gain with which a joint that approaches
    its target at full speed v can still brake: braking begins at the distance v/gain and needs
    v (v/a + a/j)/2, where a and j are the limits of acceleration and jerk. In a joint range of
    length r, v is at most sqrt(a r), because the joint starts at rest. Joints that move no task do
    not count.
    """
    largest = min(DEFAULT_GAIN, 1 / dt)
    if brakes:
        return largest
    a, room = limits.max_acceleration, limits.upper - limits.lower
    turns = np.array([unit == "rad" for unit in limits.units], dtype=bool)
    if turns.size:
        room = np.where(turns, np.minimum(room, 2 * np.pi), room)
    with np.errstate(invalid="ignore", over="ignore"):  # inf/inf: no limit of speed or acceleration
        times = np.minimum(limits.max_speed, np.sqrt(a * room)) / a + a / limits.max_jerk
    slowest = float(times.max(initial=0.0, where=np.isfinite(times) & moving_joints(layout)))
    return min(largest, 2 / slowest if slowest > 0 else DEFAULT_GAIN)


def moving_joints(layout: CompiledTasks) -> NDArray[np.bool_]:
    """Return which joints (n,) move the tasks; with a posture or an open task, all of them."""
    robot = layout.robot
    rows = [task.on(robot) for task in layout.tasks]
    moves = np.full(robot.dof, any(one.traits.is_linear for one in rows))
    for name in _frames_of(rows):
        moves[list(ancestors(robot, name).values())] = True
    for one in rows:
        if not one.traits.is_twist:
            moves[list(one.moved_by(robot))] = True
    return moves


def _frames_of(rows: Sequence[TaskRows]) -> set[str]:
    """Return the frames whose twists the rows measure."""
    twists = [one for one in rows if one.traits.is_twist]
    return {name for one in twists for name in (one.frame, one.base) if name is not None}


@lru_cache(maxsize=64)
def largest_curvature(layout: CompiledTasks) -> float:
    """Return the largest curvature of the tasks, as in `Curvature` [m/rad].

    A `PostureTask` is linear in q and has no curvature.
    """
    robot = layout.robot
    rows = [task.on(robot) for task in layout.tasks]
    frames = _frames_of(rows)
    if any(one.traits.is_sum for one in rows):  # moves less than the end effectors
        frames |= set(robot.tips)
    others = [
        _curvature(task, robot)
        for task, one in zip(layout.tasks, rows, strict=True)
        if one.in_python or not one.fits_tree
    ]
    if frames:
        others.append(damping.Curvature.for_robot(robot, sorted(frames)).curvature)
    return max(others, default=0.0)


def _curvature(task: Task, robot: Robot) -> float:
    """Return the largest second derivative of the weighted rows at the neutral configuration.

    The directions of the derivatives are each joint alone, and all joints together.
    """
    n = robot.dof
    directions = np.vstack([np.eye(n), np.full(n, n**-0.5)])
    q = np.tile(robot.neutral(), (len(directions), 1))
    bias = linearize(robot, task, q, qd=directions).bias_acceleration
    assert bias is not None
    return max(float(np.linalg.norm(one)) for one in bias)


def task_gains(tasks: Sequence[Task]) -> list[float]:
    """Return the factor of each task on the gain; an empty tuple if all factors are 1."""
    gains = [task.gain for task in tasks]
    return [] if all(gain == 1 for gain in gains) else gains


def command_converter(layout: CompiledTasks, single: bool) -> Callable[[str, Any], Array]:
    """Return the function that converts targets and velocities to the kernel's layout.

    The function also raises the error for a configuration q that is probably in degrees.
    """

    def convert(name: str, given: Any) -> Array:
        if name == "q":  # (n,), outside `plausible_range`
            check_plausible(layout.robot, from_kernel(layout.robot, given), name)
            return np.asarray(given)
        given = per_task(given, single, layout.tasks, name)
        numbers = layout.targets(given) if name == "target" else layout.velocities(given)
        if numbers.ndim != 1:
            raise InputError(f"{name} must not be a batch; given: batch axes {numbers.shape[:-1]}")
        return np.ascontiguousarray(numbers)

    return convert
