"""Curves in the figures have the data of the tables, and the figures cut nothing off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Annotation, Text
from supple.papers import EXPERIMENTS, Outcome

from sizes import a_third

Array = np.ndarray
Ran = Callable[[str], Outcome]
Pictures = Callable[[str], Figure]
every = pytest.mark.parametrize("name", EXPERIMENTS)
# The figures whose SVG other tests read, because a layout takes half a second.
some = pytest.mark.parametrize("name", a_third(list(EXPERIMENTS), "svg"))


def panels(figure: Figure) -> Iterator[Axes]:
    """Yield all panels of a figure, also panels inside other panels."""
    for ax in figure.axes:
        yield ax
        yield from ax.child_axes


def title_of(ax: Axes) -> str:
    return next(filter(None, (ax.get_title(loc=side) for side in ("left", "center", "right"))), "")


def panel(figure: Figure, title: str) -> Axes:
    """Return the panel of a figure whose title begins with `title`."""
    (found,) = (ax for ax in figure.axes if title_of(ax).startswith(title))
    return found


def inside(ax: Axes, points: Array) -> Array:
    """Return a mask of the points (..., 2) that a panel shows, given in data coordinates."""
    at = ax.transData.transform(np.asarray(points, dtype=float))
    with np.errstate(invalid="ignore"):
        return ((at >= ax.bbox.min - 0.5) & (at <= ax.bbox.max + 0.5)).all(axis=-1)


def is_drawn(ax: Axes, text: Annotation) -> bool:
    """Return whether Matplotlib draws an annotation: it omits annotations that point out of a
    panel.
    """
    in_data = text.xycoords == "data" and text.get_annotation_clip() is not False
    return not in_data or bool(inside(ax, np.array(text.xy)))


def legends(figure: Figure) -> list[Legend]:
    of_panels = (ax.get_legend() for ax in panels(figure))
    return [*figure.legends, *(legend for legend in of_panels if legend is not None)]


# ---- laws of all figures -------------------------------------------------------------------------


@some
def test_annotations_of_figures_are_drawn(laid_out: Pictures, name: str) -> None:
    for ax in panels(laid_out(name)):
        for text in ax.texts:
            if isinstance(text, Annotation):
                assert is_drawn(ax, text), (title_of(ax), text.get_text(), text.xy)


def written(figure: Figure) -> Iterator[tuple[str, Text]]:
    """Yield the texts of titles, labels, annotations and legends, each with a name for error
    messages.
    """
    for ax in panels(figure):
        of_titles = [ax.title, ax._left_title, ax._right_title]  # type: ignore[attr-defined]
        axes = [ax.xaxis, ax.yaxis, *([ax.zaxis] if ax.name == "3d" else [])]  # type: ignore[attr-defined]
        if ax.axison or ax.name == "3d":
            for text in [*of_titles, *(axis.label for axis in axes)]:
                yield f"{title_of(ax)}: {text.get_text()}", text
        if ax.axison and ax.name != "3d":
            low, high = sorted(ax.get_ylim())
            for tick in ax.yaxis.get_major_ticks():
                if low <= tick.get_loc() <= high:
                    yield f"{title_of(ax)}: {tick.label1.get_text()}", tick.label1
        for text in ax.texts:
            yield f"{title_of(ax)}: {text.get_text()}", text
    for legend in legends(figure):
        for text in legend.get_texts():
            yield f"legend: {text.get_text()}", text
    for text in figure.texts:
        yield text.get_text(), text


@some
def test_all_texts_of_figures_are_inside_the_picture(laid_out: Pictures, name: str) -> None:
    figure = laid_out(name)
    for words, text in written(figure):
        if text.get_text().strip() and text.get_visible():
            box = Text.get_window_extent(text)
            cut = np.r_[figure.bbox.min - box.min, box.max - figure.bbox.max].max()
            assert cut < 1, f"{words}: cut by {cut:.0f} pixels"


@some
def test_titles_labels_and_other_texts_do_not_overlap(laid_out: Pictures, name: str) -> None:
    boxes = [
        (words, Text.get_window_extent(text))
        for words, text in written(laid_out(name))
        if text.get_text().strip() and text.get_visible() and not isinstance(text, Annotation)
    ]
    for (one, a), (other, b) in combinations(boxes, 2):
        shared = np.minimum(a.max, b.max) - np.maximum(a.min, b.min)
        assert shared.min() < 1, f"{one} | {other}"


def colors_shown(figure: Figure) -> set[tuple[float, ...]]:
    """Return the colors of all lines, points, areas and arrows that are visible in their panels."""
    found: set[Any] = set()
    for ax in panels(figure):
        for line in ax.lines:
            if ax.name == "3d" or inside(ax, line.get_xydata()).any():
                found |= {to_rgba(line.get_color(), 1), to_rgba(line.get_markerfacecolor(), 1)}
        for many in ax.collections:
            found |= {(*color[:3], 1.0) for color in many.get_facecolor()}
            found |= {(*color[:3], 1.0) for color in many.get_edgecolor()}
        found |= {to_rgba(patch.get_facecolor(), 1) for patch in ax.patches}
        for text in ax.texts:
            arrow = getattr(text, "arrow_patch", None)
            if arrow is not None and is_drawn(ax, text):
                found.add(to_rgba(arrow.get_edgecolor(), 1))
    return found


@every
def test_the_color_of_every_entry_in_a_legend_is_visible_in_the_figure(
    pictures: Pictures, name: str
) -> None:
    figure = pictures(name)
    shown = colors_shown(figure)
    for legend in legends(figure):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            color = getattr(handle, "get_color", getattr(handle, "get_facecolor", None))()
            color = np.atleast_2d(np.asarray(color, dtype=object))[0]
            color = color[0] if len(color) == 1 else tuple(color)
            assert to_rgba(color, 1) in shown, text.get_text()


@every
def test_a_part_of_every_curve_is_visible_in_its_panel(pictures: Pictures, name: str) -> None:
    """The limits of the panel may cut the rest off."""
    for ax in panels(pictures(name)):
        for line in ax.lines if ax.name != "3d" else ():
            points = np.asarray(line.get_xydata(), dtype=float)
            across = line.get_transform() != ax.transData  # across a panel, such as a bound
            if len(points) and not across:
                assert inside(ax, points).any(), (title_of(ax), line.get_label())


# ---- the curves of the papers' figures -----------------------------------------------------------


def curve(ax: Axes, label: str) -> Array:
    """Return the points (K, 2) of the line with the given label."""
    return np.asarray(_line(ax, label).get_xydata(), dtype=float)


def _line(ax: Axes, label: str) -> Any:
    (line,) = (line for line in ax.lines if line.get_label() == label)
    return line


METHODS = {
    "constant": "constant λ",
    "variable": "variable λ, eq. (14)",
    "filtered_as_printed": "filtered, α as printed",
    "filtered": "filtered, α by component",
}
# Experiment, title of the panel, column of the abscissa, and for each label a column and the factor
# by which the figure multiplies it.
CURVES: tuple[tuple[str, str, str, dict[str, tuple[str, float]]], ...] = (
    (
        "w-one-link",
        "Joint speed that best",
        "theta",
        {f"α = 0.{k}": (f"alpha_0_{k}.speed", 1.0) for k in (10, 15, 20)},
    ),
    (
        "mk-damping",
        "A component",
        "sigma",
        {"damped": ("gain", 1), "undamped": ("undamped_gain", 1)},
    ),
    *(
        (
            name,
            title,
            "interval",
            {label: (f"{method}.{column}", factor) for method, label in METHODS.items()},
        )
        for name in ("mk-two-link", "mk-puma-a", "mk-puma-b", "mk-puma-c")
        for title, column, factor in (
            ("Velocity error ‖", "error", 100.0),
            ("Joint speed ‖", "joint_speed", 1.0),
        )
    ),
    (
        "mk-puma-c-modified",
        "The two smallest",
        "interval",
        {"σ̂, the paper's, damped": ("paper.sigma", 1.0), "σ̂, undamped": ("undamped.sigma", 1.0)},
    ),
    *(
        (
            "dw-choice",
            title,
            "direction",
            {
                rule.replace("_", " "): (f"{rule}.{column}", factor)
                for rule in (
                    "constant",
                    "manipulability",
                    "speed_bound",
                    "condition_bound",
                    "region",
                    "filter",
                    "optimal",
                )
            },
        )
        for title, column, factor in (("Error", "error", 100.0), ("Joint speed", "speed", 1.0))
    ),
    *(
        (
            name,
            title,
            "time",
            {"pseudoinverse": ("pinv.speed", 1), "optimal damping": ("optimal.speed", 1)},
        )
        for name, title in (("dw-planar", "Joint speeds"), ("dw-puma", "Joint speeds"))
    ),
    (
        "dw-obstacle",
        "Joint speeds",
        "time",
        {
            "without the subtask": ("without.speed", 1.0),
            "subtask, undamped (20)": ("undamped.speed", 1.0),
            "subtask, damped (25)": ("damped.speed", 1.0),
        },
    ),
)


@pytest.mark.parametrize(
    ("name", "title", "over", "expected"), CURVES, ids=[f"{c[0]}-{c[1]}" for c in CURVES]
)
def test_curves_of_figures_have_the_data_of_the_tables(
    ran: Ran,
    pictures: Pictures,
    name: str,
    title: str,
    over: str,
    expected: dict[str, tuple[str, float]],
) -> None:
    curves, ax = ran(name).curves, panel(pictures(name), title)
    for label, (column, factor) in expected.items():
        points = curve(ax, label)
        np.testing.assert_allclose(points[:, 1], factor * curves[column], rtol=1e-12, err_msg=label)
        x = np.degrees(curves[over]) if over == "theta" else curves[over]
        np.testing.assert_allclose(points[:, 0], x, rtol=1e-9, atol=1e-12)
    styles = [
        (_line(ax, label).get_color(), _line(ax, label).get_linestyle()) for label in expected
    ]
    assert len({str(each) for each in styles}) == len(styles)


def test_the_figure_of_the_gain_shows_both_formulas_and_the_bound(
    ran: Ran, pictures: Pictures
) -> None:
    """MK Fig. 1: the scaled gains are 2γ/(1 + γ²) and 2/γ with γ = σ/ρ; in mk-damping, λ = 0.1."""
    (ax,) = pictures("n-gain").axes
    damped, undamped = (np.asarray(line.get_xydata(), dtype=float) for line in ax.lines[:2])
    x = damped[:, 0]
    assert x[0] < 1e-3 < 1e3 < x[-1]
    np.testing.assert_allclose(damped[:, 1], 2 * x / (1 + x**2), rtol=1e-9)
    np.testing.assert_allclose(undamped, np.stack([x, 2 / x], axis=1), rtol=1e-9)
    assert {"undamped, 1/σ", "bound 1/(2ρ), reached at σ = ρ"} <= {t.get_text() for t in ax.texts}
    ax = panel(pictures("mk-damping"), "A component")
    sigma, gain = curve(ax, "damped").T
    np.testing.assert_allclose(gain, sigma / (sigma**2 + 0.01), rtol=1e-9)
    np.testing.assert_allclose(curve(ax, "undamped")[:, 1], 1 / sigma, rtol=1e-9)


def test_the_figure_of_the_square_shows_the_arm_the_square_and_the_reach(
    ran: Ran, pictures: Pictures
) -> None:
    """MK Fig. 2: the arm at A, the square with corners A to D, the limit of the reach and the inner
    singularity.
    """
    ax = panel(pictures("mk-two-link"), "Path of the hand")
    curves = ran("mk-two-link").curves
    for method, label in METHODS.items():
        points = curve(ax, label)
        np.testing.assert_allclose(points[:-1], curves[f"{method}.hand"], atol=1e-12)
    others = [line.get_xydata() for line in ax.lines if line.get_label().startswith("_")]
    radii = [np.hypot(*np.asarray(points).T) for points in others if len(points) > 50]
    assert {round(float(r[0]), 9) for r in radii if np.ptp(r) < 1e-9} == {2.1, 0.1}
    corners = {"A": (0.1, -1), "B": (2.1, -1), "C": (2.1, 1), "D": (0.1, 1)}
    marked = {text.get_text(): text.xy for text in ax.texts if text.get_text() in corners}
    assert marked == {name: pytest.approx(at) for name, at in corners.items()}
    target = next(np.asarray(points) for points in others if len(points) == 801)
    np.testing.assert_allclose(target[[0, 200, 400, 600]], list(corners.values()), atol=1e-12)
    arm = np.asarray(panel(pictures("mk-two-link"), "The arm").lines[1].get_xydata())
    np.testing.assert_allclose(np.linalg.norm(np.diff(arm, axis=0), axis=1), [1.1, 1.0])
    np.testing.assert_allclose(arm[-1], corners["A"], atol=1e-9)


@pytest.mark.parametrize("name", ["mk-puma-a", "mk-puma-b", "mk-puma-c"])
def test_figures_show_errors_speeds_and_singular_values_along_a_path(
    ran: Ran, pictures: Pictures, name: str
) -> None:
    """MK Fig. 6 to 9: the errors and speeds of each method, and six singular values with their
    names.
    """
    curves, figure = ran(name).curves, pictures(name)
    for title, column, factor in (
        ("Velocity error", "error", 100),
        ("Joint speed", "joint_speed", 1),
    ):
        for method, label in METHODS.items():
            points = curve(panel(figure, title), label)
            np.testing.assert_allclose(points[:, 1], factor * curves[f"{method}.{column}"])
    ax = panel(figure, "Singular values")
    drawn = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) > 2]
    np.testing.assert_allclose(np.array(drawn).T, curves["filtered.sigma"])
    named = [text.get_text() for text in ax.texts if text.get_text().startswith("σ")]
    assert named == [f"σ{i}" for i in range(1, 7)]


def test_the_figure_of_the_crossing_shows_two_singular_values_and_their_estimates(
    ran: Ran, pictures: Pictures
) -> None:
    """MK Fig. 10: σ₅, σ₆, the estimates, and the alignment of the estimated direction."""
    curves, figure = ran("mk-puma-c-modified").curves, pictures("mk-puma-c-modified")
    ax = panel(figure, "The two smallest")
    for i in (5, 6):
        np.testing.assert_allclose(curve(ax, f"σ{i}")[:, 1], curves["sigma"][:, i - 1])
    for label, who in (("σ̂, the paper's, damped", "paper"), ("σ̂, undamped", "undamped")):
        np.testing.assert_allclose(curve(ax, label)[:, 1], curves[f"{who}.sigma"])
    lines = panel(figure, "Alignment").lines
    for line, who in zip(lines, ("paper", "undamped"), strict=False):
        np.testing.assert_allclose(line.get_ydata(), curves[f"{who}.alignment"])


def test_figures_show_configurations_and_paths_of_the_puma(ran: Ran, pictures: Pictures) -> None:
    """MK Fig. 4 and 5: the arm at each singularity, and the trajectories through
    the singularities.
    """
    from supple.papers.maciejewski_klein import courses

    curves, figure = ran("mk-configurations").curves, pictures("mk-configurations")
    for title, name in (
        ("Wrist", "wrist"),
        ("Shoulder", "shoulder"),
        ("Elbow", "elbow"),
        ("Triple", "triple"),
    ):
        arm = np.array(panel(figure, title).lines[0].get_data_3d()).T  # type: ignore[attr-defined]
        np.testing.assert_allclose(arm, curves[f"{name}.place"], atol=1e-12)
    for title, course in (
        ("Triple", courses.course_c()),
        ("Trajectory A", courses.course_a()),
        ("Trajectory B", courses.course_b()),
    ):
        longest = max(panel(figure, title).lines, key=lambda line: len(line.get_data_3d()[0]))  # type: ignore[attr-defined]
        path = np.array(longest.get_data_3d()).T  # type: ignore[attr-defined]
        np.testing.assert_allclose(path, course.poses[:, :3, 3], atol=1e-12)


def test_the_figure_shows_the_circle_of_the_tool_edge_on(pictures: Pictures) -> None:
    """MK Fig. 6: on its way up and on its way down, the tool is at different places."""
    from supple.papers.maciejewski_klein.courses import MAX_GAIN, course_a, followed_by_all
    from supple.papers.maciejewski_klein.drawing import joints_of
    from supple.papers.maciejewski_klein.inverse import PUMA

    figure, runs = pictures("mk-puma-a"), followed_by_all(course_a(), MAX_GAIN)
    ax = panel(figure, "Path of the tool, edge-on")
    for method, label in METHODS.items():
        tool = PUMA.fk(runs.moved[method].q)[:, :3, 3]
        drawn = curve(ax, label)
        np.testing.assert_allclose(drawn[:, 0], 1e3 * (tool[:, 0] - tool[0, 0]), atol=1e-9)
        np.testing.assert_allclose(drawn[:, 1], tool[:, 2], atol=1e-12)
        assert inside(ax, drawn).all()
    circle = course_a().poses[:, :3, 3]
    assert np.ptp(circle[:, 0]) < 1e-12  # its plane is a vertical line in the figure
    assert [*ax.lines[-1].get_xdata()] == [0, 0]
    for title, method in (("The arm with a c", "constant"), ("The arm with the f", "filtered")):
        whole, *arms = (line for line in panel(figure, title).lines if len(line.get_xdata()) > 2)
        np.testing.assert_allclose(whole.get_xydata(), circle[:, 1:], atol=1e-12)
        places = joints_of(runs.moved[method].q)[..., 1:]
        for arm in arms:
            np.testing.assert_allclose(
                np.abs(places - arm.get_xydata()).max(axis=(1, 2)).min(), 0, atol=1e-12
            )
        assert len(arms) == 9


def test_the_figure_of_costs_shows_the_operations_of_each_method_and_the_shares(
    ran: Ran, pictures: Pictures
) -> None:
    """MK V: the shares are those that the claims of the paper state."""
    outcome, figure = ran("mk-cost"), pictures("mk-cost")
    joints, found = outcome.curves["joints"], outcome.quantities
    for label, name in (("DLS", "damped"), ("DLS with σ̂", "estimated")):
        drawn = curve(panel(figure, "Operations"), label)
        np.testing.assert_allclose(drawn.T, [joints, outcome.curves[f"{name}.operations"]])
    ax = panel(figure, "What filtering adds")
    for label, name in (
        ("to DLS alone", "n6.added_beside_damping"),
        ("to DLS with σ̂", "n6.added"),
        ("to DLS with σ̂, and J", "n6.added_overall"),
    ):
        drawn = curve(ax, label)
        assert drawn[joints == 6, 1] == pytest.approx(100 * found[name])
        assert inside(ax, drawn).all()
    assert [*ax.lines[-1].get_xdata()] == [6, 6]
    assert "six joints" in [text.get_text() for text in ax.texts]


def test_the_figure_of_many_paths_shows_shares_and_errors(ran: Ran, pictures: Pictures) -> None:
    """MK Fig. 7 to 10: there is a bar for each statement and a point for each path."""
    outcome, figure = ran("mk-paths"), pictures("mk-paths")
    ax = panel(figure, "Share of the paths")
    widths = [bar.get_width() for bar in ax.patches]
    shares = [x for name, x in outcome.quantities.items() if name.count(".") == 1]
    np.testing.assert_allclose(widths, 100 * np.array(shares))
    named = [text.get_text() for text in ax.get_yticklabels()]
    assert [f"trajectory {each}" for each in named] == [each.paper for each in outcome.claims]
    for kind, title in (("b", "B: integral"), ("c", "C: integral")):
        points = np.asarray(panel(figure, title).lines[0].get_xydata(), dtype=float)
        for column, method in enumerate(("variable", "filtered_as_printed")):
            sums = outcome.curves[f"{kind}.{method}.integral_error"]
            np.testing.assert_allclose(points[:, column], sums)
        assert inside(panel(figure, title), points).all()


def test_the_figure_of_two_links_shows_a_harmless_and_a_lost_velocity(pictures: Pictures) -> None:
    """DW Fig. 1: of two arrows at the hand, one is along x, the direction that is lost, and one
    along y.
    """
    ax = panel(pictures("dw-choice"), "A singular configuration")
    arm = np.asarray(ax.lines[0].get_xydata(), dtype=float)
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    ways = sorted(tuple(np.round(np.subtract(text.xy, text.xyann), 9)) for text in arrows)
    assert [way[0] == 0 for way in ways] == [True, False]
    assert ways[0][1] > 0 == ways[1][1]
    for text in arrows:
        np.testing.assert_allclose(text.xyann, arm[-1], atol=1e-9)
    words = " ".join(text.get_text() for text in ax.texts)
    assert "X: lost" in words
    assert "Y: harmless" in words


def test_figures_show_the_norm_of_the_speeds_over_the_damping(ran: Ran, pictures: Pictures) -> None:
    """DW Fig. 2 and 3: φ over λ with the bound Δ and the root, and the norm over the shifted λ."""
    outcome, figure = ran("dw-phi"), pictures("dw-phi")
    lam = outcome.curves["lambda"]
    for title, column in (("φ(λ)", "phi"), ("1/φ(λ)", "reciprocal")):
        ax = panel(figure, title)
        x, y = np.asarray(ax.lines[0].get_xydata(), dtype=float).T
        np.testing.assert_allclose(x, lam[: len(x)])
        np.testing.assert_allclose(y, outcome.curves[column][: len(x)])
        assert x[-1] > 2 * outcome.quantities["root"]
        root = np.asarray(ax.lines[1].get_xydata(), dtype=float)[0]
        assert root[0] == pytest.approx(outcome.quantities["root"])
        assert np.interp(root[0], x, y) == pytest.approx(root[1], rel=0.05)
    ax = panel(figure, "With a subtask")
    x, y = np.asarray(ax.lines[0].get_xydata(), dtype=float).T
    np.testing.assert_allclose(y, outcome.curves["shifted_total"][-len(x) :])
    np.testing.assert_allclose(x, lam[-len(x) :])
    assert "Δ = 5" in [text.get_text() for text in ax.texts]
