"""Steps that use redundancy: equations of the papers, leakage, bounds, continuity.

Equation numbers are those of Deo & Walker. ∇h is the gradient of the criterion.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sizes import a_third, nightly
from spectra import SHAPES, orthonormal, random_spectra, samples
from supple import DLS, Linearization, damping
from supple.criteria import RestPosture
from supple.errors import InputError
from supple.redundancy import (
    GradientProjection,
    NullSpace,
    TotalSpeed,
    WeightedCriterion,
    null_space_leakage,
)
from supple.redundancy.secondary import added
from supple.steps import SDLS, ErrorClamp, Pseudoinverse, Transpose
from supple.steps.step import Step

Array = np.ndarray
EPS = np.finfo(float).eps
LAMBDA2 = (1.0, 0.04, 1e-3)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def posture(n: int) -> RestPosture:
    return RestPosture(np.sin(np.arange(n) + 0.5), np.linspace(0.5, 2, n))


@cache
def cases(shape: tuple[int, int]) -> list[Linearization]:
    """Return the linearizations of the samples, each with a random q."""
    rng = np.random.default_rng(shape)
    return [replace(x.linearization, q=rng.uniform(-2, 2, shape[1])) for x in samples(shape)]


def pulled(lin: Linearization, gain: float) -> Array:
    """Return v = -gain ∇h for the criterion `posture`."""
    return -gain * posture(len(lin.q))(lin.q)


def damped_inverse(J: Array, lambda2: float) -> Array:
    """Return J* of equation (4)."""
    return J.T @ np.linalg.inv(J @ J.T + lambda2 * np.eye(len(J)))


def close(found: Array, expected: Array, lin: Linearization, lambda2: float, more: float) -> None:
    """Check equality up to the accuracy of the oracle, which inverts J Jᵀ + λ² I."""
    size = np.linalg.norm(lin.J, 2) ** 2 / lambda2
    scale = (np.linalg.norm(lin.e) / math.sqrt(lambda2) + more) * (1 + size)
    np.testing.assert_allclose(found, expected, rtol=0, atol=8 * EPS * len(expected) * scale)


def leak_of(step: Step, lin: Linearization) -> float:
    """Return the norm of the task velocity that the criterion causes."""
    return float(np.linalg.norm(lin.J @ added(step, lin)))


# ---- the papers' equations -----------------------------------------------------------------------


@shapes
def test_the_null_space_step_is_equation_20_and_does_not_move_the_task(
    shape: tuple[int, int],
) -> None:
    n = shape[1]
    for lin in cases(shape):
        v = pulled(lin, 3.0)
        step = NullSpace(Pseudoinverse(), posture(n), 3.0)
        free = step(lin) - Pseudoinverse()(lin)
        slack = 64 * EPS * (np.linalg.norm(v) + np.linalg.norm(Pseudoinverse()(lin)))
        assert np.linalg.norm(lin.J @ free) <= slack * np.linalg.norm(lin.J)
        assert leak_of(step, lin) <= slack * np.linalg.norm(lin.J)
        # The added motion is the point of the null space that is closest to v.
        full = np.linalg.svd(lin.J)[2][lin.rank :]
        np.testing.assert_allclose(free, full.T @ (full @ v), atol=max(slack, 1e-9 * EPS))


@shapes
@pytest.mark.parametrize("lambda2", LAMBDA2)
def test_gradient_projection_is_equations_23_and_24(shape: tuple[int, int], lambda2: float) -> None:
    n = shape[1]
    for lin in cases(shape):
        J, e, v = lin.J, lin.e, pulled(lin, 0.7)
        inverse = damped_inverse(J, lambda2)
        free = (np.eye(n) - inverse @ J) @ v
        rule = damping.Constant(lambda2)
        plain = GradientProjection(rule, posture(n), 0.7)
        close(plain(lin), inverse @ e + free, lin, lambda2, np.linalg.norm(v))
        for alpha1 in (math.sqrt(lambda2), 0.5 * math.sqrt(lambda2)):
            weighted = replace(plain, alpha1=alpha1)
            expected = inverse @ e + alpha1**2 / lambda2 * free
            close(weighted(lin), expected, lin, lambda2, np.linalg.norm(v))
            # The result is also that of (22) with A = I and α1² + α2² = λ (the λ of the paper).
            left = J.T @ J + lambda2 * np.eye(n)
            expected = np.linalg.solve(left, J.T @ e + alpha1**2 * v)
            close(weighted(lin), expected, lin, lambda2, np.linalg.norm(v))
        # If λ² of the rule is less than α1², the step uses α1², so that the weight λ² - α1² of ‖q̇‖²
        # is not negative.
        more = replace(plain, alpha1=2 * math.sqrt(lambda2))
        again = GradientProjection(damping.Constant(4 * lambda2), posture(n), 0.7)
        close(more(lin), again(lin), lin, lambda2, np.linalg.norm(v))


@shapes
def test_undamped_gradient_projection_is_the_null_space_step(shape: tuple[int, int]) -> None:
    for lin in cases(shape):
        plain = GradientProjection(damping.Constant(0.0), posture(shape[1]))(lin)
        exact = NullSpace(Pseudoinverse(), posture(shape[1]))(lin)
        np.testing.assert_allclose(plain, exact, rtol=1e-12, atol=1e-12 * np.abs(exact).max())


@shapes
def test_the_weighted_criterion_step_minimizes_equation_38(shape: tuple[int, int]) -> None:
    """Equation (39) minimizes (38) if α1 is squared; (39) as printed does not."""
    n = shape[1]
    rng = np.random.default_rng(1)
    root = rng.normal(size=(n, n))
    for A in (None, root @ root.T + np.eye(n)):
        for lin in cases(shape):
            J, e, v = lin.J, lin.e, pulled(lin, 1.0)
            a1, a2 = 0.3, 0.2
            full = np.eye(n) if A is None else A
            dq = WeightedCriterion(a1, a2, posture(n), A=A)(lin)
            left = J.T @ J + a1**2 * np.eye(n) + a2**2 * full
            close(dq, np.linalg.solve(left, J.T @ e + a1**2 * v), lin, a1**2, np.linalg.norm(v))

            def cost(x: Array, lin: Linearization = lin, v: Array = v, A: Array = full) -> float:
                task, pull = lin.J @ x - lin.e, x - v
                return float(task @ task + 0.3**2 * pull @ pull + 0.2**2 * x @ A @ x)

            printed = np.linalg.solve(left, J.T @ e + a1 * v)
            if np.linalg.norm(e) < 100:  # for larger e, rounding errors exceed the difference
                assert cost(dq) < cost(printed)
            if A is None:
                same = GradientProjection(damping.Constant(a1**2 + a2**2), posture(n), 1.0, a1)
                close(dq, same(lin), lin, a1**2, np.linalg.norm(v))


@shapes
@pytest.mark.parametrize("lambda2", LAMBDA2)
def test_leakage_of_damped_projection_is_the_task_velocity_that_the_criterion_causes(
    shape: tuple[int, int], lambda2: float
) -> None:
    n = shape[1]
    for lin in cases(shape):
        J, v = lin.J, pulled(lin, 0.7)
        felt = float(np.linalg.norm(J @ (np.eye(n) - damped_inverse(J, lambda2) @ J) @ v))
        scale = np.linalg.norm(J) * (np.linalg.norm(v) + np.linalg.norm(lin.e) / lambda2**0.5)
        room = 1e-12 * scale * (1 + np.linalg.norm(J) ** 2 / lambda2)
        rule = damping.Constant(lambda2)
        assert leak_of(GradientProjection(rule, posture(n), 0.7), lin) == pytest.approx(
            felt, abs=room
        )
        step = GradientProjection(rule, posture(n), 0.7)
        motion = added(step, lin)
        share = null_space_leakage(lin, motion) * np.linalg.norm(motion)
        assert share == pytest.approx(felt, abs=room)
        # The leak is at most λ/2 per unit of v.
        assert felt <= 0.5 * math.sqrt(lambda2) * np.linalg.norm(v) + room
        half = math.sqrt(lambda2 / 2)
        for step in (
            GradientProjection(rule, posture(n), 0.7, half),
            WeightedCriterion(half, half, posture(n), 0.7),
        ):
            assert leak_of(step, lin) == pytest.approx(felt / 2, abs=room)


# ---- the total speed -----------------------------------------------------------------------------


def corrected(lin: Linearization, gradient: Array, kappa: float, lambda2: float) -> Array:
    """Return (25) with λ² for λ: J*ẋ - (κ/λ²)(I - J*J) ∇h, where κ = α1² k is the factor of ∇h."""
    inverse = damped_inverse(lin.J, lambda2)
    free = np.eye(len(gradient)) - inverse @ lin.J
    return inverse @ lin.e - kappa / lambda2 * free @ gradient


def root(lin: Linearization, gradient: Array, kappa: float, bound: float, low: float) -> float:
    """Return the smallest λ² >= `low` with ‖(25)‖ <= bound, by bisection."""
    high = np.linalg.norm(lin.J.T @ lin.e - kappa * gradient) / bound + low
    if np.linalg.norm(corrected(lin, gradient, kappa, low)) <= bound:
        return low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if np.linalg.norm(corrected(lin, gradient, kappa, middle)) > bound:
            low = middle
        else:
            high = middle
    return high


@shapes
def test_the_norm_of_equation_27_holds_with_corrected_signs(shape: tuple[int, int]) -> None:
    """(27) with corrected signs, and λ² for λ: ‖q̇‖² = Σ (σγ - κβ)²/(σ² + λ²)² + Σ κ²β²/λ⁴.

    Here γ = Uᵀe, β = Vᵀ∇h, κ is the factor of ∇h, and the second sum is over the null space.
    """
    m, n = shape
    rng = np.random.default_rng(2)
    U, V = orthonormal(rng, m, m), orthonormal(rng, n, n)
    sigma = np.linspace(1, 0.1, min(m, n))
    D = np.zeros(shape)
    np.fill_diagonal(D, sigma)
    lin = Linearization(U @ D @ V.T, rng.normal(size=m))
    gradient, kappa, lambda2 = rng.normal(size=n), 0.3, 0.05
    padded = np.append(sigma, np.zeros(n - len(sigma)))
    gamma = np.append(U.T @ lin.e, np.zeros(n))[:n]
    terms = (padded * gamma - kappa * V.T @ gradient) / (padded**2 + lambda2)
    dq = corrected(lin, gradient, kappa, lambda2)
    assert np.linalg.norm(terms) == pytest.approx(np.linalg.norm(dq), rel=1e-10)
    # `TotalSpeed` finds the λ² at which this norm is the bound, and takes this step.
    dq = corrected(lin, gradient, kappa, 0.5)
    bound = float(np.linalg.norm(dq))
    step = TotalSpeed(bound, lambda q: gradient, 1.0, math.sqrt(kappa))
    found, root, _ = step.solve(replace(lin, q=np.zeros(n)))
    assert root == pytest.approx(0.5, rel=1e-9)
    np.testing.assert_allclose(found, dq, atol=1e-9 * bound)


@shapes
@pytest.mark.parametrize("alpha1", [0.1, 0.5])
@pytest.mark.parametrize("bound", [0.3, 2.0])
def test_total_speed_uses_the_least_damping_that_keeps_its_bound(
    shape: tuple[int, int], bound: float, alpha1: float
) -> None:
    n = shape[1]
    for lin in a_third(cases(shape), bound, alpha1, shape):
        step = TotalSpeed(bound, posture(n), 1.5, alpha1)
        gradient, kappa = posture(n)(lin.q), 1.5 * alpha1**2
        dq, lambda2, _ = step.solve(lin)
        assert np.linalg.norm(dq) <= bound
        expected = root(lin, gradient, kappa, bound, alpha1**2)
        assert lambda2 == pytest.approx(expected, rel=1e-9)
        close(dq, corrected(lin, gradient, kappa, lambda2), lin, lambda2, 1.0)
        if lambda2 > alpha1**2 * (1 + 1e-6):
            assert np.linalg.norm(dq) >= bound * (1 - 1e-12)


@shapes
@pytest.mark.parametrize("bound", [0.3, 2.0, 1e3])
def test_total_speed_with_the_switch_takes_equation_20_within_the_bound_and_else_25(
    shape: tuple[int, int], bound: float
) -> None:
    """λ in (25) is the root at which (27), with corrected signs, equals the bound."""
    n = shape[1]
    switched = 0
    for lin in cases(shape):
        gradient = posture(n)(lin.q)
        dq, lambda2, _ = TotalSpeed(bound, posture(n), 1.5, 0.4, switch=True).solve(lin)
        exact = NullSpace(Pseudoinverse(), posture(n), 1.5)(lin)
        assert np.linalg.norm(dq) <= bound
        if np.linalg.norm(exact) <= bound * (1 - 1e-12):
            assert lambda2 == 0
            np.testing.assert_allclose(dq, exact, atol=1e-12 * bound)
        elif np.linalg.norm(exact) > bound:
            switched += 1
            kappa = 1.5 * 0.4**2
            expected = root(lin, gradient, kappa, bound, min(lambda2, 1.0) / 16)
            if lambda2 > 1e-3:  # for smaller λ², the inverse of the oracle is inaccurate
                assert lambda2 == pytest.approx(expected, rel=1e-9)
                close(dq, corrected(lin, gradient, kappa, lambda2), lin, lambda2, 1.0)
    assert switched


@pytest.mark.parametrize("switch", [False, True])
def test_total_speed_never_exceeds_its_bound(switch: bool) -> None:
    """J, e and ∇h are random over many decades; some J are singular, some arrays zero."""
    rng, count = np.random.default_rng(6), nightly(200, 70)
    for k, n in ((2, 2), (2, 3), (6, 7), (3, 7), (6, 6)):
        sigma, gamma = random_spectra(rng, count, k)
        for i in range(count):
            U, V = orthonormal(rng, k, k), orthonormal(rng, n, k)
            J = U * sigma[i] @ V.T * (i % 20 != 0)
            e = U @ gamma[i] * (i % 13 != 0)
            gradient = rng.normal(size=n) * 10 ** rng.uniform(-6, 6) * (i % 11 != 0)
            bound, alpha1 = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-4, 1)
            step = TotalSpeed(bound, lambda q, g=gradient: g, 1.0, alpha1, switch)
            dq = step(Linearization(J, e, q=np.zeros(n)))
            assert np.isfinite(dq).all()
            assert np.linalg.norm(dq) <= bound
            if not e.any() and not gradient.any():
                assert not dq.any()


def path(t: float) -> Linearization:
    """Return J and e at time t; J is singular at t = 0, where the step is at its bound."""
    J = np.array([[1.0, 0.2, 0.1, 0.0], [0.0, t, t * 0.5, 0.3 * t], [0.3, 0.1, 1.0, 0.0]])
    e = np.array([0.4, 0.3, -0.2 + t])
    return Linearization(J, e, q=np.array([0.3, -1.0, 0.5, 1.0]))


def largest_jump(step: Step, count: int) -> float:
    dq = np.array([step(path(t)) for t in np.linspace(-0.5, 0.5, count)])
    return float(np.linalg.norm(np.diff(dq, axis=0), axis=1).max())


def test_total_speed_is_continuous_only_without_the_switch() -> None:
    smooth, count = TotalSpeed(1.0, posture(4), 0.1, 0.1), nightly(500, 200)
    assert largest_jump(smooth, 4 * count + 1) < 0.3 * largest_jump(smooth, count + 1)
    jumping = replace(smooth, switch=True)
    assert largest_jump(jumping, 4 * count + 1) > 0.9 * largest_jump(jumping, count + 1)


def test_total_speed_tends_to_the_null_space_step_as_alpha1_tends_to_zero() -> None:
    lin = replace(cases((3, 7))[0], e=np.array([0.1, 0.2, -0.1]))
    exact = NullSpace(Pseudoinverse(), posture(7), 0.1)(lin)
    for alpha1 in (1e-2, 1e-3, 1e-4):
        off = np.linalg.norm(TotalSpeed(10.0, posture(7), 0.1, alpha1)(lin) - exact)
        assert off <= 2 * (alpha1 / lin.sigma_min) ** 2


# ---- every step ----------------------------------------------------------------------------------

INNER: list[Step] = [
    Transpose(),
    Pseudoinverse(),
    SDLS(),
    DLS(damping.Constant(0.04), "qr"),
    ErrorClamp(DLS(damping.Optimal(0.5)), 0.3),
]


@shapes
def test_redundancy_steps_are_finite_for_every_spectrum(shape: tuple[int, int]) -> None:
    h = posture(shape[1])
    rules = [damping.Constant(0.0), damping.SpeedBound(3.0), damping.Optimal(0.5)]
    steps: list[Step] = [NullSpace(step, h) for step in INNER]
    steps += [GradientProjection(rule, h, 1.0, alpha1) for rule in rules for alpha1 in (None, 0.1)]
    steps += [WeightedCriterion(0.1, 0.0, h), WeightedCriterion(0.0, 0.1, h)]
    steps += [TotalSpeed(1.0, h), TotalSpeed(1.0, h, switch=True)]
    for lin in cases(shape):
        for step in steps:
            dq = step(lin)
            assert dq.shape == (shape[1],)
            assert np.isfinite(dq).all(), (step, lin.sigma)


def test_any_function_of_q_may_be_a_criterion() -> None:
    lin = Linearization([[1.0, 0.0]], [2.0], q=[0.0, 0.0])
    assert NullSpace(Pseudoinverse(), lambda q: [5, -1], 2.0)(lin).tolist() == [2.0, 2.0]


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: NullSpace(3, posture(2)), "step"),  # type: ignore[arg-type]
        (lambda: NullSpace(Pseudoinverse(), 3), "criterion"),  # type: ignore[arg-type]
        (lambda: NullSpace(Pseudoinverse(), posture(2), -1.0), "gain"),
        (lambda: NullSpace(Pseudoinverse(), posture(2), math.nan), "gain"),
        (lambda: GradientProjection(1.0, posture(2)), "rule"),  # type: ignore[arg-type]
        (lambda: GradientProjection(damping.Constant(1.0), posture(2), 1.0, 0.0), "alpha1"),
        (lambda: GradientProjection(damping.Region(1.0, 1.0, (1, 0)), posture(2)), "direction"),
        (lambda: WeightedCriterion(0.0, 0.0, posture(2)), "above 0"),
        (lambda: WeightedCriterion(1.0, 1.0, posture(2), A=[[1, 2], [2, 1]]), "positive definite"),  # type: ignore[arg-type]
        (
            lambda: WeightedCriterion(1.0, 1.0, posture(2), A=np.eye(3)).kernel,
            "with A runs only in Python",
        ),
        (lambda: TotalSpeed(0.0, posture(2)), "max_speed"),
        (lambda: TotalSpeed(1.0, posture(2), switch=1), "switch"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_of_redundancy_steps_are_refused(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("criterion", "q", "says"),
    [
        (posture(2), None, "contain q"),
        (posture(3), [0.0, 0.0], r"\(3,\)"),
        (lambda q: [1.0], [0.0, 0.0], r"gradient of shape \(2,\)"),
        (lambda q: [np.nan, 1.0], [0.0, 0.0], "finite"),
        (lambda q: "up", [0.0, 0.0], "numbers"),
    ],
)
def test_bad_criteria_are_refused(criterion: object, q: object, says: str) -> None:
    lin = Linearization([[1.0, 0.0]], [2.0], q=q)  # type: ignore[arg-type]
    for step in (NullSpace(Pseudoinverse(), criterion), TotalSpeed(1.0, criterion)):  # type: ignore[arg-type]
        with pytest.raises(InputError, match=says):
            step(lin)


def test_the_matrix_of_a_weighted_criterion_must_fit_the_joints() -> None:
    lin = Linearization([[1.0, 0.0]], [2.0], q=[0.0, 0.0])
    with pytest.raises(InputError, match=r"\(2, 2\)"):
        WeightedCriterion(1.0, 1.0, posture(2), A=np.eye(3))(lin)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-150, 1e100, 1e140])
def test_redundancy_steps_are_finite_at_every_scale(scale: float) -> None:
    """This includes scales at which squares of singular values underflow or overflow."""
    rng = np.random.default_rng(8)
    J, e, q = scale * rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=5)
    lin = Linearization(J, e, q=q)
    for step in (
        NullSpace(Pseudoinverse(), posture(5)),
        GradientProjection(damping.Constant(0.0), posture(5)),
        GradientProjection(damping.Constant(0.04), posture(5), 1.0, 0.1),
        TotalSpeed(0.5, posture(5)),
        TotalSpeed(0.5, posture(5), switch=True),
    ):
        dq = step(lin)
        assert np.isfinite(dq).all()
        if isinstance(step, TotalSpeed):
            assert np.linalg.norm(dq) <= 0.5
    exact = np.linalg.solve(J / scale @ J.T / scale, e) @ J / scale / scale
    np.testing.assert_allclose(Pseudoinverse()(lin), exact, rtol=1e-12)
