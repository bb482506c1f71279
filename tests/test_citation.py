"""The citation in README.md is that of CITATION.cff and of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def field(name: str) -> str:
    found = re.search(rf'^ *-? *{name}: "?(.*?)"?$', (ROOT / "CITATION.cff").read_text(), re.M)
    assert found, name
    return found[1]


@pytest.mark.parametrize(
    ("bibtex", "cff"), [("title", "title"), ("version", "version"), ("license", "license")]
)
def test_bibtex_agrees_with_the_citation_file(bibtex: str, cff: str) -> None:
    readme = (ROOT / "README.md").read_text()
    entry = re.search(r"^```bibtex\n(.*?)^```", readme, re.M | re.S)
    assert entry
    value = re.search(rf"^ *{bibtex} *= \{{(.*?)\}},?$", entry[1], re.M)
    assert value
    assert value[1] == field(cff)
    assert field("date-released").startswith(re.search(r"year *= \{(\d+)\}", entry[1])[1])  # type: ignore[index]
    assert field("name") in entry[1]


def test_the_version_is_that_of_the_package() -> None:
    project = re.search(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert project
    assert field("version") == project[1]
