"""The citations in README.md and CITATION.cff agree."""

from __future__ import annotations

import re
from pathlib import Path

from cases import each

ROOT = Path(__file__).parents[1]


def field(name: str) -> str:
    found = re.search(rf'^ *-? *{name}: "?(.*?)"?$', (ROOT / "CITATION.cff").read_text(), re.M)
    assert found, name
    return found[1]


@each("name", ["title", "license"])
def test_bibtex_agrees_with_the_citation_file(name: str) -> None:
    readme = (ROOT / "README.md").read_text()
    entry = re.search(r"^```bibtex\n(.*?)^```", readme, re.M | re.S)
    assert entry
    value = re.search(rf"^ *{name} *= \{{(.*?)\}},?$", entry[1], re.M)
    assert value
    assert value[1] == field(name)
    assert field("name") in entry[1]
