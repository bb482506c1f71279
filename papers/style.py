"""The common style of the papers' figures: line styles, panels, labels next to the curves.

Curves differ in line style as well as in color, so that figures can be printed in gray. Where there
is room, labels are next to the curves.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from supple.papers.experiment import Outcome

from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Array: TypeAlias = NDArray[np.floating[Any]]

# Colors and line styles of the methods, in order. Yellow is left out: it is hard to see on white.
STYLES: tuple[tuple[str, Any], ...] = (
    (palette.VERMILION, "-"),
    (palette.BLUE, (0, (5, 1.5))),
    (palette.GREEN, (0, (7, 1.5, 1.5, 1.5))),
    (palette.PURPLE, (0, (1.0, 1.0))),
    (palette.ORANGE, (0, (3, 1, 1, 1, 1, 1))),
    (palette.SKY, (0, (9, 3))),
    (palette.BLACK, (0, (2, 3))),
)

FORMATS = ("png", "svg", "pdf")

SIZE = (9.5, 6.5)  # [inch]; `draw` may set another


def rendered(outcome: Outcome, name: str, format: str) -> bytes:
    """Return the figure as bytes in one of `FORMATS`; the same numbers give the same bytes."""
    return written(laid_out(outcome), name, format)


def laid_out(outcome: Outcome) -> Figure:
    """Return the figure of an outcome, with all panels and texts at their final places."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(palette.LOOK):
        figure = Figure(figsize=SIZE, layout="constrained")
        outcome.draw(figure)
        check_annotations(figure)
        figure.set_layout_engine(None)  # writing a file then does not change the layout
    return figure


def written(figure: Figure, name: str, format: str) -> bytes:
    """Return a figure as the bytes of a file in one of `FORMATS`."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({**palette.LOOK, "svg.hashsalt": name}):
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
        figure.savefig(file, format=format, metadata=metadata)
    return file.getvalue()


def check_annotations(figure: Figure) -> None:
    """Check that every annotation is drawn: Matplotlib omits those that point outside of a panel.

    Raises:
        ValueError: An annotation would be omitted.
    """
    from matplotlib.text import Annotation

    figure.draw_without_rendering()  # settles the limits of panels with equal scales
    for ax in figure.axes:
        for each in ax.texts:
            if not isinstance(each, Annotation) or each.xycoords != "data":
                continue
            clipped = each.get_annotation_clip() is not False
            x, y = ax.transData.transform(each.xy)
            if clipped and not ax.patch.contains_point((float(x), float(y)), radius=1.0):
                what = f"{each.get_text()!r} at {each.xy} in {ax.get_title()!r}"
                raise ValueError(f"an annotation is outside of its panel: {what}")


def write(outcome: Outcome, name: str, path: Path) -> None:
    """Write the experiment's figure to a file whose suffix is one of `FORMATS`."""
    path.write_bytes(rendered(outcome, name, path.suffix.lstrip(".").lower()))


def style_of(index: int) -> dict[str, Any]:
    """Return the color and line style of the method with this index."""
    color, dashes = STYLES[index % len(STYLES)]
    return {"color": color, "linestyle": dashes}


def titled(ax: Axes, title: str, x: str, y: str) -> Axes:
    """Set the title and the axis labels of a panel, with units: `joint speed ‖q̇‖ [rad/s]`."""
    ax.set_title(title)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    return ax


def curves(
    ax: Axes, x: ArrayLike, ys: Mapping[str, ArrayLike], *, first: int = 0, **how: Any
) -> list[Line2D]:
    """Draw one curve for each method, in the common order of colors and line styles."""
    return [
        ax.plot(x, y, label=name, **{**style_of(first + k), **how})[0]
        for k, (name, y) in enumerate(ys.items())
    ]


def legend(figure: Figure, ax: Axes) -> None:
    """Draw one legend for all panels, below them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=3.2)


def bound(ax: Axes, y: float, text: str, *, at: float = 0.99, below: bool = False) -> None:
    """Draw a thin line across the panel for a limit, with a label."""
    ax.axhline(y, color=palette.GRAY, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    side = "right" if at > 0.5 else "left"
    ax.annotate(
        text,
        (at, y),
        xycoords=("axes fraction", "data"),
        xytext=(0, -3 if below else 3),
        textcoords="offset points",
        ha=side,
        va="top" if below else "bottom",
        color="#555555",
        fontsize=8.5,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
    )


def arrow(ax: Axes, tail: ArrayLike, tip: ArrayLike, color: str) -> None:
    """Draw an arrow in data coordinates; the panel's limits grow to contain it."""
    ends = np.array([tail, tip], dtype=float)
    ax.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
    contain(ax, ends)


def contain(ax: Axes, points: ArrayLike) -> None:
    """Extend the limits that Matplotlib chooses from the data, so that they contain points."""
    ax.update_datalim(np.asarray(points, dtype=float).reshape(-1, 2))
    ax.autoscale_view()


def note(
    ax: Axes, text: str, at: tuple[float, float], to: tuple[float, float] | None = None
) -> None:
    """Write text at a place in data coordinates, with an arrow to `to` if it is given. The panel's
    limits grow to contain both places, because Matplotlib omits annotations outside of a panel.
    """
    contain(ax, [at, at if to is None else to])
    arrow = {"arrowstyle": "->", "color": "#555555", "linewidth": 0.8}
    ax.annotate(
        text,
        at if to is None else to,
        xytext=at,
        fontsize=8.5,
        color="#333333",
        arrowprops=None if to is None else arrow,
    )


def spectrum(ax: Axes, sigma: Array) -> None:
    """Draw singular values (K, k), largest first, on a logarithmic scale, with labels."""
    last = sigma.shape[1] - 1
    for i, values in enumerate(sigma.T):
        color, width = (palette.VERMILION, 2.2) if i == last else (palette.BLUE, 1.3)
        ax.semilogy(values, color=color, linewidth=width)
    low, high = np.log(ax.get_ylim())
    at = apart(np.log(np.maximum(sigma[-1], 1e-300)), 0.05 * (high - low))
    for i, height in enumerate(np.exp(at)):
        ax.annotate(
            f"σ{i + 1}",
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=palette.VERMILION if i == last else palette.BLUE,
            fontsize=8.5,
            annotation_clip=False,
        )


def apart(heights: ArrayLike, gap: float) -> Array:
    """Return the decreasing heights of labels, moved apart where their distance is less than `gap`.

    Labels that are too close are spread about their mean.
    """
    groups = [[float(height)] for height in np.asarray(heights)]
    merged: list[list[float]] = []
    for group in groups:
        merged.append(group)
        while len(merged) > 1:
            above, below = merged[-2:]
            lowest = np.mean(above) - gap * (len(above) - 1) / 2
            if lowest - (np.mean(below) + gap * (len(below) - 1) / 2) >= gap:
                break
            merged[-2:] = [above + below]
    spread = [np.mean(g) + gap * ((len(g) - 1) / 2 - np.arange(len(g))) for g in merged]
    return np.concatenate(spread)


def arms(ax: Axes, joints: Array, number: int, **how: Any) -> None:
    """Draw an arm in several configurations, later ones darker.

    Args:
        ax: The panel, whose two axes are given equal scales.
        joints: Positions of the joints from the base to the hand (K, joints, 2) [m].
        number: Index of the method, which sets the color.
        how: Other options of the lines.
    """
    color = style_of(number)["color"]
    shades = np.linspace(1.0, 0.25, len(joints))[::-1]
    for dark, places in zip(shades, joints, strict=True):
        look = {"color": color, "alpha": dark, "linewidth": 1.4, "ms": 3} | how
        ax.plot(*places.T, "o-", **look)
        ax.plot(*places[-1], "o", color=color, alpha=dark, ms=5, mec="black", mew=0.5)
    base = joints[0, 0]
    ax.plot(*base, "s", color=palette.BLACK, ms=5)
    ax.set_aspect("equal", adjustable="datalim")
