"""The recipe for a task in CONTRIBUTING.md works in a copy of the sources, compiled and tested.

Compiling takes minutes: `make test-recipes` runs this file. The copy stays in build/recipes, so
that the next run compiles only what has changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from task_recipe import NEW, ROOT, add_to

COPY = ROOT / "build/recipes"
PARTS = ("include", "src", "papers", "tests", "CMakeLists.txt", "Makefile", "pyproject.toml")
# The laws of the new tasks, and the tests that run for all tasks.
TESTS = (
    "tests/recipes/laws",
    "tests/motion/test_task.py",
    "tests/motion/test_task_batches.py",
    "tests/test_copies.py",
)


def write_changed(made: Path, to: Path) -> None:
    """Make `to` equal to `made`; equal files are not written, so `make` does not rebuild them."""
    files = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    for path in files:
        there, text = to / path, (made / path).read_bytes()
        if not there.is_file() or there.read_bytes() != text:
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(text)
    for part in PARTS:
        for path in (to / part).rglob("*"):
            if path.is_file() and path.relative_to(to) not in files:
                path.unlink()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources with the new tasks, compiled by `make dev`."""
    made = tmp_path_factory.mktemp("sources")
    for part in PARTS:
        if (ROOT / part).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(ROOT / part, made / part, ignore=unwanted)
        else:
            shutil.copy(ROOT / part, made / part)
    for goal in NEW:
        add_to(made, goal)
    write_changed(made, COPY)
    environment = COPY / ".venv"
    environment.unlink(missing_ok=True)
    environment.symlink_to(sys.prefix)
    # With -o, make does not install the tools of the tests again.
    subprocess.run(["make", "-o", ".venv/test-tools", "dev"], cwd=COPY, check=True)
    return COPY


@pytest.mark.parametrize("tests", TESTS)
def test_tasks_added_by_the_recipe_obey_the_laws_of_all_tasks(copy: Path, tests: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    path = {"PYTHONPATH": str(copy / "build/dev")}
    done = subprocess.run(
        command, cwd=copy, env=os.environ | path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
