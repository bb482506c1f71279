"""Norm and residual of damped steps, compared with truncation (eqs. (8)-(13))."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, each, experiment
from supple.papers.style import Array

from supple import DLS, Linearization, damping
from supple.steps import TruncatedSVD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES = ((2, 2), (6, 6), (6, 7), (6, 4))
LAMBDAS = np.concatenate([[0.0], np.logspace(-4, 4, 65)])
GAPS = np.logspace(0, 8, 33)  # σ_k/σ_(k+1)
SAME = 0.02  # largest relative difference that is called approximately the same
WIDE = 1e4  # smallest gap that is called large


def random_problem(rng: np.random.Generator, shape: tuple[int, int], count: int) -> Linearization:
    """Return many J with singular values from 1e-3 to 10, and ẋ partly outside the range of J."""
    m, n = shape
    k = min(m, n)
    U = np.linalg.qr(rng.normal(size=(count, m, m)))[0][..., :k]
    V = np.linalg.qr(rng.normal(size=(count, n, n)))[0][..., :k]
    J = np.einsum("kmi,ki,kni->kmn", U, 10 ** rng.uniform(-3, 1, (count, k)), V)
    return Linearization(J, rng.normal(size=(count, m)))


def norms(problem: Linearization, lambdas: Array) -> tuple[Array, Array]:
    """Return ‖θ̇(λ)‖ and ‖ẋ − Jθ̇(λ)‖ (L, count) for L values of λ."""
    speed, residual = [], []
    for lam in lambdas:
        dq = DLS(damping.Constant(lam**2), "svd")(problem)
        off = problem.e - np.einsum("kmn,kn->km", problem.J, dq)
        speed.append(np.linalg.norm(dq, axis=-1))
        residual.append(np.linalg.norm(off, axis=-1))
    return np.array(speed), np.array(residual)


def apart(rng: np.random.Generator, gap: float, count: int) -> dict[str, float]:
    """Return differences between damping and truncation for spectra with a gap between σ3 = 1 and
    σ4, as medians over random tasks: ‖θ̇(λ) − θ̇(k)‖/‖θ̇(k)‖ for several λ in the gap, and as
    `effector` the same ratio of velocities Jθ̇, for λ at the geometric mean of the gap.
    """
    sigma = np.array([4.0, 2.0, 1.0, 1 / gap, 0.5 / gap, 0.25 / gap])
    U, V = (np.linalg.qr(rng.normal(size=(count, 6, 6)))[0] for _ in range(2))
    problem = Linearization(np.einsum("kmi,i,kni->kmn", U, sigma, V), rng.normal(size=(count, 6)))
    cut = TruncatedSVD(0.99 * sigma[2] / sigma[0])(problem)  # σ1 to σ3 remain
    middle = np.sqrt(sigma[3])
    lambdas = {"geometric": middle, "arithmetic": sigma[2:4].mean(), "quarter": np.sqrt(middle)}
    dq = {name: DLS(damping.Constant(lam**2), "svd")(problem) for name, lam in lambdas.items()}

    def off(found: Array, exact: Array) -> float:
        ratio = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
        return float(np.median(ratio))

    moved = [np.einsum("kmn,kn->km", problem.J, x) for x in (dq["geometric"], cut)]
    return {name: off(x, cut) for name, x in dq.items()} | {"effector": off(*moved)}


@experiment(
    "mk-damping",
    paper="MK",
    figure="Fig. 1, eqs. (8)-(13)",
    title="Norm, residual and truncation: what a damping factor does",
    deviations=(
        "“Midway” between σ_k and σ_(k+1) may be their arithmetic or their geometric mean, or, for "
        "joint velocities, a quarter of the way down: σ_k (σ_(k+1)/σ_k)^¼.",
        "“Approximately the same” means within 2 % in the median, and a large gap is one of four "
        "decades.",
    ),
    parameters=(
        Parameter("problems", 300, "", "random J of each shape", 0, 100000),
        Parameter("factor", 0.1, "", "λ of Fig. 1", 0),
    ),
)
def damped_norms(progress: Progress, *, problems: int, factor: float) -> Outcome:
    """‖θ̇‖, eq. (11), and ‖ẋ − Jθ̇‖, eq. (12), are computed over λ from 0 to 10⁴ for random J of four
    shapes, with singular values over four decades and ẋ partly outside the range of J. Then, for
    spectra with a gap between σ3 and σ4, damping with λ in the gap is compared with the truncated
    SVD, eq. (13).
    """
    rng = np.random.default_rng(5)
    rises = falls = -np.inf
    last = 0.0
    drawn: tuple[Array, Array] = (np.zeros(0), np.zeros(0))
    for shape in each(SHAPES, progress):
        speed, residual = norms(random_problem(rng, shape, problems), LAMBDAS)
        rises = max(rises, float((np.diff(speed, axis=0) / speed[0]).max()))
        falls = max(falls, float((-np.diff(residual, axis=0) / residual[-1]).max()))
        last = max(last, float((speed[-1] / speed[0]).max()))
        if shape == (6, 7):
            drawn = (speed[:, 0], residual[:, 0])
    each_gap = [apart(rng, gap, 50) for gap in GAPS]
    gaps = {name: np.array([found[name] for found in each_gap]) for name in each_gap[0]}
    wide = {mean: float(np.interp(np.log(WIDE), np.log(GAPS), x)) for mean, x in gaps.items()}
    sigma = factor * np.logspace(-2, 2, 401)
    gain = sigma / (sigma**2 + factor**2)
    at = float(sigma[gain.argmax()])
    same = [np.diag([s, 1 / s]) for s in (1.0, 10.0, 1000.0)]
    w = [float(np.sqrt(np.linalg.det(J @ J.T))) for J in same]
    quantities = {
        "largest_rise_of_norm": rises,
        "largest_fall_of_residual": falls,
        "norm_at_largest_damping": last,
        "largest_gain": gain.max(),
        "sigma_of_largest_gain": at,
    } | {f"difference_at_gap.{name}": value for name, value in wide.items()}
    claims = (
        Claim(
            "(11): the norm decreases monotonically with λ, toward zero",
            f"between neighbors of {len(LAMBDAS)} dampings it rises by at most "
            f"{max(rises, 0):.0e} of itself; {last:.0e} is left at λ = 10⁴",
            rises <= 1e-14 and last < 1e-3,
            "each component σ/(σ² + λ²) decreases",
        ),
        Claim(
            "(12): the residual increases monotonically with λ, with its minimum at λ = 0",
            f"it falls by at most {max(falls, 0):.0e} of its largest value",
            falls <= 1e-14,
            "each component λ²/(σ² + λ²) increases; the part outside the range of J is constant",
        ),
        Claim(
            "(10): the norm of a component is largest where σ = λ, and 1/(2λ) there",
            f"{gain.max():.4f} at σ = {at:.4f} for λ = {factor:g}",
            bool(max(abs(2 * factor * gain.max() - 1), abs(at / factor - 1)) < 1e-9),
            "σ/(σ² + λ²) has its maximum there, and is continuous at σ = 0",
        ),
        Claim(
            "where λ lies in a large gap of the spectrum, damped least squares is approximately "
            "the truncated SVD",
            f"at a gap of 10⁴: joint velocities {wide['quarter']:.1%} apart for λ a quarter of the "
            f"way down, effector velocities {wide['effector']:.0e} midway",
            max(wide["quarter"], wide["effector"]) < SAME,
            "components on either side differ by λ²/σ_k² and by σ_(k+1)σ_k/λ², relative to 1/σ_k",
            own=True,
        ),
        Claim(
            "with λ midway between σ_k and σ_(k+1), far apart, both solutions are approximately "
            "the same",
            f"joint velocities are {wide['arithmetic']:.0%} apart at the arithmetic mean, "
            f"{wide['geometric']:.0%} at the geometric mean",
            min(wide["arithmetic"], wide["geometric"]) < SAME,
            "the arithmetic mean is nearly σ_k/2, which damps that component by a fifth; at the "
            "geometric mean the small components have a gain of 1/σ_k, as large as the others",
        ),
        Claim(
            "manipulability can be constant while σ_min and the condition vary arbitrarily",
            f"w = {', '.join(f'{x:.3g}' for x in w)} for condition numbers of 1, 10² and 10⁶",
            max(w) / min(w) - 1 < 1e-9,
            "it is the product of the singular values: diag(s, 1/s) has w = 1 for any s",
        ),
    )
    tables = (
        Table("lambda", {"lambda": LAMBDAS, "norm": drawn[0], "residual": drawn[1]}),
        Table("gap", {"gap": GAPS, **{f"{mean}.difference": x for mean, x in gaps.items()}}),
        Table("sigma", {"sigma": sigma, "gain": gain, "undamped_gain": 1 / sigma}),
    )
    return Outcome(quantities, claims, _figure(drawn, gaps, sigma, gain), tables)


def _figure(
    drawn: tuple[Array, Array], gaps: dict[str, Array], sigma: Array, gain: Array
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(11, 4.2)
        one, two, three = figure.subplots(1, 3)
        style.titled(one, "A component (Fig. 1)", "singular value σ", "θ̇ for a unit component")
        style.curves(one, sigma, {"damped": gain, "undamped": 1 / sigma})
        one.set_xscale("log")
        one.set_ylim(0, 3 * gain.max())
        one.legend()
        style.titled(two, "Norm and residual of one 6 × 7 J", "damping λ", "relative")
        speed, residual = drawn
        named = {"‖θ̇‖, (11)": speed / speed[0], "‖ẋ − Jθ̇‖, (12)": residual / residual[-1]}
        style.curves(two, LAMBDAS[1:], {name: y[1:] for name, y in named.items()})
        two.set_xscale("log")
        two.legend()
        style.titled(three, "Damped against truncated", "gap σ₃/σ₄", "relative difference")
        names = {
            "geometric": "geometric mean",
            "arithmetic": "arithmetic mean",
            "quarter": "a quarter down",
            "effector": "effector, geometric mean",
        }
        style.curves(three, GAPS, {names[name]: x for name, x in gaps.items()})
        three.set_xscale("log")
        three.set_yscale("log")
        three.legend()

    return draw
