"""Laws of the steps, and agreement of the kernel with Python."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import supple
from batch_steps import in_kernel
from cases import each
from sizes import a_third
from supple import _core, damping
from supple.motion.linearization import Linearization
from supple.steps.basic import DLS, Pseudoinverse, Transpose, TruncatedSVD
from supple.steps.clamp import AngleClamp, ErrorClamp
from supple.steps.selective import SDLS
from supple.steps.step import Step

Array = NDArray[np.float64]

RULES = [
    damping.Constant(0.04),
    damping.Constant(0.0),
    damping.Manipulability(0.04, 0.5),
    damping.ManipulabilityRate(0.04, 0.9, 0.01, 0.5),
    damping.ErrorDamped(0.3),
    damping.SpeedBound(3.0),
    damping.TrackingBound(0.1),
    damping.ConditionBound(50.0),
    damping.Region(0.04, 0.3),
    damping.MayorgaCondition(1e-4, 50.0, 0.04),
    damping.MayorgaRank(0.01, 0.04),
    damping.Optimal(0.7),
    damping.Optimal(0.7, newton=True),
    damping.Curvature(0.1),
    damping.ErrorNorm(0.2),
    damping.ResidualOptimal(0.1),
]
UNDAMPED: list[Step] = [
    Transpose(),
    Pseudoinverse(),
    TruncatedSVD(0.1),
    TruncatedSVD(min_sigma=0.05),
    TruncatedSVD(rank=2),
    TruncatedSVD(rank=40),
    SDLS(),
    SDLS(soft=True, max_angle=0.2),
    SDLS(group=2),
    ErrorClamp(Pseudoinverse(), 0.4),
    AngleClamp(ErrorClamp(SDLS(), 0.3, group=2), 0.05),
    # Of a clamp inside a clamp, the outer one acts first on e and last on q̇.
    ErrorClamp(ErrorClamp(Pseudoinverse(), 0.05), 0.5),
    ErrorClamp(ErrorClamp(Pseudoinverse(), 0.3, group=2), 0.4),
    ErrorClamp(AngleClamp(ErrorClamp(AngleClamp(SDLS(), 0.2), 0.3, group=4), 0.1), 0.4, group=1),
]
DAMPED: list[Step] = [
    DLS(rule, method)
    for rule, method in itertools.product(RULES, ("auto", "svd", "cholesky", "qr"))
]
STEPS = [*UNDAMPED, *DAMPED, AngleClamp(ErrorClamp(DLS(RULES[0]), 0.4), 0.1)]
SHAPES = [(1, 1), (2, 2), (2, 3), (3, 2), (6, 5), (6, 6), (6, 7), (3, 7), (12, 25)]


def samples(shape: tuple[int, int], rng: np.random.Generator) -> tuple[Array, Array]:
    """Return Jacobians (B, m, n) with chosen spectra, and task vectors (B, m)."""
    m, n = shape
    k = min(shape)
    spectra = [np.ones(k), np.zeros(k), np.r_[np.ones(k - 1), 0.0]]
    for least in (0.3, 0.1, 1e-2, 1e-3, 1e-6, 1e-9):
        spectra.append(np.geomspace(1.5, least, k) if k > 1 else np.array([least]))
    J, e = [], []
    for sigma in spectra:
        U = np.linalg.qr(rng.normal(size=(m, k)))[0]
        V = np.linalg.qr(rng.normal(size=(n, k)))[0]
        for task in (rng.normal(size=m), U[:, -1], U[:, 0], np.zeros(m)):
            J.append(U * sigma @ V.T)
            e.append(task)
    return np.array(J), np.array(e)


@cache
def problems(shape: tuple[int, int], seed: int) -> list[Linearization]:
    """Return the linearizations of `samples`, decomposed once for all steps."""
    each = zip(*samples(shape, np.random.default_rng(seed)), strict=True)
    return [Linearization(J, e) for J, e in each]


def distinct(J: Array) -> bool:
    """Return whether the nonzero singular values differ, so that singular vectors are unique."""
    sigma = np.linalg.svd(J, compute_uv=False)
    sigma = sigma[sigma > 1e-12 * sigma[0]]
    return bool((sigma[1:] < 0.99 * sigma[:-1]).all())


def amplification(step: Step, J: Array) -> float:
    """Return the factor by which relative rounding errors of J grow in q̇/‖e‖."""
    sigma = np.linalg.svd(J, compute_uv=False)
    sigma = sigma[sigma > 1e-12 * max(sigma[0], 1e-300)]
    if not len(sigma):
        return 1.0
    if isinstance(step, Transpose):  # α divides by ‖J Jᵀe‖², which may be as small as σ⁴
        return float(sigma[0] ** 2 / sigma[-1] ** 3)
    return float(sigma[0] / sigma[-1] ** 2)


@pytest.mark.parametrize("isa", _core.isas())
@each("shape", SHAPES)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_steps_in_the_kernel_agree_with_those_in_python(
    step: Step, shape: tuple[int, int], isa: str
) -> None:
    lins = problems(shape, shape[0] * 100 + shape[1])
    J, e = np.array([lin.J for lin in lins]), np.array([lin.e for lin in lins])
    chosen = _core.isa()
    _core.use_isa(isa)
    try:
        there, lambda2 = in_kernel(step, J, e)
    finally:
        _core.use_isa(chosen)
    assert np.isfinite(there).all()
    assert np.isfinite(lambda2).all()
    for i in a_third(range(len(J)), step, shape):
        unique = not ("SDLS" in str(step) or getattr(step, "rank", None))
        if not unique and not distinct(J[i]):
            continue  # the step depends on the choice of singular vectors
        here = step(lins[i])
        bound = 1e-14 * max(shape) * amplification(step, J[i]) * max(1.0, np.linalg.norm(e[i]))
        np.testing.assert_allclose(there[i], here, rtol=1e-9, atol=max(bound, 1e-12))


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("rule", [*RULES, damping.Constant(1e-30)], ids=str)
def test_a_row_of_j_that_consists_of_rounding_errors_does_not_increase_speeds(
    rule: damping.DampingRule, dtype: type
) -> None:
    """Planar arms, for example, have such rows."""
    rng = np.random.default_rng(13)
    J = rng.normal(size=(40, 3, 4)).astype(dtype)
    e = (rng.normal(size=(40, 3)) * np.geomspace(1e-9, 1, 40)[:, None]).astype(dtype)
    eps = np.finfo(dtype).eps
    J[:, 2] *= eps * 10 ** rng.uniform(-4, 0, (40, 1))
    dq, _ = in_kernel(DLS(rule), J, e)
    size = np.linalg.norm(np.linalg.pinv(J[:, :2].astype(float)) @ e[:, :2, None], axis=(1, 2))
    assert (np.linalg.norm(dq, axis=1) <= size * (1 + 1000 * eps)).all()


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_for_well_conditioned_jacobians_float32_steps_are_close_to_float64(step: Step) -> None:
    rng = np.random.default_rng(1)
    U, V = (
        np.linalg.qr(rng.normal(size=(50, 6, 6)))[0],
        np.linalg.qr(rng.normal(size=(50, 7, 6)))[0],
    )
    J = (U * np.geomspace(2, 0.5, 6) @ V.transpose(0, 2, 1)).astype(np.float32)
    e = rng.normal(size=(50, 6)).astype(np.float32)
    there, lambda2 = in_kernel(step, J, e)
    assert there.dtype == lambda2.dtype == np.float32
    here = in_kernel(step, J.astype(float), e.astype(float))[0]
    np.testing.assert_allclose(there, here, atol=3e-5)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 513, 1200])
def test_a_step_of_a_batch_does_not_depend_on_other_rows(count: int) -> None:
    rng = np.random.default_rng(2)
    J, e = rng.normal(size=(count, 6, 7)), rng.normal(size=(count, 6))
    J[::3, 2] = J[::3, 1]  # every third J is rank-deficient
    step = DLS(damping.Optimal(0.7))
    dq, lambda2 = in_kernel(step, J, e)
    again = [in_kernel(step, J, e, threads=t)[0].tobytes() for t in (1, 2, 3)]
    assert set(again) == {dq.tobytes()}
    for i in range(0, count, 97):
        one = in_kernel(step, J[i], e[i])
        assert one[0].tobytes() == dq[i].tobytes()
        assert one[1] == lambda2[i]


@each("shape", SHAPES)
@pytest.mark.parametrize("step", DAMPED, ids=str)
def test_damped_steps_solve_the_normal_equations(step: DLS, shape: tuple[int, int]) -> None:
    """(JᵀJ + λ² I) q̇ = Jᵀe, up to the backward error of each method."""
    for lin in a_third(problems(shape, 3), step, shape):
        J, e = lin.J, lin.e
        lambda2 = step.rule(lin)
        dq = step(lin)
        # `size` is the norm of J stacked on λ I; Cholesky first solves (J Jᵀ + λ² I) z = e.
        size = np.linalg.norm(J) + np.sqrt(lambda2)
        scale = size * (size * np.linalg.norm(dq) + np.linalg.norm(e))
        if step.method == "cholesky" and lambda2 > 0:
            scale += size**3 * np.linalg.norm(e) / (lin.sigma_min**2 + lambda2)
        off = J.T @ (J @ dq) + lambda2 * dq - J.T @ e
        assert np.linalg.norm(off) <= 4e-15 * max(shape) * scale
        if lambda2 > 0:
            rounding = 1 + 4e-15 * scale / size / max(np.linalg.norm(e), 1e-300)
            assert np.linalg.norm(dq) <= np.linalg.norm(e) / (2 * np.sqrt(lambda2)) * rounding


@each("shape", SHAPES)
def test_the_damped_step_tends_to_that_of_the_pseudoinverse_as_lambda2_tends_to_zero(
    shape: tuple[int, int],
) -> None:
    """‖q̇_λ - q̇_0‖ <= λ²/σ_min² ‖q̇_0‖, where q̇_0 is the step of the pseudoinverse."""
    rng = np.random.default_rng(4)
    J, e = rng.normal(size=shape), rng.normal(size=shape[0])
    lin, exact = Linearization(J, e), np.linalg.pinv(J) @ e
    for lambda2 in 10.0 ** -np.arange(0, 15, 2):
        off = np.linalg.norm(DLS(damping.Constant(lambda2))(lin) - exact)
        bound = lambda2 / lin.sigma_min**2 + 1e-14 * lin.condition
        assert off <= bound * np.linalg.norm(exact)


def test_the_damped_error_keeps_the_bound_of_wamplers_theorem_3() -> None:
    """‖J q̇_α - J q̇_0‖/‖e‖ <= α²/(σ_r² + α²), where q̇_α is damped by α² and r is the rank of J."""
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        for J, e in zip(*samples(shape, rng), strict=True):
            lin = Linearization(J, e)
            if not lin.rank or not e.any():
                continue
            exact = J @ Pseudoinverse()(lin)
            for alpha2 in (1e-6, 1e-3, 0.1, 1.0):
                change = np.linalg.norm(J @ DLS(damping.Constant(alpha2))(lin) - exact)
                bound = alpha2 / (lin.sigma[lin.rank - 1] ** 2 + alpha2)
                rounding = 4e-15 * lin.sigma[0] / lin.sigma[lin.rank - 1]
                assert change / np.linalg.norm(e) <= bound + rounding


def test_the_transpose_step_has_the_length_of_least_error_along_its_direction() -> None:
    rng = np.random.default_rng(6)
    for J, e in zip(*samples((6, 7), rng), strict=True):
        dq = Transpose()(Linearization(J, e))
        best = np.linalg.norm(J @ dq - e)
        for factor in (0.9, 1.1):
            assert np.linalg.norm(J @ (factor * dq) - e) >= best - 1e-12


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("rows", [3, 6, 12])
def test_selective_steps_move_no_joint_by_more_than_max_angle(soft: bool, rows: int) -> None:
    rng = np.random.default_rng(7)
    step = SDLS(max_angle=0.5, soft=soft)
    for J, e in zip(*samples((rows, 7), rng), strict=True):
        assert np.abs(step(Linearization(J, 100 * e))).max() <= 0.5 * (1 + 1e-12)


def test_selective_damping_of_one_end_effector_agrees_with_its_definition() -> None:
    """The part φ_i of the step along each singular direction is clamped separately."""
    rng = np.random.default_rng(8)
    for J, e in zip(*samples((3, 7), rng), strict=True):
        U, sigma, Vt = np.linalg.svd(J, full_matrices=False)
        total = np.zeros(7)
        for u, s, v in zip(U.T, sigma, Vt, strict=True):
            if s <= 1e-14 * sigma[0]:
                continue
            gamma = np.pi / 4 * min(1, 1 / (np.abs(v) @ np.linalg.norm(J, axis=0) / s))
            phi = u @ e / s * v
            total += phi if abs(phi).max() <= gamma else phi * gamma / abs(phi).max()
        if abs(total).max() > np.pi / 4:
            total *= np.pi / 4 / abs(total).max()
        np.testing.assert_allclose(SDLS()(Linearization(J, e)), total, rtol=1e-9, atol=1e-9)


def test_error_clamps_limit_each_end_effector_and_angle_clamps_scale_the_step() -> None:
    rng = np.random.default_rng(9)
    J, e = rng.normal(size=(6, 7)), np.r_[3.0, 4.0, 0.0, 0.03, 0.0, 0.04]
    near = np.r_[0.3, 0.4, 0.0, 0.03, 0.0, 0.04]
    clamped = ErrorClamp(Pseudoinverse(), 0.5)(Linearization(J, e))
    np.testing.assert_allclose(clamped, Pseudoinverse()(Linearization(J, near)), atol=1e-12)
    free = Pseudoinverse()(Linearization(J, e))
    cut = AngleClamp(Pseudoinverse(), 0.1)(Linearization(J, e))
    assert np.abs(cut).max() == pytest.approx(0.1)
    np.testing.assert_allclose(cut / np.linalg.norm(cut), free / np.linalg.norm(free))


def test_a_region_allows_more_error_along_its_direction() -> None:
    """The step minimizes ‖W(J q̇ - e)‖² + λ²‖q̇‖², where W has a smaller weight along d."""
    rng = np.random.default_rng(11)
    U, V = np.linalg.qr(rng.normal(size=(3, 3)))[0], np.linalg.qr(rng.normal(size=(4, 3)))[0]
    lin = Linearization(U * [1.0, 0.5, 0.01] @ V.T, rng.normal(size=3))
    d, lost = np.array([0.6, 0.8, 0.0]), []
    for least in (1.0, 0.5, 0.1):
        rule = damping.Region(0.01, 0.2, tuple(d), least)
        dq, W, lambda2 = DLS(rule)(lin), rule.weight(lin), rule(lin)
        A = lin.J.T @ W @ W @ lin.J + lambda2 * np.eye(4)
        np.testing.assert_allclose(dq, np.linalg.solve(A, lin.J.T @ W @ W @ lin.e), rtol=1e-9)
        np.testing.assert_allclose(in_kernel(DLS(rule), lin.J, lin.e)[0], dq, rtol=1e-9)
        lost.append(abs(d @ (lin.J @ dq - lin.e)) / np.linalg.norm(lin.J @ dq - lin.e))
    assert lost[0] < lost[1] < lost[2]
    with pytest.raises(supple.errors.InputError, match="3 entries"):
        in_kernel(DLS(damping.Region(0.01, 0.2, (1.0, 0.0))), lin.J, lin.e)


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_that_overflows_raises_an_error(step: Step, scale: float) -> None:
    """This holds in Python and in a batch."""
    J, e = samples((3, 4), np.random.default_rng(12))
    for one in a_third(list(zip(scale * J, e, strict=True)), step, scale):
        try:
            assert np.isfinite(step(Linearization(*one))).all()
        except supple.errors.InputError:
            assert scale not in (1e-150, 1e150) or isinstance(step, DLS)
    try:
        dq, lambda2 = in_kernel(step, scale * J, e)
    except supple.errors.InputError:
        return
    assert np.isfinite(dq).all()
    assert np.isfinite(lambda2).all()


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_of_a_batch_linearization_is_that_of_the_kernel(step: Step) -> None:
    rng = np.random.default_rng(14)
    for dtype in (np.float64, np.float32):
        J = rng.normal(size=(4, 3, 3, 4)).astype(dtype)
        e = rng.normal(size=(4, 3, 3)).astype(dtype)
        dq, lambda2 = in_kernel(step, J, e)
        found = step(Linearization(J, e))
        assert found.dtype == dtype
        assert np.array_equal(found, dq)
        if isinstance(step, DLS):
            assert np.array_equal(step.lambda2(Linearization(J, e)), lambda2)
    assert step(Linearization(J[:0], e[:0])).shape == (0, 3, 4)
    bad = Linearization(J, np.where(np.arange(12).reshape(4, 3, 1) == 5, np.nan, e))
    with pytest.raises(supple.errors.InputError, match=r"given: J\[1, 2\] or e\[1, 2\]"):
        step(bad)


def test_lambda2_of_dls_is_that_of_its_rule() -> None:
    rng = np.random.default_rng(15)
    J, e = rng.normal(size=(6, 7)), rng.normal(size=6)
    lin = Linearization(J, e, before=Linearization(2 * J, e))
    for rule in RULES:
        assert DLS(rule).lambda2(lin) == rule(lin)
        assert DLS(rule).lambda2(lin).shape == ()


def test_a_damping_rule_refuses_a_batch_of_linearizations() -> None:
    many = Linearization(np.ones((4, 3, 5)), np.ones((4, 3)))
    for rule in RULES:
        if not isinstance(rule, damping.Constant):
            with pytest.raises(supple.errors.InputError, match=r"batch of the shape \(4,\)"):
                rule(many)


def test_a_number_given_as_a_rule_gets_a_hint_at_constant_damping() -> None:
    with pytest.raises(supple.errors.InputError, match=r"write DLS\(damping\.Constant\(0\.1\)\)"):
        DLS(0.1)  # type: ignore[arg-type]


def test_a_damping_rule_written_by_a_user_acts_like_a_built_in_one() -> None:
    rng = np.random.default_rng(10)
    lin = Linearization(rng.normal(size=(6, 7)), rng.normal(size=6))
    mine = DLS(lambda linearization: 0.1 * float(linearization.sigma_min))
    np.testing.assert_allclose(mine(lin), DLS(damping.Constant(0.1 * lin.sigma_min))(lin))
    with pytest.raises(supple.errors.InputError, match=r"CONTRIBUTING"):
        in_kernel(mine, lin.J, lin.e)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, "much", None])
def test_the_error_about_a_rule_with_an_invalid_result_names_the_rule(wrong: object) -> None:
    lin = Linearization(np.eye(2), np.ones(2))
    with pytest.raises(supple.errors.InputError, match="lambda2"):
        DLS(lambda linearization: wrong)(lin)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "make",
    [
        lambda: DLS(damping.Constant(1.0), "lu"),  # type: ignore[arg-type]
        lambda: DLS(0.1),  # type: ignore[arg-type]
        lambda: TruncatedSVD(1.5),
        lambda: TruncatedSVD(0.1, rank=2),
        lambda: TruncatedSVD(min_sigma=0.0),
        lambda: TruncatedSVD(rank=0),
        lambda: TruncatedSVD(rank=2.0),  # type: ignore[arg-type]
        lambda: SDLS()(Linearization(np.eye(4), np.ones(4))),
        lambda: in_kernel(SDLS(), np.eye(4), np.ones(4)),
        lambda: Linearization(np.eye(2), np.ones(2), effectors=(0,)),
        lambda: Linearization(np.eye(2), np.ones(2), effectors=(0, 2)),
        lambda: SDLS(max_angle=-1.0),
        lambda: SDLS(group=0),
        lambda: ErrorClamp(Transpose(), np.nan),
        lambda: AngleClamp(Transpose(), "1"),  # type: ignore[arg-type]
        lambda: in_kernel(Transpose(), np.ones((2, 3)), np.ones(3)),
        lambda: in_kernel(Transpose(), np.ones((2, 3), complex), np.ones(2)),
        lambda: in_kernel(Transpose(), np.full((4, 2, 3), np.nan), np.ones((4, 2))),
        lambda: in_kernel(Transpose(), np.ones((0, 3)), np.ones(0)),
        lambda: in_kernel(print, np.ones((2, 3)), np.ones(2)),  # type: ignore[arg-type]
    ],
)
def test_steps_refuse_bad_input(make: object) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        make()  # type: ignore[operator]


def test_steps_accept_numpy_scalars() -> None:
    for one in (np.float64(0.5), np.float32(0.5)):
        made = (SDLS(max_angle=one), TruncatedSVD(one), AngleClamp(Transpose(), one))
        for step, name in zip(made, ("max_angle", "threshold", "max_angle"), strict=True):
            assert type(getattr(step, name)) is float
    lin = Linearization(np.eye(2), np.ones(2))
    np.testing.assert_allclose(DLS(lambda linearization: np.float32(1.0))(lin), 0.5)
