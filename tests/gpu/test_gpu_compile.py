"""The CUDA sources compile for any robot, task and rule; these tests need no GPU.

One search and one step of an arm with two joints are compiled to machine code. For other robots,
tasks and rules, only the front end of the compiler is run, which finds errors of C++. With
SUPPLE_NIGHTLY=1, all of them are compiled to machine code.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from cached_code import reads_what_is_written
from sizes import NIGHTLY
from supple import AxisTask, PositionTask, PostureTask
from supple.control.gpu_velocities import text_of
from supple.control.velocity_ik import velocity_ik
from supple.errors import DeviceError, MissingExtraError
from supple.gpu import cache, runtime
from supple.gpu.runtime import compile_source
from supple.gpu.source import source
from supple.ik.gpu import ranking, subproblems, targets
from supple.ik.gpu.position import KERNELS, texts
from supple.ik.problem import CompiledProblem, compile_problem


def compiled(problem: CompiledProblem | None, name: str, apart: bool = False, **ways: Any) -> bytes:
    constants = "" if problem is None else problem.kernel.constants()
    try:
        return runtime.compile_source(source(name, constants, **ways), "sm_90", relocatable=apart)
    except MissingExtraError as error:
        pytest.skip(str(error))


def parsed(text: str) -> None:
    """Run the front end of NVRTC on a source, which takes a fortieth of the time of compiling."""
    options = (*runtime._OPTIONS, *runtime._RELOCATABLE, "-dlto", "-arch=sm_90")
    try:
        runtime._compiled(text, options)
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_the_front_end_of_the_cuda_compiler_finds_errors() -> None:
    parsed("__global__ void right(int* x) { *x = 1; }")
    with pytest.raises(DeviceError, match="undefined"):
        parsed("template <class T> void f(T x) { x = y; } __global__ void wrong() { f(1); }")
    with pytest.raises(DeviceError, match="incompatible"):
        parsed("__device__ void f(int*); __global__ void wrong(float* x) { f(x); }")


def searches() -> dict[str, Callable[[], CompiledProblem]]:
    panda, youbot, planar = map(supple.load, ("panda", "youbot", "planar2"))
    tip = youbot.tips[0]
    return {
        "two joints": lambda: compile_problem(planar, PositionTask(rows=("x", "y"))),
        "a pose": lambda: compile_problem(panda, None),
        "any task and rule": lambda: compile_problem(
            youbot, [PositionTask(tip), AxisTask(tip)], supple.damping.SpeedBound(1.0)
        ),
    }


@pytest.mark.parametrize("what", ["two joints", "a pose", "any task and rule"])
def test_cuda_kernels_of_a_search_compile_and_link(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    problem = searches()[what]()
    if what != "two joints" and not NIGHTLY:
        for text in next(iter(texts(problem).values())):
            parsed(text)
        return
    name = re.compile(rb"_ZN6supple\d+(?:polish_start|converge_to_minimum|settle)\w+")
    for files, kernels in KERNELS.items():
        if files == ("postprocess.cu",):
            continue
        made = partial(compiled, problem, apart=len(files) > 1)
        with ThreadPoolExecutor() as pool:  # the compiler releases the GIL
            codes = dict(zip(files, pool.map(made, files), strict=True))
        assert all(any(kernel.encode() in code for code in codes.values()) for kernel in kernels)
        # A function that several files call has the same name in all of them, as the linker
        # requires.
        called = {file: set(name.findall(code)) for file, code in codes.items()}
        # In small problems, the kernel that finds a solution also polishes the solution.
        assert called["search.cu"] in (set(), called["polish.cu"])
        assert called["explore.cu"] == set().union(*called.values())
        assert len(called["explore.cu"]) == 3


def test_cuda_kernels_that_merge_subproblems_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    code = compiled(None, "subproblems.cu")
    assert all(kernel.encode() in code for kernel in subproblems.KERNELS)


def test_cuda_kernels_that_choose_among_solutions_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    code = compiled(None, "rank.cu")
    assert all(kernel.encode() in code for kernel in ranking.KERNELS)
    assert b"costs" in compiled(compile_problem(supple.load("planar3"), None), "costs.cu")


def test_cuda_kernels_of_linearizations_and_their_steps_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    robot = supple.load("planar3")
    step = velocity_ik(robot, None, supple.DLS(supple.damping.Constant(0.1)), None, None)
    constants = {
        "linearize": compile_problem(robot, None).kernel.constants(),
        "apply": step.kernel.constants(),
    }
    for real, whole in (("float", "apply"), ("double", "linearize")):
        for name, file in (("linearize", "linearize.cu"), ("apply", "steps.cu")):
            text = source(file, f"using Real = {real};\n{constants[name]}")
            if name != whole and not NIGHTLY:
                parsed(text)
                continue
            try:
                code = runtime.compile_source(text, "sm_90", accurate_sines=True)
            except MissingExtraError as error:
                pytest.skip(str(error))
            assert name.encode() in code


@pytest.mark.parametrize("ways", [{"rough": "double"}, {"several": True}], ids=str)
def test_cuda_kernels_compile_for_doubles_and_for_several_solutions(ways: dict[str, Any]) -> None:
    arm = supple.load("planar3")
    problem = compile_problem(arm, (PositionTask(rows=("x", "y")), PostureTask()))
    names = {"search.cu": b"search", "polish.cu": b"polish_start", "settle.cu": b"settle"}
    names["closest.cu"] = b"converge_to_minimum"
    if "several" in ways:
        names = {"postprocess.cu": b"postprocess"}
    for name, made in (names | {"explore.cu": b"explore"}).items():
        if NIGHTLY:
            assert made in compiled(problem, name, apart=True, **ways)
        else:
            parsed(source(name, problem.kernel.constants(), **ways))


def test_the_cuda_kernel_that_reads_targets_compiles() -> None:
    problem = compile_problem(supple.load("planar3"), PositionTask())
    code = compiled(problem, "targets.cu")
    assert all(kernel.encode() in code for kernel in targets.KERNELS)
    assert "RobotConstants" not in source(
        "targets.cu", problem.kernel.constants()
    )  # the source is the same for all robots


@pytest.mark.parametrize(
    ("what", "name"), [("optimal", "planar2"), ("optimal", "panda"), ("limits", "panda")]
)
def test_cuda_kernels_of_steps_compile(
    what: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path))
    arm, limits = supple.load(name), None
    step = supple.DLS(supple.damping.Optimal.for_robot(arm))
    if what == "limits":
        step = supple.DLS(supple.damping.Curvature(0.01))
        limits = supple.Limits.for_robot(arm, max_norm=2.0, max_acceleration=5.0)
    follower = velocity_ik(arm, None, step, limits, None if limits is None else 0.01)
    text = text_of(follower, np.dtype(np.float32 if what == "optimal" else np.float64))
    if name != "planar2" and not NIGHTLY:
        parsed(text)
        return
    try:
        code = compile_source(text, "sm_90", accurate_sines=True)
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert b"step" in code


def test_every_header_is_in_the_cuda_source_once() -> None:
    constants = compile_problem(supple.load("panda"), None).kernel.constants()
    assert '#include "' not in source("subproblems.cu", "")
    text = source("explore.cu", constants)
    assert '#include "' not in text
    assert all(
        text.count(f"struct {name} {{") == 1 for name in ("RobotConstants", "Closest", "IkProblem")
    )


def test_joint_limits_are_in_the_cuda_source_without_rounding() -> None:
    robot = supple.load("panda")
    text = compile_problem(robot, None).kernel.constants()
    for limit in (*robot.lower, *robot.upper):
        mantissa, exponent = float(limit).hex().split("p")
        assert f"T({mantissa.rstrip('0')}p{exponent})" in text


# ---- the cache -----------------------------------------------------------------------------------


def test_the_cache_compiles_a_kernel_only_once_for_each_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(tmp_path / "deep" / "er"))
    made: list[str] = []

    def make(what: str) -> Callable[[], bytes]:
        return lambda: made.append(what) or what.encode()  # type: ignore[func-returns-value]

    for what in ("a", "b", "a", "b"):
        assert cache.cached((what, "sm_90"), make(what)) == what.encode()
    assert cache.cached(("a", "sm_80"), make("c")) == b"c"
    assert made == ["a", "b", "c"]
    # Parts of a key are not joined without a separator: ("asm", "_90") is not ("asm_", "90").
    assert cache.cached(("asm", "_90"), make("d")) == b"d"


def test_kernels_are_compiled_also_if_the_cache_folder_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("SUPPLE_CACHE_DIR", str(file))
    assert [cache.cached(("a",), lambda: b"x") for _ in range(2)] == [b"x", b"x"]
    assert file.read_text() == "no folder"


def test_processes_share_the_cache_of_compiled_kernels(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        assert all(pool.map(reads_what_is_written, [str(tmp_path)] * 3))
    assert {path.suffix for path in tmp_path.iterdir()} == {".cubin"}
    assert len(list(tmp_path.iterdir())) == 20
