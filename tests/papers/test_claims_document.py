"""The tables of docs/papers.md agree with the outcomes of the experiments."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from supple.papers import EXPERIMENTS, Outcome
from supple.papers.experiment import OWN
from supple.papers.report import markdown
from supple.papers.running import Finding

from sizes import NIGHTLY

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")
TIMED = "µs"  # times, and verdicts on them, differ between machines
SHARE = re.compile(r"(?P<statement>.*) \| on (?P<percent>\d+)% of (?P<paths>\d+) paths \|")
VERDICT = re.compile("✓ holds|✗ does not|[?] undecided")


def assert_alike(one: re.Match[str], other: re.Match[str]) -> None:
    """Check that two rows have the same statement, and that their shares differ no more than by
    chance.
    """
    assert one["statement"] == other["statement"], "python tools/claims.py"
    p, q = (int(row["percent"]) / 100 for row in (one, other))
    m, n = (int(row["paths"]) for row in (one, other))
    mean = (m * p + n * q) / (m + n)
    chance = (mean * (1 - mean) * (1 / m + 1 / n)) ** 0.5
    assert abs(p - q) <= 4 * chance + 0.02, "python tools/claims.py"


def test_the_tables_of_the_papers_page_are_up_to_date(ran: Callable[[str], Outcome]) -> None:
    """Words of the document equal those of new tables; numbers agree to 5 % or 1e-6. The sentence
    above the tables states the number of rows with each verdict.
    """
    tool = runpy.run_path(str(ROOT / "tools/claims.py"))
    findings = [Finding(name, {}, ran(name).claims, b"", 0.0) for name in EXPERIMENTS]
    document = tool["DOCUMENT"].read_text(encoding="utf-8")
    shown = document.partition(tool["BEGIN"])[2].strip().splitlines()
    now = markdown(findings).strip().splitlines()
    assert len(shown) == len(now), "python tools/claims.py"
    own, papers = (
        [found[0] for line in shown if (found := VERDICT.findall(line)) and (OWN in line) == which]
        for which in (True, False)
    )
    said = [int(number) for number in NUMBER.findall(shown[0])]
    holding = [x.count("✓ holds") for x in (papers, own)]
    undecided = papers.count("? undecided")
    counted = [holding[0], len(papers), undecided, len(EXPERIMENTS), holding[1], len(own)]
    assert said == counted
    for ours, theirs in zip(now[1:], shown[1:], strict=True):
        shares = [SHARE.search(line) for line in (ours, theirs)]
        if all(shares) and not NIGHTLY:  # an ordinary run draws fewer paths, so its shares differ
            assert_alike(*shares)
            continue
        if TIMED in ours:
            ours, theirs = (VERDICT.sub("", line) for line in (ours, theirs))
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs), "python tools/claims.py"
        if TIMED not in ours:
            old, new = ([float(x) for x in NUMBER.findall(line)] for line in (theirs, ours))
            assert new == pytest.approx(old, rel=0.05, abs=1e-6), "python tools/claims.py"
