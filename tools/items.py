"""Write all items of the five texts into docs/papers.md, and the number of items by verdict into
README.md.

python tools/items.py           # from papers/items.toml
python tools/items.py --check   # write nothing; fail if a document differs
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
DATA = ROOT / "papers/items.toml"
BEGIN = "<!-- items: written by tools/items.py -->\n"
END = "<!-- items: end -->\n"

TEXTS = {
    "W": "Wampler 1986",
    "MK": "Maciejewski & Klein 1988",
    "DW": "Deo & Walker 1995",
    "B": "Buss 2009",
    "N": "The note",
}
KINDS = ("equation", "algorithm", "recommendation", "experiment", "figure", "claim")
VERDICTS = {
    "works": "works",
    "text wrong": "the text is wrong",
    "undecided": "cannot be decided",
    "impossible": "impossible",
    "not yet": "not yet",
}


@dataclass(frozen=True)
class Item:
    """An equation, claim or other item of a paper; `papers/items.toml` explains the fields."""

    paper: str
    at: str
    kind: str
    what: str
    verdict: str
    api: tuple[str, ...] = ()
    experiment: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    mutant: tuple[str, ...] = ()
    why: str = ""


def items(text: str | None = None) -> list[Item]:
    """Return all items, in the order of the file."""
    given = tomllib.loads(DATA.read_text("utf-8") if text is None else text)
    return [
        Item(paper, **{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
        for paper, entries in given.items()
        for entry in entries
    ]


def tables(every: Iterable[Item]) -> str:
    """Return the generated tables of docs/papers.md, which stand between two marks."""
    every = list(every)
    parts = [counts(every)]
    for paper, name in TEXTS.items():
        rows = [_row(item) for item in every if item.paper == paper]
        heading = "| at | kind | item | in supple | tests | verdict |\n|---|---|---|---|---|---|\n"
        parts.append(f"### {name}\n\n{heading}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def counts(every: list[Item]) -> str:
    """Return the number of items of each text by verdict, as a table."""
    lines = [
        f"| text | items | {' | '.join(VERDICTS.values())} |",
        "|---|" + "---:|" * (1 + len(VERDICTS)),
    ]
    for paper, name in [*TEXTS.items(), ("", "**all**")]:
        some = [item for item in every if item.paper == paper or not paper]
        found = Counter(item.verdict for item in some)
        link = f"[{name}](#{anchor(name)})" if paper else name
        numbers = [len(some), *(found[verdict] for verdict in VERDICTS)]
        lines.append(f"| {link} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines) + "\n"


def sentence(every: list[Item]) -> str:
    """Return the number of items by verdict, as the sentence of README.md."""
    found = Counter(item.verdict for item in every)
    return (
        f"Of the {len(every)} equations, algorithms, recommendations, experiments, figures and "
        f"claims of the five texts, {found['works']} work,\n"
        f"{found['text wrong']} are wrong in the text, {found['undecided']} cannot be decided from "
        f"the text, {found['impossible']} {_are(found['impossible'])} impossible and "
        f"{found['not yet']} {_are(found['not yet'])}\n"
        "missing: [the papers](docs/papers.md) says where each is.\n"
    )


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def anchor(heading: str) -> str:
    """Return the address of a heading within its page, as GitHub makes it."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _row(item: Item) -> str:
    places = [f"`{name}`" for name in item.api]
    places += [f"`supple paper {name}`" for name in item.experiment]
    tests = [
        f"[`{name.removeprefix('test_')}`](../{path})"
        for path, name in (test.split("::") for test in item.test)
    ]
    verdict = VERDICTS[item.verdict] + (f": {item.why}" if item.why else "")
    cells = (item.at, item.kind, item.what, "<br>".join(places), "<br>".join(tests), verdict)
    return "| " + " | ".join(cell.replace("|", r"\|").replace("*", r"\*") for cell in cells) + " |"


def documents(every: list[Item]) -> dict[Path, str]:
    """Return, for each document, the text that belongs between its marks."""
    return {ROOT / "docs/papers.md": tables(every), ROOT / "README.md": sentence(every)}


def written(document: str, part: str) -> str:
    """Return a document with the part between its marks replaced."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"a document must have the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Write the documents, or, with --check, check that they are up to date."""
    code = 0
    for path, part in documents(items()).items():
        old = path.read_text("utf-8")
        new = written(old, part)
        if "--check" not in arguments:
            path.write_text(new, "utf-8")
        elif old != new:
            print(f"{path.relative_to(ROOT)} is not up to date: python tools/items.py")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
