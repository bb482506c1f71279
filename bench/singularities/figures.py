"""One picture for each kind of passage: errors, speeds and accelerations of some methods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .arms import ROBOTS
from .measures import errors
from .passages import MOVES, RESTS, Passage, passage
from .singular import Array

BINS = 100  # of time; the maximum of each is drawn, so that no peak is lost
# Okabe and Ito's palette, which is safe for colour-blind readers; line styles differ as well
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
    """Return the curves of a run (3, BINS)."""
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

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": kind, "font.size": 9}
    mpl.rcParams["font.sans-serif"] = ["DejaVu Sans"]
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
    figure.savefig(to, metadata={"Date": None, "Creator": None})
    if to.suffix == ".svg":
        to.write_text(shortened(to.read_text()))


def shortened(svg: str) -> str:
    """Return a smaller file of the same picture: coordinates to a tenth of a point, no ids."""

    def rounded(attribute: re.Match[str]) -> str:
        short = re.sub(r"-?\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}", attribute[0])
        return re.sub(r"\s*\n\s*L ", "L", short)

    svg = re.sub(r' id="[a-z0-9.]+_\d+"', "", svg)
    return re.sub(r"\n\s+", "\n", re.sub(r'"[^"]*"', rounded, svg))
