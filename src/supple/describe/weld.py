"""Welding joints: what both file readers do with `fixed=`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from supple.describe._pose import motion
from supple.describe.description import Joint
from supple.errors import DescriptionError, InputError, short_repr, unknown


def names_to_weld(
    fixed: str | Iterable[str], available: Sequence[str], what: str = "fixed"
) -> frozenset[str]:
    """The names given as `fixed=`, each checked to exist; one plain string is one name.

    `what` is the argument's name for the message, where it is another.
    """
    try:
        names = (fixed,) if isinstance(fixed, str) else tuple(fixed)
    except Exception as error:  # an object's own
        raise InputError(f"{what}: expected names of joints, given {short_repr(fixed)}.") from error
    known = frozenset(available)
    each: Iterable[object] = names
    for name in each:
        if not isinstance(name, str) or name not in known:
            raise unknown("joint", name, available)
    return frozenset(names)


def welded(joints: Sequence[Joint], values: Mapping[str, float]) -> tuple[Joint, ...]:
    """Joints with those in `values` fixed at a coordinate [rad or m].

    What mimics a welded joint stands still as well, at multiplier * value + offset.
    """
    followers: dict[str, list[Joint]] = {}
    for joint in joints:
        if joint.mimic is not None:
            followers.setdefault(joint.mimic.joint, []).append(joint)

    still = dict(values)
    todo = list(values)
    while todo:
        name = todo.pop()
        for joint in followers.get(name, ()):
            if joint.mimic is not None and joint.name not in still:
                value = joint.mimic.multiplier * still[name] + joint.mimic.offset
                if not math.isfinite(value):
                    follows = f"joint {short_repr(joint.name)}, which follows {short_repr(name)},"
                    raise DescriptionError(f"{follows} would stand still at {value:g}.")
                still[joint.name] = value
                todo.append(joint.name)
    return tuple(
        _fixed_at(joint, still[joint.name]) if joint.name in still else joint for joint in joints
    )


def _fixed_at(joint: Joint, value: float) -> Joint:
    origin = joint.origin
    if value != 0:
        axis = joint.axis / (abs(joint.axis).max() or 1.0)  # no overflow in the norm
        axis = axis / (float(np.linalg.norm(axis)) or 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # a Description refuses the result
            origin = origin @ motion(joint.kind, axis, value)
    return replace(
        joint,
        kind="fixed",
        origin=origin,
        lower=-math.inf,
        upper=math.inf,
        max_speed=math.inf,
        mimic=None,
    )
