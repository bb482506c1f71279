"""Laws of the SVD at any rank: A = U diag(sigma) V^T, U and V orthonormal, sigma sorted, no NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from harness import Lane, same_bits
from matrices import (
    BOUND,
    LARGEST,
    SHAPES,
    from_spectrum,
    hard,
    normalized,
    not_orthonormal,
    tolerance,
)
from sizes import a_third

shapes = each("shape", [*SHAPES, LARGEST])


def hard_batch(shape: tuple[int, int], lane: Lane) -> tuple[np.ndarray, np.ndarray]:
    """Return the names of hard matrices, and the matrices (c, m, n)."""
    matrices = hard(*shape, lane.dtype)
    return np.array(list(matrices)), np.stack(list(matrices.values()))


def assert_is_svd(lane: Lane, a: np.ndarray) -> None:
    m, n = a.shape[1:]
    u, sigma, v = lane.svd(a)
    assert all(np.isfinite(x).all() for x in (u, sigma, v))
    assert np.all(sigma >= 0)
    assert np.all(np.diff(sigma, axis=1) <= 0)
    bound = BOUND * max(m, n) * lane.eps
    assert not_orthonormal(u) <= bound
    assert not_orthonormal(v) <= bound
    unit, s = normalized(a, sigma)
    remainder = (u.astype(np.float64) * s[:, None]) @ v.astype(np.float64).swapaxes(1, 2) - unit
    assert np.all(np.linalg.norm(remainder, axis=(1, 2)) <= tolerance(lane, a))


@shapes
def test_svd_factors_multiply_to_the_matrix_and_are_orthonormal(
    lane: Lane, shape: tuple[int, int]
) -> None:
    assert_is_svd(lane, a_third(hard_batch(shape, lane)[1], "factors", str(lane), shape))


@shapes
def test_singular_values_agree_with_lapack(lane: Lane, shape: tuple[int, int]) -> None:
    a = a_third(hard_batch(shape, lane)[1], "values", str(lane), shape)
    sigma = lane.singular_values(a)
    unit, s = normalized(a, sigma)
    error = np.linalg.norm(s - np.linalg.svd(unit, compute_uv=False), axis=1)
    assert np.all(error <= tolerance(lane, a))
    assert same_bits(sigma, lane.svd(a)[1])


@shapes
def test_packs_of_any_width_give_the_bits_of_a_single_lane(
    lane: Lane, shape: tuple[int, int]
) -> None:
    a = a_third(hard_batch(shape, lane)[1], "packs", str(lane), shape)
    for result, alone in zip(lane.svd(a), lane.scalar.svd(a), strict=True):
        assert same_bits(result, alone)
    assert same_bits(lane.singular_values(a), lane.scalar.singular_values(a))


def test_the_svd_of_a_matrix_does_not_depend_on_the_matrices_in_other_lanes(
    lane: Lane, rng: np.random.Generator
) -> None:
    _, a = hard_batch((6, 7), lane)
    order = rng.permutation(len(a))
    for result, shuffled in zip(lane.svd(a), lane.svd(a[order]), strict=True):
        assert same_bits(result[order], shuffled)


def test_a_matrix_size_known_at_compile_time_changes_no_bit_of_the_svd(lane: Lane) -> None:
    for n in (3, 6, 7):
        _, a = hard_batch((6, n), lane)
        for result, fixed in zip(lane.svd(a), lane.svd(a, six_rows=True), strict=True):
            assert same_bits(result, fixed)


@pytest.mark.parametrize("transposed", [False, True])
def test_equal_columns_give_singular_values_of_exactly_zero(lane: Lane, transposed: bool) -> None:
    # A matrix of r different columns has at most rank r, also after rounding of its entries.
    rng = np.random.default_rng(4)
    wide = ((2, 3, 1), (3, 5, 2), (6, 7, 3), (20, 21, 10))
    for m, n, rank in wide if transposed else (*wide, (2, 2, 1), (6, 6, 5), (20, 20, 10)):
        columns = rng.standard_normal((3, m, rank + 1))
        columns[:, :, rank] = 0
        a = columns[:, :, rng.permutation(np.arange(n) % (rank + 1))]
        sigma = lane.singular_values(a.swapaxes(1, 2) if transposed else a)
        assert np.all(sigma[:, rank:] == 0)
        assert np.all(sigma[:, :rank] > 0)


@pytest.mark.parametrize("transposed", [False, True])
def test_singular_values_of_graded_rows_have_relative_accuracy(
    lane: Lane, transposed: bool
) -> None:
    # If each row is much shorter than the row before, sigma_i is the distance of row i from the
    # span of the rows before it; the relative error of this distance is the square of the ratio of
    # lengths.
    bits, sizes = (40, (2, 6, 20)) if lane.dtype == np.float64 else (15, (2, 6))
    rng = np.random.default_rng(3)
    for k in sizes:
        n = k + 1
        grades = np.ldexp(1.0, -bits * np.arange(k))
        a = from_spectrum(rng, k, n, np.linspace(2, 1, k)) * grades[:, None]
        a = a.astype(lane.dtype)
        exact = np.abs(np.diagonal(np.linalg.qr((a / grades[:, None]).T)[1])) * grades
        sigma = lane.singular_values(np.stack([a.T if transposed else a]))[0]
        assert np.max(np.abs(sigma / exact - 1)) <= BOUND * n * lane.eps


@st.composite
def drawn(draw: st.DrawFn) -> tuple[np.ndarray, float]:
    """Return a matrix (m, n) of any shape, spectrum and pattern of zeros, and a scale in [0, 1]."""
    m, n = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    exponent = st.floats(-20, 0)
    sigma = [10**e for e in draw(st.lists(exponent, min_size=min(m, n), max_size=min(m, n)))]
    rank = draw(st.integers(0, len(sigma)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    a = from_spectrum(rng, m, n, np.where(np.arange(len(sigma)) < rank, sigma, 0.0))
    a[draw(st.lists(st.integers(0, m - 1), max_size=2))] = 0
    a[:, draw(st.lists(st.integers(0, n - 1), max_size=2))] = -0.0
    return a, draw(st.floats(0, 1))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn())
def test_the_svd_is_accurate_up_to_rounding_for_matrices_of_any_size_and_scale(
    lane: Lane, sample: tuple[np.ndarray, float]
) -> None:
    a, scale = sample
    power = 150 if lane.dtype == np.float64 else 18
    easy = np.eye(*a.shape)
    assert_is_svd(lane, np.stack([a * 10 ** (power * (2 * scale - 1)), easy, a]).astype(lane.dtype))


@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (9, 7), (26, 35), (41, 35), (31, 70)], ids=str)
def test_directions_of_small_singular_values_by_j_jt_agree_with_those_by_the_svd(
    lane: Lane, shape: tuple[int, int]
) -> None:
    (m, n), double = shape, lane.dtype == np.float64
    small = 0.1 if double else 1e-4
    k = min(m, n)
    rng = np.random.default_rng(n)
    spectra = [np.ones(k), np.repeat(np.linspace(1, 0.05, (k + 1) // 2), 2)[:k]]
    for smallest in (0.3, 0.09, 1e-3, 1e-6):
        spectra += [
            np.append(np.linspace(2, 1, k - 1), smallest),
            np.append(np.linspace(30, 1, k - 2), [smallest, 1.01 * smallest]),
        ]
    a = np.stack([from_spectrum(rng, m, n, np.sort(s)[::-1]) for s in spectra])
    u, sigma, v, accurate = lane.gram_svd(a, small)
    if not double:  # float32 has too few digits for this
        assert not accurate[:2].any()
        return
    assert accurate.all()
    best = np.linalg.svd(a, compute_uv=False)[:, ::-1]
    largest = best.max(axis=1)
    noise = 50 * k * lane.eps
    np.testing.assert_allclose(np.sort(sigma), best, rtol=1e-7, atol=1e-15)
    rebuilt = np.einsum("cki,ck,ckj->cij", u, sigma, v)
    assert (np.abs(rebuilt - a).max(axis=(1, 2)) <= noise * largest).all()
    few = sigma < small
    for rows in (u, v):
        wrong = np.einsum("cki,cli->ckl", rows, rows) - np.eye(k)
        both = few[:, :, None] & few[:, None, :]
        assert np.abs(wrong[both]).max() <= 1e-9


def test_a_direction_that_no_joint_moves_has_a_singular_value_of_zero(lane: Lane) -> None:
    rng = np.random.default_rng(4)
    for m, n in ((6, 9), (20, 35)):
        a = rng.normal(size=(1, m, n))
        a[0, -1] = a[0, 0] - a[0, 1]
        assert not lane.gram_svd(1e9 * a, 0.1)[3].any()
        if lane.dtype != np.float64:
            continue
        u, sigma, v, accurate = lane.gram_svd(a, 0.1)
        assert accurate.all()
        assert sigma[0, 0] == 0
        assert not v[0, 0].any()
        assert np.abs(u[0, 0] @ a[0]).max() <= 1e-12
        assert (sigma[0, 1:] > 0).all()
