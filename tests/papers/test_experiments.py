"""What every experiment keeps, whatever it is about."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from supple.papers import EXPERIMENTS, PAPERS, Outcome, style

Ran = Callable[[str], Outcome]
every = pytest.mark.parametrize("name", EXPERIMENTS)


@every
def test_it_says_what_it_is(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", name)
    assert experiment.name == name
    assert experiment.paper in PAPERS
    assert experiment.title
    assert experiment.about
    assert PAPERS[experiment.paper] in experiment.source


@every
def test_quantities_are_finite_numbers_with_flat_names(ran: Ran, name: str) -> None:
    quantities = ran(name).quantities
    assert quantities
    assert all(math.isfinite(value) for value in quantities.values())
    assert all(re.fullmatch(r"([a-z][a-z0-9_]*\.)?[a-z][a-z0-9_]*", each) for each in quantities)
    assert json.loads(json.dumps(quantities, allow_nan=False)) == quantities


@every
def test_claims_are_sentences(ran: Ran, name: str) -> None:
    claims = ran(name).claims
    assert claims
    for claim in claims:
        assert claim.paper
        assert claim.measured
        assert claim.why, "a reason is due whether it holds or not"
        assert type(claim.holds) is bool


def test_progress_rises_to_one() -> None:
    told: list[float] = []
    EXPERIMENTS["n-gain"](told.append)
    assert told[0] == 0
    assert told[-1] == 1
    assert all(a <= b for a, b in pairwise(told))


@every
def test_the_figure_is_drawn(drawn: Callable[[str], bytes], name: str) -> None:
    picture = drawn(name)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert b"nan" not in picture.lower().split(b"</metadata>")[1]


@pytest.mark.parametrize(("format", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_other_formats(ran: Ran, format: str, begins: bytes) -> None:
    assert style.rendered(ran("n-gain"), "n-gain", format).startswith(begins)


def test_the_same_numbers_make_the_same_file(ran: Ran, drawn: Callable[[str], bytes]) -> None:
    assert style.rendered(ran("n-gain"), "n-gain", "svg") == drawn("n-gain")


@every
def test_every_panel_says_what_it_shows(ran: Ran, name: str) -> None:
    figure = Figure()
    ran(name).draw(figure)
    shown = [ax for ax in figure.axes if ax.axison]
    assert shown
    for ax in shown:
        assert any(ax.get_title(loc=side) for side in ("left", "center", "right"))
        assert ax.get_xlabel()
        assert ax.get_ylabel()


@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0])
def test_labels_are_moved_apart_and_no_farther(gap: float) -> None:
    heights = np.array([9.0, 5.0, 4.9, 4.8, 1.0])
    moved = style.apart(heights, gap)
    assert (np.diff(moved) <= -gap + 1e-12).all()
    assert abs((moved - heights).mean()) < 1e-12
    if gap <= 0.1:
        np.testing.assert_array_equal(moved, heights)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="speed"):
        Outcome({"speed": math.nan}, (), lambda figure: None)
