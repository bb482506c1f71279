"""Fixtures that run and draw each experiment once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from supple.papers import EXPERIMENTS, Outcome, style

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def ran() -> Ran:
    """Return a function from the name of an experiment to its outcome, which is cached."""
    return cache(lambda name: EXPERIMENTS[name]())


@pytest.fixture(scope="session")
def drawn(ran: Ran) -> Callable[[str], bytes]:
    """Return a function from the name of an experiment to its figure as SVG."""
    return cache(lambda name: style.rendered(ran(name), name, "svg"))
