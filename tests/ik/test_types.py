"""The types of `solve`: mypy accepts the code of the documents and knows what is returned."""

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
from typing_extensions import assert_type

import numpy as np
import supple as sp

panda = sp.load("panda")
T = panda.fk(panda.neutral())
one = sp.solve(panda, T, explain=True)
assert_type(one, sp.Solution)
assert_type(one.status, sp.SolveStatus)
assert_type(one.success, bool)
several = sp.solve(panda, T, solutions=4)
assert_type(several, sp.Solutions)
assert_type(several[0], sp.Solution)
assert_type(several[1:], sp.Solutions)
assert_type([found.iterations for found in several], list[int])
batch: sp.BatchSolution = sp.solve(panda, T[None])
assert_type(batch[0], sp.Solution)
assert_type(batch[batch.success], sp.BatchSolution)
servo = sp.Servo(panda, dt=0.01)
assert_type(servo.status, sp.StepStatus)
assert_type(sp.StepStatus(3).sentence, str)
sp.solve(panda, T, framee="x")
"""


def test_results_have_types_and_the_documents_pass(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/solve.md").read_text(), re.M | re.S)
    (tmp_path / "document.py").write_text("\n".join(blocks))
    (tmp_path / "results.py").write_text(RESULTS)
    parent = Path(supple.__file__).parents[1]
    found = {} if parent.name == "site-packages" else {"MYPYPATH": str(parent)}
    options = [
        "--follow-imports=silent",
        "--no-error-summary",
        "--hide-error-context",
        "--cache-dir",
        str(tmp_path / "x"),
    ]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "document.py", "results.py"],
        cwd=tmp_path,
        env=os.environ | found,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in run.stdout.splitlines() if "error:" in line]
    last = len(RESULTS.splitlines())  # the misspelt argument
    assert errors
    assert all(line.startswith(f"results.py:{last}:") for line in errors), run.stdout
    assert 'did you mean "frame"?' in errors[0]
