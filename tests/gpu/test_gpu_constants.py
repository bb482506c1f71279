"""Constants of a robot, of any magnitude, reach the compiler of the GPU exactly or rounded to
floats.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import supple
from supple.errors import MissingExtraError
from supple.gpu.runtime import compile_source
from supple.gpu.source import source
from supple.ik.problem import compile_problem

# Numbers below, in and above the range of floats, including subnormal floats and doubles.
SIZES = (5e-324, 1e-300, 2.6e-68, 1e-45, 1e-40, 1.17549435e-38, 0.1, 3.4e38, 1e39)


def sliders() -> supple.Robot:
    """Return a chain of prismatic joints with limits -x and 1 + x [m], one joint for each x in
    SIZES.
    """
    names = [f"l{i}" for i in range(len(SIZES) + 1)]
    text = "".join(f'<link name="{name}"/>' for name in names)
    for i, x in enumerate(SIZES):
        text += (
            f'<joint name="j{i}" type="prismatic"><parent link="l{i}"/><child link="l{i + 1}"/>'
            f'<origin xyz="0 0 {min(x, 1)!r}"/><limit lower="{-x!r}" upper="{1 + x!r}"/></joint>'
        )
    return supple.urdf(f'<robot name="sliders">{text}</robot>')


def as_float(x: float) -> float:
    """Return the float nearest to a finite number; beyond the range of floats, ±2¹²⁷."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(x))
    return rounded if np.isfinite(rounded) else float(np.copysign(2.0**127, x))


def test_every_constant_in_the_cuda_source_is_correctly_rounded() -> None:
    robot = sliders()
    claims = []
    for name in ("lower", "upper"):
        for i, x in enumerate(getattr(robot, name).tolist()):
            if np.isinf(x):  # limits beyond 1e12 are infinite in the kernel
                sign = "-" if x < 0 else ""
                for T in ("double", "float"):
                    huge = f"{sign}Number<{T}>::huge"
                    claims.append(f"static_assert(RobotConstants<{T}>::{name}[{i}] == {huge});")
                continue
            claims.append(f"static_assert(RobotConstants<double>::{name}[{i}] == {x.hex()});")
            claims.append(
                f"static_assert(RobotConstants<float>::{name}[{i}] == {as_float(x).hex()});"
            )
    text = source("problem.hpp", compile_problem(robot, supple.PositionTask()).kernel.constants())
    claimed = "namespace supple {\n" + "\n".join(claims) + "\n}\n"
    try:
        compile_source(text + claimed, "sm_90")
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_only_constants_outside_the_range_of_floats_have_different_text_for_float_and_double() -> (
    None
):
    text = compile_problem(sliders(), supple.PositionTask()).kernel.constants()
    for number in re.findall(r"T\((-?0x[^)]*)\)", text):
        x = abs(float.fromhex(number))
        assert x == 0 or np.finfo(np.float32).tiny <= x <= np.finfo(np.float32).max
    usual = compile_problem(supple.load("panda"), None).kernel.constants()
    assert "sizeof" not in usual
