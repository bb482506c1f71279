"""What developers rely on: pinned tools, and the table of tuned constants."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from constants import changed, constants, definition

ROOT = Path(__file__).parents[1]


def test_pre_commit_has_the_versions_of_make_lint() -> None:
    """Another release of a formatter would change files back and forth."""
    pinned = re.findall(r'"([\w-]+==[\d.]+)"', (ROOT / "pyproject.toml").read_text())
    hooks = re.findall(r'"([\w-]+==[\d.]+)"', (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks
    assert set(hooks) <= set(pinned)


@pytest.mark.parametrize("name", constants())
def test_a_constant_is_as_the_table_says(name: str) -> None:
    file, value = constants()[name]
    found = definition(name, value).findall((ROOT / file).read_text(encoding="utf-8"))
    assert len(found) == 1, f"docs/constants.md: {name} = {value} is not defined in {file}"


@pytest.mark.parametrize("file", sorted({str(file) for file, _ in constants().values()}))
def test_the_code_refers_to_the_table(file: str) -> None:
    assert "docs/constants.md" in (ROOT / file).read_text(encoding="utf-8"), file


def test_the_bench_changes_one_number_and_nothing_else() -> None:
    text = "constexpr int window = 3, patient = 30;\nwindow = other.window;\n"
    assert changed(text, "window", "3", 2) == text.replace("window = 3,", "window = 6,")
    assert changed("part = 0.4f;", "part", "0.4f", 0.5) == "part = 0.5 * 0.4f;"
    with pytest.raises(ValueError, match="defined once"):
        changed(text, "window", "4", 2)
