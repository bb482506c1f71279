"""Validation of the arguments `device` and `precision`, and detection of targets on a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from supple.errors import InputError, check_one_of, short_repr
from supple.gpu.arrays import on_gpu

Precision: TypeAlias = Literal["mixed", "double"]

_PRECISIONS = ("mixed", "double")
_ARRAY = np.ndarray


def is_named(given: object, name: str) -> bool:
    """Return whether an argument equals a name; unlike ==, this also works for arrays."""
    return isinstance(given, str) and given == name


def device_named(given: object) -> str:
    """Return the name of a GPU; None stands for the first, "cuda".

    Raises:
        InputError: `given` is not the name of a device.
    """
    if given is None:
        return "cuda"
    if not isinstance(given, str) or not re.fullmatch(r"cuda(:\d+)?", given):
        raise InputError(
            f'device must be "cpu", "cuda", or one GPU such as "cuda:0"; given: {short_repr(given)}'
        )
    return given


def check_precision(given: object, device: Literal["cpu", "cuda"]) -> None:
    """Raise an error if `given` is not a precision that a device supports.

    Raises:
        UnknownNameError: `given` is not the name of a precision.
        InputError: `given` is "double" and the device is the CPU.
    """
    check_one_of(given, "precision", _PRECISIONS)
    if given == "double" and device == "cpu":
        raise InputError(
            'precision="double" is only for GPUs; on the CPU solutions are always refined and '
            "verified in double precision"
        )


def on_a_gpu(target: Any) -> bool:
    """Return whether a target, or one of a sequence of targets, is in GPU memory."""
    if type(target) is _ARRAY:
        return False
    if isinstance(target, list | tuple):
        return any(type(one) is not _ARRAY and on_gpu(one) for one in target)
    return on_gpu(target)


def each_on_gpu(target: Any, count: int, shapes: Sequence[tuple[int, ...]]) -> Sequence[object]:
    """Return one target for each of `count` tasks; an array (..., k, *shape) holds k targets.

    Args:
        target: A target, a sequence of targets, or an array of several.
        count: Number of tasks.
        shapes: Shapes that the targets of all tasks may have.
    """
    if isinstance(target, list | tuple):
        return target
    for shape in shapes if count > 1 else ():
        if tuple(target.shape[-1 - len(shape) :]) == (count, *shape):
            rest = (slice(None),) * len(shape)
            return [target[(..., i, *rest)] for i in range(count)]
    return (target,)
