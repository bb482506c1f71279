"""Fixtures that run and draw each experiment once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from supple.papers import EXPERIMENTS, Outcome, style

from sizes import nightly
from supple.plot import palette

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def ran() -> Ran:
    """Return a function that runs an experiment by its name and caches the outcome.

    In an ordinary run of the tests, fewer random paths are drawn than in a nightly run.
    """
    fewer = {"mk-paths": {"paths": nightly(500, 24)}}
    return cache(lambda name: EXPERIMENTS[name](**fewer.get(name, {})))


@pytest.fixture(scope="session")
def pictures(ran: Ran) -> Callable[[str], Figure]:
    """Return a function from the name of an experiment to its figure, without the layout of panels,
    which takes most of the time.
    """

    def made(name: str) -> Figure:
        with matplotlib.rc_context(palette.LOOK):
            figure = Figure(figsize=style.SIZE)
            ran(name).draw(figure)
            for ax in figure.findobj(Axes):  # settle the limits, as drawing does
                ax.autoscale_view()
                ax.apply_aspect()
        return figure

    return cache(made)


@pytest.fixture(scope="session")
def laid_out(ran: Ran) -> Callable[[str], Figure]:
    """Return a function from the name of an experiment to its figure, laid out as in a file."""
    return cache(lambda name: style.laid_out(ran(name)))


@pytest.fixture(scope="session")
def drawn(laid_out: Callable[[str], Figure]) -> Callable[[str], bytes]:
    """Return a function from the name of an experiment to its figure as SVG."""

    def made(name: str) -> bytes:
        svg = style.written(laid_out(name), name, "svg")
        laid_out(name).draw_without_rendering()  # so that sizes of texts are in screen pixels again
        return svg

    return cache(made)
