"""Run every method through every passage; print a summary, write tables and figures.

    PYTHONPATH=bench python -m singularities [--alone | --update BEGINNING]

--alone omits the other libraries and writes nothing, because their rows would be lost. --update
replaces the rows of the methods whose names begin so, which no figure may show.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import measure

from . import figures, others, tables
from .arms import ROBOTS
from .measures import Measures, measured
from .methods import METHODS, run
from .passages import BEYOND, DT, KINDS, MISS, MOVES, RESTS, SHORT, passage
from .singular import Array

Runs = dict[str, tuple[Measures, Array]]  # by method: measures and drawn curves
RESULTS = Path(__file__).resolve().parents[1] / "results"
STORY = {
    "wrist": "A line past a straight wrist, which it misses by "
    f"{MISS['wrist'][0]:g} rad. For iiwa14 and Panda the shoulder is straight as well.",
    "elbow": f"Out until {1e3 * SHORT:g} mm before the arm is stretched, and back.",
    "shoulder": "A line past the wrist's place above the shoulder (six joints), or past a straight "
    f"shoulder with the elbow sideways (seven), missed by {1e3 * MISS['shoulder'][1]:g} mm.",
    "boundary": f"Out, along the edge of the reach, {1e3 * SHORT:g} mm inside it, and back in.",
    "start": "At rest, stretched out, exactly singular; then inwards and sideways.",
    "reach": f"Out to {BEYOND:.0%} of the reach beyond it, and back.",
}


def through(name: str, kind: str, beginning: str = "") -> Runs:
    """Run every method in one passage, or those whose names begin in some way."""
    here, found = passage(name, kind), {}
    for method in METHODS:
        if method.runs_on(here.robot) and method.name.startswith(beginning):
            q = run(method, here)
            found[method.name] = measured(here, q), figures.series(here, q)
    return found


def collected(alone: bool) -> tuple[dict[tuple[str, str], Runs], list[str], list[str]]:
    """Return all runs by robot and kind, the names of all methods, and a note about each."""
    places = [(name, kind) for name in ROBOTS for kind in KINDS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(places, pool.map(through, *zip(*places, strict=True)), strict=True))
    names = [method.name for method in METHODS]
    notes = [f"- {method.name}: {method.about}." for method in METHODS]
    if not alone:
        peers, about = others.joints([passage(*place) for place in places])
        names, notes = [*names, *peers], [*notes, *about]
        for place, runs in found.items():
            here = passage(*place)
            for peer, joints in peers.items():
                q = joints[str(here)]
                runs[peer] = measured(here, q), figures.series(here, q)
    return found, names, notes


def main(alone: bool) -> None:
    """Run, print, write."""
    found, names, notes = collected(alone)
    measures = {at: {name: run[0] for name, run in runs.items()} for at, runs in found.items()}
    lines = [
        "# Tracking through singularities",
        "",
        f"{len(found)} passages of {MOVES:g} s and {RESTS:g} s of rest, dt = {DT:g} s, commanded "
        "as a pose and a twist in each step; what each column means: docs/singularities.md.",
        measure.provenance(("supple", "numpy")),
        "",
        *tables.summary(measures.values(), names),
    ]
    print("\n".join(lines))
    if alone:
        return
    (RESULTS / "singularities").mkdir(exist_ok=True)
    for kind in KINDS:
        drawn = {name: {m: run[1] for m, run in found[name, kind].items()} for name in ROBOTS}
        figures.draw(kind, drawn, RESULTS / f"singularities/{kind}.svg")
        lines += [f"## {kind}", "", STORY[kind], "", f"![{kind}](singularities/{kind}.svg)", ""]
        for name in ROBOTS:
            lines += tables.of_passage(passage(name, kind), measures[name, kind])
    lines += ["## The methods", "", *notes, ""]
    (RESULTS / "singularities.md").write_text("\n".join(lines))
    print("written to", RESULTS / "singularities.md")


def update(beginning: str) -> None:
    """Replace the rows of some methods in all tables."""
    names = [method.name for method in METHODS if method.name.startswith(beginning)]
    if not names or set(names) & set(figures.SHOWN):
        sys.exit(f"no methods, or some that figures show; given: {beginning!r}, which are {names}")
    places = [(name, kind) for name in ROBOTS for kind in KINDS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(through, *zip(*places, strict=True), [beginning] * len(places))
        found = {
            at: {name: run[0] for name, run in each.items()}
            for at, each in zip(places, runs, strict=True)
        }
    tabled = [tables.summary(found.values(), names)]
    tabled += [tables.of_passage(passage(*at), measures) for at, measures in found.items()]
    rows = {}  # by heading of the section and name of the method
    for lines in tabled:
        heading = next((line for line in lines if line.startswith("### ")), "")
        rows |= {(heading, line.split("|")[1].strip()): line for line in lines if line[:2] == "| "}
    file, heading, lines = RESULTS / "singularities.md", "", []
    for line in file.read_text().splitlines():
        heading = (
            line if line.startswith("#") and line != "# Tracking through singularities" else heading
        )
        name = line.split("|")[1].strip() if line.startswith("| ") else ""
        lines.append(rows.get((heading, name), line) if name in names else line)
    source = f"Rows of {beginning}: {measure.provenance(('supple', 'numpy'))}"
    lines = [line for line in lines if not line.startswith(f"Rows of {beginning}: ")]
    at = next(k for k, line in enumerate(lines) if line.startswith("| |"))
    lines[at - 1 : at - 1] = [source]
    file.write_text("\n".join(lines) + "\n")
    print("\n".join(tabled[0]))


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["--update"]:
        update(given[1])
    else:
        main("--alone" in given)
