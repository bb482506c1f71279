"""Tasks of arms in every kind of coordinates, with readable names for tests."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from several_arms import arms
from supple import OrientationTask, PoseTask, PositionTask, Robot, load
from supple.tasks import Task

LINK = "panda_link4"
UNEVEN = (1.0, 2.0, 0.5, 1.5, 0.7, 1.2)

# Robots ("two arms" are two Pandas), each with a task that has fewer rows than joints.
REDUNDANT: list[tuple[str, Task]] = [
    ("panda", PoseTask()),
    ("iiwa14", PoseTask()),
    ("panda", PositionTask()),  # four dimensions of self-motion
    ("planar4", PositionTask(rows=("x", "y"))),
    ("panda", PoseTask(weight=UNEVEN)),
    ("panda", PoseTask(axes="body", weight=UNEVEN)),
    ("panda", PoseTask(axes="spatial", weight=UNEVEN)),
    ("panda", PoseTask(axes=LINK, weight=UNEVEN)),
    ("panda", PoseTask(about="z", weight=UNEVEN)),
    ("panda", PoseTask(about="y", axes=LINK, rows=("y", "rx", "rz"), weight=UNEVEN[:3])),
    ("panda", PositionTask(base="panda_link2", weight=UNEVEN[:3])),
    ("panda", PositionTask(base="panda_link2", axes=LINK, weight=UNEVEN[:3])),
    ("panda", OrientationTask(base="panda_link2", axes="body", weight=UNEVEN[:3])),
    ("two arms", PoseTask("1: panda_hand", base="0: panda_hand", weight=UNEVEN)),
    ("two arms", PoseTask("1: panda_hand", base="0: panda_link3", axes="body", weight=UNEVEN)),
    ("two arms", PoseTask("1: panda_hand", base="0: panda_hand", axes="spatial")),
]


def label(given: object) -> str:
    """Return a robot's name, or the options of a task that are not the default."""
    if not isinstance(given, Task):
        return str(given)
    default = type(given)()
    told = {field.name: getattr(given, field.name) for field in fields(given)}
    changed = [f"{name}={value}" for name, value in told.items() if value != getattr(default, name)]
    return " ".join([type(given).__name__, *changed])


@cache
def robot_of(name: str) -> Robot:
    """Return the robot with this name in `REDUNDANT`."""
    return arms("panda", "panda") if name == "two arms" else load(name)
