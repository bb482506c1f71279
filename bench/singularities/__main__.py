"""Run every method through every passage; print a summary, write tables and figures.

    PYTHONPATH=bench python -m singularities [--alone | --update BEGINNING]

--alone omits the other libraries, the robots from files and the disturbed commands. Then no
files are written, because the rows of other libraries would be lost. --update replaces the rows of
the methods whose names start with BEGINNING in all tables; the figures remain those of the last
complete run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import measure

from . import figures, others, tables, tuning
from .arms import MORE, ROBOTS, more_arms
from .conditions import CONDITIONS, Command, Condition, disturbed
from .measures import Measures, measured
from .methods import METHODS, Method, run
from .passages import (
    BEYOND,
    DT,
    KINDS,
    MISS,
    MOVES,
    RESTS,
    SHORT,
    STRETCHED,
    Passage,
    passage,
)
from .peers import EXAMPLE
from .singular import Array

Place = tuple[str, str]  # robot and kind
Runs = dict[str, tuple[Measures, Array]]  # method -> measures and drawn curves
RESULTS = Path(__file__).resolve().parents[1] / "results"
PARETO = Path(__file__).resolve().parents[2] / "docs/singularities-pareto.png"
CURVES = Path(__file__).resolve().parents[2] / "build/singularities"  # a picture of each passage
STORY = {
    "wrist": "A line past a straight wrist, which it misses by "
    f"{MISS['wrist'][0]:g} rad. For iiwa14 and Panda the shoulder is straight as well.",
    "elbow": f"Out until {1e3 * SHORT:g} mm before the arm is stretched, and back.",
    "shoulder": f"A line that passes, at a distance of {1e3 * MISS['shoulder'][1]:g} mm, the pose "
    "with the wrist above the shoulder (six joints) or with a straight shoulder and the elbow "
    "sideways (seven joints).",
    "boundary": f"Outward, along the edge of the reach, {1e3 * SHORT:g} mm inside it, and back.",
    "start": "From rest in an exactly singular, stretched configuration, inwards and sideways.",
    "reach": f"Out of the reach, to a distance of {BEYOND:.0%} of the reach beyond it, and back.",
}
FORMS = ("", ", tuned")  # suffixes of the names of the other libraries
# The methods that are run on robots from files, and with disturbed commands.
SOME = (
    "Servo",
    "Servo, scale",
    "Servo, gentle",
    "DLS SpeedBound",
    "Pseudoinverse",
    "halting",
)


def through(name: str, kind: str, beginning: str = "") -> Runs:
    """Run every method in one passage, or only those whose names start with `beginning`."""
    here, found = passage(name, kind), {}
    for method in METHODS:
        if method.runs_on(here.robot) and method.name.startswith(beginning):
            q = run(method, here)
            found[method.name] = measured(here, q), figures.series(here, q)
    return found


def is_selected(method: Method, beginning: str) -> bool:
    """Return whether a method is in `SOME` and its name starts with `beginning`."""
    return method.name in SOME and method.name.startswith(beginning)


def through_more(name: str, kind: str, beginning: str = "") -> dict[str, Measures]:
    """Run the methods in `SOME` through one passage, with a robot that is read from a file."""
    here, found = passage(name, kind), {}
    for method in METHODS:
        if is_selected(method, beginning) and (here.rows == 6 or method.position):
            found[method.name] = measured(here, run(method, here))
    return found


def through_disturbed(
    name: str, kind: str, condition: Condition, beginning: str = ""
) -> dict[str, Measures]:
    """Run the methods in `SOME` in one passage with a disturbed command."""
    here = passage(name, kind, condition.dt)
    command = disturbed(here, condition)
    return {
        method.name: measured(here, run(method, here, command))
        for method in METHODS
        if is_selected(method, beginning)
    }


def over(work: Callable[..., Any], places: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the results of `work` at all places, computed in one process for each core."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, *zip(*places, strict=True)))


Inputs = dict[str, tuple[Passage, Command]]


def by_libraries(inputs: Inputs) -> list[dict[str, Measures]]:
    """Return, for each input, the measures of Pink and mink with example and tuned settings."""
    robots = list(dict.fromkeys(here.robot.name for here, _ in inputs.values()))
    both = {
        name: {robot: [list(EXAMPLE), *how] for robot, how in each.items()}
        for name, each in tuning.best(robots).items()
    }
    joints, _ = others.joints(inputs, both)
    names = {f"{name}{word}": f"{name}#{i}" for i, word in enumerate(FORMS) for name in both}
    return [
        {name: measured(here, joints[run][place]) for name, run in names.items()}
        for place, (here, _) in inputs.items()
    ]


def peers(passages: list[Passage]) -> tuple[dict[str, dict[str, Array]], list[str]]:
    """Return the joint angles by other library and passage, and notes on the libraries."""
    inputs = others.plain(passages)
    robots = list(dict.fromkeys(here.robot.name for here in passages))
    best = tuning.best(robots)
    found, notes = others.joints(inputs)
    tuned, _ = others.joints(inputs, best)
    tuned = {f"{name}, tuned": tuned[f"{name}#0"] for name in best}
    return found | tuned, notes + tuning.notes(robots)


def main(alone: bool) -> None:
    """Run all methods through all passages; print a summary, and write tables and figures."""
    places = list(product(ROBOTS, KINDS))
    found: dict[Place, Runs] = dict(zip(places, over(through, places), strict=True))
    names = [method.name for method in METHODS]
    notes = [f"- {method.name}: {method.about}." for method in METHODS]
    if not alone:
        joints, about = peers([passage(*place) for place in places])
        names, notes = [*names, *joints], [*notes, *about]
        for place, runs in found.items():
            here = passage(*place)
            for name, each in joints.items():
                q = each[str(here)]
                runs[name] = measured(here, q), figures.series(here, q)
    measures = {at: {name: run[0] for name, run in runs.items()} for at, runs in found.items()}
    lines = [
        "# Tracking through singularities",
        "",
        f"{len(found)} passages of {MOVES:g} s and {RESTS:g} s of rest, dt = {DT:g} s, commanded "
        "as a pose and a twist in each step; what each column means: docs/singularities.md.",
        measure.provenance(("supple", "numpy")),
        "",
        *tables.summary(measures.values(), names),
        *tables.smoothness(measures.values(), names),
    ]
    print("\n".join(lines))
    if alone:
        return
    figures.pareto(measures, PARETO)
    lines += ["![error against acceleration](../../docs/singularities-pareto.png)", ""]
    lines += disturbances(places)
    lines += robots_from_files()
    CURVES.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        drawn = {name: {m: run[1] for m, run in found[name, kind].items()} for name in ROBOTS}
        figures.draw(kind, drawn, CURVES / f"{kind}.svg")
        lines += [f"## {kind}", "", STORY[kind], ""]
        for name in ROBOTS:
            lines += tables.of_passage(passage(name, kind), measures[name, kind])
    lines += ["## The methods", "", *notes, ""]
    (RESULTS / "singularities.md").write_text("\n".join(lines))
    print("written to", RESULTS / "singularities.md", "and", CURVES)


def disturbances(places: list[Place]) -> list[str]:
    """Return the tables of runs with disturbed commands."""
    lines = []
    for condition in CONDITIONS:
        ours = over(through_disturbed, [(*place, condition) for place in places])
        inputs = {}
        for name, kind in places:
            here = passage(name, kind, condition.dt)
            inputs[str(here)] = here, disturbed(here, condition)
        both = [a | b for a, b in zip(ours, by_libraries(inputs), strict=True)]
        names = list(both[0])
        lines += [f"## {condition.name}", "", f"All passages, {condition.about}.", ""]
        lines += [*tables.summary(both, names), *tables.smoothness(both, names)]
    return lines


def robots_from_files() -> list[str]:
    """Return the tables of the robots whose files are available."""
    places = list(product(more_arms(), STRETCHED))
    missing = [name for name in MORE if name not in more_arms()]
    lines = ["## Robots from files", ""]
    if missing:
        lines += [f"Left out, because their files are missing: {', '.join(missing)}.", ""]
    if not places:
        return lines
    found = dict(zip(places, over(through_more, places), strict=True))
    inputs = others.plain([passage(*place) for place in places])
    for runs, theirs in zip(found.values(), by_libraries(inputs), strict=True):
        runs |= theirs
    names = list(dict.fromkeys(name for runs in found.values() for name in runs))
    lines += [
        f"{len(places)} passages of a stretched arm: {', '.join(more_arms())}. Positions alone for "
        "so100, which has five joints.",
        "",
        *tables.summary(found.values(), names),
        *tables.smoothness(found.values(), names),
        *tuning.notes(list(more_arms())),
        "",
    ]
    for name, kind in places:
        lines += tables.of_passage(passage(name, kind), found[name, kind])
    return lines


def again(beginning: str) -> dict[str, list[str]]:
    """Return new tables of the methods whose names start with `beginning`, by their headings."""
    names = [method.name for method in METHODS if method.name.startswith(beginning)]
    if not names:
        sys.exit(f"--update must select a method; given: {beginning!r}")
    some = [name for name in names if name in SOME]
    places, more = list(product(ROBOTS, KINDS)), list(product(more_arms(), STRETCHED))
    runs = over(through, [(*at, beginning) for at in places])
    found = [{name: run[0] for name, run in each.items()} for each in runs]
    from_files = over(through_more, [(*at, beginning) for at in more]) if some and more else []
    parts = {"": (found, names), "## Robots from files": (from_files, some)}
    for condition in CONDITIONS if some else ():
        each = over(through_disturbed, [(*at, condition, beginning) for at in places])
        parts[f"## {condition.name}"] = each, some
    made = {
        heading: [*tables.summary(each, which), *tables.smoothness(each, which)]
        for heading, (each, which) in parts.items()
        if each
    }
    for at, each in zip([*places, *more], [*found, *from_files], strict=False):
        chosen = {name: measures for name, measures in each.items() if name in names}
        lines = tables.of_passage(passage(*at), chosen)
        made[lines[0]] = lines
    return made


def update(beginning: str) -> None:
    """Replace the rows of the methods whose names start with `beginning` in all tables."""
    tabled, rows = again(beginning), {}
    for heading, lines in tabled.items():
        for line in lines:
            if line.startswith("| ") and not line.startswith("| |"):
                rows[heading, line.split("|")[1].strip(), line.count("|")] = line
    file, heading, lines = RESULTS / "singularities.md", "", []
    for line in file.read_text().splitlines():
        heading = line if line.startswith(("## ", "### ")) else heading
        name = line.split("|")[1].strip() if line.startswith("| ") else ""
        lines.append(rows.get((heading, name, line.count("|")), line))
    source = f"Rows of {beginning}: {measure.provenance(('supple', 'numpy'))}"
    lines = [line for line in lines if not line.startswith(f"Rows of {beginning}: ")]
    at = next(k for k, line in enumerate(lines) if line.startswith("| |"))
    lines[at - 1 : at - 1] = [source]
    file.write_text("\n".join(lines) + "\n")
    print("\n".join(tabled[""]))


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["--update"]:
        update(given[1])
    else:
        main("--alone" in given)
