"""Rules that need only extreme singular values, which the kernel finds without an SVD.

Results agree with the SVD: λ² up to rounding errors of σ₁², q̇ to 1e-12 away from singularities
and to 1e-9 at singularities.
"""

from __future__ import annotations

import numpy as np
import pytest

from cases import each
from sizes import nightly
from supple import DLS, Linearization, _core
from supple.damping import (
    ConditionBound,
    Curvature,
    Manipulability,
    ManipulabilityRate,
    MayorgaCondition,
    MayorgaRank,
    Region,
    SpeedBound,
    TrackingBound,
)

Array = np.ndarray
RULES = {
    "speed bound": SpeedBound(5.0),
    "speed bound far in": SpeedBound(200.0),
    "region": Region(0.04, 0.3),
    "narrow region": Region(1.0, 1e-3),
    "curvature": Curvature(0.05),
    "tracking bound": TrackingBound(0.1),
    "condition bound": ConditionBound(50.0),
    "manipulability": Manipulability(0.04, 0.5),
    "manipulability rate": ManipulabilityRate(0.04, 0.9, 0.01, 0.5),
    "Mayorga's condition": MayorgaCondition(0.01, 100.0, 0.25),
    "Mayorga's condition, hardly capped": MayorgaCondition(1e-6, 100.0, 1e9),
    "Mayorga's rank": MayorgaRank(0.01, 0.25),
}
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
SIZES = [(6, 7), (6, 6), (3, 7), (2, 2), (1, 3), (5, 9), (7, 7)]


def spectra(k: int, rng: np.random.Generator) -> list[Array]:
    """Return spectra whose one to three smallest values are small, or whose values are equal."""
    most = np.sort(rng.uniform(0.3, 2, k))[::-1]
    every = [most, np.ones(k), np.geomspace(1, 1e-6, k) if k > 1 else most]
    small = [0.5, 0.31, 0.29, 0.2, 0.1 + 1e-9, 0.02, 1e-3, 7e-4, 1e-4, 1e-6, 1e-9, 1e-13, 0.0]
    for least in small:
        for equal in range(1, min(k, 3) + 1):
            sigma = most.copy()
            sigma[-equal:] = np.minimum(sigma[-equal:], least)
            every.append(sigma)
    return every


def with_spectrum(m: int, n: int, sigma: Array, rng: np.random.Generator) -> Array:
    """Return a random J (m, n), m <= n, with these singular values."""
    U = np.linalg.qr(rng.normal(size=(m, m)))[0]
    V = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (U * sigma) @ V[:, :m].T


def samples(m: int, n: int) -> tuple[Array, Array, Array]:
    """Return J (c, m, n), e (c, m), and the singular values of J (c, m)."""
    rng = np.random.default_rng(10 * m + n)
    sigma = np.array([x for _ in range(nightly(4, 1)) for x in spectra(m, rng)])
    J = np.array([with_spectrum(m, n, each, rng) for each in sigma])
    return J, rng.normal(size=(len(J), m)), sigma


@each_rule
@each("m, n", SIZES)
@pytest.mark.parametrize("isa", _core.isas())
def test_rules_of_extreme_singular_values_agree_with_the_svd(
    rule: object, m: int, n: int, isa: str
) -> None:
    J, e, sigma = samples(m, n)
    lin = Linearization(J, e)
    _core.use_isa(isa)
    try:
        found, exact = DLS(rule), DLS(rule, "svd")  # type: ignore[arg-type]
        dq, expected = found(lin), exact(lin)
        lambda2, damped = found.lambda2(lin), exact.lambda2(lin)
    finally:
        _core.use_isa(_core.isas()[-1])
    off = np.linalg.norm(dq - expected, axis=1)
    off /= np.maximum(np.linalg.norm(expected, axis=1), 1e-300)
    good = sigma[:, -1] > 0.1 * sigma[:, 0]
    # The formula of `Region` subtracts two numbers as large as its largest λ².
    rounding = 1e-15 * rule.lambda2_max if isinstance(rule, Region) else 0.0
    assert (off <= 1e-12 + rounding / sigma[:, -1].clip(1e-12) ** 2)[good].all()
    # Without damping, the SVD itself has an error of this size at σ_min ≈ 0.
    floor = 1e-15 * sigma[:, 0] / np.maximum(np.sqrt(damped) + sigma[:, -1], 1e-12)
    assert (off <= 1e-9 + floor).all()
    size = np.maximum(sigma[:, 0] ** 2, damped)
    assert (np.abs(lambda2 - damped) <= 1e-11 * size + rounding).all()


@each_rule
def test_steps_with_rules_of_extreme_singular_values_do_not_depend_on_other_lanes(
    rule: object,
) -> None:
    """In another order of the rows, the steps have the same bits."""
    J, e, _ = samples(6, 7)
    step = DLS(rule)  # type: ignore[arg-type]
    order = np.random.default_rng(1).permutation(len(J))
    there = step(Linearization(J[order], e[order]))
    np.testing.assert_array_equal(there, step(Linearization(J, e))[order])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-100, 1e-18, 1e-6, 1e6, 1e15, 1e100])
def test_steps_with_rules_of_extreme_singular_values_scale_with_the_unit_of_length(
    size: float, dtype: type
) -> None:
    """If J and thresholds are multiplied by a factor, q̇ is divided by it."""
    if dtype is np.float32 and not 1e-20 < size < 1e20:
        return
    J, e, _ = samples(6, 7)
    for rule, other in ((SpeedBound(5.0), SpeedBound(5.0 / size)), (TrackingBound(0.1),) * 2):
        plain = DLS(rule)(Linearization(J, e))
        scaled = DLS(other)(Linearization((J * size).astype(dtype), e.astype(dtype)))
        assert np.isfinite(scaled).all()
        if dtype is np.float64 and rule == SpeedBound(5.0):
            off = np.linalg.norm(scaled * size - plain, axis=1)
            assert (off <= 1e-9 * np.linalg.norm(plain, axis=1)).all()
