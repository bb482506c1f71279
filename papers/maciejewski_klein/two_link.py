"""Two links follow a square that leaves their reach and passes the inner singularity (Fig. 2-3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Progress, by_method, each, experiment
from supple.papers.maciejewski_klein.methods import (
    DEVIATIONS,
    LABELS,
    error,
    followed,
    methods,
    norm,
    percent,
)
from supple.papers.style import Array

from supple import PositionTask, Trajectory, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARM = load("planar2")  # links of 1.10 and 1.00 m
LINKS = (1.10, 1.00)
CORNERS = {"A": (0.1, -1.0), "B": (2.1, -1.0), "C": (2.1, 1.0), "D": (0.1, 1.0)}  # [m]
SIDE = 200  # intervals of 1 cm
MAX_GAIN = 2.0  # θ̇max [rad/m]: so λ <= 0.25 m
MAX_SPEED = 0.05  # what the paper allows the norm of joint speeds [rad per interval]
D_TO_A = slice(3 * SIDE, None)


def square() -> Array:
    """Return the targets of the hand, A B C D A, one for each interval (801, 3)."""
    corners = [np.array([x, y, 0.0]) for x, y in [*CORNERS.values(), CORNERS["A"]]]
    sides = [np.linspace(a, b, SIDE, endpoint=False) for a, b in itertools.pairwise(corners)]
    return np.vstack([*sides, corners[-1]])


def start() -> Array:
    """Return the configuration with the hand at A and the elbow to the right."""
    x, y = CORNERS["A"]
    a, b = LINKS
    elbow = np.arccos((x**2 + y**2 - a**2 - b**2) / (2 * a * b))
    shoulder = np.arctan2(y, x) - np.arctan2(b * np.sin(elbow), a + b * np.cos(elbow))
    return np.array([shoulder, elbow])


def measures(moved: Trajectory) -> dict[str, float]:
    """Return the paper's numbers: errors from D to A, speeds [rad per interval] and distances [m];
    and the largest change of speeds between intervals, except at the corners, where the path turns.
    """
    jumps = norm(np.diff(moved.qd, axis=0))
    jumps[SIDE - 1 :: SIDE] = 0.0
    return {
        "da_peak": float(error(moved)[D_TO_A].max()),
        "da_integral": float(error(moved)[D_TO_A].sum()),
        "max_joint_speed": float(norm(moved.qd).max()),
        "max_position_error": float(norm(moved.error).max()),
        "max_speed_change": float(jumps.max()),
    }


@experiment(
    "mk-two-link",
    paper="MK",
    figure="Fig. 2-3",
    title="A square through the reach and the inner singularity",
    deviations=(
        "Lengths in metres: θ̇max = 0.02 rad/cm is 2 rad/m here, λ ≤ 25 cm is 0.25 m.",
        *DEVIATIONS,
    ),
)
def follow_square(progress: Progress) -> Outcome:
    """A planar arm of 1.10 and 1.00 m follows a square of 2 m in 800 intervals of 1 cm, k_p = 0.1.
    B and C are out of reach; halfway from D to A it is folded and singular, but the path does not
    use the singular direction.

    The integral is the sum of the relative error over the intervals from D to A, in cm as printed.
    """
    path, task = square(), PositionTask(rows=("x", "y"))
    moved = {
        name: followed(ARM, start(), path, step, tasks=task)
        for name, step in each(methods(MAX_GAIN).items(), progress)
    }
    found = {name: measures(each) for name, each in moved.items()}
    return Outcome(by_method(found), _claims(moved, found), _figure(moved, path))


def _claims(moved: dict[str, Trajectory], found: dict[str, dict[str, float]]) -> tuple[Claim, ...]:
    variable, printed, filtered = (
        found[name] for name in ("variable", "filtered_as_printed", "filtered")
    )
    fastest = max(each["max_joint_speed"] for each in found.values())
    farthest = [each["max_position_error"] for each in found.values()]
    asked = norm(np.concatenate([each.command for each in moved.values()])) * 100
    constant = error(moved["constant"])
    smooth = max(each["max_speed_change"] for name, each in found.items() if name != "filtered")
    blocked = (
        "α of eq. (14) damps the singular direction even where the command needs it; the motion "
        "withheld there returns as position error, and the effective singular value falls"
    )
    return (
        Claim(
            "variable damping: the error peaks at 22 % from D to A",
            percent(variable["da_peak"]),
            abs(variable["da_peak"] - 0.22) < 0.005,
            "all of ẋ is damped although only one direction is singular",
        ),
        Claim(
            "variable damping: an integral error of 9.94 cm",
            f"{variable['da_integral']:.2f} cm",
            abs(variable["da_integral"] - 9.94) < 0.005,
            "to the printed digits, with λ from the σ̂ of the interval before, as in section IV",
        ),
        Claim(
            "filtering: the peak falls below 4 %",
            f"as printed {percent(printed['da_peak'])}",
            printed["da_peak"] < 0.04,
            blocked,
        ),
        Claim(
            "filtering: the integral error falls to 0.25 cm",
            f"as printed {printed['da_integral']:.2f} cm",
            printed["da_integral"] <= 0.255,
            blocked,
        ),
        Claim(
            "filtering: below 4 % and 0.25 cm (component-aware gain)",
            f"{percent(filtered['da_peak'])} and {filtered['da_integral']:.0e} cm",
            filtered["da_peak"] < 0.04 and filtered["da_integral"] <= 0.255,
            "α follows the share of ẋ along û, which is nearly zero on this side: the arm passes",
        ),
        Claim(
            "the norm of joint speeds stays within 0.05 rad per interval",
            f"at most {fastest:.4f} rad per interval, for every method",
            fastest <= MAX_SPEED,
            "θ̇max ‖ẋ_c‖ bounds it; where that is more than 0.05, before B, most of ẋ_c lies along "
            "the direction that is lost",
        ),
        Claim(
            "a constant factor causes errors along the entire trajectory",
            f"at least {percent(float(constant.min()))}, {percent(float(constant[0]))} at A and "
            f"{percent(found['constant']['da_peak'])} at the inner singularity",
            bool(constant.min() > 0 and found["constant"]["da_peak"] > 0.2),
            "each direction is short by λ²/(σ² + λ²)",
        ),
        Claim(
            "the position error is about 23 cm at most, near B or C",
            f"{100 * min(farthest):.1f} to {100 * max(farthest):.1f} cm",
            abs(max(farthest) - 0.23) < 0.01 and abs(min(farthest) - 0.23) < 0.02,
            "B and C are 232.6 cm away, the reach is 210 cm; damping lags a little behind",
        ),
        Claim(
            "commanded velocities are within 1 to 2.2 cm per interval",
            f"{asked.min():.2f} to {asked.max():.2f} cm",
            bool(asked.max() < 2.25 and asked.min() > 0.95),
            "before B the path leads outwards like the feedback of 0.1 × 22.6 cm, and they add up; "
            "after C they are opposed",
        ),
        Claim(
            "transitions are smooth",
            f"joint speeds change by at most {smooth:.4f} rad per interval, corners aside",
            smooth < MAX_SPEED / 10,
            "constant, variable and the filter as printed: damping sets in gradually",
        ),
        Claim(
            "transitions are smooth (component-aware gain)",
            f"by up to {filtered['max_speed_change']:.4f}",
            filtered["max_speed_change"] < MAX_SPEED / 10,
            "near a singularity the gain along û does not depend on how much of ẋ lies along it",
        ),
    )


def _figure(moved: dict[str, Trajectory], path: Array) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(11.5, 8)
        layout: list[Any] = [["path", "error"], ["path", "speed"], ["inner", "sigma"]]
        panels = figure.subplot_mosaic(layout, width_ratios=[1, 1.15])
        steps = np.arange(4 * SIDE)
        for k, (name, motion) in enumerate(moved.items()):
            how = style.style_of(k) | {"label": LABELS[name]}
            hand = ARM.fk(motion.q)[:, :2, 3]
            panels["path"].plot(hand[:, 0], hand[:, 1], **how)
            panels["error"].plot(steps, 100 * error(motion), **how)
            panels["speed"].plot(steps, norm(motion.qd), **how)
            panels["inner"].plot(steps[D_TO_A], 100 * error(motion)[D_TO_A], **how)
            panels["sigma"].semilogy(steps, np.maximum(motion.sigma_min, 1e-4), **how)

        ax = style.titled(panels["path"], "Path of the hand", "x [m]", "y [m]")
        ax.plot(path[:, 0], path[:, 1], color=style.GREY, linewidth=1, zorder=1)
        turn = np.linspace(-0.5, 0.5, 100) * np.pi
        for radius in (sum(LINKS), LINKS[0] - LINKS[1]):
            reach = radius * np.array([np.cos(turn), np.sin(turn)])
            ax.plot(*reach, color=style.GREY, linewidth=1, linestyle=":", zorder=1)
        style.note(ax, "reach", (1.38, 1.33))
        for corner, (x, y) in CORNERS.items():
            ax.annotate(
                corner,
                (x, y),
                xytext=(7 if x > 1 else -12, -14 if y < 0 else 6),
                textcoords="offset points",
                fontweight="bold",
            )
        style.note(ax, "inner singularity", (0.28, 0.3), (0.11, 0.0))
        ax.plot(0, 0, "o", color=style.BLACK, ms=4)
        style.note(ax, "base", (-0.28, 0.06))
        ax.set_aspect("equal")
        ax.set_xlim(-0.35, 2.4)
        ax.set_ylim(-1.3, 1.45)

        error_, speed, sigma, inner = (panels[n] for n in ("error", "speed", "sigma", "inner"))
        style.titled(error_, "Velocity error ‖ẋ − Jθ̇‖/‖ẋ‖", "corner", "[%]")
        style.titled(speed, "Joint speed ‖θ̇‖", "corner", "[rad per interval]")
        style.titled(sigma, "Least singular value of J", "corner", "[m]")
        style.bound(speed, MAX_SPEED, "the paper's bound, 0.05", at=0.01)
        speed.set_ylim(0, 0.06)
        for ax in (error_, speed, sigma):
            ax.set_xlim(0, 4 * SIDE)
            ax.set_xticks([k * SIDE for k in range(5)], [*CORNERS, "A"])
        style.titled(inner, "Velocity error from D to A", "", "[%]")
        inner.set_xlim(3 * SIDE, 4 * SIDE)
        ticks = {3 * SIDE: "D", 3.5 * SIDE: "inner singularity", 4 * SIDE: "A"}
        inner.set_xticks(list(ticks), list(ticks.values()))
        inner.set_xlabel("place on the path")
        inner.set_ylim(-1, 29)
        style.bound(inner, 22, "the paper's variable λ: peak 22 %", at=0.01)
        style.bound(inner, 4, "and filtered: below 4 %", at=0.01)
        style.legend(figure, panels["error"])

    return draw
