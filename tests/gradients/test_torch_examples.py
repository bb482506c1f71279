"""The PyTorch examples run, and their own assertions hold."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = sorted((Path(__file__).parents[2] / "examples/pytorch").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_each_example_with_pytorch_runs_and_prints_something(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_page_on_pytorch_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs/gradients.md"
    blocks = re.findall(
        r"^```py\n(.*?)^```\n(?:```text\n(.*?)^```)?", page.read_text(), re.M | re.S
    )
    names: dict[str, object] = {}
    assert blocks
    for code, expected in blocks:
        exec(compile(code, str(page), "exec"), names)
        assert capsys.readouterr().out == expected
