"""Compute the statuses of many steps at once, and which limit holds each joint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from supple._core import AT_LIMIT_RATIO, EXCEEDED_RATIO
from supple.control.diagnostics import Held
from supple.motion.limits import Limits, boxes_of_joints
from supple.motion.linearization import Array
from supple.motion.status import CAUSES, StepStatus

# Plain integers, because NumPy converts flags a hundred times more slowly.
_DAMPED, _NORM, _ACCELERATION, _SPEED, _POSITION, _EXCEEDED, _JERK, _JERK_EXCEEDED = map(
    np.int32, map(int, CAUSES[:8])
)


def statuses_of(
    limits: Limits,
    max_norm: float,
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
        max_norm: Bound on the norm of all speeds.
        dt: Length of the steps [s].
        q: Positions at the beginning of each step (K, n).
        before: Speeds in the previous step, for each step (K, n).
        change: Change of the speeds in the previous step, for each step (K, n).
        qd: Speeds in each step (K, n).
        active: The limit that acts on each joint (K, n): -1 for a lower limit, 1 for an upper,
            else 0.
        damped: Mask (K,) of the steps in which the damping rule acts.
        limited: Mask (K,) of the steps that limits, or the bound on the norm, changed.
    """
    at_max_norm = np.sqrt((qd * qd).sum(axis=1)) >= max_norm * AT_LIMIT_RATIO
    exceeds = limits.exceeded(before, qd, dt) > EXCEEDED_RATIO
    ends = _held_ends(before, active, exceeds)
    at_norm = limited & (at_max_norm | ~active.any(axis=1)) & np.isfinite(max_norm)
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
    return np.asarray(np.abs(qd - before - change) > most * EXCEEDED_RATIO + rounding)


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
            inside & (fastest >= speed * AT_LIMIT_RATIO),
            inside & (more >= acceleration * dt * AT_LIMIT_RATIO),
            inside & (more - end * change >= jerk * dt * dt * AT_LIMIT_RATIO),
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
        np.abs(a - b) <= (1 - AT_LIMIT_RATIO) * np.abs(b)
        for a, b in zip(with_ends, without, strict=True)
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
    held, ends = [], _held_ends(before, active, exceeded > EXCEEDED_RATIO)
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
        excess = float(exceeded[j]) if exceeded[j] > EXCEEDED_RATIO else 1.0
        held.append(Held(names[j], which, upper, float(values[which]), excess))
    return tuple(held)
