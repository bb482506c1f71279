"""Public names are documented, importable and pointed to by errors about wrong names."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import supple
from cases import each

ROOT = Path(__file__).parents[1]
MODULES = (
    "supple",
    *(f"supple.{name}" for name in ("cluster", "collision", "criteria", "damping", "errors")),
    *(f"supple.{name}" for name in ("gpu", "paths", "poses", "retargeting")),
    *(f"supple.{name}" for name in ("redundancy", "steps", "tasks")),
    *(f"supple.{name}" for name in ("view.viewer", "papers", "papers.note")),
)
INTERNAL = {"architecture", "kernel", "constants", "papers"}  # about the code itself
PAGES = [path for path in sorted(ROOT.glob("docs/**/*.md")) if path.stem not in INTERNAL]


@functools.cache
def public() -> set[str]:
    """Return all public names."""
    names: set[str] = set()
    for name in MODULES:
        module = importlib.import_module(name)
        names |= set(getattr(module, "__all__", vars(module)))
    return names


@functools.cache
def defined() -> set[str]:
    """Return the names of all classes in the package."""
    return {
        node.name
        for path in (ROOT / "src/supple").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda path: path.stem)
def test_classes_named_in_a_page_are_public(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    named = set(re.findall(r"(?<![\w.])[A-Z]\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    assert not named & (defined() - public())


def test_importing_supple_imports_nothing_else() -> None:
    """Modules, NumPy among them, are imported when a name is first used."""
    code = (
        "import sys, supple; print([m for m in sys.modules if m.startswith(('supple.', 'numpy'))])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_names_are_imported_from_the_modules_that_type_checkers_read() -> None:
    """The imports for type checkers, the table of lazy imports and `__all__` agree."""
    tree = ast.parse(Path(supple.__file__).read_text())
    (checked,) = (
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    found = {
        node.module: tuple(alias.name for alias in node.names)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
    }
    assert found == supple._MODULES  # type: ignore[attr-defined]
    named = [name for names in found.values() for name in names]
    assert sorted([*named, "__version__"]) == sorted(supple.__all__)
    for name in named:
        assert getattr(supple, name).__name__.rpartition(".")[2] == name


@each(
    ("old", "new"),
    [
        ("track", "it is called simulate"),
        ("follow", "it is called plan_path"),
        ("devices", "it is in supple.gpu"),
        ("solve_ik", "a Servo computes steps of a control loop, solve finds q for a pose"),
        ("fkine", r"it is a method: robot.fk\(q\)"),
        ("torch", "it is a module: import supple.torch"),
    ],
)
def test_the_error_about_a_name_of_another_place_names_that_place(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"; {new}$"):
        getattr(supple, old)


@each("place", ["damping", "steps", "tasks", "redundancy", "criteria", "collision", "retargeting"])
def test_the_error_about_a_name_that_a_submodule_exports_names_the_submodule(place: str) -> None:
    elsewhere = set(importlib.import_module(f"supple.{place}").__all__) - set(supple.__all__)
    for name in sorted(elsewhere):
        with pytest.raises(AttributeError, match=f"{name}'; it is in supple\\."):
            getattr(supple, name)


def test_velocities_of_a_step_work_without_other_imports() -> None:
    """A step computes joint velocities in a new process that imports only `supple`."""
    code = (
        "import supple; robot = supple.load('planar2'); "
        "print(supple.DLS(supple.damping.Constant(0.1)).velocities(robot, [0, 1], [0] * 6))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[0. 0.]\n"
