"""The estimate of the smallest singular value where the two smallest cross (Fig. 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Progress, experiment
from supple.papers.maciejewski_klein.courses import MAX_GAIN, PUMA, C
from supple.papers.maciejewski_klein.methods import GAIN
from supple.papers.style import Array

from supple import Limits, Linearization, OrientationTask, PositionTask, Servo, damping
from supple.steps import NumericalFilter, SingularDirection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HALF = 392  # intervals of trajectory C
HELD = 400  # intervals at rest there, turning
TURN = 0.003  # rotation while at rest [rad per interval]
GOOD = 0.95  # smallest |ûᵀu6| that counts as aligned


def motion() -> Array:
    """Return joint angles (792, 6): half of trajectory C, then the tool stays in place and turns
    back about the axis of joint 5. The filter follows it.
    """
    tasks = (PositionTask(), OrientationTask())
    step = NumericalFilter(MAX_GAIN, printed=True)
    servo = Servo(PUMA, tasks, dt=1.0, gain=GAIN, step=step, limits=Limits.none(PUMA))
    position, turned = C.poses[:, :3, 3], C.poses[0, :3, :3]
    q, still = C.start, np.zeros(3)
    every = [q]
    for k in range(HALF + HELD - 1):
        if k < HALF:
            velocity = (position[k + 1] - position[k], still)
            q = servo(q, velocity, (position[k], turned))
        else:
            axis = PUMA.jacobian(q)[3:, 4]
            q = servo(q, (still, -TURN * axis), (position[HALF], None))
        every.append(q)
    return np.array(every)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimate at each interval: σ̂ (K,), and its alignment |ûᵀu_6| (K,) with the truth."""

    sigma: Array
    alignment: Array

    def measures(self, least: Array) -> dict[str, float]:
        """Return the errors of σ̂ and û, and for how many intervals they last."""
        off = np.abs(self.sigma - least)
        low = np.flatnonzero(self.alignment < GOOD)
        return {
            "max_error_before": float(off[:HALF].max()),
            "max_error": float(off.max()),
            "min_alignment": float(self.alignment.min()),
            "recovery_steps": float(low[-1] + 1 - low[0] if low.size else 0),
        }


def estimated(J: Array, u: Array, damped: bool) -> Estimate:
    """Estimate by one inverse iteration for each J (K, 6, 6), from the exact vector.

    The damped form is the paper's: λ² from eq. (14) for the previous estimate, eqs. (22)-(26).
    """
    bound = damping.SpeedBound(MAX_GAIN)
    now = SingularDirection.exact(Linearization(J[0], np.zeros(6)))
    sigma, alignment = [now.sigma], [1.0]
    for each, true in zip(J[1:], u[1:], strict=True):
        lambda2 = bound(Linearization(np.array([[now.sigma]]), np.ones(1))) if damped else 0.0
        now = now.update(each, lambda2)
        sigma.append(now.sigma)
        alignment.append(abs(float(now.u @ true)))
    return Estimate(np.array(sigma), np.array(alignment))


@experiment(
    "mk-puma-c-modified",
    paper="MK",
    figure="Fig. 10",
    title="PUMA: the estimate of the least singular value through a crossing",
    deviations=(
        "Plain names are the paper's estimate, whose matrix is damped by λ of the estimate before; "
        "`undamped.` is that of supple's filter, one undamped iteration on the present J.",
        "The motion itself is that of the filter as printed.",
    ),
)
def trajectory_c_modified(progress: Progress) -> Outcome:
    """The first 392 intervals of trajectory C; then the tool's position is held and it turns about
    the axis of joint 5, −z4, by 0.003 rad in each of 400 intervals. The tilted tool cannot
    hold its position: the arm comes to its full reach, the elbow's singular value falls while the
    wrist's rises, and the singular direction turns from one to the other.

    `max_error` is the error of σ̂, before the turn and overall; `min_alignment` is |ûᵀu_6|,
    `recovery_steps` the intervals from its first fall below 0.95 until it stays above.
    """
    J = PUMA.jacobian(motion())
    progress(0.5)
    U, sigma, _ = np.linalg.svd(J)
    u = U[:, :, -1]
    paper, undamped = (estimated(J, u, damped) for damped in (True, False))
    found, ours = (each.measures(sigma[:, -1]) for each in (paper, undamped))
    gap = sigma[:, -2] - sigma[:, -1]
    crossing = HALF + int(gap[HALF:].argmin())
    turned = np.degrees(np.arccos(np.abs(u[HALF:] @ u[HALF:].T).min()))  # between any two
    progress(1.0)
    claims = (
        Claim(
            "the two small singular values cross, and the least vector turns by 90°",
            f"σ5 − σ6 = {gap[crossing]:.1e} at interval {crossing}; u6 turns by {turned:.0f}°",
            bool(gap[crossing] < 0.01 and turned > 80),
            "a near crossing: the two exchange their directions, but do not become equal, and the "
            "rest of J moves meanwhile",
        ),
        Claim(
            "the only noticeable error of σ̂ occurs just after the centre",
            f"{found['max_error_before']:.4f} before, {found['max_error']:.4f} in all, at interval "
            f"{int(np.abs(paper.sigma - sigma[:, -1]).argmax())}",
            found["max_error_before"] < found["max_error"] / 2,
            "while the vector turns the estimate is an average of two nearly equal values",
        ),
        Claim(
            "as they separate, û rapidly turns to the new least singular vector",
            f"alignment falls to {found['min_alignment']:.2f} and is above {GOOD} after "
            f"{found['recovery_steps']:.0f} intervals",
            bool(found["recovery_steps"] <= 100 and paper.alignment[-1] > GOOD),
            "each iteration gains (σ5² + λ²)/(σ6² + λ²), which damping brings near to one",
        ),
        Claim(
            "even in the worst case this is a robust estimate of σ6",
            f"off by {found['max_error']:.4f} at most, where λ = {1 / (2 * MAX_GAIN)}; undamped "
            f"by {ours['max_error']:.1e}, aligned to at least {ours['min_alignment']:.3f}",
            found["max_error"] < 0.1 / (2 * MAX_GAIN),
            "σ5 and σ6 are near each other while û is between them; without damping an iteration "
            "gains (σ5/σ6)², and û is never lost",
        ),
    )
    quantities = found | {f"undamped.{name}": value for name, value in ours.items()}
    return Outcome(quantities, claims, _figure(sigma, paper, undamped))


def _figure(sigma: Array, paper: Estimate, undamped: Estimate) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1)
        for i, color in ((4, style.GREY), (5, style.BLACK)):
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
        bottom.set_ylim(0.5, 1.03)
        style.bound(bottom, GOOD, f"{GOOD}: aligned", below=True, at=0.01)
        for ax in (top, bottom):
            ax.axvline(HALF, color=style.GREY, linewidth=1, linestyle=":")
            ax.set_xlim(0, len(sigma))
        style.note(top, "  the tool stops and turns", (HALF, 0.147))
        style.legend(figure, top)

    return draw
