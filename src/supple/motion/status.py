"""Statuses of steps: the damping and limits that acted, in words that an operator understands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntFlag
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.motion.diagnostics import Held
from supple.motion.limits import Limits
from supple.motion.linearization import Array

EXCEEDS = 1 + 1e-9  # ratio to its limit above which an acceleration exceeds it, despite rounding
NEARLY = 1 - 1e-9  # ratio to its limit above which a value is at the limit, despite rounding


class StepStatus(IntFlag):
    """The damping and limits that acted on a step, as flags; FOLLOWING (0) if none did.

        if StepStatus.SPEED_LIMIT in servo.status: ...       one cause
        for cause in servo.status: print(cause.sentence)     all of them
        (motion.status & StepStatus.DAMPED) != 0             the steps of a motion

    A status prints as words. It does not contain the error of a task.

    Attributes:
        FOLLOWING: Neither damping nor a limit acted, and the step performs as much of the task as
            any joint motion can.
        DAMPED: The step gave up part of the task to bound the joint speeds: by damping, λ² > 0, by
            truncation, or by a clamp.
        NORM_LIMIT: The norm of all joint speeds is at its bound.
        ACCELERATION_LIMIT: A joint is at its maximum acceleration.
        SPEED_LIMIT: A joint is at its maximum speed.
        POSITION_LIMIT: A joint is at the end of its range, or brakes to stop there.
        ACCELERATION_EXCEEDED: A joint exceeds its maximum acceleration, because otherwise it would
            exceed a limit on position or speed, or the bound on the norm.
    """

    FOLLOWING = 0
    DAMPED = 1
    NORM_LIMIT = 2
    ACCELERATION_LIMIT = 4
    SPEED_LIMIT = 8
    POSITION_LIMIT = 16
    ACCELERATION_EXCEEDED = 32

    @property
    def sentence(self) -> str:
        """The causes in a sentence."""
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
}
_NAMES = {status: str(status.name).lower() for status in _SENTENCES}
_CAUSES = tuple(status for status in _SENTENCES if status)
# Plain integers, because NumPy converts flags a hundred times more slowly.
_DAMPED, _NORM, _ACCELERATION, _SPEED, _POSITION, _EXCEEDED = map(np.int8, map(int, _CAUSES))


def statuses_of(
    limits: Limits,
    bound: float,
    dt: float,
    *,
    q: Array,
    before: Array,
    qd: Array,
    active: Array,
    damped: NDArray[np.bool_],
    limited: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """Return the statuses (K,) of K steps of the same length, as the values of `StepStatus`.

    Args:
        limits: The limits of the joints.
        bound: Bound on the norm of all speeds.
        dt: Length of the steps [s].
        q: Positions at the beginning of each step (K, n).
        before: Speeds before each step (K, n).
        qd: Speeds in each step (K, n).
        active: The limit at which each joint is (K, n): -1 for the lower, 1 for the upper, else 0.
        damped: Whether the damping rule acts in each step (K,).
        limited: Whether limits, or the bound, changed each step (K,).
    """
    at_bound = np.sqrt((qd * qd).sum(axis=1)) >= bound * NEARLY
    exceeds = limits.exceeded(before, qd, dt) > EXCEEDS
    ends = _held_ends(before, active, exceeds)
    at_norm = limited & (at_bound | ~active.any(axis=1))
    status = np.bitwise_or.reduce(limits_acting(limits, q, before, ends, dt), axis=1)
    status |= _DAMPED * damped | _NORM * at_norm | _EXCEEDED * exceeds.any(axis=1)
    return np.asarray(status)


def _held_ends(before: Array, active: Array, exceeds: NDArray[np.bool_]) -> Array:
    """Return the ends that hold the joints; a joint that is too fast is held at the end ahead."""
    return np.where(exceeds & (active != 0), np.where(before > 0, 1, -1), active)


def limits_acting(
    limits: Limits, q: Array, before: Array, active: Array, dt: float
) -> NDArray[np.int8]:
    """Return the limit that holds each joint (..., n) as a value of `StepStatus`; 0 for none.

    Args:
        limits: The limits of the joints.
        q: Positions at the beginning of the step (..., n).
        before: Speeds in the previous step (..., n).
        active: The limit at which each joint is (..., n): -1 for the lower, 1 for the upper, else
            0.
        dt: Length of the step [s].
    """
    kinds = np.zeros(q.shape, dtype=np.int8)
    held = np.nonzero(active)
    if not len(held[0]):
        return kinds
    q, before, end = q[held], before[held], active[held]
    lower, upper, speed, acceleration = (
        bound[held[-1]]
        for bound in (limits.lower, limits.upper, limits.max_speed, limits.max_acceleration)
    )
    low, high = _core.joint_box(
        lower=lower,
        upper=upper,
        max_speed=speed,
        max_acceleration=acceleration,
        q=q,
        qd=before,
        dt=dt,
    )
    fastest = np.where(end > 0, high, -low)
    inside = (lower <= q) & (q <= upper)
    at_speed = fastest >= speed * NEARLY
    at_acceleration = fastest - end * before >= acceleration * dt * NEARLY
    kinds[held] = np.where(
        inside & at_speed, _SPEED, np.where(inside & at_acceleration, _ACCELERATION, _POSITION)
    )
    return kinds


_LIMIT_NAMES: dict[int, Literal["position", "speed", "acceleration"]] = {
    StepStatus.POSITION_LIMIT: "position",
    StepStatus.SPEED_LIMIT: "speed",
    StepStatus.ACCELERATION_LIMIT: "acceleration",
}


def held_joints(
    limits: Limits,
    names: Sequence[str],
    q: Array,
    before: Array,
    active: Array,
    exceeded: Array,
    dt: float,
) -> tuple[Held, ...]:
    """Return the joints at an end of their limits, and the limit that holds each.

    Arguments are those of `limits_acting` (n,), the names of the joints, and `Limits.exceeded`.
    """
    end = _held_ends(before, active, exceeded > EXCEEDS)
    kinds = limits_acting(limits, q, before, end, dt)
    held = []
    for j in np.flatnonzero(end).tolist():
        which, upper = _LIMIT_NAMES[int(kinds[j])], int(end[j])
        values = {
            "position": (limits.upper if upper > 0 else limits.lower)[j],
            "speed": upper * limits.max_speed[j],
            "acceleration": upper * limits.max_acceleration[j],
        }
        excess = float(exceeded[j]) if exceeded[j] > EXCEEDS else 1.0
        held.append(Held(names[j], which, upper, float(values[which]), excess))
    return tuple(held)
