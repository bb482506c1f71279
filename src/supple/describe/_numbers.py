"""Conversion of arguments and file contents to arrays of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from supple.describe._libraries import of_other_library, to_numpy
from supple.errors import DescriptionError, InputError, short_repr


def real_numbers(given: object, expected: str) -> npt.NDArray[Any]:
    """Return an argument as a NumPy array of real numbers, of any type and shape.

    Arrays of other libraries (PyTorch, JAX) share their memory with the result if possible.

    Args:
        given: The argument.
        expected: The beginning of the error message, such as "q must be real numbers".

    Raises:
        InputError: The argument is a ragged list, has entries that are masked or not real, or is
            an array of another library that requires gradients or is not in host memory.
    """
    if type(given) is np.ndarray and given.dtype.kind in "iuf":
        return given  # the usual case; the checks below take longer
    if _is_masked(given):
        raise InputError(f"{expected}; given: a masked array with masked entries")
    if of_other_library(given):
        try:
            given = to_numpy(given)
        except InputError as error:
            raise InputError(f"{expected}; given: {error}") from None
    try:
        array = np.asarray(given)
    except Exception as error:  # raised by the object's own conversion
        raise InputError(f"{expected}; given: {short_repr(given)} ({error})") from error
    if array.dtype.kind not in "iuf":
        what = "an array" if array is given else short_repr(given)
        raise InputError(f"{expected}; given: {what} of type {array.dtype}")
    return array


def as_doubles(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a float64 copy; numbers that overflow become infinite without a warning."""
    if array.dtype == np.float64:
        return array.astype(np.float64)
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def described_numbers(
    value: object, what: str, expected: str = "real numbers"
) -> npt.NDArray[np.float64]:
    """Return a value of a description as a new float64 array of any shape.

    Args:
        value: The value.
        what: The name of the value in the error message, such as "joint 'a': axis".
        expected: The expected kind of value in the error message.

    Raises:
        DescriptionError: The value is not an array of real numbers.
    """
    try:
        return as_doubles(real_numbers(value, what))
    except InputError as error:
        raise DescriptionError(
            f"{what}: expected {expected}, given {short_repr(value)}."
        ) from error


def _is_masked(given: object) -> bool:
    """Return whether any entry is masked, also in nested lists, whose masks NumPy would drop."""
    if isinstance(given, np.ma.MaskedArray):
        return bool(np.ma.is_masked(given))
    return isinstance(given, list | tuple) and any(
        _is_masked(entry) for entry in given if isinstance(entry, list | tuple | np.ndarray)
    )
