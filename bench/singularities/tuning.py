"""Tune other libraries: find the best of a grid of settings for each robot.

    PYTHONPATH=bench python -m singularities.tuning [ROBOT ...]     # runs the grid, writes the best

Pink supports an acceleration limit, which is set to `SMOOTH`; mink has no such limit. The best
settings have the smallest mean error over the passages of a robot, among those that keep all
accelerations below `SMOOTH`. If no settings do, the smoothest settings are the best.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np

from . import others
from .arms import ROBOTS, more_arms
from .measures import Measures, measured
from .passages import KINDS, STRETCHED, Passage, passage
from .peers import GRID, Settings
from .singular import Array

SMOOTH = 60.0  # acceleration limit [rad/s²]
LIBRARIES = ("Pink", "mink")
BEST = Path(__file__).with_name("tuned.json")


def tried(library: str) -> list[list[float]]:
    """Return the settings that are tried with a library."""
    limit = {"Pink": SMOOTH, "mink": 0.0}[library]
    return [list(how._replace(acceleration=limit)) for how in GRID]


def rank(runs: list[Measures]) -> tuple[bool, float]:
    """Return a sort key of the runs with some settings; better settings have smaller keys."""
    worst = max(m.acceleration for m in runs)
    rough = worst > SMOOTH * (1 + 1e-6)
    return rough, worst if rough else float(np.mean([m.position_rms for m in runs]))


def best_of(name: str, passages: list[Passage], found: Mapping[str, Mapping[str, Array]]) -> int:
    """Return the index of the best settings of a library for one robot."""
    ranks = [
        rank([measured(here, found[f"{name}#{i}"][str(here)]) for here in passages])
        for i in range(len(tried(name)))
    ]
    return ranks.index(min(ranks))


def tune(passages: list[Passage]) -> others.Settings:
    """Return the best settings of each library for the robot of the passages."""
    robot = passages[0].robot.name
    grid = {name: {robot: tried(name)} for name in LIBRARIES}
    found, _ = others.joints(others.plain(passages), grid)
    return {name: {robot: [tried(name)[best_of(name, passages, found)]]} for name in LIBRARIES}


def best(robots: list[str]) -> others.Settings:
    """Return the best settings, as stored by an earlier run."""
    known = json.loads(BEST.read_text())
    return {name: {robot: known[name][robot] for robot in robots} for name in LIBRARIES}


def notes(robots: list[str]) -> list[str]:
    """Return the best settings in words."""
    lines = []
    for name, chosen in best(robots).items():
        words = []
        for robot, (how,) in chosen.items():
            shown = Settings(*how)
            limit = f", acceleration {shown.acceleration:g}" if shown.acceleration else ""
            words.append(f"{robot} gain {shown.gain:g}, damping {shown.damping:g}{limit}")
        lines.append(
            f"- {name}, tuned: the tasks of the example, with the best of {len(tried(name))} "
            f"settings for each robot: of those that keep accelerations below {SMOOTH:g} rad/s², "
            "the one with the smallest mean error; if none does, the smoothest: "
            f"{'; '.join(words)}."
        )
    return lines


def main(robots: list[str]) -> None:
    """Tune the libraries for some robots, or for all, and write the best settings."""
    found: others.Settings = {name: {} for name in LIBRARIES}
    if robots:
        found = json.loads(BEST.read_text())
    kinds = dict.fromkeys(ROBOTS, KINDS) | dict.fromkeys(more_arms(), STRETCHED)
    for robot, which in kinds.items():
        if robots and robot not in robots:
            continue
        for name, chosen in tune([passage(*at) for at in product((robot,), which)]).items():
            found[name] |= chosen
        print(robot, {name: each[robot] for name, each in found.items()}, flush=True)
        BEST.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
