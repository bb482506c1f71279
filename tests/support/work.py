"""Work measured by the number of function calls, which does not depend on the machine."""

from __future__ import annotations

import cProfile
from collections.abc import Iterator
from contextlib import contextmanager


class Work:
    """The number of calls of Python and built-in functions in a block `with counted()`."""

    calls = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Count the function calls of a block, also of one that raises."""
    work, profile = Work(), cProfile.Profile()
    try:
        with profile:
            yield work
    finally:
        work.calls = sum(entry.callcount for entry in profile.getstats())
