"""Two links follow a square that leaves their reach and passes the inner singularity (Fig. 2-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from supple.papers import style
from supple.papers.experiment import (
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
)
from supple.papers.maciejewski_klein.square import (
    ARM,
    D_TO_A,
    LINKS,
    MAX_GAIN,
    MAX_SPEED,
    OFFSET,
    RATE_GAINS,
    SIDE,
    TASK,
    corners,
    measures,
    square,
    start,
)
from supple.papers.maciejewski_klein.two_link_claims import (
    claim_of_acceleration,
    claims_of_figure,
    claims_of_text,
)
from supple.papers.style import Array

from supple import Limits, Linearization, Trajectory, damping, simulate
from supple.plot import palette
from supple.steps import Pseudoinverse

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@experiment(
    "mk-two-link",
    paper="MK",
    figure="Fig. 2-3",
    title="A square through the reach and the inner singularity",
    deviations=(
        "Lengths are in meters: θ̇max = 0.02 rad/cm is 2 rad/m here, and λ ≤ 25 cm is 0.25 m.",
        "Resolved acceleration is (51) of Wampler, θ̈ = J*(ẍ_c − J̇θ̇), with k_p = 0.1 and k_v = 1 or "
        "0.632 = 2√k_p per interval, from the speed of the path; the paper gives no gains and no "
        "results.",
        "`undamped_filter` is the filter with α as printed and λ = 0: the least damping that any "
        "reading of the illegible (32) and (35) can give.",
        *DEVIATIONS,
    ),
    parameters=(
        # A larger θ̇max damps less; from 7 on, the motion by resolved acceleration overflows.
        Parameter("max_gain", MAX_GAIN, "rad/m", "θ̇max, the bound on ‖θ̇‖/‖ẋ_c‖", 0, 6.0),
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
    steps = methods(max_gain) | {
        "pseudoinverse": Pseudoinverse(),
        "undamped_filter": filter_without_lambda(max_gain),
    }
    moved = {
        name: followed(ARM, start(offset), path, step, tasks=TASK, gain=gain)
        for name, step in each(steps.items(), progress)
    }
    found = {name: measures(each) for name, each in moved.items()}
    second = {
        rate: {
            name: accelerated(step, path, offset, gain, rate)
            for name, step in methods(max_gain).items()
        }
        for rate in RATE_GAINS
    }
    quantities = by_method(found)
    for rate, motions in second.items():
        for name, motion in motions.items():
            key = f"{name}_acceleration.{{}}_{100 * rate:.0f}"
            quantities[key.format("da_position_error")] = float(norm(motion.error)[D_TO_A].mean())
            quantities[key.format("max_joint_speed")] = float(norm(motion.qd).max())
    moved_only = {name: moved[name] for name in LABELS}
    claims = (
        *claims_of_text(moved_only, found),
        *claims_of_figure(moved, found, path, max_gain),
        claim_of_acceleration(moved_only, second),
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
    for name, motion in second[RATE_GAINS[0]].items():
        columns[f"{name}_acceleration.position_error"] = norm(motion.error)
    table = Table("interval", columns)
    return Outcome(quantities, claims, _figure(moved_only, path, offset), (table,))


def filter_without_lambda(max_gain: float) -> Callable[[Linearization], Array]:
    """Return the filter (27) with α from (14), as printed, and λ = 0; û is exact."""
    bound = damping.SpeedBound(max_gain)

    def step(given: Linearization) -> Array:
        U, sigma, Vt = np.linalg.svd(given.J)
        alpha2 = bound(Linearization(sigma[-1:, None], np.ones(1)))
        gains = 1 / np.maximum(sigma, 1e-12)
        gains[-1] = sigma[-1] / (sigma[-1] ** 2 + alpha2) if alpha2 else gains[-1]
        return np.asarray(Vt.T @ (gains * (U.T @ given.e)))

    return step


def accelerated(step: Any, path: Array, offset: float, gain: float, rate: float) -> Trajectory:
    """Follow the square by resolved acceleration: ẍ_c = k_v (ẋ_d − ẋ) + k_p (x_d − x)."""
    q = start(offset)
    first = Linearization(ARM.jacobian(q)[:2], path[1, :2] - path[0, :2])
    free = Limits.none(ARM)
    return simulate(
        ARM,
        q,
        tasks=TASK,
        target=path,
        dt=1.0,
        gain=gain,
        rate_gain=rate,
        rest_gain=0.0,
        order=2,
        step=step,
        limits=free,
        qd0=Pseudoinverse()(first),
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
