"""Costs by which `solve` chooses among several solutions of a target: the smallest is best."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from supple.errors import InputError, short_repr, unknown_name_error
from supple.ik.problem import CompiledProblem
from supple.ik.seeds import seed_sequence
from supple.kinematics import Robot
from supple.kinematics.configuration import (
    coordinate_difference,
    difference,
    from_kernel,
    twice_from_middle,
)
from supple.motion.linearization import Array

Objective: TypeAlias = Callable[[Array], float]
Preference: TypeAlias = (
    Literal["comfortable", "fast", "nearest", "manipulability", "limits"] | Objective
)

NAMES = ("comfortable", "fast", "nearest", "manipulability", "limits")
FIRST_FOUND = ("comfortable", "fast", "nearest")  # the search itself applies these preferences


def check_preference(prefer: object, seeded: bool) -> None:
    """Raise an error if `prefer` is not valid.

    Raises:
        UnknownNameError: `prefer` is an unknown name.
        InputError: `prefer` is neither a name nor a function, or is "nearest" without q0.
    """
    if not isinstance(prefer, str):
        if callable(prefer):
            return
        raise InputError(f"prefer must be a name or a function of q; given: {short_repr(prefer)}")
    if prefer not in NAMES:
        raise unknown_name_error("preference", prefer, NAMES)
    if prefer == "nearest" and not seeded:
        raise InputError('prefer="nearest" needs q0; given: none')


def costs(prefer: Preference, problem: CompiledProblem, q: Array, q0: Array | None) -> Array:
    """Return the costs (B,) of configurations (B, n); q0 is (n,) or (B, n).

    All are in the kernel's coordinates. For "fast", the costs are those of "limits".
    """
    robot = problem.layout.robot
    if prefer == "comfortable":
        return discomfort(robot, q)
    if prefer == "nearest" and q0 is not None:
        away = difference(robot, from_kernel(robot, q), from_kernel(robot, q0))
        return np.asarray(np.abs(away).max(axis=-1))
    if prefer == "manipulability":
        J = (
            problem.layout.jacobian(from_kernel(robot, q))[..., : problem.primary, :]
            * problem.units
        )
        return np.asarray(-np.linalg.svd(J, compute_uv=False).prod(axis=-1))
    if callable(prefer):
        return np.array([_evaluated(prefer, one) for one in from_kernel(robot, q)])
    return _limit_proximity(robot, q)


def _limit_proximity(robot: Robot, q: Array) -> Array:
    """Return the largest distance of a joint from the middle of its range (...).

    Distances are relative to half the range: 0 in the middle, 1 at a limit.
    """
    bounded = np.isfinite(robot.lower) & np.isfinite(robot.upper) & (robot.upper > robot.lower)
    if not bounded.any():
        return np.zeros(q.shape[:-1])
    low, high = robot.lower[bounded], robot.upper[bounded]
    away = np.abs(twice_from_middle(q[..., bounded], low, high))
    return np.asarray((away / (high - low)).max(axis=-1))


def discomfort(robot: Robot, q: Array) -> Array:
    """Return the mean squared distance of the joints from the middle of their ranges (...).

    Distances are relative to half the range: 0 in the middle, 1 at a limit. For a joint that can
    turn by more than a full turn, the range is replaced by the full turn in its middle. Joints
    without limits do not count.
    """
    seed_lower, seed_range, _ = seed_sequence(robot)
    moves = (seed_range > 0) & (np.isfinite(robot.lower) | np.isfinite(robot.upper))
    if not moves.any():
        return np.zeros(q.shape[:-1])
    width = seed_range[moves]
    x = (2 * coordinate_difference(q, seed_lower)[..., moves] - width) / width
    return np.asarray((x**2).mean(axis=-1))


def _evaluated(prefer: Objective, q: Array) -> float:
    """Return the cost of a configuration, evaluated by the caller's function."""
    value = prefer(q.copy())
    try:
        cost = float(value)
    except (TypeError, ValueError):
        cost = math.nan
    if math.isnan(cost):
        raise InputError(
            f"prefer must return a number; given: {short_repr(value)} from {short_repr(prefer)}"
        )
    return cost
