"""All names in papers/items.toml exist, and the documents agree with this file."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import sys
import types
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from supple.papers import EXPERIMENTS, PAPERS

import supple

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/items.py"))
ITEMS = TOOL["items"]()
sys.path.insert(0, str(ROOT / "tools"))
mutants = importlib.import_module("mutants")
MUTANTS = {mutant.name: mutant for mutant in mutants.load()}
of_each_text = pytest.mark.parametrize("paper", PAPERS)


def resolved(name: str) -> None:
    """Raise AttributeError unless a public name exists, with the arguments in
    parentheses after it.
    """
    dotted, _, arguments = name.removesuffix(")").partition("(")
    found: Any = supple
    for part in dotted.split("."):
        if isinstance(found, types.ModuleType):
            if part not in found.__all__:
                raise AttributeError(f"{part!r} is not a public name of {found.__name__}")
            found = getattr(found, part)
        elif part.startswith("_"):
            raise AttributeError(f"{part!r} is not public")
        elif part not in getattr(found, "__dataclass_fields__", ()):
            found = getattr(found, part)
    known = inspect.signature(found).parameters if arguments else {}
    for argument in filter(None, re.split(r",\s*", arguments)):
        if argument not in known:
            raise AttributeError(f"{dotted} has no argument {argument!r}; has: {', '.join(known)}")


@cache
def functions_in(path: str) -> frozenset[str]:
    """Return the names of the functions that a file defines, without importing the file."""
    body = ast.parse((ROOT / path).read_text("utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def lacking(item: Any) -> Iterator[str]:
    """Yield descriptions of missing or invalid fields of an item."""
    if item.kind not in TOOL["KINDS"]:
        yield f"kind {item.kind!r}"
    if item.verdict not in TOOL["VERDICTS"]:
        yield f"verdict {item.verdict!r}"
    if not item.at or not item.what:
        yield "no reference or description"
    if item.verdict in ("works", "text wrong", "undecided"):
        if not item.test:
            yield "no test"
        if not item.api and not item.experiment:
            yield "no place"
    if item.verdict != "works" and not item.why:
        yield "no reason"


def leading_nowhere(item: Any) -> Iterator[str]:
    """Yield the names of functions, experiments and tests in an item that do not exist."""
    for name in item.api:
        try:
            resolved(name)
        except AttributeError as error:
            yield f"{name}: {error}"
    yield from set(item.experiment) - set(EXPERIMENTS)
    for test in item.test:
        path, _, name = test.partition("::")
        if not (ROOT / path).is_file() or name not in functions_in(path):
            yield test


def unguarded(item: Any) -> Iterator[str]:
    """Yield reasons why breaking the code that an item names might not make one of its tests fail.

    `make mutants` runs the mutants. An item without a test, for example about something impossible,
    needs no mutant.
    """
    if item.test and not item.mutant:
        yield "no mutant"
    for name in item.mutant:
        if name not in MUTANTS:
            yield f"no mutant {name}"
        elif not {test.partition("[")[0] for test in MUTANTS[name].tests} & set(item.test):
            yield f"no test of the mutant {name}"


@of_each_text
@pytest.mark.parametrize("faults", [lacking, leading_nowhere, unguarded])
def test_items_of_the_papers_are_complete_and_name_existing_things(paper: str, faults: Any) -> None:
    some = [item for item in ITEMS if item.paper == paper]
    assert some
    found = {f"{item.at}: {item.what}": list(faults(item)) for item in some}
    assert not {item: problems for item, problems in found.items() if problems}


def test_faults_in_the_list_of_items_are_detected() -> None:
    Item = TOOL["Item"]
    bad = Item("W", "", "poem", "", "perhaps")
    assert len(list(lacking(bad))) == 4
    assert list(lacking(Item("W", "(1)", "claim", "x", "works"))) == ["no test", "no place"]
    assert list(lacking(Item("W", "(1)", "claim", "x", "not yet"))) == ["no reason"]
    missing = list(lacking(Item("W", "(1)", "claim", "x", "undecided")))
    assert missing == ["no test", "no place", "no reason"]
    wrong = ("damping.Nothing", "motion.damping", "DLS(nothing)", "DLS._call", "Servo(dt, nothing)")
    here = "tests/papers/test_items.py::"
    tests = (
        here + "test_nothing",
        "tests/none.py::test_x",
        here + "test_faults_in_the_list_of_items_are_detected",
    )
    item = Item("W", "(1)", "claim", "x", "works", (*wrong, "DLS(rule)"), ("w-none",), tests)
    assert len(list(leading_nowhere(item))) == len(wrong) + 1 + 2
    assert list(unguarded(item)) == ["no mutant"]
    known = next(iter(MUTANTS))
    item = Item("W", "(1)", "claim", "x", "works", test=tests, mutant=(known, "none"))
    assert list(unguarded(item)) == [f"no test of the mutant {known}", "no mutant none"]


def test_every_mutant_in_the_files_for_items_is_named_by_an_item() -> None:
    """The files for items are those in tools/mutants/items."""
    lists = mutants.lists().items()
    listed = {mutant.name for path, each in lists if path.startswith("items/") for mutant in each}
    assert len(listed) > 100
    assert not listed - {name for item in ITEMS for name in item.mutant}


def test_no_item_of_the_papers_is_listed_twice() -> None:
    seen = Counter((item.paper, item.at, item.what) for item in ITEMS)
    assert max(seen.values()) == 1
    assert list(dict.fromkeys(item.paper for item in ITEMS)) == list(TOOL["TEXTS"]) == list(PAPERS)


def test_every_experiment_and_every_rule_and_step_with_references_is_named_by_an_item() -> None:
    assert {name for item in ITEMS for name in item.experiment} == set(EXPERIMENTS)
    named = {name.partition("(")[0] for item in ITEMS for name in item.api}
    own = {"damping.ErrorNorm"}  # this default of `solve` is not from a paper
    for module in ("damping", "steps", "tasks", "redundancy", "criteria"):
        public = importlib.import_module(f"supple.{module}")
        for name in public.__all__:
            value = getattr(public, name)
            doc = (inspect.getdoc(value) or "") if inspect.isclass(value) else ""
            if "References:" in doc and f"{module}.{name}" not in own:
                assert any(known.startswith(f"{module}.{name}") for known in named), name


@pytest.mark.parametrize("document", TOOL["documents"](ITEMS), ids=lambda path: path.name)
def test_the_pages_on_the_papers_are_equal_to_those_that_the_tool_writes(document: Path) -> None:
    text = document.read_text("utf-8")
    assert text == TOOL["written"](text, TOOL["documents"](ITEMS)[document]), "tools/items.py"


def test_counts_in_both_pages_on_the_papers_are_the_numbers_of_rows_and_items() -> None:
    """The sentences with counts are in both documents."""

    def part(document: str) -> str:
        text = (ROOT / document).read_text("utf-8")
        return text.partition(TOOL["BEGIN"])[2].partition(TOOL["END"])[0]

    page = part("docs/papers.md")
    rows = [line for each in page.split("### ")[1:] for line in each.splitlines()[4:] if line]
    last = [re.split(r"(?<!\\)\|", row)[-2].strip() for row in rows]
    said = [sum(cell.startswith(words) for cell in last) for words in TOOL["VERDICTS"].values()]
    (total,) = (line for line in page.splitlines() if line.startswith("| **all**"))
    assert [int(x) for x in re.findall(r"\d+", total)] == [len(rows), *said]
    assert [int(x) for x in re.findall(r"\d+", part("README.md"))] == [len(rows), *said]
