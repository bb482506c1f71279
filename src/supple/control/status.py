"""Statuses: what happened in a step, in words that an operator understands."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.motion.diagnostics import Held
from supple.motion.limits import Limits
from supple.motion.linearization import Array

EXCEEDS = 1 + 1e-9  # times its limit: an acceleration above that exceeds it by more than rounding
NEARLY = 1 - 1e-9  # times a limit: as near as rounding lets a step come


class Status(IntEnum):
    """A status that prints as a word; `sentence` explains it. Arrays hold its integer values."""

    @property
    def sentence(self) -> str:
        """The status in a sentence."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class StepStatus(Status):
    """What acted on a step of `Servo` or `track`.

    If several apply, a step has the one with the largest value; `Servo.explain().held` names every
    joint at a limit. The status does not say how far a task is from its target: errors do.

    Attributes:
        FOLLOWING: Neither damping nor a limit acted, and the step performs all of the task that
            joint motion can.
        DAMPED: The damping is above 0, the bound on the norm of all speeds acted, or the step
            performs less of the task than it could.
        ACCELERATION_LIMIT: A joint is at its maximum acceleration.
        SPEED_LIMIT: A joint is at its maximum speed.
        POSITION_LIMIT: A joint is at the end of its range, or brakes to stop there.
        ACCELERATION_EXCEEDED: A joint exceeds its maximum acceleration; otherwise it would have
            exceeded a limit of position or speed, or the bound on the norm.
    """

    FOLLOWING = 0
    DAMPED = 1
    ACCELERATION_LIMIT = 2
    SPEED_LIMIT = 3
    POSITION_LIMIT = 4
    ACCELERATION_EXCEEDED = 5

    @property
    def sentence(self) -> str:
        """The status in a sentence."""
        return _SENTENCES[self]


_SENTENCES = {
    StepStatus.FOLLOWING: "the robot follows the task as closely as it can",
    StepStatus.DAMPED: "part of the task is given up to keep joint speeds bounded",
    StepStatus.ACCELERATION_LIMIT: "a joint is at its maximum acceleration",
    StepStatus.SPEED_LIMIT: "a joint is at its maximum speed",
    StepStatus.POSITION_LIMIT: "a joint is at, or brakes for, the end of its range",
    StepStatus.ACCELERATION_EXCEEDED: "a joint exceeds its maximum acceleration because it has to "
    "stop",
}


def limits_acting(
    limits: Limits, q: Array, before: Array, active: Array, dt: float
) -> NDArray[np.int8]:
    """Return which limit holds each joint (..., n): a value of `StepStatus`, 0 where none does.

    Args:
        limits: The limits of the joints.
        q: Positions at the beginning of the step (..., n).
        before: Speeds in the step before (..., n).
        active: The end of its limits at which each joint is (..., n): -1, 0 or 1.
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
    kinds[held] = np.select(
        [inside & at_speed, inside & at_acceleration],
        [StepStatus.SPEED_LIMIT, StepStatus.ACCELERATION_LIMIT],
        StepStatus.POSITION_LIMIT,
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
    # A joint that is too fast is held at the end that it moves to.
    moves = np.where(exceeded > EXCEEDS, before, active)
    end = np.where(active != 0, np.where(moves > 0, 1, -1), 0)
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
