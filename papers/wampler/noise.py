"""W, "Rank deficiency" and below (48): measurement errors, the rank, and the condition number."""

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

ALPHA = 0.03  # damping factor [reaches]
ERROR = 1e-3  # error of measured joint coordinates [rad or reaches]
DIGITS = np.logspace(-12, -2, 21)  # relative precisions to which numbers are rounded


def change_of_jacobian(arm: ScaledArm, q: Array, error: float) -> Array:
    """Return a bound (...) on ‖δĴ‖ for errors of at most `error` in every joint coordinate:
    error Σ_j ‖∂Ĵ/∂q_j‖, by central differences.
    """
    h, total = 1e-6, np.zeros(q.shape[:-1])
    for j in range(q.shape[-1]):
        step = h * np.eye(q.shape[-1])[j]
        slope = (arm.jacobian(q + step) - arm.jacobian(q - step)) / (2 * h)
        total = total + np.linalg.norm(slope, ord=2, axis=(-2, -1))
    return np.asarray(error * total)


def rounded(x: Array, precision: float) -> Array:
    """Return x rounded to a relative precision."""
    unit = precision * 2 ** np.floor(np.log2(np.maximum(np.abs(x), 1e-300)))
    return np.asarray(np.round(x / unit) * unit)


@experiment(
    "w-noise",
    paper="W",
    figure="Rank deficiency, below (42), below (48)",
    title="Errors of measurement: the threshold of the rank, and the amplification of noise",
    deviations=(
        "The paper gives no numbers. Here joint coordinates are measured to 0.001 rad or reaches, "
        "and the precision of the computer is that of Ĵ rounded to some digits.",
    ),
    parameters=(
        Parameter("error", ERROR, "rad", "error of measured joint coordinates", 0, 0.1),
        Parameter("samples", 300, "", "configurations of each arm", 0, 1000000),
    ),
)
def measured(progress: Progress, *, error: float, samples: int) -> Outcome:
    """Arms are exactly at a wrist singularity, and measured with an error: the least singular value
    that is found is compared with the bound on ‖δĴ‖. Then Ĵ and v̂ of random configurations are
    perturbed, and the change of the damped solution is compared with κ of [Ĵ; αI]. Last, Ĵ and
    v̂ are rounded to fewer and fewer digits, and the error of the damped solution is measured.
    """
    rng = np.random.default_rng(9)
    found: dict[str, dict[str, float]] = {}
    lost: dict[str, Array] = {}
    for name, robot in each(ARMS.items(), progress):
        arm = ScaledArm.of(robot)
        q = arm.robot.random(samples, seed=rng)
        q[:, 4] = 0.0
        seen = q + rng.uniform(-error, error, q.shape)
        sigma = np.linalg.svd(arm.jacobian(seen), compute_uv=False)
        bound = change_of_jacobian(arm, seen, error)
        v = rng.normal(size=(samples, 6))
        given = supple.Linearization(arm.jacobian(seen), v)
        cut = np.array(
            [
                supple.steps.TruncatedSVD(min_sigma=float(b))(given_one)
                for b, given_one in zip(bound, _parts(given), strict=True)
            ]
        )
        plain = supple.steps.Pseudoinverse()(given)
        free = arm.robot.random(samples, seed=rng)
        kappa, grown = amplification(arm.jacobian(free), v, error, rng)
        found[name] = {
            "largest_sigma_over_bound": float((sigma[:, -1] / bound).max()),
            "share_below_bound": float((sigma[:, -1] <= bound).mean()),
            "cut_max_speed": float(np.linalg.norm(cut, axis=1).max()),
            "pinv_max_speed": float(np.linalg.norm(plain, axis=1).max()),
            "largest_amplification_over_kappa": float((grown / kappa).max()),
            "median_amplification_over_kappa": float(np.median(grown / kappa)),
        }
        lost[name] = by_precision(arm.jacobian(free), v, error, rng)
    quantities = {f"{arm}.{key}": x for arm, values in found.items() for key, x in values.items()}
    floor = {name: float(np.interp(np.log(1e-9), np.log(DIGITS), x)) for name, x in lost.items()}
    knee = {name: float(DIGITS[np.flatnonzero(x > 2 * x[0])[0]]) for name, x in lost.items()}
    quantities |= {f"{name}.roundoff_matters_from": x for name, x in knee.items()}

    def both(key: str, form: str) -> str:
        return ", ".join(f"{found[name][key]:{form}} ({NAMES[name]})" for name in ARMS)

    claims = (
        Claim(
            "the threshold of the rank should depend on the error of the measured joint "
            "coordinates",
            f"at singular wrists, measured to {error:g}, σ₆ is at most "
            f"{both('largest_sigma_over_bound', '.2f')} of ‖δĴ‖ ≤ Σ‖∂Ĵ/∂q_j‖δq_j; cut there, q̇ is "
            f"at most {both('cut_max_speed', '.0f')} instead of {both('pinv_max_speed', '.0f')}",
            all(x["share_below_bound"] == 1 for x in found.values()),
            "by Weyl's inequality σ₆ changes by at most ‖δĴ‖: below it, it may as well be zero",
        ),
        Claim(
            "errors in Ĵ and v̂ are amplified by at most the condition number κ of [Ĵ; αI]",
            f"relative change of q̇ over that of Ĵ and v̂: at most "
            f"{both('largest_amplification_over_kappa', '.2f')} κ, "
            f"{both('median_amplification_over_kappa', '.2f')} κ in the median",
            all(x["largest_amplification_over_kappa"] <= 2 for x in found.values()),
            "to first order, with a factor of up to 2 for Ĵ and v̂ together",
        ),
        Claim(
            "if the roundoff error is less than κ times the measurement error, the precision of "
            "the computer does not matter",
            "the error of q̇ doubles if Ĵ and v̂ have a relative precision of "
            + ", ".join(f"{knee[name]:.0e} ({NAMES[name]})" for name in ARMS)
            + "; for 1e-9 it is that of the measurement, "
            + ", ".join(f"{x:.3f}" for x in floor.values()),
            min(knee.values()) >= error / 10,
            "rounding to fewer digits than the measurement adds an error of the same kind",
        ),
    )
    table = Table("precision", {"precision": DIGITS, **{f"{n}.error": x for n, x in lost.items()}})
    return Outcome(quantities, claims, _figure(lost, error), (table,))


def _parts(many: supple.Linearization) -> list[supple.Linearization]:
    return [supple.Linearization(J, e) for J, e in zip(many.J, many.e, strict=True)]


def damped(J: Array, v: Array) -> Array:
    """Return the damped solution (K, 6) with α = `ALPHA`."""
    return np.asarray(supple.DLS(supple.damping.Constant(ALPHA**2))(supple.Linearization(J, v)))


def amplification(
    J: Array, v: Array, error: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return κ (K,) of [Ĵ; αI], and the relative change of q̇ divided by the relative change of Ĵ
    and v̂ together, for small random changes.
    """
    sigma = np.linalg.svd(J, compute_uv=False)
    kappa = np.sqrt((sigma[:, 0] ** 2 + ALPHA**2) / (sigma[:, -1] ** 2 + ALPHA**2))
    small = 1e-3 * error
    dJ, dv = small * rng.normal(size=J.shape), small * rng.normal(size=v.shape)
    size = [
        np.linalg.norm(x, axis=-1) for x in (damped(J + dJ, v + dv) - damped(J, v), damped(J, v))
    ]
    given = np.linalg.norm(dJ, ord=2, axis=(1, 2)) / sigma[:, 0]
    given = given + np.linalg.norm(dv, axis=1) / np.linalg.norm(v, axis=1)
    return np.asarray(kappa), np.asarray(size[0] / size[1] / given)


def by_precision(J: Array, v: Array, error: float, rng: np.random.Generator) -> Array:
    """Return the median relative error of q̇ from rounding and measurement, for each of `DIGITS`."""
    exact = damped(J, v)
    seen = J * (1 + error * rng.uniform(-1, 1, J.shape))
    off = [np.linalg.norm(damped(rounded(seen, x), rounded(v, x)) - exact, axis=1) for x in DIGITS]
    return np.asarray(np.median(np.array(off) / np.linalg.norm(exact, axis=1), axis=1))


def _figure(lost: dict[str, Array], error: float) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        ax = figure.subplots()
        style.titled(
            ax, "Damped solutions with errors of measurement", "precision of Ĵ and v̂", "error of q̇"
        )
        style.curves(ax, DIGITS, {NAMES[name]: x for name, x in lost.items()})
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.axvline(error, color="#555555", linewidth=1, linestyle=":")
        style.note(ax, " error of measurement", (error, float(min(x.min() for x in lost.values()))))
        ax.legend()

    return draw
