"""W Fig. 3, eqs. (42)-(46) and Theorem 3: damping of one joint, condition number and residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array
from supple.papers.wampler.arms import ARMS, NAMES, ScaledArm

import supple
from supple.plot import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# ---- Fig. 3 ------------------------------------------------------------------------------------

ALPHAS = (0.10, 0.15, 0.20)


@experiment(
    "w-one-link",
    paper="W",
    figure="Fig. 3, eqs. (44)-(46)",
    title="The simplest singularity: one link, one coordinate",
    deviations=("ẋ is 1 at every θ: the paper's figure has no scale.",),
)
def one_link(progress: Progress) -> Outcome:
    """A link of unit length rotates; the task is x = cos θ, at unit speed. J = -sin θ is zero
    where the link points along x.
    """
    link = supple.dh([(1.0, 0.0, 0.0, 0.0)])
    theta = np.linspace(-np.pi / 2, np.pi / 2, 20001)
    J = link.jacobian(theta[:, None])[:, :1]
    asked = np.ones((len(theta), 1))

    def speed_by(step: supple.DLS | supple.steps.Pseudoinverse) -> Array:
        return step(supple.Linearization(J, asked))[:, 0]

    speeds = {
        alpha: speed_by(supple.DLS(supple.damping.Constant(alpha**2)))
        for alpha in each(ALPHAS, progress)
    }
    pinv = speed_by(supple.steps.Pseudoinverse())
    peak = {alpha: float(np.abs(speed).max()) for alpha, speed in speeds.items()}
    at = {a: float(abs(np.sin(theta[np.abs(speed).argmax()]))) for a, speed in speeds.items()}
    jump = max(float(np.abs(np.diff(speed)).max()) for speed in speeds.values())
    quantities = {}
    for alpha in ALPHAS:
        quantities[f"alpha_{_name(alpha)}.peak"] = peak[alpha]
        quantities[f"alpha_{_name(alpha)}.sin_theta_at_peak"] = at[alpha]
    quantities["speed_at_singularity"] = max(abs(s[len(theta) // 2]) for s in speeds.values())
    quantities["largest_jump"] = jump
    claims = (
        Claim(
            "as σ → 0 the gain reaches its maximum where σ = α",
            ", ".join(f"sin θ = {at[a]:.4f} for α = {a}" for a in ALPHAS),
            all(abs(at[a] - a) < 1e-3 for a in ALPHAS),
            "σ is |sin θ|; the gain σ/(σ² + α²) peaks there",
        ),
        Claim(
            "peaks of Fig. 3: α = 0.10, 0.15, 0.20",
            ", ".join(f"{peak[a]:.4f}" for a in ALPHAS) + ": 1/(2α)",
            all(abs(peak[a] - 1 / (2 * a)) < 1e-6 for a in ALPHAS),
            "5, 3.33 and 2.5 for unit speed",
        ),
        Claim(
            "the damped solution is continuous and has no dead zone",
            f"largest jump between {len(theta)} angles: {jump:.1e}; "
            f"{quantities['speed_at_singularity']:.0e} only at θ = 0 itself",
            jump <= 1.001 * (theta[1] - theta[0]) / min(ALPHAS) ** 2,
            "(46) is nowhere steeper than 1/α²; the pseudoinverse (45) jumps from -∞ to ∞, or is "
            "cut to zero",
        ),
    )
    columns = {"theta": theta, "pseudoinverse.speed": np.where(np.isfinite(pinv), pinv, 0.0)}
    columns |= {f"alpha_{_name(alpha)}.speed": speed for alpha, speed in speeds.items()}
    return Outcome(
        quantities, claims, _one_link_figure(theta, speeds, pinv), (Table("theta", columns),)
    )


def _name(alpha: float) -> str:
    return f"{alpha:.2f}".replace(".", "_")


def _one_link_figure(
    theta: Array, speeds: dict[float, Array], pinv: Array
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 5)
        ax = style.titled(
            figure.subplots(),
            "Joint speed that best gives ẋ = 1",
            "θ [°], zero where the link points along x",
            "θ̇ [rad/s]",
        )
        ax.set_xlim(-60, 60)
        ax.set_ylim(-12, 12)
        for side in (theta < 0, theta > 0):
            label = "pseudoinverse" if side[0] else None
            angle = np.degrees(theta[side])
            ax.plot(angle, pinv[side], color=palette.GRAY, linewidth=1.2, label=label)
        named = {f"α = {alpha:.2f}": speed for alpha, speed in speeds.items()}
        lines = style.curves(ax, np.degrees(theta), named)
        for line, speed in zip(lines, speeds.values(), strict=True):
            k = int(speed.argmax())
            ax.plot(np.degrees(theta[k]), speed[k], "o", color=line.get_color(), ms=5)
        style.note(ax, "peaks 1/(2α), at |sin θ| = α", (-55, 6.5), (-7, 5))
        style.legend(figure, ax)

    return draw


# ---- eqs. (42) and (43) ------------------------------------------------------------------------

ALPHA = 0.03
SAMPLES = 4000
SHAPES = ((6, 6), (6, 7), (6, 4), (3, 5))


@experiment(
    "w-conditioning",
    paper="W",
    figure="eqs. (42)-(43), Theorem 3",
    title="Condition number and residual at a damping of 0.03",
    deviations=(
        "Theorem 3 is about the minimizer of ‖Ĵq̇ - v̂‖; the paper prints a plus sign.",
        "The reach is the largest distance of the tool from the shoulder, as in w-wrist.",
    ),
    parameters=(
        Parameter("alpha", ALPHA, "reaches", "damping factor", 0),
        Parameter("samples", SAMPLES, "", "configurations of each arm", 0, 1000000),
    ),
)
def conditioning(progress: Progress, *, alpha: float, samples: int) -> Outcome:
    """Condition number and residual are computed for a PUMA and a Stanford arm at random
    configurations within their limits, with lengths in units of the reach. Then Theorem 3 is tested
    on random matrices of four shapes, half of them of lower rank.
    """
    quantities: dict[str, float] = {}
    spectra: dict[str, Array] = {}
    rng = np.random.default_rng(2)
    least, cond, most = {}, {}, {}
    for name, robot in each(ARMS.items(), progress):
        arm = ScaledArm.of(robot)
        J = arm.jacobian(arm.robot.random(samples, seed=1))
        sigma = np.linalg.svd(J, compute_uv=False).astype(np.float64)
        v = rng.normal(size=(samples, 6))
        added = _added(J, v, alpha)
        spectra[name] = sigma
        cond[name] = (sigma[:, 0] ** 2 + alpha**2) / (sigma[:, -1] ** 2 + alpha**2)
        least[name], well = float(sigma[:, 0].min()), sigma[:, -1] > 0.1
        most[name] = float(added[well].max())
        quantities |= {
            f"{name}.min_largest_sigma": least[name],
            f"{name}.max_largest_sigma": sigma[:, 0].max(),
            f"{name}.max_condition": cond[name].max(),
            f"{name}.share_above_1200": (cond[name] > 1200).mean(),
            f"{name}.max_residual": most[name],
            f"{name}.share_well_conditioned": well.mean(),
        }
    worst = {rank: _theorem_3(rng, alpha, lower=rank == "lower") for rank in ("full", "lower")}
    bound = alpha**2 / (0.1**2 + alpha**2)
    quantities |= {f"theorem_3.{rank}_rank": value for rank, value in worst.items()}
    quantities |= {
        "residual_bound": bound,
        "largest_sigma_for_1200": float(np.sqrt(1200 * alpha**2 - alpha**2)),
    }

    def both(values: dict[str, float], form: str) -> str:
        return ", ".join(f"{values[name]:{form}} ({NAMES[name]})" for name in ARMS)

    claims = (
        Claim(
            "with lengths scaled by the reach singular values range approximately from 0 to 1",
            f"the largest one is at least {both(least, '.2f')}",
            max(least.values()) < 1.1,
            "each of six columns has length 1 or more, since rotations count: Σσ² ≥ 6, so that "
            "σ₁ ≥ 1 always, and σ₁ ≥ 1.095 where σ₆ = 0",
        ),
        Claim(
            "α = 0.03 keeps the condition number under 1200",
            f"up to {both({name: float(cond[name].max()) for name in ARMS}, '.0f')}",
            max(float(values.max()) for values in cond.values()) < 1200,
            "(σ₁² + α²)/α² < 1200 needs σ₁ ≤ 1.04, which at a singularity no such arm has: there "
            "it is at least 1334",
        ),
        Claim(
            "at well-conditioned configurations, σ₆ > 0.1, the residual grows by at most 0.08 ‖v̂‖",
            f"{both(most, '.4f')}; the bound (43) is {bound:.4f}",
            max(most.values()) < 0.085,
            "0.08 is (43) at σ₆ = 0.1, rounded",
        ),
        Claim(
            "Theorem 3: ‖δr‖/‖v̂‖ ≤ α²/(σ_r² + α²)",
            f"up to {worst['full']:.6f} of the bound at full rank, {worst['lower']:.6f} below it",
            max(worst.values()) <= 1 + 1e-9,
            "each component of v̂ in the range is short by α²/(σ² + α²), the most at σ_r; what "
            "lies outside the range is in r already",
        ),
    )
    columns: dict[str, Array] = {"sample": np.arange(float(samples))}
    columns |= {f"{name}.sigma": sigma for name, sigma in spectra.items()}
    columns |= {f"{name}.condition": values for name, values in cond.items()}
    figure = _conditioning_figure(spectra, alpha)
    return Outcome(quantities, claims, figure, (Table("sample", columns),))


def _added(J: Array, v: Array, alpha: float) -> Array:
    """Return ‖δr‖/‖v̂‖, the increase of the least-squares residual by damping."""
    many = supple.Linearization(J, v)
    exact = supple.steps.Pseudoinverse()(many)
    damped = supple.DLS(supple.damping.Constant(alpha**2))(many)
    change = np.einsum("kmn,kn->km", J, exact - damped)
    return np.asarray(np.linalg.norm(change, axis=1) / np.linalg.norm(v, axis=1))


def _theorem_3(rng: np.random.Generator, alpha: float, *, lower: bool) -> float:
    """Return the largest ratio of the increase of the residual to its bound (43), over random J."""
    share = 0.0
    for m, n in SHAPES:
        k = min(m, n)
        U = np.linalg.qr(rng.normal(size=(SAMPLES, m, m)))[0][..., :k]
        V = np.linalg.qr(rng.normal(size=(SAMPLES, n, n)))[0][..., :k]
        sigma = np.sort(10 ** rng.uniform(-2, 0, (SAMPLES, k)))[:, ::-1].copy()
        rank = k - rng.integers(1, k, SAMPLES) if lower else np.full(SAMPLES, k)
        sigma[np.arange(k) >= rank[:, None]] = 0
        smallest = sigma[np.arange(SAMPLES), rank - 1]
        J = np.einsum("kmi,ki,kni->kmn", U, sigma, V)
        # Half of the tasks lie along the direction for which the bound is tight.
        v = rng.normal(size=(SAMPLES, m))
        v[::2] = U[np.arange(SAMPLES), :, rank - 1][::2]
        bound = alpha**2 / (smallest**2 + alpha**2)
        share = max(share, float((_added(J, v, alpha) / bound).max()))
    return share


def _conditioning_figure(spectra: dict[str, Array], alpha: float) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.8)
        panels = figure.subplots(1, len(spectra), sharey=True)
        for ax, (name, sigma) in zip(panels, spectra.items(), strict=True):
            style.titled(ax, NAMES[name], "smallest singular value σ₆", "σ₁, and the condition")
            least, largest = sigma[:, -1], sigma[:, 0]
            cond = (largest**2 + alpha**2) / (least**2 + alpha**2)
            dots = {"s": 3, "linewidths": 0, "alpha": 0.5, "rasterized": True}
            ax.scatter(least, cond, color=palette.BLUE, label=f"condition at α = {alpha:g}", **dots)
            ax.scatter(least, largest, color=palette.VERMILION, label="largest, σ₁", **dots)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlim(1e-4, 1)
            style.bound(ax, 1200, "1200")
            style.bound(ax, 1.04, "σ₁ = 1.04, which 1200 needs", below=True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, markerscale=4)

    return draw
