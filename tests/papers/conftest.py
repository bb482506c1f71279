"""Fixtures that run and draw each experiment once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from matplotlib.figure import Figure
from supple.papers import EXPERIMENTS, Outcome, style

from sizes import nightly

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def ran() -> Ran:
    """Return a function from the name of an experiment to its outcome, which is cached.

    The suite draws fewer random paths than a nightly run.
    """
    fewer = {"mk-paths": {"paths": nightly(500, 60)}}
    return cache(lambda name: EXPERIMENTS[name](**fewer.get(name, {})))


@pytest.fixture(scope="session")
def pictures(ran: Ran) -> Callable[[str], Figure]:
    """Return a function from the name of an experiment to its figure, laid out as in a file."""
    return cache(lambda name: style.laid_out(ran(name)))


@pytest.fixture(scope="session")
def drawn(pictures: Callable[[str], Figure]) -> Callable[[str], bytes]:
    """Return a function from the name of an experiment to its figure as SVG."""

    def made(name: str) -> bytes:
        svg = style.written(pictures(name), name, "svg")
        pictures(name).draw_without_rendering()  # so that sizes of texts are in screen pixels again
        return svg

    return cache(made)
