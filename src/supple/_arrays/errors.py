"""Errors for invalid arrays. The compiled module calls these functions by name."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from supple._arrays.checks import FloatArray
from supple.errors import InputError, short_repr


def raise_nonfinite(q: FloatArray, qd: FloatArray | None, row: int) -> NoReturn:
    """Raise the error for row `row` of a flattened batch that is not finite or overflows."""
    for name, array in (("q", q), ("qd", qd)):
        if array is None:
            continue
        values = array.reshape(-1, array.shape[-1])[row]
        for column in np.flatnonzero(~np.isfinite(values)):
            index = (*np.unravel_index(row, array.shape[:-1]), column)
            place = ", ".join(str(int(i)) for i in index)
            raise InputError(f"{name} must be finite; given: {name}[{place}] = {values[column]}")
    place = str([int(i) for i in np.unravel_index(row, q.shape[:-1])]) if q.ndim > 1 else ""
    given = ", ".join(
        f"{name}{place} = {short_repr(array.reshape(-1, array.shape[-1])[row].tolist())}"
        for name, array in (("q", q), ("qd", qd))
        if array is not None
    )
    raise InputError(
        "q and qd must be small enough that the result is finite (lengths up to 1e100, or 1e15 in "
        f"float32); given: {given}"
    )


def raise_zero_quaternion(q: FloatArray, row: int, name: str) -> NoReturn:
    """Raise the error for row `row` of a flattened batch, in which a quaternion is zero."""
    place = str([int(i) for i in np.unravel_index(row, q.shape[:-1])]) if q.ndim > 1 else ""
    given = short_repr(q.reshape(-1, q.shape[-1])[row].tolist())
    raise InputError(f"a quaternion must not be zero; given: {name}{place} = {given}")


def raise_batch(given: object, name: str, width: int) -> NoReturn:
    """Raise the error for a batch where one configuration is expected."""
    raise InputError(f"{name} must be ({width},), not a batch; given: {short_repr(given)}")


def raise_overflow(given: object) -> NoReturn:
    """Raise the error for a step that overflows."""
    raise InputError(
        "the command must be small enough that the step is finite; it overflows at "
        f"q = {short_repr(given)}"
    )


def raise_too_many_axes(axes: int) -> NoReturn:
    """Raise the error for a result with more axes than NumPy supports."""
    raise InputError(f"q has too many leading axes: NumPy supports at most {axes} axes in a result")


def raise_shared_out() -> NoReturn:
    """Raise the error for two arrays for results that share memory."""
    raise InputError("out must be two separate arrays; given: arrays that share memory")


def raise_unusable_out(given: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NoReturn:
    """Raise the error for an array that cannot hold the result."""
    what = (
        f"an array of shape {given.shape}, {given.dtype}" if isinstance(given, np.ndarray) else ""
    )
    raise InputError(
        f"out must be a writable C-contiguous array of shape {shape}, {dtype}; "
        f"given: {what or short_repr(given)}"
    )
