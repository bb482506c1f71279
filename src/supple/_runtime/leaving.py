"""Cleanup at exit: release compiled objects while the interpreter is still alive."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Protocol
from weakref import WeakSet

from supple import _core

_MAX_WAIT = 1.0  # time for other threads to finish [s]


class Owner(Protocol):
    """An object that keeps compiled objects, for example a robot that keeps its chains."""

    def _release(self) -> None: ...


OWNERS: WeakSet[Owner] = WeakSet()  # all owners that are alive


def _leave() -> None:
    """Stop batches that run in daemon threads, and empty every cache.

    A reference cycle through `gc.callbacks`, a class of another extension or a daemon thread can
    keep a robot alive beyond the end of the interpreter. After this call, all robots refer only to
    plain Python objects. Objects on the stack of a daemon thread cannot be released, so warnings
    about leaks are switched off if there is a daemon thread.
    """
    _core.close_down(_MAX_WAIT)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "supple" and module is not None:
            for value in list(vars(module).values()):
                if hasattr(type(value), "cache_clear"):
                    value.cache_clear()
    for owner in list(OWNERS):
        owner._release()
    if any(thread.daemon for thread in threading.enumerate()):
        _core.set_leak_warnings(False)


class _Forks:
    """Fork handlers: a child process inherits the objects of other threads, but not the threads."""

    def __init__(self) -> None:
        self.others = False

    def before(self) -> None:
        self.others = threading.active_count() > 1

    def after(self) -> None:
        _core.after_fork()
        if self.others:
            _core.set_leak_warnings(False)


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    _forks = _Forks()
    os.register_at_fork(before=_forks.before, after_in_child=_forks.after)
