"""Structs that Python fills for CUDA kernels have the memory layout of the C++ compiler."""

from __future__ import annotations

import ast
import ctypes
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from supple.control import gpu_targets, gpu_velocities
from supple.ik.gpu import branches, gradients, linearize, request, targets
from supple.kinematics import gpu_frames

SOURCES = Path(__file__).parents[2] / "src/supple"
COMPILER = shlex.split(os.environ.get("CXX", "g++"))
TASKS = 3  # number of tasks in a struct whose size depends on it
PRELUDE = (
    "#include <cstddef>\n#define __device__\nusing Real = float; using SearchReal = float;\n"
    f"constexpr int tasks = {TASKS};\nint atomicAdd(int*, int);\n"
    "enum class Outcome : signed char {};\n"
)


MIRRORS = [
    (request.Request, "Request", "ik/gpu/problem.hpp"),
    (targets.View, "View", "ik/gpu/view.hpp"),
    (request.SolutionPointers, "SolutionArrays", "../../include/supple/ik/policy.hpp"),
    (gpu_velocities.Request, "Request", "control/velocity.cu"),
    (branches.Request, "BranchRequest", "ik/gpu/branches.cu"),
    (gpu_frames.Request, "Request", "kinematics/kinematics.cu"),
    (linearize.Request, "Request", "ik/gpu/linearize.cu"),
    (linearize.StepRequest, "StepRequest", "ik/gpu/steps.cu"),
    (gradients.Request, "Request", "ik/gpu/gradients.cu"),
    (gpu_targets.request_type(TASKS), "Request", "control/whole_body.cu"),
]


def structs_of(text: str) -> list[str]:
    """Return the names of the ctypes classes that a module defines at any place."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        if any(
            ast.unparse(base).split(".")[-1] in ("Structure", "Union", "BigEndianStructure")
            for base in node.bases
        )
    ]


def test_every_ctypes_struct_is_in_the_list_of_checked_layouts() -> None:
    declared = {
        (".".join(("supple", *file.relative_to(SOURCES).with_suffix("").parts)), name)
        for file in SOURCES.rglob("*.py")
        for name in structs_of(file.read_text())
    }
    assert declared == {(mirror.__module__, mirror.__name__) for mirror, *_ in MIRRORS}


def test_the_search_for_structs_finds_those_inside_functions_and_classes() -> None:
    text = "def f():\n  class A(ctypes.Structure): pass\nclass B:\n  class C(Structure): pass"
    assert structs_of(text) == ["A", "C"]


@pytest.mark.skipif(not shutil.which(COMPILER[0]), reason="no compiler here")
@pytest.mark.parametrize(
    ("mirror", "name", "file"),
    MIRRORS,
    ids=[mirror.__module__ + "." + mirror.__name__ for mirror, *_ in MIRRORS],
)
def test_ctypes_structs_have_the_memory_layout_of_the_compiler(
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
