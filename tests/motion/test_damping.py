"""Laws of the damping rules: the papers' formulas, the bounds that each guarantees, and no NaN."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

import damping_paper as papers
from cases import each
from rules import EVERY, NUMBERS, key
from sizes import nightly
from spectra import EPS, SHAPES, hard_spectra, of_spectrum, random_spectra, samples
from supple import DLS, Linearization, _core
from supple.damping import (
    RULES,
    ConditionBound,
    Manipulability,
    ManipulabilityRate,
    MayorgaCondition,
    MayorgaRank,
    Optimal,
    Region,
    ResidualOptimal,
    SpeedBound,
    TrackingBound,
)
from supple.damping.rule import KernelRule

Array = np.ndarray
LESS = [rule for rule in EVERY if not isinstance(rule, Optimal | ResidualOptimal)]
shapes = each("shape", SHAPES)


def test_the_tests_include_every_damping_rule() -> None:
    assert {type(rule) for rule in EVERY} == set(RULES)
    assert {type(rule).__name__ for rule in LESS} == set(papers.FORMULAS)
    assert {rule.kernel.rule for rule in EVERY} == set(_core.Rule)


# ---- the papers --------------------------------------------------------------------------------


@shapes
def test_damping_rules_are_the_formulas_of_the_papers(shape: tuple[int, int]) -> None:
    # The result is between the values of the paper's formula at singular values that differ by
    # rounding errors, up to 1e-12.
    signs = [(0, 0, 0), *itertools.product((-1, 1), repeat=3)]
    for sample in samples(shape)[:: 1 if shape != (12, 25) else 4]:
        exact = papers.measures(sample.J, sample.e, sample.before)
        around = [exact.moved(*three) for three in signs]
        lin = sample.linearization
        for rule in LESS:
            values = [float(papers.lambda2(rule, each)) for each in around]
            low, high = min(values) * (1 - 1e-12), max(values) * (1 + 1e-12)
            assert low <= rule(lin) <= high, (rule, sample.name)


@shapes
def test_damping_rules_have_twelve_digits_away_from_singularities(
    shape: tuple[int, int],
) -> None:
    m, n = shape
    rng = np.random.default_rng((m, n))
    for _ in range(5):
        J, before = rng.standard_normal((2, m, n)) / 2
        e = rng.standard_normal(m)
        exact = papers.measures(J, e, before)
        for rule in LESS:
            expected = float(papers.lambda2(rule, exact))
            # The formula subtracts nearly equal numbers; the error is relative to the larger one.
            scale = max(expected, *rule.kernel.parameters[:1], float(exact.sigma[0]) ** 2)
            assert abs(rule(Linearization(J, e, Linearization(before, e))) - expected) <= (
                1e-12 * scale
            ), rule


@shapes
def test_the_weight_of_a_region_is_the_formula_of_the_paper(shape: tuple[int, int]) -> None:
    m = shape[0]
    d = np.sin(1 + np.arange(m))
    for sample in samples(shape):
        rule = Region(0.04, 0.3, direction=tuple(d), min_weight=0.2)
        exact = papers.measures(sample.J, sample.e, sample.before)
        W = papers.region_weight(exact, rule.size, rule.min_weight, d).astype(float)
        # The slope of sqrt(1 - (σ/ε)²) is infinite at σ = ε.
        slack = np.sqrt(float(exact.blur) / rule.size) if exact.sigma_min > 0.29 else 1e-12
        assert abs(rule.weight(sample.linearization) - W).max() <= slack


# ---- never a NaN -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", EVERY, ids=key)
@pytest.mark.parametrize("k", [1, 2, 6])
def test_every_rule_returns_a_finite_lambda2_that_is_not_negative(rule: KernelRule, k: int) -> None:
    for lin in hard_spectra(k, 1e150, 1e-300, float):
        value = rule(lin)
        assert type(value) is float
        assert 0 <= value < np.inf, (lin.sigma, lin.gamma)


@pytest.mark.parametrize("rule", EVERY, ids=key)
def test_every_rule_returns_a_finite_lambda2_for_a_zero_jacobian(rule: KernelRule) -> None:
    for m, n in SHAPES:
        for e in (np.zeros(m), np.ones(m)):
            assert 0 <= rule(Linearization(np.zeros((m, n)), e)) < np.inf


# ---- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", EVERY, ids=key)
@shapes
def test_no_damped_step_is_longer_than_e_over_two_lambda(
    rule: KernelRule, shape: tuple[int, int]
) -> None:
    for sample in samples(shape):
        lambda2 = rule(sample.linearization)
        if lambda2 > 0:
            bound = np.linalg.norm(sample.e) / (2 * np.sqrt(lambda2))
            assert np.linalg.norm(DLS(rule)(sample.linearization)) <= bound * (1 + 1e-14)


def kernel(rule: KernelRule, sigma: Array, gamma: Array | None = None) -> Array:
    """Return λ² (count,) by the kernel for spectra (count, k), without a previous step."""
    gamma = np.zeros_like(sigma) if gamma is None else gamma
    history = np.stack([(gamma**2).sum(axis=1), *np.tile([[-1.0], [0.0]], len(sigma))], axis=1)
    return _core.lambda2(
        rule.kernel, sigma=sigma, gamma=gamma, history=history, values=sigma.shape[1]
    )


def largest_gain(sigma: Array, lambda2: Array) -> Array:
    """Return the largest gain σ/(σ² + λ²) of each spectrum; the gain of σ = 0 is 0."""
    divisor = sigma**2 + lambda2[:, None]
    return (sigma / np.where(sigma > 0, divisor, 1)).max(axis=1)


@pytest.mark.parametrize("max_gain", [0.1, 5.0, 1e4])
def test_the_rule_speed_bound_bounds_the_gain_for_many_spectra(max_gain: float) -> None:
    rng = np.random.default_rng(14)
    for k in (2, 3, 6, 7):
        sigma, _ = random_spectra(rng, nightly(250_000, 50_000), k)
        lambda2 = kernel(SpeedBound(max_gain), sigma)
        assert (largest_gain(sigma, lambda2) <= max_gain * (1 + 8 * EPS)).all()
        # Where λ² is not zero, it is the least λ² that keeps the bound.
        some = lambda2 > 0
        reached = sigma[:, -1] >= 1 / (2 * max_gain)
        exact = largest_gain(sigma, lambda2)[some & reached]
        assert (exact >= max_gain * (1 - 8 * EPS)).all()
        below = some & ~reached  # the rule only knows σ_min, so its bound is for any other σ
        assert np.allclose(1 / (2 * np.sqrt(lambda2[below])), max_gain, rtol=1e-15, atol=0)


def test_the_speed_bound_as_printed_in_the_papers_does_not_bound_the_gain() -> None:
    # Equations (14) of Maciejewski & Klein and (6) of Deo & Walker have two cases. A small σ_min
    # gives hardly any damping, so the gain of another singular value exceeds the bound.
    sigma, bound = np.array([1.0, 0.1, 1e-4]), 5.0
    exact = papers.measures(np.diag(sigma), sigma, None)
    printed = float(papers.speed_bound_as_printed(exact, Decimal(bound)))
    assert largest_gain(sigma[None], np.array([printed]))[0] > 1.9 * bound
    repaired = SpeedBound(bound)(of_spectrum(sigma, sigma))
    assert largest_gain(sigma[None], np.array([repaired]))[0] <= bound
    # The bound is exceeded in most spectra with a small σ_min and another small singular value.
    rng = np.random.default_rng(6)
    many = np.stack([np.ones(1000), rng.uniform(0.02, 0.18, 1000), np.full(1000, 1e-4)], axis=1)
    least = many[:, -1]
    gains = largest_gain(many, least / bound - least**2)
    assert (gains > bound).mean() > 0.95


@pytest.mark.parametrize("max_condition", [1.5, 100.0, 1e8])
@shapes
def test_the_rule_condition_bound_bounds_the_damped_condition_number(
    shape: tuple[int, int], max_condition: float
) -> None:
    rule = ConditionBound(max_condition)
    for sample in samples(shape):
        if not sample.J.any():
            continue  # J = 0: the condition number is 0/0
        lambda2, n = rule(sample.linearization), shape[1]
        eigenvalues = np.linalg.eigvalsh(sample.J.T @ sample.J + lambda2 * np.eye(n))
        # The smallest eigenvalues have errors of a few eps times the largest.
        few = 8 * n * EPS * max_condition
        assert eigenvalues[-1] <= eigenvalues[0] * max_condition * (1 + few)
        if lambda2 > 0:  # then λ² is the least that keeps the bound
            assert eigenvalues[-1] >= eigenvalues[0] * max_condition * (1 - few)


def test_the_condition_bound_counts_the_zero_singular_values_of_a_redundant_arm() -> None:
    """For fewer rows than joints (m < n), σ_n = 0, as in (17) of Maciejewski & Klein."""
    rule, J = ConditionBound(100.0), np.eye(2, 3)
    one = Linearization(J, np.ones(2))
    batch = DLS(rule).lambda2(Linearization(J[None], np.ones((1, 2))))
    spectrum = {"sigma": np.ones((1, 2)), "gamma": np.ones((1, 2)), "history": np.zeros((1, 3))}
    in_kernel = _core.lambda2(rule.kernel, **spectrum, values=2, redundant=True)
    assert [rule(one), batch.item(), in_kernel.item()] == pytest.approx([1 / 99] * 3, rel=1e-15)
    assert _core.lambda2(rule.kernel, **spectrum, values=2).item() == 0
    assert rule(Linearization(J.T, np.ones(3))) == 0


@pytest.mark.parametrize("max_error", [0.01, 0.05, 0.5])
@shapes
def test_the_rule_tracking_bound_bounds_the_relative_error_and_reaches_its_bound(
    shape: tuple[int, int], max_error: float
) -> None:
    rng = np.random.default_rng(16)
    for sample in samples(shape):
        lin = sample.linearization
        if lin.rank == 0:
            continue
        lambda2, rank = TrackingBound(max_error)(lin), lin.rank
        # The task vectors are in the range of J: random ones, and one along the singular direction.
        U, sigma = lin.U[:, :rank], lin.sigma[:rank]
        for x in (*(U @ rng.standard_normal((rank, 5))).T, U[:, -1]):
            left = U @ (lambda2 / (sigma**2 + lambda2) * (U.T @ x))
            relative = np.linalg.norm(left) / np.linalg.norm(x)
            assert relative <= max_error * (1 + 1e-12)
        assert relative == pytest.approx(max_error, rel=1e-12)


@shapes
def test_the_weight_of_a_region_is_symmetric_and_reduced_along_its_direction(
    shape: tuple[int, int],
) -> None:
    m = shape[0]
    d = np.cos(np.arange(m))
    d /= np.linalg.norm(d)
    for sample in samples(shape):
        lin = sample.linearization
        for direction in (d, 1e-200 * d, 1e200 * d):
            rule = Region(0.04, 0.3, direction=tuple(direction), min_weight=0.2)
            W = rule.weight(lin)
            w = d @ W @ d
            assert (W == W.T).all()
            assert abs(W @ d - w * d).max() <= 1e-15
            values = np.linalg.eigvalsh(W)
            # The weight is 1 in all directions orthogonal to d.
            assert abs(values[1:] - 1).max() <= m * EPS
            assert 0.2 - m * EPS <= values[0] <= 1 + m * EPS
        if lin.sigma_min >= rule.size:
            assert np.array_equal(W, np.eye(m))
        if lin.sigma_min == 0:
            assert w == pytest.approx(0.2, abs=1e-15)
        assert np.array_equal(Region(0.04, 0.3).weight(lin), np.eye(m))


# ---- continuity --------------------------------------------------------------------------------


def jump(rule: KernelRule, steps: int, edge: float) -> float:
    """Return the largest change of λ² in a step, as σ_min grows evenly from 0 to 2 `edge`."""
    lins = [
        of_spectrum(np.array([1.0, 0.8, least]), np.array([0.3, 0.2, 0.5]), 0.0, 0.3, 0.05)
        for least in np.linspace(0, 2 * edge, steps + 1)
    ]
    return float(abs(np.diff([rule(lin) for lin in lins])).max())


@pytest.mark.parametrize(
    ("rule", "edge"),
    [
        (Manipulability(0.04, 0.08), 0.1),
        (SpeedBound(5.0), 0.2),
        (ConditionBound(100.0), 0.1),
        (Region(0.04, 0.1), 0.1),
        (MayorgaCondition(0.01, 100.0, 0.04), 0.1),
        (MayorgaRank(0.01, 0.04), 0.05),
        (Optimal(0.7), 0.5),
        (Optimal(0.7, newton=True), 0.5),
    ],
    ids=key,
)
def test_lambda2_of_the_listed_rules_is_continuous_in_sigma_min(
    rule: KernelRule, edge: float
) -> None:
    coarse, fine = jump(rule, 100, edge), jump(rule, 1600, edge)
    assert coarse > 0
    assert fine <= coarse / 12  # steps are 16 times finer


def test_lambda2_of_manipulability_rate_and_tracking_bound_is_discontinuous() -> None:
    # `ManipulabilityRate` jumps where the ratio of manipulabilities crosses the threshold.
    rate = ManipulabilityRate(1.0, 0.5, 0.0, 0.01)
    assert jump(rate, 1600, 0.3) == pytest.approx(0.5, abs=1e-3)
    # `TrackingBound` uses the next singular value as soon as the smallest is zero.
    tracking = TrackingBound(0.5)
    assert jump(tracking, 1600, 0.3) == pytest.approx(0.8**2, rel=1e-3)


def test_lambda2_of_the_optimal_rule_is_continuous_in_the_task_vector() -> None:
    def jump(steps: int) -> float:
        sigma = np.array([1.0, 0.8, 1e-3])
        sizes = np.linspace(0, 2e-3, steps + 1)
        values = [Optimal(0.5)(of_spectrum(sigma, np.array([s, s, s]) * 300)) for s in sizes]
        return float(abs(np.diff(values)).max())

    assert jump(1600) <= jump(100) / 12


# ---- parameters --------------------------------------------------------------------------------

NO_NUMBERS = (-1, -1e-300, np.nan, np.inf, -np.inf, "1", None, True, False, [1.0], 1j, 10**400)
CASES = [(rule, name) for rule in NUMBERS for name in NUMBERS[rule]]


@pytest.mark.parametrize(("rule", "name"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_invalid_parameters_of_damping_rules_are_refused(rule: type[KernelRule], name: str) -> None:
    from supple.errors import InputError

    good = dict(NUMBERS[rule])
    rule(**good)
    zero_will_do = name.startswith(("lambda2", "floor_lambda2", "gain", "curvature"))
    zero_will_do &= name != "lambda2_0"
    bad = (*NO_NUMBERS, *(() if zero_will_do else (0, 0.0, -0.0)))
    bad += (1, 1.0, 2) if name == "max_error" else ()
    bad += (1, 1.0, 0.5) if name == "max_condition" else ()
    for value in bad:
        with pytest.raises(InputError) as error:
            rule(**{**good, name: value})
        assert str(error.value).startswith(f"{rule.__name__}: {name} must be ")
        assert repr(value)[:60] in str(error.value)
    for value in (np.float32(1.5), np.float64(1.5), 2, np.int64(2)):
        if name != "max_error":
            made = rule(**{**good, name: value})
            assert getattr(made, name) == value
            assert type(getattr(made, name)) is float


def test_invalid_directions_weights_and_switches_of_rules_are_refused() -> None:
    from supple.errors import InputError

    for direction in ("x", ["x", "y"], 1.0, [[1.0]], [0.0, 0.0], [np.nan, 1], [np.inf, 1], [], 1j):
        with pytest.raises(InputError, match="Region: direction must be"):
            Region(1.0, 1.0, direction=direction)  # type: ignore[arg-type]
    for weight in (0, -0.1, 1.1, np.nan, "1", True, None):
        with pytest.raises(InputError, match=r"Region: min_weight must be .*given: "):
            Region(1.0, 1.0, min_weight=weight)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Region: direction must have 6 entries"):
        Region(1.0, 1.0, direction=(1.0, 0.0)).weight(Linearization(np.eye(6), np.ones(6)))
    for newton in ("yes", 1, None):
        with pytest.raises(InputError, match="Optimal: newton must be True or False; given: "):
            Optimal(1.0, newton=newton)  # type: ignore[arg-type]
