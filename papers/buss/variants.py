"""B sections 2 and 8: the alternate Jacobian, and the transpose with a single end effector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.buss import figures
from supple.papers.buss.comparison import OFTEN
from supple.papers.buss.figures import Followed, Shape, Step, followed
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array

import supple
from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIGHT = 0.3  # a damping at which DLS oscillates [m]


def loop(
    robot: supple.Robot, q: Array, goals: Array, step: Step, *, alternate: bool, settle: int = 0
) -> Followed:
    """Follow targets (steps, k, 3) by one update each, with the usual or the alternate Jacobian."""
    every = figures.moved(robot, goals, step, start=q, alternate=alternate)
    return followed(robot, every[settle:], goals[settle:])


def methods() -> dict[str, Step]:
    """Return methods without error clamps, which oscillate if targets are out of reach."""
    return {
        "transpose": figures.transpose(),
        "pinv": supple.steps.AngleClamp(supple.steps.TruncatedSVD(0.01), math.radians(5)),
        "dls": figures.dls(LIGHT),
        "sdls": supple.steps.SDLS(math.radians(45), soft=True),
    }


NAMES = {
    "transpose": "transpose",
    "pinv": "pseudoinverse",
    "dls": f"DLS, λ = {LIGHT:g}",
    "sdls": "SDLS",
}


def follow_both(shape: Shape, step: Step) -> tuple[Followed, Followed]:
    """Return the runs of a figure with the usual and with the alternate Jacobian."""
    robot = supple.load(shape.name)
    settle, counted = shape.steps
    goals = shape.path(settle + counted)
    usual, other = (
        loop(robot, robot.neutral(), goals, step, alternate=alternate, settle=settle)
        for alternate in (False, True)
    )
    return usual, other


def folded(step: Step, updates: int, *, alternate: bool) -> float:
    """Return the largest second difference of a joint angle [rad] while the target of an arm with
    three links moves back and forth past the base at a distance of 2 cm, which folds the links.
    """
    robot = supple.load("planar3")
    T = np.linspace(0, 2 * np.pi, updates)
    goals = np.stack([0.4 * np.cos(T), np.full(updates, 0.02), np.zeros(updates)], axis=1)[:, None]
    start = np.array([0.1, -3.0, 2.9])
    run = loop(robot, start, goals, step, alternate=alternate, settle=updates // 10)
    return float(np.abs(np.diff(run.q, n=2, axis=0)).max())


@experiment(
    "buss-alternate",
    paper="B",
    figure="Section 2",
    title="The target attached to the link: an alternate Jacobian",
    deviations=(
        "The paper reports experience without numbers. Here the figures and targets of its program "
        "are used, with methods that oscillate on them: errors are not clamped, and DLS has "
        "λ = 0.3.",
        "Jerkiness is measured by the largest second difference of a joint angle, for an arm of "
        "three links that folds back on a target passing close to its base.",
    ),
    parameters=(Parameter("updates", 1000, "", "measured updates of the double Y", 99, 1000000),),
)
def alternate(progress: Progress, *, updates: int) -> Outcome:
    """The Y and the double Y follow their targets with the usual and with the alternate Jacobian,
    by transpose, pseudoinverse, lightly damped least squares and SDLS. The total error and the
    fraction of reversed moves are measured; then the jerkiness of an arm whose three links fold.
    """
    shapes = {
        "y": figures.Y,
        "double_y": figures.Shape(
            **{**vars(figures.DOUBLE_Y), "steps": (figures.DOUBLE_Y.steps[0], updates)}
        ),
    }
    runs = {
        (shape, name): follow_both(shapes[shape], step)
        for shape, (name, step) in each(
            [(s, item) for s in shapes for item in methods().items()], progress
        )
    }
    jerk = {
        name: [folded(methods()[name], 400, alternate=other) for other in (False, True)]
        for name in ("transpose", "dls", "sdls")
    }
    quantities = {}
    for (shape, name), pair in runs.items():
        for kind, run in zip(("usual", "alternate"), pair, strict=True):
            quantities[f"{shape}.{name}_{kind}_oscillation"] = run.oscillation
            quantities[f"{shape}.{name}_{kind}_total_error"] = run.total_error
    for name, (usual, other) in jerk.items():
        quantities |= {f"folded.{name}_usual_jerk": usual, f"folded.{name}_alternate_jerk": other}
    back = {name: tuple(run.oscillation for run in runs["double_y", name]) for name in methods()}
    told = ", ".join(f"{NAMES[n]} {a:.2f} → {b:.2f}" for n, (a, b) in back.items())
    better = [name for name, (a, b) in back.items() if b < 0.8 * a]
    worse = [name for name, (a, b) in back.items() if b > a]
    claims = (
        Claim(
            "the alternate Jacobian can reduce oscillation when targets are out of reach",
            f"share of moves that reverse on the double Y, usual → alternate: {told}",
            len(better) >= 1,
            "it can: for "
            + (" and ".join(NAMES[name] for name in better) or "none of these")
            + "; more moves reverse with "
            + (" and ".join(NAMES[name] for name in worse) or "none of them")
            + " (the motions are chaotic: shares differ by up to 0.04 between machines)",
        ),
        Claim(
            "the alternate Jacobian reduces oscillation for each of the methods",
            f"for {len(better)} of {len(back)}",
            len(better) == len(back),
            "a lightly damped or undamped inverse of the alternate Jacobian, which is not that of "
            "the motion, overshoots more. The paper says that it may be used with any of them",
            own=True,
        ),
        Claim(
            "in some configurations the alternate Jacobian can lead to jerky behavior, where links "
            "are folded back on a close target",
            "largest second difference of a joint angle, usual → alternate: "
            + ", ".join(f"{NAMES[n]} {a:.3f} → {b:.3f} rad" for n, (a, b) in jerk.items()),
            any(b > 1.5 * a for a, b in jerk.values()),
            "close to a joint's axis the target has a short lever, and its Jacobian a small "
            "column; damped methods are hardly affected",
        ),
    )
    columns: dict[str, Array] = {"update": np.arange(float(updates))}
    for name in methods():
        for kind, run in zip(("usual", "alternate"), runs["double_y", name], strict=True):
            columns[f"{name}_{kind}.distance"] = run.distance.mean(axis=1)
    return Outcome(quantities, claims, _bars(back, runs), (Table("update", columns),))


def _bars(
    back: dict[str, tuple[float, ...]], runs: dict[tuple[str, str], tuple[Followed, Followed]]
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        left, right = figure.subplots(1, 2)
        place = np.arange(len(back))
        for k, kind in enumerate(("usual", "alternate")):
            color = style.STYLES[k][0]
            left.bar(place + 0.4 * k, [100 * x[k] for x in back.values()], 0.38, color=color)
            totals = [runs["double_y", name][k].total_error for name in back]
            right.bar(place + 0.4 * k, totals, 0.38, color=color, label=f"{kind} Jacobian")
        for ax in (left, right):
            ax.set_xticks(place + 0.2, [NAMES[name] for name in back])
        style.titled(left, "Moves that reverse, double Y", "method", "[%]")
        style.titled(right, "Total error, double Y", "method", "[m]")
        style.legend(figure, right)

    return draw


# ---- a single end effector ---------------------------------------------------------------------


@experiment(
    "buss-single",
    paper="B",
    figure="Section 8",
    title="The Jacobian transpose with a single end effector",
    deviations=(
        "The paper names no system. Here the hand of an arm with seven joints follows a target "
        "within reach, on a curve like those of the program, with one update for each move.",
        '"Works well" means here: at most as far from the target in the mean as DLS, and with '
        "few reversed moves.",
    ),
    parameters=(
        Parameter("updates", 600, "", "measured updates", 99, 1000000),
        Parameter("damping", 0.3, "m", "λ of DLS", 0),
    ),
)
def single(progress: Progress, *, updates: int, damping: float) -> Outcome:
    """A KUKA iiwa follows a target that swings by up to 0.2 m in each coordinate, by transpose and
    by DLS; then the Y, with two end effectors, by the transpose.
    """
    robot = supple.load("iiwa14")
    start = np.radians([0.0, 40.0, 0.0, -70.0, 0.0, 60.0, 0.0])
    center = robot.fk(start)[:3, 3]
    T = 0.005 * np.arange(1, updates + 101)
    swing = np.stack([0.2 * np.sin(6 * T), 0.2 * np.sin(7 * T), 0.1 * np.sin(8 * T)], axis=1)
    goals = (center + swing)[:, None]
    steps: dict[str, Step] = {"transpose": figures.transpose(), "dls": figures.dls(damping)}
    runs = {
        name: loop(robot, start, goals, step, alternate=False, settle=100)
        for name, step in each(steps.items(), progress)
    }
    two = figures.follow(figures.Y, figures.transpose())
    move = float(np.linalg.norm(np.diff(goals[:, 0], axis=0), axis=1).mean())
    usual = float(np.linalg.norm(np.diff(two.goals, axis=0), axis=-1).mean())
    mean = {name: float(run.distance.mean()) for name, run in runs.items()}
    quantities = {
        "transpose.mean_distance": mean["transpose"],
        "dls.mean_distance": mean["dls"],
        "transpose.oscillation": runs["transpose"].oscillation,
        "dls.oscillation": runs["dls"].oscillation,
        "target_move": move,
        "y.transpose_mean_distance": float(two.distance.mean()),
        "y.transpose_oscillation": two.oscillation,
    }
    calm = runs["transpose"].oscillation < OFTEN
    good = mean["transpose"] <= mean["dls"] and calm
    claims = (
        Claim(
            "the transpose works well for a system with a single end effector",
            f"{1000 * mean['transpose']:.1f} mm from the target in the mean, which moves by "
            f"{1000 * move:.1f} mm in an update; DLS {1000 * mean['dls']:.1f} mm; "
            f"{runs['transpose'].oscillation:.1%} of its moves reverse",
            True if good else None,
            "one factor α does not fit all rows, and the hand zigzags: it follows, but DLS is "
            "twice as close and calm. The paper names neither the system nor a measure",
        ),
        Claim(
            "the transpose performs poorly with several end effectors",
            f"the mean distance is {float(two.distance.mean()) / usual:.0f} moves of a target on "
            f"the Y, where {two.oscillation:.0%} of the moves reverse; with a single end effector "
            f"it is {mean['transpose'] / move:.1f} moves",
            float(two.distance.mean()) / usual > 5 * mean["transpose"] / move,
            "one α cannot fit the rows of several end effectors, some of them out of reach",
        ),
    )
    columns: dict[str, Array] = {"update": np.arange(float(updates)), "target": goals[100:, 0]}
    for name, run in runs.items():
        columns |= {f"{name}.distance": run.distance[:, 0], f"{name}.q": run.q[1:]}
    return Outcome(quantities, claims, _single_figure(robot, runs), (Table("update", columns),))


def _single_figure(robot: supple.Robot, runs: dict[str, Followed]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        left, right = figure.subplots(1, 2)
        links = [joint.child for joint in robot.description.joints]
        q = runs["transpose"].q
        some = np.linspace(0, len(q) - 1, 6).astype(int)
        style.arms(left, robot.fk(q[some], [*links, *robot.tips])[..., [0, 2], 3], 0)
        left.plot(*runs["transpose"].goals[:, 0, [0, 2]].T, color=palette.GRAY, linewidth=0.8)
        style.titled(left, "The arm by transpose, and its target", "x [m]", "z [m]")
        names = {"transpose": "transpose", "dls": "DLS"}
        curves = {names[name]: 1000 * run.distance[:, 0] for name, run in runs.items()}
        style.curves(right, np.arange(len(q) - 1), curves)
        style.titled(right, "Distance from the target", "update", "[mm]")
        style.legend(figure, right)

    return draw
