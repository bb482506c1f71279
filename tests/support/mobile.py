"""A mobile manipulator, whose prismatic joints may be long or without limits."""

from __future__ import annotations

from functools import cache

import supple

AXES = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
PLACES = ("0 0 .3", "0 0 .2", "0 0 .4", ".4 0 0", ".1 0 0", ".1 0 0")


def joint(name: str, kind: str, parent: str, rest: str) -> str:
    return (
        f'<link name="{name}"/><joint name="{name}" type="{kind}"><parent link="{parent}"/>'
        f'<child link="{name}"/>{rest}</joint>'
    )


@cache
def mobile(limit: float | None, turn_first: bool = False) -> supple.Robot:
    """Return an arm on a base that slides within ±limit [m] and turns, in either order."""
    slide = "" if limit is None else f'<limit lower="{-limit}" upper="{limit}" velocity="1"/>'
    kinds = [("x", "prismatic", "1 0 0"), ("y", "prismatic", "0 1 0")]
    turn = ("turn", "continuous", "0 0 1")
    text, parent = '<robot name="mobile"><link name="world"/>', "world"
    for name, kind, axis in [turn, *kinds] if turn_first else [*kinds, turn]:
        rest = f'<axis xyz="{axis}"/>' + (slide if kind == "prismatic" else "")
        text += joint(name, kind, parent, rest)
        parent = name
    for i, (axis, place) in enumerate(zip(AXES, PLACES, strict=True)):
        rest = f'<origin xyz="{place}"/><axis xyz="{axis}"/><limit lower="-2.5" upper="2.5"/>'
        text += joint(f"arm{i}", "revolute", parent, rest)
        parent = f"arm{i}"
    return supple.urdf(text + "</robot>")
