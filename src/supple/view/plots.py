"""Live charts: smallest singular value and damping, joint speeds, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import supple as sp
from supple.plot import palette
from supple.view.simulation import Measured

_CHART_SECONDS = 8.0  # time span of a chart [s]
_CURVE_POINTS = 200  # approximate number of points of a curve
_LOG_AXIS_FLOOR = 1e-4  # smallest value on a logarithmic axis
_SMALLEST_ERROR = 0.01  # smallest range of the error axis [m or rad]
_SMALLEST_SPEED = 0.1  # smallest range of the speed axis, without speed limits [rad/s or m/s]
_RESTING_CHANGE = 1e-9  # change of all curves below which the charts are not updated
_X: Any = {"x": {"time": False, "auto": False, "range": (-_CHART_SECONDS, 0.0)}}


class Plots:
    """Three live charts of the last seconds: singular value and damping, speeds, errors."""

    def __init__(self, server: Any, robot: sp.Robot) -> None:
        """Add the charts to viser's current container."""
        self._resting = False
        self._highest: dict[str, float] = {}
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
        nothing = np.array([-_CHART_SECONDS, 0.0])
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
        """Draw the last measurements; nothing is sent while all curves are constant."""
        if len(history) < 2:
            return
        now = history[-1].t
        recent = [each for each in history if each.t >= now - _CHART_SECONDS]
        recent = recent[:: max(len(recent) // _CURVE_POINTS, 1)]
        t = np.array([each.t - now for each in recent])
        sigma = np.log10(np.maximum([each.sigma_min for each in recent], _LOG_AXIS_FLOOR))
        damping = np.log10(np.maximum([each.damping for each in recent], _LOG_AXIS_FLOOR))
        speeds = np.array([each.speeds for each in recent]).T
        errors = np.array([[each.position_error, each.rotation_error] for each in recent]).T
        resting = max(np.ptp(each, axis=-1).max() for each in (sigma, damping, speeds, errors))
        resting = resting < _RESTING_CHANGE and now >= _CHART_SECONDS
        if resting and self._resting:
            return
        self._resting = resting
        self._sigma.data = (t, sigma, damping)
        bounds = [np.ones_like(t), -np.ones_like(t)] if self._bounded else []
        self._speeds.data = (t, *np.ascontiguousarray(speeds), *bounds)
        self._errors.data = (t, *np.ascontiguousarray(errors))
        fastest = max(float(np.abs(speeds).max()), 1.0 if self._bounded else _SMALLEST_SPEED)
        self._fit(self._speeds, -1.0, fastest)
        self._fit(self._errors, 0.0, max(float(errors.max()), _SMALLEST_ERROR))

    def _fit(self, chart: Any, below: float, highest: float) -> None:
        """Adapt the range of the vertical axis if the curves exceed it or use less than half of it.

        Args:
            chart: The chart.
            below: Lower end of the axis, as a multiple of the upper one.
            highest: Largest value of the curves.
        """
        before = self._highest.get(chart.title, 0.0)
        if not 0.5 * before <= highest <= before:
            self._highest[chart.title] = end = 1.2 * highest
            chart.scales = {**_X, "y": {"auto": False, "range": (below * end, end)}}


def _dashes(j: int) -> Sequence[int]:
    return [] if j < len(palette.SERIES) else [6, 3]
