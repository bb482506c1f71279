"""Live curves: singular value and damping, joint speeds, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import supple as sp
from supple.plot import palette
from supple.view.simulation import Measured

_SECONDS = 8.0  # shown
_POINTS = 200  # of a curve
_FLOOR = 1e-4  # smallest value on a logarithmic axis
_SMALLEST_ERROR = 0.01  # at the top of the chart [m or rad]
_X: Any = {"x": {"time": False, "auto": False, "range": (-_SECONDS, 0.0)}}


class Plots:
    """Three charts of the last seconds."""

    def __init__(self, server: Any, robot: sp.Robot) -> None:
        """Add the charts to the present container."""
        self._highest = 0.0
        self._bounded = bool(np.isfinite(robot.max_speed).all())
        self._sigma = self._chart(
            server,
            "Smallest singular value and damping (log₁₀)",
            [("σ_min", palette.BLUE, []), ("λ", palette.VERMILION, [6, 3])],
        )
        names: list[tuple[str, str, Sequence[int]]] = [
            (name, palette.SERIES[j % len(palette.SERIES)], _dashes(j))
            for j, name in enumerate(robot.joint_names)
        ]
        limits: list[tuple[str, str, Sequence[int]]] = [
            ("+limit", palette.GRAY, [4, 4]),
            ("−limit", palette.GRAY, [4, 4]),
        ]
        self._speeds = self._chart(
            server,
            "Joint speeds / limits" if self._bounded else "Joint speeds [rad/s or m/s]",
            names + (limits if self._bounded else []),
        )
        self._errors = self._chart(
            server,
            "Error to the target",
            [("position [m]", palette.BLUE, []), ("rotation [rad]", palette.VERMILION, [6, 3])],
        )

    def _chart(
        self, server: Any, title: str, curves: Sequence[tuple[str, str, Sequence[int]]]
    ) -> Any:
        nothing = np.array([-_SECONDS, 0.0])
        series: list[dict[str, Any]] = [{"label": "time [s]"}]
        for name, color, dashes in curves:
            how = {"label": name, "stroke": color, "width": 2, "points": {"show": False}}
            series.append({**how, "dash": list(dashes)} if dashes else how)
        return server.gui.add_uplot(
            data=(nothing, *[np.zeros(2) for _ in curves]),
            series=tuple(series),
            title=title,
            scales=_X,
            legend={"show": len(curves) <= 3},
            height=165 if len(curves) <= 3 else 150,
        )

    def update(self, history: Sequence[Measured]) -> None:
        """Draw the last measurements."""
        if len(history) < 2:
            return
        now = history[-1].t
        recent = [each for each in history if each.t >= now - _SECONDS]
        recent = recent[:: max(len(recent) // _POINTS, 1)]
        t = np.array([each.t - now for each in recent])
        sigma = np.log10(np.maximum([each.sigma_min for each in recent], _FLOOR))
        damping = np.log10(np.maximum([each.damping for each in recent], _FLOOR))
        self._sigma.data = (t, sigma, damping)
        speeds = [np.array(each) for each in np.array([each.speeds for each in recent]).T]
        bounds = [np.ones_like(t), -np.ones_like(t)] if self._bounded else []
        self._speeds.data = (t, *speeds, *bounds)
        position = np.array([each.position_error for each in recent])
        rotation = np.array([each.rotation_error for each in recent])
        self._errors.data = (t, position, rotation)
        highest = max(float(position.max()), float(rotation.max()), _SMALLEST_ERROR)
        if not 0.5 * self._highest <= highest <= self._highest:
            self._highest = 1.25 * highest
            self._errors.scales = {**_X, "y": {"auto": False, "range": (0.0, self._highest)}}


def _dashes(j: int) -> Sequence[int]:
    return [] if j < len(palette.SERIES) else [6, 3]
