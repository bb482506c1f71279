"""A PUMA passes the wrist, the shoulder and a triple singularity (Fig. 6-9)."""

from __future__ import annotations

import numpy as np
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, experiment
from supple.papers.maciejewski_klein import statements
from supple.papers.maciejewski_klein.courses import (
    MAX_GAIN,
    Runs,
    course_a,
    course_b,
    course_c,
    followed_by_all,
)
from supple.papers.maciejewski_klein.drawing import figure_of
from supple.papers.maciejewski_klein.inverse import PUMA
from supple.papers.maciejewski_klein.methods import DEVIATIONS, Moved, norm, percent

from supple import Linearization
from supple.steps import SingularDirection

THETA_MAX = Parameter(
    "max_gain", MAX_GAIN, "rad/m", "θ̇max, the bound on ‖θ̇‖/‖ẋ_c‖; λ is at most 1/(2θ̇max)", 0
)
LOST = (
    "The path cannot be read off the printed figure: among the paths of the described kind that "
    "were tried, this one satisfies the most claims. `mk-paths` reports the fraction of 500 such "
    "paths on which each claim holds."
)

# ---- claims common to all three trajectories -----------------------------------------------------


def _common(runs: Runs) -> tuple[Claim, ...]:
    found, constant = runs.quantities, runs.errors("constant")
    away = {name: found[f"{name}.away_error"] for name in runs.moved}
    gain = max(found[f"{name}.max_gain"] for name in runs.moved)
    where = "both ends" if runs.course.both_ends else "the start"
    printed = away["filtered_as_printed"]
    return (
        Claim(
            "a constant factor: a nominal error of 15 % (to within 5 points), more near the "
            "singularity",
            f"{percent(away['constant'])} over {where}, peak {percent(constant.max())}",
            statements.nominal(runs),
            "λ²/(σ² + λ²) for each direction; 15 % is read off a plot, and depends on the path",
        ),
        Claim(
            "this error occurs throughout (nowhere more than 5 points below)",
            f"at least {percent(constant.min())}, at interval {constant.argmin()}",
            statements.throughout(runs),
            "a constant factor damps every direction, the least where ẋ lies along large σ",
        ),
        Claim(
            "filtering: outside the singular region the error is near zero",
            f"α as printed: {percent(printed)} over {where}",
            statements.near_zero(runs),
            "there α is zero"
            if statements.near_zero(runs)
            else "σ_min is below 1/θ̇max there, so α of eq. (14) damps that direction although it "
            "is not commanded",
        ),
        Claim(
            "the same (component-aware gain)",
            f"{percent(away['filtered'])} over {where}",
            statements.near_zero(runs, "filtered"),
            "nothing is damped while the commanded velocity satisfies the bound",
        ),
        Claim(
            "joint speeds keep the bound, ‖θ̇‖ ≤ θ̇max ‖ẋ_c‖",
            f"at most {gain:.2f} ‖ẋ_c‖, for every method",
            gain <= runs.max_gain * (1 + 1e-12),
            f"1/(2λ) = {runs.max_gain:g} bounds every direction; the filter is clamped to it",
        ),
        _better(runs),
        Claim(
            "the same: filtering tracks better (component-aware gain)",
            f"{runs.errors('filtered').sum():.1f} against {runs.errors('variable').sum():.1f} "
            "intervals",
            statements.better(runs, "filtered"),
            "α follows the share of ẋ along the weak directions",
        ),
    )


def _better(runs: Runs) -> Claim:
    """Return the main claim for this trajectory: filtering tracks better than variable damping."""
    printed, ours, variable = (
        runs.errors(name).sum() for name in ("filtered_as_printed", "filtered", "variable")
    )
    holds = statements.better(runs)
    return Claim(
        "numerical filtering tracks better than a variable damping factor (integral error)",
        f"as printed {printed:.1f}, variable {variable:.1f}; component-aware {ours:.1f} intervals",
        holds,
        "the directions that are not singular are damped less"
        if holds
        else "α of eq. (14) damps û to its full extent even where little of ẋ lies along it, and "
        "the missing motion becomes a position error",
    )


def _only_lost(runs: Runs, says: str) -> Claim:
    """Return the claim that only the velocity along singular directions is lost."""
    share = {n: runs.avoidable(n) / runs.errors(n).sum() for n in runs.moved}
    holds = statements.only_lost(runs)
    return Claim(
        says,
        f"{percent(share['filtered_as_printed'])} of the error with α as printed lie along "
        f"directions with σ ≥ 1/θ̇max; component-aware {percent(share['filtered'])}, with variable "
        f"λ {percent(share['variable'])}, with constant λ {percent(share['constant'])}",
        holds,
        f"the claim holds if this is at most {statements.AVOIDABLE:.0%}, and less than half of the "
        "share with constant λ. λ of σ_eff damps all directions where ẋ has a component along û",
    )


def _only_lost_by_component(runs: Runs) -> Claim:
    share = runs.avoidable("filtered") / runs.errors("filtered").sum()
    return Claim(
        "the same: only singular directions are given up (component-aware gain)",
        f"{percent(share)} of the error lie along directions with σ ≥ 1/θ̇max",
        statements.only_lost(runs, "filtered"),
        "each weak direction has an α of its own, and λ hardly acts",
    )


def _notch(runs: Runs, says: str, why: str) -> Claim:
    """Return the claim that the error dips between two peaks well above the nominal error."""
    at, e = runs.notch("constant")
    rise = " → ".join(f"{percent(x)} (interval {k})" for k, x in zip(at, e, strict=True))
    return Claim(says, rise, statements.notched(runs), why)


# ---- the three trajectories ----------------------------------------------------------------------


@experiment(
    "mk-puma-a",
    paper="MK",
    figure="Fig. 6",
    title="PUMA: a circle through the wrist singularity",
    deviations=DEVIATIONS,
    parameters=(
        THETA_MAX,
        Parameter("radius", 0.25, "m", "radius of the circle", 0),
        Parameter("arc", 0.9, "half turns", "half of the arc, on either side of the top", 0, 1),
    ),
)
def trajectory_a(progress: Progress, *, max_gain: float, radius: float, arc: float) -> Outcome:
    """The hand follows a vertical circle of radius 0.25 m up, over the top and down; at the top it
    is aligned with the forearm, q5 = 0. The path has 942 intervals of 1.5 mm; λ = 0.1, θ̇max = 5
    and k_p = 0.1, with meters and radians mixed as in the paper. Errors are relative; speeds are in
    rad per interval. "Away from the singularity" means the first and the last tenth of the path.
    """
    runs = followed_by_all(course_a(radius, arc), max_gain, progress)
    off = {n: 1000 * runs.course.away(_off(runs, n)).max() for n in runs.moved}
    claims = (
        *_common(runs),
        _notch(
            runs,
            "the error has a notch at the singularity",
            "there ẋ lies along directions that are not singular",
        ),
        Claim(
            "up and down do not coincide with a constant factor; with filtering they do but near "
            "the top",
            f"off by up to {off['constant']:.1f} mm at the ends, {off['filtered']:.2f} mm filtered",
            bool(off["constant"] > 1 and off["filtered"] < 0.1),
            "the error over k_p is the lag; 0.03 mm is that of Euler's method",
        ),
        _only_lost(runs, "filtering: what remains is the rotation lost at the wrist"),
        _only_lost_by_component(runs),
    )
    return Outcome(runs.quantities, claims, figure_of(runs, "y", "z"), (runs.table,))


def _off(runs: Runs, method: str) -> np.ndarray:
    """Return the distance of the tool from its path after each interval (K,) [m]."""
    tool = PUMA.fk(runs.moved[method].q[1:])[:, :3, 3]
    return norm(tool - runs.course.poses[1:, :3, 3])


@experiment(
    "mk-puma-b",
    paper="MK",
    figure="Fig. 7",
    title="PUMA: a line past the shoulder and to the wrist singularity",
    deviations=(LOST, *DEVIATIONS),
    parameters=(
        THETA_MAX,
        Parameter("heading", 4.142, "deg", "direction of the line, from the x-axis"),
        Parameter("begin", -0.3765, "m", "where the line begins", most=-0.05),
        Parameter("end", 0.2775, "m", "where the line ends", above=0.05),
    ),
)
def trajectory_b(
    progress: Progress, *, max_gain: float, heading: float, begin: float, end: float
) -> Outcome:
    """The hand moves along a horizontal line through the shoulder singularity at [0, −69.179,
    −87.429, −30.473, −1.643, 0]°, from 0.3765 m before to 0.2775 m beyond it, at 4.1° to the
    x-axis. The hand ends near a wrist singularity, with hand and forearm aligned. The path has 436
    intervals of 1.5 mm; all else is as in mk-puma-a. "Away from the singularities" means the first
    tenth of the path.
    """
    runs = followed_by_all(course_b(heading, begin, end), max_gain, progress)
    constant, moved = runs.errors("constant"), runs.moved["constant"]
    bend = np.degrees(np.arcsin(np.abs(np.sin(moved.q[:-1, 4]))))
    last = constant[len(constant) // 2 :]
    turn, at, alignment = _switch(runs.moved["filtered"])
    twins, twin_turn = statements.switch(runs)
    twin_sigma = runs.singular_values("filtered_as_printed")[twins, 4:]
    claims = (
        *_common(runs),
        _notch(
            runs,
            "a notched peak at the shoulder singularity",
            "the line enters the cylinder about the shoulder's axis that the wrist cannot enter: "
            "ẋ turns toward and away from the lost direction",
        ),
        Claim(
            "a single peak near the end, from the proximity of the wrist singularity",
            f"from {percent(last.min())} to {percent(constant[-1])} at the end, where hand and "
            f"forearm are {bend[-1]:.1f}° off one line",
            statements.ends_at_wrist(runs),
            "the hand is nearly collinear with the forearm; the path ends before it is past it",
        ),
        _only_lost(runs, "filtering: only physically unachievable velocities are lost"),
        _only_lost_by_component(runs),
        Claim(
            "the estimate must switch rapidly from the shoulder's vector to the wrist's",
            f"u6 turns by up to {turn:.1f}° in an interval, the {at}th; |ûᵀu6| is at least "
            f"{alignment:.3f}",
            alignment > 0.95,
            "one undamped inverse iteration for each J turns the estimate as fast",
        ),
        Claim(
            "there the twin smallest singular values are above the threshold of damping",
            f"σ5, σ6 = {twin_sigma[0]:.3f}, {twin_sigma[1]:.4f} at interval {twins}, where u6 "
            f"turns the most after the shoulder, by {twin_turn:.1f}°; the threshold is "
            f"1/θ̇max = {1 / max_gain:g}",
            statements.twins_above(runs),
            "the two singularities are so near each other on a line of this length that σ6 does "
            "not recover between them",
        ),
    )
    return Outcome(runs.quantities, claims, figure_of(runs, "x", "y"), (runs.table,))


def _switch(moved: Moved) -> tuple[float, int, float]:
    """Return the largest rotation of the singular direction in an interval of the second half
    [deg], the index of that interval, and the smallest alignment of the estimate with the singular
    direction on the whole path.
    """
    J = PUMA.jacobian(moved.q[:-1])
    u = np.linalg.svd(J)[0][:, :, -1]
    turned = np.degrees(np.arccos(np.minimum(np.abs((u[1:] * u[:-1]).sum(axis=1)), 1)))
    half = len(turned) // 2
    at = half + int(turned[half:].argmax())
    estimate = SingularDirection.exact(Linearization(J[0], np.zeros(6)))
    aligned = []
    for now, least in zip(J, u, strict=True):
        estimate = estimate.update(now)
        aligned.append(abs(float(estimate.u @ least)))
    return float(turned[at]), at, min(aligned)


@experiment(
    "mk-puma-c",
    paper="MK",
    figure="Fig. 8-9",
    title="PUMA: a circle through the triple singularity",
    deviations=(LOST, *DEVIATIONS),
    parameters=(
        THETA_MAX,
        Parameter("radius", 0.35, "m", "radius of the circle", 0),
        Parameter("plane", 5.0, "deg", "angle of the circle's plane to the x-z plane"),
        Parameter("arc", 0.6, "half turns", "half of the arc, on either side of the top", 0, 1),
    ),
)
def trajectory_c(
    progress: Progress, *, max_gain: float, radius: float, plane: float, arc: float
) -> Outcome:
    """The hand follows a vertical circle of radius 0.35 m in a plane at 5° to the x-z plane. Its
    top is the triple singularity: the arm is stretched upwards, the wrist is aligned and over the
    shoulder. The path has 879 intervals of 1.5 mm; all else is as in mk-puma-a.
    """
    runs = followed_by_all(course_c(radius, plane, arc), max_gain, progress)
    simple = followed_by_all(course_a(), max_gain)
    sigma = runs.singular_values("filtered")
    closest, turning = statements.rotations(runs, "filtered")
    bend = float(np.degrees(abs(runs.moved["filtered"].q[closest][4])))
    depth, depth_a = statements.depth(runs), statements.depth(simple)
    width, width_a = runs.width("filtered"), simple.width("filtered")
    claims = (
        *_common(runs),
        _notch(runs, "a notched peak at the singularity", "as in trajectory A"),
        Claim(
            "the notch at the singularity is a bit more pronounced",
            f"{100 * depth:.1f} points deep, in trajectory A {100 * depth_a:.1f}",
            depth > depth_a,
            "the singularity is of higher order",
        ),
        Claim(
            "filtering: the region of non-zero error is broader",
            f"{width} intervals above 1 %, in trajectory A {width_a}",
            width > width_a,
            "more directions are hard to move in",
        ),
        _only_lost(runs, "filtering: the solution reflects the capabilities of the manipulator"),
        _only_lost_by_component(runs),
        Claim(
            "the three smallest singular values dip in the middle, but not all to zero",
            f"σ4, σ5, σ6 = {', '.join(f'{x:.2g}' for x in sigma[closest, 3:])} at interval "
            f"{closest} of {len(sigma)}",
            statements.dips_in_the_middle(runs, "filtered"),
            "errors of the position keep the arm away from the one point that is triply singular; "
            "even there σ4 is 0.037, the axis of joint 4 being 2.6° off that of joint 1",
        ),
        Claim(
            "the smallest belongs to the wrist, the next to the elbow, the third to the shoulder",
            f"u6, u5, u4 are rotations to {turning[2]:.2f}, {turning[1]:.2f}, {turning[0]:.2f}",
            statements.wrist_is_least(runs, "filtered"),
            "what a wrist loses is a rotation; here the arm comes with its wrist still bent, "
            f"q5 = {bend:.0f}°: the paper does not print its circle",
        ),
        Claim(
            "the fourth largest is still small compared with the two largest",
            f"σ4 ≤ {sigma[:, 3].max():.2f}, σ2 ≥ {sigma[:, 1].min():.2f}",
            statements.fourth_is_small(runs, "filtered"),
            "linear and angular velocities of joints 2, 3 and 5 are coupled",
        ),
    )
    return Outcome(runs.quantities, claims, figure_of(runs, "x", "z"), (runs.table,))
