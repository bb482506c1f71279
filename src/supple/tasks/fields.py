"""Checks of the fields of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import names_of
from supple.errors import InputError, short_repr, unknown_name_error
from supple.motion.linearization import Array, numbers_of
from supple.tasks.rows import TaskRows

Weight: TypeAlias = float | Sequence[float]
RowsT = TypeVar("RowsT", bound=TaskRows)


def set_fields(task: object, **values: object) -> None:
    """Assign fields of a frozen task, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(task, name, value)


def check_frames(task: object, *fields: str) -> None:
    """Raise an error if a field is neither the name of a frame nor None."""
    for field in fields:
        given = getattr(task, field)
        if not isinstance(given, str | None):
            what = f"{type(task).__name__}: {field} must be the name of a frame, or None"
            raise InputError(f"{what}; given: {short_repr(given)}")


def checked_rows(
    task: object, rows: Sequence[str] | None, known: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of rows after checking them; all `known` rows if None."""
    names = known if rows is None else names_of(rows, f"{type(task).__name__}: rows")
    for name in names:
        if name not in known:
            raise unknown_name_error(f"row of a {type(task).__name__}", name, known)
    if len(set(names)) < len(names):
        raise InputError(f"{type(task).__name__}: rows must differ; given: {names}")
    return names


def checked_weight(task: object, weight: ArrayLike, count: int | None) -> Weight:
    """Return a weight after checking it: one or `count` positive numbers (any count if None)."""
    name = f"{type(task).__name__}: weight"
    w = numbers_of(weight, name)
    fits = w.ndim == 0 or (w.ndim == 1 and len(w) > 0 and count in (None, len(w)))
    if not fits or (w <= 0).any():
        many = f"{count} such numbers" if count else "a sequence of such numbers"
        raise InputError(f"{name} must be a number above 0 or {many}; given: {short_repr(weight)}")
    return float(w) if w.ndim == 0 else tuple(w.tolist())


def weights_of(weight: Weight, count: int) -> tuple[float, ...]:
    """Return one weight for each of `count` rows."""
    return tuple(weight) if isinstance(weight, Sequence) else (weight,) * count


def within(rows: RowsT, ranges: Sequence[tuple[float, float] | None]) -> RowsT:
    """Return rows with allowed ranges; each entry of `ranges` is (lower, upper) or None.

    `ranges` limit the current value minus the target. e has the opposite sign, so the ends
    are exchanged and negated.
    """
    if not any(ranges):
        return rows
    ends = [(0.0, 0.0) if one is None else (-one[1], -one[0]) for one in ranges]
    lower, upper = zip(*ends, strict=True)
    return replace(rows, lower=lower, upper=upper)


def unit(v: Array, name: str, given: object) -> Array:
    """Normalize vectors (..., 3), or raise an error if one is zero."""
    largest = np.abs(v).max(axis=-1, keepdims=True)
    if not largest.all():
        raise InputError(f"{name} must be a nonzero direction; given: {short_repr(given)}")
    scaled = v / largest  # squares of scaled entries neither overflow nor vanish
    return np.asarray(scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))
