"""Robots and results as self-contained HTML for notebooks, without scripts and style sheets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.plot import palette
from supple.plot.svg import curves_svg, robot_svg

_MAX_ROWS = 60  # maximum number of rows in a table; further rows are only counted
_CELL = "padding:2px 10px;text-align:{side};white-space:nowrap"


def robot_html(robot: Any) -> str:
    """Return a robot as a drawing and a table of its joints."""
    kinds = {joint.name: joint.kind for joint in robot.description.joints}
    rows = []
    for j, name in enumerate(robot.joint_names):
        unit = "m" if robot.prismatic[j] else "rad"
        limits = (_number(robot.lower[j]), _number(robot.upper[j]), unit)
        speed = _number(robot.max_speed[j])
        rows.append((name, kinds.get(name, ""), *limits, f"{speed} {unit}/s" if speed else ""))
    plural = "s" if len(robot.tips) > 1 else ""
    head = f"{robot.name}: {robot.dof} degrees of freedom, end effector{plural}: "
    table = _table(("joint", "kind", "lower", "upper", "unit", "max. speed"), rows)
    return _beside(
        head + ", ".join(robot.tips), robot_svg(robot, np.asarray(robot.neutral())), table
    )


def solution_html(solution: Any) -> str:
    """Return a solution as a sentence, a drawing and a table of its joints."""
    robot, q = solution.robot, np.asarray(solution.q)
    if robot is None:
        rows: list[tuple[Any, ...]] = [(f"q[{j}]", f"{x:.6g}") for j, x in enumerate(q.tolist())]
        return _beside(str(solution), "", _table(("joint", "position"), rows))
    rows = []
    for j, name in enumerate(robot.joint_names):
        unit = "m" if robot.prismatic[j] else "rad"
        place = _Markup(_bar(q[j], robot.lower[j], robot.upper[j]))
        rows.append((name, f"{q[j]:.6g}", unit, place))
    table = _table(("joint", "position", "unit", "in its range"), rows)
    return _beside(str(solution), robot_svg(robot, q), table)


def solutions_html(solutions: Any) -> str:
    """Return several solutions as a drawing of the first ones and a table."""
    flat = np.asarray(solutions.q).reshape(-1, np.shape(solutions.q)[-1])
    errors = zip(
        np.ravel(solutions.position_error).tolist(),
        np.ravel(solutions.rotation_error).tolist(),
        strict=True,
    )
    words = [str(each) for each in solutions.status.ravel()]
    rows = [
        (k, words[k], f"{position:.2g}", f"{rotation:.2g}", _numbers(flat[k]))
        for k, (position, rotation) in zip(range(_MAX_ROWS), errors, strict=False)
    ]
    head = ("", "status", "error [m]", "error [rad]", "q")
    good = flat[np.ravel(solutions.success)]
    draws = solutions.robot is not None and len(good)
    drawing = robot_svg(solutions.robot, good) if draws else ""
    title = str(solutions).partition("\n")[0]
    return _beside(title, drawing, _table(head, rows, len(flat)))


def trajectory_html(motion: Any) -> str:
    """Return a motion as its summary and curves of speed, damping and error."""
    t = np.asarray(motion.t)[1:]
    names = _joint_names(motion)
    pictures = []
    if len(t):
        speeds = [(name, np.abs(motion.qd[:, j])) for j, name in enumerate(names)]
        pictures.append(curves_svg(t, speeds, "joint speeds [rad/s or m/s]"))
        sigma = [("σ_min", motion.sigma_min), ("λ", np.sqrt(motion.lambda2))]
        pictures.append(curves_svg(t, sigma, "σ_min and λ (logarithmic)", log=True))
        error = np.linalg.norm(motion.error, axis=1)
        if error.any():
            pictures.append(curves_svg(t, [("error", error)], "error ‖e‖ [m and rad]"))
    return (
        f'<div><pre style="line-height:1.35">{escape(str(motion))}</pre>{"".join(pictures)}</div>'
    )


def report_html(report: Any) -> str:
    """Return the report of `explain` as a table of singular directions with its sentences."""
    facts = [f"rank {report.rank} of {report.rows} rows, condition {report.condition:.4g}"]
    if report.speed is not None:
        facts.append(f"joint speed {report.speed:.4g}")
    facts += [report.reason] * bool(report.reason) + [str(each) for each in report.held]
    facts += report.constraints
    return f"<div>{_paragraphs(facts)}{_directions(report)}</div>"


def _directions(report: Any) -> str:
    rows = [
        (
            each.words,
            f"{each.sigma:.4g}",
            f"{each.commanded:.4g}",
            "" if each.gain is None else f"{each.gain:.4g}",
            each.missed_text,
        )
        for each in report.directions
    ]
    return _table(("direction", "singular value", "commanded", "gain", "missed"), rows)


def solve_report_html(report: Any) -> str:
    """Return the diagnosis of a solution: its sentences, then the singular directions."""
    return f"<div>{_paragraphs(str(report).splitlines())}{_directions(report.explanation)}</div>"


# ---- parts ---------------------------------------------------------------------------------------


class _Markup(str):
    """Text that is already HTML and must not be escaped."""


def _joint_names(motion: Any) -> Sequence[str]:
    if motion.robot is not None:
        names: Sequence[str] = motion.robot.joint_names
        return names
    return [f"q[{j}]" for j in range(motion.qd.shape[1])]


def _number(value: float) -> str:
    """Return a limit as text, empty if it is infinite."""
    return f"{value:.4g}" if math.isfinite(value) else ""


def _numbers(values: NDArray[Any]) -> str:
    return ", ".join(f"{x:.4g}" for x in values.tolist())


def _paragraphs(lines: Iterable[str]) -> str:
    return "".join(f'<p style="margin:2px 0">{escape(line)}</p>' for line in lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], total: int | None = None) -> str:
    shown = rows[:_MAX_ROWS]
    lines = ["<tr>" + "".join(_cell(name, "th") for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in shown]
    more = (len(rows) if total is None else total) - len(shown)
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>{rest}'


def _cell(value: Any, tag: str = "td") -> str:
    text = value if isinstance(value, _Markup) else escape(str(value))
    numeric = tag == "td" and str(value)[:1] in "-+0123456789"
    style = _CELL.format(side="right" if numeric else "left")
    return f'<{tag} style="{style}">{text}</{tag}>'


def _bar(value: float, lower: float, upper: float) -> str:
    """Return a bar that marks a joint's position in its range; empty if it has no limits."""
    if not (math.isfinite(lower) and math.isfinite(upper) and upper > lower):
        return ""
    share = min(max((value - lower) / (upper - lower), 0.0), 1.0)
    near = min(share, 1 - share) < 0.02
    color = palette.VERMILION if near else palette.BLUE
    return (
        '<svg width="92" height="12" viewBox="0 0 92 12" role="img" '
        f'aria-label="{100 * share:.0f} % of its range">'
        f'<line x1="4" x2="88" y1="6" y2="6" stroke="{palette.LIGHT}" stroke-width="4" '
        'stroke-linecap="round"/>'
        f'<circle cx="{4 + 84 * share:.1f}" cy="6" r="4.5" fill="{color}"/></svg>'
    )


def _beside(title: str, picture: str, table: str) -> str:
    """Return a title above a picture and a table side by side."""
    lines = "<br>".join(escape(line) for line in title.splitlines())
    return (
        f'<div><p style="margin:2px 0"><strong>{lines}</strong></p>'
        '<div style="display:flex;gap:16px;align-items:center;flex-wrap:wrap">'
        f"<div>{picture}</div><div>{table}</div></div></div>"
    )
