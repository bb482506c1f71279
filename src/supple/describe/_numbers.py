"""Arrays of callers: the one place where they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from supple.errors import InputError, short_repr


def real_numbers(given: object, expected: str) -> npt.NDArray[Any]:
    """Return what a caller gave as an array of real numbers, of any type and shape.

    Args:
        given: The argument.
        expected: What it should be, the beginning of the error's sentence.

    Raises:
        InputError: Not an array (ragged lists), not real numbers, or masked entries.
    """
    if _is_masked(given):
        raise InputError(f"{expected}; given: a masked array with masked entries")
    try:
        array = np.asarray(given)
    except Exception as error:  # whatever an object's own conversion raises
        raise InputError(f"{expected}; given: {short_repr(given)} ({error})") from error
    if array.dtype.kind not in "iuf":
        what = "an array" if array is given else short_repr(given)
        raise InputError(f"{expected}; given: {what} of type {array.dtype}")
    return array


def as_doubles(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a copy in float64; numbers too large for it become infinite, without a warning."""
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _is_masked(given: object) -> bool:
    """Whether entries are masked, also of arrays in a list: NumPy would drop the mask."""
    if isinstance(given, np.ma.MaskedArray):
        return bool(np.ma.is_masked(given))
    return isinstance(given, list | tuple) and any(
        _is_masked(one) for one in given if isinstance(one, list | tuple | np.ndarray)
    )
