"""Write the tables of docs/papers.md: every claim of every paper, measured on this machine.

python tools/claims.py
"""

from __future__ import annotations

from pathlib import Path

from supple.papers import EXPERIMENTS
from supple.papers.report import markdown
from supple.papers.running import find_all

DOCUMENT = Path(__file__).parents[1] / "docs/papers.md"
BEGIN = "<!-- claims: written by tools/claims.py -->\n"


def with_tables(document: str, tables: str) -> str:
    """Return the document with everything below the line BEGIN replaced by the tables."""
    return document.partition(BEGIN)[0] + BEGIN + "\n" + tables


if __name__ == "__main__":
    found = {each.name: each for each in find_all(list(EXPERIMENTS))}
    tables = markdown([found[name] for name in EXPERIMENTS])
    text = with_tables(DOCUMENT.read_text(encoding="utf-8"), tables)
    DOCUMENT.write_text(text, encoding="utf-8")
    print("written to", DOCUMENT)
