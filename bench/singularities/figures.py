"""Pictures: errors, speeds and accelerations of each kind of passage; error against smoothness."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .arms import ROBOTS
from .measures import Measures, errors
from .passages import KINDS, MOVES, RESTS, Passage, passage
from .singular import Array

BINS = 100  # number of time bins; the maximum of a bin is drawn, so no peak is lost
# Okabe and Ito's palette, which color-blind readers can distinguish; line styles differ as well.
SHOWN = {
    "Servo": {"color": "#0072B2", "lw": 2.2, "zorder": 5},
    "DLS Optimal": {"color": "#E69F00", "lw": 1.4, "ls": "-"},
    "DLS SpeedBound": {"color": "#009E73", "lw": 1.4, "ls": "--"},
    "Pink": {"color": "#CC79A7", "lw": 1.4, "ls": "-."},
    "plain pinv": {"color": "#D55E00", "lw": 1.2, "ls": "-"},
    "halting": {"color": "#000000", "lw": 1.4, "ls": ":"},
}
ROWS = (
    ("tip off [mm]", (1e-2, 3e3)),
    ("fastest joint\n/ its limit", (1e-2, 1e2)),
    ("largest joint\nacceleration [rad/s²]", (1e-1, 1e4)),
)


def series(passage: Passage, q: Array) -> Array:
    """Return curves of a run (3, BINS): position error [mm], relative speed, acceleration."""
    qd = np.diff(q, axis=0) / passage.dt
    qdd = np.diff(qd, axis=0, prepend=np.zeros((1, q.shape[1]))) / passage.dt
    off = 1e3 * errors(passage, q)[1:, 0]
    rows = (off, (np.abs(qd) / passage.robot.max_speed).max(axis=1), np.abs(qdd).max(axis=1))
    return np.array([[part.max() for part in np.array_split(each, BINS)] for each in rows])


def draw(kind: str, runs: Mapping[str, Mapping[str, Array]], to: Path) -> None:
    """Draw a kind of passage for all robots: {robot: {method: series}}."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    mpl.rcParams |= {"svg.fonttype": "none", "font.size": 9, "font.sans-serif": ["DejaVu Sans"]}
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    axes = figure.subplots(len(ROWS), len(ROBOTS), sharex=True, sharey="row")
    t = (np.arange(BINS) + 0.5) * (MOVES + RESTS) / BINS
    for column, name in zip(axes.T, ROBOTS, strict=True):
        here = passage(name, kind)
        column[0].set_title(name + (" (avoidable)" if here.avoidable else ""))
        for ax, (label, limits), k in zip(column, ROWS, range(len(ROWS)), strict=True):
            ax.axvspan(*here.singular, color="#000000", alpha=0.10, lw=0)
            ax.set(yscale="log", ylim=limits, xlim=(0, MOVES + RESTS))
            ax.grid(alpha=0.25)
            ax.yaxis.set(
                major_locator=LogLocator(numticks=9),
                major_formatter=lambda y, _: f"{y:g}",
                minor_locator=NullLocator(),
            )
            ax.tick_params(bottom=False, left=False)
            for method, style in SHOWN.items():
                if method in runs[name]:
                    shown = np.clip(runs[name][method][k], limits[0] / 2, limits[1] * 2)
                    ax.plot(t, shown, label=method, **style)
            if name == ROBOTS[0]:
                ax.set_ylabel(label)
        column[1].axhline(1.0, color="#777777", lw=0.8)
        column[-1].set_xlabel("time [s]")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(to)


# Methods that are named in the pictures of error against acceleration; all others are gray.
NAMED = {
    "Servo": {"color": "#0072B2", "marker": "o", "s": 60},
    "Servo, scale": {"color": "#56B4E9", "marker": "D", "s": 34},
    "DLS SpeedBound": {"color": "#009E73", "marker": "^", "s": 34},
    "Pseudoinverse": {"color": "#E69F00", "marker": "v", "s": 34},
    "Pink": {"color": "#CC79A7", "marker": "s", "s": 34},
    "Pink, tuned": {"color": "#CC79A7", "marker": "P", "s": 44},
    "mink, tuned": {"color": "#D55E00", "marker": "X", "s": 44},
    "halting": {"color": "#000000", "marker": "*", "s": 44},
}
ERROR, ROUGH = (3e-3, 4e2), (1e0, 3e3)  # axis limits [mm], [rad/s²]; points beyond are on the edge
Point = tuple[float, float]  # acceleration, error


def front(points: Mapping[str, Point]) -> list[Point]:
    """Return the Pareto front of the points, sorted by acceleration."""
    best: list[Point] = []
    for x, y in sorted(points.values()):
        if not best or y < best[-1][1]:
            best.append((x, y))
    return best


def pareto(measures: Mapping[tuple[str, str], Mapping[str, Measures]], to: Path) -> None:
    """Draw error over acceleration of all methods: one picture per passage, and one for all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"font.size": 8, "font.sans-serif": ["DejaVu Sans"]}
    figure = Figure(figsize=(11, 15.5), layout="constrained")
    top, below = figure.subfigures(2, 1, height_ratios=[1, 3.2])
    overall: dict[str, Point] = {}
    for name in dict.fromkeys(name for runs in measures.values() for name in runs):
        mine = [runs[name] for runs in measures.values() if name in runs]
        if len(mine) == len(measures):
            error = float(np.median([m.position_rms for m in mine]))
            overall[name] = max(m.acceleration for m in mine), 1e3 * error
    one = top.subplots(1, 1)
    _scatter(one, overall)
    one.set(
        title=f"all {len(measures)} passages",
        xlabel="largest acceleration [rad/s²]",
        ylabel="median rms error [mm]",
    )
    one.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    axes = below.subplots(len(KINDS), len(ROBOTS), sharex=True, sharey=True)
    for row, kind in zip(axes, KINDS, strict=True):
        for ax, robot in zip(row, ROBOTS, strict=True):
            runs = measures[robot, kind]
            _scatter(ax, {n: (m.acceleration, 1e3 * m.position_rms) for n, m in runs.items()})
            ax.set_title(f"{robot}, {kind}")
        row[0].set_ylabel("rms error [mm]")
    for ax in axes[-1]:
        ax.set_xlabel("largest acceleration [rad/s²]")
    figure.savefig(to, dpi=127)


def _scatter(ax: Any, points: Mapping[str, Point]) -> None:
    """Draw the points of one picture, and their Pareto front."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set(xscale="log", yscale="log", xlim=ROUGH, ylim=ERROR)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set(major_locator=LogLocator(numticks=9), minor_locator=NullLocator())
        axis.set_major_formatter(lambda x, _: f"{x:g}")
    ax.tick_params(bottom=False, left=False)
    ax.grid(alpha=0.25)
    shown = {
        name: (float(np.clip(x, *ROUGH)), float(np.clip(y, *ERROR)))
        for name, (x, y) in points.items()
    }
    others = [at for name, at in shown.items() if name not in NAMED]
    if others:
        ax.scatter(*zip(*others, strict=True), c="#BBBBBB", s=10, lw=0, label="others")
    ax.step(*zip(*front(shown), strict=True), where="post", color="#777777", lw=0.8)
    for name, style in NAMED.items():
        if name in shown:
            ax.scatter(*shown[name], label=name, lw=0, alpha=0.9, zorder=5, **style)
