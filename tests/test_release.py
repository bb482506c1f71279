"""All places that state the version, its date or the supported Pythons agree."""

from __future__ import annotations

import re
from pathlib import Path

import supple as sp
from cases import each

ROOT = Path(__file__).parents[1]
VERSION = r"(\d+\.\d+\.\d+)"


def only(pattern: str, file: str) -> str:
    """Return the text of the group in a pattern, which must match exactly once in a file."""
    (found,) = re.findall(pattern, (ROOT / file).read_text(), re.M)
    assert isinstance(found, str)
    return found


PROJECT = only(rf'^version = "{VERSION}"$', "pyproject.toml")


@each(
    ("file", "pattern"),
    [
        ("CITATION.cff", rf"^version: {VERSION}$"),
        ("README.md", rf"^ *version *= \{{{VERSION}\}},$"),
    ],
)
def test_every_file_states_the_version_of_the_project(file: str, pattern: str) -> None:
    assert only(pattern, file) == PROJECT


def test_the_package_has_the_version_of_the_project() -> None:
    assert sp.__version__ == PROJECT


def test_the_changelog_begins_with_the_version_and_its_date() -> None:
    """A section "Unreleased" with later changes may precede the section of the version."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    released = [heading for heading in headings if heading != "Unreleased"]
    assert headings.index(released[0]) <= 1
    date = only(r"^date-released: (\d{4}-\d{2}-\d{2})$", "CITATION.cff")
    assert released[0] == f"{PROJECT} ({date})"


def test_the_citation_has_the_year_of_the_release() -> None:
    assert only(r"year *= \{(\d+)\}", "README.md") == only(r"^date-released: (\d+)", "CITATION.cff")


def test_each_supported_python_has_a_wheel_and_a_classifier() -> None:
    """`requires-python` names the oldest Python that has a wheel."""
    text = (ROOT / "pyproject.toml").read_text()
    classified = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    assert classified[0] == only(r'^requires-python = ">=3\.(\d+)"$', "pyproject.toml")
    wheels = only(r'^build = "(.*)"$', "pyproject.toml").split()
    locked = [wheel for wheel in wheels if not wheel.endswith("t-*")]
    assert locked == [f"cp3{minor}-*" for minor in classified]
    # free-threaded builds are experimental before Python 3.14
    free = [f"cp3{minor}t-*" for minor in classified if int(minor) >= 14]
    assert wheels == locked + free
    tested = only(r"python: \[(.*)\]", ".github/workflows/ci.yml")
    assert set(re.findall(r'"3\.(\d+)"', tested)) <= set(classified)
    assert classified[0] in tested
    assert classified[-1] in tested
