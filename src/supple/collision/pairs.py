"""Find the pairs of links that are not checked, or keep less than the clearance, and the reasons.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.checks import number
from supple.collision.parts import Array, Indices, Parts, ShapesOfNames, frozen_shapes, robot_parts
from supple.describe.link_shapes import LinkShapes, checked_shapes
from supple.describe.shapes import Shape
from supple.describe.srdf import excluded_pairs, read_srdf
from supple.errors import DescriptionError
from supple.kinematics import Robot
from supple.kinematics.robot import check_robot

Reason = Literal["adjacent", "always", "never", "excluded"]

SAMPLES = 1000  # default number of configurations
_SCREENING_SAMPLES = 32  # suffice to exclude most pairs as far apart
_SEED = 0
_ALWAYS_SHARE = 0.95  # share of the configurations that counts as all of them
_OVERLAP_DISTANCE = 1e-3  # links that are always closer than this count as overlapping [m]
_CLOSE_DISTANCE = 0.01  # links that are always closer than this count as close by construction [m]
_CLOSE_PAIR_SLACK = 1e-3  # distance by which such links may come closer than by construction [m]
_SCENE = "world"  # the body of an MJCF file whose geoms are obstacles: a floor, a table


class UncheckedPair(NamedTuple):
    """Two links that are not checked against each other.

    Attributes:
        one, other: Names of the links.
        reason: "adjacent": a joint connects them. "always": they overlap, or are closer than 1 mm,
            in 95 % of the sampled configurations. "never": they overlap in no sample, which is no
            proof. "excluded": the file excludes the pair.
    """

    one: str
    other: str
    reason: Reason


class ClosePair(NamedTuple):
    """Two links that are close by construction and need not keep the whole clearance.

    Attributes:
        one, other: Names of the links.
        clearance: Distance that they keep if the required clearance is larger [m]; negative if
            their shapes overlap.
        reason: "neutral": `clearance` is their distance in the neutral configuration, less 1 mm.
            "always": they are closer than 10 mm in 95 % of the sampled configurations, and
            `clearance` is their least distance in these configurations, less 1 mm.
    """

    one: str
    other: str
    clearance: float
    reason: Literal["neutral", "always"]


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
        links: Shapes of the robot's links, by link name; by default `Robot.shapes`.
        samples: Number of configurations inside the joint limits that are checked.
        never: Whether pairs that never overlap in the samples are included. Leaving them out saves
            time, but the samples do not prove that they cannot collide.

    Raises:
        DescriptionError: The robot's file has a shape that cannot be read.
        UnknownNameError: The robot has no link with a name in `links`.
    """
    count = int(number(samples, "samples", least=1, most=1e7))
    return _survey(robot, _own_shapes(robot, links), count, never)[0]


def close_pairs(
    robot: Robot,
    links: Mapping[str, Shape | Sequence[Shape]] | None = None,
    *,
    clearance: float = _CLOSE_DISTANCE,
    samples: int = SAMPLES,
) -> tuple[ClosePair, ...]:
    """Return the pairs of links of a robot that keep less than the clearance in a `World`.

    The shapes in a file enclose the links with some room, so that neighbors touch. A pair of links
    therefore need not keep more than its distance in the neutral configuration, less 1 mm. A pair
    that is closer than 10 mm in 95 % of the samples, and never overlaps by more than 10 mm, need
    not keep more than its least distance in the samples, less 1 mm. Obstacles, objects that the
    robot holds, and geoms of the body "world" of an MJCF file always keep the whole clearance.

    Args:
        robot: The robot.
        links: Shapes of the robot's links, by link name; by default `Robot.shapes`.
        clearance: Distance that other pairs keep [m].
        samples: Number of configurations inside the joint limits that are checked.

    Raises:
        DescriptionError: The robot's file has a shape that cannot be read.
        UnknownNameError: The robot has no link with a name in `links`.
    """
    least = number(clearance, "clearance", least=0)
    count = int(number(samples, "samples", least=1, most=1e7))
    every = _survey(robot, _own_shapes(robot, links), count, False)[1]
    return tuple(pair for pair in every if pair.clearance < least)


def sufficient_clearances(robot: Robot, links: ShapesOfNames) -> dict[tuple[str, str], float]:
    """Return the smaller clearance of each close pair of checked links [m], by their names."""
    return {(one, other): d for one, other, d, _ in _survey(robot, links, SAMPLES, False)[1]}


def _own_shapes(robot: Robot, links: object) -> ShapesOfNames:
    check_robot(robot)
    own = robot.shapes
    if links is not None:
        own = checked_shapes(links, robot.description.links, "links", "link")
    return frozen_shapes(own)


@lru_cache(maxsize=32)
def _survey(
    robot: Robot, links: ShapesOfNames, samples: int, never: bool
) -> tuple[tuple[UncheckedPair, ...], tuple[ClosePair, ...]]:
    """Return the pairs of links that are not checked, and the pairs with a smaller clearance."""
    _, parts = robot_parts(robot, links, ())
    shapes = robot.description.shapes
    excluded = shapes.unchecked if isinstance(shapes, LinkShapes) else ()
    found: dict[frozenset[str], UncheckedPair] = {}
    for one, other in adjacent_links(robot, [name for name, _ in links]):
        found[frozenset((one, other))] = UncheckedPair(one, other, "adjacent")
    for one, other in excluded:
        found.setdefault(frozenset((one, other)), UncheckedPair(one, other, "excluded"))
    sampled, close = _sampled(robot, links, parts, [*found.values()], samples, never)
    return (*found.values(), *sampled), tuple(close)


def adjacent_links(robot: Robot, links: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of given links that one moving joint connects.

    Fixed joints, and links that are not given (parts without shapes), may lie between the two
    links.
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
) -> tuple[list[UncheckedPair], list[ClosePair]]:
    """Return unchecked and close pairs, found by samples, among pairs that are not in `known`."""
    chain, _ = robot_parts(robot, links, ())
    pairs = parts.pairs_of([(one, other) for one, other, _ in known])
    if chain is None or not len(pairs):
        return [], []
    names = list(dict.fromkeys(parts.owner))
    index = {name: i for i, name in enumerate(names)}
    own = np.array([index[name] for name in parts.owner])
    keys, group = np.unique(np.sort(own[pairs], axis=1) @ (len(names), 1), return_inverse=True)
    q = robot.random(samples, seed=_SEED)
    q[0] = robot.neutral()
    survey = _Survey(parts, chain, pairs, group, len(keys))
    everywhere = np.ones(len(keys), dtype=np.bool_)
    few = survey.share(q[:_SCREENING_SAMPLES], _CLOSE_DISTANCE, everywhere)
    near = few > _ALWAYS_SHARE - 0.15  # excludes most pairs
    near &= survey.share(q, _CLOSE_DISTANCE, near) >= _ALWAYS_SHARE
    touching = near & (survey.share(q, _OVERLAP_DISTANCE, near) >= _ALWAYS_SHARE)
    least = survey.least(q[:1], everywhere)
    reduced = survey.least(q, near & ~touching)
    reduced[reduced < -_CLOSE_DISTANCE] = np.inf  # one link may fold onto the other
    apart = np.zeros(len(keys), dtype=np.bool_)
    if never:
        apart = ~touching & (survey.share(q, 0.0, ~touching) == 0)
    unchecked, close = [], []
    for k, (i, j) in enumerate(zip(keys // len(names), keys % len(names), strict=True)):
        pair = names[i], names[j]
        if touching[k]:
            unchecked.append(UncheckedPair(*pair, "always"))
        elif apart[k]:
            unchecked.append(UncheckedPair(*pair, "never"))
        if not touching[k] and _SCENE not in pair:
            why: Literal["neutral", "always"] = "always" if reduced[k] < least[k] else "neutral"
            distance = float(min(least[k], reduced[k])) - _CLOSE_PAIR_SLACK
            close.append(ClosePair(*pair, distance, why))
    return unchecked, close


@dataclass(frozen=True, eq=False)
class _Survey:
    """Distances of pairs of links (k,); all pairs of shapes of the same two links form a group."""

    parts: Parts
    chain: _core.Chain
    pairs: Indices
    group: NDArray[np.intp]
    count: int

    def share(self, q: Array, below: float, which: NDArray[np.bool_]) -> Array:
        """Return the share of all q (N, n) at which each pair (k,) is closer than `below`."""
        asked = which[self.group]
        made = np.zeros(self.count)
        if asked.any():
            closer = self.parts.kernel(self.chain, self.pairs[asked]).closer(q, below)
            groups = self.group[asked]
            hit = np.zeros((len(q), self.count), dtype=np.bool_)
            np.logical_or.at(hit.T, groups, closer.T)
            made = hit.mean(axis=0)
        return made

    def least(self, q: Array, which: NDArray[np.bool_]) -> Array:
        """Return the least distance of each pair (k,) at q (N, n); infinity if not in `which`."""
        asked = which[self.group]
        made = np.full(self.count, np.inf)
        if asked.any():
            model, groups = self.parts.kernel(self.chain, self.pairs[asked]), self.group[asked]
            for each in q:
                np.minimum.at(made, groups, model.distances(each)[0])
        return made


def srdf_pairs(source: str | os.PathLike[str], robot: Robot) -> tuple[tuple[str, str], ...]:
    """Return the pairs of links that an SRDF file excludes from collision checks.

        World(obstacles, unchecked=srdf_pairs("panda.srdf", robot))

    Links that the robot does not have are ignored. A robot of `supple.urdf(file, srdf=...)` has
    these pairs already.

    Args:
        source: Path of the file, or its text.
        robot: The robot, whose links the file names.

    Raises:
        DescriptionError: The file cannot be read, or names none of the robot's links.
    """
    check_robot(robot)
    file = read_srdf(source)
    try:
        return excluded_pairs(file.root, robot.description.links, robot.name)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error


def srdf_text(robot: Robot, pairs: Sequence[UncheckedPair]) -> str:
    """Return an SRDF document with pairs and their reasons."""
    lines = [
        f"  <disable_collisions link1={quoteattr(one)} link2={quoteattr(other)} "
        f"reason={quoteattr(reason.capitalize())}/>"
        for one, other, reason in pairs
    ]
    return "\n".join([f"<robot name={quoteattr(robot.name)}>", *lines, "</robot>", ""])
