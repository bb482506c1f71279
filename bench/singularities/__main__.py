"""Leads every method through every passage; prints a summary, writes tables and figures.

    PYTHONPATH=bench python -m singularities [--alone]

--alone leaves the other libraries out, and writes nothing: their rows would be lost.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import measure

from . import figures, others, tables
from .measures import Measures, measured
from .methods import METHODS, run
from .passages import BEYOND, DT, KINDS, MISS, MOVES, RESTS, ROBOTS, SHORT, passage
from .singular import Array

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


def through(name: str, kind: str) -> dict[str, tuple[Measures, Array]]:
    """Every method here in one passage: its measures, and what is drawn of it."""
    here, found = passage(name, kind), {}
    for method in METHODS:
        if method.runs_on(here.robot):
            q = run(method, here)
            found[method.name] = measured(here, q), figures.series(here, q)
    return found


def main(alone: bool) -> None:
    """Run, print, write."""
    places = [(name, kind) for name in ROBOTS for kind in KINDS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(places, pool.map(through, *zip(*places, strict=True)), strict=True))
    notes = [f"- {method.name}: {method.about}." for method in METHODS]
    names = [method.name for method in METHODS]
    if not alone:
        peers, about = others.joints([passage(*place) for place in places])
        names, notes = [*names, *peers], [*notes, *about]
        for place in places:
            here = passage(*place)
            for peer, joints in peers.items():
                q = joints[str(here)]
                found[place][peer] = measured(here, q), figures.series(here, q)
    runs = {
        str(passage(*place)): {m: each[0] for m, each in found[place].items()} for place in places
    }
    lines = [
        "# Tracking through singularities",
        "",
        f"{len(places)} passages of {MOVES:g} s and {RESTS:g} s of rest, dt = {DT:g} s, commanded "
        "as a pose and a twist in each step; what each column means: docs/singularities.md.",
        measure.provenance(("supple", "numpy")),
        "",
        *tables.summary(runs, names),
    ]
    print("\n".join(lines))
    if alone:
        return
    (RESULTS / "singularities").mkdir(exist_ok=True)
    for kind in KINDS:
        drawn = {
            str(passage(n, kind)): {m: x[1] for m, x in found[n, kind].items()} for n in ROBOTS
        }
        figures.draw(kind, drawn, RESULTS / f"singularities/{kind}.svg")
        lines += [f"## {kind}", "", STORY[kind], "", f"![{kind}](singularities/{kind}.svg)", ""]
        for name in ROBOTS:
            lines += tables.of_passage(passage(name, kind), runs[str(passage(name, kind))])
    lines += ["## The methods", "", *notes, ""]
    (RESULTS / "singularities.md").write_text("\n".join(lines))
    print("written to", RESULTS / "singularities.md")


if __name__ == "__main__":
    main("--alone" in sys.argv[1:])
