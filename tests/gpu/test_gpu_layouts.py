"""Structs that Python fills for CUDA kernels have the memory layout of the C++ compiler.

Constants that Python and the kernel share have the same value.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from supple.control import gpu_targets, gpu_velocities, target_velocities
from supple.ik import arguments, problem
from supple.ik.gpu import branches, gradients, linearize, position, request, targets
from supple.kinematics import gpu_frames
from supple.motion import plausible
from supple.steps import weighted

SOURCES = Path(__file__).parents[2] / "src/supple"
COMPILER = shlex.split(os.environ.get("CXX", "g++"))
PRELUDE = (
    "#include <cstddef>\nusing Real = float; using SearchReal = float;\n"
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
]


def test_every_ctypes_struct_is_in_the_list_of_checked_layouts() -> None:
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


# Constants of Python that repeat one of the kernel: module, name, name in C++, its file.
CONSTANTS = [
    (branches, "CAPACITY", "capacity", "ik/gpu/branches.cu"),
    (branches, "_THREADS", "threads", "ik/gpu/branches.cu"),
    (position, "_LISTED", "listed", "ik/gpu/search.cu"),
    (linearize, "_THREADS", "threads", "ik/gpu/linearize.cu"),
    (linearize, "_THREADS", "threads", "ik/gpu/steps.cu"),
    (gpu_velocities, "_THREADS", "threads", "control/velocity.cu"),
    (gpu_targets, "THREADS", "threads", "control/whole_body.cu"),
    (
        target_velocities,
        "_MOST_MULTIPLIERS",
        "SUPPLE_MULTIPLIERS",
        "../../include/supple/math/lane.hpp",
    ),
    (arguments, "LARGEST", "max_input", "../../include/supple/ik/restarts.hpp"),
    (problem, "_MAX_TASKS", "max_tasks", "../core/bindings/ik_solver.hpp"),
    (problem, "_FLOAT_TOLERANCE", "float_resolution", "../../include/supple/ik/iterate.hpp"),
    (plausible, "LARGEST_ANGLE", "largest_angle", "../core/bindings/target_solver.cpp"),
    (weighted, "RIDGE", "weighted_ridge", "../../include/supple/servo/fitting.hpp"),
]


def constant_of(name: str, text: str) -> float:
    """Return the value of a constant or a macro in C++ source."""
    found = re.search(rf"\bconstexpr [\w:]+ (?:[^;]*, )?{name} = ([^,;]+)[,;]", text)
    found = found or re.search(rf"^#define {name} (.+)$", text, re.M)
    assert found is not None, name
    number = found[1].partition("?")[2].partition(":")[0] or found[1]  # the value for double
    factors = re.sub(r"\bT\(|\)|(?<=\d)f\b", "", number).split("*")
    return math.prod(map(float, factors))


@pytest.mark.parametrize(
    ("module", "name", "there", "file"),
    CONSTANTS,
    ids=[f"{c[0].__name__}.{c[1]}" for c in CONSTANTS],
)
def test_constants_repeated_in_python_have_the_value_of_the_kernel(
    module: ModuleType, name: str, there: str, file: str
) -> None:
    assert getattr(module, name) == constant_of(there, (SOURCES / file).read_text())


def test_every_constant_repeated_in_python_is_in_the_list_of_checks() -> None:
    says = re.compile(
        r"^(_?[A-Z][A-Z_]*) = .*#.*(?:\bas `|the same as|as in (?:the kernel|\S+\.[ch]))"
    )
    declared = {
        (".".join(("supple", *file.relative_to(SOURCES).with_suffix("").parts)), match[1])
        for file in SOURCES.rglob("*.py")
        for line in file.read_text().splitlines()
        if (match := says.match(line))
    }
    assert declared <= {(module.__name__, name) for module, name, *_ in CONSTANTS}


def test_blocks_have_the_threads_for_which_kernels_are_compiled() -> None:
    for name, count in position._THREADS.items():
        text = "".join(file.read_text() for file in (SOURCES / "ik/gpu").glob("*.cu"))
        text = " ".join(text.split())
        assert f"__launch_bounds__({count}) {name}(" in text
