"""Search for readings of Maciejewski & Klein's trajectories B, C and modified C.

The paths are not printed legibly. This script draws paths that the text allows, follows them with
the paper's methods and counts the features of the text that each one shows. The best readings are
the constants of `papers/maciejewski_klein/courses.py`, and the counts are those of mk-paths.

python tools/readings.py b --draws 200000    # about 10 minutes of one core
python tools/readings.py c --draws 2000
python tools/readings.py modified --draws 300
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

import numpy as np
from supple.papers.maciejewski_klein import crossing, families, many, paths, statements
from supple.papers.maciejewski_klein.courses import MAX_GAIN, Runs
from supple.papers.maciejewski_klein.families import Family

BATCH = 20000  # lines that are drawn at a time
TOGETHER = 250  # paths that are followed at a time


def judged(family: Family, says: paths.Statements) -> Iterator[tuple[int, dict[str, bool]]]:
    """Yield the index of each path, and whether each statement holds on it."""
    for first in range(0, len(family), TOGETHER):
        some = np.arange(first, min(first + TOGETHER, len(family)))
        part = family.only(some)
        moved = {
            name: many.follow(part.start, part.poses, step)
            for name, step in many.methods(MAX_GAIN).items()
        }
        for k in range(len(part)):
            each = {name: motions.path(k) for name, motions in moved.items()}
            runs = Runs(part.course(k), each, MAX_GAIN)
            yield first + k, {name: holds(runs) for name, (_, holds) in says.items()}


def report(found: list[tuple[int, str]], shown: Counter[str], draws: int, tried: int) -> None:
    """Print the numbers of readings and the best of them."""
    print(f"{draws} drawn, {tried} followed")
    for name, count in shown.items():
        print(f"  {name}: on {count}")
    for score, text in sorted(found, reverse=True)[:10]:
        print(score, text)


def search_b(draws: int, rng: np.random.Generator) -> None:
    """Search lines past the shoulder, whose end is near a wrist singularity."""
    found: list[tuple[int, str]] = []
    shown: Counter[str] = Counter()
    tried = 0
    for _ in range(draws // BATCH):
        for drawn in families.switching_lines(rng, BATCH):
            tried += len(drawn.family)
            for k, verdicts in judged(drawn.family, paths.OF_B):
                shown.update(name for name, holds in verdicts.items() if holds)
                missing = [name for name, holds in verdicts.items() if not holds]
                found.append((sum(verdicts.values()), f"{drawn.told(k)} lacks {missing}"))
    report(found, shown, draws, tried)


def search_c(draws: int, rng: np.random.Generator) -> None:
    """Search arcs through the triple singularity."""
    says = paths.OF_C | paths.beside_a(MAX_GAIN)
    drawn = families.circles(rng, draws)
    found: list[tuple[int, str]] = []
    shown: Counter[str] = Counter()
    for k, verdicts in judged(drawn.family, says):
        shown.update(name for name, holds in verdicts.items() if holds)
        missing = [name for name, holds in verdicts.items() if not holds]
        found.append((sum(verdicts.values()), f"{drawn.told(k)} lacks {missing}"))
    report(found, shown, draws, len(drawn.family))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("b", "c", "modified"))
    parser.add_argument("--draws", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    search = {"b": search_b, "c": search_c}[given.kind]
    search(given.draws, np.random.default_rng(given.seed))
