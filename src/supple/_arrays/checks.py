"""Check configurations, poses, numbers and names given as arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.describe._libraries import library_name as library_name
from supple.describe._libraries import library_of as library_of
from supple.describe._libraries import like as like
from supple.describe._libraries import of_other_library as of_other_library
from supple.describe._libraries import to_numpy as to_numpy
from supple.describe._libraries import without_gradients as without_gradients
from supple.describe._numbers import as_doubles as as_doubles
from supple.describe._numbers import real_numbers as real_numbers
from supple.describe._pose import POSE_TOLERANCE as POSE_TOLERANCE
from supple.describe._pose import orthonormalized, rotation_residual
from supple.errors import InputError, short_repr

FloatArray = NDArray[np.floating[Any]]

_ROTATION_ROUNDING = 1e-14  # largest entry of |RᵀR - I| up to which a rotation is left unchanged


class ReadOnlyArrays:
    """Base of frozen dataclasses whose arrays stay read-only in deep copies and after pickling."""

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        for field in fields(self):  # type: ignore[arg-type]
            value = state.get(field.name)
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, np.ndarray):
                    each.flags.writeable = False


def coordinates(given: ArrayLike, width: int, name: str) -> FloatArray:
    """Return `given` as an aligned C-contiguous float array of shape (..., width).

    float32 stays float32 (in native byte order), every other real type becomes float64.

    Raises:
        InputError: `given` is not an array of real numbers, or has another shape.
    """
    expected = f"{name} must be an array of real numbers of shape ({width},) or (..., {width})"
    array = real_numbers(given, expected)
    if array.ndim == 0 or array.shape[-1] != width:
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    dtype = np.float32 if array.dtype.type is np.float32 else np.float64
    with np.errstate(over="ignore"):  # infinite entries are reported later, by index
        return np.require(array, dtype, ("C_CONTIGUOUS", "ALIGNED"))


def matched(q: FloatArray, qd: FloatArray) -> FloatArray:
    """Return the joint velocities `qd` in the type and with the leading axes of `q`.

    Raises:
        InputError: The leading axes of `qd` cannot be broadcast to those of `q`.
    """
    shape = (*q.shape[:-1], qd.shape[-1])  # with ball joints, q has more numbers
    try:
        wide = np.broadcast_to(qd, shape)
    except (ValueError, RuntimeError):
        raise InputError(
            f"qd must have the shape {shape}, or broadcast to it; given: {qd.shape}"
        ) from None
    with np.errstate(over="ignore"):  # infinite entries are reported later, by index
        return np.array(wide, dtype=q.dtype, order="C")


def pose(given: ArrayLike, name: str, *, tolerance: float = POSE_TOLERANCE) -> NDArray[np.float64]:
    """Return `given` as a new float64 pose (4, 4) with an orthonormal rotation.

    Raises:
        InputError: The matrix has another shape, is not finite, or is not a pose within the
            tolerance.
    """
    expected = f"{name} must be a pose (4, 4)"
    T = real_numbers(given, expected)
    if T.shape != (4, 4):
        raise InputError(f"{expected}; given: an array of shape {T.shape}")
    if not np.isfinite(T).all():
        raise InputError(f"{expected}; given: a matrix that is not finite")
    return poses(T, name, tolerance=tolerance)


def poses(given: ArrayLike, name: str, *, tolerance: float = POSE_TOLERANCE) -> NDArray[np.float64]:
    """Return `given` as new float64 poses (..., 4, 4) with orthonormal rotations.

    Args:
        given: Matrices (..., 4, 4).
        name: Name of the argument in error messages.
        tolerance: Largest entry of |RᵀR - I| that is corrected.

    Raises:
        InputError: The array has another shape, or a matrix is not finite or not a pose within the
            tolerance.
    """
    numbers = real_numbers(given, f"{name} must be finite real numbers of shape (..., 4, 4)")
    T = finite_array(numbers, (4, 4), name, batch=True)
    expected = f"{name} must be a pose: (4, 4), a rotation and a translation, last row 0 0 0 1"
    last = np.abs(T[..., 3, :] - (0, 0, 0, 1)).max(axis=-1)
    wrong = ~(last <= (1e-5 if numbers.dtype == np.float32 else 1e-6))
    if wrong.any():
        place, where = _first(wrong, name)
        raise InputError(
            f"{expected}; given: {place} has a last row that is off by {last[where]:.1e}"
        )
    T[..., :3, :3] = rotations(T[..., :3, :3], name, expected, tolerance=tolerance)
    T[..., 3, :] = 0.0, 0.0, 0.0, 1.0
    return T


def rotations(
    R: NDArray[np.float64], name: str, expected: str, *, tolerance: float = POSE_TOLERANCE
) -> NDArray[np.float64]:
    """Return the nearest rotations (..., 3, 3) to finite matrices.

    Raises:
        InputError: A matrix is not a rotation within the tolerance; the message begins with
            `expected`.
    """
    residual = rotation_residual(R)
    with np.errstate(over="ignore", invalid="ignore"):
        determinant = np.asarray(np.linalg.det(R))
    wrong = ~(residual <= tolerance) | (determinant < 0)
    if wrong.any():
        place, where = _first(wrong, name)
        raise InputError(
            f"{expected}; given: {place} is off by {residual[where]:.1e} in RᵀR - I (at most "
            f"{tolerance:g} is corrected), det {determinant[where]:.3f}"
        )
    return orthonormalized(R, residual, exact=_ROTATION_ROUNDING)


def _first(wrong: NDArray[np.bool_], name: str) -> tuple[str, tuple[np.intp, ...]]:
    """Return the first wrong entry of a batch: its name for an error, and its index."""
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    place = f"{name}[{', '.join(str(int(i)) for i in where)}]" if where else "a matrix that"
    return place, where


def finite_array(
    given: ArrayLike, shape: tuple[int, ...], name: str, *, batch: bool = False
) -> NDArray[np.float64]:
    """Return `given` as a new float64 array of a shape; if `batch`, with any leading axes.

    Raises:
        InputError: `given` is not an array of finite real numbers, or has another shape.
    """
    wide = f"(..., {', '.join(map(str, shape))})" if batch else str(shape)
    expected = f"{name} must be finite real numbers of shape {wide}"
    array = real_numbers(given, expected)
    inner = array.shape[max(0, array.ndim - len(shape)) :] if batch else array.shape
    if inner != shape:
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    array = as_doubles(array)
    if not np.isfinite(array).all():
        raise InputError(f"{expected}; given: {short_repr(given)}")
    return array


def number(
    given: object,
    what: str,
    *,
    above: float = -np.inf,
    least: float = -np.inf,
    below: float = np.inf,
    most: float = np.inf,
) -> float:
    """Return `given` as a finite float within bounds.

    Args:
        given: The argument.
        what: Name of the argument in error messages.
        above: Bound that must be exceeded.
        least: Smallest allowed value.
        below: Bound that must not be reached.
        most: Largest allowed value.

    Raises:
        InputError: `given` is not a real number, is not finite, or is outside the bounds.
    """
    value = math.nan
    if type(given) is float:
        value = given
    elif not isinstance(given, bool) and isinstance(given, Real):
        with suppress(OverflowError):
            value = float(given)
    if math.isfinite(value) and above < value < below and least <= value <= most:
        return value
    ends = {"above": above, "at least": least, "below": below, "at most": most}
    bounds = " and ".join(f"{name} {end:g}" for name, end in ends.items() if np.isfinite(end))
    expected = f"{what} must be a finite number{' ' * bool(bounds)}{bounds}"
    raise InputError(f"{expected}; given: {short_repr(given)}")


def number_field(owner: object, name: str, **bounds: float) -> None:
    """Convert a field of a frozen dataclass to a float, with the checks of `number`."""
    value = number(getattr(owner, name), f"{type(owner).__name__}: {name}", **bounds)
    object.__setattr__(owner, name, value)


def names_of(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Return names that are given as one string or a sequence of strings.

    Raises:
        InputError: There is no name, or an entry is not a string.
    """
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except Exception:  # raised by the object's own iterator
        names = ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{what} must be a name or a sequence of names; given: {short_repr(given)}"
        )
    return names
