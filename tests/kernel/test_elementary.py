"""Laws of sincos, atan2 and unit_angle: accuracy, exact values, and the same bits in every lane.

The oracle is long double, where it is wider than double: it has 113 bits on arm and 64 on x86.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from harness import Lane, same_bits

LONG = np.longdouble
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
# From elementary.hpp: bounds on errors [ulp], and the largest arguments that are reduced in lanes.
SINCOS_ULP = {DOUBLE: 1.6, SINGLE: 2.5}
ATAN2_ULP = 2.1
UNIT_ANGLE_ULP = 2.1  # in units in the last place of π
REACH = {DOUBLE: 200000.0, SINGLE: 3200.0}


def needs_wider_oracle(dtype: np.dtype) -> None:
    if np.finfo(LONG).nmant < np.finfo(dtype).nmant + 8:
        pytest.skip("long double is not wider than double here: no oracle")


def ulp_error(result: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error, in units in the last place of the exact value."""
    info = np.finfo(result.dtype)
    exponent = np.frexp(np.maximum(np.abs(exact), LONG(info.tiny)))[1] - 1
    ulp = np.ldexp(LONG(info.eps), exponent)
    return float(np.max(np.abs(result.astype(LONG) - exact) / ulp))


@cache
def angles(dtype: np.dtype) -> np.ndarray:
    """Return uniform angles up to REACH, angles of all magnitudes, and those nearest to multiples
    of pi/2.
    """
    rng = np.random.default_rng(1)
    reach = REACH[dtype]
    quadrants = np.arange(-int(reach / np.pi * 2), int(reach / np.pi * 2) + 1)
    if len(quadrants) > 20001:
        quadrants = np.concatenate(
            [np.arange(-5000, 5001), rng.choice(quadrants, 10000, replace=False)]
        )
    nearest = (quadrants * (LONG(2) * np.arctan2(LONG(1), LONG(0)) / 2)).astype(dtype)
    small = np.ldexp(rng.uniform(-1, 1, 5000), rng.integers(-np.finfo(dtype).maxexp, 2, 5000))
    parts = [
        rng.uniform(-reach, reach, 10000),
        rng.uniform(-np.pi, np.pi, 10000),
        small,
        nearest,
        np.nextafter(nearest, dtype.type(np.inf)),
        np.nextafter(nearest, dtype.type(-np.inf)),
        [reach, -reach, 0.0, -0.0, np.finfo(dtype).smallest_subnormal],
    ]
    x = np.concatenate([np.asarray(part, dtype) for part in parts])
    return x[np.abs(x) <= reach]


@cache
def circle(dtype: np.dtype) -> np.ndarray:
    x = angles(dtype).astype(LONG)
    return np.stack([np.sin(x), np.cos(x)])


@cache
def vectors(dtype: np.dtype) -> np.ndarray:
    """Return vectors (y, x) of all directions and lengths, some of them on or near axes and
    diagonals.
    """
    rng = np.random.default_rng(2)
    exponent = np.finfo(dtype).maxexp - 2
    angle = rng.uniform(-np.pi, np.pi, 20000)
    round_about = np.stack([np.sin(angle), np.cos(angle)])
    round_about = np.ldexp(round_about, rng.integers(-exponent + 30, exponent, 20000))
    free = np.ldexp(
        rng.uniform(-1, 1, (2, 10000)), rng.integers(-exponent, exponent + 3, (2, 10000))
    )
    eighths = np.arange(-16, 17) * (np.pi / 16)
    step = np.repeat([-2.0, -1.0, 0.0, 1.0, 2.0], len(eighths)) * float(np.finfo(dtype).eps)
    corners = np.tile(eighths, 5) + step
    corners = np.stack([np.sin(corners), np.cos(corners)])
    top = np.finfo(dtype).max * np.array([[1, 1, 0.5, 0.9, -1], [0.5, 1, 1, -1, -0.3]])
    return np.concatenate([round_about, free, corners, top], axis=1).astype(dtype)


def test_the_error_of_sincos_is_within_its_bound(lane: Lane) -> None:
    needs_wider_oracle(lane.dtype)
    s, c = lane.map("circle", angles(lane.dtype))
    assert ulp_error(s, circle(lane.dtype)[0]) <= SINCOS_ULP[lane.dtype]
    assert ulp_error(c, circle(lane.dtype)[1]) <= SINCOS_ULP[lane.dtype]


def test_sine_and_cosine_have_squares_that_add_to_one(lane: Lane) -> None:
    s, c = lane.map("circle", angles(lane.dtype)).astype(LONG)
    # Errors of e in s and c change s^2 + c^2 by at most 2 e (|s| + |c|) <= 2 sqrt(2) e.
    ulp = LONG(lane.eps) / 2
    assert np.max(np.abs(s * s + c * c - 1)) <= 2 * np.sqrt(LONG(2)) * SINCOS_ULP[lane.dtype] * ulp


def test_the_error_of_sincos_at_huge_angles_is_within_its_bound(lane: Lane) -> None:
    needs_wider_oracle(lane.dtype)
    reach = lane.dtype.type(REACH[lane.dtype])
    x = np.array([1e6, -1e9, 1e22, 1e30, np.finfo(lane.dtype).max], lane.dtype)
    if lane.dtype == DOUBLE:
        x = np.append(x, [1e100, 1e300])
    # Arguments within REACH and beyond it alternate, so that packs contain both.
    x = np.ravel([x, np.ones_like(x), np.full_like(x, np.nextafter(reach, 2 * reach)), -x])
    exact = np.sin(x.astype(LONG)), np.cos(x.astype(LONG))
    s, c = lane.map("circle", x)
    assert ulp_error(s, exact[0]) <= SINCOS_ULP[lane.dtype]
    assert ulp_error(c, exact[1]) <= SINCOS_ULP[lane.dtype]


def test_sincos_is_exact_near_zero_and_nan_at_infinity(lane: Lane) -> None:
    tiny = np.finfo(lane.dtype).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny, np.inf, -np.inf, np.nan], lane.dtype)
    s, c = lane.map("circle", x)
    # The sign of a zero is not compared: + 0 makes it positive.
    assert same_bits(s + 0, np.where(np.isfinite(x), x + 0, np.nan).astype(lane.dtype))
    assert same_bits(c, np.where(np.isfinite(x), 1, np.nan).astype(lane.dtype))


def test_the_error_of_atan2_is_within_its_bound(lane: Lane) -> None:
    needs_wider_oracle(lane.dtype)
    y, x = vectors(lane.dtype)
    exact = np.arctan2(y.astype(LONG), x.astype(LONG))
    assert ulp_error(lane.map("angle", y, x)[0], exact) <= ATAN2_ULP


def test_atan2_of_zeros_infinities_and_nan_agrees_with_the_c_library(lane: Lane) -> None:
    values = [0.0, np.finfo(lane.dtype).smallest_subnormal, 1.0, np.finfo(lane.dtype).max, np.inf]
    values = np.array([*values, *(-v for v in values), np.nan], lane.dtype)
    y, x = (v.ravel() for v in np.meshgrid(values, values))
    expected, result = np.arctan2(y, x), lane.map("angle", y, x)[0]
    assert np.array_equal(np.isnan(result), np.isnan(expected))
    assert np.array_equal(np.signbit(result[expected == 0]), np.signbit(expected[expected == 0]))
    number = ~np.isnan(expected)
    # The expected value is rounded as well, so one unit is added to the bound.
    assert ulp_error(result[number], expected[number].astype(LONG)) <= ATAN2_ULP + 1


def test_atan2_of_sine_and_cosine_is_the_angle(lane: Lane, rng: np.random.Generator) -> None:
    x = rng.uniform(-np.pi, np.pi, 1001).astype(lane.dtype)
    s, c = lane.map("circle", x)
    # Errors of sine and cosine are in ulps of 1 or less, errors of atan2 in ulps of 4 or less.
    bound = lane.eps * (np.sqrt(2) * SINCOS_ULP[lane.dtype] / 2 + 2 * ATAN2_ULP)
    assert np.max(np.abs(lane.map("angle", s, c)[0] - x)) <= bound


def test_the_error_of_the_angle_of_a_unit_vector_is_within_its_bound(
    lane: Lane, rng: np.random.Generator
) -> None:
    needs_wider_oracle(lane.dtype)
    octants = np.arange(-8, 9) * (np.pi / 8)
    x = np.concatenate([rng.uniform(-np.pi, np.pi, 20001), octants, 1e-9 * octants])
    c, s = np.cos(x.astype(LONG)).astype(lane.dtype), np.sin(x.astype(LONG)).astype(lane.dtype)
    error = lane.map("angle_of_unit_vector", c, s)[0].astype(LONG) - np.arctan2(
        s.astype(LONG), c.astype(LONG)
    )
    assert np.max(np.abs(error)) <= UNIT_ANGLE_ULP * 2 * lane.eps  # an ulp of π is 2 eps


def test_the_angle_of_a_unit_vector_along_an_axis_is_exact(lane: Lane) -> None:
    c, s = np.array([[1, 0], [1, -0.0], [-1, 0], [-1, -0.0], [0, 1], [0, -1]], lane.dtype).T
    expected = np.arctan2(s, c)
    result = lane.map("angle_of_unit_vector", c, s)[0]
    assert np.array_equal(np.signbit(result), np.signbit(expected))
    assert np.max(np.abs(result - expected)) <= 2 * lane.eps


def test_a_small_error_of_the_length_of_a_unit_vector_changes_its_angle_little(
    lane: Lane, rng: np.random.Generator
) -> None:
    x = rng.uniform(-np.pi, np.pi, 5001)
    c, s = np.cos(x), np.sin(x)
    longer = 1 + 8 * float(lane.eps)
    plain = lane.map("angle_of_unit_vector", c.astype(lane.dtype), s.astype(lane.dtype))[0]
    off = lane.map(
        "angle_of_unit_vector", (longer * c).astype(lane.dtype), (longer * s).astype(lane.dtype)
    )[0]
    # The bound is tan(pi/8) times the relative error of the length, plus the rounding errors of
    # both results.
    assert np.max(np.abs(off - plain)) <= (0.42 * 8 + 4 * UNIT_ANGLE_ULP) * lane.eps


def test_packs_of_any_width_give_the_bits_of_a_single_lane(lane: Lane) -> None:
    beyond = np.array([1e6, np.inf, 0.0, np.nan, -1e9, -0.0, 1.0], lane.dtype)
    x = np.concatenate([angles(lane.dtype), beyond])
    assert same_bits(lane.map("circle", x), lane.scalar.map("circle", x))
    y, x = vectors(lane.dtype)
    assert same_bits(lane.map("angle", y, x), lane.scalar.map("angle", y, x))
    assert same_bits(
        lane.map("angle_of_unit_vector", c := np.cos(x), s := np.sin(x)),
        lane.scalar.map("angle_of_unit_vector", c, s),
    )
