"""Small SVG images for notebooks: a robot, and curves over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.plot import palette
from supple.plot.shape import Matrix, Shape, shape_of

_MAX_POINTS = 240  # maximum number of points of a curve
AZIMUTH, ELEVATION = -0.9, 0.38  # direction of view [rad]


def view_matrix(shape: Shape) -> Matrix:
    """Return the rotation (3, 3) from world to view; its rows point right, up and to the viewer."""
    if shape.flat:
        return np.eye(3)
    a, b = AZIMUTH, ELEVATION
    right = [-math.sin(a), math.cos(a), 0.0]
    toward = [math.cos(b) * math.cos(a), math.cos(b) * math.sin(a), math.sin(b)]
    return np.array([right, np.cross(toward, right), toward])


def robot_svg(robot: Any, q: ArrayLike, *, width: int = 260, height: int = 240) -> str:
    """Return a drawing of a robot at one configuration (n,), or at up to eight (k, n).

    The first configuration is drawn in full color, the others pale behind it.
    """
    shape = shape_of(robot)
    several = np.atleast_2d(np.asarray(q, dtype=np.float64))[:8]
    poses = shape.poses(robot, several)
    V = view_matrix(shape)
    segments = shape.segments(poses) @ V.T
    joints = shape.joints.at(poses) @ V.T
    tips = shape.tip_positions(poses) @ V.T
    base = V @ robot.base[:3, 3]
    drawn = np.concatenate([segments.reshape(-1, 3), joints.reshape(-1, 3), base[None]])
    low, high = drawn[:, :2].min(axis=0), drawn[:, :2].max(axis=0)
    margin, span = 22.0, np.maximum(high - low, 1e-6)
    scale = float(((np.array([width, height]) - 2 * margin) / span).min())
    middle = 0.5 * (low + high)

    def flat(points: Matrix) -> Matrix:
        xy = (points[..., :2] - middle) * scale
        return np.asarray(xy * [1, -1] + [width / 2, height / 2])

    thick = np.clip(11 - 1.4 * shape.depth, 4, 11)
    parts = [_square(flat(base), palette.BLACK)]
    for k in reversed(range(len(several))):
        color, dark = (palette.STEEL, 1.0) if k == 0 else (palette.SKY, 0.35)
        nearest_last = np.argsort(segments[k, :, :, 2].mean(axis=1))
        lines = [_line(flat(segments[k, i]), color, float(thick[i])) for i in nearest_last.tolist()]
        dots = [_dot(at, palette.ORANGE, 3.4) for at in flat(joints[k])]
        ends = [_dot(at, palette.VERMILION, 4.2) for at in flat(tips[k])]
        marks = "".join([*lines, *(dots if k == 0 else ()), *ends])
        parts.append(f'<g opacity="{dark}">{marks}</g>')
    label = escape(f"{robot.name}, drawn from its kinematics", quote=True)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{label}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _line(ends: Matrix, color: str, width: float) -> str:
    (x1, y1), (x2, y2) = ends.tolist()
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width:.1f}" stroke-linecap="round"/>'
    )


def _dot(at: Matrix, color: str, radius: float) -> str:
    return (
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius}" fill="{color}" '
        'stroke="#fff" stroke-width="1"/>'
    )


def _square(at: Matrix, color: str) -> str:
    return f'<rect x="{at[0] - 10:.1f}" y="{at[1]:.1f}" width="20" height="6" fill="{color}"/>'


def curves_svg(
    t: NDArray[Any],
    curves: Sequence[tuple[str, NDArray[Any]]],
    title: str,
    *,
    limit: float | None = None,
    log: bool = False,
    width: int = 300,
    height: int = 130,
) -> str:
    """Return a chart of curves over time, labeled with the range of their values.

    Args:
        t: Times (K,) [s].
        curves: Names and values (K,) of the curves.
        title: Title with the unit.
        limit: A value to draw as a dashed line, if it is inside the range.
        log: Whether the vertical axis is logarithmic; zeros are drawn at its lower end.
        width: Width [px].
        height: Height [px].
    """
    pick = np.unique(np.linspace(0, len(t) - 1, min(len(t), _MAX_POINTS)).astype(int))
    values = np.array([np.asarray(y, dtype=np.float64)[pick] for _, y in curves])
    positive = values[np.isfinite(values) & (values > 0)] if log else values[np.isfinite(values)]
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (0.1, 1.0)
    if log:
        low = max(low, high * 1e-9)
        values = np.log10(np.maximum(values, low))
        low, high = math.log10(low), math.log10(high)
    elif limit is not None and limit < 1.5 * high:
        high = max(high, limit)
    if not log:
        low = min(low, 0.0)
    if high - low < 1e-12:
        high = low + 1.0
    left, right, top, bottom = 8, width - 8, 22, height - 18

    def across(x: NDArray[Any]) -> NDArray[Any]:
        whole = float(t[-1] - t[0]) or 1.0
        return np.asarray(left + (right - left) * (x - t[0]) / whole)

    def down(y: Any) -> Any:
        return bottom - (bottom - top) * (np.clip(y, low, high) - low) / (high - low)

    x = across(np.asarray(t, dtype=np.float64)[pick])
    lines = []
    for k, y in enumerate(values):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, down(y), strict=True))
        color = palette.SERIES[k % len(palette.SERIES)]
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.4">'
            f"<title>{escape(curves[k][0])}</title></polyline>"
        )
    if limit is not None and not log and low <= limit <= high:
        lines.append(
            f'<line x1="{left}" x2="{right}" y1="{down(limit):.1f}" y2="{down(limit):.1f}"'
            f' stroke="{palette.GRAY}" stroke-dasharray="4 3"/>'
        )
    shown = f"{10**low:.2g} – {10**high:.2g}" if log else f"{low:.3g} – {high:.3g}"
    small = 'font-family="sans-serif" font-size="11" fill="currentColor"'
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title, quote=True)}" xmlns="http://www.w3.org/2000/svg">'
        f'<text x="{left}" y="14" {small} font-weight="bold">{escape(title)}</text>'
        f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="none" '
        f'stroke="{palette.LIGHT}"/>{"".join(lines)}'
        f'<text x="{left}" y="{height - 5}" {small}>{shown}</text>'
        f'<text x="{right}" y="{height - 5}" {small} text-anchor="end">{t[-1] - t[0]:.4g} s</text>'
        "</svg>"
    )
