"""Validation of a Description, for all readers; without recursion, in linear time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from supple.describe._pose import (
    POSE_TOLERANCE,
    ROUNDING,
    Array,
    orthonormalized,
    rotation_residual,
)
from supple.describe.joint import VELOCITIES, Frame, Joint
from supple.errors import DescriptionError, join_names, short_repr, unknown_name_error

KINDS = ("revolute", "continuous", "prismatic", "screw", *VELOCITIES, "fixed")
RATES = ("max_speed", "max_acceleration", "max_jerk")  # limits that are positive or infinite
MAX_SIZE = 1e12  # largest length [m] or mimic factor: larger ones would overflow in float32


def check_names(robot: str, joints: Sequence[Joint], frames: Sequence[Frame]) -> None:
    """Check names (not empty, unique for joints) and kinds, and that at least one joint moves."""
    if not isinstance(robot, str):
        raise DescriptionError(f"robot name: expected a string, given {short_repr(robot)}.")
    names: list[tuple[str, object]] = [
        *(("joint name", joint.name) for joint in joints),
        *(("link name", link) for joint in joints for link in (joint.parent, joint.child)),
        *(("frame name", frame.name) for frame in frames),
        *((f"link of frame {short_repr(frame.name)}", frame.link) for frame in frames),
    ]
    for what, name in names:
        if not isinstance(name, str) or not name:
            raise DescriptionError(
                f"{what}: expected a non-empty string, given {short_repr(name)}."
            )
    check_unique("joint", [joint.name for joint in joints])
    for joint in joints:
        kind: object = joint.kind
        if not isinstance(kind, str) or kind not in KINDS:
            problem = unknown_name_error("kind", kind, KINDS)
            raise DescriptionError(f"joint {short_repr(joint.name)}: {problem}")
    if not any(joint.moves for joint in joints):
        raise DescriptionError(
            f"robot {short_repr(robot)} has {len(joints)} joints and none of them moves; "
            f"expected at least one joint that does: {join_names(KINDS[:-1])}."
        )


def check_unique(kind: str, names: Sequence[str]) -> None:
    """Check that no name occurs twice; `kind` is a noun such as "joint"."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DescriptionError(
                f"two {kind}s are named {short_repr(name)}; names must be unique."
            )
        seen.add(name)


def raise_several_roots(roots: Sequence[str]) -> NoReturn:
    """Raise the error for several links without a parent."""
    raise DescriptionError(
        f"{len(roots)} links have no parent: {join_names(roots)}; "
        "expected exactly one root, with every other link connected to it."
    )


def in_tree_order(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return the joints depth-first from the root, siblings in the given order."""
    above: dict[str, Joint] = {}
    below: dict[str, list[Joint]] = {}
    for joint in joints:
        if joint.child in above:
            both = join_names((above[joint.child].name, joint.name))
            raise DescriptionError(
                f"link {short_repr(joint.child)} has two parents, through the joints {both}."
            )
        above[joint.child] = joint
        below.setdefault(joint.parent, []).append(joint)

    roots = [link for link in below if link not in above]
    if len(roots) > 1:
        raise_several_roots(roots)

    ordered: list[Joint] = []
    stack = list(reversed(below[roots[0]])) if roots else []
    while stack:
        joint = stack.pop()
        ordered.append(joint)
        stack.extend(reversed(below.get(joint.child, ())))

    if len(ordered) < len(joints):
        reached = {joint.child for joint in ordered}
        _raise_cycle(above, next(link for link in above if link not in reached))
    return tuple(ordered)


def _raise_cycle(above: dict[str, Joint], link: str) -> NoReturn:
    """Raise the error for a cycle, found by following the parents of an unreachable link."""
    path: dict[str, None] = {}
    while link not in path:
        path[link] = None
        link = above[link].parent
    links = list(path)
    cycle = [*reversed(links[links.index(link) :]), links[-1]]
    around = " -> ".join(short_repr(name) for name in cycle[:12]) + (
        " …" if len(cycle) > 12 else ""
    )
    raise DescriptionError(f"the links form a cycle: {around}; expected a tree with one root.")


def with_clean_numbers(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return joints with orthonormal rotations, unit axes and valid limits.

    Axis and limits of a fixed joint are replaced by the defaults.
    """
    names = [f"joint {short_repr(joint.name)}" for joint in joints]
    origins = _poses(np.array([j.origin for j in joints]), [f"{name}: origin" for name in names])
    placements = _poses(
        np.array([j.child_placement for j in joints]),
        [f"{name}: child_placement" for name in names],
    )
    fixed = np.array([not joint.moves for joint in joints])
    axes = np.array([joint.axis for joint in joints])
    axes = _unit(np.where(fixed[:, None], (0.0, 0.0, 1.0), axes), names)

    clean = []
    for joint, name, origin, axis, placement in zip(
        joints, names, origins, axes, placements, strict=True
    ):
        _check_pitch(joint, name)
        if joint.moves:
            _check_limits(joint, name)
            # Some files write 1e308 for "no limit"; the difference of two such numbers overflows.
            lower, upper = (
                math.copysign(math.inf, x) if abs(x) > MAX_SIZE else x
                for x in (joint.lower, joint.upper)
            )
            rates = {key: getattr(joint, key) for key in RATES}
        else:
            lower, upper, rates = -math.inf, math.inf, dict.fromkeys(RATES, math.inf)
        clean.append(
            replace(
                joint,
                origin=origin,
                axis=axis,
                child_placement=placement,
                lower=lower,
                upper=upper,
                **rates,
            )
        )
    return tuple(clean)


def _check_pitch(joint: Joint, name: str) -> None:
    if joint.kind == "screw" and not 0 < abs(joint.pitch) <= MAX_SIZE:
        problem = f"expected a pitch other than zero, at most {MAX_SIZE:g} m/rad"
        raise DescriptionError(f"{name}: {problem}, given {joint.pitch:g}.")
    if joint.kind != "screw" and joint.pitch != 0:
        raise DescriptionError(
            f"{name}: only a screw joint has a pitch, given {joint.pitch:g} for a {joint.kind} one."
        )


def _check_limits(joint: Joint, name: str) -> None:
    lower, upper = joint.lower, joint.upper
    given = f"given lower={lower:g}, upper={upper:g}."
    if math.isnan(lower) or math.isnan(upper):
        raise DescriptionError(f"{name}: limits must be numbers or infinite, {given}")
    if lower > upper:
        remedy = "Swap them, or remove them from a joint that has no limits."
        raise DescriptionError(f"{name}: the lower limit is above the upper one, {given} {remedy}")
    if lower == math.inf or upper == -math.inf:
        raise DescriptionError(f"{name}: no position lies between the limits, {given}")
    if math.isfinite(lower) or math.isfinite(upper):
        if joint.kind == "continuous":
            problem = "a continuous joint must not have limits (use revolute)"
            raise DescriptionError(f"{name}: {problem}, {given}")
        if joint.kind in VELOCITIES:
            raise DescriptionError(f"{name}: a {joint.kind} joint must not have limits, {given}")
    for key in RATES:
        if not getattr(joint, key) > 0:
            problem = f"{key} must be positive or infinite, given {getattr(joint, key):g}."
            raise DescriptionError(f"{name}: {problem}")


def _poses(T: Array, what: Sequence[str]) -> Array:
    """Check poses (n, 4, 4) and return them with rotations orthonormal to machine precision."""
    _raise_first(~np.isfinite(T).all(axis=(1, 2)), what, "contains values that are not finite", T)
    _raise_first((T[:, 3] != (0.0, 0.0, 0.0, 1.0)).any(axis=1), what, "last row is not 0 0 0 1", T)
    too_far = (abs(T[:, :3, 3]) > MAX_SIZE).any(axis=1)
    _raise_first(too_far, what, f"is farther away than {MAX_SIZE:g} m", T)
    R = T[:, :3, :3]
    residual = rotation_residual(R)
    problem = f"rotation is not orthonormal within {POSE_TOLERANCE:g}"
    _raise_first(~(residual <= POSE_TOLERANCE), what, problem, T)
    _raise_first(np.linalg.det(R) < 0, what, "rotation is left-handed (a mirror image)", T)
    R = orthonormalized(R, residual)
    T = T.copy()
    T[:, :3, :3] = _snapped(R)
    return T


def _unit(axes: Array, names: Sequence[str]) -> Array:
    """Check axes (n, 3) and return them as unit vectors to machine precision."""
    what = [f"{name}: axis" for name in names]
    _raise_first(~np.isfinite(axes).all(axis=1), what, "contains values that are not finite", axes)
    size = abs(axes).max(axis=1, keepdims=True)
    _raise_first(size[:, 0] < 1e-9, what, "is zero, expected a direction", axes)
    axes = axes / np.where(abs(size - 1) < 0.5, 1.0, size)  # the norm cannot overflow
    norm = np.linalg.norm(axes, axis=1, keepdims=True)
    return _snapped(np.where(abs(norm - 1) > ROUNDING, axes / norm, axes))


def _snapped(values: Array) -> Array:
    """Round entries that differ from -1, 0 or 1 only by rounding: cos(π/2) becomes 0, not 6e-17."""
    nearest = np.round(values)
    return np.where(abs(values - nearest) <= ROUNDING, nearest + 0.0, values)


def _raise_first(bad: npt.ArrayLike, what: Sequence[str], why: str, given: Array) -> None:
    """Raise an error that shows the first bad value, if any; `bad` (n,) marks rows of `given`."""
    if np.any(bad):
        first = int(np.argmax(bad))
        rows = np.atleast_2d(given[first])
        text = "; ".join(" ".join(f"{value:g}" for value in row) for row in rows)
        raise DescriptionError(f"{what[first]}: {why}, given {text}.")


def with_clean_placements(frames: Sequence[Frame], links: Sequence[str]) -> tuple[Frame, ...]:
    """Return frames with unique names, on existing links, with orthonormal rotations."""
    check_unique("frame", [frame.name for frame in frames])
    known = set(links)
    for frame in frames:
        if frame.name in known:
            raise DescriptionError(f"frame {short_repr(frame.name)} has the name of a link.")
        if frame.link not in known:
            problem = unknown_name_error("link", frame.link, links)
            raise DescriptionError(f"frame {short_repr(frame.name)} is on an {problem}")
    if not frames:
        return ()
    what = [f"frame {short_repr(frame.name)}: placement" for frame in frames]
    poses = _poses(np.array([frame.placement for frame in frames]), what)
    return tuple(replace(frame, placement=T) for frame, T in zip(frames, poses, strict=True))


def checked_tips(
    tips: Sequence[str], links: Sequence[str], frames: Sequence[Frame]
) -> tuple[str, ...]:
    """Check that end effectors are links or frames, each given once."""
    available = [*links, *(frame.name for frame in frames)]
    known = set(available)
    for tip in tips:
        if tip not in known:
            raise DescriptionError(f"tips: {unknown_name_error('frame', tip, available)}")
    check_unique("tip", tips)
    return tuple(tips)
