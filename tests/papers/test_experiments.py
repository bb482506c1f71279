"""What every experiment keeps, whatever it is about."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise

import pytest
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


@every
def test_progress_rises_to_one(name: str) -> None:
    if EXPERIMENTS[name].paper != "N":
        pytest.skip("one that is short stands for all: they share `each`")
    told: list[float] = []
    EXPERIMENTS[name](told.append)
    assert told[0] == 0
    assert told[-1] == 1
    assert all(a <= b for a, b in pairwise(told))


@every
@pytest.mark.parametrize(
    ("format", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_figure_is_drawn(ran: Ran, name: str, format: str, begins: bytes) -> None:
    if format == "pdf" and EXPERIMENTS[name].paper != "N":
        pytest.skip("one stands for all")
    assert style.rendered(ran(name), name, format).startswith(begins)


@every
def test_every_panel_names_its_axes(ran: Ran, name: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    ran(name).draw(figure)
    assert figure.axes
    for ax in figure.axes:
        if ax.axison:
            assert ax.get_xlabel()
            assert ax.get_ylabel()


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="speed"):
        Outcome({"speed": math.nan}, (), lambda figure: None)
