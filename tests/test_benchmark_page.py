"""The times in docs/benchmarks.md are those of the result files."""

from __future__ import annotations

import re
from pathlib import Path

from cases import each

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/benchmarks.md").read_text()
ROWS = [line for line in PAGE.splitlines() if "bench/results" in line and line.startswith("|")]
TIME = re.compile(r"([0-9.]+) (?:µs|ns)")


@each("row", ROWS)
def test_both_times_of_a_row_are_in_its_result_file(row: str) -> None:
    """The result file has both times in one paragraph or table."""
    (name,) = re.findall(r"\.\./(bench/results/[^)]*)\)", row)
    results = (ROOT / name).read_text()
    times = TIME.findall(row)
    assert len(times) == 2
    tables = [table for table in results.split("\n\n") if all(holds(table, t) for t in times)]
    assert tables, f"{times} are not in one paragraph of {name}"


def holds(text: str, number: str) -> bool:
    return re.search(rf"(?<![0-9.]){re.escape(number)}(?![0-9.]*[0-9])", text) is not None


def test_the_benchmark_page_shows_rows_where_other_libraries_are_ahead() -> None:
    ratios = [float(row.split("|")[4]) for row in ROWS]
    assert len(ratios) >= 10
    assert sum(ratio <= 1 for ratio in ratios) >= 3


def test_times_outside_the_table_are_in_some_result_file() -> None:
    text = PAGE[PAGE.index("## Where others") :]
    results = "\n".join(file.read_text() for file in (ROOT / "bench/results").glob("*.md"))
    assert TIME.findall(text)
    assert all(holds(results, number) for number in TIME.findall(text))
