"""Number of threads and instruction set, from the variables SUPPLE_THREADS and SUPPLE_ISA."""

from __future__ import annotations

import operator
import os

from supple import _core
from supple.errors import InputError, join_names, short_repr

_MAX_THREADS = 4096


def thread_count(given: int | None) -> int:
    """Return `given` as a number of threads; for None, SUPPLE_THREADS or the number of cores.

    Raises:
        InputError: `given` or SUPPLE_THREADS is not a positive whole number.
    """
    if given is None:
        return DEFAULT_THREADS
    if type(given) is int and 1 <= given <= _MAX_THREADS:
        return given
    try:
        count = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"threads must be a positive whole number; given: {short_repr(given)}")
    return min(count, _MAX_THREADS)


def _default_threads(given: str) -> int:
    if given:
        if not given.isdecimal() or not given.strip("0"):
            raise InputError(
                f"SUPPLE_THREADS must be a positive whole number; given: {short_repr(given)}"
            )
        return min(int(given), _MAX_THREADS) if len(given) < 10 else _MAX_THREADS
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


def _choose_instruction_set(given: str) -> None:
    if not given:
        return
    if given not in _core.isas():
        raise InputError(
            "SUPPLE_ISA must name an instruction set of this machine and build; "
            f"given: {given!r}. Available: {join_names(_core.isas())}."
        )
    _core.use_isa(given)


DEFAULT_THREADS = _default_threads(os.environ.get("SUPPLE_THREADS", ""))
_choose_instruction_set(os.environ.get("SUPPLE_ISA", ""))
