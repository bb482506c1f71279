"""MK sections IV-VI: rotations of singular subspaces, and the effects and gains of filtering."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from supple.papers import style
from supple.papers.experiment import Claim, Outcome, Parameter, Progress, Table, experiment
from supple.papers.maciejewski_klein.courses import MAX_GAIN
from supple.papers.maciejewski_klein.inverse import PUMA
from supple.papers.style import Array

from supple import DLS, Linearization, damping
from supple.steps import NumericalFilter, Pseudoinverse, TruncatedSVD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAPS = np.logspace(-4, 0, 33)  # values of (σ5 − σ6)/(10 ‖δJ‖)
CHANGE = 1e-3  # ‖δJ‖
WELL = 0.05  # relative error up to which a command is followed well
ALPHAS = np.logspace(-4, 2, 49)


def spectrum(rng: np.random.Generator, sigma: Array, count: int) -> Array:
    """Return matrices (count, 6, 6) with given singular values and random singular vectors."""
    U, V = (np.linalg.qr(rng.normal(size=(count, 6, 6)))[0] for _ in range(2))
    return np.asarray(np.einsum("kmi,i,kni->kmn", U, sigma, V))


def turned(J: Array, dJ: Array, size: int) -> Array:
    """Return the largest angle [rad] (K,) by which the left singular subspace of the `size`
    smallest singular values turns.
    """
    before, after = (np.linalg.svd(x)[0][..., -size:] for x in (J, J + dJ))
    cosine = np.linalg.svd(before.swapaxes(1, 2) @ after, compute_uv=False)[:, -1]
    return np.asarray(np.arccos(np.minimum(cosine, 1)))


def bound(J: Array, dJ: Array, size: int) -> Array:
    """Return Wedin's bound (K,) on the sine of `turned`: √2 ‖δJ‖ divided by the gap to larger σ."""
    before, after = (np.linalg.svd(x, compute_uv=False) for x in (J, J + dJ))
    gap = np.minimum(before[:, 5 - size], after[:, 5 - size])
    gap = gap - np.maximum(before[:, 6 - size], after[:, 6 - size])
    change = np.linalg.norm(dJ, ord=2, axis=(1, 2))
    return np.asarray(np.sqrt(2) * change / np.maximum(gap, 1e-300))


def followed_well(max_gain: float, samples: int) -> dict[str, float]:
    """Return, by method, the share of random translations of a PUMA's tool at random configurations
    that the method follows with an error of at most `WELL` and ‖θ̇‖ ≤ θ̇max ‖ẋ‖; `possible` is the
    share that the best possible method would follow.
    """
    rng = np.random.default_rng(12)
    q = PUMA.random(samples, seed=rng)
    J, x = PUMA.jacobian(q), np.zeros((samples, 6))
    x[:, :3] = rng.normal(size=(samples, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    given = Linearization(J, x)
    steps = {
        "constant": DLS(damping.Constant((1 / (2 * max_gain)) ** 2)),
        "variable": DLS(damping.SpeedBound(max_gain)),
        "optimal": DLS(damping.Optimal(max_gain)),
    }
    dq = {name: np.asarray(step(given)) for name, step in steps.items()}
    for name, printed in (("filtered_as_printed", True), ("filtered", False)):
        pairs = zip(J, x, strict=True)
        each = [NumericalFilter(max_gain, printed=printed)(Linearization(*one)) for one in pairs]
        dq[name] = np.array(each)
    off = {n: np.linalg.norm(x - np.einsum("kmn,kn->km", J, y), axis=1) for n, y in dq.items()}
    found = {name: float((e <= WELL).mean()) for name, e in off.items()}
    found["possible"] = found.pop("optimal")
    return found


def cut(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the relative distances of the filtered solution (27), with λ = 0 and û exact, from the
    truncated SVD and from the pseudoinverse. They are medians over random tasks, for each α/σ6
    from 1e-4 to 100.
    """
    J = spectrum(rng, np.array([2.0, 1.5, 1.0, 0.8, 0.5, 0.1]), 50)
    x = rng.normal(size=(50, 6))
    U = np.linalg.svd(J)[0]
    shorter = TruncatedSVD(rank=5)(Linearization(J, x))
    whole = Pseudoinverse()(Linearization(J, x))
    far: list[tuple[float, float]] = []
    for alpha in ALPHAS * 0.1:
        A = J @ J.swapaxes(1, 2) + alpha**2 * U[..., -1:] * U[..., -1:].swapaxes(1, 2)
        dq = (J.swapaxes(1, 2) @ np.linalg.solve(A, x[..., None]))[..., 0]
        pair = (
            np.linalg.norm(dq - y, axis=1) / np.linalg.norm(whole, axis=1) for y in (shorter, whole)
        )
        a, b = (float(np.median(y)) for y in pair)
        far.append((a, b))
    both = np.array(far)
    return both[:, 0], both[:, 1]


@experiment(
    "mk-rotation",
    paper="MK",
    figure="Sections IV-VI",
    title="How far singular subspaces turn, what filtering cuts, and what it gains",
    deviations=(
        "The perturbation bounds are those of the paper's references: here Wedin's. J (6 × 6) is "
        "random with chosen singular values, and ‖δJ‖ = 0.001.",
        "The effective workspace is measured by commands: random translations of the tool at "
        "random configurations of the PUMA, followed within 5 % and the bound on joint speeds.",
    ),
    parameters=(
        Parameter("max_gain", MAX_GAIN, "rad/m", "θ̇max, the bound on ‖θ̇‖/‖ẋ‖", 0),
        Parameter("samples", 400, "", "configurations and commands", 0, 1000000),
    ),
)
def rotation(progress: Progress, *, max_gain: float, samples: int) -> Outcome:
    """J is perturbed while the gap between its two smallest singular values shrinks: rotations of
    the last singular vector and of the plane of the last two are compared with Wedin's bound. Then
    the filter's gain α grows from zero, between pseudoinverse and truncated SVD. Last, the share of
    random commands that a PUMA can follow is compared between the methods.
    """
    rng = np.random.default_rng(11)
    angles: dict[str, list[float]] = {"vector": [], "plane": []}
    worst = 0.0
    for gap in CHANGE * GAPS * 10:
        J = spectrum(rng, np.array([2.0, 1.5, 1.0, 0.8, 0.1 + gap, 0.1]), 50)
        dJ = spectrum(rng, CHANGE * np.array([1, 0.9, 0.8, 0.7, 0.6, 0.5]), 50)
        for name, size in (("vector", 1), ("plane", 2)):
            turn, most = turned(J, dJ, size), bound(J, dJ, size)
            angles[name].append(float(np.degrees(turn.max())))
            valid = most < 1
            worst = max(worst, float((np.sin(turn[valid]) / most[valid]).max(initial=0.0)))
    progress(0.3)
    near, far = cut(rng)
    progress(0.5)
    shares = followed_well(max_gain, samples)
    progress(1.0)
    quantities = {
        "vector.turn_at_least_gap": angles["vector"][0],
        "vector.turn_at_largest_gap": angles["vector"][-1],
        "plane.largest_turn": max(angles["plane"]),
        "largest_turn_over_bound": worst,
        "cut.from_truncated_at_large_alpha": near[-1],
        "cut.from_pseudoinverse_at_small_alpha": far[0],
    } | {f"{name}.followed_well": share for name, share in shares.items()}
    claims = (
        Claim(
            "the rotation of the subspace of small singular values is bounded (perturbation "
            "bounds)",
            f"the sine of its angle is at most {worst:.2f} of √2 ‖δJ‖/gap; the plane of the last "
            f"two turns by at most {max(angles['plane']):.2f}°",
            worst <= 1 and max(angles["plane"]) < 1,
            "Wedin's theorem; the gap is that between the subspace and the other singular values",
        ),
        Claim(
            "the most rapid rotation occurs at multiple smallest singular values",
            f"the last singular vector turns by up to {angles['vector'][0]:.0f}° if σ5 − σ6 is "
            f"{GAPS[0] * 10:.0e} ‖δJ‖, by {angles['vector'][-1]:.1f}° if it is 10 ‖δJ‖",
            angles["vector"][0] > 60 > 10 * angles["vector"][-1],
            "within the plane of two equal singular values no direction is distinguished",
        ),
        Claim(
            "filtering is similar to a continuous version of the truncated SVD",
            f"(27) without λ is {near[-1]:.0e} from the truncated SVD for α = 100 σ6, {far[0]:.0e} "
            "from the pseudoinverse for α = 10⁻⁴ σ6, and passes continuously between them",
            bool(near[-1] < 1e-3 and far[0] < 1e-3 and (np.diff(near) <= 1e-12).all()),
            "the gain of the last direction falls from 1/σ6 to zero as α grows",
        ),
        Claim(
            "using this information results in larger effective workspaces",
            "share of random commands that are followed: constant "
            f"{shares['constant']:.0%}, variable {shares['variable']:.0%}, filter as printed "
            f"{shares['filtered_as_printed']:.0%}; any method at most {shares['possible']:.0%}",
            shares["constant"] < shares["variable"] <= shares["filtered_as_printed"],
            "damping that depends on σ_min acts near singularities alone, the filter along û alone",
        ),
        Claim(
            "larger effective workspaces (component-aware gain)",
            f"{shares['filtered']:.0%}",
            shares["filtered"] >= shares["filtered_as_printed"],
            "α follows the share of ẋ along û",
            own=True,
        ),
    )
    tables = (
        Table("gap", {"gap": 10 * GAPS, **{f"{n}.turn": np.array(x) for n, x in angles.items()}}),
        Table("alpha", {"alpha": ALPHAS, "from_truncated": near, "from_pseudoinverse": far}),
    )
    return Outcome(quantities, claims, _figure(angles, near, far), tables)


def _figure(angles: dict[str, list[float]], near: Array, far: Array) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.5, 4.4)
        left, right = figure.subplots(1, 2)
        style.titled(left, "Largest rotation for ‖δJ‖ = 0.001", "(σ5 − σ6)/‖δJ‖", "angle [°]")
        names = {"vector": "vector of σ6", "plane": "plane of σ5 and σ6"}
        style.curves(left, 10 * GAPS, {names[n]: x for n, x in angles.items()})
        left.set_xscale("log")
        left.set_yscale("log")
        left.legend()
        style.titled(right, "The filter (27), λ = 0", "α/σ6", "relative distance of θ̇")
        both = {"from the truncated SVD": near, "from the pseudoinverse": far}
        style.curves(right, ALPHAS, both, first=2)
        right.set_xscale("log")
        right.legend()

    return draw
