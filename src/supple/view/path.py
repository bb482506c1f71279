"""Paths in the viewer: the line of the tool, marks where the branch changes, and a motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.plot import palette

Array = NDArray[np.float64]

_LINE_POINTS = 400  # number of points on the line of a piece
_UNTIMED_SPEED = 1.0  # joint speed along a path that cannot be timed [rad/s or m/s]
_MOVE_TIME = 1.2  # time of a motion from one configuration to another [s]


@dataclass(frozen=True, eq=False)
class ToolPath:
    """A motion as the viewer shows it.

    Attributes:
        q: Configurations to play (K, n), one for each step [rad or m].
        lines: Positions of the end effectors along the path, (tips, N, 3) for each piece between
            reconfigurations [m].
        marks: Positions of the end effectors where the branch changes (k, tips, 3) [m].
        words: A summary.
    """

    q: Array
    lines: tuple[Array, ...]
    marks: Array
    words: str

    @staticmethod
    def of(motion: sp.paths.PlannedPath | sp.Trajectory, robot: sp.Robot, dt: float) -> ToolPath:
        """Return the path of a motion, to be played in steps of dt [s]."""
        if isinstance(motion, sp.Trajectory):
            q = np.asarray(motion.resampled(dt).q)
            return ToolPath(q, (_places(robot, q),), np.empty((0, 0, 3)), str(motion))
        pieces = [
            piece.at(np.linspace(piece.s[0], piece.s[-1], _LINE_POINTS)) for piece in motion.pieces
        ]
        # A path that ends early has no timing: it is played at a constant speed.
        q = (
            np.asarray(motion.timed(dt=dt).q)
            if motion
            else _paced(robot, np.concatenate(pieces), dt)
        )
        marks = [_places(robot, each.before[None])[:, 0] for each in motion.reconfigurations]
        lines = tuple(_places(robot, piece) for piece in pieces)
        return ToolPath(q, lines, np.array(marks).reshape(-1, len(robot.tips), 3), str(motion))


def straight_motion(robot: sp.Robot, q0: Array, q: Array, dt: float) -> Array:
    """Return configurations (K, n) from q0 to q (n,) in steps of dt, from rest to rest."""
    share = np.linspace(0.0, 1.0, round(_MOVE_TIME / dt) + 1)[:, None]
    smooth = share**3 * (10 - 15 * share + 6 * share**2)
    return np.asarray(robot.integrate(q0, smooth * robot.difference(q, q0)))


def _places(robot: sp.Robot, q: Array) -> Array:
    """Return the positions (tips, N, 3) of the end effectors at configurations (N, n)."""
    return np.asarray(robot.fk(q, tuple(robot.tips))[..., :3, 3].swapaxes(0, 1), dtype=np.float64)


def _paced(robot: sp.Robot, q: Array, dt: float) -> Array:
    """Return configurations along a polygon q (N, n), no joint faster than `_UNTIMED_SPEED`."""
    steps = np.abs(robot.difference(q[1:], q[:-1])).max(axis=1)
    t = np.append(0.0, np.cumsum(steps)) / _UNTIMED_SPEED
    at = np.minimum(np.arange(0.0, t[-1] + dt, dt), t[-1])
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    share = (at - t[k]) / np.maximum(t[k + 1] - t[k], 1e-300)
    away = robot.difference(q[k + 1], q[k])
    return np.asarray(robot.integrate(q[k], np.minimum(share, 1.0)[:, None] * away))


class PathFigure:
    """The line of a path in the scene, with a ball wherever the robot changes its branch."""

    def __init__(self, server: Any, path: ToolPath, size: float) -> None:
        """Draw a path.

        Args:
            server: The server of viser.
            path: The path.
            size: Size of the robot [m].
        """
        scene = server.scene
        self._root = scene.add_frame("/path", show_axes=False)
        for i, line in enumerate(path.lines):
            segments = np.stack([line[:, :-1], line[:, 1:]], axis=2).reshape(-1, 2, 3)
            scene.add_line_segments(
                f"/path/piece{i}",
                segments.astype(np.float32),
                palette.rgb((palette.BLUE, palette.GREEN)[i % 2]),
                thickness=0.008 * size,
            )
        for i, place in enumerate(path.marks.reshape(-1, 3)):
            scene.add_icosphere(
                f"/path/mark{i}",
                radius=0.025 * size,
                color=palette.rgb(palette.VERMILION),
                position=tuple(map(float, place)),
            )

    def remove(self) -> None:
        """Remove the path from the scene."""
        self._root.remove()
