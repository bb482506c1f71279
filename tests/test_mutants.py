"""The list of mutants matches the sources and tests; `make mutants` runs the mutants."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cases import each

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
mutants = pytest.importorskip("mutants", reason="reads TOML, which Python does from 3.11 on")

MUTANTS = mutants.load()


def test_every_mutant_names_an_existing_text_and_test() -> None:
    for mutant in MUTANTS:
        mutants.check(mutant)  # an error names the mutant


def test_there_are_at_least_60_mutants_with_distinct_numbers() -> None:
    assert len(MUTANTS) >= 60
    assert len({mutant.number for mutant in MUTANTS}) == len(MUTANTS)


@each(
    ("wrong", "says"),
    [
        ({"old": "nowhere to be found"}, "a-mutant: old must occur once .* found: 0"),
        ({"old": "\n"}, "a-mutant: old must occur once"),
        ({"file": "src/none.py"}, "a-mutant: the file .* does not exist"),
        ({"test": "tests/test_none.py::test"}, "a-mutant: the test file .* does not exist"),
        ({"test": "tests/test_mutants.py::test_none"}, "a-mutant: .* has no test test_none"),
    ],
)
def test_the_error_about_an_outdated_mutant_names_it(wrong: dict[str, str], says: str) -> None:
    test = "tests/test_mutants.py::test_the_error_about_an_outdated_mutant_names_it"
    good = {"file": "Makefile", "old": "PYTHON ?=", "new": "", "test": test}
    mutants.check(mutants.read("a-mutant", dict(good)))
    with pytest.raises(mutants.StaleError, match=says):
        mutants.check(mutants.read("a-mutant", good | wrong))


def test_texts_of_compiled_mutants_do_not_overlap() -> None:
    """One build contains all compiled mutants, so two of their texts are equal or disjoint."""
    compiled = [m for m in mutants.load() if not m.python]
    for file in {m.file for m in compiled}:
        text = (mutants.ROOT / file).read_text("utf-8")
        mutants.switched(text, [m for m in compiled if m.file == file])  # raises if texts overlap


def test_brackets_in_texts_of_compiled_mutants_match() -> None:
    """A switch can select only whole expressions or statements, whose brackets match."""
    for mutant in MUTANTS:
        for text in () if mutant.python else (mutant.old, mutant.new):
            for left, right in ("()", "[]", "{}"):
                assert text.count(left) == text.count(right), mutant.name


def of(name: str, old: str, new: str) -> mutants.Mutant:
    return mutants.Mutant(name, "a.hpp", old, new, ())


def test_mutated_expressions_and_statements_become_switches() -> None:
    text = "int f(int a) { g(); return a + 1; }"
    one, two, call = of("one", "a + 1", "a"), of("two", "a + 1", "0"), of("call", "g();", "")
    made = mutants.switched(text, [one, two, call]).removeprefix(mutants.SWITCH)
    first, second, third = (f"SUPPLE_MUTANT({m.number})" for m in (one, two, call))
    choice = f"({second} ? (0) : (({first} ? (a) : (a + 1))))"
    assert made == f"int f(int a) {{ if ({third}) {{  }} else {{ g(); }} return {choice}; }}"
    with pytest.raises(mutants.StaleError, match="overlaps"):
        mutants.switched(text, [one, of("wide", "return a + 1", "return a")])
