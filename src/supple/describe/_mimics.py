"""Joints that mimic others: mimics of mimics, and the limits that they impose on their leader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from supple.describe._validate import MAX_SIZE, RATES
from supple.describe.joint import VELOCITIES, Joint, Mimic
from supple.errors import DescriptionError, join_names, short_repr, unknown_name_error, warn

_LONGEST_PREFIX = 80  # [characters]
_ROUNDING = 1e-9  # fraction of a range below which a part of it counts as empty


def with_prefixed_leaders(robot: str, joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return joints after adding missing prefixes to the names of followed joints, with a warning.

    In some public files "Left_index_q2" mimics "index_q1", where only "Left_index_q1" exists.
    """
    known = {joint.name for joint in joints}
    made, completed = list(joints), []
    for i, joint in enumerate(joints):
        if joint.mimic is None or joint.mimic.joint in known:
            continue
        lengths = range(1, min(len(joint.name), _LONGEST_PREFIX) + 1)
        found = {joint.name[:k] + joint.mimic.joint for k in lengths} & known - {joint.name}
        if len(found) == 1:
            (name,) = found
            made[i] = replace(joint, mimic=replace(joint.mimic, joint=name))
            completed.append(f"{short_repr(joint.name)} follows {short_repr(name)}")
    if completed:
        more = f" and {len(completed) - 3} more" if len(completed) > 3 else ""
        what = f"{robot}: names of followed joints lack the prefix of the follower"
        warn(f"{what}: {'; '.join(completed[:3])}{more}")
    return tuple(made)


def with_resolved_mimics(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return joints in which every mimic refers directly to a joint that mimics no other."""
    by_name = {joint.name: joint for joint in joints}
    resolved: dict[str, Mimic] = {}
    for joint in joints:
        # Follow the mimics to a resolved or independent joint, then compose them on the way back.
        path: dict[str, Mimic] = {}
        at = joint
        while at.mimic is not None and at.name not in resolved:
            if at.name in path:
                chain = join_names([*path, at.name])
                raise DescriptionError(f"joints mimic each other in a cycle: {chain}.")
            path[at.name] = at.mimic
            at = _followed(at, at.mimic, by_name)
        for name, mimic in reversed(path.items()):
            resolved[name] = _composed(name, mimic, resolved.get(mimic.joint))
    return tuple(
        replace(joint, mimic=resolved[joint.name]) if joint.mimic is not None else joint
        for joint in joints
    )


def _followed(joint: Joint, mimic: Mimic, by_name: dict[str, Joint]) -> Joint:
    """Return the joint that a mimic refers to, or raise the error if it cannot be followed."""
    name = f"joint {short_repr(joint.name)}"
    if not joint.moves:
        raise DescriptionError(f"{name} is fixed and cannot mimic {short_repr(mimic.joint)}.")
    if mimic.joint not in by_name:
        problem = unknown_name_error("joint", mimic.joint, by_name)
        weld = f"Correct it, or weld the follower: fixed=[{short_repr(joint.name)}]."
        raise DescriptionError(f"{name} mimics an {problem} {weld}")
    followed = by_name[mimic.joint]
    for each in (joint, followed):
        if each.kind in VELOCITIES:
            raise DescriptionError(
                f"{name} mimics {short_repr(mimic.joint)}, but {short_repr(each.name)} is a "
                f"{each.kind} joint, which has several degrees of freedom."
            )
    if followed is joint:
        raise DescriptionError(f"{name} mimics itself.")
    if not followed.moves:
        raise DescriptionError(
            f"{name} mimics {short_repr(mimic.joint)}, which is fixed; weld both: "
            f"fixed=[{short_repr(joint.name)}]."
        )
    return followed


def _composed(name: str, mimic: Mimic, above: Mimic | None) -> Mimic:
    """Return the composition of two mimics, m (m' q + o') + o, after checking its size."""
    if above is not None:
        mimic = replace(
            mimic,
            joint=above.joint,
            multiplier=mimic.multiplier * above.multiplier,
            offset=mimic.multiplier * above.offset + mimic.offset,
        )
    if not (abs(mimic.multiplier) <= MAX_SIZE and abs(mimic.offset) <= MAX_SIZE):
        numbers = f"multiplier={mimic.multiplier:g}, offset={mimic.offset:g}"
        raise DescriptionError(
            f"joint {short_repr(name)}: the mimic of {short_repr(mimic.joint)} must have a finite "
            f"multiplier and offset of magnitude at most {MAX_SIZE:g}, given {numbers}."
        )
    return mimic


def with_narrowed_leaders(robot: str, joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return joints; the limits of every leader also keep its followers within the followers'
    limits.

    A follower at  m q + o,  with the position limits [l, u] and the speed limit v, narrows the
    limits of its leader to (l - o)/m, (u - o)/m and v/|m|; limits of acceleration and jerk are
    divided by |m| too. If this would leave the leader no range, as in files whose follower has the
    range of the opposite direction, the follower's position limits are removed instead, with a
    warning.
    """
    made = {joint.name: joint for joint in joints}
    ignored: list[str] = []
    for joint in joints:
        mimic = joint.mimic
        if mimic is None or mimic.multiplier == 0:
            continue
        leader, scale = made[mimic.joint], abs(mimic.multiplier)
        limits: dict[str, Any] = {
            key: min(getattr(leader, key), getattr(joint, key) / scale) for key in RATES
        }
        ends = [(x - mimic.offset) / mimic.multiplier for x in (joint.lower, joint.upper)]
        lower = max(leader.lower, _bound(min(ends)))
        upper = min(leader.upper, _bound(max(ends)))
        if _is_empty(lower, upper, leader):
            lower, upper = leader.lower, leader.upper
            ignored.append(f"{short_repr(joint.name)} follows {short_repr(leader.name)}")
            made[joint.name] = replace(joint, lower=-math.inf, upper=math.inf)
        limits |= {"lower": lower, "upper": upper}
        if any(value != getattr(leader, key) for key, value in limits.items()):
            if leader.kind == "continuous" and min(-lower, upper) < math.inf:
                limits["kind"] = "revolute"  # a continuous joint cannot have limits
            made[leader.name] = replace(leader, **limits)
    if ignored:
        more = f" and {len(ignored) - 3} more" if len(ignored) > 3 else ""
        what = f"{robot}: position limits that leave a followed joint no range are ignored"
        warn(f"{what}: {'; '.join(ignored[:3])}{more}")
    return tuple(made.values())


def _bound(limit: float) -> float:
    """Return a position limit, infinite if it is too large for one."""
    return math.copysign(math.inf, limit) if abs(limit) > MAX_SIZE else limit


def _is_empty(lower: float, upper: float, joint: Joint) -> bool:
    """Return whether narrowed limits leave a joint no range although its own limits do."""
    width = joint.upper - joint.lower
    share = _ROUNDING * width if math.isfinite(width) else _ROUNDING
    return width > 0 and upper - lower <= share
