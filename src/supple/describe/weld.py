"""Welding of joints, for `fixed=` of the file readers and `Robot.freeze`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from supple.describe._pose import Array, motion
from supple.describe.joint import Joint
from supple.errors import DescriptionError, InputError, short_repr, unknown_name_error


def names_to_weld(
    fixed: str | Iterable[str], available: Sequence[str], what: str = "fixed"
) -> frozenset[str]:
    """Return the names of joints to weld after checking that they exist.

    Args:
        fixed: Name or names of joints.
        available: Names of all joints.
        what: Name of the argument in error messages.
    """
    try:
        names = (fixed,) if isinstance(fixed, str) else tuple(fixed)
    except Exception as error:  # raised by the object's own iterator
        raise InputError(f"{what}: expected names of joints, given {short_repr(fixed)}.") from error
    known = frozenset(available)
    each: Iterable[object] = names
    for name in each:
        if not isinstance(name, str) or name not in known:
            raise unknown_name_error("joint", name, available)
    return frozenset(names)


def welded(joints: Sequence[Joint], values: Mapping[str, float | Array]) -> tuple[Joint, ...]:
    """Return all joints; joints named in `values` are fixed at the given positions [rad or m].

    Joints that mimic a welded joint are welded too, at multiplier * value + offset. For a joint
    with several degrees of freedom the value is its motion (4, 4), or 0 for the identity.
    """
    positions = welded_positions(joints, values)
    return tuple(
        _fixed_at(joint, positions[joint.name]) if joint.name in positions else joint
        for joint in joints
    )


def welded_positions(
    joints: Sequence[Joint], values: Mapping[str, float | Array]
) -> dict[str, float | Array]:
    """Return the positions of all welded joints: those in `values`, and their mimic joints."""
    followers: dict[str, list[Joint]] = {}
    for joint in joints:
        if joint.mimic is not None:
            followers.setdefault(joint.mimic.joint, []).append(joint)

    positions = dict(values)
    todo = list(values)
    while todo:
        name = todo.pop()
        for joint in followers.get(name, ()):
            if joint.mimic is not None and joint.name not in positions:
                value = float(joint.mimic.multiplier * positions[name] + joint.mimic.offset)
                if not math.isfinite(value):
                    follows = f"joint {short_repr(joint.name)}, which follows {short_repr(name)},"
                    problem = f"would be welded at {value:g}; expected a finite position"
                    raise DescriptionError(f"{follows} {problem}.")
                positions[joint.name] = value
                todo.append(joint.name)
    return positions


def _fixed_at(joint: Joint, value: float | Array) -> Joint:
    origin = joint.origin
    if isinstance(value, np.ndarray):
        origin = origin @ value
    elif value != 0:
        axis = joint.axis / (abs(joint.axis).max() or 1.0)  # avoids overflow in the norm
        axis = axis / (float(np.linalg.norm(axis)) or 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # checked by Description
            origin = origin @ motion(joint.kind, axis, value, joint.pitch)
    return replace(
        joint,
        kind="fixed",
        origin=origin,
        lower=-math.inf,
        upper=math.inf,
        max_speed=math.inf,
        mimic=None,
        pitch=0.0,
        max_acceleration=math.inf,
        max_jerk=math.inf,
    )
