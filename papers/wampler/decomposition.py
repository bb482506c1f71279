"""W, Remarks: two damped problems of three joints each instead of one of six joints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array
from supple.papers.wampler.arms import ARMS, NAMES, ScaledArm

import supple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = (0.01, 0.03, 0.1, 0.2, 0.5)
SAMPLES = 400
NEAR = 0.1  # largest median relative difference called "approximately the same"


@experiment(
    "w-wrist",
    paper="W",
    figure="Remarks",
    title="The wrist decomposition is not the damped solution of the whole",
    deviations=(
        "The original experiment is in the author's thesis. Here 400 random configurations within "
        "the limits and random v̂ are used, in reaches and radians; both parts are damped by the "
        "same α.",
        "“Approximately the same” means within 10 % in the median.",
    ),
    parameters=(Parameter("samples", SAMPLES, "", "configurations of each arm", 0, 100000),),
)
def wrist(progress: Progress, *, samples: int) -> Outcome:
    """For a PUMA and a Stanford arm, the damped solution of one problem with six equations is
    compared with that of two problems with three equations each: ‖difference‖/‖whole‖ over random
    configurations and tasks, for dampings from 0.01 to 0.5.
    """
    off: dict[str, dict[float, Array]] = {name: {} for name in ARMS}
    twist: dict[str, dict[float, Array]] = {name: {} for name in ARMS}
    for name, alpha in each([(name, alpha) for name in ARMS for alpha in ALPHAS], progress):
        arm, rng = ScaledArm.of(ARMS[name]), np.random.default_rng(3)
        J = arm.jacobian(arm.robot.random(samples, seed=rng))
        v = rng.normal(size=(samples, 6))
        off[name][alpha], twist[name][alpha] = differences(J, v, alpha)
    median = {(n, a): float(np.median(off[n][a])) for n in ARMS for a in ALPHAS}
    tenth = {(n, a): float(np.quantile(off[n][a], 0.9)) for n in ARMS for a in ALPHAS}
    quantities = {f"{n}.median_{_key(a)}": value for (n, a), value in median.items()}
    quantities |= {f"{n}.p90_{_key(a)}": value for (n, a), value in tenth.items()}
    hand = {(n, a): float(np.median(twist[n][a])) for n in ARMS for a in ALPHAS}
    quantities |= {f"{n}.twist_median_{_key(a)}": value for (n, a), value in hand.items()}

    def told(alphas: tuple[float, ...], values: dict[tuple[str, float], float] = median) -> str:
        return "; ".join(
            f"{NAMES[n]} " + ", ".join(f"{values[n, a]:.0%} at α = {a:g}" for a in alphas)
            for n in ARMS
        )

    claims = (
        Claim(
            "the solution in two parts is approximately that of the whole as long as α ≥ 0.1",
            f"median differences: {told(ALPHAS[2:])}",
            all(median[n, a] < NEAR for n in ARMS for a in ALPHAS if a >= 0.1),
            "the wrist does not compensate for the error of the damped arm. With more damping they "
            "differ more: for large α one is Ĵᵀv̂/α², the other lacks the terms between arm and "
            "wrist. "
            f"For α ≤ 0.03 it would hold in the median ({told(ALPHAS[:2])}), but near "
            f"singularities one case in ten still differs by more than "
            f"{min(tenth[n, 0.03] for n in ARMS):.0%} at 0.03",
        ),
        Claim(
            "the same, read as α ≤ 0.1 and compared by the velocity of the tool",
            f"median of ‖Ĵ(difference)‖/‖v̂‖: {told(ALPHAS, hand)}",
            all(hand[n, a] < NEAR for n in ARMS for a in ALPHAS if a <= 0.1),
            "with “≤” in place of “≥” the sentence fits: the difference grows with α",
            own=True,
        ),
    )
    columns = {"alpha": np.array(ALPHAS)}
    for name in ARMS:
        columns |= {
            f"{name}.median": np.array([median[name, a] for a in ALPHAS]),
            f"{name}.p90": np.array([tenth[name, a] for a in ALPHAS]),
            f"{name}.twist_median": np.array([hand[name, a] for a in ALPHAS]),
        }
    return Outcome(quantities, claims, _figure(off), (Table("alpha", columns),))


def differences(J: Array, v: Array, alpha: float) -> tuple[Array, Array]:
    """Return the relative differences of the solutions, ‖parts - whole‖/‖whole‖, and of the tool
    velocities, ‖Ĵ(parts - whole)‖/‖v̂‖, for many J (k, 6, 6) and v̂ (k, 6).
    """
    rule = supple.damping.Constant(alpha**2)
    whole = supple.DLS(rule)(supple.Linearization(J, v))
    step = supple.steps.SphericalWrist(rule, rule)
    parts = [step(supple.Linearization(*each)) for each in zip(J, v, strict=True)]
    off = np.asarray(parts - whole)
    moved = np.einsum("kmn,kn->km", J, off)
    return (
        np.asarray(np.linalg.norm(off, axis=1) / np.linalg.norm(whole, axis=1)),
        np.asarray(np.linalg.norm(moved, axis=1) / np.linalg.norm(v, axis=1)),
    )


def _key(alpha: float) -> str:
    return f"{alpha:g}".replace(".", "_")


def _figure(off: dict[str, dict[float, Array]]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.6)
        panels = figure.subplots(1, len(off), sharey=True)
        for k, (ax, (name, found)) in enumerate(zip(panels, off.items(), strict=True)):
            style.titled(ax, NAMES[name], "damping α [reach]", "relative difference of q̇ [%]")
            ax.axvspan(0.1, 0.6, color="#eeeeee", zorder=0)
            low, middle, high = np.array(
                [100 * np.quantile(values, [0.1, 0.5, 0.9]) for values in found.values()]
            ).T
            color = style.style_of(1 - k)["color"]
            label = "between the 10 % and the 90 % quantile"
            ax.fill_between(ALPHAS, low, high, color=color, alpha=0.2, linewidth=0, label=label)
            ax.plot(ALPHAS, middle, "o-", color=color, label="median")
            ax.set_xscale("log")
            ax.set_xticks(ALPHAS, [f"{a:g}" for a in ALPHAS])
            ax.minorticks_off()
            ax.set_xlim(0.009, 0.6)
            ax.set_ylim(0, 130)
            style.note(ax, "“approximately\nthe same”, says\nthe paper", (0.13, 5))
            ax.legend(loc="upper left")

    return draw
