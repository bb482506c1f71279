"""DW Fig. 4 and 5: a planar arm draws a rectangle, from a start that is nearly singular."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from supple.papers import style
from supple.papers.deo_walker.counting import STATED, Step, by_tolerance, iterations, under
from supple.papers.experiment import (
    THESIS,
    Claim,
    Outcome,
    Parameter,
    Progress,
    Table,
    each,
    experiment,
)
from supple.papers.style import Array

import supple
from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Mask: TypeAlias = NDArray[np.bool_]

START = np.radians([5, -175, 175])  # folded, which is nearly singular [rad]
WIDTH, HEIGHT = 0.7, 0.9  # size of the rectangle [m]
DURATION = 4.0  # time for the rectangle, at constant speed [s]
MAX_SPEED = 5.0  # Δ [rad/s]
SIDES = np.array([[WIDTH, 0, 0], [0, HEIGHT, 0], [-WIDTH, 0, 0], [0, -HEIGHT, 0]])
TASK = supple.PositionTask(rows=["x", "y"])

SHAPE = (
    "The rectangle is 0.7 m wide and 0.9 m high: with 0.9 × 0.7, as printed, it would leave the "
    "workspace (its far corner would be 2.04 m away, and the arm is 2 m long)."
)


def corners(robot: supple.Robot) -> Array:
    """Return the corners (5, 3) [m] counter-clockwise; the lower left corner is first and last."""
    return np.asarray(robot.fk(START)[:3, 3] + np.vstack([np.zeros(3), SIDES.cumsum(axis=0)]))


def times_of_corners(duration: float = DURATION) -> Array:
    """Return the times (5,) [s] at which the hand should be at the corners."""
    length = np.append(0, np.cumsum(np.linalg.norm(SIDES, axis=1)))
    return np.asarray(duration * length / length[-1])


def around(step: Step, steps: int, gain: float, duration: float = DURATION) -> supple.Trajectory:
    """Return the motion around the rectangle in `steps` Euler steps, at constant speed."""
    robot = supple.load("planar3")
    t, turns = np.linspace(0, duration, steps + 1), times_of_corners(duration)
    path = np.stack([np.interp(t, turns, along) for along in corners(robot).T], axis=1)
    return supple.simulate(
        robot,
        START,
        tasks=TASK,
        target=path,
        times=t,
        step=step,
        gain=gain,
        limits=supple.Limits.none(robot),
    )


def speed(motion: supple.Trajectory) -> Array:
    """Return ‖q̇‖ in each step (K,) [rad/s]."""
    return np.asarray(np.linalg.norm(motion.qd, axis=1))


def deviation(motion: supple.Trajectory) -> Array:
    """Return the distance of the hand from its target after each step (K,) [m]."""
    return np.asarray(np.linalg.norm(motion.error, axis=1))


def asked(motion: supple.Trajectory, where: Mask) -> list[supple.Linearization]:
    """Return the linearizations (J and ẋ) that the method received in the steps of a mask."""
    robot = supple.load("planar3")
    J = np.asarray(robot.jacobian(motion.q[:-1])[:, :2], dtype=np.float64)
    return [
        supple.Linearization(J[k], motion.command[k], q=motion.q[k]) for k in np.flatnonzero(where)
    ]


# ---- Fig. 4 and 5 ------------------------------------------------------------------------------


@experiment(
    "dw-planar",
    paper="DW",
    figure="Fig. 4-5",
    title="A planar arm around a rectangle: peaks of the pseudoinverse, bound by optimal damping",
    deviations=(
        SHAPE,
        "The paper gives neither speed nor number of steps. Here the rectangle takes 4 s at "
        "constant speed, in 2000 Euler steps without position feedback.",
        f"Iterations are counted from λ = 0, as in the paper. {STATED}",
    ),
    parameters=(
        Parameter("max_speed", MAX_SPEED, "rad/s", "Δ, the bound on ‖q̇‖", 0),
        Parameter("duration", DURATION, "s", "time for the rectangle", 0),
        Parameter("steps", 2000, "", "steps of Euler's method", 9, 1000000),
    ),
)
def planar(progress: Progress, *, max_speed: float, duration: float, steps: int) -> Outcome:
    """An arm with links of 1, 0.5 and 0.5 m starts folded at [5, -175, 175]°, which is nearly
    singular, and goes once around the rectangle: with the pseudoinverse, and with the smallest
    damping that keeps ‖q̇‖ <= Δ = 5 rad/s.
    """
    ways: dict[str, Step] = {
        "pseudoinverse": supple.steps.Pseudoinverse(),
        "optimal damping": supple.DLS(supple.damping.Optimal(max_speed)),
    }
    motions = {
        name: around(step, steps, 0.0, duration) for name, step in each(ways.items(), progress)
    }
    plain, optimal = motions.values()
    damped = optimal.lambda2 > 0
    searched = asked(optimal, damped)
    counted = iterations(searched, max_speed)
    rivals = within_bound(asked(optimal, damped | True), max_speed)
    quantities = {
        "pinv_max_speed": speed(plain).max(),
        "optimal_max_speed": speed(optimal).max(),
        "max_deviation": deviation(optimal).max(),
        "pinv_max_deviation": deviation(plain).max(),
        "damped_steps": damped.sum(),
        **{f"{form}_iterations": count for form, count in counted.items()},
        "rules_below_optimal": rivals.below,
        "rules_within_bound": rivals.share,
    }
    claims = (
        Claim(
            f"{THESIS}the optimal factor damps only when necessary, and just enough to keep the "
            "bound with the least deviation",
            f"in {len(optimal)} steps no other rule that keeps Δ has a smaller error: the closest "
            f"has {rivals.closest:.4f} times that of the optimal one; {damped.sum()} steps are "
            "damped, exactly those whose pseudoinverse exceeds Δ",
            rivals.below == 0 and bool(speed(optimal).max() <= max_speed) and rivals.needed,
            f"it is the minimizer of ‖ẋ − Jθ̇‖ on ‖θ̇‖ ≤ Δ; compared with {rivals.rules} rules and "
            "constants, which keep Δ in " + f"{rivals.share:.0%} of the steps that need it",
        ),
        Claim(
            "the pseudoinverse results in high peaks of the speed near singular configurations",
            f"{speed(plain).max():.1f} rad/s, {speed(plain).max() / max_speed:.1f} times Δ",
            bool(speed(plain).max() > 2 * max_speed),
            "σ_min is 0.05 m at the start; a lower peak where the arm is stretched out",
        ),
        Claim(
            "with the optimal damping the norm is contained below Δ = 5 throughout",
            f"at most {under(speed(optimal), max_speed)}",
            bool(speed(optimal).max() <= max_speed),
            "the search ends slightly below the bound",
        ),
        Claim(
            "2 iterations of (18) on an average",
            f"{counted['reciprocal']:.2f} by (18), {counted['newton']:.2f} by (17); "
            f"{counted['supple']:.2f} by supple, from a lower bound, to the last digit",
            1.5 <= counted["reciprocal"] <= 2.5,
            f"mean over the {damped.sum()} steps that are damped, from λ = 0",
        ),
        Claim(
            "feasibility is obtained at the cost of the accuracy in tracking",
            f"{1e3 * deviation(optimal).max():.1f} mm off, against "
            f"{1e3 * deviation(plain).max():.1f} mm",
            bool(deviation(optimal).max() > deviation(plain).max()),
            "the error of the first steps remains, because there is no position feedback",
        ),
    )
    columns: dict[str, Array] = {"time": plain.t[:-1]}
    for name, motion in zip(("pinv", "optimal"), (plain, optimal), strict=True):
        columns |= {
            f"{name}.speed": speed(motion),
            f"{name}.deviation": deviation(motion),
            f"{name}.q": motion.q[:-1],
            f"{name}.lambda2": motion.lambda2,
            f"{name}.hand": joints_at(motion.q[:-1])[:, -1],
        }
    tables = (Table("time", columns), Table("tolerance", by_tolerance(searched, max_speed)))
    return Outcome(quantities, claims, _planar_figure(motions, max_speed), tables)


@dataclass(frozen=True)
class Rivals:
    """A comparison of other damping rules with the optimal rule, in the steps of its motion.

    Attributes:
        rules: Number of other rules.
        below: Number of cases in which another rule keeps the bound and has a smaller error.
        share: Fraction of the cases that need damping in which another rule keeps the bound, as the
            mean over the other rules.
        closest: The smallest ratio of another rule's error to the optimal error.
        needed: Whether the optimal rule damps exactly where the pseudoinverse exceeds the bound.
    """

    rules: int
    below: int
    share: float
    closest: float
    needed: bool


def within_bound(cases: list[supple.Linearization], max_speed: float) -> Rivals:
    """Compare the error ‖ẋ − Jθ̇‖ of other rules with that of the optimal damping."""
    asked_for = float(np.linalg.norm(cases[0].e))
    rules: list[supple.damping.DampingRule] = [
        supple.damping.SpeedBound(max_speed / asked_for),
        supple.damping.Manipulability(0.05, 0.3),
        supple.damping.ConditionBound(20.0),
        supple.damping.Region(0.05, 0.2),
        supple.damping.TrackingBound(0.3),
        *(supple.damping.Constant(x) for x in (1e-4, 1e-3, 1e-2, 0.1)),
    ]
    J, e = np.array([each.J for each in cases]), np.array([each.e for each in cases])
    many = supple.Linearization(J, e)
    plain = np.linalg.norm(supple.steps.Pseudoinverse()(many), axis=1)
    rule = supple.damping.Optimal(max_speed)
    lambda2 = np.array([rule(each) for each in cases])

    def errors(step: Step) -> tuple[Array, Array]:
        dq = np.asarray(step(many))
        off = np.linalg.norm(e - np.einsum("kmn,kn->km", J, dq), axis=1)
        return off, np.linalg.norm(dq, axis=1)

    least, _ = errors(supple.DLS(rule))
    below, kept, closest, needing = 0, 0, np.inf, plain > max_speed
    for rival in rules:
        off, size = errors(supple.DLS(rival))
        good = size <= max_speed
        below += int((off[good] < least[good] - 1e-9).sum())
        kept += int((good & needing).sum())
        both = good & needing
        if both.any():
            closest = min(closest, float((off[both] / least[both]).min()))
    share = kept / max(1, len(rules) * int(needing.sum()))
    needed = bool(((lambda2 > 0) == needing).all())
    return Rivals(len(rules), below, share, closest if np.isfinite(closest) else 1.0, needed)


def _planar_figure(
    motions: dict[str, supple.Trajectory], max_speed: float
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 7)
        upper, lower = figure.subplots(2, 2, height_ratios=[1.25, 1])
        for k, (ax, (name, motion)) in enumerate(zip(upper, motions.items(), strict=True)):
            draw_arms(ax, motion, k)
            style.titled(ax, name.capitalize(), "x [m]", "y [m]")
        draw_speeds(lower[0], motions, max_speed)
        time = next(iter(motions.values())).t[1:]
        style.titled(lower[1], "Distance from the path", "time [s]", "[mm]")
        far = {name: 1e3 * deviation(motion) for name, motion in motions.items()}
        style.curves(lower[1], time, far)
        style.legend(figure, lower[1])

    return draw


# ---- common to the figures ---------------------------------------------------------------------


def joints_at(q: Array) -> Array:
    """Return the positions of shoulder, elbow, wrist and hand (..., 4, 2) [m]."""
    poses = supple.load("planar3").fk(q, ["link0", "link1", "link2", "link3"])
    return np.asarray(poses[..., :2, 3], dtype=np.float64)


def draw_arms(ax: Axes, motion: supple.Trajectory, number: int, since: float = 0.0) -> None:
    """Draw the path, and the arm at some times, which is darker at later times."""
    path = corners(supple.load("planar3"))
    ax.plot(path[:, 0], path[:, 1], color=palette.GRAY, linewidth=1)
    shown = np.flatnonzero(motion.t >= since)
    for k in shown[:: max(1, len(shown) // 12)]:
        joints = joints_at(motion.q[k])
        dark = 0.25 + 0.75 * (motion.t[k] - since) / (motion.t[-1] - since)
        color = style.style_of(number)["color"]
        ax.plot(*joints.T, "o-", color=color, alpha=dark, linewidth=1.4, ms=3)
    ax.set_aspect("equal")


def draw_speeds(
    ax: Axes, motions: dict[str, supple.Trajectory], max_speed: float = MAX_SPEED
) -> None:
    """Draw the norms of the joint speeds and their bound, with an enlarged view of the start."""
    style.titled(ax, "Joint speeds", "time [s]", "‖q̇‖ [rad/s]")
    time = next(iter(motions.values())).t[:-1]
    style.curves(ax, time, {name: speed(motion) for name, motion in motions.items()})
    style.bound(ax, max_speed, f"Δ = {max_speed:g}")
    near = ax.inset_axes((0.36, 0.57, 0.62, 0.41))
    first = time < 0.08
    style.curves(near, time[first], {n: speed(m)[first] for n, m in motions.items()})
    near.axhline(max_speed, color=palette.GRAY, linewidth=1, linestyle=(0, (4, 2)))
    near.set_xlabel("the first 0.08 s", fontsize=8)
    near.set_ylabel("‖q̇‖", fontsize=8)
    near.tick_params(labelsize=7.5)
