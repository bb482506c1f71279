"""Statuses of steps: the damping and the limits that acted, as flags and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntFlag
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from supple.control.diagnostics import Held
from supple.motion.limits import Limits, boxes_of_joints
from supple.motion.linearization import Array

EXCEEDS = 1 + 1e-9  # ratio to its limit above which an acceleration exceeds it, despite rounding
NEARLY = 1 - 1e-9  # ratio to its limit above which a value is at the limit, despite rounding


class StepStatus(IntFlag):
    """The damping and limits that acted on a step, as flags; FOLLOWING (0) if none did.

        if StepStatus.SPEED_LIMIT in servo.status: ...       one cause
        for cause in servo.status: print(cause.sentence)     all causes
        (motion.status & StepStatus.DAMPED) != 0             a mask of the damped steps of a motion

    A status prints as words. It does not contain the error of a task.

    Attributes:
        FOLLOWING: Neither damping nor a limit acted, and the step performs as much of the task as
            any joint motion can.
        DAMPED: The step gave up part of the task to bound the joint speeds: by damping, λ² > 0, by
            truncation, or by a clamp. The default step of a `Servo` counts as damped if damping
            removes more than 1 % of the command.
        NORM_LIMIT: The norm of all joint speeds is at its bound.
        JERK_LIMIT: A joint is at its maximum jerk.
        ACCELERATION_LIMIT: A joint is at its maximum acceleration; in modes "scale" and "halt",
            also if a faster motion could not stop in time.
        SPEED_LIMIT: A joint is at its maximum speed.
        POSITION_LIMIT: A joint is at the end of its range, or brakes to stop there.
        ACCELERATION_EXCEEDED: A joint exceeds its maximum acceleration; otherwise it would have
            exceeded a limit of position or speed, or the bound on the norm.
        JERK_EXCEEDED: A joint exceeds its maximum jerk; otherwise it would have exceeded one of its
            other limits, or the bound on the norm.
        OUT_OF_REACH: More than 1 % of the command points beyond the end of the reach: the arm is
            stretched, or at another singularity (such as a straight wrist) where the joints lead no
            farther in the singular direction, or could not stop before it. In modes "scale" and
            "halt": the motion stops because J cannot perform the whole command. In mode "path" of
            `simulate`: it ends because the next target is not reached.
        DIRECTION_LOST: The direction of the command cannot be kept, although the mode, "scale" or
            "halt", should keep it: joints return from outside their limits, or were moved by
            something other than the `Servo`.
        HALTING: The motion slows down or halts before a singularity, in mode "halt".
        SPEED_EXCEEDED: A joint exceeds its maximum speed, which was lowered while it moved; it
            slows down as its limits on acceleration and jerk allow.
        NORM_EXCEEDED: The norm of all joint speeds exceeds its bound, which was lowered in motion.
        CONSTRAINT_LIMIT: A constraint of the `Servo` holds the step back.
        CONSTRAINT_EXCEEDED: A constraint is not met: the limits of the joints, or constraints
            before it, do not allow it.
        COLLISION_LIMIT: The step is changed to keep the clearance of the `Servo`'s world.
        COLLISION_EXCEEDED: Two shapes were closer than the clearance before the step, and are
            driven apart; or joints or obstacles have moved otherwise than foreseen, and the robot
            stops without a certificate.
        HELD_EXCEEDED: A held task is more than 1e-9 m or rad from where it should be: the limits of
            the joints, or other held tasks, do not allow more.
    """

    FOLLOWING = 0
    DAMPED = 1
    NORM_LIMIT = 2
    ACCELERATION_LIMIT = 4
    SPEED_LIMIT = 8
    POSITION_LIMIT = 16
    ACCELERATION_EXCEEDED = 32
    JERK_LIMIT = 64
    JERK_EXCEEDED = 128
    OUT_OF_REACH = 256
    DIRECTION_LOST = 512
    HALTING = 1024
    SPEED_EXCEEDED = 2048
    NORM_EXCEEDED = 4096
    CONSTRAINT_LIMIT = 8192
    CONSTRAINT_EXCEEDED = 16384
    COLLISION_LIMIT = 32768
    COLLISION_EXCEEDED = 65536
    HELD_EXCEEDED = 131072

    @property
    def sentence(self) -> str:
        """All causes in one sentence."""
        return " and ".join(_SENTENCES[cause] for cause in self) or _SENTENCES[StepStatus(0)]

    def __iter__(self) -> Iterator[StepStatus]:
        """Yield each flag that is set."""
        return (cause for cause in _CAUSES if cause & self)

    def __str__(self) -> str:
        names = [_NAMES[cause] for cause in self] or [_NAMES[StepStatus(0)]]
        return ", ".join(names)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


_SENTENCES = {
    StepStatus.FOLLOWING: "the robot follows the task as closely as it can",
    StepStatus.DAMPED: "part of the task is given up to keep joint speeds bounded",
    StepStatus.NORM_LIMIT: "the norm of all joint speeds is at its bound",
    StepStatus.ACCELERATION_LIMIT: "a joint is at its maximum acceleration",
    StepStatus.SPEED_LIMIT: "a joint is at its maximum speed",
    StepStatus.POSITION_LIMIT: "a joint is at, or brakes for, the end of its range",
    StepStatus.ACCELERATION_EXCEEDED: "a joint exceeds its maximum acceleration because it has to "
    "stop",
    StepStatus.JERK_LIMIT: "a joint is at its maximum jerk",
    StepStatus.JERK_EXCEEDED: "a joint exceeds its maximum jerk because it has to stop",
    StepStatus.OUT_OF_REACH: "part of the command is beyond the end of the reach",
    StepStatus.DIRECTION_LOST: "the direction of the command cannot be kept",
    StepStatus.HALTING: "the motion slows down or halts before a singularity",
    StepStatus.SPEED_EXCEEDED: "a joint slows down to its maximum speed",
    StepStatus.NORM_EXCEEDED: "the joints slow down to the bound on the norm of their speeds",
    StepStatus.CONSTRAINT_LIMIT: "a constraint holds the step back",
    StepStatus.CONSTRAINT_EXCEEDED: "a constraint cannot be met within the limits",
    StepStatus.COLLISION_LIMIT: "the robot keeps its clearance from an obstacle or from itself",
    StepStatus.COLLISION_EXCEEDED: "two shapes are closer than the clearance",
    StepStatus.HELD_EXCEEDED: "a held task cannot be held exactly",
}
_NAMES = {status: str(status.name).lower() for status in _SENTENCES}
_CAUSES = tuple(status for status in _SENTENCES if status)
# Plain integers, because NumPy converts flags a hundred times more slowly.
_DAMPED, _NORM, _ACCELERATION, _SPEED, _POSITION, _EXCEEDED, _JERK, _JERK_EXCEEDED = map(
    np.int32, map(int, _CAUSES[:8])
)


def statuses_of(
    limits: Limits,
    bound: float,
    dt: float,
    *,
    q: Array,
    before: Array,
    change: Array,
    qd: Array,
    active: Array,
    damped: NDArray[np.bool_],
    limited: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """Return the statuses (K,) of K steps of the same length, as the values of `StepStatus`.

    Args:
        limits: The limits of the joints.
        bound: Bound on the norm of all speeds.
        dt: Length of the steps [s].
        q: Positions at the beginning of each step (K, n).
        before: Speeds before each step (K, n).
        change: Change of the speeds in the previous step, for each step (K, n).
        qd: Speeds in each step (K, n).
        active: The limit that acts on each joint (K, n): -1 for a lower limit, 1 for an upper,
            else 0.
        damped: Mask (K,) of the steps in which the damping rule acts.
        limited: Mask (K,) of the steps that limits, or the bound, changed.
    """
    at_bound = np.sqrt((qd * qd).sum(axis=1)) >= bound * NEARLY
    exceeds = limits.exceeded(before, qd, dt) > EXCEEDS
    ends = _held_ends(before, active, exceeds)
    at_norm = limited & (at_bound | ~active.any(axis=1)) & np.isfinite(bound)
    jerks = jerk_exceeded(limits, before, change, qd, dt).any(axis=1)
    status = np.bitwise_or.reduce(limits_acting(limits, q, before, change, ends, dt), axis=1)
    status |= _DAMPED * damped | _NORM * at_norm | _EXCEEDED * exceeds.any(axis=1)
    status |= _JERK_EXCEEDED * jerks
    return np.asarray(status)


def _held_ends(before: Array, active: Array, exceeds: NDArray[np.bool_]) -> Array:
    """Return which limit holds each joint: 1 for an upper limit, -1 for a lower one, else 0.

    A joint that exceeds its acceleration limit is held by the limit ahead of it.
    """
    return np.where(exceeds & (active != 0), np.where(before > 0, 1, -1), active)


def jerk_exceeded(
    limits: Limits, before: Array, change: Array, qd: Array, dt: float
) -> NDArray[np.bool_]:
    """Return a mask (..., n) of the joints that exceed their jerk limits by more than rounding.

    Arguments are those of `statuses_of`.
    """
    most = limits.max_jerk * dt * dt
    rounding = 8 * np.finfo(np.float64).eps * (np.abs(before) + np.abs(qd))
    return np.asarray(np.abs(qd - before - change) > most * EXCEEDS + rounding)


def limits_acting(
    limits: Limits, q: Array, before: Array, change: Array, active: Array, dt: float
) -> NDArray[np.int32]:
    """Return which limit holds each joint (..., n): a value of `StepStatus`, 0 where none does.

    Args:
        limits: The limits of the joints.
        q: Positions at the beginning of the step (..., n).
        before: Speeds in the previous step (..., n).
        change: Change of the speeds in that step (..., n).
        active: The limit that acts on each joint (..., n): -1 for a lower limit, 1 for an upper,
            else 0.
        dt: Length of the step [s].
    """
    kinds = np.zeros(q.shape, dtype=np.int32)
    held = np.nonzero(active)
    if not len(held[0]):
        return kinds
    q, before, change, end = q[held], before[held], change[held], active[held]
    joints = held[-1]
    lower, upper, speed, acceleration, jerk = (
        getattr(limits, name)[joints]
        for name in ("lower", "upper", "max_speed", "max_acceleration", "max_jerk")
    )
    low, high = boxes_of_joints(limits, joints, q, before, dt, change)
    fastest = np.where(end > 0, high, -low)
    more = fastest - end * before
    inside = (lower <= q) & (q <= upper)
    kinds[held] = np.select(
        [
            inside & (fastest >= speed * NEARLY),
            inside & (more >= acceleration * dt * NEARLY),
            inside & (more - end * change >= jerk * dt * dt * NEARLY),
            # a joint that reduces its acceleration as it approaches its speed limit
            inside & np.isfinite(jerk) & _approaches(limits, joints, q, before, change, end, dt),
        ],
        [_SPEED, _ACCELERATION, _JERK, _SPEED],
        _POSITION,
    )
    return kinds


def _approaches(
    limits: Limits,
    joints: NDArray[np.intp],
    q: Array,
    before: Array,
    change: Array,
    end: Array,
    dt: float,
) -> NDArray[np.bool_]:
    """Return a mask (K,) of the joints whose bounds would be the same without position limits."""
    free = np.full(len(limits.lower), np.inf)
    unbounded = replace(limits, lower=-free, upper=free)
    with_ends, without = (
        boxes_of_joints(each, joints, q, before, dt, change) for each in (limits, unbounded)
    )
    same = [
        np.abs(a - b) <= (1 - NEARLY) * np.abs(b) for a, b in zip(with_ends, without, strict=True)
    ]
    return np.where(end > 0, same[1], same[0])


_LIMIT_NAMES: dict[int, Literal["position", "speed", "acceleration", "jerk"]] = {
    StepStatus.POSITION_LIMIT: "position",
    StepStatus.SPEED_LIMIT: "speed",
    StepStatus.ACCELERATION_LIMIT: "acceleration",
    StepStatus.JERK_LIMIT: "jerk",
}


def held_joints(
    limits: Limits,
    names: Sequence[str],
    before: Array,
    active: Array,
    flags: Sequence[int],
    exceeded: Array,
) -> tuple[Held, ...]:
    """Return the joints that are held by a limit, and the limit that holds each.

    Args:
        limits: The limits of the joints.
        names: Names of the joints.
        before: Speeds before the step (n,).
        active: The limit that acts on each joint (n,): -1 for a lower limit, 1 for an upper, else
            0.
        flags: The limits that act on each joint (n,), as values of `StepStatus`.
        exceeded: Ratio of each joint's acceleration to its limit (n,).
    """
    held, ends = [], _held_ends(before, active, exceeded > EXCEEDS)
    for j in np.flatnonzero(ends).tolist():
        which = next((name for kind, name in _LIMIT_NAMES.items() if kind & int(flags[j])), None)
        if which is None:  # held by the bound on the norm
            continue
        upper = int(ends[j])
        values = {
            "position": (limits.upper if upper > 0 else limits.lower)[j],
            "speed": upper * limits.max_speed[j],
            "acceleration": upper * limits.max_acceleration[j],
            "jerk": upper * limits.max_jerk[j],
        }
        excess = float(exceeded[j]) if exceeded[j] > EXCEEDS else 1.0
        held.append(Held(names[j], which, upper, float(values[which]), excess))
    return tuple(held)
