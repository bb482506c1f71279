"""B section 8: how closely and how smoothly each method follows targets that go out of reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from supple.papers.buss import figures
from supple.papers.buss.comparison import NAMES, OFTEN, RARE, Comparison, calm
from supple.papers.buss.drawing import figure_of
from supple.papers.buss.figures import Shape
from supple.papers.experiment import (
    THESIS,
    Claim,
    Outcome,
    Parameter,
    Progress,
    Table,
    by_method,
    experiment,
)
from supple.papers.style import Array

import supple

DEVIATIONS = (
    "Figures, targets and constants are those of the published program: the paper prints none.",
    "D_max of an end effector grows by the distance that its own target moved away; with several "
    "end effectors, the program uses the distance of another one.",
    "SDLS has the soft form of the program; this edition of the paper does not contain SDLS.",
    "Oscillation is counted here; the paper judged it by eye.",
    "Times are those of a Servo called from Python on this machine, and verdicts follow from "
    "them. bench/figures.py runs the loop inside the kernel; its times were measured on a "
    "Neoverse-N1.",
)
LAMBDAS_Y = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
WINDOWS = 500  # number of windows of one motion in which a claim is tested
SAME_RATIO = 0.1  # largest difference of two ratios of times that are called the same


def parameters(shape: Shape) -> tuple[Parameter, ...]:
    """Return the parameters of a figure's experiment."""
    settle, updates = shape.steps
    plain, clamped = shape.lambdas
    return (
        Parameter("updates", updates, "", "measured updates", 99, 1000000),
        Parameter("settle", settle, "", "updates before them", -1, 1000000),
        Parameter("damping", plain, "m", "λ of DLS", 0),
        Parameter("damping_clamped", clamped, "m", "λ of DLS with clamped errors", 0),
    )


def changed(
    shape: Shape, updates: int, settle: int, damping: float, damping_clamped: float
) -> Shape:
    """Return a copy of a shape with other numbers of updates and other dampings λ."""
    return replace(shape, steps=(settle, updates), lambdas=(damping, damping_clamped))


@experiment(
    "buss-y",
    paper="B",
    figure="Fig. 1, section 8",
    title="The Y follows two targets that swing out of reach",
    deviations=DEVIATIONS,
    parameters=parameters(figures.Y),
)
def y(progress: Progress, **values: Any) -> Outcome:
    """A figure with seven joints, one fork and two end effectors follows its targets: 20 updates to
    settle, then 200 that are measured. DLS is also run with a range of dampings, without and with
    clamped errors.
    """
    shape = changed(figures.Y, **values)
    return _outcome(shape, LAMBDAS_Y, "poor", progress, windows=(200, 400, 800, 2000))


@experiment(
    "buss-double-y",
    paper="B",
    figure="Fig. 1, section 8",
    title="The double Y follows four targets that swing out of reach",
    deviations=(
        *DEVIATIONS,
        "The double Y of the program has 25 joints; the paper counts 16 links and a 12 × 16 J.",
        "With transpose and pseudoinverse, the motion of the double Y is chaotic: results depend "
        "on rounding, total errors by 1 % and 8 %.",
    ),
    parameters=parameters(figures.DOUBLE_Y),
)
def double_y(progress: Progress, **values: Any) -> Outcome:
    """A figure with 25 joints, two levels of forks and four end effectors follows its targets: 400
    updates to settle, then 2000 that are measured. DLS is also run with a range of dampings,
    without and with clamped errors.
    """
    shape = changed(figures.DOUBLE_Y, **values)
    return _outcome(shape, (0.3, 0.5, 0.7, 0.9, 1.1), "extremely poor", progress)


@experiment(
    "buss-text-double-y",
    paper="B",
    figure="Fig. 1, section 8",
    title="The double Y with the 16 joints of the text",
    deviations=(
        *DEVIATIONS,
        "The text counts 16 links and a 12 × 16 J, but the program's figure has 25 joints. Here "
        "each link of the drawing has one joint; targets and constants are those of the program.",
    ),
    parameters=parameters(figures.DOUBLE_Y_TEXT),
)
def text_double_y(progress: Progress, **values: Any) -> Outcome:
    """A figure with 16 joints, two levels of forks and four end effectors follows its targets: 400
    updates to settle, then 1000 that are measured. DLS is also run with a range of dampings,
    without and with clamped errors.
    """
    shape = changed(figures.DOUBLE_Y_TEXT, **values)
    return _outcome(shape, (0.3, 0.7, 1.1), "extremely poor", progress)


def _outcome(
    shape: Shape,
    lambdas: tuple[float, ...],
    quality: str,
    progress: Progress,
    windows: tuple[int, ...] = (),
) -> Outcome:
    found = Comparison.of(shape, lambdas, progress)
    by_window: dict[int, float] = {}
    shaken: Array = np.zeros(0)
    if windows:
        goals = shape.path(shape.steps[0] + WINDOWS * shape.steps[1])
        robot = supple.load(shape.name)
        motions = [figures.moved(robot, goals, figures.dls(lam)) for lam in lambdas]
        by_window = {n: float(least_oscillation(shape, motions, goals, n)[0]) for n in windows}
        shaken = least_oscillation(shape, motions, goals, shape.steps[1], WINDOWS)
    beyond, within = found.pinv_goes_back()
    plain, clamped = calm(found.plain), calm(found.clamped)
    quantities = by_method(
        {
            name: {"total_error": run.total_error, "oscillation": run.oscillation}
            for name, run in found.methods.items()
        }
    ) | {
        "runtime_ratio": found.seconds[0] / found.seconds[1],
        "transpose_us": 1e6 * found.seconds[0],
        "dls_us": 1e6 * found.seconds[1],
        "pinv.oscillation_beyond_reach": beyond,
        "pinv.oscillation_else": within,
        "dls.least_calm_lambda": plain,
        "dls_clamped.least_calm_lambda": clamped,
        "dls.least_calm_total_error": found.plain[plain].total_error,
        "dls_clamped.least_calm_total_error": found.clamped[clamped].total_error,
    }
    quantities |= {f"dls.least_oscillation_{n}": share for n, share in by_window.items()}
    if windows:
        quantities["dls.windows_that_oscillate"] = (shaken > OFTEN).mean()
    claims = (
        *((_thesis(found),) if shape.name == "double_y" else ()),
        *_of_methods(found, quality),
        *_of_damping(found, by_window),
        *((_of_windows(shape, shaken),) if windows else ()),
        *of_time(shape, found.seconds),
    )
    columns: dict[str, Array] = {"update": np.arange(float(shape.steps[1]))}
    columns |= {f"{name}.distance": run.distance for name, run in found.methods.items()}
    columns["target"] = found.methods["dls"].goals.reshape(shape.steps[1], -1)
    sweep = {"lambda": np.array(lambdas)}
    for name, runs in (("dls", found.plain), ("dls_clamped", found.clamped)):
        sweep[f"{name}.total_error"] = np.array([run.total_error for run in runs.values()])
        sweep[f"{name}.oscillation"] = np.array([run.oscillation for run in runs.values()])
    tables = [Table("update", columns), Table("lambda", sweep)]
    if windows:
        numbers = np.arange(float(WINDOWS))
        tables.append(Table("window", {"window": numbers, "dls.least_oscillation": shaken}))
    return Outcome(quantities, claims, figure_of(found), tuple(tables))


def least_oscillation(
    shape: Shape, motions: Sequence[Array], goals: Array, updates: int, count: int = 1
) -> Array:
    """Return the fractions (count,) of reversed moves of DLS in `count` successive windows of one
    long motion, each at the damping that has the smallest total error in the window.

    Args:
        shape: The figure.
        motions: The joint angles (K + 1, n) at each damping [rad].
        goals: The targets (K, k, 3) [m].
        updates: The number of updates in a window.
        count: The number of windows.
    """
    robot, settle = supple.load(shape.name), shape.steps[0]
    errors, reversals = np.empty((2, len(motions), count))
    for i, q in enumerate(motions):
        for j, k in enumerate(range(settle, settle + count * updates, updates)):
            run = figures.followed(robot, q[k : k + updates + 1], goals[k : k + updates])
            errors[i, j], reversals[i, j] = run.total_error, run.oscillation
    return np.asarray(reversals[errors.argmin(axis=0), np.arange(count)])


# ---- claims ------------------------------------------------------------------------------------


def _of_methods(found: Comparison, quality: str) -> tuple[Claim, ...]:
    """Return the claims about methods; measures of chaotic oscillation are stated as bounds."""
    poor, good, pinv = (found.methods[name] for name in ("transpose", "dls", "pinv"))
    others = [found.methods[name].total_error for name in NAMES if name != "transpose"]
    beyond, within = found.pinv_goes_back()
    shakes = beyond > OFTEN and max(within, good.oscillation) < RARE
    most = max(share for share in (0, OFTEN, 0.1, 0.2, 0.4) if share <= beyond)
    near = abs(pinv.total_error / good.total_error - 1) < 0.15
    error = f"{'within' if near else 'not within'} 15 % of the {good.total_error:.4g} m of DLS"
    if not found.shape.chaotic:
        error = f"{pinv.total_error:.4g} m, that of DLS {good.total_error:.4g} m"
    wild = found.methods["pinv_uncapped"].total_error > 3 * pinv.total_error
    return (
        Claim(
            f"the quality of the Jacobian transpose is {quality}",
            f"total error {poor.total_error:.4g} m, the largest of the five; "
            f"{poor.oscillation:.0%} of its moves reverse",
            poor.total_error > max(others) and poor.oscillation > OFTEN,
            "its factor α fits one direction; in the others every update overshoots",
        ),
        Claim(
            "the pseudoinverse works very poorly whenever targets are out of reach (judged by "
            "oscillation)",
            (
                f"while some target is out of reach more than {most:.0%} of its moves reverse, "
                f"otherwise less than {RARE:.1%}, as with DLS at all times"
                if shakes
                else f"{beyond:.1%} of its moves reverse while targets are out of reach"
            )
            + f"; its total error is {error}",
            shakes,
            "in the stretched figure one direction is nearly singular, and the pseudoinverse moves "
            "farthest along it. By the sum of distances alone, it would not be poor",
        ),
        Claim(
            "the pseudoinverse is not recommended unless joint angles are severely clamped",
            f"without the clamp its total error is {'more' if wild else 'less'} than 3 times that "
            "with angles clamped to 5°",
            wild,
            "without the clamp, joints turn by many radians in one update",
        ),
        Claim(
            "damped least squares works substantially better than the transpose",
            f"total error {good.total_error:.4g} m, {good.total_error / poor.total_error:.0%} of "
            f"the transpose's; {good.oscillation:.1%} of its moves reverse",
            good.total_error < 0.9 * poor.total_error and good.oscillation < RARE,
            "much of the remaining error is due to targets that no method can reach",
        ),
    )


def _thesis(found: Comparison) -> Claim:
    """Return the paper's main claim: its recommendation of methods for several end effectors."""
    calm_ones = {name: found.methods[name].oscillation for name in ("dls", "dls_clamped", "sdls")}
    wild = {name: found.methods[name].oscillation for name in ("transpose", "pinv")}
    best, poor = found.methods["dls_clamped"].total_error, found.methods["transpose"].total_error
    return Claim(
        f"{THESIS}for several end effectors DLS or DLS' should be used: they still perform well "
        "where targets are out of reach, and transpose and pseudoinverse oscillate",
        f"moves that reverse: at most {max(calm_ones.values()):.1%} with DLS, DLS' and SDLS, more "
        f"than {OFTEN:.0%} with the others; total error of DLS' {best / poor:.0%} of the "
        "transpose's",
        max(calm_ones.values()) < RARE and min(wild.values()) > OFTEN and best < poor,
        "damping bounds the update along directions that are nearly lost",
    )


def _of_damping(found: Comparison, by_window: dict[int, float]) -> tuple[Claim, ...]:
    least = min(found.plain.values(), key=lambda run: run.total_error)
    shakes = least.oscillation > OFTEN
    plain, clamped = calm(found.plain), calm(found.clamped)
    best, best_clamped = found.plain[plain].total_error, found.clamped[clamped].total_error
    as_set = [found.methods[name].total_error for name in ("dls_clamped", "dls")]
    why = "the figure does not stretch out toward targets out of reach"
    if found.shape.lambdas[0] == found.shape.lambdas[1]:
        why += f"; the program has one λ for this figure, {found.shape.lambdas[0]}"
    return (
        Claim(
            "where the error of DLS is least there is a lot of oscillation",
            f"least is {least.total_error:.3g} m, where {'more' if shakes else 'less'} than "
            f"{OFTEN:.0%} of the moves reverse",
            shakes,
            "so the damping should be raised until oscillation is rare"
            if shakes
            else "here oscillation adds more error than damping: the error is least where "
            "oscillation begins. The result depends on the window: over "
            + ", ".join(f"{n} updates {share:.0%}" for n, share in by_window.items()),
        ),
        Claim(
            "clamped errors (DLS') allow a lower damping, which follows more closely",
            f"oscillation is rare down to λ = {clamped:g} ({best_clamped:.4g} m) instead of "
            f"{plain:g} ({best:.4g} m); with the program's constants {as_set[0]:.4g} against "
            f"{as_set[1]:.4g} m",
            clamped < plain and best_clamped < best,
            why,
        ),
    )


def _of_windows(shape: Shape, shaken: Array) -> Claim:
    """Return the claim that in most windows DLS oscillates at the damping with the smallest error.

    `shaken` (count,) is the fraction of reversed moves in each window.
    """
    share = float((shaken > OFTEN).mean())
    return Claim(
        f"DLS oscillates where its error is least, in most of {len(shaken)} windows of "
        f"{shape.steps[1]} updates of the same motion",
        f"in {share:.0%} of them more than {OFTEN:.0%} of the moves reverse where the error is "
        f"least, {np.median(shaken):.0%} in the median",
        share > 0.5,
        "the windows are successive parts of one motion; the first ones oscillate less than most",
        own=True,
    )


def of_time(shape: Shape, seconds: tuple[float, float]) -> tuple[Claim, ...]:
    """Return the claims about run time, whose measurements and verdicts depend on the machine."""
    paper, ours, kernel = shape.paper_us, [1e6 * each for each in seconds], shape.kernel_us
    ratio, here = (dls / transpose for transpose, dls in (paper, ours))
    absolute = [
        Claim(
            f"an update by {name} takes {theirs} µs (2.8 GHz Pentium); here less",
            f"{took:.1f} µs",
            took < theirs,
            "the call from Python is part of it"
            + (f"; inside the kernel an update takes {own} µs on a Neoverse-N1" if own else ""),
        )
        for name, theirs, took, own in zip(
            ("transpose", "DLS"), paper, ours, kernel or (0.0, 0.0), strict=True
        )
    ]
    return (
        *absolute,
        Claim(
            f"DLS takes {ratio:.1f} times as long as the transpose (to within {SAME_RATIO:.0%})",
            f"{here:.1f} times: {ours[1]:.1f} against {ours[0]:.1f} µs",
            abs(here / ratio - 1) <= SAME_RATIO,
            "kinematics and the call from Python are part of both"
            + (f"; inside the kernel it is {kernel[1] / kernel[0]:.1f} times" if kernel else ""),
        ),
    )
