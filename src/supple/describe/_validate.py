"""The checks of a Description, in one place for all readers. Iterative, linear in the joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from supple.describe._numbers import as_doubles, real_numbers
from supple.describe._pose import Array
from supple.errors import DescriptionError, InputError, listed, short_repr, unknown

if TYPE_CHECKING:
    from supple.describe.description import Frame, Joint, Mimic

KINDS = ("revolute", "continuous", "prismatic", "fixed")
_ORTHONORMAL = 1e-6  # how far from a rotation a file may be before it is refused
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_HUGE = 1e12  # no length [m] nor mimic reaches it: a kernel in float32 must not overflow


def real(value: object, what: str, expected: str = "real numbers") -> Array:
    """The value as a new array of float64, whatever its shape."""
    try:
        return as_doubles(real_numbers(value, what))
    except InputError as error:
        raise DescriptionError(
            f"{what}: expected {expected}, given {short_repr(value)}."
        ) from error


def check_names(robot: str, joints: Sequence[Joint], frames: Sequence[Frame]) -> None:
    """Every name is a non-empty string; joints are unique; kinds are known; something moves."""
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
    refuse_duplicates("joint", [joint.name for joint in joints])
    for joint in joints:
        kind: object = joint.kind
        if not isinstance(kind, str) or kind not in KINDS:
            problem = unknown("kind", kind, KINDS)
            raise DescriptionError(f"joint {short_repr(joint.name)}: {problem}")
    if not any(joint.moves for joint in joints):
        raise DescriptionError(
            f"robot {short_repr(robot)} has {len(joints)} joints and none of them moves; "
            "expected at least one revolute, continuous or prismatic joint."
        )


def refuse_duplicates(kind: str, names: Sequence[str]) -> None:
    """A name may stand for one thing only."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DescriptionError(
                f"two {kind}s are named {short_repr(name)}; names must be unique."
            )
        seen.add(name)


def refuse_roots(roots: Sequence[str]) -> NoReturn:
    """More than one link without a parent: the robot falls apart."""
    raise DescriptionError(
        f"{len(roots)} links have no parent: {listed(roots)}; "
        "expected exactly one root, with every other link connected to it."
    )


def in_tree_order(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """The joints depth-first from the only root, children in the order given."""
    above: dict[str, Joint] = {}
    below: dict[str, list[Joint]] = {}
    for joint in joints:
        if joint.child in above:
            both = listed((above[joint.child].name, joint.name))
            raise DescriptionError(
                f"link {short_repr(joint.child)} has two parents, by joints {both}."
            )
        above[joint.child] = joint
        below.setdefault(joint.parent, []).append(joint)

    roots = [link for link in below if link not in above]
    if len(roots) > 1:
        refuse_roots(roots)

    ordered: list[Joint] = []
    stack = list(reversed(below[roots[0]])) if roots else []
    while stack:
        joint = stack.pop()
        ordered.append(joint)
        stack.extend(reversed(below.get(joint.child, ())))

    if len(ordered) < len(joints):
        reached = {joint.child for joint in ordered}
        _refuse_cycle(above, next(link for link in above if link not in reached))
    return tuple(ordered)


def _refuse_cycle(above: dict[str, Joint], link: str) -> NoReturn:
    """Walk towards the parents from a link that no root reaches: the walk must close."""
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
    """Poses made exact, axes unit, limits checked; the numbers of a fixed joint do not matter."""
    names = [f"joint {short_repr(joint.name)}" for joint in joints]
    origins = _poses(np.array([j.origin for j in joints]), [f"{name}: origin" for name in names])
    tails = _poses(np.array([j.tail for j in joints]), [f"{name}: tail" for name in names])
    fixed = np.array([not joint.moves for joint in joints])
    axes = np.array([joint.axis for joint in joints])
    axes = _unit(np.where(fixed[:, None], (0.0, 0.0, 1.0), axes), names)

    clean = []
    for joint, name, origin, axis, tail in zip(joints, names, origins, axes, tails, strict=True):
        if joint.moves:
            _check_limits(joint, name)
            # Files write 1e308 for no limit; differences of such numbers are no numbers.
            lower, upper = (
                math.copysign(math.inf, x) if abs(x) > _HUGE else x
                for x in (joint.lower, joint.upper)
            )
            speed = joint.max_speed
        else:
            lower, upper, speed = -math.inf, math.inf, math.inf
        clean.append(
            replace(
                joint,
                origin=origin,
                axis=axis,
                tail=tail,
                lower=lower,
                upper=upper,
                max_speed=speed,
            )
        )
    return tuple(clean)


def _check_limits(joint: Joint, name: str) -> None:
    lower, upper = joint.lower, joint.upper
    given = f"given lower={lower:g}, upper={upper:g}."
    if math.isnan(lower) or math.isnan(upper):
        raise DescriptionError(f"{name}: limits must be numbers or infinite, {given}")
    if lower > upper:
        raise DescriptionError(f"{name}: the lower limit is above the upper one, {given}")
    if lower == math.inf or upper == -math.inf:
        raise DescriptionError(f"{name}: no position lies between the limits, {given}")
    if joint.kind == "continuous" and (math.isfinite(lower) or math.isfinite(upper)):
        raise DescriptionError(f"{name}: a continuous joint has no limits (use revolute), {given}")
    if not joint.max_speed > 0:
        problem = f"max_speed must be positive or infinite, given {joint.max_speed:g}."
        raise DescriptionError(f"{name}: {problem}")


def _poses(T: Array, what: Sequence[str]) -> Array:
    """Check poses (n, 4, 4) and make their rotations orthonormal to machine precision."""
    _refuse(~np.isfinite(T).all(axis=(1, 2)), what, "holds values that are not finite", T)
    _refuse((T[:, 3] != (0.0, 0.0, 0.0, 1.0)).any(axis=1), what, "last row is not 0 0 0 1", T)
    too_far = (abs(T[:, :3, 3]) > _HUGE).any(axis=1)
    _refuse(too_far, what, f"lies farther than {_HUGE:g} m", T)
    R = T[:, :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):
        residual = abs(R.swapaxes(1, 2) @ R - np.eye(3)).max(axis=(1, 2))
        problem = f"rotation is not orthonormal within {_ORTHONORMAL:g}"
        _refuse(~(residual <= _ORTHONORMAL), what, problem, T)
    _refuse(np.linalg.det(R) < 0, what, "rotation is left-handed (a mirror image)", T)

    # Newton's iteration for the nearest rotation: 1e-6 -> 1e-12 -> rounding.
    for _ in range(2):
        nearer = R @ (1.5 * np.eye(3) - 0.5 * R.swapaxes(1, 2) @ R)
        R = np.where((residual > _ROUNDING)[:, None, None], nearer, R)
    T = T.copy()
    T[:, :3, :3] = _snapped(R)
    return T


def _unit(axes: Array, names: Sequence[str]) -> Array:
    """Check axes (n, 3) and make them unit vectors to machine precision."""
    what = [f"{name}: axis" for name in names]
    _refuse(~np.isfinite(axes).all(axis=1), what, "holds values that are not finite", axes)
    size = abs(axes).max(axis=1, keepdims=True)
    _refuse(size[:, 0] < 1e-9, what, "is zero, expected a direction", axes)
    axes = axes / np.where(abs(size - 1) < 0.5, 1.0, size)  # no overflow in the norm
    norm = np.linalg.norm(axes, axis=1, keepdims=True)
    return _snapped(np.where(abs(norm - 1) > _ROUNDING, axes / norm, axes))


def _snapped(values: Array) -> Array:
    """Entries within rounding of -1, 0 or 1 made exactly that: cos(pi/2) is 0, not 6e-17."""
    nearest = np.round(values)
    return np.where(abs(values - nearest) <= _ROUNDING, nearest + 0.0, values)


def _refuse(bad: npt.ArrayLike, what: Sequence[str], why: str, given: Array) -> None:
    """Refuse the first of the things (n, ...) that are bad (n,), and show it."""
    if np.any(bad):
        first = int(np.argmax(bad))
        rows = np.atleast_2d(given[first])
        text = "; ".join(" ".join(f"{value:g}" for value in row) for row in rows)
        raise DescriptionError(f"{what[first]}: {why}, given {text}.")


def with_resolved_mimics(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Every follower made to follow directly a joint that moves by itself."""
    by_name = {joint.name: joint for joint in joints}
    resolved: dict[str, Mimic] = {}
    for joint in joints:
        # Walk to a joint that is already settled, then compose on the way back.
        path: dict[str, Mimic] = {}
        at = joint
        while at.mimic is not None and at.name not in resolved:
            if at.name in path:
                chain = listed([*path, at.name])
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
    """The joint that a mimic names, if it can be followed."""
    name = f"joint {short_repr(joint.name)}"
    if not joint.moves:
        raise DescriptionError(f"{name} is fixed and cannot mimic {short_repr(mimic.joint)}.")
    if mimic.joint not in by_name:
        problem = unknown("joint", mimic.joint, by_name)
        weld = f"Correct it, or weld the follower: fixed=[{short_repr(joint.name)}]."
        raise DescriptionError(f"{name} mimics an {problem} {weld}")
    followed = by_name[mimic.joint]
    if followed is joint:
        raise DescriptionError(f"{name} mimics itself.")
    if not followed.moves:
        raise DescriptionError(
            f"{name} mimics {short_repr(mimic.joint)}, which is fixed; weld both: "
            f"fixed=[{short_repr(joint.name)}]."
        )
    return followed


def _composed(name: str, mimic: Mimic, above: Mimic | None) -> Mimic:
    """A mimic of a mimic, m (m' q + o') + o, if it stays within reason."""
    if above is not None:
        mimic = replace(
            mimic,
            joint=above.joint,
            multiplier=mimic.multiplier * above.multiplier,
            offset=mimic.multiplier * above.offset + mimic.offset,
        )
    if not (abs(mimic.multiplier) <= _HUGE and abs(mimic.offset) <= _HUGE):
        numbers = f"multiplier={mimic.multiplier:g}, offset={mimic.offset:g}"
        raise DescriptionError(
            f"joint {short_repr(name)}: the mimic of {short_repr(mimic.joint)} must be finite and "
            f"at most {_HUGE:g}, given {numbers}."
        )
    return mimic


def with_clean_placements(frames: Sequence[Frame], links: Sequence[str]) -> tuple[Frame, ...]:
    """Frames with names of their own, on links that exist, and exact placements."""
    refuse_duplicates("frame", [frame.name for frame in frames])
    known = set(links)
    for frame in frames:
        if frame.name in known:
            raise DescriptionError(f"frame {short_repr(frame.name)} has the name of a link.")
        if frame.link not in known:
            problem = unknown("link", frame.link, links)
            raise DescriptionError(f"frame {short_repr(frame.name)} is on an {problem}")
    if not frames:
        return ()
    what = [f"frame {short_repr(frame.name)}: placement" for frame in frames]
    poses = _poses(np.array([frame.placement for frame in frames]), what)
    return tuple(replace(frame, placement=T) for frame, T in zip(frames, poses, strict=True))


def checked_tips(
    tips: Sequence[str], links: Sequence[str], frames: Sequence[Frame]
) -> tuple[str, ...]:
    """Tips that are names of links or frames, each once."""
    there = [*links, *(frame.name for frame in frames)]
    known = set(there)
    for tip in tips:
        if tip not in known:
            raise DescriptionError(f"tips: {unknown('frame', tip, there)}")
    refuse_duplicates("tip", tips)
    return tuple(tips)
