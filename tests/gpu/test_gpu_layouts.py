"""Structs that Python fills for CUDA kernels have the memory layout of the C++ compiler."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from supple.control import gpu_velocities
from supple.ik.gpu import branches, position, subproblems, targets

SOURCES = Path(__file__).parents[2] / "src/supple"
COMPILER = shlex.split(os.environ.get("CXX", "g++"))
PRELUDE = (
    "#include <cstddef>\nusing Real = float; using SearchReal = float;\n"
    "enum class Outcome : signed char {};\n"
)


MIRRORS = [
    (position.Request, "Request", "ik/gpu/problem.hpp"),
    (targets.View, "View", "ik/gpu/targets.cu"),
    (subproblems.SolutionPointers, "SolutionArrays", "../../include/supple/ik/policy.hpp"),
    (gpu_velocities.Request, "Request", "control/velocity.cu"),
    (branches.Request, "BranchRequest", "ik/gpu/branches.cu"),
]


def test_no_mirror_is_forgotten() -> None:
    declared = {
        (".".join(("supple", *file.relative_to(SOURCES).with_suffix("").parts)), name)
        for file in SOURCES.rglob("*.py")
        for name in re.findall(r"^class (\w+)\(ctypes\.", file.read_text(), re.M)
    }
    assert declared == {(mirror.__module__, mirror.__name__) for mirror, *_ in MIRRORS}


@pytest.mark.skipif(not shutil.which(COMPILER[0]), reason="no compiler here")
@pytest.mark.parametrize(
    ("mirror", "name", "file"),
    MIRRORS,
    ids=[mirror.__module__ + "." + mirror.__name__ for mirror, *_ in MIRRORS],
)
def test_python_and_the_compiler_agree(
    mirror: type[ctypes.Structure], name: str, file: str, tmp_path: Path
) -> None:
    struct = re.search(rf"^struct {name} {{.*?^}};", (SOURCES / file).read_text(), re.M | re.S)
    assert struct is not None
    checks = [f"static_assert(sizeof({name}) == {ctypes.sizeof(mirror)});"]
    for field, *_ in mirror._fields_:
        own = getattr(mirror, field)
        checks.append(f"static_assert(offsetof({name}, {field}) == {own.offset});")
        checks.append(f"static_assert(sizeof({name}::{field}) == {own.size});")
    text = tmp_path / "layout.cpp"
    text.write_text("\n".join([PRELUDE, struct[0], *checks]))
    subprocess.run([*COMPILER, "-std=c++20", "-fsyntax-only", str(text)], check=True)
