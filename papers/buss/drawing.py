"""Plot of a `Comparison`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.buss.comparison import NAMES, RARE, Comparison
from supple.papers.buss.figures import Followed, Shape

import supple
from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


def figure_of(found: Comparison) -> Callable[[Figure], None]:
    """Return a function that draws a comparison: the articulated figure, the distances to the
    targets over time, their sums, and the errors of DLS over the damping.
    """

    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 7.5)
        (body, distance), (bars, sweep) = figure.subplots(2, 2)
        _body(body, found.shape, found.methods["dls_clamped"])
        style.titled(body, "The figure (DLS'), its targets and their ways", "x [m]", "y [m]")
        _distances(distance, found.methods)
        style.titled(distance, "Distance to the targets", "update", "mean of the effectors [m]")
        _bars(bars, found.methods)
        style.titled(bars, "Total error, and moves that go back", "total error [m]", "method")
        _sweep(sweep, found)
        style.titled(sweep, "DLS by its damping", "λ [m]", "total error [m]")
        style.legend(figure, distance)

    return draw


def _body(ax: Axes, shape: Shape, run: Followed) -> None:
    """Draw the articulated figure, seen along z, in its zero pose (gray) and halfway through a run,
    with red balls at the targets of that moment, and the paths of the targets.
    """
    robot = supple.load(shape.name)
    for path in np.moveaxis(shape.path(2 * sum(shape.steps)), 1, 0):
        ax.plot(*path[:, :2].T, color=palette.VERMILION, linewidth=0.5, alpha=0.5)
    joints = {joint.child: joint.parent for joint in robot.description.joints}
    frames = {frame.name: frame.link for frame in robot.description.frames}
    half = len(run.goals) // 2
    for q, color in ((robot.neutral(), "#bbbbbb"), (run.q[half + 1], palette.BLACK)):
        for name, parent in (joints | frames).items():
            if parent in joints:
                line = robot.fk(q, [parent, name])[:, :2, 3]
                ax.plot(*line.T, "o-", color=color, linewidth=2.2, ms=3.5)
    ax.plot(*run.goals[half, :, :2].T, "o", color=palette.VERMILION, ms=10, mec="black")
    ax.margins(0.08)
    ax.set_aspect("equal", adjustable="datalim")


def _distances(ax: Axes, followed: dict[str, Followed]) -> None:
    count = len(followed["dls"].distance)
    window = max(1, count // 100)  # averaging keeps oscillation from filling the panel
    middle = np.arange(count // window) * window + window / 2
    whole = len(middle) * window
    means = {
        label: followed[name].distance[:whole].mean(axis=1).reshape(-1, window).mean(axis=1)
        for name, label in NAMES.items()
    }
    style.curves(ax, middle, means, linewidth=1.4)
    ax.set_ylim(0)


def _bars(ax: Axes, followed: dict[str, Followed]) -> None:
    for k, name in enumerate(NAMES):
        run = followed[name]
        ax.barh(k, run.total_error, color=style.STYLES[k][0], height=0.62)
        back = f"{run.oscillation:.1%} go back" if run.oscillation else "none goes back"
        ax.text(run.total_error, k, f" {run.total_error:.4g} m, {back}", va="center", fontsize=8.5)
    ax.set_yticks(range(len(NAMES)), list(NAMES.values()))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.85 * followed["transpose"].total_error)
    ax.grid(visible=False, axis="y")


def _sweep(ax: Axes, found: Comparison) -> None:
    """Draw total errors over the damping, with hollow markers where end effectors oscillate, and
    write fractions of reversed moves above the upper curve and below the lower curve.
    """
    from matplotlib.legend_handler import HandlerTuple

    both = (("dls", found.plain, found.clamped), ("dls_clamped", found.clamped, found.plain))
    kinds: dict[str, dict[str, Line2D]] = {"% of moves go back": {}, "calm": {}}
    for name, runs, others in both:
        look = style.style_of(list(NAMES).index(name))
        ax.plot(list(runs), [run.total_error for run in runs.values()], **look)
        for lam, run in runs.items():
            calm = run.oscillation <= RARE
            fill = look["color"] if calm else "white"
            (point,) = ax.plot(lam, run.total_error, "o", color=look["color"], mfc=fill, ms=7)
            kinds["calm" if calm else "% of moves go back"][name] = point
            if not calm:
                above = (run.total_error, name) > (others[lam].total_error, "dls")
                place, off = (lam, run.total_error), (0, 7 if above else -14)
                share = f"{run.oscillation:.0%}"
                ax.annotate(
                    share,
                    place,
                    off,
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
                )
    drawn = {label: tuple(points.values()) for label, points in kinds.items() if points}
    each = {tuple: HandlerTuple(ndivide=None)}  # the points of both methods side by side
    ax.legend(list(drawn.values()), list(drawn), handler_map=each, loc="lower right")
    ax.margins(0.1)
