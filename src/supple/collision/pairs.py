"""Pairs of links that are not checked against each other, and why.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from supple._arrays.checks import number
from supple.collision.parts import Array, Parts, ShapesOfNames, frozen_shapes, robot_parts
from supple.describe._source import Budget, read_source
from supple.describe.link_shapes import LinkShapes, checked_shapes
from supple.describe.shapes import Shape
from supple.errors import DescriptionError, join_names
from supple.kinematics import Robot
from supple.kinematics.robot import check_robot

Reason = Literal["adjacent", "always", "never", "excluded"]

SAMPLES = 1000  # default number of configurations
_FIRST = 16  # number of configurations after which most pairs are known not to overlap always
_SEED = 0
_TOUCH = 1e-3  # distance below which links that always are so close count as overlapping [m]
_MAX_ELEMENTS, _MAX_DEPTH = 200_000, 100


class UncheckedPair(NamedTuple):
    """Two links that are not checked against each other.

    Attributes:
        one, other: Names of the links.
        reason: "adjacent": a joint connects them. "always": they overlap, or are closer than
            1 mm, in all sampled configurations. "never": they overlap in none, which is no proof.
            "excluded": by the file.
    """

    one: str
    other: str
    reason: Reason


def unchecked_pairs(
    robot: Robot,
    links: Mapping[str, Shape | Sequence[Shape]] | None = None,
    *,
    samples: int = SAMPLES,
    never: bool = False,
) -> tuple[UncheckedPair, ...]:
    """Return the pairs of links of a robot that need no check, each with the reason.

    The result is the same in every call. Without `never`, these are the pairs that a `World` leaves
    out by default.

    Args:
        robot: The robot.
        links: Shapes of its links, by name of the link; by default `Robot.shapes`.
        samples: Number of configurations inside the joint limits that are checked.
        never: Whether pairs that never overlap in the samples are included. Leaving them out saves
            time, but the samples do not prove that they cannot collide.

    Raises:
        DescriptionError: The robot's file has a shape that cannot be read.
        UnknownNameError: The robot has no link of a name.
    """
    check_robot(robot)
    own = robot.shapes
    if links is not None:
        own = checked_shapes(links, robot.description.links, "links", "link")
    count = int(number(samples, "samples", least=1, most=1e7))
    return _pairs(robot, frozen_shapes(own), count, never)


@lru_cache(maxsize=32)
def _pairs(
    robot: Robot, links: ShapesOfNames, samples: int, never: bool
) -> tuple[UncheckedPair, ...]:
    _, parts = robot_parts(robot, links, ())
    shapes = robot.description.shapes
    excluded = shapes.unchecked if isinstance(shapes, LinkShapes) else ()
    found: dict[frozenset[str], UncheckedPair] = {}
    for one, other in adjacent_links(robot, [name for name, _ in links]):
        found[frozenset((one, other))] = UncheckedPair(one, other, "adjacent")
    for one, other in excluded:
        found.setdefault(frozenset((one, other)), UncheckedPair(one, other, "excluded"))
    always, apart = _sampled(robot, links, parts, [*found.values()], samples, never)
    made = [UncheckedPair(*pair, "always") for pair in always]
    made += [UncheckedPair(*pair, "never") for pair in apart]
    return (*found.values(), *made)


def adjacent_links(robot: Robot, links: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of given links that one moving joint connects.

    Between them there may be fixed joints and links that are not given: parts without shapes.
    """
    has_shape, above = set(links), {}
    for joint in robot.description.joints:
        above[joint.child] = joint
    pairs = []
    for link in links:
        at, moved = link, 0
        while at in above:
            moved += above[at].moves
            at = above[at].parent
            if moved > 1 or at in has_shape:
                break
        if moved == 1 and at in has_shape:
            pairs.append((at, link))
    return pairs


def _sampled(
    robot: Robot,
    links: ShapesOfNames,
    parts: Parts,
    known: Sequence[UncheckedPair],
    samples: int,
    never: bool,
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs of links that overlap in all and in none of the samples."""
    chain, _ = robot_parts(robot, links, ())
    pairs = parts.pairs_of([(one, other) for one, other, _ in known])
    if chain is None or not len(pairs):
        return [], []
    names = list(dict.fromkeys(parts.owner))
    index = {name: i for i, name in enumerate(names)}
    own = np.array([index[name] for name in parts.owner])
    key = np.sort(own[pairs], axis=1) @ (len(names), 1)
    keys, group = np.unique(key, return_inverse=True)
    always = np.ones(len(keys), dtype=np.bool_)
    ever = np.zeros(len(keys), dtype=np.bool_)
    q = robot.random(samples, seed=_SEED)
    q[0] = robot.neutral()
    for first, last in ((0, _FIRST), (_FIRST, samples)):
        asked = always[group] | never
        if not asked.any():
            break
        model, groups = parts.kernel(chain, pairs[asked]), group[asked]
        for each in q[first:last]:
            distance = _distances(model, each)
            close = np.zeros(len(keys), dtype=np.bool_)
            close[groups[distance < _TOUCH]] = True
            always &= close
            ever[groups[distance < 0]] = True
    named = [(names[k // len(names)], names[k % len(names)]) for k in keys.tolist()]
    both = [pair for pair, yes in zip(named, always, strict=True) if yes]
    apart = [pair for pair, yes in zip(named, ever | always, strict=True) if not yes]
    apart = apart if never else []
    return both, apart


def _distances(model: object, q: Array) -> Array:
    distance: Array = model.distances(q)[0]  # type: ignore[attr-defined]
    return distance


def srdf_pairs(source: str | os.PathLike[str], robot: Robot) -> tuple[tuple[str, str], ...]:
    """Return the pairs of links that an SRDF file excludes from collision checks.

        World(obstacles, unchecked=srdf_pairs("panda.srdf", robot))

    Links that the robot does not have are ignored.

    Args:
        source: Path of the file, or its text.
        robot: The robot, whose links the file names.

    Raises:
        DescriptionError: The file cannot be read, or names none of the robot's links.
    """
    check_robot(robot)
    file = read_source(source, Budget(_MAX_ELEMENTS, _MAX_DEPTH), root="robot")
    links = robot.description.links
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for each in file.root.findall("disable_default_collisions"):
        link = each.get("link", "")
        pairs |= {frozenset((link, other)): (link, other) for other in links if other != link}
    for tag in ("disable_collisions", "enable_collisions"):
        for each in file.root.findall(tag):
            one, other = each.get("link1", ""), each.get("link2", "")
            if not one or not other:
                raise DescriptionError(f"{file.label}: <{tag}> needs link1 and link2.")
            if tag == "disable_collisions":
                pairs[frozenset((one, other))] = (one, other)
            else:
                pairs.pop(frozenset((one, other)), None)
    known = tuple(pair for pair in pairs.values() if set(pair) <= set(links))
    if pairs and not known:
        named = join_names(sorted({name for pair in pairs.values() for name in pair}))
        raise DescriptionError(
            f"{file.label}: names no two links of {robot.name!r}; given: {named}; available: "
            f"{join_names(links)}."
        )
    return known


def srdf_text(robot: Robot, pairs: Sequence[UncheckedPair]) -> str:
    """Return an SRDF document with pairs and their reasons."""
    lines = [
        f"  <disable_collisions link1={quoteattr(one)} link2={quoteattr(other)} "
        f"reason={quoteattr(reason.capitalize())}/>"
        for one, other, reason in pairs
    ]
    return "\n".join([f"<robot name={quoteattr(robot.name)}>", *lines, "</robot>", ""])
