"""Allowed ranges of task rows, within which a frame or a joint may differ from its target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from supple.errors import InputError, short_repr, unknown_name_error

Range: TypeAlias = float | tuple[float, float]
Tolerance: TypeAlias = Range | Mapping[str, Range]
Ranges: TypeAlias = tuple[tuple[str, tuple[float, float]], ...]  # pairs (row, (lower, upper))


def ranges_of(
    given: Tolerance | Ranges | None, rows: Sequence[str], name: str, *, single: bool
) -> Ranges | None:
    """Return the allowed ranges of the named rows as pairs (row, (lower, upper)), or None.

    Args:
        given: A range for all rows, or a mapping from the names of rows to ranges. A range is a
            pair (lower, upper), or one number for ±number.
        rows: Names of the rows.
        name: Name of the argument, for messages.
        single: Whether one range may be given for all rows, because they share a unit.

    Raises:
        UnknownNameError: The task has no row of a given name.
        InputError: A value is not a range, a range is empty, or one range is given for rows of
            different units.
    """
    if given is None:
        return None
    if isinstance(given, tuple) and given and all(isinstance(one, tuple) for one in given):
        given = dict(given)  # type: ignore[arg-type]  # ranges that are already converted
    if not isinstance(given, Mapping):
        if not single:
            raise InputError(
                f"{name} must name its rows, which are in meters and radians, as in "
                f"{{'x': 0.01}}; given: {short_repr(given)}"
            )
        given = dict.fromkeys(rows, given)  # type: ignore[arg-type]
    for row in given:
        if row not in rows:
            raise unknown_name_error(f"row in {name}", row, rows)
    read = [(row, _ends(given[row], f"{name} of {row!r}")) for row in rows if row in given]
    return tuple(read) or None


def _ends(given: object, name: str) -> tuple[float, float]:
    """Return the lower and the upper end of a range after checking it."""
    ends = given if isinstance(given, Sequence) and not isinstance(given, str) else None
    try:
        if ends is None:
            upper = float(given)  # type: ignore[arg-type]
            lower = -upper
        else:
            lower, upper = (float(end) for end in ends)
    except (TypeError, ValueError):
        lower, upper = math.nan, math.nan
    if not lower < upper:
        raise InputError(
            f"{name} must be a number above 0, or a pair (lower, upper) with lower < upper; "
            f"given: {short_repr(given)}"
        )
    return lower, upper


def is_free(ends: tuple[float, float]) -> bool:
    """Return whether a range is unbounded on both sides."""
    return ends == (-math.inf, math.inf)


def cone_of(given: float | None, name: str) -> float | None:
    """Return the half-angle of a cone [rad] after checking it; None if there is none."""
    if given is None:
        return None
    try:
        angle = float(given)
    except (TypeError, ValueError):
        angle = math.nan
    if not 0 < angle < math.pi:
        raise InputError(
            f"{name} must be an angle above 0 and below pi [rad]; given: {short_repr(given)}"
        )
    return angle
