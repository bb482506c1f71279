"""What may stand where joint coordinates are expected, and what is said if it may not."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError, shown

FloatArray = NDArray[np.floating[Any]]


def coordinates(given: ArrayLike, width: int, name: str) -> FloatArray:
    """Return `given` as an aligned C-contiguous float array of shape (..., width).

    float32 stays float32 (in this machine's byte order), every other real type becomes float64.

    Raises:
        InputError: not numbers, complex numbers, or another shape; says which was expected.
    """
    expected = f"{name} must be an array of real numbers of shape ({width},) or (..., {width})"
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InputError(f"{expected}; given: {shown(given)} ({error})") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"{expected}; given: {shown(given)} of type {array.dtype}")
    if array.ndim == 0 or array.shape[-1] != width:
        raise InputError(f"{expected}; given: an array of shape {array.shape}")
    dtype = np.float32 if array.dtype.type is np.float32 else np.float64
    return np.require(array, dtype, ("C_CONTIGUOUS", "ALIGNED"))


def matched(q: FloatArray, qd: FloatArray) -> FloatArray:
    """Return the joint speeds `qd` in the type and with the leading axes of `q`.

    Raises:
        InputError: the leading axes of `qd` cannot be broadcast to those of `q`.
    """
    try:
        wide = np.broadcast_to(qd, q.shape)
    except ValueError:
        raise InputError(
            f"qd must have the shape of q, {q.shape}, or broadcast to it; given: {qd.shape}"
        ) from None
    return np.array(wide, dtype=q.dtype, order="C")


def refuse_nonfinite(q: FloatArray, qd: FloatArray | None, row: int) -> NoReturn:
    """Raise the error for the first NaN or infinity, found in row `row` of the flattened batch."""
    for name, array in (("q", q), ("qd", qd)):
        if array is None:
            continue
        values = array.reshape(-1, array.shape[-1])[row]
        for column in np.flatnonzero(~np.isfinite(values)):
            index = (*np.unravel_index(row, array.shape[:-1]), column)
            place = ", ".join(str(int(i)) for i in index)
            raise InputError(f"{name} must be finite; given: {name}[{place}] = {values[column]}")
    raise InputError("q and qd must be finite")


def refuse_out(given: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NoReturn:
    """Raise the error for an array that cannot take the result."""
    what = (
        f"an array of shape {given.shape}, {given.dtype}" if isinstance(given, np.ndarray) else ""
    )
    raise InputError(
        f"out must be a writable C-contiguous array of shape {shape}, {dtype}; "
        f"given: {what or shown(given)}"
    )


def pose(given: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `given` as a new float64 pose (4, 4).

    Raises:
        InputError: another shape, not finite, or not a rotation and a translation.
    """
    expected = f"{name} must be a pose: (4, 4), a rotation and a translation, last row 0 0 0 1"
    try:
        T = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{expected}; given: {shown(given)}") from None
    if T.shape != (4, 4):
        raise InputError(f"{expected}; given: an array of shape {T.shape}")
    if not np.isfinite(T).all():
        raise InputError(f"{expected}; given: a matrix that is not finite")
    R = T[:3, :3]
    off = max(np.abs(R.T @ R - np.eye(3)).max(), np.abs(T[3] - (0, 0, 0, 1)).max())
    if off > 1e-6 or np.linalg.det(R) < 0:
        raise InputError(
            f"{expected}; given: a matrix that is off by {off:.1e}, det {np.linalg.det(R):.3f}"
        )
    return T


_ALL_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def thread_count(given: int | None) -> int:
    """Return the number of threads asked for; SUPPLE_THREADS, or all cores, if None."""
    if given is None:
        return _DEFAULT_THREADS
    if type(given) is not int or given < 1:
        raise InputError(f"threads must be a whole number from 1 on; given: {shown(given)}")
    return given


def _threads_of(environment: str) -> int:
    if not environment:
        return _ALL_THREADS or 1
    if not environment.isdecimal() or int(environment) < 1:
        raise InputError(f"SUPPLE_THREADS must be a whole number from 1 on; given: {environment!r}")
    return int(environment)


_DEFAULT_THREADS = _threads_of(os.environ.get("SUPPLE_THREADS", ""))
