"""A PUMA passes the wrist, the shoulder and a triple singularity (Fig. 6-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Progress, experiment
from supple.papers.maciejewski_klein.courses import MAX_GAIN, PUMA, A, B, C, Runs, followed_by_all
from supple.papers.maciejewski_klein.methods import DEVIATIONS, LABELS, error, norm, percent

from supple import DLS, Linearization, Trajectory, damping
from supple.steps import SingularDirection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOMINAL, NEAR = 0.15, 0.05  # read off a plot, and how far from it is the same

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
            bool(
                abs(away["constant"] - NOMINAL) <= NEAR and constant.max() > 1.5 * away["constant"]
            ),
            "λ²/(σ² + λ²) for each direction; 15 % is read off a plot, and depends on the path",
        ),
        Claim(
            "that error is there throughout (nowhere more than 5 points below)",
            f"at least {percent(constant.min())}, at interval {constant.argmin()}",
            bool(constant.min() >= NOMINAL - NEAR),
            "a constant factor damps every direction"
            if constant.min() >= NOMINAL - NEAR
            else "there ẋ lies along directions of large σ, which are hardly damped",
        ),
        Claim(
            "filtering: outside the singular region the error is near zero",
            f"α as printed: {percent(printed)} over {where}",
            printed < 0.01,
            "there α is zero"
            if printed < 0.01
            else "σ_min is below 1/θ̇max there, so α of eq. (14) damps that direction although it "
            "is not commanded",
        ),
        Claim(
            "the same (component-aware gain)",
            f"{percent(away['filtered'])} over {where}",
            away["filtered"] < 0.01,
            "nothing is damped while the commanded velocity satisfies the bound",
        ),
        Claim(
            "joint speeds keep the bound, ‖θ̇‖ ≤ 5 ‖ẋ_c‖",
            f"at most {gain:.2f} ‖ẋ_c‖, for every method",
            gain <= MAX_GAIN * (1 + 1e-12),
            "1/(2λ) = 5 bounds every direction; the filter is clamped to it",
        ),
    )


def _lost_share(runs: Runs) -> tuple[float, float]:
    """Return the part of the filter's error along the singular direction (root of summed squares),
    and its ratio to the smallest error that the bound allows (ratio of sums).
    """
    moved = runs.moved["filtered"]
    J = PUMA.jacobian(moved.q[:-1])
    lost = moved.command - moved.velocity
    along = np.einsum("ki,ki->k", np.linalg.svd(J)[0][:, :, -1], lost)
    unit = moved.command / norm(moved.command)[:, None]
    best = DLS(damping.Optimal(max_speed=MAX_GAIN))(Linearization(J, unit))
    least = norm(unit - np.einsum("kij,kj->ki", J, best))
    share = float(np.sqrt((along**2).sum() / (lost**2).sum()))
    return share, float(error(moved).sum() / least.sum())


def _only_what_is_lost(runs: Runs, says: str) -> Claim:
    share, over = _lost_share(runs)
    return Claim(
        says,
        f"{percent(share)} of the error lies along the singular direction",
        share > 0.95,
        f"α damps û alone; the sum of errors is still {over:.2f} times the least that the bound "
        "allows, by optimal damping along the same path",
    )


def _notch(runs: Runs, says: str, why: str) -> Claim:
    """Return a dip between two peaks, both well above the nominal error."""
    at, e = runs.notch("constant")
    rise = " → ".join(f"{percent(x)} (interval {k})" for k, x in zip(at, e, strict=True))
    nominal = runs.quantities["constant.away_error"]
    return Claim(says, rise, bool(min(e[0], e[2]) > 1.5 * nominal), why)


# ---- the three trajectories ----------------------------------------------------------------------


@experiment(
    "mk-puma-a",
    paper="MK",
    figure="Fig. 6",
    title="PUMA: a circle through the wrist singularity",
    deviations=DEVIATIONS,
)
def trajectory_a(progress: Progress) -> Outcome:
    """The hand follows a vertical circle of radius 0.25 m up, over the top and down; at the top it
    is aligned with the forearm, q5 = 0. 942 intervals of 1.5 mm, λ = 0.1, θ̇max = 5, k_p = 0.1,
    metres and radians mixed as in the paper. Errors are relative; speeds are in rad per interval.
    "Away from the singularity" means the first and the last tenth of the path.
    """
    runs = followed_by_all(A, progress)
    off = {name: 1000 * A.away(norm(m.error[:, :3])).max() for name, m in runs.moved.items()}
    claims = (
        *_common(runs),
        _notch(
            runs,
            "the error has a notch at the singularity",
            "there ẋ lies along directions that are left",
        ),
        Claim(
            "up and down do not coincide with a constant factor; with filtering they do but near "
            "the top",
            f"off by up to {off['constant']:.1f} mm at the ends, {off['filtered']:.2f} mm filtered",
            bool(off["constant"] > 1 and off["filtered"] < 0.1),
            "the error over k_p is the lag; 0.03 mm is that of Euler's method",
        ),
        _only_what_is_lost(runs, "filtering: what remains is the rotation lost at the wrist"),
    )
    return Outcome(runs.quantities, claims, _figure(runs, "y", "z"))


@experiment(
    "mk-puma-b",
    paper="MK",
    figure="Fig. 7",
    title="PUMA: a line past the shoulder and to the wrist singularity",
    deviations=DEVIATIONS,
)
def trajectory_b(progress: Progress) -> Outcome:
    """The hand moves along x from −0.25 to 0.35 m, the wrist passes 5 mm beside the shoulder's
    axis, and the hand comes near to alignment with the forearm at the end. 400 intervals of 1.5 mm,
    otherwise as mk-puma-a; away from the singularities means the first tenth of the path.
    """
    runs = followed_by_all(B, progress)
    constant, moved = runs.errors("constant"), runs.moved["constant"]
    bend = np.degrees(np.abs(moved.q[:-1, 4]))
    last = constant[len(constant) // 2 :]
    turn, at, alignment = _switch(runs.moved["filtered"])
    claims = (
        *_common(runs),
        _notch(
            runs,
            "a notched peak at the shoulder singularity",
            "the peak is single: the dip is far before it, where the error has not yet begun to "
            "rise; so it is for every line from −20 to 40 mm beside the axis",
        ),
        Claim(
            "a single peak near the end, from the proximity of the wrist singularity",
            f"from {percent(last.min())} to {percent(constant[-1])} at the end, where "
            f"q5 = {bend[-1]:.1f}°",
            bool(constant[-1] > 2 * last.min() and bend.argmin() == len(bend) - 1),
            "the hand is nearly aligned with the forearm; the path ends before it is past it",
        ),
        _only_what_is_lost(runs, "filtering: only physically unachievable velocities are lost"),
        Claim(
            "the estimate must switch rapidly from the shoulder's vector to the wrist's",
            f"the least vector turns by up to {turn:.1f}° in an interval, the {at}th; |ûᵀu6| is "
            f"{alignment:.3f} at least",
            alignment > 0.95,
            "one undamped inverse iteration for each J turns the estimate as fast",
        ),
    )
    return Outcome(runs.quantities, claims, _figure(runs, "x", "y", equal=False))


def _switch(moved: Trajectory) -> tuple[float, int, float]:
    """Return the largest rotation of the singular direction in an interval of the second half
    [deg], its time, and the smallest alignment of the estimate with it on the whole path.
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
    deviations=DEVIATIONS,
)
def trajectory_c(progress: Progress) -> Outcome:
    """A vertical circle of 0.25 m, its plane 10° from the x-z plane, whose top is the triple
    singularity: arm stretched upwards, wrist aligned and over the shoulder. 785 intervals of
    1.5 mm, otherwise as mk-puma-a.
    """
    runs, simple = followed_by_all(C, progress), followed_by_all(A)
    sigma = runs.singular_values("filtered")
    closest = int(sigma[:, 3:].sum(axis=1).argmin())
    q = runs.moved["filtered"].q[closest]
    turning = norm(np.linalg.svd(PUMA.jacobian(q))[0].T[3:, 3:])  # of u4, u5, u6
    bend = float(np.degrees(abs(q[4])))
    depth, depth_a = (
        min(e[0], e[2]) - e[1] for e in (runs.notch("constant")[1], simple.notch("constant")[1])
    )
    width, width_a = runs.width("filtered"), simple.width("filtered")
    claims = (
        *_common(runs),
        Claim(
            "the notch at the singularity is a bit more pronounced",
            f"{100 * depth:.0f} points deep, in trajectory A {100 * depth_a:.0f}",
            depth > depth_a,
            "the singularity is of higher order",
        ),
        Claim(
            "filtering: the region of non-zero error is broader",
            f"{width} intervals above 1 %, in trajectory A {width_a}",
            width > width_a,
            "more directions are hard to move in",
        ),
        Claim(
            "the three smallest singular values dip in the middle, but not all to zero",
            f"σ4, σ5, σ6 = {', '.join(f'{x:.2g}' for x in sigma[closest, 3:])} at interval "
            f"{closest} of {len(sigma)}",
            bool(abs(closest / len(sigma) - 0.5) < 0.1 and sigma[:, 4].min() > 0.01),
            "errors of the position keep the arm away from the one point that is triply singular; "
            "even there σ4 is 0.037, the axis of joint 4 being 2.6° off that of joint 1",
        ),
        Claim(
            "the smallest belongs to the wrist, the next to the elbow, the third to the shoulder",
            f"u6, u5, u4 are rotations to {turning[2]:.2f}, {turning[1]:.2f}, {turning[0]:.2f}: "
            "the wrist's is the third",
            bool(turning[2] > max(turning[:2])),
            "what a wrist loses is a rotation; here the arm comes with its wrist still bent, "
            f"q5 = {bend:.0f}°: the paper does not print its circle's centre",
        ),
        Claim(
            "the fourth largest is still small compared with the two largest",
            f"σ4 ≤ {sigma[:, 3].max():.2f}, σ2 ≥ {sigma[:, 1].min():.2f}",
            bool(sigma[:, 3].max() < sigma[:, 1].min() / 2),
            "linear and angular velocities of joints 2, 3 and 5 are coupled",
        ),
    )
    return Outcome(runs.quantities, claims, _figure(runs, "x", "z"))


def _figure(runs: Runs, across: str, up: str, *, equal: bool = True) -> Callable[[Figure], None]:
    i, k = "xyz".index(across), "xyz".index(up)

    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 7.2)
        panels = figure.subplot_mosaic([["error", "path"], ["speed", "sigma"]])
        for n, (name, moved) in enumerate(runs.moved.items()):
            how = style.style_of(n) | {"label": LABELS[name]}
            intervals = np.arange(len(moved))
            panels["error"].plot(intervals, 100 * error(moved), **how)
            panels["speed"].plot(intervals, norm(moved.qd), **how)
            tool = PUMA.fk(moved.q)[:, :3, 3]
            panels["path"].plot(tool[:, i], tool[:, k], **how)
        at, title = runs.course.poses[:, :3, 3], f"Path of the tool in the {across}-{up} plane"
        ax = style.titled(panels["path"], title, f"{across} [m]", f"{up} [m]")
        ax.plot(at[:, i], at[:, k], color=style.GREY, linewidth=1, zorder=1)
        if equal:
            ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.1)
        sigma = runs.singular_values("filtered")
        style.spectrum(panels["sigma"], sigma)
        style.bound(panels["sigma"], 1 / MAX_GAIN, "")
        for name, title, unit in (
            ("error", "Velocity error ‖ẋ − Jθ̇‖/‖ẋ‖", "[%]"),
            ("speed", "Joint speed ‖θ̇‖", "[rad per interval]"),
            ("sigma", "Singular values of J; damped below 1/θ̇max (dashed)", "[m or rad, mixed]"),
        ):
            style.titled(panels[name], title, "interval", unit)
            panels[name].set_xlim(0, len(sigma))
        for name in ("error", "speed"):
            panels[name].set_ylim(bottom=0)
        style.legend(figure, panels["error"])

    return draw
