"""The code blocks of the documents run and print what is shown; links and file names exist."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
from pathlib import Path

import pytest

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
    """The code cells are one program; its figures are drawn, but not shown."""
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_site_lists_every_page() -> None:
    """docs/index.md lists each page once; Sphinx reports missing pages only when it runs."""
    trees = re.findall(
        r"^```\{toctree\}\n(.*?)^```", (ROOT / "docs/index.md").read_text(), re.M | re.S
    )
    listed = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    pages = {path.stem for path in ROOT.glob("docs/*.md")} - {"index"}
    assert sorted(listed) == sorted(pages)


def test_the_map_names_few_files_that_exist() -> None:
    """Each row of the table "to find" in docs/architecture.md names at most five existing files."""
    folders = [ROOT / name for name in ("src", "include", "papers")]
    everything = [f"{path}" for folder in folders for path in folder.rglob("*.[hcp]*")]
    table = (ROOT / "docs/architecture.md").read_text().partition("| to find")[2].partition("##")[0]
    for row in table.splitlines()[2:]:
        named = re.findall(r"`([\w./]+\.(?:py|hpp|cpp|cu))`", row)
        missing = [name for name in named if not any(p.endswith(f"/{name}") for p in everything)]
        assert not missing, f"docs/architecture.md: {missing} does not exist"
        assert len(named) <= 5, f"docs/architecture.md: a row names {len(named)} files: {row}"
