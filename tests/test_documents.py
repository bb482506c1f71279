"""The code blocks of the documents run and print what is shown; links and file names exist."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import runpy
from pathlib import Path

import pytest

import supple as sp
from cases import each

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks_print_what_is_shown(document: Path) -> None:
    """The code blocks of a document are one program; a block may be followed by its output."""
    names: dict[str, object] = {}
    for code, expected in BLOCK.findall(document.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(document), "exec"), names)
        assert printed.getvalue() == expected


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "notebook", sorted(ROOT.glob("examples/*.ipynb")), ids=lambda path: path.name
)
def test_notebooks_run(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The code cells of a notebook are one program, whose figures are drawn but not shown."""
    import matplotlib as mpl

    mpl.use("Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs must not be stored"
    for k, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {k}", "exec"), names)
    assert capsys.readouterr().out
    import matplotlib.pyplot as plt

    assert plt.get_fignums(), "no figure was drawn"
    plt.close("all")


@each("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_the_documents_lead_to_existing_files(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def listed_in(page: Path) -> list[str]:
    """Return the pages that the tables of contents of a page list, as paths below docs/."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.M | re.S)
    return [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]


def test_the_site_lists_every_page() -> None:
    """Each page is listed once; Sphinx reports missing pages only when it runs."""
    pages = [path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")]
    names = [path.with_suffix("").as_posix() for path in pages]
    listed = [each for path in ROOT.glob("docs/**/*.md") for each in listed_in(path)]
    assert sorted([*listed, "index"]) == sorted(names)


def test_the_reference_has_every_public_name() -> None:
    pages = "\n".join(path.read_text() for path in ROOT.glob("docs/api/*.md"))
    modules = {name for name in sp.__all__ if inspect.ismodule(getattr(sp, name))}
    for name in set(sp.__all__) - modules - {"__version__"}:
        assert re.search(rf"^\.\. auto\w+:: (supple\.)?{name}$", pages, re.M), name
    for name in modules | {"cluster"}:
        assert f".. automodule:: supple.{name}\n" in pages, name


def test_no_page_of_the_documents_loads_anything_from_another_host() -> None:
    """Diagrams are text or pictures in docs/, because Mermaid would load a script."""
    for page in DOCUMENTS:
        assert "```mermaid" not in page.read_text(), page.name
        assert not re.search(r"!\[[^]]*\]\(https?:", page.read_text()), page.name


def test_the_table_of_places_names_at_most_five_existing_files_per_row() -> None:
    """This is the table "to find" in docs/architecture.md, which has few rows."""
    folders = [ROOT / name for name in ("src", "include", "papers")]
    everything = [f"{path}" for folder in folders for path in folder.rglob("*.[hcp]*")]
    table = (ROOT / "docs/architecture.md").read_text().partition("| to find")[2].partition("##")[0]
    rows = [row for row in table.splitlines()[2:] if row]
    assert len(rows) <= 25, "docs/architecture.md: the table of places is too long to find one"
    for row in rows:
        named = re.findall(r"`([\w./]+\.(?:py|hpp|cpp|cu))`", row)
        missing = [name for name in named if not any(p.endswith(f"/{name}") for p in everything)]
        assert not missing, f"docs/architecture.md: {missing} does not exist"
        assert len(named) <= 5, f"docs/architecture.md: a row names {len(named)} files: {row}"
