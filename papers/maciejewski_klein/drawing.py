"""Drawings of motions of the PUMA: the arm along the path, errors, speeds, singular values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.maciejewski_klein.courses import Runs
from supple.papers.maciejewski_klein.inverse import D2, PUMA
from supple.papers.maciejewski_klein.methods import LABELS, error, norm
from supple.papers.style import Array

from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINKS = ["link0", "link2", "link3", "link4", "link6"]


def joints_of(q: Array) -> Array:
    """Return the positions (..., 6, 3) [m] of base, shoulder, elbow, forearm, wrist and tool."""
    places = PUMA.fk(q, LINKS)[..., :3, 3]
    aside = np.stack([-np.sin(q[..., 0]), np.cos(q[..., 0]), 0 * q[..., 0]], axis=-1)
    shoulder = D2 * aside[..., None, :]
    return np.concatenate([places[..., :1, :], shoulder, places[..., 1:, :]], axis=-2)


def figure_of(
    runs: Runs, across: str, up: str, *, edge: str = "", shown: int = 9
) -> Callable[[Figure], None]:
    """Return a function that draws errors, speeds, the arm at some times, and singular values.

    If `edge` names an axis across the path's plane, the path of the tool is drawn edge-on: the
    distance of the tool from that plane over the height of the tool.
    """
    i, k = "xyz".index(across), "xyz".index(up)

    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 8)
        panels = figure.subplot_mosaic(
            [["error", "constant"], ["speed", "filtered"], ["sigma", "path"]]
        )
        at = runs.course.poses[:, :3, 3]
        for n, (name, moved) in enumerate(runs.moved.items()):
            how = style.style_of(n) | {"label": LABELS[name]}
            intervals = np.arange(len(moved.qd))
            panels["error"].plot(intervals, 100 * error(moved), **how)
            panels["speed"].plot(intervals, norm(moved.qd), **how)
            tool = PUMA.fk(moved.q)[:, :3, 3]
            if edge:
                off = 1e3 * (tool - at[0])[:, "xyz".index(edge)]
                panels["path"].plot(off, tool[:, k], **how)
            else:
                panels["path"].plot(tool[:, i], tool[:, k], **how)
        for name, title in (
            ("constant", "The arm with a constant λ"),
            ("filtered", "The arm with the filter, α by component"),
        ):
            ax = style.titled(panels[name], title, f"{across} [m]", f"{up} [m]")
            ax.plot(at[:, i], at[:, k], color=palette.GRAY, linewidth=1, zorder=1)
            q = runs.moved[name].q
            some = np.linspace(0, len(q) - 1, shown).astype(int)
            number = list(runs.moved).index(name)
            style.arms(ax, joints_of(q[some])[..., [i, k]], number)
        ax = panels["path"]
        if edge:
            title = "Path of the tool, edge-on: up and down again"
            style.titled(ax, title, f"{edge}, from the plane of the circle [mm]", f"{up} [m]")
            ax.axvline(0, color=palette.GRAY, linewidth=1, zorder=1)
        else:
            style.titled(ax, "Path of the tool", f"{across} [m]", f"{up} [m]")
            ax.plot(at[:, i], at[:, k], color=palette.GRAY, linewidth=1, zorder=1)
            ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.1)
        sigma = runs.singular_values("filtered")
        style.spectrum(panels["sigma"], sigma)
        style.bound(panels["sigma"], 1 / runs.max_gain, "")
        for name, title, unit in (
            ("error", "Velocity error ‖ẋ − Jθ̇‖/‖ẋ‖", "[%]"),
            ("speed", "Joint speed ‖θ̇‖", "[rad per interval]"),
            ("sigma", "Singular values of J; damped below 1/θ̇max (dashed)", "[m or rad, mixed]"),
        ):
            style.titled(panels[name], title, "interval", unit)
            panels[name].set_xlim(0, len(sigma))
        for name in ("error", "speed"):
            panels[name].set_ylim(bottom=0)
        style.legend(figure, panels["error"])

    return draw
