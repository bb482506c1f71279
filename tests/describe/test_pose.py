"""Cosine and sine of the file readers are exact at small multiples of 90°; others are Python's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cases import each
from supple.describe._pose import cos_sin
from supple.describe.weld import names_to_weld, welded
from supple.errors import InputError, UnknownNameError


@each("k", range(-8, 9))
def test_cosine_and_sine_of_rounded_right_angles_are_exact(k: int) -> None:
    exact = ((1, 0), (0, 1), (-1, 0), (0, -1))[k % 4]
    for angle in (k * (math.pi / 2), math.radians(90 * k), float(np.deg2rad(90 * k))):
        assert cos_sin(angle) == exact


@each("angle", [0.3, 1.5707963, math.pi / 2 + 1e-14, 5.5 * math.pi, 1e6, 2e15, 1e300])
def test_at_other_angles_cosine_and_sine_equal_pythons(angle: float) -> None:
    assert cos_sin(angle) == (math.cos(angle), math.sin(angle))


@each("k", [9, 12, 636_620, 10**15, 3 * 10**15 + 1])
def test_at_large_multiples_of_90_degrees_cosine_and_sine_equal_pythons(k: int) -> None:
    angle = k * (math.pi / 2)
    assert cos_sin(angle) == (math.cos(angle), math.sin(angle))


def test_errors_about_names_of_joints_to_weld_name_the_argument() -> None:
    with pytest.raises(InputError, match=r"^fixed: expected names of joints, given None"):
        names_to_weld(None, ["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^joints: expected names of joints, given 3"):
        names_to_weld(3, ["a"], what="joints")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match=r"unknown joint .'a'"):
        names_to_weld([["a"]], ["a"])  # type: ignore[list-item]
    assert names_to_weld("ab", ["ab"]) == {"ab"}
    assert welded((), {}) == ()
