"""Laws of Householder QR at any rank: A = Q R, Q is orthogonal, and least squares are solved."""

from __future__ import annotations

import numpy as np
import pytest

from cases import each
from harness import Lane, same_bits
from matrices import BOUND, LARGEST, SHAPES, hard, normalized, not_orthonormal, tolerance
from sizes import a_third

shapes = each("shape", [*SHAPES, LARGEST])


def problems(shape: tuple[int, int], lane: Lane) -> tuple[np.ndarray, np.ndarray]:
    """Return hard matrices (c, m, n) and right-hand sides (c, m)."""
    a = np.stack(list(hard(*shape, lane.dtype).values()))
    b = np.random.default_rng(7).standard_normal(a.shape[:2]).astype(lane.dtype)
    return a, b


@shapes
def test_qr_factors_multiply_to_the_matrix(lane: Lane, shape: tuple[int, int]) -> None:
    a, b = problems(shape, lane)
    packed, q, projected, _, _ = lane.qr(a, b)
    assert all(np.isfinite(x).all() for x in (packed, q, projected))
    assert not_orthonormal(q) <= BOUND * max(shape) * lane.eps
    unit, r = normalized(a, np.triu(packed))
    error = np.linalg.norm(q.astype(np.float64) @ r - unit, axis=(1, 2))
    assert np.all(error <= tolerance(lane, a))


@shapes
def test_the_factor_q_of_a_qr_factorization_is_orthogonal(
    lane: Lane, shape: tuple[int, int]
) -> None:
    a, b = problems(shape, lane)
    _, q, projected, _, _ = lane.qr(a, b)
    expected = (q.astype(np.float64).swapaxes(1, 2) @ b[..., None].astype(np.float64))[..., 0]
    error = np.linalg.norm(projected - expected, axis=1)
    assert np.all(error <= BOUND * max(shape) * lane.eps * np.linalg.norm(b, axis=1))


@shapes
def test_packs_of_any_width_give_the_bits_of_a_single_lane(
    lane: Lane, shape: tuple[int, int]
) -> None:
    a, b = problems(shape, lane)
    for result, alone in zip(lane.qr(a, b), lane.scalar.qr(a, b), strict=True):
        assert same_bits(result, alone) if result.dtype != bool else np.array_equal(result, alone)


@each("shape", [(1, 1), (7, 1), (6, 6), (12, 6), (64, 20)])
@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-6, 1e-9])
def test_least_squares_solutions_by_qr_are_backward_stable(
    lane: Lane, shape: tuple[int, int], smallest: float
) -> None:
    # Backward stability: x is the exact solution of a problem that differs by rounding errors, so
    # A^T times the residual is of the order of eps |A| (|A| |x| + |b|).
    m, n = shape
    name = f"one {smallest:g}"
    seeds = a_third(range(9), str(lane), shape, smallest)
    a = np.stack([hard(m, n, lane.dtype, seed)[name] for seed in seeds])
    b = np.random.default_rng(8).standard_normal((len(a), m)).astype(lane.dtype)
    x, full = lane.qr(a, b)[3:]
    assert full.all() or smallest < m * lane.eps
    A, x, b = a.astype(np.float64), x.astype(np.float64), b.astype(np.float64)
    residual = b - np.einsum("cij,cj->ci", A, x)
    norm = np.linalg.norm(A, axis=(1, 2))
    scale = norm * (norm * np.linalg.norm(x, axis=1) + np.linalg.norm(b, axis=1))
    gradient = np.linalg.norm(np.einsum("cij,ci->cj", A, residual), axis=1)
    assert np.all((gradient <= BOUND * m * lane.eps * scale)[full])


def test_where_r_has_a_zero_on_its_diagonal_qr_reports_it_and_returns_zero(lane: Lane) -> None:
    matrices = hard(12, 6, lane.dtype)
    a = np.stack([matrices[name] for name in ("zero", "zero column", "plain", "minus zero")])
    b = np.ones((4, 12), lane.dtype)
    x, full = lane.qr(a, b)[3:]
    assert full.tolist() == [False, False, True, False]
    assert np.all(x[[0, 3]] == 0)
    assert x[1, 3] == 0
    assert np.isfinite(x).all()
