"""Which of several configurations that meet a target is the best: costs, the less the better."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from supple.errors import InputError, short_repr, unknown_name_error
from supple.ik.problem import Search
from supple.kinematics import Robot
from supple.motion.linearization import Array

Own: TypeAlias = Callable[[Array], float]
Preference: TypeAlias = Literal["fast", "nearest", "manipulability", "limits"] | Own

NAMES = ("fast", "nearest", "manipulability", "limits")


def checked(prefer: object, started: bool) -> None:
    """Refuse what is no preference.

    Raises:
        UnknownNameError: a name that does not exist.
        InputError: neither a name nor a function, or "nearest" to nothing.
    """
    if not isinstance(prefer, str):
        if callable(prefer):
            return
        raise InputError(f"prefer must be a name or a function of q; given: {short_repr(prefer)}")
    if prefer not in NAMES:
        raise unknown_name_error("preference", prefer, NAMES)
    if prefer == "nearest" and not started:
        raise InputError('prefer="nearest" needs q0, which it is nearest to; given: none')


def costs(prefer: Preference, search: Search, q: Array, q0: Array | None) -> Array:
    """The costs (B,) of configurations (B, n); q0 is (n,) or (B, n)."""
    if prefer == "nearest" and q0 is not None:
        return np.asarray(np.abs(q - q0).max(axis=-1))
    if prefer == "manipulability":
        J = search.layout.jacobian(q)[..., : search.primary, :]
        return np.asarray(-np.linalg.svd(J, compute_uv=False).prod(axis=-1))
    if prefer == "limits":
        return _nearness(search.layout.robot, q)
    if callable(prefer):
        return np.array([_own(prefer, one) for one in q])
    return np.zeros(q.shape[:-1])


def _nearness(robot: Robot, q: Array) -> Array:
    """How near the nearest limit is (...): 0 in the middle of all, 1 at a limit."""
    bounded = np.isfinite(robot.lower) & np.isfinite(robot.upper) & (robot.upper > robot.lower)
    if not bounded.any():
        return np.zeros(q.shape[:-1])
    low, high = robot.lower[bounded], robot.upper[bounded]
    return np.asarray((np.abs(2 * q[..., bounded] - low - high) / (high - low)).max(axis=-1))


def _own(prefer: Own, q: Array) -> float:
    value = prefer(q.copy())
    try:
        cost = float(value)
    except (TypeError, ValueError):
        cost = math.nan
    if math.isnan(cost):
        raise InputError(
            f"prefer must return a number; given: {short_repr(value)} by {short_repr(prefer)}"
        )
    return cost
