"""Fixtures that run and draw each experiment once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from supple.papers import EXPERIMENTS, Outcome, style

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def ran() -> Ran:
    """A function that returns the outcome of the experiment of a name."""
    return cache(lambda name: EXPERIMENTS[name]())


@pytest.fixture(scope="session")
def drawn(ran: Ran) -> Callable[[str], bytes]:
    """A function that returns the figure of an experiment as SVG."""
    return cache(lambda name: style.rendered(ran(name), name, "svg"))
