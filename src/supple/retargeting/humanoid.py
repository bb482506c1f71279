"""Find the legs, arms, pelvis and soles among the links of a robot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from supple.collision import Box, Capsule, ConvexHull, Cylinder, Sphere
from supple.collision.hull import hull_of
from supple.describe.description import Description
from supple.describe.joint import Joint
from supple.describe.shapes import HalfSpace, Mesh, Shape
from supple.errors import InputError, join_names
from supple.kinematics import Robot
from supple.kinematics.frames import ancestors
from supple.kinematics.robot import check_robot
from supple.motion.linearization import Array
from supple.retargeting.points import words_of

_MIDDLE = {
    "leg": re.compile(r"knee|shin|shank|calf|lower_?leg", re.IGNORECASE),
    "arm": re.compile(r"elbow|fore_?arm|lower_?arm", re.IGNORECASE),
}
SOLE_THICKNESS = 0.01  # points this close to the lowest one belong to the sole [m]
_ANGLES = np.arange(8) * np.pi / 4
_OUTWARD = np.stack([np.cos(_ANGLES), np.sin(_ANGLES), 0 * _ANGLES], axis=-1)
_AXIS_DIRECTIONS = np.concatenate([np.eye(3), -np.eye(3)])
_FOOT_TILTS = (0.3, 0.6, 1.0)  # tilts for which the lowest points of a foot are found [rad]


class Limb(NamedTuple):
    """Links of a leg or an arm, from the body outward.

    Attributes:
        root: The link of the hip or shoulder.
        middle: The link of the knee or elbow.
        end: The foot, or the outermost frame of the hand.
        body: The last link that a joint moves.
    """

    root: str
    middle: str
    end: str
    body: str


@dataclass(frozen=True, eq=False)
class Humanoid:
    """The parts of a humanoid that follow a human, and their places at the neutral configuration.

    Attributes:
        robot: The robot, with a floating base.
        pelvis: The link that carries both legs.
        torso: The link that carries both arms.
        legs: The left and the right leg.
        arms: The left and the right arm.
        soles: Points of the sole of each foot (k, 3), in the frame of the foot [m].
        at: Pose (4, 4) of each named link at the neutral configuration [m].
    """

    robot: Robot
    pelvis: str
    torso: str
    legs: tuple[Limb, Limb]
    arms: tuple[Limb, Limb]
    soles: tuple[Array, Array]
    at: dict[str, Array]

    @classmethod
    def of(cls, robot: Robot) -> Humanoid:
        """Find the limbs of a robot, which gets a floating base if it has none.

        Raises:
            InputError: The robot has no two legs and two arms with "left" and "right" in their
                names.
        """
        check_robot(robot)
        return cls._of(robot)

    @classmethod
    @lru_cache(maxsize=32)
    def _of(cls, robot: Robot) -> Humanoid:
        planar = any(joint.kind == "planar" for joint in robot.description.joints)
        moving = robot if robot._balls or planar else robot.with_base("floating")
        if moving._balls != (3,) or planar:
            raise InputError(
                "a humanoid needs a floating base as its first joint, or none, and no planar or "
                f"other joint with a quaternion; given: {robot.name} with "
                f"{join_names(robot.joint_names)}"
            )
        limbs = _limbs(moving)
        chains = _Chains(moving.description)
        q = moving.neutral()
        low = {key: moving.fk(q, bodies[-1])[2, 3] for key, bodies in limbs.items()}
        pairs = sorted(
            {key[1] for key in limbs if ("left", key[1]) in limbs and ("right", key[1]) in limbs},
            key=lambda group: low["left", group],
        )
        if len(pairs) < 2:
            raise InputError(
                "a humanoid needs two legs and two arms with 'left' and 'right' in the names of "
                f"their links; given: {robot.name} with the end effectors {join_names(robot.tips)}"
            )
        roots = {group: moving.fk(q, limbs["left", group][0])[2, 3] for group in pairs[1:]}
        upper = max(roots, key=lambda group: roots[group])
        legs = tuple(_limb(moving, limbs[side, pairs[0]], "leg") for side in ("left", "right"))
        arms = tuple(_limb(moving, limbs[side, upper], "arm") for side in ("left", "right"))
        pelvis = chains.common([limbs[side, pairs[0]][0] for side in ("left", "right")])
        torso = chains.common([limbs[side, upper][0] for side in ("left", "right")])
        names = {pelvis, torso, *(link for limb in (*legs, *arms) for link in limb)}
        return cls(
            robot=moving,
            pelvis=pelvis,
            torso=torso,
            legs=(legs[0], legs[1]),
            arms=(arms[0], arms[1]),
            soles=(sole_of(moving, legs[0].end), sole_of(moving, legs[1].end)),
            at={name: np.asarray(moving.fk(q, name), dtype=np.float64) for name in names},
        )

    @cached_property
    def lowest(self) -> tuple[Array, Array]:
        """Balls (k, 4) of each foot, centers and radii [m], that are lowest at some tilt."""
        return lowest_of(self.robot, self.legs[0].end), lowest_of(self.robot, self.legs[1].end)

    @property
    def turns_feet(self) -> bool:
        """Whether both legs have the six joints that put a foot into any pose."""
        above = len(ancestors(self.robot, self.pelvis))
        return all(len(ancestors(self.robot, leg.end)) - above >= 6 for leg in self.legs)

    def length(self, limb: Limb) -> tuple[float, float]:
        """Return the lengths of the two segments of a limb [m]."""
        root, middle, end = (self.at[name][:3, 3] for name in limb[:3])
        return float(np.linalg.norm(middle - root)), float(np.linalg.norm(end - middle))


class _Chains:
    """The joints between the root and each link of a description."""

    def __init__(self, description: Description) -> None:
        self._above: dict[str, Joint] = {joint.child: joint for joint in description.joints}

    def joints(self, link: str) -> list[Joint]:
        """Return the joints from the root to a link."""
        found: list[Joint] = []
        while link in self._above:
            found.append(self._above[link])
            link = found[-1].parent
        return found[::-1]

    def common(self, links: Sequence[str]) -> str:
        """Return the last link that carries all of the given links and is not one of them."""
        ways = [[joint.parent for joint in self.joints(link)] for link in links]
        shared = [one for one, *others in zip(*ways, strict=False) if set(others) <= {one}]
        return str(shared[-1])

    def body(self, link: str) -> str:
        """Return the link itself if a joint moves it, else the nearest such link above it."""
        while link in self._above and self._above[link].kind == "fixed":
            link = self._above[link].parent
        return link


def _limbs(robot: Robot) -> dict[tuple[str, str], list[str]]:
    """Return the moved links of each limb, outward, by its side and its first joint's name."""
    chains = _Chains(robot.description)
    every: dict[tuple[str, str], list[list[str]]] = {}
    for leaf in robot.description.links:
        moved = [
            j for j in chains.joints(leaf) if j.kind in ("revolute", "prismatic", "continuous")
        ]
        sided = [k for k, joint in enumerate(moved) if _side(joint)]
        if not sided:
            continue
        first = moved[sided[0]]
        side = _side(first)
        group = " ".join(word for word in words_of(first.name) if word != side)
        every.setdefault((side, group), []).append([j.child for j in moved[sided[0] :]])
    found = {}
    for key, ways in every.items():
        # Fingers branch: the limb ends where they begin.
        whole = [way for way in ways if not any(_begins(other, way) for other in ways)]
        shared = [one for one, *others in zip(*whole, strict=False) if set(others) <= {one}]
        found[key] = shared
    return {key: links for key, links in found.items() if len(links) >= 3}


def _begins(longer: list[str], way: list[str]) -> bool:
    return len(longer) > len(way) and longer[: len(way)] == way


def _side(joint: Joint) -> str:
    """Return the side that the names of a joint and its link tell: "left", "right" or ""."""
    first = [words_of(text)[:1] for text in (joint.name, joint.child)]
    return next((words[0] for words in first if words in (["left"], ["right"])), "")


def _limb(robot: Robot, links: list[str], kind: str) -> Limb:
    """Return the links of a limb; its middle has a known name, or is the fourth joint's."""
    chains = _Chains(robot.description)
    names = [chains.joints(link)[-1].name + " " + link for link in links]
    named = [k for k, name in enumerate(names) if k and _MIDDLE[kind].search(name)]
    middle = named[0] if named else min(3, len(links) - 2)
    root, end = links[min(1, middle - 1)], links[-1]
    outer = end
    if kind == "arm":
        q = robot.neutral()
        at = robot.fk(q, links[middle])[:3, 3]
        fixed = [link for link in robot.description.links if chains.body(link) == end]
        far = {link: float(np.linalg.norm(robot.fk(q, link)[:3, 3] - at)) for link in fixed}
        outer = max(far, key=lambda link: far[link])
    return Limb(root, links[middle], outer, end)


def sole_of(robot: Robot, foot: str) -> Array:
    """Return the lowest points (k, 3) of a foot at the neutral configuration, in its frame [m].

    These points are the lowest one and, among all points at most 1 cm above it, the outermost one
    in each of eight directions. A foot without shapes has one point, its origin.
    """
    T, balls = _balls_of(robot, foot)
    world = np.concatenate([balls[:, :3] + balls[:, 3:] * way for way in _AXIS_DIRECTIONS])
    low = world[world[:, 2] <= world[:, 2].min() + SOLE_THICKNESS]
    chosen = {int(low[:, 2].argmin()), *(low @ _OUTWARD.T).argmax(axis=0).tolist()}
    return np.asarray((low[sorted(chosen)] - T[:3, 3]) @ T[:3, :3])


def lowest_of(robot: Robot, foot: str) -> Array:
    """Return the balls (k, 4) of a foot that are lowest at some tilt, in the foot's frame [m].

    A row has the center and the radius of a ball; the radius is zero for a corner of a shape.
    """
    T, world = _balls_of(robot, foot)
    ways = [[0.0, 0.0, -1.0]]
    ways += [way for tilt in _FOOT_TILTS for way in np.sin(tilt) * _OUTWARD - [0, 0, np.cos(tilt)]]
    far = world[:, :3] @ np.transpose(ways) + world[:, 3:]
    chosen = sorted(set(far.argmax(axis=0).tolist()))
    own = (world[chosen, :3] - T[:3, 3]) @ T[:3, :3]
    return np.concatenate([own, world[chosen, 3:]], axis=1)


def _balls_of(robot: Robot, foot: str) -> tuple[Array, Array]:
    """Return the pose (4, 4) of a foot and balls (k, 4) that span its shapes, at neutral [m]."""
    chains = _Chains(robot.description)
    q = robot.neutral()
    T = robot.fk(q, foot)
    found = [np.append(T[:3, 3], 0.0)[None]]
    for link in robot.description.links:
        if chains.body(link) != chains.body(foot):
            continue
        at = robot.fk(q, link)
        for shape in robot.shapes.get(link, ()):
            balls = _balls(shape)
            found.append(
                np.concatenate([balls[:, :3] @ at[:3, :3].T + at[:3, 3], balls[:, 3:]], axis=1)
            )
    return np.asarray(T), np.concatenate(found[1:] if len(found) > 1 else found)


def _balls(shape: Shape) -> Array:
    """Return balls (k, 4) whose hull contains a shape, in the frame of its link [m]."""
    if isinstance(shape, HalfSpace):
        return np.empty((0, 4))
    if isinstance(shape, Mesh):
        shape = hull_of(shape)
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    radius = 0.0
    if isinstance(shape, Box):
        own = 0.5 * signs * np.asarray(shape.size)
    elif isinstance(shape, Sphere):
        own, radius = np.zeros((1, 3)), shape.radius
    elif isinstance(shape, Cylinder):
        own = 0.5 * signs * np.array([2 * shape.radius, 2 * shape.radius, shape.length])
    elif isinstance(shape, Capsule):
        own, radius = np.array([[0, 0, 0.5], [0, 0, -0.5]]) * shape.length, shape.radius
    else:
        assert isinstance(shape, ConvexHull)
        own, radius = np.asarray(shape.points), shape.radius
    T = np.asarray(shape.pose)
    return np.column_stack([own @ T[:3, :3].T + T[:3, 3], np.full(len(own), radius)])
