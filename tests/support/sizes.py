"""Numbers of random draws, which are larger with SUPPLE_NIGHTLY=1."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Any_Sequence = TypeVar("Any_Sequence", bound=Sequence[Any])

NIGHTLY = bool(os.environ.get("SUPPLE_NIGHTLY"))  # set by `make test-nightly` and `make mutants`


def nightly(full: T, suite: T) -> T:
    """Return `full` in a nightly run, and `suite` otherwise."""
    return full if NIGHTLY else suite


def a_third(cases: Any_Sequence, *which: object) -> Any_Sequence:
    """Return every third case, or all of them in a nightly run.

    The first case depends on `which`, the parameters of the test, so that different parameters run
    different cases.
    """
    first = zlib.crc32(repr(which).encode()) % 3
    return cases if NIGHTLY else cases[first::3]  # type: ignore[return-value]
