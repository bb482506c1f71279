"""Laws that the papers state about inverses, damping and singular values, transcribed in NumPy.

Each law is a sentence or an equation of a paper that no test in another file covers;
`papers/items.toml` lists the tests of all items. W is Wampler 1986, MK Maciejewski & Klein 1988, DW
Deo & Walker 1995, B Buss 2009 and N the note in `papers/`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from rules import EVERY, key
from spectra import orthonormal, samples
from supple import DLS, Linearization, damping
from supple.criteria import RestPosture
from supple.damping.rule import KernelRule
from supple.redundancy import NullSpace
from supple.steps import NumericalFilter, Pseudoinverse, SingularDirection, Transpose, TruncatedSVD

Array = np.ndarray
SHAPES = ((2, 2), (2, 3), (3, 7), (6, 6), (6, 7), (6, 5))
SMALLEST = (1.0, 0.1, 1e-3, 0.0)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def built(rng: np.random.Generator, shape: tuple[int, int], least: float) -> Array:
    """Return a random J (m, n) whose singular values decrease from 2 to `least`."""
    k = min(shape)
    sigma = np.append(np.linspace(2, 1, k - 1), least)
    return orthonormal(rng, shape[0], k) * sigma @ orthonormal(rng, shape[1], k).T


def cases(shape: tuple[int, int]) -> list[Linearization]:
    """Return linearizations at, near and far from a singularity."""
    rng = np.random.default_rng(shape)
    return [Linearization(built(rng, shape, s), rng.normal(size=shape[0])) for s in SMALLEST]


def damped(lin: Linearization, lambda2: float) -> Array:
    """Return q̇ by the damped least squares of supple."""
    return DLS(damping.Constant(lambda2))(lin)


# ---- undamped: W (8), (31)-(32); DW section 2; B (6)-(9) -----------------------------------------


@shapes
def test_with_full_row_rank_the_pseudoinverse_is_the_right_inverse(shape: tuple[int, int]) -> None:
    """J⁺ is Jᵀ(J Jᵀ)⁻¹, which is J⁻¹ for a square J, and J q̇ = e."""
    m, n = shape
    for lin in cases(shape)[:-1]:
        J, e, dq = lin.J, lin.e, Pseudoinverse()(lin)
        if m <= n:
            np.testing.assert_allclose(dq, J.T @ np.linalg.solve(J @ J.T, e), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(J @ dq, e, atol=1e-12)
        if m == n:
            np.testing.assert_allclose(dq, np.linalg.solve(J, e), rtol=1e-9, atol=1e-9)


@shapes
def test_the_pseudoinverse_gives_the_shortest_least_squares_solution(
    shape: tuple[int, int],
) -> None:
    """At any rank, the residual is orthogonal to the range of J, and q̇ to the null space of J."""
    for lin in cases(shape):
        dq = Pseudoinverse()(lin)
        assert np.linalg.norm(lin.J.T @ (lin.J @ dq - lin.e)) <= 1e-12 * (1 + np.linalg.norm(dq))
        null = np.linalg.svd(lin.J)[2][lin.rank :]
        assert np.linalg.norm(null @ dq) <= 1e-12 * (1 + np.linalg.norm(dq))


@shapes
def test_the_normal_equations_always_have_a_solution(shape: tuple[int, int]) -> None:
    """B (8): Jᵀe is in the range of JᵀJ, and the pseudoinverse solves JᵀJ q̇ = Jᵀe."""
    for lin in cases(shape):
        A, z = lin.J.T @ lin.J, lin.J.T @ lin.e
        both = np.linalg.matrix_rank(np.column_stack([A, z]), tol=1e-9)
        assert both == np.linalg.matrix_rank(A, tol=1e-9) == lin.rank
        dq = Pseudoinverse()(lin)
        np.testing.assert_allclose(A @ dq, z, atol=1e-12 * (1 + np.linalg.norm(dq)))


@shapes
def test_the_pseudoinverse_is_bounded_at_a_singularity_but_not_near_it(
    shape: tuple[int, int],
) -> None:
    """With γ = uᵀe, ‖q̇‖ >= |γ|/σ for the smallest σ > 0, but ‖q̇‖ is bounded if σ = 0: J⁺ jumps
    where the rank changes.
    """
    rng = np.random.default_rng(shape)
    k = min(shape)
    U, V = orthonormal(rng, shape[0], k), orthonormal(rng, shape[1], k)
    e = U.sum(axis=1)
    for least in (1e-3, 1e-6, 1e-9):
        sigma = np.append(np.ones(k - 1), least)
        assert np.linalg.norm(Pseudoinverse()(Linearization(U * sigma @ V.T, e))) >= 0.99 / least
    at = Pseudoinverse()(Linearization(U[:, :-1] @ V[:, :-1].T, e))
    np.testing.assert_allclose(at, V[:, :-1].sum(axis=1), atol=1e-12)


def test_truncating_a_singular_value_at_the_threshold_changes_one_component_of_the_step() -> None:
    """W, "Rank-deficient configurations": q̇ jumps by v_r u_rᵀe/σ_r, and ‖J q̇ - e‖ by |u_rᵀe|."""
    rng = np.random.default_rng(1)
    U, V, e = orthonormal(rng, 3, 3), orthonormal(rng, 4, 3), rng.normal(size=3)
    step, found = TruncatedSVD(0.01), []
    for least in (0.01 * (1 + 1e-9), 0.01 * (1 - 1e-9)):
        J = U * [1.0, 0.5, least] @ V.T
        dq = step(Linearization(J, e))
        found.append((dq, np.linalg.norm(J @ dq - e)))
    gamma = U[:, -1] @ e
    np.testing.assert_allclose(found[0][0] - found[1][0], V[:, -1] * gamma / 0.01, atol=1e-6)
    assert found[1][1] - found[0][1] == pytest.approx(abs(gamma), abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_truncated_step_has_the_smallest_residual_in_its_subspace(k: int) -> None:
    """MK (13): no other θ̇ in the span of v_1 to v_k has a smaller residual."""
    rng = np.random.default_rng(12)
    sigma = np.array([2.0, 1.0, 0.5, 0.2])
    U, V, e = orthonormal(rng, 4, 4), orthonormal(rng, 6, 4), rng.normal(size=4)
    J = U * sigma @ V.T
    dq = TruncatedSVD(sigma[k] / sigma[0] * 1.1)(Linearization(J, e))
    np.testing.assert_allclose(V[:, k:].T @ dq, 0, atol=1e-12)
    np.testing.assert_allclose((J @ V[:, :k]).T @ (J @ dq - e), 0, atol=1e-12)


def test_a_short_transpose_step_reduces_the_error() -> None:
    """B, theorem 1: ⟨J Jᵀe, e⟩ = ‖Jᵀe‖² >= 0, so a short step along Jᵀe reduces the error."""
    for shape in SHAPES:
        for lin in cases(shape):
            J, e = lin.J, lin.e
            assert e @ J @ J.T @ e == pytest.approx(np.linalg.norm(J.T @ e) ** 2)
            dq = Transpose()(lin)
            for part in (1e-3, 0.1, 1.0):
                assert np.linalg.norm(e - part * J @ dq) < np.linalg.norm(e)
            alpha = (e @ J @ J.T @ e) / np.linalg.norm(J @ J.T @ e) ** 2
            np.testing.assert_allclose(dq, alpha * J.T @ e, rtol=1e-9)


# ---- damped: W (34)-(41), MK (2)-(12), DW (3)-(4), (30)-(33), B (10)-(14), N ---------------------


@shapes
@pytest.mark.parametrize("lambda2", [1.0, 0.04, 1e-4])
def test_all_forms_of_the_damped_inverse_are_equal(shape: tuple[int, int], lambda2: float) -> None:
    """The forms (JᵀJ + λ²)⁻¹Jᵀ, Jᵀ(J Jᵀ + λ²)⁻¹, [J; λ]⁺[I; 0] and Σ σ/(σ² + λ²) v uᵀ are equal."""
    m, n = shape
    for lin in cases(shape):
        J, e = lin.J, lin.e
        stacked = np.linalg.pinv(np.vstack([J, math.sqrt(lambda2) * np.eye(n)]))[:, :m]
        U, sigma, Vt = np.linalg.svd(J, full_matrices=False)
        for form in (
            np.linalg.solve(J.T @ J + lambda2 * np.eye(n), J.T),
            J.T @ np.linalg.inv(J @ J.T + lambda2 * np.eye(m)),
            stacked,
            Vt.T * (sigma / (sigma**2 + lambda2)) @ U.T,
        ):
            for method in ("auto", "svd", "cholesky", "qr"):
                dq = DLS(damping.Constant(lambda2), method)(lin)
                np.testing.assert_allclose(dq, form @ e, rtol=1e-9, atol=1e-10)


def test_without_damping_only_the_form_with_jjt_exists() -> None:
    """DW, below (3): for a redundant arm, JᵀJ is singular, so (3) exists only if λ > 0, but (4),
    with JJᵀ, also without damping.

    With a tiny λ, (3) multiplies rounding errors by 1/λ²; supple's DLS uses (4), which does not.
    """
    for lin in cases((3, 7))[:-1]:
        J, e = lin.J, lin.e
        assert np.linalg.matrix_rank(J.T @ J) == np.linalg.matrix_rank(J @ J.T) == 3
        exact = J.T @ np.linalg.solve(J @ J.T, e)
        for lambda2 in (0.0, 1e-16):
            for method in ("auto", "cholesky"):
                dq = DLS(damping.Constant(lambda2), method)(lin)
                np.testing.assert_allclose(dq, exact, rtol=1e-6, atol=1e-9)


def test_the_damped_gain_of_a_direction_is_largest_at_sigma_equal_to_lambda() -> None:
    """The gain σ/(σ² + λ²) tends to 1/σ for σ ≫ λ, has its maximum 1/(2λ) at σ = λ, and is 0 at σ =
    0.
    """
    lam = 0.2

    def gain(sigma: float) -> float:
        return float(damped(Linearization([[sigma]], [1.0]), lam**2)[0])

    for sigma in np.geomspace(1e-6, 1e4, 201):
        assert gain(sigma) == pytest.approx(sigma / (sigma**2 + lam**2), rel=1e-12)
        assert gain(sigma) <= (1 + 1e-12) / (2 * lam)
    assert gain(lam) == pytest.approx(1 / (2 * lam), rel=1e-12)
    assert gain(100 * lam) == pytest.approx(1 / (100 * lam), rel=1e-3)
    assert gain(1e-6) == pytest.approx(1e-6 / lam**2, rel=1e-6)
    assert gain(0.0) == 0
    # DW, appendix A, states that the maximum is at σ = λ. Their λ is our λ², so the maximum is in
    # fact at the square root of their λ.
    assert gain(lam) > 2 * gain(lam**2)


@pytest.mark.parametrize("rule", EVERY, ids=key)
def test_no_damped_step_is_longer_than_e_over_two_lambda(rule: KernelRule) -> None:
    """MK (10): ‖q̇‖ ≤ ‖e‖/(2λ) for the λ of every rule, at singularities, near them and far from
    them.
    """
    for sample in (sample for shape in SHAPES for sample in samples(shape)):
        lin = sample.linearization
        lambda2 = rule(lin)
        if lambda2 > 0:
            bound = np.linalg.norm(lin.e) / (2 * math.sqrt(lambda2))
            assert np.linalg.norm(DLS(rule)(lin)) <= bound * (1 + 1e-14), sample.name


@shapes
@pytest.mark.parametrize("lam", [1e-3, 0.2, 3.0])
def test_the_longest_damped_step_is_e_over_two_lambda(shape: tuple[int, int], lam: float) -> None:
    """MK (10) holds with equality at σ = λ, for a single step and in a batch of steps."""
    rng = np.random.default_rng(shape)
    k = min(shape)
    U, V = orthonormal(rng, shape[0], k), orthonormal(rng, shape[1], k)
    J, e = lam * U @ V.T, U @ rng.normal(size=k)
    bound = np.linalg.norm(e) / (2 * lam)
    assert np.linalg.norm(damped(Linearization(J, e), lam**2)) == pytest.approx(bound, rel=1e-12)
    factors = np.geomspace(1e-3, 1e3, 61)[:, None, None]
    many = damped(Linearization(factors * J, np.tile(e, (61, 1))), lam**2)
    lengths = np.linalg.norm(many, axis=1)
    assert lengths.max() == pytest.approx(bound, rel=1e-12)
    assert lengths.argmax() == 30  # the index of σ = λ


@shapes
def test_as_damping_increases_the_speed_falls_and_the_residual_grows(
    shape: tuple[int, int],
) -> None:
    """MK (11), (12); DW (32): ‖q̇‖ and the residual are monotonic functions of λ."""
    for lin in cases(shape):
        U, sigma, _ = np.linalg.svd(lin.J)
        gamma = U.T @ lin.e
        padded = np.append(sigma, np.zeros(len(gamma)))[: len(gamma)]
        speeds, residuals = [], []
        for lambda2 in (1e-6, 1e-3, 0.1, 1.0, 10.0, 1e6):
            dq = damped(lin, lambda2)
            speeds.append(np.linalg.norm(dq))
            residuals.append(np.linalg.norm(lin.J @ dq - lin.e))
            terms = padded * gamma / (padded**2 + lambda2)
            left = lambda2 * gamma / (padded**2 + lambda2)  # equals γ where σ = 0
            assert speeds[-1] == pytest.approx(np.linalg.norm(terms), rel=1e-9)
            assert residuals[-1] == pytest.approx(np.linalg.norm(left), rel=1e-6, abs=1e-9)
        assert (np.diff(speeds) < 0).all()
        assert (np.diff(residuals) > 0).all()
        assert speeds[-1] < 1e-5
        plain = Pseudoinverse()(lin)
        assert speeds[0] < np.linalg.norm(plain)
        assert residuals[0] > np.linalg.norm(lin.J @ plain - lin.e)


def test_the_residual_printed_in_the_appendix_ignores_the_command() -> None:
    """DW, appendix A: the printed residual √Σ[λ/(σ² + λ)]² does not depend on ẋ, but the true
    residual does.
    """
    lin = cases((6, 7))[1]
    printed = np.linalg.norm(0.04 / (lin.sigma**2 + 0.04))
    for size in (0.1, 10.0):
        scaled = Linearization(lin.J, size * lin.e)
        residual = np.linalg.norm(lin.J @ damped(scaled, 0.04) - scaled.e)
        gamma = scaled.gamma
        right = np.linalg.norm(0.04 * gamma / (lin.sigma**2 + 0.04))
        assert residual == pytest.approx(right, rel=1e-9)
        assert not 0.2 < residual / printed < 5


@shapes
def test_no_step_as_short_as_the_damped_one_has_a_smaller_residual(shape: tuple[int, int]) -> None:
    """MK, below (4): of all θ̇ that are not longer, the damped step has the smallest residual."""
    rng = np.random.default_rng(2)
    for lin in cases(shape):
        for lambda2 in (0.01, 1.0):
            best = damped(lin, lambda2)
            residual, length = np.linalg.norm(lin.J @ best - lin.e), np.linalg.norm(best)
            for size in (1.0, 0.1, 1e-3):
                other = best + size * length * rng.normal(size=(50, shape[1]))
                other *= np.minimum(1, length / np.linalg.norm(other, axis=1))[:, None]
                theirs = np.linalg.norm(other @ lin.J.T - lin.e, axis=1)
                assert (theirs >= residual * (1 - 1e-12)).all()


def test_cholesky_amplifies_rounding_by_the_squared_condition_and_qr_does_not() -> None:
    """W, below (48): cond(JᵀJ + α²) = cond([J; α])², so QR of [J; α] is more accurate than
    Cholesky.
    """
    rng = np.random.default_rng(3)
    J = orthonormal(rng, 6, 6) * np.append(np.ones(5), 1e-6) @ orthonormal(rng, 6, 6).T
    alpha = 1e-6
    normal = J.T @ J + alpha**2 * np.eye(6)
    stacked = np.vstack([J, alpha * np.eye(6)])
    assert np.linalg.cond(normal) == pytest.approx(np.linalg.cond(stacked) ** 2, rel=1e-2)
    e = rng.normal(size=6)
    U, sigma, Vt = np.linalg.svd(J)
    exact = Vt.T @ (sigma / (sigma**2 + alpha**2) * (U.T @ e))
    lost = {
        method: np.linalg.norm(DLS(damping.Constant(alpha**2), method)(Linearization(J, e)) - exact)
        / np.linalg.norm(exact)
        for method in ("qr", "cholesky")
    }
    assert lost["qr"] < 1e-9
    assert lost["cholesky"] > 100 * lost["qr"]


# ---- choosing the damping: MK section III, DW section 3 ------------------------------------------


def test_manipulability_does_not_measure_the_distance_to_a_singularity() -> None:
    """MK III: the product of the singular values can be constant while σ_min and the condition
    number change.
    """
    for s in (1.0, 1e2, 1e6):
        lin = Linearization(np.diag([s, 1 / s]), np.ones(2))
        assert lin.manipulability == pytest.approx(1.0)
        assert lin.sigma_min == pytest.approx(1 / s)
        assert lin.condition == pytest.approx(s**2)
        unit = Linearization(lin.J / s, np.ones(2))  # with σ₁ = 1, the condition number is 1/σ_min
        assert unit.condition == pytest.approx(1 / unit.sigma_min)


@pytest.mark.parametrize("max_gain", [0.5, 5.0, 50.0])
def test_a_bound_on_the_gain_bounds_the_condition_as_well(max_gain: float) -> None:
    """MK, end of III: σ² + λ² >= 1/(4θ̇max²), hence cond(J Jᵀ + λ²) <= 1 + 4θ̇max²σ₁²."""
    rng = np.random.default_rng(4)
    for least in (2.0, 0.5, 0.1, 1e-2, 1e-4, 0.0):
        J = built(rng, (6, 7), least)
        lambda2 = damping.SpeedBound(max_gain)(Linearization(J, np.ones(6)))
        matrix = J @ J.T + lambda2 * np.eye(6)
        assert np.linalg.cond(matrix) <= (1 + 4 * max_gain**2 * 4) * (1 + 1e-9)


def test_the_rate_rule_does_not_depend_on_the_size_of_the_robot() -> None:
    """DW, method 3: scaling all lengths does not change the ratio w_k/w_(k-1) of manipulabilities,
    on which λ depends.
    """
    rng = np.random.default_rng(5)
    before, J = built(rng, (3, 4), 0.5), built(rng, (3, 4), 0.3)
    rule = damping.ManipulabilityRate(0.01, 0.9, 0.0, 1e-9)
    one, scaled = (
        rule(Linearization(k * J, np.ones(3), Linearization(k * before, np.ones(3))))
        for k in (1.0, 7.0)
    )
    assert one > 0
    assert scaled == pytest.approx(one, rel=1e-12)


def test_rules_that_use_only_the_jacobian_also_damp_harmless_commands() -> None:
    """DW, Fig. 1: for two nearly folded links, such rules also damp a command along the regular
    direction.
    """
    q = np.radians([90.0, 179.0])
    a, b = q[0], q.sum()
    J = np.array([[-np.sin(a) - np.sin(b), -np.sin(b)], [np.cos(a) + np.cos(b), np.cos(b)]])
    U = np.linalg.svd(J)[0]
    hard, harmless = (Linearization(J, 0.1 * u) for u in (U[:, -1], U[:, 0]))
    for rule in (
        damping.Manipulability(0.01, 0.5),
        damping.SpeedBound(5.0),
        damping.Region(0.01, 0.5),
        damping.MayorgaCondition(0.01, 100.0, 0.04),
    ):
        assert rule(hard) == rule(harmless) > 0
    optimal = damping.Optimal(1.0)
    assert optimal(harmless) == 0
    assert optimal(hard) > 0
    assert np.linalg.norm(NumericalFilter(5.0)(harmless)) == pytest.approx(
        np.linalg.norm(np.linalg.pinv(J) @ harmless.e), rel=1e-6
    )


@shapes
def test_the_speed_as_a_function_of_damping_has_the_printed_slope(shape: tuple[int, int]) -> None:
    """DW (10)-(16): φ(λ) = ‖q̇_λ‖ has the printed form and slope, and 1/φ is nearly linear."""
    for lin in cases(shape):
        s, g = lin.sigma, lin.gamma

        def phi(x: float, s: Array = s, g: Array = g) -> float:
            return float(np.sqrt((s**2 * g**2 / (s**2 + x) ** 2).sum()))

        for x in (0.01, 0.3, 2.0):
            assert np.linalg.norm(damped(lin, x)) == pytest.approx(phi(x), rel=1e-9)
            slope = -(s**2 * g**2 / (s**2 + x) ** 3).sum() / phi(x)
            assert (phi(x * 1.00001) - phi(x * 0.99999)) / (2e-5 * x) == pytest.approx(slope, 1e-6)
        # 1/φ is concave and increasing.
        values = np.array([1 / phi(x) for x in np.linspace(0.01, 4, 100)])
        assert (np.diff(values, 2) <= 1e-9).all()
        assert (np.diff(values) > 0).all()
    # With one small σ, 1/φ differs by less than 4 % from its chord between λ = 0, where φ = 100,
    # and the λ at which φ = 2.
    s, g = np.array([1.0, 0.003]), np.array([0.5, 0.3])
    x = np.linspace(0, damping.Optimal(2.0)(Linearization(np.diag(s), g)), 100)
    values = 1 / np.sqrt(((s * g) ** 2 / (s**2 + x[:, None]) ** 2).sum(axis=1))
    chord = values[0] + (values[-1] - values[0]) * x / x[-1]
    assert abs(values - chord).max() < 0.04 * values[-1]


def test_newtons_method_from_a_large_start_may_give_a_negative_lambda() -> None:
    """DW 3.1: an iteration of (17) may give λ < 0, so `Optimal` bounds its iterates and finds the
    root.
    """
    lin = Linearization(np.diag([1.0, 0.01]), [0.5, 0.3])
    s, g, bound, start = lin.sigma, lin.gamma, 2.0, 100.0
    phi = np.sqrt((s**2 * g**2 / (s**2 + start) ** 2).sum())
    slope = -(s**2 * g**2 / (s**2 + start) ** 3).sum() / phi
    assert start - (phi - bound) / slope < 0  # the next iterate by (17)
    root = damping.Optimal(bound).solve(lin)[0]
    assert (
        start - phi / bound * (phi - bound) / slope < root
    )  # by (18), the iterate is not above the root, because 1/φ is concave
    for newton in (False, True):
        rule = damping.Optimal(bound, newton)
        assert rule.solve(lin, start)[0] == pytest.approx(root, rel=1e-9)


# ---- estimates: MK section IV and V --------------------------------------------------------------


@shapes
def test_singular_values_change_no_faster_than_the_jacobian(shape: tuple[int, int]) -> None:
    """MK IV: |σ_i(J + E) - σ_i(J)| <= ‖E‖, so σ of the previous interval is a good estimate."""
    rng = np.random.default_rng(6)
    for lin in cases(shape):
        for size in (1e-6, 1e-3, 0.1):
            E = size * rng.normal(size=shape)
            moved = Linearization(lin.J + E, lin.e)
            most = np.linalg.norm(E, 2) * (1 + 1e-9)
            assert abs(moved.sigma - lin.sigma).max() <= most
            assert abs(moved.sigma_min - lin.sigma_min) <= most
            assert moved.sigma_min == moved.sigma.min()


@pytest.mark.parametrize("lambda2", [0.0, 0.01, 0.3])
def test_iterations_improve_the_estimated_direction_by_the_factor_of_eq_26(lambda2: float) -> None:
    """MK (26): each iteration multiplies the ratio a_m/a_i of components of û by (σ_i² + λ²)/(σ_m²
    + λ²).
    """
    rng = np.random.default_rng(7)
    sigma = np.array([2.0, 1.0, 0.5, 0.2])
    U = orthonormal(rng, 4, 4)
    J = U * sigma @ orthonormal(rng, 6, 4).T
    before = U.T @ SingularDirection(U @ [0.2, 0.3, 0.4, 0.8]).u
    after = U.T @ SingularDirection(U @ before).update(J, lambda2).u
    gained = (after[-1] / after[:-1]) / (before[-1] / before[:-1])
    expected = (sigma[:-1] ** 2 + lambda2) / (sigma[-1] ** 2 + lambda2)
    np.testing.assert_allclose(gained, expected, rtol=1e-9)
    start = SingularDirection.exact(Linearization(J, np.zeros(4)))  # as at the first interval
    assert abs(start.u @ U[:, -1]) == pytest.approx(1)
    assert start.sigma == pytest.approx(0.2)


def test_filtering_adds_damping_in_one_direction_only() -> None:
    """MK (28), (31): for û = u_m, q̇ has components σγ/(σ² + λ²), and λ² + α² instead of λ² in the
    last one.
    """
    rng = np.random.default_rng(8)
    sigma, alpha2, lambda2 = np.array([2.0, 1.0, 0.1]), 0.3, 0.02
    U, V, x = orthonormal(rng, 3, 3), orthonormal(rng, 5, 3), rng.normal(size=3)
    J, u = U * sigma @ V.T, U[:, -1]
    z = np.linalg.solve(J @ J.T + alpha2 * np.outer(u, u) + lambda2 * np.eye(3), x)
    gamma = U.T @ x
    terms = sigma * gamma / (sigma**2 + lambda2 + [0, 0, alpha2])
    np.testing.assert_allclose(V.T @ (J.T @ z), terms, rtol=1e-9)
    # With its own α and λ, the filter reduces only the component of the last direction.
    dq = NumericalFilter(2.0)(Linearization(J, x))
    short = V.T @ dq / (gamma / sigma)
    np.testing.assert_allclose(short[:-1], 1, rtol=1e-9)
    assert short[-1] < 0.5


def test_the_filtered_matrix_is_well_conditioned() -> None:
    """MK V: at a singularity with λ = 0, α² of (14) replaces σ_m² = 0 in J Jᵀ."""
    rng = np.random.default_rng(11)
    sigma, max_gain = np.array([2.0, 1.0, 0.0]), 3.0
    U = orthonormal(rng, 3, 3)
    J, u, alpha2 = U * sigma @ orthonormal(rng, 5, 3).T, U[:, -1], 1 / (4 * max_gain**2)
    condition = np.linalg.cond(J @ J.T + alpha2 * np.outer(u, u))
    assert condition == pytest.approx(4 / alpha2)
    assert np.linalg.cond(J @ J.T) > 1e15
    x = U[:, :2] @ [0.3, 0.4]  # x is orthogonal to û, so that α does not change the motion
    z = np.linalg.solve(J @ J.T + alpha2 * np.outer(u, u), x)
    dq = NumericalFilter(max_gain, printed=True)(Linearization(J, x))
    np.testing.assert_allclose(dq, J.T @ z, atol=1e-9)
    np.testing.assert_allclose(J @ dq, x, atol=1e-9)


# ---- redundancy: W (33), DW (20) -----------------------------------------------------------------


def test_motion_in_the_null_space_along_the_negative_gradient_never_increases_the_criterion() -> (
    None
):
    """W, below (33): -∇Hᵀ(I - J⁺J)∇H <= 0 for any task."""
    rng = np.random.default_rng(9)
    for lin in cases((3, 7)):
        at = Linearization(lin.J, lin.e, q=rng.normal(size=7))
        H = RestPosture(np.zeros(7), np.linspace(0.5, 2, 7))
        added = NullSpace(Pseudoinverse(), H)(at) - Pseudoinverse()(at)
        assert H(at.q) @ added < 0
        assert np.linalg.norm(at.J @ added) < 1e-12


def test_projection_leaves_little_of_a_vector_near_the_row_space_of_j() -> None:
    """DW 4: if v is in the row space of J, (I - J⁺J)v = 0; if v is close to the row space, (I -
    J⁺J)v is small.
    """
    rng = np.random.default_rng(10)
    J = built(rng, (3, 7), 0.5)
    inside, outside = J.T @ rng.normal(size=3), np.linalg.svd(J)[2][-1]
    for t in (0.0, 1e-6, 1e-3):
        v = inside + t * outside
        at = Linearization(J, np.zeros(3), q=np.zeros(7))
        added = NullSpace(Pseudoinverse(), lambda q, v=v: -v)(at)
        assert np.linalg.norm(added) == pytest.approx(t, abs=1e-12)
