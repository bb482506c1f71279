"""The optimally damped step without singular values agrees with the SVD where it is
called valid.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cases import each
from harness import Lane, same_bits
from matrices import hard, orthonormal
from sizes import nightly

SHAPES = ((1, 1), (1, 5), (2, 2), (3, 3), (3, 7), (6, 6), (6, 7), (6, 9), (12, 25))
shapes = each("shape", SHAPES)
BOUNDS = (1e-3, 0.5, 20.0)

# Tolerance of q̇, in units of the change of q̇ that the rounding of J causes. The search for λ²
# ends when ‖q̇‖ is within 64 eps of the bound, which is 33 units; the largest measured difference
# is 35.
BLUR = 100


@cache
def built(dtype: np.dtype, m: int, n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return J (count, m, n) with many kinds of spectra, some of them rank-deficient, and e (count,
    m).
    """
    rng = np.random.default_rng((m, n, count))
    decades = 13 if dtype == np.float64 else 6
    sigma = 10 ** rng.uniform(-decades, 0, (count, m)) ** rng.integers(0, 2, (count, 1))
    sigma *= rng.uniform(0.3, 1, (count, m))
    sigma[::5, -1] *= 10 ** rng.uniform(-decades, 0, len(sigma[::5]))
    sigma[3::11, -1] = 0
    sigma[4::11] = 0.7
    U = np.stack([orthonormal(rng, m, m) for _ in range(40)])[np.arange(count) % 40]
    V = np.stack([orthonormal(rng, n, m) for _ in range(40)])[np.arange(count) % 40]
    gamma = rng.standard_normal((count, m)) * 10 ** rng.uniform(-3, 2, (count, 1))
    gamma[1::7, :-1] = 0  # e is along the singular direction
    gamma[2::7, -1] = 0
    gamma[5::23] = 0
    J = (U * sigma[:, None]) @ V.swapaxes(1, 2)
    e = np.einsum("cij,cj->ci", U, gamma)
    return J.astype(dtype), e.astype(dtype)


@cache
def by_svd(
    dtype: np.dtype, m: int, n: int, count: int, bound: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q̇ (c, n), λ² (c,) and σ (c, k) in float64; λ² solves ‖q̇(λ²)‖ = bound
    by bisection.
    """
    J, e = built(dtype, m, n, count)
    U, sigma, Vt = np.linalg.svd(J.astype(float), full_matrices=False)
    gamma = np.einsum("cmk,cm->ck", U, e.astype(float))

    def gained(lambda2: np.ndarray) -> np.ndarray:
        divisor = sigma**2 + lambda2[:, None]
        return sigma * gamma / np.where(divisor > 0, divisor, 1)

    def speed(lambda2: np.ndarray) -> np.ndarray:
        return np.linalg.norm(gained(lambda2), axis=1)

    high = np.linalg.norm(sigma * gamma, axis=1) / bound  # above the root
    low = np.where(speed(np.zeros(len(J))) > bound, 1e-40 * high, 0)
    high = np.where(low > 0, high, 0)
    for _ in range(200):
        middle = np.sqrt(low * high)
        fast = speed(middle) > bound
        low, high = np.where(fast, middle, low), np.where(fast, high, middle)
    return np.einsum("ckn,ck->cn", Vt, gained(high)), high, sigma


@shapes
@pytest.mark.parametrize("bound", BOUNDS)
def test_the_optimal_step_without_an_svd_agrees_with_the_svd(
    lane: Lane, shape: tuple[int, int], bound: float
) -> None:
    J, e = built(lane.dtype, *shape, nightly(600, 200))
    dq, lambda2, holds, _ = lane.optimal(J, e, bound)
    found = by_svd(lane.dtype, *shape, len(J), bound)
    e, dq, lambda2, expected, root, sigma = (x[holds] for x in (e, dq, lambda2, *found))
    # An error E of J changes q̇ by (JᵀJ + λ²)⁻¹(Eᵀr - JᵀE q̇), with r = e - J q̇.
    least = sigma[:, -1] ** 2 + root
    size = np.linalg.norm(e.astype(float), axis=1)
    unit = lane.eps * sigma[:, 0]
    blur = unit * (size / least + np.linalg.norm(expected, axis=1) / np.sqrt(least))
    assert np.all(np.linalg.norm(dq - expected, axis=1) <= BLUR * blur)
    # The error of λ² follows from that of the speed, because d(log ‖q̇‖)/dλ² is at most -1/(σ₁² +
    # λ²).
    loose = (BLUR * blur / bound + 200 * lane.eps) * (sigma[:, 0] ** 2 + root)
    assert np.all(np.abs(lambda2 - root) <= loose)


@shapes
@pytest.mark.parametrize("bound", BOUNDS)
def test_optimally_damped_speeds_are_at_most_the_bound_and_reach_it(
    lane: Lane, shape: tuple[int, int], bound: float
) -> None:
    J, e = built(lane.dtype, *shape, 2000)
    dq, lambda2, holds, _ = lane.optimal(J, e, bound)
    bound = float(lane.dtype.type(bound))
    speed = np.linalg.norm(dq[holds].astype(np.longdouble), axis=1)
    assert np.all(speed <= bound)
    assert np.all(speed[lambda2[holds] > 0] >= bound * (1 - 128 * lane.eps))
    assert np.all(lambda2[holds] >= 0)


@shapes
def test_the_optimal_step_is_called_valid_exactly_where_the_rank_is_certain(
    lane: Lane, shape: tuple[int, int]
) -> None:
    J, e = built(lane.dtype, *shape, 2000)
    holds = lane.optimal(J, e, 0.5)[2]
    sigma = np.linalg.svd(J.astype(float), compute_uv=False)
    relative = sigma / np.where(sigma[:, :1] > 0, sigma[:, :1], 1)
    ratio, product = relative[:, -1], np.prod(relative, axis=1)
    regular = ratio >= 300 * shape[0] * lane.eps
    sound = regular & (sigma[:, 0] > 1e-9) & (product > (1e-60 if lane.eps < 1e-10 else 1e-9))
    assert holds[sound].all()
    assert sound.mean() > 0.3
    assert not holds[ratio <= 64 * lane.eps].any()
    if shape != (1, 1):
        assert (ratio <= 64 * lane.eps).any()


@each("shape", [*SHAPES, (7, 6), (3, 2)])
def test_optimal_steps_called_valid_are_finite_and_within_the_bound(
    lane: Lane, shape: tuple[int, int]
) -> None:
    J = np.stack(list(hard(*shape, lane.dtype).values()))
    huge, small = (1e300, 1e-300) if lane.dtype == np.float64 else (1e37, 1e-37)
    for scale in (0.0, 1.0, 1e9, 1e-12, huge, small):
        e = np.broadcast_to(np.cos(np.arange(shape[0])) * scale, J.shape[:2]).astype(lane.dtype)
        for bound in (0.5, small, huge):
            with np.errstate(all="ignore"):
                dq, lambda2, holds, _ = lane.optimal(J, e, bound)
            assert np.isfinite(dq[holds]).all()
            assert np.isfinite(lambda2[holds]).all()
            largest = np.abs(dq[holds]).max(initial=0)
            assert largest <= lane.dtype.type(bound)
            if shape[0] > shape[1]:
                assert not holds.any()


def test_optimal_steps_in_packs_have_the_bits_of_a_single_lane(lane: Lane) -> None:
    for shape in ((6, 7), (3, 5)):
        J, e = built(lane.dtype, *shape, 403)
        alone = lane.scalar.optimal(J, e, 0.5)
        order = np.random.default_rng(1).permutation(len(J))
        mixed = lane.optimal(J[order], e[order], 0.5)
        assert not alone[2].all()
        for one, other in zip(alone, mixed, strict=True):
            assert same_bits(one[order].astype(lane.dtype), other.astype(lane.dtype))


def test_a_matrix_size_known_at_compile_time_changes_no_bit(lane: Lane) -> None:
    J, e = built(lane.dtype, 6, 7, 403)
    plain, sized = lane.optimal(J, e, 0.5), lane.optimal(J, e, 0.5, sized=True)
    for one, other in zip(plain, sized, strict=True):
        assert same_bits(one.astype(lane.dtype), other.astype(lane.dtype))


def test_any_initial_damping_gives_the_same_result_and_a_close_one_takes_fewer_iterations(
    lane: Lane,
) -> None:
    J, e = built(lane.dtype, 6, 7, 1000)
    _, root, holds, steps = lane.optimal(J, e, 0.5)
    largest = np.linalg.svd(J.astype(float), compute_uv=False)[:, 0]
    blur = 400 * lane.eps * (largest**2 + root)
    for factor in (0.0, 1e-9, 0.9, 1.0, 1.1, 2.0, 1e3, 1e9, 1e30):
        start = np.minimum(np.where(root > 0, root, 1) * factor, np.finfo(lane.dtype).max)
        warm, lambda2, also, taken = lane.optimal(J, e, 0.5, start)
        assert np.array_equal(holds, also)
        assert np.all(np.abs(lambda2 - root)[holds] <= blur[holds])
        assert np.all(np.linalg.norm(warm[holds].astype(np.longdouble), axis=1) <= 0.5)
        assert np.all(taken[holds] <= steps[holds] + 1)
        if 0.9 <= factor <= 1.1:
            many = holds & (steps > 3)
            assert many.any()
            assert np.mean(taken[many]) <= np.mean(steps[many]) - 1
