"""Laws of Cholesky, for any rank of A: C C^T = A, and solutions of A x = b."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cases import each
from harness import Lane, same_bits
from matrices import BOUND, SMALLEST, from_spectrum, normalized

SIZES = (1, 2, 3, 6, 7, 20, 64)
sizes = each("n", SIZES)


def gram(g: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return G G^T, with exactly equal entries above and below the diagonal."""
    a = (g @ g.T).astype(dtype)
    return np.tril(a) + np.tril(a, -1).T


def semidefinite(n: int, dtype: np.dtype) -> dict[str, np.ndarray]:
    """Return a dictionary of matrices of full rank and of exactly singular matrices."""
    rng = np.random.default_rng(n)
    plain = from_spectrum(rng, n, n, np.linspace(2, 1, n))
    big = 1e145 if dtype == np.float64 else 1e14
    factors = {
        "full": plain,
        "zero": np.zeros((n, n)),
        "rank one": np.outer(rng.choice([-1, 1], n) * rng.uniform(1, 2, n), np.eye(n)[0]),
        "full again": from_spectrum(rng, n, n, np.linspace(2, 1, n)),
        "zero row": plain * (np.arange(n) != n // 2)[:, None],
        "zero first row": plain * (np.arange(n) != 0)[:, None],
        "repeated rows": plain[np.arange(n) // 2],
        "sums to zero": plain - plain.mean(axis=0),
        "big": plain * big,
        "small": plain / big,
        "small, repeated rows": plain[np.arange(n) // 2] / big,
        "big, zero row": plain * big * (np.arange(n) != n // 2)[:, None],
    }
    return {name: gram(g, dtype) for name, g in factors.items()}


def solved(lane: Lane, a: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return C, x, whether A has full rank, and the relative residuals of C C^T = A
    and of A x = b.
    """
    y = np.random.default_rng(5).standard_normal(a.shape[:2])
    b = np.einsum("cij,cj->ci", a.astype(np.float64), y).astype(lane.dtype)
    factor, x, full = lane.cholesky(a, b)
    unit, right = normalized(a, b)
    exponent = np.frexp(np.abs(a).max(axis=(1, 2)))[1]
    c = np.tril(factor).astype(np.float64)
    product = np.ldexp(c @ c.swapaxes(1, 2), -exponent[:, None, None])
    norm = np.linalg.norm(unit, axis=(1, 2))
    safe = np.where(norm > 0, norm, 1)
    wrong_product = np.linalg.norm(product - unit, axis=(1, 2)) / safe
    residual = np.linalg.norm(np.einsum("cij,cj->ci", unit, x.astype(np.float64)) - right, axis=1)
    wrong_solution = residual / (safe * (np.linalg.norm(x, axis=1) + np.linalg.norm(y, axis=1)))
    return factor, x, full, wrong_product, wrong_solution


@sizes
def test_cholesky_factors_and_solves_matrices_of_any_rank(lane: Lane, n: int) -> None:
    matrices = semidefinite(n, lane.dtype)
    a = np.stack(list(matrices.values()))
    factor, x, full, wrong_product, wrong_solution = solved(lane, a)
    assert np.isfinite(factor).all()
    assert np.isfinite(x).all()
    assert np.all(wrong_product <= BOUND * n * lane.eps)
    assert np.all(wrong_solution <= BOUND * n * lane.eps)
    said = dict(zip(matrices, full, strict=True))
    assert all(said[name] for name in ("full", "full again", "big", "small"))
    lost = ["zero", "zero row", "zero first row", "big, zero row"]
    if n >= 6:  # for smaller n, rounding errors may leave a positive pivot of the order of n eps
        lost += ["repeated rows", "small, repeated rows"]
    assert not any(said[name] for name in lost)


@cache
def nearly_singular(n: int, smallest: float, dtype: np.dtype) -> np.ndarray:
    """Return ten matrices (10, n, n), which do not depend on the width of lanes."""
    rng = np.random.default_rng(n)
    sigma = np.append(np.linspace(2, 1, n - 1), smallest)
    return np.stack([gram(from_spectrum(rng, n, n, sigma), dtype) for _ in range(10)])


@sizes
@pytest.mark.parametrize("smallest", SMALLEST)
def test_the_cholesky_factor_stays_accurate_as_a_matrix_becomes_singular(
    lane: Lane, n: int, smallest: float
) -> None:
    # While all pivots are positive, C C^T = A up to rounding. If a pivot is set to zero,
    # off-diagonal entries of up to the square root of this pivot are lost as well.
    a = nearly_singular(n, smallest, lane.dtype)
    factor, x, full, wrong_product, wrong_solution = solved(lane, a)
    assert np.isfinite(factor).all()
    assert np.isfinite(x).all()
    assert np.all(wrong_product[full] <= BOUND * n * lane.eps)
    assert np.all(wrong_solution[full] <= BOUND * n * lane.eps)
    assert np.all(wrong_product <= BOUND * np.sqrt(n * lane.eps))
    if smallest**2 > BOUND * n * n * lane.eps:
        assert full.all()


@sizes
def test_packs_of_any_width_give_the_bits_of_a_single_lane(lane: Lane, n: int) -> None:
    a = np.stack(list(semidefinite(n, lane.dtype).values()))
    b = np.random.default_rng(6).standard_normal(a.shape[:2])
    result, alone = lane.cholesky(a, b), lane.scalar.cholesky(a, b)
    assert same_bits(result[0], alone[0])
    assert same_bits(result[1], alone[1])
    assert np.array_equal(result[2], alone[2])


def test_cholesky_reads_only_the_lower_triangle(lane: Lane) -> None:
    a = semidefinite(6, lane.dtype)["full"][None]
    b = np.ones((1, 6), lane.dtype)
    hidden = np.where(np.triu(np.ones((6, 6)), 1) == 1, lane.dtype.type(np.nan), a)
    assert same_bits(lane.cholesky(hidden, b)[1], lane.cholesky(a, b)[1])
    assert np.isnan(lane.cholesky(hidden, b)[0][0][np.triu_indices(6, 1)]).all()
