"""mypy accepts the code of the documents, and knows the results of `solve` and `Solver`."""

from __future__ import annotations

import os
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
sp.solve(panda, T, framee="x")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the cache of mypy, which all tests of this file share."""
    return tmp_path_factory.mktemp("mypy")


def errors_of_mypy(folder: Path, cache: Path, files: dict[str, str]) -> list[str]:
    """Return the errors that mypy reports for files of these names and texts."""
    for name, text in files.items():
        (folder / name).write_text(text)
    parent = Path(supple.__file__).parents[1]
    places = [ROOT / "bench"] + [parent] * (parent.name != "site-packages")
    found = {"MYPYPATH": os.pathsep.join(map(str, places))}
    options = ["--follow-imports=silent", "--no-error-summary", "--hide-error-context"]
    optional = "[mypy-cupy.*,torch.*,jax.*,pyarrow.*]\nignore_missing_imports = true\n"
    (folder / "mypy.ini").write_text(f"[mypy]\ncheck_untyped_defs = true\n{optional}")
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


def test_mypy_knows_the_types_of_results(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("mypy")
    errors = errors_of_mypy(tmp_path, cache, {"results.py": RESULTS})
    last = len(RESULTS.splitlines())  # the line with the misspelt argument
    assert errors
    assert all(line.startswith(f"results.py:{last}:") for line in errors), errors
    assert 'did you mean "frame"?' in errors[0]


def test_mypy_accepts_the_code_of_the_documents(tmp_path: Path, cache: Path) -> None:
    """The code blocks of each page form one program, with the line numbers of the page."""
    pytest.importorskip("mypy")
    files = {}
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        inside, lines = False, []
        for line in page.read_text().splitlines():
            inside = inside and not line.startswith("```")
            lines.append(line if inside else "")
            inside = inside or line == "```python"
        if any(lines):
            files[f"{page.stem.lower()}_page.py"] = "\n".join(lines)
    assert len(files) > 4
    assert "\n".join(errors_of_mypy(tmp_path, cache, files)) == ""
