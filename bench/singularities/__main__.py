"""Run every method through every passage; print a summary, write tables and figures.

    PYTHONPATH=bench python -m singularities [--alone]

--alone omits the other libraries and writes nothing, because their rows would be lost.
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


def through(name: str, kind: str) -> Runs:
    """Run every method in one passage."""
    here, found = passage(name, kind), {}
    for method in METHODS:
        if method.runs_on(here.robot):
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


if __name__ == "__main__":
    main("--alone" in sys.argv[1:])
