"""The imports and includes of the code agree with the tables of docs/architecture.md."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import supple
from cases import each

ROOT = Path(__file__).parents[1]
TABLES = (ROOT / "docs/architecture.md").read_text().partition("## What may import what")[2]
ROW = re.compile(r"^\| (`[^|]+`) \| (.*) \|$", re.MULTILINE)


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def read_tables() -> list[tuple[list[str], set[str]]]:
    """Return the rows of both tables: the places of a row, and the places that they may import."""
    rows: list[tuple[list[str], set[str]]] = []
    for places, allowed in ROW.findall(TABLES):
        above = rows[-1][1] if allowed.startswith("these and ") else set()
        rows.append((names_in(places), set(names_in(allowed)) | above))
    return rows


ROWS = read_tables()
ALLOWED = {place: allowed for places, allowed in ROWS for place in places}
PLACES = {"supple.papers": ROOT / "papers", "supple": ROOT / "src/supple"}  # package -> folder
MODULES = sorted(path for folder in PLACES.values() for path in folder.rglob("*.py"))
PUBLIC = set(supple.__all__)
INCLUDE = ROOT / "include/supple"
HEADERS = sorted(INCLUDE.rglob("*.hpp"))
GROUPS = sorted(path.name + "/" for path in INCLUDE.iterdir())  # folders of headers


def module_of(path: Path) -> str:
    """Return the module name of an installed file: supple.papers.style for papers/style.py."""
    package, folder = next((k, v) for k, v in PLACES.items() if path.is_relative_to(v))
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join([package, *parts]).removesuffix(".__init__")


MODULE_NAMES = {module_of(path) for path in MODULES}


def place_of(module: str) -> str:
    """Return the place of a module in the table: supple.describe for supple.describe.urdf."""
    return ".".join(module.split(".")[:2])


@cache
def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


def imported(path: Path, types: bool = True) -> set[str]:
    """Return the modules of supple that a file imports; `types` adds imports for type checkers."""
    found: set[str] = set()
    nodes = [parsed(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            for full in (f"{node.module}.{alias.name}" for alias in node.names):
                is_module = node.module == "supple" or full in MODULE_NAMES
                found.add(full if is_module else node.module or "")
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or types:
            # Imports are statements: expressions need no visit.
            nodes += [x for x in ast.iter_child_nodes(node) if not isinstance(x, ast.expr)]
        else:
            nodes += node.orelse
    return found


def test_the_tables_of_the_architecture_page_name_every_folder() -> None:
    folders = {f"supple.{p.stem}" for p in (ROOT / "src/supple").iterdir() if is_code(p)}
    assert folders | {"supple._core", "supple.papers"} == {
        place for place in ALLOWED if place.startswith("supple.")
    }
    assert sorted(place for place in ALLOWED if place.endswith("/")) == GROUPS


def test_the_tables_of_the_architecture_page_have_at_most_25_rows() -> None:
    assert len(ROWS) <= 25


def test_a_row_of_the_architecture_tables_names_only_rows_above_it() -> None:
    above: set[str] = set()
    for places, allowed in ROWS:
        assert allowed - {"supple"} <= above, places
        above |= set(places)


def is_code(path: Path) -> bool:
    return (path.is_dir() and path.name != "__pycache__") or (
        path.suffix == ".py" and path.name != "__init__.py"
    )


@each("path", MODULES)
def test_modules_import_only_from_folders_allowed_by_the_table(path: Path) -> None:
    place = place_of(module_of(path))
    if place == "supple":
        return  # the package itself imports the public names of all folders
    theirs = {place_of(name) for name in imported(path) if name.split(".")[0] == "supple"}
    if "supple" in ALLOWED[place]:  # modules of this row may use all public names
        theirs = {"supple" if name.removeprefix("supple.") in PUBLIC else name for name in theirs}
    assert theirs <= ALLOWED[place] | {place}


def test_the_extension_module_calls_only_what_the_table_allows() -> None:
    called = re.compile(r'import_\("(supple[^"]*)"\)')
    files = (ROOT / "src/core").rglob("*.[ch]pp")
    found = {place_of(name) for path in files for name in called.findall(path.read_text())}
    assert found == ALLOWED["supple._core"]


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        module_of(path): MODULE_NAMES.intersection(imported(path, types=False)) - {"supple"}
        for path in MODULES
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


def header_name(path: Path) -> str:
    """Return the name by which a header is included: ik/iterate.hpp."""
    return path.relative_to(INCLUDE).as_posix()


def group_of(header: str) -> str:
    """Return the place of a header in the table: math/ for math/linalg/svd.hpp."""
    return header.split("/")[0] + "/"


def included(path: Path) -> set[str]:
    """Return the headers of supple that a header includes."""
    return set(re.findall(r'#include "supple/([^"]+)"', path.read_text()))


@each("group", GROUPS)
def test_headers_include_only_headers_of_allowed_groups(group: str) -> None:
    for path in sorted((INCLUDE / group).rglob("*.hpp")):
        wrong = {name for name in included(path) if group_of(name) not in ALLOWED[group] | {group}}
        assert not wrong, header_name(path)


def test_headers_do_not_include_each_other_in_a_circle() -> None:
    graph = {header_name(path): included(path) for path in HEADERS}
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


# All modules that users import, except those without `__all__`, such as `supple.torch`.
PUBLIC_MODULES = ["supple", "supple.cluster", "supple.describe", "supple.gpu"] + [
    f"supple.{name}" for name in supple.__all__ if inspect.ismodule(getattr(supple, name))
]


@each("name", PUBLIC_MODULES)
def test_dir_of_a_public_module_lists_only_documented_public_names(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    for public in module.__all__:
        assert getattr(module, public).__doc__ or public == "__version__"


def test_at_most_40_public_names_are_at_top_level() -> None:
    assert len(PUBLIC - {"__version__"}) <= 40


def test_each_public_object_is_exported_by_one_module_only() -> None:
    modules = [importlib.import_module(name) for name in PUBLIC_MODULES]
    objects = [getattr(module, name) for module in modules for name in module.__all__]
    assert len({id(one) for one in objects}) == len(objects)


def test_no_public_function_has_the_name_of_a_module() -> None:
    functions = [name for name in PUBLIC if inspect.isroutine(getattr(supple, name))]
    assert "solve" in functions
    assert not [name for name in functions if f"supple.{name}" in MODULE_NAMES]
