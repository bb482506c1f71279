"""Constraints of a `Servo`: rows G q̇ >= h that hold in each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from supple._core import RowState
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.motion.linearization import Array
from supple.motion.readable import readable
from supple.redundancy.constraint import Constraint

_HELD, _GIVEN_UP = RowState.HELD.value, RowState.GIVEN_UP.value


def check_constraints(constraints: object) -> tuple[Constraint, ...]:
    """Return constraints as a tuple after checking that each has a method `rows`."""
    if constraints is None:
        return ()
    if not isinstance(constraints, Sequence) or isinstance(constraints, str):
        raise InputError(
            "constraints must be a sequence of objects with a method rows(robot, q); "
            f"given: {short_repr(constraints)}"
        )
    for one in constraints:
        if isinstance(one, type) or not callable(getattr(one, "rows", None)):
            raise InputError(
                "a constraint must be an object with a method rows(robot, q) that returns G (k, n) "
                f"and h (k,); given: {short_repr(one)}"
            )
    return tuple(constraints)


def rows_of(constraints: Sequence[Constraint], robot: Robot) -> Callable[[Array], Array] | None:
    """Return the function from q (n,) to all rows [G, h, index of the constraint] (k, n + 2).

    None without constraints.
    """
    if not constraints:
        return None

    def rows(q: Array) -> Array:
        n = robot.dof
        parts = [_checked(one, one.rows(robot, q.copy()), n) for one in constraints]
        made, end = np.empty((sum(len(h) for _, h in parts), n + 2)), 0
        for index, (G, h) in enumerate(parts):
            begin, end = end, end + len(h)
            made[begin:end, :n], made[begin:end, n], made[begin:end, n + 1] = G, h, index
        return made

    return rows


def _checked(constraint: Constraint, given: Any, n: int) -> tuple[Array, Array]:
    """Return G (k, n) and h (k,) that a constraint returned, after checking them."""

    def error(expected: str, found: str) -> InputError:
        what = f"rows(robot, q) of the constraint {_name(constraint)} must return {expected}"
        return InputError(f"{what}; given: {found}")

    try:
        first, second = given
        G, h = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"two arrays, G (k, {n}) and h (k,)", short_repr(given)) from None
    if G.ndim != 2 or G.shape[1] != n or h.shape != (len(G),):
        raise error(f"G of shape (k, {n}) and h of shape (k,)", f"{G.shape} and {h.shape}")
    if not np.isfinite(G).all():
        raise error("a finite G", short_repr(G))
    if not (h < np.inf).all():
        raise error("an h without NaN and +inf", short_repr(h))
    return G, h


def _name(constraint: Constraint) -> str:
    return readable(constraint)


def acting(constraints: Sequence[Constraint], rows: Array, qd: Array) -> tuple[str, ...]:
    """Return sentences about the constraints that acted on a step, in their order.

    Args:
        constraints: All constraints.
        rows: The rows of the step, [G, h, index of the constraint, state] (k, n + 3).
        qd: The joint speeds of the step (n,).
    """
    n, said = len(qd), []
    for index, one in enumerate(constraints):
        mine = rows[rows[:, n + 1] == index]
        missed = mine[mine[:, n + 2] == _GIVEN_UP]
        if len(missed):
            short = float((missed[:, n] - missed[:, :n] @ qd).max())
            said.append(f"{_name(one)} cannot be met: a row is short of its bound by {short:.3g}")
        elif (mine[:, n + 2] == _HELD).any():
            said.append(f"{_name(one)} holds the step back")
    return tuple(said)
