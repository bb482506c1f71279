"""docs/papers.md shows the claims as they are."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from supple.papers import EXPERIMENTS, Outcome
from supple.papers.report import markdown
from supple.papers.running import Finding

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")
TIMED = "µs"  # on another machine these are others


def test_the_tables_are_up_to_date(ran: Callable[[str], Outcome]) -> None:
    """Word for word; numbers within 5 %, and those of rounding errors in no digit."""
    tool = runpy.run_path(str(ROOT / "tools/claims.py"))
    findings = [Finding(name, {}, ran(name).claims, b"", 0.0) for name in EXPERIMENTS]
    document = tool["DOCUMENT"].read_text()
    shown = document.partition(tool["BEGIN"])[2].strip().splitlines()
    now = markdown(findings).strip().splitlines()
    assert len(shown) == len(now), "python tools/claims.py"
    for ours, theirs in zip(now, shown, strict=True):
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs), "python tools/claims.py"
        if TIMED not in ours:
            old, new = ([float(x) for x in NUMBER.findall(line)] for line in (theirs, ours))
            assert new == pytest.approx(old, rel=0.05, abs=1e-6), "python tools/claims.py"
