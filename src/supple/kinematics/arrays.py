"""What may stand where joint coordinates are expected, and what is said if it may not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.describe._numbers import as_doubles as as_doubles
from supple.describe._numbers import real_numbers as real_numbers
from supple.errors import InputError, short_repr

FloatArray = NDArray[np.floating[Any]]

_ROUNDING = 1e-14  # of a product of rotations: what is no farther off is one


class ReadOnlyArrays:
    """A frozen dataclass whose arrays are read-only, also in deep copies and after pickling."""

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        for field in fields(self):  # type: ignore[arg-type]
            value = state.get(field.name)
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, np.ndarray):
                    each.flags.writeable = False


def coordinates(given: ArrayLike, width: int, name: str) -> FloatArray:
    """Return `given` as an aligned C-contiguous float array of shape (..., width).

    float32 stays float32 (in this machine's byte order), every other real type becomes float64.

    Raises:
        InputError: not numbers, complex numbers, or another shape; says which was expected.
    """
    expected = f"{name} must be an array of real numbers of shape ({width},) or (..., {width})"
    array = real_numbers(given, expected)
    if array.ndim == 0 or array.shape[-1] != width:
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    dtype = np.float32 if array.dtype.type is np.float32 else np.float64
    with np.errstate(over="ignore"):  # what becomes infinite is refused by name
        return np.require(array, dtype, ("C_CONTIGUOUS", "ALIGNED"))


def matched(q: FloatArray, qd: FloatArray) -> FloatArray:
    """Return the joint speeds `qd` in the type and with the leading axes of `q`.

    Raises:
        InputError: the leading axes of `qd` cannot be broadcast to those of `q`.
    """
    try:
        wide = np.broadcast_to(qd, q.shape)
    except (ValueError, RuntimeError):
        raise InputError(
            f"qd must have the shape of q, {q.shape}, or broadcast to it; given: {qd.shape}"
        ) from None
    with np.errstate(over="ignore"):  # what becomes infinite is refused by name
        return np.array(wide, dtype=q.dtype, order="C")


def refuse_nonfinite(q: FloatArray, qd: FloatArray | None, row: int) -> NoReturn:
    """Raise the error for what is wrong in row `row` of the flattened batch."""
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
        "q and qd must be small enough that the result is finite (lengths within 1e100, in float32 "
        f"1e15); given: {given}"
    )


def refuse_batch(given: object, name: str, width: int) -> NoReturn:
    """Raise the error for a batch where one is wanted."""
    raise InputError(f"{name} must be ({width},), not a batch; given: {short_repr(given)}")


def refuse_overflow(given: object) -> NoReturn:
    """Raise the error for a step that numbers cannot hold."""
    raise InputError(
        "what is asked must be small enough that the step is a finite number; it is not at "
        f"q = {short_repr(given)}"
    )


def refuse_axes(axes: int) -> NoReturn:
    """Raise the error for a result with more axes than NumPy has."""
    raise InputError(f"q must have fewer leading axes: NumPy has at most {axes}; given: too many")


def refuse_shared_out() -> NoReturn:
    """Raise the error for two results that would be written into the same memory."""
    raise InputError("out must be two arrays of their own; given: arrays that share memory")


def refuse_out(given: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NoReturn:
    """Raise the error for an array that cannot take the result."""
    what = (
        f"an array of shape {given.shape}, {given.dtype}" if isinstance(given, np.ndarray) else ""
    )
    raise InputError(
        f"out must be a writable C-contiguous array of shape {shape}, {dtype}; "
        f"given: {what or short_repr(given)}"
    )


def pose(given: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `given` as a new float64 pose (4, 4), its rotation made orthonormal.

    Raises:
        InputError: another shape, not finite, or not a rotation and a translation.
    """
    expected = f"{name} must be a pose: (4, 4), a rotation and a translation, last row 0 0 0 1"
    T = as_doubles(real_numbers(given, expected))
    if T.shape != (4, 4):
        raise InputError(f"{expected}; given: an array of shape {T.shape}")
    if not np.isfinite(T).all():
        raise InputError(f"{expected}; given: a matrix that is not finite")
    off = float(_off(T))
    det = float(_determinant(T))
    if not off <= 1e-6 or det < 0:
        raise InputError(f"{expected}; given: a matrix that is off by {off:.1e}, det {det:.3f}")
    return _straightened(T, off)


def poses(given: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `given` as new float64 poses (..., 4, 4), their rotations made orthonormal.

    Raises:
        InputError: another shape, not finite, or one that is not a rotation and a translation.
    """
    numbers = real_numbers(given, f"{name} must be finite real numbers of shape (..., 4, 4)")
    T = finite_array(numbers, (4, 4), name, batch=True)
    few = 1e-5 if numbers.dtype == np.float32 else 1e-6
    off = _off(T)
    wrong = ~(off <= few) | (_determinant(T) < 0)
    if wrong.any():
        where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        place = f"{name}[{', '.join(str(int(i)) for i in where)}]" if where else "a matrix that"
        det = float(_determinant(T[where]))
        raise InputError(
            f"{name} must be a pose: (4, 4), a rotation and a translation, last row 0 0 0 1; "
            f"given: {place} is off by {off[where]:.1e}, det {det:.3f}"
        )
    return _straightened(T, float(off.max(initial=0.0)))


def _off(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far from poses (..., 4, 4) some matrices are: the largest entry (...)."""
    R = T[..., :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers are far off, or NaN
        product = np.abs(R.swapaxes(-1, -2) @ R - np.eye(3)).max(axis=(-1, -2))
        last = np.abs(T[..., 3, :] - (0, 0, 0, 1)).max(axis=-1)
    return np.asarray(np.maximum(product, last))


def _determinant(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """The determinants (...) of the rotations of poses (..., 4, 4); huge ones are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.linalg.det(T[..., :3, :3]))


def _straightened(T: NDArray[np.float64], off: float) -> NDArray[np.float64]:
    """The nearest poses, in place. Newton's iteration: 1e-6 -> 1e-12 -> rounding."""
    for _ in range(2 if off > _ROUNDING else 0):
        R = T[..., :3, :3]
        T[..., :3, :3] = R @ (1.5 * np.eye(3) - 0.5 * R.swapaxes(-1, -2) @ R)
    T[..., 3, :] = 0.0, 0.0, 0.0, 1.0
    return T


def finite_array(
    given: ArrayLike, shape: tuple[int, ...], name: str, *, batch: bool = False
) -> NDArray[np.float64]:
    """Return `given` as a new float64 array of a shape, or with leading axes before it if `batch`.

    Raises:
        InputError: not real numbers, another shape, or numbers that are not finite.
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
    """Return `given` as a float: finite, and within bounds that exclude or include their ends.

    Raises:
        InputError: not a real number, not finite, or outside the bounds.
    """
    value = np.nan
    if not isinstance(given, bool) and isinstance(given, Real):
        with suppress(OverflowError):
            value = float(given)
    if np.isfinite(value) and above < value < below and least <= value <= most:
        return value
    ends = {"above": above, "at least": least, "below": below, "at most": most}
    bounds = " and ".join(f"{name} {end:g}" for name, end in ends.items() if np.isfinite(end))
    expected = f"{what} must be a finite number{' ' * bool(bounds)}{bounds}"
    raise InputError(f"{expected}; given: {short_repr(given)}")


def number_field(owner: object, name: str, **bounds: float) -> None:
    """Make a field of a frozen dataclass the float that it stands for, as `number` has it."""
    value = number(getattr(owner, name), f"{type(owner).__name__}: {name}", **bounds)
    object.__setattr__(owner, name, value)


def names_of(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Return the names given as one string or as several.

    Raises:
        InputError: no name at all, or something that is not one.
    """
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except Exception:  # an object's own
        names = ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{what} must be a name or a sequence of names; given: {short_repr(given)}"
        )
    return names
