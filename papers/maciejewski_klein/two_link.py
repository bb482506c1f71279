"""Two links follow a square that leaves their reach and passes the inner singularity (Fig. 2-3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from supple.papers import style
from supple.papers.experiment import (
    THESIS,
    Claim,
    Outcome,
    Parameter,
    Progress,
    Table,
    by_method,
    each,
    experiment,
)
from supple.papers.maciejewski_klein.methods import (
    DEVIATIONS,
    GAIN,
    LABELS,
    error,
    followed,
    methods,
    norm,
    percent,
)
from supple.papers.style import Array

from supple import Limits, Linearization, PositionTask, Trajectory, load, track
from supple.plot import palette
from supple.steps import Pseudoinverse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARM = load("planar2")  # links of 1.10 and 1.00 m
LINKS = (1.10, 1.00)
OFFSET = 0.1  # distance of the square from the base [m]
SIDE = 200  # number of intervals of 1 cm on each side
MAX_GAIN = 2.0  # θ̇max [rad/m], so that λ <= 0.25 m
MAX_SPEED = 0.05  # the paper's bound on the norm of joint speeds [rad per interval]
RATE_GAIN = 1.0  # k_v of resolved acceleration, per interval
B_TO_C, D_TO_A = slice(SIDE, 2 * SIDE), slice(3 * SIDE, None)
TASK = PositionTask(rows=("x", "y"))


def corners(offset: float = OFFSET) -> dict[str, tuple[float, float]]:
    """Return the corners of the square [m]."""
    near, far = offset, offset + 2.0
    return {"A": (near, -1.0), "B": (far, -1.0), "C": (far, 1.0), "D": (near, 1.0)}


def square(offset: float = OFFSET) -> Array:
    """Return the targets of the hand, A B C D A, one for each interval (801, 3)."""
    ends = [np.array([x, y, 0.0]) for x, y in corners(offset).values()]
    ends.append(ends[0])
    sides = [np.linspace(a, b, SIDE, endpoint=False) for a, b in itertools.pairwise(ends)]
    return np.vstack([*sides, ends[-1]])


def start(offset: float = OFFSET) -> Array:
    """Return the configuration with the hand at A and the elbow to the right."""
    x, y = corners(offset)["A"]
    a, b = LINKS
    elbow = np.arccos((x**2 + y**2 - a**2 - b**2) / (2 * a * b))
    shoulder = np.arctan2(y, x) - np.arctan2(b * np.sin(elbow), a + b * np.cos(elbow))
    return np.array([shoulder, elbow])


def measures(moved: Trajectory) -> dict[str, float]:
    """Return the paper's numbers: errors from D to A, speeds [rad per interval] and distances [m];
    and the largest change of the joint speeds between intervals, except at the corners.
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
        "Lengths in meters: θ̇max = 0.02 rad/cm is 2 rad/m here, λ ≤ 25 cm is 0.25 m.",
        "Resolved acceleration: k_p = 0.1, k_v = 1 per interval, started at the speed of the path; "
        "the paper gives no gains and no results.",
        *DEVIATIONS,
    ),
    parameters=(
        Parameter("max_gain", MAX_GAIN, "rad/m", "θ̇max, the bound on ‖θ̇‖/‖ẋ_c‖", 0),
        Parameter("gain", GAIN, "1/interval", "k_p, the feedback of the position error", -1e-9, 1),
        Parameter("offset", OFFSET, "m", "distance of the side D-A from the base", -1.0, 1.0),
    ),
)
def follow_square(progress: Progress, *, max_gain: float, gain: float, offset: float) -> Outcome:
    """A planar arm of 1.10 and 1.00 m follows a square of 2 m in 800 intervals of 1 cm, k_p = 0.1.
    B and C are out of reach; halfway from D to A the arm is folded and singular, but the path does
    not use the singular direction.

    The integral is the sum of the relative error over the intervals from D to A, in cm as printed.
    """
    path = square(offset)
    steps = methods(max_gain) | {"pseudoinverse": Pseudoinverse()}
    moved = {
        name: followed(ARM, start(offset), path, step, tasks=TASK, gain=gain)
        for name, step in each(steps.items(), progress)
    }
    found = {name: measures(each) for name, each in moved.items()}
    second = {
        name: accelerated(step, path, offset, gain) for name, step in methods(max_gain).items()
    }
    quantities = by_method(found) | by_method(
        {
            f"{name}_acceleration": {
                "da_position_error": float(norm(each.error)[D_TO_A].mean()),
                "max_joint_speed": float(norm(each.qd).max()),
            }
            for name, each in second.items()
        }
    )
    moved_only = {name: moved[name] for name in LABELS}
    claims = (
        *_claims(moved_only, found),
        *_features(moved, found, path, max_gain),
        _acceleration(moved_only, second),
    )
    columns: dict[str, Array] = {"interval": np.arange(4.0 * SIDE), "target": path[:-1, :2]}
    for name, motion in moved.items():
        columns |= {
            f"{name}.error": error(motion),
            f"{name}.joint_speed": norm(motion.qd),
            f"{name}.sigma_min": motion.sigma_min,
            f"{name}.hand": ARM.fk(motion.q[:-1])[:, :2, 3],
            f"{name}.q": motion.q[:-1],
            f"{name}.lambda2": motion.lambda2,
        }
    for name, motion in second.items():
        columns[f"{name}_acceleration.position_error"] = norm(motion.error)
    table = Table("interval", columns)
    return Outcome(quantities, claims, _figure(moved_only, path, offset), (table,))


def accelerated(step: Any, path: Array, offset: float, gain: float) -> Trajectory:
    """Follow the square by resolved acceleration: ẍ_c = k_v (ẋ_d − ẋ) + k_p (x_d − x)."""
    q = start(offset)
    first = Linearization(ARM.jacobian(q)[:2], path[1, :2] - path[0, :2])
    free = Limits.none(ARM)
    return track(
        ARM,
        q,
        tasks=TASK,
        target=path,
        dt=1.0,
        gain=gain,
        rate_gain=RATE_GAIN,
        order=2,
        step=step,
        limits=free,
        qd0=Pseudoinverse()(first),
    )


def _claims(moved: dict[str, Trajectory], found: dict[str, dict[str, float]]) -> tuple[Claim, ...]:
    variable, printed, filtered = (
        found[name] for name in ("variable", "filtered_as_printed", "filtered")
    )
    fastest = max(found[name]["max_joint_speed"] for name in moved)
    farthest = [found[name]["max_position_error"] for name in moved]
    asked = norm(np.concatenate([each.command for each in moved.values()])) * 100
    constant = error(moved["constant"])
    smooth = max(found[name]["max_speed_change"] for name in moved if name != "filtered")
    blocked = (
        "α of eq. (14) damps the singular direction even where the command needs it; the missing "
        "motion becomes a position error, and the effective singular value falls. (32), "
        "(35) and (37) cannot be read in print: of the forms that were tried, α bounded by 0.1 "
        "with the mean σ_eff comes closest, 3.3 % and 0.272 cm"
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
            f"{variable['da_integral']:.4f} cm",
            abs(variable["da_integral"] - 9.94) < 0.005,
            "to the printed digits, with λ from the σ̂ of the previous interval, as in section IV",
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
        _thesis(moved),
        _thesis_by_component(moved),
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
            "the paper is wrong for this geometry: before B the velocity of the path and the "
            "feedback of 0.1 × 22.6 cm both point outwards and add up; after C they are opposed",
        ),
        Claim(
            "transitions are smooth",
            f"joint speeds change by at most {smooth:.4f} rad per interval, corners aside",
            smooth < MAX_SPEED / 10,
            "all but the component-aware filter: damping sets in gradually",
        ),
        Claim(
            "transitions are smooth (component-aware gain)",
            f"by up to {filtered['max_speed_change']:.4f}",
            filtered["max_speed_change"] < MAX_SPEED / 10,
            "near a singularity the gain along û does not depend on how much of ẋ lies along it",
        ),
    )


def _thesis(moved: dict[str, Trajectory]) -> Claim:
    sums = {name: error(each).sum() for name, each in moved.items()}
    holds = sums["filtered_as_printed"] < sums["variable"] < sums["constant"]
    return Claim(
        f"{THESIS}the more information a formulation uses, the better it tracks: filtering better "
        "than variable damping, that better than a constant factor",
        f"sum of the errors around the square: α as printed {sums['filtered_as_printed']:.1f}, "
        f"component-aware {sums['filtered']:.1f}, variable {sums['variable']:.1f}, constant "
        f"{sums['constant']:.1f} cm",
        holds,
        "variable damping is better than constant; the filter as printed is not better than "
        "variable damping here, nor on most lines and circles of a PUMA (mk-paths). With the "
        "component-aware gain filtering is better from D to A and on trajectories A, B and C",
    )


def _thesis_by_component(moved: dict[str, Trajectory]) -> Claim:
    sums = {name: error(each).sum() for name, each in moved.items()}
    return Claim(
        "the same: filtering better than variable damping, that better than a constant factor "
        "(component-aware gain)",
        f"{sums['filtered']:.1f}, {sums['variable']:.1f} and {sums['constant']:.1f} cm",
        sums["filtered"] < sums["variable"] < sums["constant"],
        "α follows the share of ẋ along û",
    )


def _features(
    moved: dict[str, Trajectory],
    found: dict[str, dict[str, float]],
    path: Array,
    max_gain: float,
) -> tuple[Claim, ...]:
    """Return the claims about features of Fig. 3: corners B and C, the dip, the notch and the
    overshoot.
    """
    e = {name: error(each) for name, each in moved.items() if name != "pseudoinverse"}
    damped = [e[name] for name in ("constant", "variable", "filtered_as_printed")]
    tops = [np.argmax(x) for x in damped]
    near = [min(abs(top - SIDE), abs(top - 2 * SIDE)) for top in tops]
    middle = slice(SIDE + SIDE // 4, 2 * SIDE - SIDE // 4)
    dips = [middle.start + int(x[middle].argmin()) for x in damped]
    notch = [2 * SIDE + int(x[2 * SIDE : 2 * SIDE + SIDE // 5].argmin()) for x in damped]
    reached = 2 * SIDE + int(
        np.flatnonzero(norm(path[2 * SIDE :, :2]) <= sum(LINKS)).min(initial=2 * SIDE)
    )
    speeds = {name: norm(each.qd) for name, each in moved.items()}
    fastest = [int(speeds[n].argmax()) for n in ("constant", "variable", "filtered_as_printed")]
    pinv = found["pseudoinverse"]
    turns = int((np.diff(np.sign(np.diff(moved["pseudoinverse"].qd[B_TO_C, 1]))) != 0).sum())
    after = [x[n:].max() for x, n in zip(damped, notch, strict=True)]
    return (
        Claim(
            "the largest errors occur at B and C",
            "at intervals " + ", ".join(map(str, tops)) + f" (B is {SIDE}, C is {2 * SIDE})",
            bool(max(near) <= 10),
            "there ẋ_c leads outwards, along the direction that is lost",
        ),
        Claim(
            "the error dips at the midpoint between B and C",
            f"to {', '.join(percent(x[k]) for x, k in zip(damped, dips, strict=True))} at "
            f"intervals {', '.join(map(str, dips))}",
            all(
                abs(k - 1.5 * SIDE) <= SIDE / 8 and x[k] < 0.1
                for x, k in zip(damped, dips, strict=True)
            ),
            "there ẋ_c is tangent to the reach, along the direction that is left; a few cm before "
            "the midpoint, since the hand lags behind",
        ),
        Claim(
            "just after C the error has a notch",
            f"down to {', '.join(percent(x[k]) for x, k in zip(damped, notch, strict=True))} at "
            f"intervals {', '.join(map(str, notch))}",
            all(
                x[k] < x[2 * SIDE] / 2 and k < 2 * SIDE + SIDE // 5 - 1
                for x, k in zip(damped, notch, strict=True)
            ),
            "the feedback, outwards, and the path, inwards, cancel along the lost direction",
        ),
        Claim(
            "the notch marks where the commanded position comes back into reach",
            f"the notch is at interval {notch[0]}, the path comes within 2.10 m at {reached}",
            abs(notch[0] - reached) <= 5,
            "the outward command vanishes where k_p times the distance equals the speed of the "
            "path, which is before the path itself is in reach",
        ),
        Claim(
            "the peak joint velocity is reached after C, in getting out of the singularity",
            f"at intervals {', '.join(map(str, fastest))}",
            all(reached < k < 2.5 * SIDE for k in fastest) and all(x > 0.5 for x in after),
            "ẋ_c has a strong component in the direction of the now small singular value; the "
            "error rises again before it falls",
        ),
        Claim(
            "pseudoinverse solutions have unacceptably high joint velocities, oscillations and "
            "poor tracking",
            f"up to {pinv['max_joint_speed']:.1f} rad per interval, "
            f"{100 * pinv['max_position_error']:.0f} cm off; the elbow turns back {turns} times "
            "between B and C",
            pinv["max_joint_speed"] > 10 * MAX_SPEED and turns > SIDE / 10,
            "out of reach the arm oscillates about the stretched configuration",
        ),
    )


def _acceleration(moved: dict[str, Trajectory], second: dict[str, Trajectory]) -> Claim:
    first, then = (
        {name: float(norm(each.error)[D_TO_A].mean()) for name, each in runs.items()}
        for runs in (moved, second)
    )
    order = [sorted(each, key=each.__getitem__) for each in (first, then)]
    told = ", ".join(f"{name} {100 * first[name]:.2f} → {100 * then[name]:.2f}" for name in first)
    same = all(
        (first[a] < first[b]) == (then[a] < then[b])
        for a, b in (("filtered", "variable"), ("variable", "constant"))
    )
    return Claim(
        "resolved acceleration gives similar results",
        f"mean distance from D to A [cm], rate → acceleration: {told}",
        same,
        f"the methods rank alike: {order[1][0]} is best, {order[1][-1]} worst"
        if same
        else f"by rate {', '.join(order[0])}; by acceleration {', '.join(order[1])}",
    )


def _figure(moved: dict[str, Trajectory], path: Array, offset: float) -> Callable[[Figure], None]:
    named = corners(offset)

    def draw(figure: Figure) -> None:
        figure.set_size_inches(12, 9)
        layout: list[Any] = [
            ["path", "error"],
            ["path", "speed"],
            ["arms", "sigma"],
            ["arms", "inner"],
        ]
        panels = figure.subplot_mosaic(layout, width_ratios=[1, 1.15])
        motion = moved["filtered"]
        places = ARM.fk(motion.q[:: SIDE // 8], ["link0", "link1", "link2"])[..., :2, 3]
        ax = style.titled(panels["arms"], "The arm, filtered", "x [m]", "y [m]")
        ax.plot(path[:, 0], path[:, 1], color=palette.GRAY, linewidth=1, zorder=1)
        style.arms(ax, places, list(moved).index("filtered"))
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
        ax.plot(path[:, 0], path[:, 1], color=palette.GRAY, linewidth=1, zorder=1)
        turn = np.linspace(-0.5, 0.5, 100) * np.pi
        for radius in (sum(LINKS), LINKS[0] - LINKS[1]):
            reach = radius * np.array([np.cos(turn), np.sin(turn)])
            ax.plot(*reach, color=palette.GRAY, linewidth=1, linestyle=":", zorder=1)
        style.note(ax, "reach", (1.38, 1.33))
        for corner, (x, y) in named.items():
            ax.annotate(
                corner,
                (x, y),
                xytext=(7 if x > 1 else -12, -14 if y < 0 else 6),
                textcoords="offset points",
                fontweight="bold",
            )
        style.note(ax, "inner singularity", (0.28, 0.3), (0.11, 0.0))
        ax.plot(0, 0, "o", color=palette.BLACK, ms=4)
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
            ax.set_xticks([k * SIDE for k in range(5)], [*named, "A"])
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
