"""A lecture note on the damped pseudo-inverse (N): the bound on its gain.

‖J*‖ = max σ/(σ² + ρ²) <= 1/(2ρ),      J* = Jᵀ(J Jᵀ + ρ² I)⁻¹,      with equality if some σ = ρ
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
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
    from matplotlib.figure import Figure

SHAPES = ((2, 2), (3, 4), (6, 6), (6, 7))
RHOS = (0.01, 0.1, 1.0)
MATRICES = 500  # number of matrices of each shape and damping
SPREAD = 4.0  # decades of singular values on either side of ρ


def gains(J: Array, rho: float) -> Array:
    """Return ‖J*‖, the largest singular value of J*, for many J (k, m, n)."""
    step = supple.DLS(supple.damping.Constant(rho**2))
    unit = np.broadcast_to(np.eye(J.shape[-2])[:, None], (J.shape[-2], *J.shape[:-1]))
    inverse = np.stack([step(supple.Linearization(J, e)) for e in unit], axis=-1)
    norms: Array = np.linalg.norm(inverse, ord=2, axis=(-2, -1))
    return norms


def random_jacobians(
    rng: np.random.Generator,
    shape: tuple[int, int],
    rho: float,
    spread: float = SPREAD,
    count: int = MATRICES,
) -> Array:
    """Return random Jacobians (count, m, n) with singular values within `spread` decades of ρ."""
    m, n = shape
    U = np.linalg.qr(rng.normal(size=(count, m, m)))[0]
    V = np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    sigma = rho * 10 ** rng.uniform(-spread, spread, (count, m))
    J: Array = np.einsum("kmi,ki,kni->kmn", U, sigma, V[..., :m])
    return J


@experiment(
    "n-gain",
    paper="N",
    figure="eq. (1)",
    title="The gain of the damped pseudo-inverse is at most 1/(2ρ)",
    deviations=(
        "The note prints σ in Σ_ρ where σ̃ is meant, and θ for θ̇.",
        "The note calls (1/2)ρ⁻¹ the limiting value of the gain near a singularity. It is the "
        "maximum, at σ = ρ; at the singularity itself the gain is zero.",
    ),
    parameters=(
        Parameter(
            "spread", SPREAD, "decades", "range of singular values on either side of ρ", 0, 12
        ),
        Parameter("matrices", MATRICES, "", "random J of each shape and damping", 149, 100000),
    ),
)
def gain(progress: Progress, *, spread: float, matrices: int) -> Outcome:
    """The gain ‖J*‖ is computed for random Jacobians of four shapes and three dampings ρ, with
    singular values spread over eight decades around ρ; then for 1 × 1 Jacobians whose singular
    value is swept through ρ.
    """
    rng = np.random.default_rng(1)
    largest, off = 0.0, 0.0
    for shape, rho in each([(s, r) for s in SHAPES for r in RHOS], progress):
        J = random_jacobians(rng, shape, rho, spread, matrices)
        largest = max(largest, float((2 * rho * gains(J, rho)).max()))
        off = max(off, deviation(J, rho, rng))
    ratio = np.logspace(-spread, spread, 401)  # values of σ/ρ, among them 1
    curve = 2 * gains(ratio[:, None, None], 1.0)
    peak = int(curve.argmax())
    far = float(np.abs(curve[-1] / 2 * ratio[-1] - 1))  # relative deviation from 1/σ at σ = 1e4 ρ
    quantities = {
        "max_scaled_gain": largest,
        "scaled_gain_at_rho": curve[peak],
        "peak_sigma_over_rho": ratio[peak],
        "scaled_gain_at_singularity": curve[0],
        "deviation_far_away": far,
        "largest_deviation": off,
    }
    count = matrices * len(SHAPES) * len(RHOS)
    claims = (
        Claim(
            f"{THESIS}‖θ̇‖/‖V‖ is bounded by (1/2)ρ⁻¹, so that the damped pseudo-inverse has no "
            "discontinuity at a singularity",
            f"2ρ‖J*‖ ≤ {largest:.9f} over {count} random J",
            largest <= 1 + 1e-12,
            "σ/(σ² + ρ²) ≤ 1/(2ρ) for every σ, and J* has these as singular values",
        ),
        Claim(
            "γ = σ/ρ ≃ 1 gives σ̃ ≃ 1/(2ρ)",
            f"2ρσ̃ = {curve[peak]:.9f} at σ/ρ = {ratio[peak]:.3f}",
            bool(abs(curve[peak] - 1) < 1e-12 and abs(ratio[peak] - 1) < 1e-12),
            "the maximum lies exactly at σ = ρ",
        ),
        Claim(
            "away from singularities damping has little effect: σ̃ ≃ 1/σ",
            f"relative difference {far:.1e} at σ = 10⁴ρ",
            bool(far < 1e-7),
            "it is ρ²/(σ² + ρ²)",
        ),
        Claim(
            "near a singularity σ̃ goes toward the limiting value (1/2)ρ⁻¹",
            f"2ρσ̃ = {curve[0]:.1e} at σ = 10⁻⁴ρ",
            bool(curve[0] > 0.99),
            "1/(2ρ) is a maximum, not a limit: below σ = ρ the gain falls to zero with σ",
        ),
        Claim(
            "the price to pay is a deviation of the tool from the desired trajectory",
            f"‖V − Jθ̇‖/‖V‖ reaches {off:.6f}, beyond what lies outside the range of J",
            0.99 < off <= 1 + 1e-9,
            "a component with σ ≪ ρ is given up: ρ²/(σ² + ρ²) is nearly one",
        ),
    )
    table = Table("ratio", {"ratio": ratio, "scaled_gain": curve, "undamped": 2 / ratio})
    return Outcome(quantities, claims, _figure(ratio, curve, rng), (table,))


def deviation(J: Array, rho: float, rng: np.random.Generator) -> float:
    """Return the largest ‖J(J⁺ − J*)V‖/‖V‖ over all J (k, m, n), each with a random velocity V."""
    V = rng.normal(size=J.shape[:2])
    # Every second velocity is along the direction with the smallest singular value.
    V[::2] = np.linalg.svd(J)[0][::2, :, J.shape[1] - 1]
    many = supple.Linearization(J, V)
    damped = supple.DLS(supple.damping.Constant(rho**2))(many)
    exact = supple.steps.Pseudoinverse()(many)
    off = np.einsum("kmn,kn->km", J, exact - damped)
    return float((np.linalg.norm(off, axis=1) / np.linalg.norm(V, axis=1)).max())


def _figure(ratio: Array, curve: Array, rng: np.random.Generator) -> Callable[[Figure], None]:
    random = [
        (2 * rho * gains(J, rho), np.linalg.svd(J, compute_uv=False) / rho)
        for rho in RHOS
        for J in [random_jacobians(rng, (6, 6), rho)[:150]]
    ]

    def draw(figure: Figure) -> None:
        ax = style.titled(
            figure.subplots(),
            "Gain of the damped pseudo-inverse J* = Jᵀ(JJᵀ + ρ²I)⁻¹",
            "singular value over damping, σ/ρ",
            "gain over its bound, 2ρ‖J*‖",
        )
        ax.loglog(ratio, curve, color=palette.BLUE, label="one singular value, 2ρσ/(σ² + ρ²)")
        ax.loglog(ratio, 2 / ratio, **style.style_of(0) | {"linestyle": ":"})
        for k, (found, sigma) in enumerate(random):
            nearest = np.abs(np.log(sigma)).argmin(axis=-1)
            at = np.take_along_axis(sigma, nearest[:, None], axis=-1)[:, 0]
            label = "random 6 × 6 J, at their σ nearest to ρ" if k == 0 else None
            ax.plot(at, found, "o", ms=3, color=palette.GREEN, alpha=0.5, label=label)
        style.bound(ax, 1.0, "bound 1/(2ρ), reached at σ = ρ")
        ax.set_ylim(1e-4, 12)
        style.note(ax, "undamped, 1/σ", (0.55, 5))
        style.note(
            ax, "at a singularity the gain is zero,\nnot 1/(2ρ)", (1.2e-4, 3e-2), (8e-4, 1.7e-3)
        )
        ax.legend(loc="lower center")

    return draw


EXPERIMENTS = (gain,)
