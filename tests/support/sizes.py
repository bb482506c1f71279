"""Sizes of random draws: a part for the suite, all of them with SUPPLE_NIGHTLY=1."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Any_Sequence = TypeVar("Any_Sequence", bound=Sequence[Any])

NIGHTLY = bool(os.environ.get("SUPPLE_NIGHTLY"))  # set by `make test-nightly` and `make mutants`


def nightly(full: T, suite: T) -> T:
    """Return the size of a nightly run, or that of the suite."""
    return full if NIGHTLY else suite


def a_third(cases: Any_Sequence, *which: object) -> Any_Sequence:
    """Return every third case, or all of them in a nightly run.

    The first case depends on `which`, the parameters of the test, so that tests with other
    parameters run other cases.
    """
    first = zlib.crc32(repr(which).encode()) % 3
    return cases if NIGHTLY else cases[first::3]  # type: ignore[return-value]
