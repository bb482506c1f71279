"""Laws of all experiments: names, numbers, claims, figures, parameters and curves."""

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
from supple.papers import EXPERIMENTS, PAPERS, Outcome, Parameter, Table, style
from supple.papers.experiment import THESIS, experiment

from sizes import a_third
from supple.errors import InputError, UnknownNameError

Ran = Callable[[str], Outcome]
every = pytest.mark.parametrize("name", EXPERIMENTS)


@every
def test_every_experiment_has_a_name_title_and_source(name: str) -> None:
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
def test_every_claim_has_a_text_a_measurement_and_a_reason(ran: Ran, name: str) -> None:
    claims = ran(name).claims
    assert claims
    for claim in claims:
        assert claim.paper
        assert claim.measured
        assert claim.why, "a claim must have a reason, whether it holds or not"
        assert type(claim.holds) is bool or claim.holds is None


def test_the_progress_of_an_experiment_rises_from_zero_to_one() -> None:
    told: list[float] = []
    EXPERIMENTS["n-gain"](told.append)
    assert told[0] == 0
    assert told[-1] == 1
    assert all(a <= b for a, b in pairwise(told))


@pytest.mark.parametrize("name", a_third(list(EXPERIMENTS), "svg"))
def test_the_figure_of_every_experiment_is_drawn(drawn: Callable[[str], bytes], name: str) -> None:
    picture = drawn(name)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    text = re.sub(rb"base64,[^\"]*", b"", picture.split(b"</metadata>")[1])  # without images
    assert b"nan" not in text.lower()


@pytest.mark.parametrize(("format", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_figures_can_be_written_as_png_and_pdf(ran: Ran, format: str, begins: bytes) -> None:
    assert style.rendered(ran("w-one-link"), "w-one-link", format).startswith(begins)


def test_drawing_a_figure_twice_gives_the_same_file(
    ran: Ran, drawn: Callable[[str], bytes]
) -> None:
    assert style.rendered(ran("w-one-link"), "w-one-link", "svg") == drawn("w-one-link")


@every
def test_every_panel_of_a_figure_has_a_title_and_labels(
    pictures: Callable[[str], Figure], name: str
) -> None:
    shown = [ax for ax in pictures(name).axes if ax.axison or ax.name == "3d"]
    assert shown
    for ax in shown:
        assert any(ax.get_title(loc=side) for side in ("left", "center", "right"))
        assert ax.get_xlabel()
        assert ax.get_ylabel()


def test_annotations_outside_of_a_panel_are_refused() -> None:
    """Matplotlib would omit such annotations. Arrows and notes of the common style extend the
    panel.
    """

    def drawing(outside: bool) -> Callable[[Figure], None]:
        def draw(figure: Figure) -> None:
            ax = figure.subplots()
            ax.plot([0, 1], [0, 1])
            style.arrow(ax, (1, 1), (3, 4), "black")
            style.note(ax, "there", (-2.0, 5.0))
            if outside:
                ax.annotate("nowhere", (9, 9))

        return draw

    assert b"there" in style.rendered(Outcome({}, (), drawing(False)), "x", "svg")
    with pytest.raises(ValueError, match="outside of its panel: 'nowhere'"):
        style.rendered(Outcome({}, (), drawing(True)), "x", "svg")


@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0])
def test_overlapping_labels_are_moved_apart_as_little_as_needed(gap: float) -> None:
    heights = np.array([9.0, 5.0, 4.9, 4.8, 1.0])
    moved = style.apart(heights, gap)
    assert (np.diff(moved) <= -gap + 1e-12).all()
    assert abs((moved - heights).mean()) < 1e-12
    if gap <= 0.1:
        np.testing.assert_array_equal(moved, heights)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="speed"):
        Outcome({"speed": math.nan}, (), lambda figure: None)


# ---- parameters and curves -----------------------------------------------------------------------


@every
def test_parameters_have_a_meaning_and_a_valid_default(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for each in experiment.parameters:
        assert re.fullmatch(r"[a-z][a-z_]*", each.name)
        assert each.meaning
        assert each.checked(each.default, name) == each.default
    assert experiment.settings({}) == {each.name: each.default for each in experiment.parameters}


@pytest.mark.parametrize("given", [True, None, "x", math.nan, math.inf, 0, 0.5, 11, [1, 2]])
def test_parameter_values_out_of_range_are_refused(given: object) -> None:
    parameter = Parameter("count", 3, "", "a number of things", 0, 10)
    with pytest.raises(InputError, match="x: count must be an integer above 0 and of at most 10"):
        parameter.checked(given, "x")
    assert parameter.checked("4", "x") == 4
    assert type(parameter.checked(4.0, "x")) is int


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown parameter of n-gain 'sprad'.*'spread'"):
        EXPERIMENTS["n-gain"](sprad=3)


def test_a_parameter_changes_the_outcome(ran: Ran) -> None:
    """With half of the usual θ̇max, λ doubles in the experiment of the square, and speeds are at
    most half.
    """
    changed = EXPERIMENTS["mk-two-link"](max_gain=1.0)
    limit = 0.5 * max(np.linalg.norm(x) for x in np.diff(changed.curves["target"], axis=0))
    assert limit > 0
    assert changed.curves["constant.lambda2"] == pytest.approx(0.25)
    assert ran("mk-two-link").curves["constant.lambda2"] == pytest.approx(0.0625)
    speeds = [
        outcome.quantities["constant.max_joint_speed"] for outcome in (changed, ran("mk-two-link"))
    ]
    assert speeds[0] < speeds[1]


def test_experiments_run_with_parameters_far_from_those_of_the_paper() -> None:
    outcome = EXPERIMENTS["mk-two-link"](max_gain=0.05)
    assert outcome.claims
    assert not all(claim.holds for claim in outcome.claims)


def test_an_experiment_runs_at_the_end_of_the_range_of_a_parameter_and_not_beyond() -> None:
    bound = next(each for each in EXPERIMENTS["mk-two-link"].parameters if each.name == "max_gain")
    assert EXPERIMENTS["mk-two-link"](max_gain=bound.most).claims
    with pytest.raises(InputError, match=r"max_gain must be a number above 0 and of at most 6"):
        EXPERIMENTS["mk-two-link"](max_gain=20)


@pytest.mark.parametrize("failure", [OverflowError("too large"), ValueError("singular")])
def test_if_a_parameter_value_fails_the_error_names_the_parameter_and_its_range(
    failure: Exception,
) -> None:
    @experiment(
        "x-fails",
        paper="N",
        figure="none",
        title="fails if its parameter is changed",
        parameters=(
            Parameter("gain", 2.0, "rad/m", "a gain", 0, 50),
            Parameter("size", 1.0, "m", "a size"),
        ),
    )
    def fails(progress: object, *, gain: float, size: float) -> Outcome:
        raise failure

    with pytest.raises(
        InputError, match=r"with gain=3: .*gain = 2 \[rad/m\], above 0 and of at most 50"
    ):
        fails(gain=3)
    with pytest.raises(type(failure)):  # no parameter caused this error
        fails()


@every
def test_curves_are_finite_arrays_with_names(ran: Ran, name: str) -> None:
    outcome = ran(name)
    assert outcome.tables or name == "w-counts"
    assert len({table.over for table in outcome.tables}) == len(outcome.tables)
    for table in outcome.tables:
        assert table.over in table.columns
        for column, values in table.columns.items():
            assert re.fullmatch(r"([a-z][a-z0-9_]*\.)*[a-z][a-z0-9_]*", column)
            assert np.isfinite(values).all(), column
            assert outcome.curves[column] is values


def test_tables_of_curves_are_written_as_csv() -> None:
    table = Table("t", {"q": np.array([[1.0, 2.0], [3.0, 4.0]]), "t": np.array([0.0, 0.1])})
    assert table.csv() == "t,q_1,q_2\n0.0,1.0,2.0\n0.1,3.0,4.0\n"


def test_tables_with_columns_of_unequal_length_or_repeated_names_are_refused() -> None:
    with pytest.raises(ValueError, match="these do not: q"):
        Table("t", {"t": np.zeros(2), "q": np.zeros(3)})
    table = Table("t", {"t": np.zeros(2)})
    with pytest.raises(ValueError, match="unique name"):
        Outcome({}, (), lambda figure: None, (table, table))


@pytest.mark.parametrize("paper", PAPERS)
def test_each_paper_has_exactly_one_claim_marked_as_its_thesis(ran: Ran, paper: str) -> None:
    names = [name for name, each in EXPERIMENTS.items() if each.paper == paper]
    claims = [c for name in names for c in ran(name).claims if c.paper.startswith(THESIS)]
    assert len(claims) == 1
