"""Pinned tools, extras, tuned constants and the output of a build are consistent."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from constants import Constant, changed, constants, tunable
from supple import errors

ROOT = Path(__file__).parents[1]
CONSTANTS = constants()


def test_pre_commit_has_the_versions_of_make_lint() -> None:
    """Two releases of a formatter could undo each other's changes."""
    pinned = re.findall(r'"([\w-]+==[\d.]+)"', (ROOT / "pyproject.toml").read_text())
    hooks = re.findall(r'"([\w-]+==[\d.]+)"', (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks
    assert set(hooks) <= set(pinned)


def test_errors_name_the_packages_of_the_extras_in_pyproject() -> None:
    """Errors suggest to install the packages of an extra by name, which also works in a clone."""
    text = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = dict(re.findall(r"^(\w+) = \[(.*)\]$", text.partition("\n[")[0], re.MULTILINE))
    found = {name: tuple(re.findall(r'"([^"]+)"', each)) for name, each in extras.items()}
    assert found == errors.EXTRAS


def test_every_constant_in_the_table_is_defined_once_in_the_code() -> None:
    for one in CONSTANTS.values():
        one.span((ROOT / one.file).read_text(encoding="utf-8"))  # raises unless defined once


def test_files_with_tuned_constants_refer_to_the_table_of_constants() -> None:
    for file in {one.file for one in CONSTANTS.values()}:
        assert "docs/constants.md" in (ROOT / file).read_text(encoding="utf-8"), file


def test_the_constants_benchmark_changes_only_one_number() -> None:
    text = "constexpr int window = 3, patient = 30;\nwindow = other.window;\n"
    window = Constant("window", "window", Path("a.hpp"), "3")
    assert changed(text, window, 6) == text.replace("window = 3,", "window = 6,")
    assert changed("part = 0.4f;", Constant("part", "part", Path("a.cu"), "0.4f"), 0.2) == (
        "part = 0.2;"
    )
    with pytest.raises(ValueError, match="defined once"):
        changed(text, replace(window, value="4"), 6)


def test_tuning_a_constant_does_not_change_the_size_of_an_array() -> None:
    """C++ needs constant array sizes, so a size computed from a tuned constant keeps its value."""
    text = "constexpr int review = 8, later = 32, size = review + lanes;\nint a[size];"
    values = {"review": "8", "later": "32"}
    made = tunable(text, [Constant(name, name, Path("a.hpp"), x) for name, x in values.items()])
    assert made.endswith(
        'static const int review = supple_tuned("review", 8), later = supple_tuned("later", 32), '
        "size = 8 + lanes;\nint a[size];"
    )


# ---- progress of a build -------------------------------------------------------------------------


def shown_build(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/show_build.py", sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_build_shows_only_its_progress() -> None:
    done = shown_build("for k in range(1, 81): print(f'  [{k}/80] Building CXX object x{k}')")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 13
    assert "80 of 80 files" in lines[-2]
    assert "CXX" not in done.stdout


def test_a_build_that_fails_shows_its_whole_output() -> None:
    done = shown_build("import sys; print('[1/2] Building'); print('x.cpp: error'); sys.exit(3)")
    assert done.returncode == 3
    assert "x.cpp: error" in done.stdout
