"""`Linearization`: laws of its decomposition and of derived quantities, and bad input."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import damping_paper as papers
from spectra import EPS, SHAPES, samples
from supple import Linearization
from supple.errors import InputError
from supple.motion.linearization import stacked

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


# ---- the decomposition -------------------------------------------------------------------------


@shapes
def test_factors_of_a_linearization_multiply_to_j_and_are_orthonormal(
    shape: tuple[int, int],
) -> None:
    m, n = shape
    k = min(shape)
    few = 4 * max(shape) * EPS
    for sample in samples(shape):
        lin = sample.linearization
        assert (lin.U.shape, lin.sigma.shape, lin.V.shape) == ((m, k), (k,), (n, k))
        assert (lin.sigma >= 0).all()
        assert (np.diff(lin.sigma) <= 0).all()
        assert abs(lin.U.T @ lin.U - np.eye(k)).max() <= few
        assert abs(lin.V.T @ lin.V - np.eye(k)).max() <= few
        remainder = lin.U * lin.sigma @ lin.V.T - sample.J
        assert np.linalg.norm(remainder) <= few * np.linalg.norm(sample.J)
        assert abs(lin.gamma - lin.U.T @ sample.e).max() <= few * np.linalg.norm(sample.e)
        assert lin.sigma_min == lin.sigma[-1]


@shapes
def test_measures_of_a_linearization_agree_with_sixty_digit_arithmetic(
    shape: tuple[int, int],
) -> None:
    for sample in samples(shape)[:: 1 if shape != (12, 25) else 4]:
        exact = papers.measures(sample.J, sample.e, sample.before)
        lin = sample.linearization
        assert abs(lin.sigma - exact.sigma.astype(float)).max() <= exact.blur
        assert abs(lin.manipulability - float(exact.w)) <= float(exact.blur_w) * (1 + 1e-9)
        assert lin.change == pytest.approx(float(exact.change), rel=1e-14)
        assert lin.rank == exact.rank
        if exact.sigma_min > 100 * exact.blur:
            relative = float(exact.blur / exact.sigma_min)
            expected = float(exact.sigma[0] / exact.sigma_min)
            assert lin.condition == pytest.approx(expected, rel=2 * relative)


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_at_exact_singularities_the_rank_is_exact_and_the_condition_infinite(lost: int) -> None:
    for scale in (1e-300, 1e-9, 1.0, 1e150):
        J = np.diag(np.append([3.0, 2.0, 1.0][: 3 - lost], np.zeros(lost))) * scale
        lin = Linearization(J, np.ones(3))
        assert lin.rank == 3 - lost
        assert lin.condition == (math.inf if lost else pytest.approx(3, rel=1e-15))
        assert lin.sigma_min == pytest.approx(0 if lost else scale, rel=1e-14)
        assert (lin.manipulability == 0) == (lost > 0 or scale == 1e-300)


def test_manipulability_and_condition_overflow_to_infinity_not_nan() -> None:
    # The product of the three largest singular values overflows; times zero, it would be NaN.
    lin = Linearization(np.diag([1e150, 1e150, 1e150, 0.0]), np.ones(4))
    assert lin.manipulability == 0
    assert lin.condition == math.inf
    assert Linearization(np.diag([1e150] * 4), np.ones(4)).manipulability == math.inf
    assert Linearization(np.diag([1e150, 1e-300]), np.ones(2)).condition == math.inf


def test_the_rank_counts_singular_values_above_a_fraction_of_the_largest() -> None:
    for scale in (1e-100, 1.0, 1e100):
        for ratio, rank in ((1e-13, 2), (1e-14, 2), (1e-15, 1), (0.0, 1)):
            assert Linearization(np.diag([1.0, ratio]) * scale, np.ones(2)).rank == rank
    assert Linearization(np.zeros((3, 4)), np.ones(3)).rank == 0


# ---- before ------------------------------------------------------------------------------------


def test_change_is_the_norm_of_the_difference_from_the_previous_jacobian() -> None:
    J = np.arange(12.0).reshape(3, 4)
    first = Linearization(J, np.ones(3))
    assert first.change == 0
    assert first.before is None
    second = Linearization(J + np.eye(3, 4), np.ones(3), before=first)
    assert second.change == pytest.approx(math.sqrt(3), rel=1e-15)
    assert Linearization(J, np.zeros(3), before=first).change == 0


def test_the_previous_linearization_of_a_linearization_has_no_previous_one() -> None:
    last = None
    for i in range(5):
        last = Linearization(np.eye(2) * (i + 1), np.full(2, i), last)
        if i:
            assert last.before is not None
            assert np.array_equal(last.before.J, np.eye(2) * i)
            assert (last.before.e == i - 1).all()
            assert last.before.before is None
            assert last.before.manipulability == pytest.approx(i**2)


def test_a_new_linearization_does_not_change_the_previous_one() -> None:
    first = Linearization(np.eye(2), np.ones(2))
    second = Linearization(np.eye(2), np.ones(2), first)
    third = Linearization(np.eye(2), np.ones(2), second)
    assert second.before is not None
    assert second.before.before is None
    assert third.before is not second
    assert third.before is not None
    assert third.before.before is None


# ---- several tasks -----------------------------------------------------------------------------


def test_stacked_linearizations_have_the_rows_of_all_parts() -> None:
    rng = np.random.default_rng(2)
    first, second = (
        Linearization(
            rng.standard_normal((m, 7)),
            rng.standard_normal(m),
            Linearization(rng.standard_normal((m, 7)), rng.standard_normal(m)),
            rows=tuple(f"row {i} of {m}" for i in range(m)),
        )
        for m in (3, 2)
    )
    both = stacked([first, second])
    assert np.array_equal(both.J, np.vstack([first.J, second.J]))
    assert np.array_equal(both.e, np.append(first.e, second.e))
    assert both.rows == first.rows + second.rows
    assert both.change == pytest.approx(math.hypot(first.change, second.change))
    assert both.before is not None
    assert (stacked([first]).J == first.J).all()
    # If one part has no `before` or no names of rows, the stack has none, either.
    new = Linearization(second.J, second.e)
    assert stacked([first, new]).before is None
    assert stacked([first, new]).rows == ()
    assert stacked((first, new, second)).J.shape == (7, 7)


def test_stacking_no_linearizations_or_different_numbers_of_columns_is_refused() -> None:
    with pytest.raises(InputError, match="at least one linearization is needed; given: none"):
        stacked([])
    wide, narrow = (Linearization(np.ones((2, n)), np.ones(2)) for n in (7, 6))
    with pytest.raises(InputError, match=r"same number of columns; given: \[6, 7\]"):
        stacked([wide, narrow])


# ---- what is given -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("J", "e"),
    [
        (np.ones(3), np.ones(3)),
        (np.ones((3, 4)), np.ones(4)),
        (np.ones((3, 4)), np.ones((3, 1))),
        (np.ones((3, 4)), 1.0),
        (np.ones((1, 3, 4)), np.ones(3)),
        (np.ones((0, 4)), np.ones(0)),
        (np.ones((3, 0)), np.ones(3)),
        ([], []),
    ],
)
def test_errors_about_a_linearization_name_wrong_shapes(J: object, e: object) -> None:
    given = re.escape(f"given: {np.shape(J)} and {np.shape(e)}")
    said = rf"J must be \(\.\.\., m, n\) and e \(\.\.\., m\).*{given}"
    with pytest.raises(InputError, match=said):
        Linearization(J, e)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_linearizations_of_nonfinite_numbers_are_refused(bad: float) -> None:
    J, e = np.ones((3, 4)), np.ones(3)
    J[1, 2] = e[2] = bad
    with pytest.raises(InputError, match=r"^J must be finite; given: "):
        Linearization(J, np.ones(3))
    with pytest.raises(InputError, match=r"^e must be finite; given: "):
        Linearization(np.ones((3, 4)), e)


@pytest.mark.parametrize(
    "bad", ["x", None, [["1", "2"]], [[1, 2], [3]], [[1j, 2]], np.array([[1j]]), [[None]], object()]
)
def test_linearizations_of_arguments_that_are_not_arrays_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match=r"^J must be an array of numbers; given: "):
        Linearization(bad, np.ones(1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^e must be an array of numbers; given: "):
        Linearization(np.ones((1, 2)), bad)  # type: ignore[arg-type]


def test_a_previous_linearization_of_another_shape_is_refused() -> None:
    past = Linearization(np.ones((1, 4)), np.ones(1))
    with pytest.raises(InputError, match=r"before must .*shape \(3, 4\); given: \(1, 4\)"):
        Linearization(np.ones((3, 4)), np.ones(3), past)
    with pytest.raises(InputError, match=r"before must .*given: array"):
        Linearization(np.ones((3, 4)), np.ones(3), np.ones((3, 4)))  # type: ignore[arg-type]


def test_too_few_names_of_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"rows must name 3 rows; given: \('x', 'y'\)"):
        Linearization(np.ones((3, 4)), np.ones(3), rows=("x", "y"))


def test_a_linearization_keeps_its_configuration_and_refuses_one_of_wrong_size() -> None:
    q = np.arange(4.0)
    lin = Linearization(np.ones((3, 4)), np.ones(3), q=q)
    q[0] = 7
    assert lin.q is not None
    assert lin.q.tolist() == [0, 1, 2, 3]
    assert not lin.q.flags.writeable
    unknown = Linearization(np.ones((1, 4)), np.ones(1))
    assert unknown.q is None
    assert stacked([unknown]).q is None
    for parts in ([lin, unknown], [unknown, lin]):
        joined = stacked(parts).q
        assert joined is not None
        assert joined.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"q must have shape \(4,\).*; given: \(3,\)"):
        Linearization(np.ones((3, 4)), np.ones(3), q=np.ones(3))
    with pytest.raises(InputError, match=r"^q must be finite; given: "):
        Linearization(np.ones((1, 2)), np.ones(1), q=np.array([np.nan, 0]))


def test_linearizations_of_lists_integers_and_float32_have_float64_arrays() -> None:
    for J, e in (([[1, 2], [3, 4]], [5, 6]), (np.ones((2, 2), np.float32), np.ones(2, np.int8))):
        lin = Linearization(J, e)  # type: ignore[arg-type]
        assert lin.J.dtype == lin.e.dtype == np.float64


def test_arrays_of_a_linearization_are_read_only_copies() -> None:
    J, e = np.ones((2, 3)), np.ones(2)
    lin = Linearization(J, e)
    J[0, 0] = e[0] = 7
    assert (lin.J == 1).all()
    assert (lin.e == 1).all()
    for array in (lin.J, lin.e, lin.U, lin.sigma, lin.V, lin.gamma):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        lin.J = J  # type: ignore[misc]


# ---- batches -----------------------------------------------------------------------------------


def batch(*lead: int, dtype: type = np.float64) -> Linearization:
    rng = np.random.default_rng(3)
    J, e = rng.normal(size=(*lead, 3, 5)), rng.normal(size=(*lead, 3))
    return Linearization(J.astype(dtype), e.astype(dtype), q=rng.normal(size=(*lead, 5)))


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("known", [False, True])
def test_with_e_gives_the_linearization_with_the_same_j_and_another_e(
    lead: tuple[int, ...], known: bool
) -> None:
    rng = np.random.default_rng(7)
    J, e, other = (rng.normal(size=(*lead, *shape)) for shape in ((6, 7), (6,), (6,)))
    q, names = rng.normal(size=(*lead, 7)), tuple("abcdef")
    lin = Linearization(J, e, rows=names, q=q, effectors=(0, 0, 0, 1, 1, 1))
    if known:
        assert lin.gamma.shape == (*lead, 6)
    made = lin.with_e(other)
    expected = Linearization(J, other, rows=names, q=q, effectors=(0, 0, 0, 1, 1, 1))
    for name in ("J", "e", "q", "U", "sigma", "V", "gamma"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
        assert not getattr(made, name).flags.writeable
    assert (made.rows, made.effectors) == (names, expected.effectors)
    np.testing.assert_array_equal(lin.e, e)
    with pytest.raises(InputError, match="e must have shape"):
        lin.with_e(other[..., :5])
    if not lead:
        with pytest.raises(InputError, match="e must be finite"):
            lin.with_e(other * np.nan)


def test_a_batch_has_the_decompositions_of_its_rows() -> None:
    many = batch(4, 2)
    assert many.batch_shape == (4, 2)
    assert batch().batch_shape == ()
    for i, j in np.ndindex(4, 2):
        one = many[i, j]
        assert one.batch_shape == ()
        assert one.q is not None
        assert many.q is not None
        assert np.array_equal(one.q, many.q[i, j])
        assert one.sigma == pytest.approx(many.sigma[i, j], rel=1e-14)
        assert np.abs(one.gamma) == pytest.approx(np.abs(many.gamma[i, j]), rel=1e-12)
        assert abs(one.U.T @ many.U[i, j]) == pytest.approx(np.eye(3), abs=1e-12)
        assert abs(one.V.T @ many.V[i, j]) == pytest.approx(np.eye(3), abs=1e-12)


def test_a_batch_of_linearizations_can_be_indexed_and_iterated() -> None:
    many = batch(4, 2)
    assert many[1].batch_shape == (2,)
    assert many[..., 0].batch_shape == (4,)
    assert np.array_equal(many[..., 1].J, many.J[:, 1])
    assert np.array_equal(many[many.e[..., 0] > 0].e, many.e[many.e[..., 0] > 0])
    assert [one.batch_shape for one in many] == [(2,)] * 4
    for bad in (4, (0, 0, 0), "x"):
        with pytest.raises(IndexError):
            many[bad]
    with pytest.raises(IndexError):
        batch()[0]


def test_a_batch_of_linearizations_is_not_copied_and_keeps_its_precision() -> None:
    J, e = np.ones((4, 3, 5), np.float32), np.ones((4, 3), np.float32)
    many = Linearization(J, e)
    assert np.shares_memory(many.J, J)
    assert np.shares_memory(many.e, e)
    assert many.J.dtype == many.e.dtype == np.float32
    assert not many.J.flags.writeable
    assert J.flags.writeable
    assert many[0].J.dtype == np.float64
    assert Linearization(J, e.astype(float)).J.dtype == np.float64


@pytest.mark.parametrize(
    "name",
    [
        "sigma_max",
        "sigma_min",
        "rank",
        "manipulability",
        "condition",
        "change",
        "singular_direction",
    ],
)
def test_measures_of_a_batch_of_linearizations_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"given: a batch of the shape \(4,\)"):
        getattr(batch(4), name)


def test_batches_that_do_not_fit_are_refused() -> None:
    J, e = np.ones((4, 3, 5)), np.ones((4, 3))
    with pytest.raises(InputError, match="before must be None for a batch"):
        Linearization(J, e, before=Linearization(J, e))
    with pytest.raises(InputError, match=r"q must have shape \(4, 5\)"):
        Linearization(J, e, q=np.ones(5))
    with pytest.raises(InputError, match="J must be finite"):
        _ = Linearization(np.full_like(J, np.nan), e).sigma
