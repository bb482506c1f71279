"""The estimate of the smallest singular value where the two smallest ones cross (Fig. 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, experiment
from supple.papers.maciejewski_klein.courses import MAX_GAIN, course_c
from supple.papers.maciejewski_klein.inverse import PUMA
from supple.papers.maciejewski_klein.methods import GAIN
from supple.papers.maciejewski_klein.puma import READINGS, THETA_MAX, UNPRINTED
from supple.papers.style import Array

from supple import Limits, Linearization, OrientationTask, PositionTask, Servo, damping
from supple.plot import palette
from supple.steps import NumericalFilter, SingularDirection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HELD = 400  # number of intervals in which the tool rotates in place
TURN = 0.003  # rotation of the tool in place [rad per interval]
GOOD = 0.95  # smallest |ûᵀu6| that is called aligned
FAST = 100  # most intervals in which a turn of û is called rapid
NOTICEABLE = 0.1  # smallest error of σ̂, relative to λ, that is called noticeable


@cache
def motion(max_gain: float = MAX_GAIN, turn: float = TURN, held: int = HELD) -> Array:
    """Return the joint angles (K, 6) [rad] of a motion with the filter: along the first half of
    trajectory C, then with the tool in place, turning back about the axis of joint 5.
    """
    course = course_c()
    tasks = (PositionTask(), OrientationTask())
    step = NumericalFilter(max_gain, printed=True)
    servo = Servo(PUMA, tasks, dt=1.0, gain=GAIN, step=step, limits=Limits.none(PUMA))
    position, turned = course.poses[:, :3, 3], course.poses[0, :3, :3]
    half, q, still = half_of(len(position)), course.start, np.zeros(3)
    every = [q]
    for k in range(half + held - 1):
        if k < half:
            velocity = (position[k + 1] - position[k], still)
            q = servo(q, velocity, (position[k], turned))
        else:
            axis = PUMA.jacobian(q)[3:, 4]
            q = servo(q, (still, -turn * axis), (position[half], None))
        every.append(q)
    return np.array(every)


def half_of(places: int) -> int:
    """Return the number of intervals in the first half of a path with this number of poses."""
    return (places - 1) // 2


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimates σ̂ (K,) of σ_min, and the alignment |ûᵀu_6| (K,) of û with the exact u_6."""

    sigma: Array
    alignment: Array

    def measures(self, least: Array, half: int) -> dict[str, float]:
        """Return the errors of σ̂, the alignment of û, and the duration of the misalignment of û."""
        off = np.abs(self.sigma - least)
        low = np.flatnonzero(self.alignment < GOOD)
        return {
            "max_error_before": float(off[:half].max()),
            "max_error": float(off.max()),
            "min_alignment": float(self.alignment.min()),
            "recovery_steps": float(low[-1] + 1 - low[0] if low.size else 0),
            "end_alignment": float(self.alignment[-1]),
        }


def estimated(J: Array, u: Array, max_gain: float, damped: bool) -> Estimate:
    """Estimate σ_min and û at each J (K, 6, 6) by one inverse iteration; the first û is exact.

    With `damped`, the estimate is that of eqs. (22)-(26), with λ² by eq. (14) for the previous σ̂.
    """
    bound = damping.SpeedBound(max_gain)
    now = SingularDirection.exact(Linearization(J[0], np.zeros(6)))
    sigma, alignment = [now.sigma], [1.0]
    for each, true in zip(J[1:], u[1:], strict=True):
        lambda2 = bound(Linearization(np.array([[now.sigma]]), np.ones(1))) if damped else 0.0
        now = now.update(each, lambda2)
        sigma.append(now.sigma)
        alignment.append(abs(float(now.u @ true)))
    return Estimate(np.array(sigma), np.array(alignment))


# ---- the paper's statements, for one motion or many ----------------------------------------------


def turned(u: Array) -> float:
    """Return the largest angle [deg] between any two of the vectors (K, 6), up to their signs."""
    return float(np.degrees(np.arccos(min(1.0, np.abs(u @ u.T).min()))))


def crosses(gap: Array, angle: float) -> bool:
    """Return whether σ5 and σ6 meet, and u6 turns by (nearly) 90°."""
    return bool(gap.min() < 0.01 and angle > 80)


def after_the_center(found: dict[str, float], max_gain: float) -> bool:
    """Return whether the error of σ̂ before the center is negligible and below half its maximum."""
    edge = NOTICEABLE / (2 * max_gain)
    return found["max_error_before"] < min(edge, found["max_error"] / 2)


def recovers(found: dict[str, float]) -> bool:
    """Return whether û aligns rapidly with the new singular direction."""
    return found["recovery_steps"] <= FAST and found["end_alignment"] > GOOD


def is_robust(found: dict[str, float], max_gain: float) -> bool:
    """Return whether the error of σ̂ is always less than a tenth of λ."""
    return found["max_error"] < NOTICEABLE / (2 * max_gain)


# ---- the experiment ------------------------------------------------------------------------------


@experiment(
    "mk-puma-c-modified",
    paper="MK",
    figure="Fig. 10",
    title="PUMA: the estimate of the least singular value through a crossing",
    deviations=(
        UNPRINTED,
        READINGS["c"],
        "The rate of the rotation is not printed: of 0.0015, 0.003, 0.006 and 0.012 rad per "
        "interval in both senses, this one has a single crossing soon after the center.",
        "Quantities without a prefix belong to the paper's estimate, whose matrix is damped by λ "
        "of the previous estimate; those with `undamped.` belong to the estimate of supple's "
        "filter, one undamped iteration with the current J.",
        "The motion is that of the filter as printed in the paper.",
    ),
    parameters=(
        THETA_MAX,
        Parameter("turn", TURN, "rad", "rotation in each interval while the tool is held", 0),
        Parameter("held", HELD, "intervals", "number of intervals in which the tool is held", 1),
    ),
)
def trajectory_c_modified(
    progress: Progress, *, max_gain: float, turn: float, held: int
) -> Outcome:
    """The tool follows trajectory C for 407 intervals; then it is commanded to stay in place and
    turn about the axis of joint 5, −z4, by 0.003 rad in each of 400 intervals. The tilted tool
    cannot keep its position: the arm comes to its full reach, the elbow's singular value falls
    while the wrist's rises, and the singular direction turns from one to the other.

    `max_error` is the largest error of σ̂, overall and before the turn; `min_alignment` is the
    smallest |ûᵀu_6|; `recovery_steps` is the number of intervals from the first in which |ûᵀu_6| is
    below 0.95 to the last.
    """
    half = half_of(len(course_c().poses))
    q = motion(max_gain, turn, held)
    J = PUMA.jacobian(q)
    progress(0.5)
    U, sigma, _ = np.linalg.svd(J)
    u = U[:, :, -1]
    paper, undamped = (estimated(J, u, max_gain, damped) for damped in (True, False))
    found, ours = (each.measures(sigma[:, -1], half) for each in (paper, undamped))
    gap = sigma[:, -2] - sigma[:, -1]
    crossing, angle = half + int(gap[half:].argmin()), turned(u[half:])
    off = np.abs(paper.sigma - sigma[:, -1])
    worst = int(off.argmax())
    progress(1.0)
    claims = (
        Claim(
            "the two small singular values cross, and the least singular vector turns by 90°",
            f"σ5 − σ6 = {gap[crossing]:.1e} at interval {crossing}; u6 turns by {angle:.0f}°",
            True if crosses(gap[half:], angle) else None,
            "a near crossing: the two exchange their directions, but do not become equal",
        ),
        Claim(
            "the only noticeable error of σ̂ occurs just after the center",
            f"{found['max_error_before']:.4f} before the center, interval {half}; "
            f"{found['max_error']:.4f} in all, at interval {worst}, {worst - crossing} after the "
            f"crossing, where σ5/σ6 = {sigma[worst, 4] / sigma[worst, 5]:.1f}",
            True if after_the_center(found, max_gain) and worst >= crossing else None,
            "the estimate follows late, because damping slows the iteration: it is nearer to σ5 "
            "while û turns",
        ),
        Claim(
            "as the two values separate, û rapidly turns to the new least singular vector",
            f"alignment falls to {found['min_alignment']:.2f} and is above {GOOD} after "
            f"{found['recovery_steps']:.0f} intervals; undamped never below "
            f"{ours['min_alignment']:.3f}",
            True if recovers(found) else None,
            "each iteration gains (σ5² + λ²)/(σ6² + λ²), which damping brings near to one: where "
            f"they separate slowly, û takes more than {FAST} intervals",
        ),
        Claim(
            "even in the worst case σ̂ is a robust estimate of σ6",
            f"off by {found['max_error']:.4f} at most, where λ = {1 / (2 * max_gain):g}; undamped "
            f"by {ours['max_error']:.1e}, aligned to at least {ours['min_alignment']:.3f}",
            True if is_robust(found, max_gain) else None,
            f"robust is an error below {NOTICEABLE:.0%} of λ here; the text names no number. "
            "Without damping an iteration gains (σ5/σ6)², and û is never lost",
        ),
    )
    quantities = found | {f"undamped.{name}": value for name, value in ours.items()}
    quantities |= {"crossing_interval": crossing, "turned": angle, "least_gap": gap[crossing]}
    table = Table(
        "interval",
        {
            "interval": np.arange(float(len(q))),
            "q": q,
            "sigma": sigma,
            "paper.sigma": paper.sigma,
            "paper.alignment": paper.alignment,
            "undamped.sigma": undamped.sigma,
            "undamped.alignment": undamped.alignment,
        },
    )
    return Outcome(quantities, claims, _figure(q, sigma, paper, undamped, half), (table,))


def _figure(
    q: Array, sigma: Array, paper: Estimate, undamped: Estimate, half: int
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        from supple.papers.maciejewski_klein.drawing import joints_of

        figure.set_size_inches(11, 6.5)
        panels = figure.subplot_mosaic([["top", "arm"], ["bottom", "arm"]], width_ratios=[2, 1])
        top, bottom = panels["top"], panels["bottom"]
        for i, color in ((4, palette.GRAY), (5, palette.BLACK)):
            top.plot(sigma[:, i], color=color, linewidth=3, alpha=0.35, label=f"σ{i + 1}")
        for k, (name, estimate) in enumerate(
            {"the paper's, damped": paper, "undamped": undamped}.items()
        ):
            how = style.style_of(k)
            top.plot(estimate.sigma, label=f"σ̂, {name}", **how)
            bottom.plot(estimate.alignment, **how)
        style.titled(top, "The two smallest singular values and the estimate", "interval", "σ")
        style.titled(bottom, "Alignment of the estimate, |ûᵀu6|", "interval", "cosine")
        top.set_ylim(0, 0.16)
        bottom.set_ylim(0, 1.05)
        style.bound(bottom, GOOD, f"{GOOD}: aligned", below=True, at=0.01)
        for ax in (top, bottom):
            ax.axvline(half, color=palette.GRAY, linewidth=1, linestyle=":")
            ax.set_xlim(0, len(sigma))
        style.note(top, "  the tool stops and turns", (half, 0.147))
        ax = style.titled(panels["arm"], "The arm, from x", "x [m]", "z [m]")
        style.arms(ax, joints_of(q[np.linspace(0, len(q) - 1, 9).astype(int)])[..., [0, 2]], 1)
        style.legend(figure, top)

    return draw
