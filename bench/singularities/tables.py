"""Tables of the measures in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

import numpy as np

from .measures import Measures
from .passages import Passage

HEAD = (
    "| | q̇/limit | q̇ [rad/s] | q̈ [rad/s²] | off, max [mm] | rms | turned off, max [°] | rms "
    "| recovers after [s] | too fast [steps] | outside [steps] | halts [s] "
    "| jerk [10³ rad/s³] | rms | off the path, max [mm] | rms | arrives after [s] |",
    "|---|" + "---:|" * 16,
)
SUMMARY = (
    "| | recovers | after, median [s] | off, rms: median [mm] | worst | q̇/limit, worst "
    "| q̈: median [rad/s²] | worst | violates limits | halts |",
    "|---|" + "---:|" * 9,
)
SMOOTH = (
    "| | off, rms: mean [mm] | jerk, largest: median [10³ rad/s³] | worst | jerk, rms: median "
    "| off the path, largest: median [mm] | worst | arrives after, median [s] | latest |",
    "|---|" + "---:|" * 8,
)


def figure(x: float) -> str:
    """Return a number as text, rounded to three significant digits."""
    if math.isinf(x):
        return "∞"
    if x == 0 or abs(x) >= 1e5:
        return f"{x:.0e}" if x else "0"
    return f"{x:.{max(0, 2 - math.floor(math.log10(abs(x))))}f}" if abs(x) >= 5e-3 else "0.00"


def row(name: str, m: Measures) -> str:
    """Return the row of one run in the table of a passage."""
    if not m.finite:
        return f"| {name} | NaN |" + " |" * 15
    outside = f"{m.outside} ({figure(m.farthest)} rad)" if m.outside else "–"
    return (
        f"| {name} | {figure(m.speed_share)} | {figure(m.speed)} | {figure(m.acceleration)} "
        f"| {figure(1e3 * m.position_max)} | {figure(1e3 * m.position_rms)} "
        f"| {figure(np.degrees(m.angle_max))} | {figure(np.degrees(m.angle_rms))} "
        f"| {time_of(m.recovery)} "
        f"| {m.too_fast or '–'} | {outside} | {f'{m.halted:.1f}' if m.halted else '–'} "
        f"| {figure(1e-3 * m.jerk)} | {figure(1e-3 * m.jerk_rms)} "
        f"| {figure(1e3 * m.deviation)} | {figure(1e3 * m.deviation_rms)} | {time_of(m.duration)} |"
    )


def time_of(seconds: float) -> str:
    """Return a time, or "never"."""
    return "never" if math.isinf(seconds) else f"{seconds:.2f}"


def of_passage(passage: Passage, runs: Mapping[str, Measures]) -> list[str]:
    """Return the table of all methods in one passage."""
    a, b = passage.singular
    self_motion = "; self-motion could avoid it" if passage.avoidable else ""
    return [
        f"### {passage.robot.name}, {passage.kind}",
        "",
        f"σ is small, or the pose out of reach, from {a:.2f} to {b:.2f} s; least σ "
        f"{passage.sigma.min():.2g}{self_motion}.",
        "",
        *HEAD,
        *(row(name, measures) for name, measures in runs.items()),
        "",
    ]


def summary(runs: Iterable[Mapping[str, Measures]], methods: Iterable[str]) -> list[str]:
    """Return the table of measures over all passages, one row per method."""
    lines, runs = list(SUMMARY), list(runs)
    for name in methods:
        mine = [each[name] for each in runs if name in each]
        back = [m.recovery for m in mine if not math.isinf(m.recovery)]
        rms, acceleration = [1e3 * m.position_rms for m in mine], [m.acceleration for m in mine]
        lines.append(
            f"| {name} | {len(back)} of {len(mine)} | {f'{median(back):.2f}' if back else ''} "
            f"| {figure(median(rms))} | {figure(max(rms))} "
            f"| {figure(max(m.speed_share for m in mine))} "
            f"| {figure(median(acceleration))} | {figure(max(acceleration))} "
            f"| {sum(m.violations > 0 for m in mine) or '–'} "
            f"| {sum(m.halted > 0 for m in mine) or '–'} |"
        )
    return [*lines, ""]


def smoothness(runs: Iterable[Mapping[str, Measures]], methods: Iterable[str]) -> list[str]:
    """Return the table of jerk, of the deviation from the path and of the duration."""
    lines, runs = list(SMOOTH), list(runs)
    for name in methods:
        mine = [each[name] for each in runs if name in each]
        jerk, aside = [1e-3 * m.jerk for m in mine], [1e3 * m.deviation for m in mine]
        lines.append(
            f"| {name} | {figure(float(np.mean([1e3 * m.position_rms for m in mine])))} "
            f"| {figure(median(jerk))} | {figure(max(jerk))} "
            f"| {figure(median(1e-3 * m.jerk_rms for m in mine))} "
            f"| {figure(median(aside))} | {figure(max(aside))} "
            f"| {time_of(median(m.duration for m in mine))} "
            f"| {time_of(max(m.duration for m in mine))} |"
        )
    return [*lines, ""]
