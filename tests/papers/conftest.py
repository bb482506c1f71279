"""Each experiment is run once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from supple.papers import EXPERIMENTS, Outcome

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def ran() -> Ran:
    """The outcome of an experiment by its name."""
    return cache(lambda name: EXPERIMENTS[name]())
