"""The programs in bench/ judge solutions independently and set the constants that they vary."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import constants
from solving import solve

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pinocchio")
    monkeypatch.syspath_prepend(BENCH)


def test_a_quick_run_of_the_position_benchmark_solves_95_percent() -> None:
    pytest.importorskip("pinocchio")
    command = [sys.executable, BENCH / "position.py", "--quick", "--no-peers", "puma560"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| supple")]
    solved = [float(cells[3]) for cells in rows]
    assert len(solved) == 8
    assert min(solved) >= 95.0


@pytest.mark.usefixtures("bench")
def test_the_judge_of_the_benchmark_rejects_wrong_solutions(tmp_path: Path) -> None:
    import arms
    import position
    import supple as sp
    from position_judge import Answers, Judge, judged
    from position_targets import LOOSE

    panda = arms.chain("Panda", sp.load("panda"))
    problem, made = position.prepared("panda", panda, tmp_path, 4)
    judge, random = Judge(problem), made["random"]
    robot = sp.urdf(tmp_path / "robot.urdf")
    right = solve(robot, random.targets).q
    turned, outside = right.copy(), right.copy()
    turned[:, 0] += 2e-3  # off the target by about 2e-3
    outside[:, 0] += 2 * np.pi  # at the target, but beyond a limit
    for q, good in ((right, True), (turned, False), (outside, False)):
        answers = Answers()
        answers.add(0, {"q": q.tolist(), "claims": [True] * 4, "ns": [1] * 4})
        assert (judged(judge, random, LOOSE, answers)[0] == good).all()
    nothing = Answers()
    nan = [float("nan")] * 7
    nothing.add(0, {"q": [None, nan, None, nan], "claims": [True] * 4, "ns": [1] * 4})
    assert not judged(judge, random, LOOSE, nothing)[0].any()


@pytest.mark.usefixtures("bench")
def test_the_judge_accepts_the_closest_configurations_to_poses_out_of_reach(tmp_path: Path) -> None:
    import arms
    import position
    import supple as sp
    from position_judge import Answers, Judge, judged
    from position_targets import BEYOND, LOOSE

    puma = arms.chain("PUMA", sp.load("puma560"))
    problem, made = position.prepared("puma560", puma, tmp_path, 4)
    judge, beyond = Judge(problem), made["beyond"]
    at_edge = solve(sp.urdf(tmp_path / "robot.urdf"), made["edge"].targets).q
    far, off = judge.errors(at_edge, beyond.targets)
    np.testing.assert_allclose(far, BEYOND, atol=1e-5)
    np.testing.assert_allclose(off, 0, atol=1e-5)
    for q, good in ((at_edge, True), (np.zeros((4, 6)), False)):
        answers = Answers()
        answers.add(0, {"q": q.tolist(), "claims": [False] * 4, "ns": [1] * 4})
        assert (judged(judge, beyond, LOOSE, answers)[0] == good).all()


@pytest.mark.usefixtures("bench")
def test_urdf_files_of_the_benchmark_arms_describe_the_same_robots(
    robot_files: Callable[[str, str], Path],
) -> None:
    import arms
    import supple as sp

    robot_files("", arms.BAXTER)
    for name, arm in arms.arms().items():
        baxter = name == "baxter"
        robot = sp.urdf(robot_files("", arms.BAXTER)) if baxter else sp.load(name)
        ours = sp.urdf(arm.urdf)
        q = ours.random(5, seed=0)
        whole = np.zeros((5, robot.dof))
        at = [k for k, n in enumerate(robot.joint_names) if not baxter or n in RIGHT_ARM]
        whole[:, at] = q
        there = robot.fk(whole, "right_gripper" if baxter else None)
        np.testing.assert_allclose(ours.fk(q), there, atol=1e-12)
        np.testing.assert_array_equal(ours.lower, robot.lower[at])
        np.testing.assert_array_equal(ours.upper, robot.upper[at])


RIGHT_ARM = [f"right_{joint}" for joint in ("s0", "s1", "e0", "e1", "w0", "w1", "w2")]


PROGRAM = """\
#include <cstdio>
#include "drivers/batch.hpp"
#include "drivers/branches.hpp"
#include "drivers/general.hpp"
#include "drivers/ring_grid.hpp"
#include "drivers/seed_table.hpp"
#include "drivers/track.hpp"
#include "supple/collision/curve.hpp"
#include "supple/servo/guard.hpp"
#include "supple/servo/servo.hpp"
#include "supple/servo/tree_step.hpp"
int main() {{
  using namespace supple;
  {lines}
}}
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, float]]:
    """Return a function that maps a value of SUPPLE_CONSTANT to the kernel's constants, by key."""
    folder = tmp_path_factory.mktemp("constants")
    for path, text in constants.sources().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    lines = []
    for key, one in constants.constants().items():
        text = (ROOT / one.file).read_text(encoding="utf-8")
        begin = text.rindex("\n", 0, one.span(text)[0]) + 1
        # The program cannot access constants in functions, bindings and CUDA sources.
        if one.language == ".hpp" and not text[begin].isspace():
            name = f"{one.name}<double>" if one.value.startswith("T(") else one.name
            lines.append(f'std::printf("{key} %.9g\\n", double({name}));')
    (folder / "program.cpp").write_text(PROGRAM.format(lines="\n  ".join(lines)), "utf-8")
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    # With -O0 GCC also compiles static functions that nobody calls.
    flags = "-std=c++20 -O1 -w -DSUPPLE_INLINE=inline -DSUPPLE_ISA=test -DSUPPLE_REGISTERS=1"
    sources = ("-I", "include", "-I", "src/core", "program.cpp")
    command = [*compiler, *shlex.split(flags), *sources, "-o", "program"]
    subprocess.run(command, check=True, cwd=folder)

    def values(setting: str) -> dict[str, float]:
        environment = os.environ | {"SUPPLE_CONSTANT": setting}
        text = subprocess.check_output([folder / "program"], env=environment, text=True)
        return {key: float(value) for key, value in map(str.split, text.splitlines())}

    return values


def test_each_constant_of_the_kernel_can_be_set_in_the_environment(
    printed: Callable[[str], dict[str, float]],
) -> None:
    """Without a setting, constants have the values of the table; a setting changes one constant."""
    usual, every = printed(""), constants.constants()
    assert len(usual) > 40
    for key, value in usual.items():
        low, table, high = every[key].values()
        assert value == pytest.approx(table, rel=1e-7)
        for other in (low, high):
            found = printed(f"{key}={other}").items()
            changed = {name: value for name, value in found if value != usual[name]}
            assert changed == pytest.approx({key: other}, rel=1e-7)


def test_setting_a_constant_replaces_one_place_in_the_sources() -> None:
    """C++ sources read a tuned constant from the environment; other sources get its new number."""
    sources = constants.sources()
    for key, one in constants.constants().items():
        low, usual, high = one.values()
        assert low < usual < high
        if one.language in (".hpp", ".cpp"):
            assert sources[one.file].count(f'= supple_tuned("{key}", {one.value})') == 1
            continue
        text = (ROOT / one.file).read_text(encoding="utf-8")
        first, last = one.span(text)
        other = constants.changed(text, one, high)
        assert other == f"{text[:first]}{high:g}{text[last:]}"
        if one.language == ".py":
            ast.parse(other)


def test_the_report_on_constants_lists_counts_and_times_that_change_alike_in_all_rounds() -> None:
    """A time whose change has another sign in another round is not listed."""
    usual = {"count": 10.0, "same": 1.0, "solved [%]": 100.0, "µs": 1.0}
    low = usual | {"count": 20.0, "solved [%]": 99.9, "µs": 1.2}
    rounds = [[{"work": low}, {"work": usual}, {"work": usual | {"µs": high}}] for high in (2, 0.5)]
    assert [(one.measure, one.values) for one in constants.changes(rounds)] == [
        ("count", (20, 10, 10)),
        ("solved [%]", (99.9, 100, 100)),
        ("time, relative", (1.2, 1, 1.25)),
    ]
    rounds[1][0] = {"work": low | {"µs": 0.8}}
    assert "time, relative" not in [one.measure for one in constants.changes(rounds)]


def test_the_index_of_the_benchmarks_lists_every_program_and_result() -> None:
    """Each program has a row in bench/README.md; a pattern such as `robots_*.py` covers several."""
    index = (BENCH / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w*]+\.(?:py|cpp))`", index)
    files = {path.name for path in BENCH.iterdir() if path.suffix in (".py", ".cpp")}
    assert [name for name in named if not any(fnmatch(file, name) for file in files)] == []
    assert [file for file in files if not any(fnmatch(file, name) for name in named)] == []
    results = {path.name.partition(".")[0] for path in (BENCH / "results").glob("*.md")}
    cells = [row.split("|")[-2] for row in index.splitlines() if row.count("|") == 4]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == results


def test_the_gpu_benchmark_has_the_options_of_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each target, the benchmark tries as many seeds as a solver does."""
    monkeypatch.syspath_prepend(BENCH)
    import gpu
    import supple as sp

    seeds = sp.Solver(sp.load("planar3"))._settings.max_seeds
    for gate in gpu.GATES.values():
        assert gpu.options(gate).max_seeds == seeds


@pytest.mark.parametrize("names", [("panda", "panda_hand_tcp"), ("double_y", "E0", "E1")])
def test_the_program_that_times_a_first_gpu_call_also_runs_on_the_cpu(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCH)
    import gpu

    program = gpu.FRESH.replace("position.open_device(0)", "").replace('"cuda"', '"cpu"')
    command = [sys.executable, "-c", program, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2
