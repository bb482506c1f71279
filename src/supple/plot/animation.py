"""Animations of robots, as a self-contained HTML page or a GIF."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.tables import replacing
from supple.errors import InputError, MissingExtraError, short_repr
from supple.plot import figures, palette
from supple.plot.shape import Matrix, shape_of

_FRAMES_PER_SECOND = 25
_MAX_FRAMES = 600
_DIGITS = 4  # number of digits of a coordinate in HTML, relative to the robot's size


@dataclass(frozen=True, eq=False)
class Arm:
    """A robot's motion in an animation.

    Attributes:
        robot: The robot.
        q: Configurations (K, n) at the times of the animation [rad or m].
        title: Title of its panel.
        color: Color of its links, "#rrggbb".
        target: Positions (K, 3), or (K, k, 3), of moving targets in the world [m].
        note: A short text for each time (K,), such as the speed.
    """

    robot: Any
    q: Matrix
    title: str
    color: str = palette.STEEL
    target: NDArray[Any] | None = None
    note: Sequence[str] = ()


class Animation:
    """An animation of robots side by side; notebooks display it, and `save` writes it to a file.

    In HTML, dragging rotates the view, and a slider selects the time.
    """

    def __init__(self, t: ArrayLike, arms: Sequence[Arm], *, title: str = "") -> None:
        """Prepare an animation.

        Args:
            t: Times (K,) [s], increasing.
            arms: Robots with their configurations at these times.
            title: Title of the page.
        """
        self._t, self._arms = np.asarray(t, dtype=np.float64), tuple(arms)
        self._title = title or ", ".join(dict.fromkeys(arm.robot.name for arm in self._arms))
        span = float(self._t[-1] - self._t[0])
        count = min(max(math.ceil(span * _FRAMES_PER_SECOND) + 1, 2), _MAX_FRAMES)
        wanted = np.linspace(self._t[0], self._t[-1], count)
        self._frames = np.clip(np.searchsorted(self._t, wanted), 0, len(self._t) - 1)

    def html(self) -> str:
        """Return a self-contained HTML page."""
        parts = files("supple.plot")
        page = (parts / "player.html").read_text(encoding="utf-8")
        return page.replace("TITLE", escape(self._title)).replace("PLAYER", self.player("player"))

    def player(self, name: str) -> str:
        """Return the player as part of a page, in an element with the id `name`."""
        script = (files("supple.plot") / "player.js").read_text(encoding="utf-8")
        # Escape "<", because "</script>" in a string would end the element.
        data = json.dumps(self._data(), separators=(",", ":")).replace("<", "\\u003c")
        place = json.dumps(name).replace("<", "\\u003c")
        return (
            f'<div id="{escape(name, quote=True)}" class="player"></div>'
            f"<script>({script})({place}, {data});</script>"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the animation to a file and return its path.

        Args:
            path: A file that ends in .html, or in .gif (drawn by Matplotlib and Pillow).
        """
        file = Path(path)
        if file.suffix.lower() == ".html":
            with replacing(file) as stream:
                stream.write(self.html().encode())
        elif file.suffix.lower() == ".gif":
            self._save_gif(file)
        else:
            raise InputError(
                f"an animation's file must end in .html or .gif; given: {short_repr(str(path))}"
            )
        return file

    def _repr_html_(self) -> str:
        page = escape(self.html(), quote=True)
        height = 470
        return (
            f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0" '
            f'title="{escape(self._title, quote=True)}"></iframe>'
        )

    def _data(self) -> dict[str, Any]:
        """Return the data that the player draws, as numbers, strings and lists."""
        return {
            "t": [round(float(t), 4) for t in self._t[self._frames]],
            "arms": [self._arm_data(arm) for arm in self._arms],
        }

    def _arm_data(self, arm: Arm) -> dict[str, Any]:
        shape = shape_of(arm.robot)
        poses = shape.poses(arm.robot, arm.q[self._frames])
        target = None if arm.target is None else np.asarray(arm.target, float)[self._frames]
        digits = _DIGITS - math.floor(math.log10(shape.size)) - 1

        def plain(array: Any, decimals: int = digits) -> Any:
            return None if array is None else np.round(array, max(decimals, 0)).tolist()

        return {
            "title": arm.title,
            "color": arm.color,
            "flat": shape.flat,
            "center": plain(shape.center),
            "size": shape.size,
            "base": plain(arm.robot.base[:3, 3]),
            "depth": shape.depth.tolist(),
            "segments": plain(shape.segments(poses)),
            "joints": plain(shape.joints.at(poses)),
            "axes": plain(shape.joint_axes(poses), 3),
            "tips": plain(shape.tip_positions(poses)),
            "target": None if target is None else plain(target.reshape(len(target), -1, 3)),
            "note": [arm.note[k] for k in self._frames] if len(arm.note) else None,
        }

    def _save_gif(self, file: Path) -> None:
        figure = figures.new_figure(3.8 * len(self._arms), 3.8)
        try:
            from matplotlib.animation import FuncAnimation, PillowWriter
            from matplotlib.backends.backend_agg import FigureCanvasAgg
        except ModuleNotFoundError as error:
            raise MissingExtraError("plot", "a GIF") from error
        FigureCanvasAgg(figure)
        drawn = [
            (figure.add_subplot(1, len(self._arms), k + 1, projection="3d"), shape_of(arm.robot))
            for k, arm in enumerate(self._arms)
        ]
        frames = self._frames[:: max(len(self._frames) // 150, 1)]

        def draw(k: int) -> None:
            for (ax, shape), arm in zip(drawn, self._arms, strict=True):
                ax.clear()
                figures.draw_robot(
                    ax, shape, shape.poses(arm.robot, arm.q[frames[k]]), color=arm.color
                )
                if arm.target is not None:
                    ax.plot(*np.reshape(arm.target[frames[k]], (-1, 3)).T, "o", color=palette.BLUE)
                figures.set_view(ax, shape)
                ax.set_title(arm.title)

        span = max(float(self._t[-1] - self._t[0]), 1e-3)
        made = FuncAnimation(figure, draw, frames=len(frames))
        beside = file.with_name(f".{file.stem}.tmp.gif")
        try:
            made.save(
                str(beside), writer=PillowWriter(fps=max(round(len(frames) / span), 1)), dpi=80
            )
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)


def trajectory_animation(motion: Any, robot: Any) -> Animation:
    """Return the animation of one motion.

    Raises:
        InputError: `robot` is None, as for a motion loaded from a file.
    """
    if robot is None:
        raise InputError(
            "animate needs the robot if the motion was loaded from a file; given: none"
        )
    figures.configurations(robot, motion.q[:1])
    speeds = np.linalg.norm(motion.qd, axis=1)
    speeds = np.concatenate([speeds[:1], speeds])
    arm = Arm(robot, motion.q, robot.name, note=[f"‖q̇‖ {speed:.2f}" for speed in speeds])
    return Animation(motion.t, [arm])
