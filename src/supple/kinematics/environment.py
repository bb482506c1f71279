"""The machine: how many threads, which instruction set; SUPPLE_THREADS and SUPPLE_ISA choose."""

from __future__ import annotations

import operator
import os

from supple import _core
from supple.errors import InputError, join_names, short_repr

_MOST_THREADS = 4096


def thread_count(given: int | None) -> int:
    """Return the number of threads asked for; SUPPLE_THREADS, or all cores, if None.

    Raises:
        InputError: not a whole number, or less than 1.
    """
    if given is None:
        return DEFAULT_THREADS
    if type(given) is int and 1 <= given <= _MOST_THREADS:
        return given
    try:
        count = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"threads must be a whole number from 1 on; given: {short_repr(given)}")
    return min(count, _MOST_THREADS)


def _default_threads(asked: str) -> int:
    if asked:
        if not asked.isdecimal() or not asked.strip("0"):
            raise InputError(
                f"SUPPLE_THREADS must be a whole number from 1 on; given: {short_repr(asked)}"
            )
        return min(int(asked), _MOST_THREADS) if len(asked) < 10 else _MOST_THREADS
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


def _choose_instruction_set(asked: str) -> None:
    if not asked:
        return
    if asked not in _core.isas():
        raise InputError(
            "SUPPLE_ISA must name an instruction set of this machine and build, "
            f"one of {join_names(_core.isas())}; given: {asked!r}"
        )
    _core.use_isa(asked)


DEFAULT_THREADS = _default_threads(os.environ.get("SUPPLE_THREADS", ""))
_choose_instruction_set(os.environ.get("SUPPLE_ISA", ""))
