"""Where to solve, and how exactly: names of devices and precisions, and what is on a GPU."""

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
    """Whether an argument is a name; arrays and other objects are not compared with it."""
    return isinstance(given, str) and given == name


def device_named(given: object) -> str:
    """The name of a GPU; of the first, if none is named.

    Raises:
        InputError: it is none.
    """
    if given is None:
        return "cuda"
    if not isinstance(given, str) or not re.fullmatch(r"cuda(:\d+)?", given):
        raise InputError(f'device must be "cpu", "cuda" or "cuda:0"; given: {short_repr(given)}')
    return given


def check_precision(given: object, device: Literal["cpu", "cuda"]) -> None:
    """Refuse what is no precision, or none of a device.

    Raises:
        UnknownNameError: a name that does not exist.
        InputError: doubles alone, on the CPU.
    """
    check_one_of(given, "precision", _PRECISIONS)
    if given == "double" and device == "cpu":
        raise InputError(
            'precision="double" is for a GPU alone: on the CPU floats search, and doubles finish '
            "and verify"
        )


def on_a_gpu(target: Any) -> bool:
    """Whether a target is in a GPU's memory, or one of a sequence is."""
    if type(target) is _ARRAY:
        return False
    if isinstance(target, list | tuple):
        return any(type(one) is not _ARRAY and on_gpu(one) for one in target)
    return on_gpu(target)


def each_on_gpu(target: Any, count: int) -> Sequence[object]:
    """One target for each of some tasks; an array (..., k, 4, 4) is one of k poses."""
    if isinstance(target, list | tuple):
        return target
    if count > 1 and target.shape[-3:] == (count, 4, 4):
        return [target[..., i, :, :] for i in range(count)]
    return (target,)
