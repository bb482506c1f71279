"""Laws of lane arithmetic: every lane is correctly rounded, with NaN and signed zeros as in C."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from harness import FUSED, Lane, same_bits


def hard_numbers(dtype: np.dtype) -> np.ndarray:
    """Return ±0, the smallest and largest subnormal and normal numbers, and one and
    its neighbors.
    """
    info = np.finfo(dtype)
    one = dtype.type(1)
    numbers = [0.0, info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny, info.max]
    numbers += [1, np.nextafter(one, one + one), np.nextafter(one, -one), 3, 1 / info.eps, np.inf]
    return np.array([*numbers, *(-x for x in numbers), np.nan], dtype)


def pairs(dtype: np.dtype, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of hard numbers, and random pairs, whose last pack is not full."""
    hard = hard_numbers(dtype)
    a, b = (x.ravel() for x in np.meshgrid(hard, hard))
    size, exponent = (2, 1002), np.finfo(dtype).maxexp
    some = np.ldexp(rng.uniform(-2, 2, size), rng.integers(-exponent, exponent, size)).astype(dtype)
    return np.concatenate([a, some[0]]), np.concatenate([b, some[1]])


def test_arithmetic_of_lanes_is_correctly_rounded(lane: Lane, rng: np.random.Generator) -> None:
    a, b = pairs(lane.dtype, rng)
    with np.errstate(all="ignore"):
        expected = np.stack([a + b, a - b, a * b, a / b, -a])
    assert same_bits(lane.map("arithmetic", a, b), expected)


def test_square_root_is_correctly_rounded(lane: Lane, rng: np.random.Generator) -> None:
    a, _ = pairs(lane.dtype, rng)
    with np.errstate(all="ignore"):
        assert same_bits(lane.map("root", a)[0], np.sqrt(a))


def test_absolute_value_and_copysign_of_lanes_are_those_of_numpy(
    lane: Lane, rng: np.random.Generator
) -> None:
    a, b = pairs(lane.dtype, rng)
    assert same_bits(lane.map("signs", a, b), np.stack([np.abs(a), np.copysign(a, b)]))


def test_minimum_and_maximum_return_the_second_of_equal_operands_and_of_nan(
    lane: Lane, rng: np.random.Generator
) -> None:
    a, b = pairs(lane.dtype, rng)
    expected = np.stack([np.where(a < b, a, b), np.where(a > b, a, b)])
    assert same_bits(lane.map("extremes", a, b), expected)
    ordered = ~(np.isnan(a) | np.isnan(b) | ((a == 0) & (b == 0)))
    extremes = np.stack([np.minimum(a, b), np.maximum(a, b)])
    assert same_bits(expected[:, ordered], extremes[:, ordered])


def rounded(x: Fraction, dtype: np.dtype) -> np.floating:
    """Return the number of type `dtype` nearest to x; of two equally near ones, the even one."""
    nearest = np.float64(float(x))  # Python rounds the quotient of two integers correctly
    error = x - Fraction(float(nearest))
    # Rounding first to double and then to float is correct only if the last bit of an inexact
    # double is odd.
    if error and dtype != np.float64 and not nearest.view(np.uint64) & 1:
        nearest = np.nextafter(nearest, np.inf if error > 0 else -np.inf)
    return dtype.type(nearest)


def test_fma_rounds_only_once_if_the_instruction_set_has_it(
    lane: Lane, rng: np.random.Generator
) -> None:
    # In a sum that nearly cancels, the rounding of the product would be visible: c is minus the
    # rounded product, or near it.
    a, b, c = rng.uniform(-2, 2, (3, 601)).astype(lane.dtype)
    c[:200] = -(a[:200] * b[:200])
    c[200:400] = np.nextafter(-(a[200:400] * b[200:400]), lane.dtype.type(2))
    once = np.array(
        [
            rounded(Fraction(x) * Fraction(y) + Fraction(z), lane.dtype)
            for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        ]
    )
    twice = a * b + c
    assert not same_bits(once, twice)
    result = lane.map("fused", a, b, c)[0]
    fused = FUSED.get(lane.isa, same_bits(result, once))
    assert same_bits(result, once if fused else twice)


def test_comparisons_with_nan_are_false(lane: Lane, rng: np.random.Generator) -> None:
    a, b = pairs(lane.dtype, rng)
    expected = np.stack([a < b, a <= b, a > b, a >= b, a == b, a != b])
    assert same_bits(lane.map("comparisons", a, b), expected.astype(lane.dtype))


def test_select_returns_all_bits_of_the_selected_operand(
    lane: Lane, rng: np.random.Generator
) -> None:
    a, b = pairs(lane.dtype, rng)
    assert same_bits(lane.map("selection", a, b)[0], np.where(a < 0, a, b))


def test_mask_operations_of_lanes_are_those_of_numpy(lane: Lane) -> None:
    # Patterns of true lanes in a pack: none, each lane alone, all but one, all.
    w = lane.width
    ones = np.eye(w, dtype=bool)
    a = np.concatenate([np.zeros((1, w), bool), ones, ~ones, np.ones((1, w), bool)])
    b = np.roll(a, 1, axis=1)
    x, y = (np.where(mask.ravel(), -1.0, 0.0) for mask in (a, b))
    some = np.repeat(a.any(axis=1), w)
    every = np.repeat(a.all(axis=1), w)
    expected = np.stack([(a & b).ravel(), (a | b).ravel(), ~a.ravel(), some, every])
    assert same_bits(lane.map("masks", x, y), expected.astype(lane.dtype))


def test_is_finite_is_false_exactly_for_infinities_and_nan(lane: Lane) -> None:
    a = hard_numbers(lane.dtype)
    assert same_bits(lane.map("finiteness", a)[0], np.isfinite(a).astype(lane.dtype))


def test_power_of_two_is_the_exponent_of_a_normal_number(
    lane: Lane, rng: np.random.Generator
) -> None:
    a, _ = pairs(lane.dtype, rng)
    a = a[np.isfinite(a)]
    expected = np.ldexp(lane.dtype.type(0.5), np.frexp(a)[1])
    expected[np.abs(a) < np.finfo(lane.dtype).tiny] = 0
    assert same_bits(lane.map("exponent", a)[0], expected)
