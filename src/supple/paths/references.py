"""References for `simulate`: constants, arrays or functions of time, sampled at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import as_doubles, number, real_numbers
from supple._arrays.types import TargetLike
from supple.control.arguments import step_length
from supple.errors import InputError, short_repr
from supple.motion.linearization import Array
from supple.tasks import Task
from supple.tasks.inputs import per_task
from supple.tasks.layout import CompiledTasks

_MAX_STEPS = 10_000_000

# A target or velocity over time: a function of time, a value for each time, or a constant value.
Reference: TypeAlias = (
    Callable[[float], TargetLike | None] | Sequence[TargetLike | None] | TargetLike | None
)


class Commands(NamedTuple):
    """The references of K steps, in the kernel's layout; None if not given.

    Attributes:
        t: Times (K + 1,), increasing [s].
        targets: Targets at these times (K + 1, k).
        velocities: Velocities in the steps (K, k).
        accelerations: Accelerations in the steps (K, k).
    """

    t: Array
    targets: Array | None
    velocities: Array | None
    accelerations: Array | None


def sample(
    layout: CompiledTasks,
    single: bool,
    references: dict[str, Reference],
    *,
    dt: float | None,
    times: ArrayLike | None,
    duration: float | None,
    feedforward: bool,
) -> Commands:
    """Sample references at the times of the steps.

    Args:
        layout: The tasks.
        single: Whether there is one task, whose reference is not wrapped in a sequence.
        references: References by name: "target", "velocity" and "acceleration".
        dt: Length of a step [s].
        times: Times (K + 1,) [s] instead of dt.
        duration: Duration of the motion [s].
        feedforward: Whether missing velocities are derived from the differences of the targets.

    Raises:
        InputError: There is no reference, references differ in length, or times do not increase.
    """
    if all(reference is None for reference in references.values()):
        raise InputError("simulate needs a target, a velocity or an acceleration; given: none")
    given = dict(references)
    for name, reference in references.items():
        if single and _is_constant(reference, name, layout.tasks[0]):
            given[name] = _constant(reference)
        elif reference is not None and not callable(reference):
            given[name] = _as_list(reference, name)
    t = _times(dt, times, duration, given)
    steps = len(t) - 1
    targets = _sampled(given["target"], t, steps + 1, "target", layout, single)
    velocities = _sampled(given["velocity"], t, steps, "velocity", layout, single)
    accelerations = _sampled(given["acceleration"], t, steps, "acceleration", layout, single)
    if targets is not None and velocities is None and feedforward:
        velocities = layout.differences(targets[:-1], targets[1:]) / np.diff(t)[:, None]
    return Commands(t, targets, velocities, accelerations)


def _times(
    dt: float | None,
    times: ArrayLike | None,
    duration: float | None,
    references: dict[str, Reference],
) -> Array:
    """Return the increasing times (K + 1,) [s] of K steps, from the arguments that are given."""
    if times is not None:
        if dt is not None or duration is not None:
            other = "duration" if dt is None else "dt"
            raise InputError(
                f"times must be given without dt and duration; given: times and {other}"
            )
        expected = "times must be (K + 1,), finite and increasing"
        t = as_doubles(real_numbers(times, expected))
        if t.ndim != 1 or len(t) < 2 or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
            raise InputError(f"{expected}; given: {short_repr(times)}")
        return t
    each = step_length(dt, "dt (or times instead)")
    if duration is not None:
        whole = number(duration, f"duration (at most {_MAX_STEPS} steps)", least=each)
        number(whole / each, "duration / dt", most=_MAX_STEPS)
        return each * np.arange(round(whole / each) + 1, dtype=np.float64)
    for name, reference in references.items():
        if reference is not None and not callable(reference):
            count = len(reference) + (name != "target")  # type: ignore[arg-type]
            if count < 2:
                raise InputError(
                    f"{name} must have {1 + (name == 'target')} or more entries; "
                    f"given: {short_repr(reference)}"
                )
            return each * np.arange(count, dtype=np.float64)
    raise InputError("functions of time need a duration, or times; given: neither")


def _is_constant(reference: Reference, name: str, task: Task) -> bool:
    """Return whether a reference of one task is the same at all times: it has no time axis."""
    shapes = task.target_shapes if name == "target" else ()
    axes = len(shapes[0]) if shapes else 1
    try:
        return not callable(reference) and np.ndim(reference) == axes  # type: ignore[arg-type]
    except Exception:  # lists of different lengths, or raised by the object's own conversion
        return False


def _constant(value: Reference) -> Callable[[float], Any]:
    return lambda time: value


def _as_list(reference: Any, name: str) -> list[Any]:
    """Return the entries of a sequence or an array as a list."""
    try:
        if not hasattr(reference, "__len__"):
            raise TypeError
        return list(reference)
    except Exception as error:  # raised by the object itself
        expected = f"{name} must be a function of time, or a sequence with one entry for each time"
        raise InputError(f"{expected}; given: {short_repr(reference)}") from error


def _sampled(
    reference: Reference, t: Array, count: int, name: str, layout: CompiledTasks, single: bool
) -> Array | None:
    """Return the values of a reference in the kernel's layout (count, k)."""
    if reference is None:
        return None
    if callable(reference):
        each = [reference(float(time)) for time in t[:count]]
    else:
        each = reference  # type: ignore[assignment]
        if len(each) not in (count, len(t)):
            raise InputError(f"{name} must have {count} entries; given: {len(each)}")
        each = each[:count]
    make = layout.targets if name == "target" else layout.velocities
    at_once = _all_at_once(each, make, layout.tasks, single)
    if at_once is not None:
        return at_once
    rows = [make(per_task(one, single, layout.tasks, name)) for one in each]
    for one, row in zip(each, rows, strict=True):
        if row.ndim != 1:
            raise InputError(f"each entry of {name} must not be a batch; given: {short_repr(one)}")
    return np.array(rows)


def _all_at_once(
    each: Sequence[Any],
    make: Callable[[Sequence[ArrayLike | None]], Array],
    tasks: Sequence[Task],
    single: bool,
) -> Array | None:
    """Return the rows (count, k) of float64 arrays of equal shape, converted in one call.

    The result is None for other values, and if one is invalid: `_sampled` then converts them one by
    one, so that the error names the invalid one.
    """
    several = not single and len(tasks) > 1
    if not single and not all(
        type(one) in (list, tuple) or (several and type(one) is np.ndarray) for one in each
    ):
        return None
    columns = [each] if single else list(zip(*each, strict=False))
    lengths = {1} if single else {len(one) for one in each}
    plain = all(
        type(value) is np.ndarray and value.dtype == np.float64
        for column in columns
        for value in column
    )
    if not plain or lengths != {len(tasks)}:
        return None
    try:
        rows = make([np.stack(column) for column in columns])
    except (InputError, ValueError):
        return None
    return rows if rows.ndim == 2 and len(rows) == len(each) else None
