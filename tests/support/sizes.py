"""Sizes of random draws: a part for the suite, all of them with SUPPLE_NIGHTLY=1."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

NIGHTLY = bool(os.environ.get("SUPPLE_NIGHTLY"))  # set by `make test-nightly`


def nightly(full: T, suite: T) -> T:
    """Return the size of a nightly run, or that of the suite."""
    return full if NIGHTLY else suite
