"""Laws of optimal damping: q̇ keeps the bound, and no other q̇ within the bound errs less.

φ is ‖q̇‖ as a function of λ²; optimal damping is the root of φ(λ²) = bound.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import damping_paper as papers
import supple
from rules import key
from sizes import nightly
from spectra import (
    EPS,
    SHAPES,
    ZERO,
    Sample,
    hard_spectra,
    history,
    of_spectrum,
    random_spectra,
    samples,
)
from supple import _core
from supple.damping import Optimal

Array = np.ndarray
Long = np.longdouble

BOUNDS = [Optimal(bound, newton) for bound in (0.5, 20.0) for newton in (False, True)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
rules = pytest.mark.parametrize("rule", BOUNDS, ids=key)
needs_long = pytest.mark.skipif(
    np.finfo(Long).eps > EPS / 1000, reason="no precision beyond double on this machine"
)


def kernel(rule: Optimal, sigma: Array, gamma: Array) -> Array:
    """Return λ² (count,) for spectra (count, k)."""
    history = np.zeros((len(sigma), 3), sigma.dtype)
    return _core.lambda2(
        rule.kernel, sigma=sigma, gamma=gamma, history=history, values=sigma.shape[1]
    )


def speeds(sigma: Array, gamma: Array, lambda2: Array) -> Array:
    """Return φ (count,) in long double; singular values that are zero in the dtype are left out."""
    floor = ZERO * np.finfo(sigma.dtype).eps * sigma[:, :1]
    s, g = sigma.astype(Long), gamma.astype(Long)
    divisor = np.where(sigma > floor, s**2 + lambda2.astype(Long)[:, None], 1)
    return np.sqrt((np.where(sigma > floor, s * g / divisor, 0) ** 2).sum(axis=1))


# ---- the bound ---------------------------------------------------------------------------------


@needs_long
@rules
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_the_speed_with_optimal_damping_is_at_most_the_bound_and_reaches_it_if_damped(
    rule: Optimal, dtype: type
) -> None:
    rng = np.random.default_rng(18)
    many = nightly(10_000, 5_000) // (10 if rule.newton else 1)
    for k, count in ((1, many), (2, 4 * many), (6, 5 * many), (12, many), (40, 200)):
        spectra = random_spectra(rng, count, k, decades=9 if dtype is np.float64 else 5)
        sigma, gamma = (np.ascontiguousarray(x, dtype) for x in spectra)
        lambda2 = kernel(rule, sigma, gamma)
        phi = speeds(sigma, gamma, lambda2)
        assert (phi <= rule.max_speed).all()
        few = 128 * np.finfo(dtype).eps
        some = lambda2 > 0
        assert some.any()
        assert (phi[some] >= rule.max_speed * (1 - few)).all()
        # λ² is zero if and only if the pseudoinverse keeps the bound, up to rounding.
        free = speeds(sigma, gamma, np.zeros_like(lambda2))
        assert (free[~some] <= rule.max_speed).all()
        assert (free[some] > rule.max_speed * (1 - few)).all()


@needs_long
@rules
@pytest.mark.parametrize(
    ("dtype", "huge", "small"),
    [(np.float64, 1e150, 1e-150), (np.float32, 1e12, 1e-12)],
    ids=["float64", "float32"],
)
def test_the_bound_of_optimal_damping_holds_at_any_scale(
    rule: Optimal, dtype: type, huge: float, small: float
) -> None:
    for k in (1, 2, 3, 6):
        lins = hard_spectra(k, huge, small, dtype)
        sigma, gamma = (np.array([x.sigma for x in lins]), np.array([x.gamma for x in lins]))
        lambda2 = kernel(rule, sigma.astype(dtype), gamma.astype(dtype))
        assert np.isfinite(lambda2).all()
        # The bound is checked where λ² is zero or far above the underflow threshold.
        normal = (lambda2 == 0) | (lambda2 > 1e3 * np.finfo(dtype).tiny)
        assert (
            speeds(*(x.astype(dtype) for x in (sigma, gamma)), lambda2)[normal] <= (rule.max_speed)
        ).all()


@needs_long
@rules
def test_optimal_damping_in_python_keeps_the_bound_in_few_iterations(rule: Optimal) -> None:
    counts = []
    for k in (1, 2, 6):
        for lin in hard_spectra(k, 1e150, 1e-150, float):
            lambda2, count = rule.solve(lin)
            counts.append(count)
            if 0 < lambda2 < 1e-300:
                continue  # λ² is near underflow, so φ is inaccurate
            phi = speeds(lin.sigma[None], lin.gamma[None], np.array([lambda2]))
            assert phi[0] <= rule.max_speed
            if lambda2 > 0:
                assert phi[0] >= rule.max_speed * (1 - 128 * EPS)
    # The largest number found is 26, for a q̇ that is close to the bound without its tiny σ.
    assert max(counts) <= (140 if rule.newton else 40)
    assert rule.newton or np.mean(counts) <= 3


# ---- the papers --------------------------------------------------------------------------------


@shapes
@pytest.mark.parametrize("rule", [Optimal(0.5), Optimal(20.0)], ids=key)
def test_optimal_damping_is_the_root_found_by_bisection(
    rule: Optimal, shape: tuple[int, int]
) -> None:
    for sample in samples(shape)[:: {2: 1, 3: 1, 6: 3, 12: 4}[shape[0]]]:
        lambda2, bound = rule(sample.linearization), rule.max_speed
        # A rounding error E of J changes q̇ by (JᵀJ + λ²)⁻¹(Eᵀr - JᵀE q̇), where r is the residual:
        # |dφ| <= ‖E‖(‖r‖/λ² + ‖q̇‖/λ).
        blur = float(papers.measures(sample.J, sample.e, None).blur)
        size = float(np.linalg.norm(sample.e))
        unseen = 4 * blur * size / bound
        if lambda2 <= unseen:
            assert papers.optimal(sample.J, sample.e, Decimal(bound)) <= 2 * Decimal(unseen)
            continue
        slack = blur * (size / lambda2 + bound / np.sqrt(lambda2)) + 1e-13 * bound
        most = papers.phi(sample.J, sample.e, lambda2 * (1 - 1e-13))
        assert Decimal(bound - slack) <= most <= Decimal(bound + slack), sample.name
        if slack < 1e-10 * bound and bound < 1:  # for some samples only, because bisection is slow
            expected = float(papers.optimal(sample.J, sample.e, Decimal(bound)))
            assert abs(lambda2 - expected) <= 1e-9 * expected


def step(sample: Sample, lambda2: float) -> Array:
    U, sigma, Vt = np.linalg.svd(sample.J, full_matrices=False)
    some = sigma > ZERO * EPS * sigma[0]
    gain = np.where(some, sigma / np.where(some, sigma**2 + lambda2, 1), 0)
    return Vt.T @ (gain * (U.T @ sample.e))


@shapes
@rules
def test_no_other_step_within_the_bound_has_a_smaller_error(
    rule: Optimal, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng(9)
    for sample in samples(shape):
        J, e, bound = sample.J, sample.e, rule.max_speed
        best = step(sample, rule(sample.linearization))
        left = np.linalg.norm(e - J @ best)
        # The other steps are anywhere in the ball ‖q̇‖ <= bound, and near the optimum.
        others = rng.standard_normal((60, shape[1]))
        others[30:] = best + others[30:] * bound * 10.0 ** rng.uniform(-6, 0, (30, 1))
        length = np.linalg.norm(others, axis=1)
        allowed = np.where(length[:30] > 0, bound * rng.uniform(size=30) ** 0.2, 0)
        others[:30] *= (allowed / length[:30])[:, None]
        others[30:] *= np.minimum(1, bound / length[30:])[:, None]
        theirs = np.linalg.norm(e[:, None] - J @ others.T, axis=0)
        slack = 1e-12 * (np.linalg.norm(e) + np.linalg.norm(J) * bound)
        assert (theirs >= left - slack).all(), sample.name


# ---- iterations --------------------------------------------------------------------------------


def iterations(rule: Optimal, m: int, least: float) -> list[int]:
    """Return the numbers of iterations for 50 random spectra with this σ_min and ‖e‖ about 1."""
    rng = np.random.default_rng(17)
    counts = []
    for _ in range(50):
        sigma = np.append(-np.sort(-rng.uniform(0.3, 2, m - 1)), least)
        gamma = rng.standard_normal(m) / np.sqrt(m)
        gamma[-1] = np.copysign(max(abs(gamma[-1]), 0.1), gamma[-1])
        counts.append(rule.solve(of_spectrum(sigma, gamma))[1])
    return counts


@pytest.mark.parametrize("m", [2, 6])
def test_near_singularities_reciprocal_newton_takes_few_iterations_and_newton_many(m: int) -> None:
    decades = 10.0 ** -np.arange(1, 9)
    reciprocal = [iterations(Optimal(0.5), m, least) for least in decades]
    plain = [np.mean(iterations(Optimal(0.5, newton=True), m, least)) for least in decades]
    # Measured: at most 9 iterations; means from 2.6 to 4.6.
    assert max(map(max, reciprocal)) <= 10
    assert max(map(np.mean, reciprocal)) <= np.mean(reciprocal[0]) + 0.5
    # Far from the root, Newton's method halves the distance: 3.3 iterations per decade.
    assert (np.diff(plain) > 2.5).all()


# Starts from zero to far too large, as multiples of the root, or of σ₁² if the root is zero.
starts = st.one_of(
    st.just(0.0), st.floats(0.5, 2), st.floats(-300, 300).map(lambda decade: 10.0**decade)
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(0, 2**32), starts, st.booleans())
def test_optimal_damping_finds_the_same_root_from_any_start(
    k: int, seed: int, start: float, newton: bool
) -> None:
    sigma, gamma = (x[0] for x in random_spectra(np.random.default_rng(seed), 1, k))
    sigma = np.maximum(sigma, 1e-9)
    rule, lin = Optimal(0.5, newton), of_spectrum(sigma, gamma)
    cold = rule.solve(lin)
    # |d(log φ)/dλ²| is at least 1/(σ₁² + λ²), which determines the accuracy of the root.
    blur = 128 * EPS * (sigma[0] ** 2 + cold[0])
    given_start = min(start * (cold[0] or sigma[0] ** 2), 1e300)
    warm = rule.solve(lin, given_start)
    assert abs(warm[0] - cold[0]) <= blur
    assert speeds(sigma[None], gamma[None], np.array([warm[0]]))[0] <= rule.max_speed
    near = rule.solve(lin, cold[0])
    assert near[1] <= 1
    if not newton:
        assert warm[1] <= cold[1] + 1


def test_a_start_near_the_root_saves_iterations() -> None:
    rule, saved = Optimal(0.5), []
    for sigma, gamma in zip(*random_spectra(np.random.default_rng(21), 300, 6), strict=True):
        lin = of_spectrum(np.maximum(sigma, 1e-9), gamma)
        lambda2, cold = rule.solve(lin)
        if cold > 2:
            saved.append(cold - max(rule.solve(lin, f * lambda2)[1] for f in (0.99, 1.01)))
    assert len(saved) > 50
    assert min(saved) >= 0
    assert np.mean(saved) > 1


def as_printed(sigma: Array, gamma: Array, bound: float, newton: bool, tolerance: float) -> int:
    """Return the number of iterations of (17) or (18) of the paper from λ = 0.

    The aim and the stopping rule are those of `Optimal.solve`.
    """
    lam, steps, most, aim = 0.0, 0, bound, bound * (1 - tolerance)
    while True:
        phi = np.sqrt(((sigma * gamma / (sigma**2 + lam)) ** 2).sum())
        if phi <= most:
            return steps
        most = bound * (1 - tolerance / 2)
        slope = -((sigma * gamma) ** 2 / (sigma**2 + lam) ** 3).sum() / phi
        lam -= (1 if newton else phi / aim) * (phi - aim) / slope
        steps += 1


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("newton", [True, False], ids=["newton", "reciprocal"])
def test_from_zero_optimal_damping_takes_the_iterations_of_the_paper(
    newton: bool, tolerance: float
) -> None:
    rule, off = Optimal(0.5, newton), []
    for sigma, gamma in zip(*random_spectra(np.random.default_rng(23), 200, 6), strict=True):
        lin = of_spectrum(np.maximum(sigma, 1e-6), gamma)
        steps = rule.solve(lin, tolerance=tolerance, from_zero=True)[1]
        off.append(steps - as_printed(lin.sigma, lin.gamma, 0.5, newton, tolerance))
    assert not any(off)


@needs_long
@pytest.mark.parametrize("tolerance", [0.5, 1e-2, 1e-6])
@rules
def test_with_any_tolerance_optimal_damping_keeps_the_bound(
    rule: Optimal, tolerance: float
) -> None:
    sigma, gamma = random_spectra(np.random.default_rng(24), 200, 6)
    lins = [of_spectrum(s, g) for s, g in zip(sigma, gamma, strict=True)]
    exact = [rule.solve(lin) for lin in lins]
    rough = [rule.solve(lin, tolerance=tolerance) for lin in lins]
    lambda2 = np.array([each[0] for each in rough])
    phi = speeds(sigma, gamma, lambda2)
    assert (phi <= rule.max_speed).all()
    assert (phi[lambda2 > 0] >= rule.max_speed * (1 - tolerance) * (1 - 64 * EPS)).all()
    for a, b in zip(rough, exact, strict=True):
        assert (a[0] > 0) == (b[0] > 0)  # the tolerance does not decide whether a step is damped
        assert a[1] <= b[1]


@pytest.mark.parametrize("wrong", [-1e-3, 1.0, np.nan, "some", True])
def test_an_invalid_tolerance_of_optimal_damping_is_refused(wrong: object) -> None:
    lin = of_spectrum(np.ones(2), np.ones(2))
    with pytest.raises(supple.errors.InputError, match="tolerance"):
        Optimal(1.0).solve(lin, tolerance=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, "near", True])
def test_an_invalid_start_of_optimal_damping_is_refused(wrong: object) -> None:
    with pytest.raises(supple.errors.InputError, match="start"):
        Optimal(1.0).solve(of_spectrum(np.ones(2), np.ones(2)), wrong)  # type: ignore[arg-type]


@rules
def test_optimal_damping_in_kernel_and_python_agree(rule: Optimal) -> None:
    # λ² may differ by rounding errors divided by the slope of φ, so φ is compared.
    lins = hard_spectra(6, 1e3, 1e-3, float)
    sigma, gamma = np.array([x.sigma for x in lins]), np.array([x.gamma for x in lins])
    past = np.array([history(x) for x in lins])
    there = _core.lambda2(rule.kernel, sigma=sigma, gamma=gamma, history=past, values=6)
    here = np.array([rule(x) for x in lins])
    for values in (here, there):
        phi = speeds(sigma, gamma, values)
        assert (phi[values > 0] >= rule.max_speed * (1 - 128 * EPS)).all()
    assert ((here > 0) == (there > 0)).all()
