"""Laws of the numerical filter and of its running estimate of σ_min.

The estimate of the singular direction (last left singular vector) is û, that of σ_min is σ̂.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from filtering_paper import eq14, repaired, resolution
from harness import LANES, Lane, same_bits
from sizes import a_third, nightly
from spectra import SHAPES, orthonormal, samples
from supple import Linearization
from supple.steps import NumericalFilter, SingularDirection, SingularSubspace, StatefulStep
from supple.steps.estimate import ScaledProblem

Array = np.ndarray
FILTERS = [NumericalFilter(gain, printed) for gain in (0.3, 5.0, 1e4) for printed in (False, True)]
WIDE = [shape for shape in SHAPES if shape[0] <= shape[1]]


def unit(v: Array) -> Array:
    return v / np.linalg.norm(v)


def starts(lin: Linearization) -> list[Array]:
    """Return four initial û: exact, nearly exact, random, and orthogonal to the exact one."""
    exact, some = lin.U[:, -1], unit(np.cos(3 * np.arange(len(lin.e)) + 1))
    across = some - exact * (exact @ some)
    return [exact, unit(exact + 0.01 * some), some, unit(across)]


@each("shape", SHAPES)
@pytest.mark.parametrize("how", FILTERS, ids=str)
def test_the_gain_of_the_numerical_filter_never_exceeds_max_gain(
    how: NumericalFilter, shape: tuple[int, int]
) -> None:
    """For any memory, q̇ is finite and ‖q̇‖ <= max_gain ‖e‖, exactly."""
    for sample in a_third(samples(shape), how, shape):
        lin = sample.linearization
        for u in starts(lin):
            dq, memory = how.step(lin, SingularDirection(u))
            assert np.isfinite(dq).all()
            assert np.linalg.norm(dq) <= how.max_gain * np.linalg.norm(lin.e)
            assert abs(np.linalg.norm(memory.u) - 1) < 1e-14


@each("shape", WIDE)
@pytest.mark.parametrize("how", FILTERS, ids=str)
def test_a_step_of_the_numerical_filter_is_that_of_the_formulas_of_the_paper(
    how: NumericalFilter, shape: tuple[int, int]
) -> None:
    """The tolerance is the effect of rounding errors of J Jᵀ."""
    for sample in a_third(samples(shape), how, shape):
        lin = sample.linearization
        if not lin.J.any():
            continue
        for u in starts(lin):
            dq, memory = how.step(lin, SingularDirection(u))
            there = repaired(lin.J, lin.e, u[:, None], how.max_gain, how.printed)
            off = np.linalg.norm(dq - there.dq) / max(np.linalg.norm(lin.e), 1e-300)
            assert off <= sensitivity(lin, memory, how.max_gain)
            if lin.sigma_min**2 + resolution(lin.J) < 0.5 * lin.sigma[-2] ** 2:
                assert abs(memory.u @ there.U[:, 0]) == pytest.approx(1, abs=1e-6)


def sensitivity(
    lin: Linearization, memory: SingularDirection, gain: float, eps: float = 2.2e-16
) -> float:
    """Return a bound on the change of q̇/‖e‖ that rounding of J Jᵀ can cause."""
    if lin.e.any() and lin.sigma[0] > 0:
        noise = eps * max(lin.J.shape) * lin.sigma[0] ** 2 * 40
        blur = 4 * eps * len(lin.e) * float((lin.sigma**2).sum())
        share = noise / (lin.sigma_min**2 + blur)
        return min(2.0, share * 4 + noise * 1e3) * gain + noise
    return 0.0


@each("shape", WIDE)
def test_the_filter_performs_commands_across_the_singular_direction_exactly(
    shape: tuple[int, int],
) -> None:
    """For e orthogonal to the singular direction, q̇ is the pseudoinverse's, even at σ_min = 0."""
    m, n = shape
    rng = np.random.default_rng(shape)
    U, V = orthonormal(rng, m, m), orthonormal(rng, n, m)
    for least in (0.5, 1e-2, 1e-5, 1e-9, 0.0):
        J = U * np.append(np.linspace(2, 1, m - 1), least) @ V.T
        e = U[:, :-1] @ rng.normal(size=m - 1)
        how = NumericalFilter(3.0)
        exact = V[:, :-1] @ (U[:, :-1].T @ e / np.linspace(2, 1, m - 1))
        np.testing.assert_allclose(how(Linearization(J, e)), exact, atol=1e-6)
        damped = supple.DLS(supple.damping.SpeedBound(3.0))(Linearization(J, e))
        if least < 0.1:  # here, the same damping in all directions loses part of e
            assert np.linalg.norm(J @ damped - e) > 0.005 * np.linalg.norm(e)


@each("shape", SHAPES)
def test_far_from_singularities_the_step_of_the_filter_is_that_of_the_pseudoinverse(
    shape: tuple[int, int],
) -> None:
    for sample in samples(shape):
        lin = sample.linearization
        if lin.sigma_min > 0.05:
            np.testing.assert_allclose(
                NumericalFilter(40.0)(lin),
                supple.steps.Pseudoinverse()(lin),
                rtol=1e-9,
                atol=1e-10 * np.linalg.norm(lin.e),
            )


def test_a_filtered_step_is_continuous_through_a_singularity() -> None:
    """For J = U(t) diag(1, 0.6, t) V(t)ᵀ, halving the steps of t halves the jumps of q̇."""
    rng = np.random.default_rng(5)
    A, B = rng.normal(size=(2, 3, 3))
    jumps = []
    for count in nightly((400, 800, 1600, 3200), (400, 800, 1600)):
        step, last, jump = StatefulStep(NumericalFilter(4.0)), None, 0.0
        for t in np.linspace(-0.4, 0.4, count + 1):
            U, V = (np.linalg.qr(np.eye(3) + 0.3 * t * M)[0] for M in (A, B))
            dq = step(Linearization(U * [1.0, 0.6, t] @ V.T, np.array([0.5, 0.4, 0.3])))
            jump = max(jump, 0.0 if last is None else float(np.linalg.norm(dq - last)))
            last = dq
        jumps.append(jump)
    ratios = np.divide(jumps[1:], jumps[:-1])
    assert (ratios < 0.75).all(), jumps


@pytest.mark.parametrize("shape", [(6, 6), (6, 7), (3, 7)], ids=str)
@pytest.mark.parametrize("least", [0.12, 0.03, 1e-3, 1e-7, 0.0])
def test_with_several_small_singular_values_the_gain_of_the_filter_is_bounded(
    shape: tuple[int, int], least: float
) -> None:
    """The part of q̇ along small σ_i, also equal ones, and all of q̇ are at most max_gain ‖e‖."""
    m, n = shape
    rng = np.random.default_rng((m, n))
    how = NumericalFilter(4.0)  # 1/(2 max_gain) = 0.125
    for small in ([least], [least, least], [least] * 3, [0.1, least], [0.12, 0.05, least]):
        U, V = orthonormal(rng, m, m), orthonormal(rng, n, m)
        sigma = np.append(np.linspace(2, 1, m - len(small)), small)
        J, p = U * sigma @ V.T, len(small)
        for c in (0.0, 1e-9, 1e-3, 0.1, 0.5, 0.9, 1.0):
            part = rng.normal(size=m)
            part[-p:] *= c / np.linalg.norm(part[-p:])
            if m > p:
                part[:-p] *= np.sqrt(1 - c * c) / np.linalg.norm(part[:-p])
            alpha2 = how.gains(sigma[-p:], part[-p:], 0.25)
            speeds = part[-p:] * sigma[-p:] / np.maximum(sigma[-p:] ** 2 + alpha2, 1e-300)
            assert np.linalg.norm(speeds) <= 4.0 * (1 + 1e-12)
            lin = Linearization(J, U @ part)
            assert np.linalg.norm(how(lin)) <= 4.0


@pytest.mark.parametrize("turn", [0.3, 1.1, 2.0])
def test_the_step_does_not_depend_on_the_basis_of_directions_with_equal_singular_values(
    turn: float,
) -> None:
    """The memory of the filter is rotated within the subspace of equal singular values."""
    rng = np.random.default_rng(11)
    U, V = orthonormal(rng, 6, 6), orthonormal(rng, 7, 6)
    c, s = np.cos(turn), np.sin(turn)
    for small in (0.2, 0.05, 1e-3, 0.0):
        lin = Linearization(U * [2, 1.7, 1.5, 1.2, small, small] @ V.T, rng.normal(size=6))
        weak = U[:, [5, 4, 3]]
        turned = np.c_[weak[:, :2] @ [[c, -s], [s, c]], weak[:, 2]]
        steps = [
            NumericalFilter(4.0).step(lin, SingularSubspace(each, np.zeros(3)))[0]
            for each in (weak, turned)
        ]
        np.testing.assert_allclose(steps[0], steps[1], rtol=0, atol=1e-8)


def test_for_a_command_along_u_the_filter_gain_is_that_of_the_paper() -> None:
    """For one small σ and e along û, α² is that of (14), and λ = 0 as in the printed (27)."""
    rng = np.random.default_rng(12)
    U, V = orthonormal(rng, 6, 6), orthonormal(rng, 7, 6)
    for least in (0.3, 0.2, 0.15, 0.1, 0.01, 1e-4):
        lin = Linearization(U * [2, 1.7, 1.5, 1.2, 1, least] @ V.T, U[:, -1])
        found = NumericalFilter(4.0).estimates(lin, SingularSubspace.exact(lin, 3))
        printed = NumericalFilter(4.0, printed=True)
        there = printed.estimates(lin, SingularSubspace.exact(lin, 1))
        assert found.alpha2 == pytest.approx(eq14(least, 4.0), rel=1e-9, abs=1e-13)
        assert there.alpha2 == pytest.approx(eq14(least, 4.0), rel=1e-9, abs=1e-13)
        assert found.sigma == pytest.approx(least, rel=1e-6)
        assert found.lambda2 == pytest.approx(0, abs=1e-12)


def test_the_filtered_gain_near_a_singularity_does_not_depend_on_the_command() -> None:
    """As σ -> 0, c σ/(σ² + α²) -> 4 max_gain² σ for any fraction c > 0 of e along û."""
    how = NumericalFilter(5.0)
    for c in (1.0, 0.3, 1e-2, 1e-4):
        sigma = np.array([1e-3 * c])
        (alpha2,) = how.gains(sigma, np.array([c]), 1 / 5.0)
        gain = c * sigma[0] / (sigma[0] ** 2 + alpha2)
        assert gain == pytest.approx(4 * 25 * sigma[0], rel=1e-3)


@pytest.mark.parametrize("edge", [0.25, 1e-3])
def test_filter_gains_are_continuous_and_zero_away_from_singularities(edge: float) -> None:
    """Gains α² are continuous in σ and in the fraction c of e along û; at c = 0 they are zero."""
    how, c = NumericalFilter(1 / edge), np.linspace(0, 1, 401)
    for ratio in (1.0, 1.5, 10.0):
        sigma = np.array([ratio, 1.0]) * edge
        assert not how.gains(sigma, np.array([0.6, 0.8]), edge).any()
    for sigma in (0.0, 0.1, 0.5, 0.9):
        found = np.array([how.gains(np.array([sigma * edge]), np.array([x]), edge) for x in c])
        assert found[0] == 0
        assert (np.abs(np.diff(found[:, 0])) < 0.01 * edge**2).all()
    small = np.linspace(1.2, 0.0, 2401)
    for x in (0.02, 0.3, 1.0):
        found = np.array([how.gains(np.array([s * edge]), np.array([x]), edge) for s in small])
        assert (np.abs(np.diff(found[:, 0])) < 0.002 * edge**2).all()


# ---- the estimate ------------------------------------------------------------------------------


@each("shape", SHAPES)
@pytest.mark.parametrize("lambda2", [0.0, 1e-6, 0.04])
def test_the_estimate_of_sigma_min_keeps_its_bounds_from_any_start(
    shape: tuple[int, int], lambda2: float
) -> None:
    """σ_min² <= σ̂² <= 2 √k (σ_min² + λ²) - λ², even if û starts orthogonal to the true vector."""
    k = min(shape)
    for sample in samples(shape):
        lin = sample.linearization
        least, blur = lin.sigma_min**2, 8 * k * 2.3e-16 * float((lin.sigma**2).sum())
        for u in starts(lin):
            found = SingularDirection(u).update(lin.J, lambda2)
            most = 2 * np.sqrt(k) * (least + lambda2 + blur) - lambda2
            assert least - blur - 1e-12 * lambda2 <= found.sigma**2 <= most + blur


@pytest.mark.parametrize("alpha2", [0.0, 1e-3, 0.1, 10.0])
def test_the_estimate_of_sigma_min_is_that_of_the_paper(alpha2: float) -> None:
    """û and σ̂ are those of (22) and (27) with the added matrix α² û ûᵀ."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        J, lambda2 = rng.normal(size=(4, 6)), rng.uniform(0.01, 1)
        u = unit(np.linalg.svd(J)[0][:, -1] + 0.1 * rng.normal(size=4))
        A = J @ J.T + alpha2 * np.outer(u, u) + lambda2 * np.eye(4)
        u1 = np.linalg.solve(A, u)
        found = SingularDirection(u).update(J, lambda2, alpha2)
        np.testing.assert_allclose(found.u, unit(u1), atol=1e-12)
        expected = max(0.0, 1 / np.linalg.norm(u1) - lambda2 - alpha2)
        assert found.sigma**2 == pytest.approx(expected, abs=1e-12 * (1 + alpha2))


def test_the_estimate_converges_from_a_vector_orthogonal_to_the_true_one() -> None:
    rng = np.random.default_rng(4)
    U, V = orthonormal(rng, 6, 6), orthonormal(rng, 7, 6)
    for least in (0.3, 1e-3, 0.0):
        J = U * np.array([2, 1.5, 1.2, 1, 0.8, least]) @ V.T
        found = SingularDirection(U[:, 0])
        for _ in range(12):
            found = found.update(J)
        assert abs(found.u @ U[:, -1]) > 1 - 1e-6
        assert found.sigma == pytest.approx(least, abs=1e-6)


def test_zero_jacobians_and_zero_commands_give_zero_speeds() -> None:
    u = unit(np.array([1.0, 2.0, 3.0]))
    for J in (np.zeros((3, 4)), np.zeros((3, 2))):
        dq, memory = NumericalFilter(2.0).step(Linearization(J, np.ones(3)), SingularDirection(u))
        assert not dq.any()
        assert memory.sigma == 0
    J = np.arange(12.0).reshape(3, 4)
    dq, memory = NumericalFilter(2.0).step(Linearization(J, np.zeros(3)), SingularDirection(u))
    assert not dq.any()
    assert memory.sigma < 1e-6  # J has rank two


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_steps_of_the_filter_are_finite_and_bounded_at_any_scale(scale: float, size: float) -> None:
    J, e = np.array([[1.0, 0.5], [0.2, 0.1000001]]), np.array([0.3, 0.7])
    for gain in (1e-3, 1.0, 1e3):
        lin = Linearization(scale * J, min(size, 1e300 / gain) * e)
        dq = NumericalFilter(gain)(lin)
        assert np.isfinite(dq).all()
        assert np.abs(dq).max() <= gain * np.abs(lin.e).max() * 2


def test_a_stateful_step_passes_its_memory_from_step_to_step() -> None:
    rng = np.random.default_rng(6)
    how = NumericalFilter(2.0)
    plain, memory = StatefulStep(how), None
    for _ in range(5):
        lin = Linearization(rng.normal(size=(3, 5)), rng.normal(size=3))
        dq, memory = how.step(lin, how.start(lin) if memory is None else memory)
        np.testing.assert_array_equal(plain(lin), dq)
    assert isinstance(plain.memory, SingularSubspace)
    plain.reset()
    np.testing.assert_array_equal(plain(lin), how(lin))


@pytest.mark.parametrize(
    "make",
    [
        lambda: NumericalFilter(0.0),
        lambda: NumericalFilter(1.0, printed=1),  # type: ignore[arg-type]
        lambda: SingularDirection(np.zeros(3)),
        lambda: SingularDirection(np.ones(3), -1.0),
        lambda: SingularDirection(np.ones(3)).update(np.ones((2, 3))),
        lambda: NumericalFilter(1.0).step(
            Linearization(np.eye(2), np.ones(2)), SingularDirection(np.ones(3))
        ),
        lambda: StatefulStep(supple.steps.Transpose()),  # type: ignore[arg-type]
    ],
)
def test_numerical_filtering_refuses_bad_input(make: object) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        make()  # type: ignore[operator]


# ---- the kernel --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
@each("shape", SHAPES)
@pytest.mark.parametrize("lane", LANES, ids=str)
def test_numerical_filters_on_every_lane_agree_with_python(
    lane: Lane, shape: tuple[int, int], count: int
) -> None:
    chosen = [s for s in samples(shape) if np.abs(s.e).max() < 1e3]
    lins = [
        Linearization(s.J.astype(lane.dtype).astype(float), s.e.astype(lane.dtype).astype(float))
        for s in chosen
    ]
    if count == 1:
        memories = [SingularDirection(starts(lin)[i % 4]).U for i, lin in enumerate(lins)]
    else:
        memories = [subspaces(lin)[i % 3] for i, lin in enumerate(lins)]
    memories = [x.astype(lane.dtype).astype(float) for x in memories]
    U = np.array([x.T for x in memories], lane.dtype)
    J, e = np.array([lin.J for lin in lins]), np.array([lin.e for lin in lins])
    for how in FILTERS:
        if how.printed and count > 1:
            continue
        out = lane.filtered_step(J, e, U, how.max_gain, how.printed)
        dq, _, sigma, found, lambda2 = out
        for x in (dq, out[1], sigma, lambda2):
            assert np.isfinite(x).all()
        bound = np.linalg.norm(e, axis=1) * how.max_gain
        speed = np.linalg.norm(dq.astype(float), axis=1)
        assert (speed <= bound * (1 + 1e-6 * (lane.eps > 1e-9)) + 1e-40).all()
        alone = lane.scalar.filtered_step(J, e, U, how.max_gain, how.printed)
        for ours, lone in zip(out, alone, strict=True):
            assert same_bits(ours, lone)
        if lane.width > 1 or lane.eps > 1e-9:
            continue
        for i, lin in enumerate(lins):
            start = SingularSubspace(memories[i], np.zeros(U.shape[1]))
            here, memory = how.step(lin, start)
            read = how.estimates(lin, start)
            rank_lost = lin.sigma_min <= 1e-6 * max(lin.sigma[0], 1e-300)
            if rank_lost and shape[0] > shape[1]:
                continue  # rounding errors decide the range of J
            if restarts(lin, start):
                continue  # rounding errors decide which directions of equal σ are followed
            off = np.linalg.norm(dq[i] - here)
            most = sensitivity(lin, memory, how.max_gain) * np.linalg.norm(lin.e)
            assert off <= most + 1e-12 * how.max_gain
            assert sigma[i] ** 2 == pytest.approx(
                memory.sigma**2, rel=1e-6, abs=1e-13 * float((lin.sigma**2).sum())
            )
            across = lin.e - memory.U @ (memory.U.T @ lin.e)
            clear = np.linalg.norm(across) > 1e-6 * np.linalg.norm(lin.e)
            if lin.sigma_min > 1e-3 and clear and lin.e.any():
                expected = read.sigma_eff, read.sigma_o, read.alpha2
                np.testing.assert_allclose(found[i], expected, rtol=1e-8, atol=1e-9)
                assert lambda2[i] == pytest.approx(read.lambda2, rel=1e-8, abs=1e-9)


def restarts(lin: Linearization, start: SingularSubspace) -> bool:
    """Return whether a restart would include only some directions of equal singular values."""
    count = start.U.shape[1]
    if count == len(lin.sigma) or lin.sigma[-count - 1] - lin.sigma[-count] > 1e-9 * lin.sigma[0]:
        return False
    return ScaledProblem.prepare(lin.J, start.U).iterate_all() is None


def subspaces(lin: Linearization) -> list[Array]:
    """Return three initial subspaces: exact, off by 1 %, and that of the largest σ."""
    count = min(3, len(lin.sigma))
    exact = SingularSubspace.exact(lin, count).U
    some = np.cos(3 * np.arange(exact.size).reshape(exact.shape) + 1)
    turned = np.linalg.qr(exact + 0.01 * some)[0]
    return [exact, turned, np.linalg.qr(lin.U[:, :count])[0]]


@pytest.mark.parametrize("lane", [lane for lane in LANES if lane.width <= 8], ids=str)
def test_the_least_singular_direction_on_every_lane_agrees_with_python(lane: Lane) -> None:
    rng = np.random.default_rng(7)
    J = rng.normal(size=(33, 6, 7))
    J[::5, 2] = 0
    exact, least = lane.least_direction(J)
    for i in range(33):
        of = SingularDirection.exact(Linearization(J[i], np.zeros(6)))
        assert least[i] == pytest.approx(of.sigma, abs=1e2 * lane.eps)
        assert abs(exact[i] @ of.u) == pytest.approx(1, abs=1e4 * lane.eps)
