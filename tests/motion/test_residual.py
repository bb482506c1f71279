"""Residual-optimal damping, and the trade-off between speed and error of damped steps."""

from __future__ import annotations

import numpy as np
import pytest

import damping_paper as papers
from batch_steps import in_kernel
from harness import LANES, Lane, same_bits
from spectra import SHAPES, hard_spectra, orthonormal, samples
from supple import DLS, Linearization
from supple.damping import (
    Optimal,
    ResidualOptimal,
    TrackingBound,
    newton_iterates,
    trade_off,
)
from supple.errors import InputError

Array = np.ndarray
EPS = np.finfo(float).eps
ERRORS = (1e-6, 0.01, 0.05, 0.5, 0.999)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
errors = pytest.mark.parametrize("max_error", ERRORS)


def share(lin: Linearization, lambda2: float) -> float:
    """Return the relative error that damping causes, in the range of J."""
    sigma, gamma = lin.sigma[: lin.rank], lin.gamma[: lin.rank]
    lost = gamma / (1 + sigma / lambda2 * sigma) if lambda2 > 0 else np.zeros(1)
    return float(np.linalg.norm(lost) / np.linalg.norm(gamma))


def random(rng: np.random.Generator, m: int, n: int, least: float) -> Linearization:
    sigma = np.append(np.linspace(2, 0.5, m - 1), least)
    J = orthonormal(rng, m, m) * sigma @ orthonormal(rng, n, m).T
    return Linearization(J, rng.normal(size=m))


@errors
@shapes
def test_residual_optimal_damping_reaches_its_error_bound_and_never_exceeds_it(
    shape: tuple[int, int], max_error: float
) -> None:
    rule = ResidualOptimal(max_error)
    for sample in samples(shape):
        lin = sample.linearization
        lambda2 = rule(lin)
        if not np.abs(lin.gamma[: lin.rank]).any():
            assert lambda2 == 0
            continue
        assert max_error * (1 - 256 * EPS) <= share(lin, lambda2) <= max_error, sample.name


@errors
def test_residual_optimal_damping_needs_few_iterations(max_error: float) -> None:
    counts = []
    for k in (1, 2, 6):
        for lin in hard_spectra(k, 1e100, 1e-100, float):
            lambda2, count = ResidualOptimal(max_error).solve(lin)
            counts.append(count)
            if 0 < lambda2 < 1e-300 or not lin.gamma[: lin.rank].any():
                continue
            assert share(lin, lambda2) <= max_error
    assert max(counts) <= 40
    assert np.mean(counts) <= 5


@pytest.mark.parametrize("least", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("max_error", [0.01, 0.3])
def test_residual_optimal_damping_is_the_root_found_by_bisection(
    max_error: float, least: float
) -> None:
    """The root is that of the first term of (12) of Maciejewski & Klein, with sixty digits."""
    rng = np.random.default_rng(1)
    for m, n in ((2, 3), (6, 7)):
        lin = random(rng, m, n, least)
        expected = float(papers.residual_optimal(lin.J, lin.e, max_error))
        found = ResidualOptimal(max_error)(lin)
        assert found == pytest.approx(expected, rel=1e-12 if least > 1e-3 else 1e-9)


@shapes
def test_residual_optimal_damping_is_at_least_that_of_the_rule_tracking_bound(
    shape: tuple[int, int],
) -> None:
    for sample in samples(shape):
        lin = sample.linearization
        if lin.gamma[: lin.rank].any():
            for max_error in (0.01, 0.3):
                least = TrackingBound(max_error)(lin)
                assert ResidualOptimal(max_error)(lin) >= least * (1 - 1e-12)


def test_a_larger_error_bound_gives_more_damping_and_less_speed() -> None:
    rng = np.random.default_rng(2)
    for least in (0.5, 1e-2, 1e-5):
        lin = random(rng, 6, 7, least)
        found = [ResidualOptimal(error)(lin) for error in ERRORS]
        assert (np.diff(found) > 0).all()
        assert (np.diff(trade_off(lin, found).speed) < 0).all()


def test_residual_optimal_damping_is_the_dual_of_optimal_damping() -> None:
    """Given the error of optimal damping as bound, the residual-optimal rule has the same λ²."""
    rng = np.random.default_rng(3)
    for least in (0.5, 1e-2, 1e-4):
        lin = random(rng, 6, 7, least)
        for speed in (0.1, 0.5, 2.0):
            lambda2 = Optimal(speed)(lin)
            if lambda2 > 0:
                again = ResidualOptimal(share(lin, lambda2))(lin)
                assert again == pytest.approx(lambda2, rel=1e-9)


@errors
def test_residual_optimal_damping_finds_the_same_root_from_any_start(max_error: float) -> None:
    rng = np.random.default_rng(4)
    lin = random(rng, 6, 7, 1e-3)
    rule = ResidualOptimal(max_error)
    root, count = rule.solve(lin)
    for start in (1e-12, 1e-3, 1e3, root, root * (1 + 1e-6), root * (1 - 1e-6)):
        found, more = rule.solve(lin, start)
        assert found == pytest.approx(root, rel=1e-12)
        assert more <= count + 2
    assert rule.solve(lin, root)[1] == 0


def test_a_looser_tolerance_takes_fewer_iterations_and_keeps_the_bound() -> None:
    lin = random(np.random.default_rng(5), 6, 7, 1e-3)
    tight, many = ResidualOptimal(0.01).solve(lin)
    loose, few = ResidualOptimal(0.01).solve(lin, tolerance=1e-2)
    assert few <= many
    assert 0.01 * (1 - 1.5e-2) <= share(lin, loose) <= share(lin, tight) <= 0.01


# ---- the kernel --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3), (6, 6), (6, 7), (3, 7), (6, 5)], ids=str)
@errors
def test_the_residual_optimal_step_without_an_svd_agrees_with_python(
    shape: tuple[int, int], max_error: float, isa: str
) -> None:
    step = DLS(ResidualOptimal(max_error))
    for sample in samples(shape):
        lin = sample.linearization
        if not 1e-6 < np.abs(lin.e).max() < 1e3:
            continue
        dq, lambda2 = in_kernel(step, lin.J, lin.e)
        loss = lin.sigma[0] / lin.sigma_min if lin.sigma_min > 0 else np.inf
        if lin.gamma[: lin.rank].any() and loss < 1e12:
            assert share(lin, float(lambda2)) == pytest.approx(max_error, rel=1e-13 * loss + 1e-12)
            np.testing.assert_allclose(
                dq, step(lin), rtol=0, atol=1e-12 * loss * np.linalg.norm(dq) + 1e-15
            )


@pytest.mark.parametrize("lane", LANES, ids=str)
def test_residual_optimal_steps_in_a_pack_have_the_bits_of_single_ones(lane: Lane) -> None:
    rng = np.random.default_rng(6)
    lins = [random(rng, 6, 7, least) for least in (0.4, 1e-2, 1e-3) for _ in range(11)]
    J, e = np.array([x.J for x in lins]), np.array([x.e for x in lins])
    out = lane.residual(J, e, 0.05)
    for ours, lone in zip(out, lane.scalar.residual(J, e, 0.05), strict=True):
        assert same_bits(ours, lone)
    dq, lambda2, holds, _ = out
    assert holds.all()
    if lane.eps < 1e-9:
        expected = [ResidualOptimal()(x) for x in lins]
        np.testing.assert_allclose(lambda2, expected, rtol=1e-9)
    for start in (1e-9, 1e-3, 1.0):
        again = lane.residual(J, e, 0.05, start)
        np.testing.assert_allclose(again[1], lambda2, rtol=1e5 * lane.eps)
        np.testing.assert_allclose(again[0], dq, rtol=0, atol=1e6 * lane.eps)


# ---- the trade-off -----------------------------------------------------------------------------


@shapes
def test_the_trade_off_curve_has_the_speeds_and_errors_of_damped_steps(
    shape: tuple[int, int],
) -> None:
    for sample in samples(shape)[::2]:
        lin = sample.linearization
        curve = trade_off(lin, [1e-4, 0.01, 1.0])
        for lambda2, speed, residual in zip(
            curve.lambda2, curve.speed, curve.residual, strict=True
        ):
            J, e = lin.J, lin.e
            dq = J.T @ np.linalg.solve(J @ J.T + lambda2 * np.eye(len(e)), e)
            size = np.linalg.norm(e)
            assert speed == pytest.approx(np.linalg.norm(dq), rel=1e-9, abs=1e-9 * size)
            there = np.linalg.norm(e - J @ dq)
            assert residual == pytest.approx(there, rel=1e-9, abs=1e-9 * size)


@shapes
def test_on_the_trade_off_curve_the_speed_never_grows_and_the_error_never_falls(
    shape: tuple[int, int],
) -> None:
    """λ grows along the curve. Maciejewski & Klein state this law after (12)."""
    for sample in samples(shape):
        lin = sample.linearization
        curve = trade_off(lin)
        assert (np.diff(curve.speed) <= 0).all()
        assert (np.diff(curve.residual) >= -1e-12 * np.linalg.norm(lin.e)).all()
    curve = trade_off(Linearization(np.diag([1.0, 0.3]), [1.0, 2.0]), [0.0, 1.0])
    assert curve.residual[0] == 0
    assert curve.speed[0] == pytest.approx(np.hypot(1, 2 / 0.3))


def test_no_step_is_both_shorter_and_more_accurate_than_a_step_on_the_trade_off_curve() -> None:
    rng = np.random.default_rng(7)
    lin = random(rng, 3, 4, 0.05)
    curve = trade_off(lin)
    for _ in range(500):
        dq = rng.normal(size=4) * 10 ** rng.uniform(-2, 2)
        longer = curve.speed >= np.linalg.norm(dq)
        if longer.any():
            assert np.linalg.norm(lin.e - lin.J @ dq) >= curve.residual[longer].min() - 1e-12


# ---- Newton's method as printed ----------------------------------------------------------------


def test_newton_iterates_are_those_of_deo_and_walker() -> None:
    """Equations (17) and (18) of Deo & Walker are evaluated with derivatives by differences."""
    lin = random(np.random.default_rng(8), 6, 7, 0.05)
    bound = 0.5
    for reciprocal in (False, True):
        found = newton_iterates(lin, bound, reciprocal=reciprocal, iterations=4, tolerance=0.0)
        x = 0.0
        for given in found.lambda2:
            assert given == pytest.approx(x, rel=1e-5, abs=1e-12)
            x = float(given)
            h = 1e-6 * max(x, 1e-4)
            phi, after = (float(trade_off(lin, [y]).speed[0]) for y in (x, x + h))
            slope = (after - phi) / h
            x = x - (phi / bound if reciprocal else 1.0) * (phi - bound) / slope


def test_from_zero_reciprocal_newton_needs_less_than_half_the_iterations_of_newton() -> None:
    lin = random(np.random.default_rng(9), 6, 7, 1e-4)
    plain, reciprocal = (newton_iterates(lin, 0.5, reciprocal=x) for x in (False, True))
    for found in (plain, reciprocal):
        assert found.converged
        assert found.lambda2[-1] == pytest.approx(Optimal(0.5)(lin), rel=1e-5)
        assert found.speed[-1] == pytest.approx(0.5, rel=1e-6)
    assert len(reciprocal.lambda2) < len(plain.lambda2) / 2


def test_printed_newton_iterates_may_become_negative_from_a_start_beyond_the_root() -> None:
    """From the same start, `Optimal` finds the root."""
    lin = random(np.random.default_rng(10), 6, 7, 1e-2)
    root = Optimal(0.5)(lin)
    found = newton_iterates(lin, 0.5, start=1e4 * root)
    assert (found.lambda2 < 0).any()
    assert Optimal(0.5).solve(lin, 1e4 * root)[0] == pytest.approx(root, rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda lin: trade_off(lin, [-1.0]),
        lambda lin: trade_off(lin, [[1.0]]),
        lambda lin: newton_iterates(lin, 0.0),
        lambda lin: newton_iterates(lin, 1.0, iterations=-1),
        lambda lin: ResidualOptimal(1.0),
        lambda lin: ResidualOptimal(0.1).solve(lin, -1.0),
    ],
)
def test_residual_optimal_damping_refuses_bad_input(call: object) -> None:
    with pytest.raises(InputError, match="given"):
        call(Linearization(np.eye(2), [1.0, 2.0]))  # type: ignore[operator]
