"""mypy in its strict mode accepts the code in the documents, and infers the types of results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import supple

ROOT = Path(__file__).parents[2]
RESULTS = """
from typing import Any

from typing_extensions import assert_type

import numpy as np
import supple as sp
from matplotlib.figure import Figure
from numpy.typing import NDArray
from supple.cluster import ReachMap
from supple.gpu.arrays import GpuArray
from supple.plot.animation import Animation

panda = sp.load("panda")
T = panda.fk(panda.neutral())
one = sp.solve(panda, T, explain=True)
assert_type(one, sp.Solution)
assert_type(one.q, np.ndarray[tuple[Any, ...], np.dtype[np.float64]])
assert_type(one.report, sp.SolveReport | None)
assert_type(sp.solve(panda, T, q0=one.q, frame="panda_hand"), sp.Solution)
solver = sp.Solver(panda, position_tolerance=1e-4)
assert_type(solver(T), sp.Solution)
assert_type(solver(T, q0=one.q), sp.Solution)
assert_type(solver.all(T), sp.Solutions)
assert_type(solver.all(T).of(0), sp.Solutions)
assert_type(one.status, sp.SolveStatus)
assert_type(one.success, bool)
several = solver.several(T, 4)
assert_type(several, sp.Solutions)
assert_type(several[0], sp.Solution)
assert_type(several[1:], sp.Solutions)
assert_type([found.iterations for found in several], list[int])
batch = solver.batch(T[None])
assert_type(batch, sp.Solutions)
assert_type(batch[0], sp.Solution)
assert_type(batch[batch.success], sp.Solutions)
assert_type(batch.status[0], sp.SolveStatus)
assert_type([status.sentence for status in batch.status], list[str])
motion = sp.simulate(panda, panda.neutral(), velocity=np.zeros(6), dt=0.1, duration=1.0)
assert_type(motion.status[0], sp.StepStatus)
servo = sp.Servo(panda, dt=0.01)
assert_type(servo.status, sp.StepStatus)
assert_type(sp.StepStatus(3).sentence, str)
step, twist = sp.DLS(sp.damping.Constant(0.01)), np.zeros(6)
assert_type(step.velocities(panda, one.q, twist), NDArray[np.floating[Any]])
assert_type(step.velocities(panda, [0.0] * 7, twist, dt=None), NDArray[np.floating[Any]])
told = step.velocities(panda, one.q, twist, explain=True)
assert_type(told, sp.steps.Velocities)
assert_type(told.status[0], sp.StepStatus)
def on_a_gpu(q: GpuArray, explain: bool) -> None:
    assert_type(step.velocities(panda, q, q), GpuArray)
    assert_type(
        step.velocities(panda, q, q, explain=explain),
        NDArray[np.floating[Any]] | GpuArray | sp.steps.Velocities,
    )
    solver.batch(q)
assert_type(one.tasks, tuple[sp.tasks.Task, ...])
assert_type(batch.tasks, tuple[sp.tasks.Task, ...])
assert_type(one.plot(), Figure)
assert_type(batch.plot(), Figure)
assert_type(motion.plot(), Figure)
assert_type(panda.plot(one.q), Figure)
assert_type(motion.animate(), Animation)
clamp = sp.steps.AdaptiveErrorClamp(step)
lin = sp.linearize(panda, "panda_hand", one.q, T)
memory = clamp.start(lin)
assert_type(clamp.step(lin, memory)[0], NDArray[np.float64])
def reach(reached: ReachMap) -> None:
    assert_type(reached.at([0.1, 0.2, 0.3]), np.float32)
    assert_type(reached.at(T[None, :3, 3]), NDArray[np.float32] | np.float32)
    assert_type(reached.reaches(T), NDArray[np.bool_] | np.bool_)
    assert_type(reached.plot(), Figure)
sp.solve(panda, T, framee="x")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the cache of mypy that all tests of this file share."""
    return tmp_path_factory.mktemp("mypy")


def errors_of_mypy(folder: Path, cache: Path, files: dict[str, str]) -> list[str]:
    """Return the errors that mypy reports for files with given names and contents."""
    for name, text in files.items():
        (folder / name).write_text(text)
    parent = Path(supple.__file__).parents[1]
    places = [ROOT / "bench"] + [parent] * (parent.name != "site-packages")
    found = {"MYPYPATH": os.pathsep.join(map(str, places))}
    options = ["--follow-imports=silent", "--no-error-summary", "--hide-error-context"]
    optional = "[mypy-cupy.*,torch.*,jax.*,pyarrow.*]\nignore_missing_imports = true\n"
    strict = "strict = true\nwarn_unreachable = true\n"
    (folder / "mypy.ini").write_text(f"[mypy]\n{strict}{optional}")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", str(cache), *files],
        cwd=folder,
        env=os.environ | found,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.stderr
    return [line for line in run.stdout.splitlines() if "error:" in line]


def test_mypy_infers_the_types_of_results(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("mypy")
    errors = errors_of_mypy(tmp_path, cache, {"results.py": RESULTS})
    last = len(RESULTS.splitlines())  # the line with the misspelt argument
    assert errors
    assert all(line.startswith(f"results.py:{last}:") for line in errors), errors
    assert 'did you mean "frame"?' in errors[0]


# The tests do not run blocks marked `py`, which need a GPU or libraries that are not installed for
# the tests. On this page, such blocks are code of other libraries; mypy does not check them.
OF_OTHER_LIBRARIES = "migration"
BLOCK = re.compile(r"^```(python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_mypy_accepts_the_code_of_the_documents(tmp_path: Path, cache: Path) -> None:
    """The code blocks of a page are checked as one program, with the line numbers of the page."""
    pytest.importorskip("mypy")
    files = {}
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        text, lines = page.read_text(), []
        for kind, code in (match.groups() for match in BLOCK.finditer(text)):
            if kind == "python" or page.stem != OF_OTHER_LIBRARIES:
                first = text[: text.index(code)].count("\n")
                lines += [""] * (first - len(lines)) + code.splitlines()
        if lines:
            files[f"{page.stem.lower().replace('-', '_')}_page.py"] = "\n".join(lines)
    assert {"gpu_page.py", "gradients_page.py", "migration_page.py"} < files.keys()
    assert "\n".join(errors_of_mypy(tmp_path, cache, files)) == ""


def test_blocks_that_mypy_does_not_check_are_code_of_other_libraries() -> None:
    for page in ROOT.glob("docs/**/*.md"):
        known = set(re.findall(r"^```(\w*)$", page.read_text(), re.MULTILINE))
        assert known <= {"", "python", "py", "text", "sh", "yaml", "bibtex"}, page.name
    text = (ROOT / f"docs/{OF_OTHER_LIBRARIES}.md").read_text()
    blocks = [code for kind, code in BLOCK.findall(text) if kind == "py"]
    assert len(blocks) == 7
    for code in blocks:
        assert code.startswith("# ")  # a comment with the name of the library
        assert not re.search(r"\b(sp|supple)\b", code)
