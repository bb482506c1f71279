"""Every step agrees with a transcription of its paper, in Python and in the kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import step_paper as papers
from sizes import nightly
from supple import DLS, Linearization, damping
from supple.steps import (
    SDLS,
    AngleClamp,
    ErrorClamp,
    Pseudoinverse,
    Step,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
)

Array = np.ndarray
Formula = Callable[[Array, Array], Array]
SHAPES = [(2, 3), (3, 3), (6, 6), (6, 7), (12, 25), (7, 4)]
LAMBDA2 = 0.03


def sigmas(J: Array) -> Array:
    return np.linalg.svd(J, compute_uv=False)


def threes(J: Array) -> list[range]:
    return [range(i, min(i + 3, len(J))) for i in range(0, len(J), 3)]


def weights(size: int) -> Array:
    return np.linspace(0.5, 2.0, size)


METHODS: dict[str, tuple[Callable[[int, int], Step], Formula]] = {
    "transpose (B §3)": (lambda m, n: Transpose(), papers.transpose),
    "pseudoinverse (B §4)": (lambda m, n: Pseudoinverse(), papers.pseudoinverse),
    "truncated by a fraction (W)": (
        lambda m, n: TruncatedSVD(0.3),
        lambda J, e: papers.truncated(J, e, sigmas(J) > 0.3 * sigmas(J)[0]),
    ),
    "truncated by a singular value (W 45)": (
        lambda m, n: TruncatedSVD(min_sigma=0.4),
        lambda J, e: papers.truncated(J, e, sigmas(J) > 0.4),
    ),
    "truncated by a rank (MK 13)": (
        lambda m, n: TruncatedSVD(rank=2),
        lambda J, e: papers.truncated(J, e, np.arange(min(J.shape)) < 2),
    ),
    **{
        f"damped, {method} (W 34, DW 4)": (
            lambda m, n, method=method: DLS(damping.Constant(LAMBDA2), method),  # type: ignore[misc]
            lambda J, e: papers.damped(J, e, LAMBDA2),
        )
        for method in ("auto", "svd", "cholesky", "qr")
    },
    "weighted (DW 2)": (
        lambda m, n: WeightedDLS(damping.Constant(LAMBDA2), weights(m), weights(n)[::-1]),
        lambda J, e: papers.weighted(
            J, e, LAMBDA2, np.diag(weights(len(J))), np.diag(weights(J.shape[1])[::-1])
        ),
    ),
    "DLS' (B §2)": (
        lambda m, n: ErrorClamp(DLS(damping.Constant(LAMBDA2)), 0.4, group=3),
        lambda J, e: papers.damped(J, papers.clamped_error(e, 0.4, threes(J)), LAMBDA2),
    ),
    "clamps inside each other (B §2)": (
        lambda m, n: ErrorClamp(ErrorClamp(Pseudoinverse(), 0.2, group=2), 0.4, group=3),
        lambda J, e: papers.pseudoinverse(
            J,
            papers.clamped_error(
                papers.clamped_error(e, 0.4, threes(J)),
                0.2,
                [range(i, min(i + 2, len(J))) for i in range(0, len(J), 2)],
            ),
        ),
    ),
    "largest angle (B §8)": (
        lambda m, n: AngleClamp(Pseudoinverse(), 0.1),
        lambda J, e: papers.clamp_max_abs(papers.pseudoinverse(J, e), 0.1),
    ),
    **{
        f"selective{', soft' * soft} (Buss & Kim)": (
            lambda m, n, soft=soft: SDLS(0.6, soft=soft, group=3),  # type: ignore[misc]
            lambda J, e, soft=soft: papers.selective(J, e, 0.6, threes(J), soft),  # type: ignore[misc]
        )
        for soft in (False, True)
    },
}


def problems(shape: tuple[int, int], least: float, count: int) -> tuple[Array, Array]:
    """Return J (count, m, n) with distinct singular values from 1.5 to `least`, and e."""
    rng = np.random.default_rng(shape[0] + 100 * shape[1])
    k = min(shape)
    sigma = np.geomspace(1.5, 0.25, k)
    sigma[-1] = least if k > 1 else max(least, 0.25)
    U = np.linalg.qr(rng.normal(size=(count, shape[0], k)))[0]
    V = np.linalg.qr(rng.normal(size=(count, shape[1], k)))[0]
    return (U * sigma) @ V.swapaxes(1, 2), rng.normal(size=(count, shape[0]))


@pytest.mark.parametrize(("least", "accuracy"), [(0.2, 1e-12), (0.0, 1e-9)], ids=["away", "at"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_every_step_agrees_with_a_transcription_of_its_paper(
    name: str, shape: tuple[int, int], least: float, accuracy: float
) -> None:
    """Errors relative to q̇ are below 1e-12 away from singularities and 1e-9 at singularities."""
    make, formula = METHODS[name]
    step = make(*shape)
    J, e = problems(shape, least, nightly(24, 6))
    batch = step(Linearization(J, e))
    for i in range(len(J)):
        literal = formula(J[i], e[i])
        room = accuracy * max(float(np.linalg.norm(literal)), 1e-3)
        assert np.linalg.norm(step(Linearization(J[i], e[i])) - literal) <= room
        assert np.linalg.norm(batch[i] - literal) <= room


def test_wamplers_link_stops_below_the_threshold() -> None:
    """Equation (45) of Wampler: θ̇ = -ẋ/sin θ if |sin θ| > ε, else 0."""
    for sine in (1e-4, 0.0999, 0.1001, -0.5, 0.0):
        lin = Linearization([[-sine]], [1.0])
        expected = -1 / sine if abs(sine) > 0.1 else 0.0
        for given in (lin, Linearization(lin.J[None], lin.e[None])):
            assert TruncatedSVD(min_sigma=0.1)(given).item() == pytest.approx(expected)


@pytest.mark.parametrize("lam", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("least", np.geomspace(1, 1e-9, 7).tolist())
def test_a_step_of_a_batch_equals_the_single_step_up_to_rounding(lam: float, least: float) -> None:
    """The difference is at most the rounding error of a backward stable method.

    This error is eps (κ ‖q̇‖ + κ² ‖e - J q̇‖/σ_1), by the perturbation theory of least squares
    (Wedin), where κ is the condition number of J stacked on λ I.
    """
    J, e = problems((6, 7), least, nightly(200, 60))
    step = DLS(damping.Constant(lam**2))
    batch = step(Linearization(J, e))
    kappa = np.hypot(1.5, lam) / np.hypot(min(least, 0.25), lam)
    for i in range(len(J)):
        one = step(Linearization(J[i], e[i]))
        left = np.linalg.norm(e[i] - J[i] @ one)
        room = kappa * np.linalg.norm(one) + kappa**2 * left / 1.5
        assert np.linalg.norm(batch[i] - one) <= 32 * np.finfo(float).eps * room
