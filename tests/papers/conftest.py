"""Each experiment is run, and drawn, once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from supple.papers import EXPERIMENTS, Outcome, style

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def ran() -> Ran:
    """The outcome of an experiment by its name."""
    return cache(lambda name: EXPERIMENTS[name]())


@pytest.fixture(scope="session")
def drawn(ran: Ran) -> Callable[[str], bytes]:
    """The figure of an experiment, as SVG."""
    return cache(lambda name: style.rendered(ran(name), name, "svg"))
