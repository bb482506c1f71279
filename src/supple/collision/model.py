"""A robot in a world, compiled for the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._arrays.checks import coordinates, number
from supple.collision.pairs import sufficient_clearances, unchecked_pairs
from supple.collision.parts import (
    FIXED,
    Array,
    Parts,
    ShapesOfNames,
    frozen_shapes,
    parts_of,
    robot_parts,
)
from supple.collision.world import World
from supple.describe.shapes import Shape
from supple.errors import InputError, short_repr, unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD
from supple.kinematics.robot import check_robot


class Contact(NamedTuple):
    """The distance of two shapes.

    Attributes:
        distance: Signed distance [m]; negative is the depth of penetration.
        one: Name of the link of the first shape.
        other: Name of the link or obstacle of the second shape.
        points: Nearest points (2, 3) on the two shapes, in the world [m].
        normal: Unit vector (3,) from the second shape to the first.
    """

    distance: float
    one: str
    other: str
    points: Array
    normal: Array

    def __str__(self) -> str:
        depth = "penetrate by" if self.distance < 0 else "are apart by"
        return f"{self.one} and {self.other} {depth} {1e3 * abs(self.distance):.3g} mm"


@dataclass(frozen=True, eq=False)
class CollisionModel:
    """A robot in a world, compiled for the kernel.

    Attributes:
        robot: The robot.
        world: The world.
        parts: All shapes.
        pairs: Indices of the two shapes of each pair that is checked (k, 2).
        allowed: Smaller clearance that suffices for each pair (k,) [m]; infinite if the pair must
            keep the required clearance.
        kernel: The kernel's model; None if there is no pair.
    """

    robot: Robot
    world: World
    parts: Parts
    pairs: NDArray[np.int32]
    allowed: Array
    kernel: _core.CollisionModel | None

    def collides(self, q: ArrayLike, clearance: float = 0.0) -> NDArray[np.bool_]:
        """Return whether a pair is closer than `clearance` [m] at configurations (..., n).

        Pairs that are close by construction have a smaller clearance of their own.
        """
        values = _configurations(q, self.robot)
        flat = values.reshape(-1, self.robot.nq)
        if self.kernel is None:
            return np.zeros(values.shape[:-1], dtype=np.bool_)
        hit = np.asarray(self.kernel.collides(flat, clearance), dtype=np.bool_)
        return hit.reshape(values.shape[:-1])

    def contacts(
        self, q: ArrayLike, below: float = np.inf, *, eased: bool = False
    ) -> list[Contact]:
        """Return the nearest shapes of each pair of links or obstacles, the nearest first.

        Args:
            q: Configuration (n,).
            below: Only pairs that are closer than this are in the result [m].
            eased: Whether to leave out pairs that keep their own smaller clearance.
        """
        values = _configurations(q, self.robot)
        if values.ndim != 1:
            raise InputError(f"q must be one configuration; given: shape {values.shape}")
        if self.kernel is None:
            return []
        distance, points, normal = self.kernel.distances(values)
        found: dict[tuple[str, str], Contact] = {}
        for k in np.argsort(distance, kind="stable").tolist():
            if not distance[k] < below:
                break
            if eased and distance[k] >= self.allowed[k]:
                continue
            one, other = (self.parts.owner[i] for i in self.pairs[k].tolist())
            names = (min(one, other), max(one, other))
            if names not in found:
                found[names] = Contact(float(distance[k]), one, other, points[k], normal[k])
        return list(found.values())

    def blocking(self, q: ArrayLike, clearance: float) -> tuple[tuple[str, str], ...]:
        """Return the names of the pairs that are closer than `clearance` [m], the nearest first."""
        return tuple((each.one, each.other) for each in self.contacts(q, clearance, eased=True))


def _configurations(q: ArrayLike, robot: Robot) -> Array:
    values = np.asarray(coordinates(q, robot.nq, "q"), dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"q must be finite; given: {short_repr(q)}")
    return values


def check_world(world: object, name: str = "world") -> World:
    """Return a world after checking its type."""
    if not isinstance(world, World):
        hint = "World.load reads a file" if isinstance(world, str) else "World({...}) makes one"
        raise InputError(f"{name} must be a World; given: {short_repr(world)} ({hint})")
    return world


def check_clearance(clearance: object) -> float:
    """Return a clearance after checking that it is not negative."""
    return number(clearance, "clearance", least=0)


@lru_cache(maxsize=64)
def model_of(robot: Robot, world: World) -> CollisionModel:
    """Return the compiled model of a robot in a world, cached; `new_model` lists the errors."""
    return new_model(robot, world)


def new_model(robot: Robot, world: World) -> CollisionModel:
    """Return a new compiled model of a robot in a world, whose obstacles may be moved.

    Raises:
        UnknownNameError: The robot has no link or frame that the world names.
        DescriptionError: A shape of the robot's file, or a mesh, cannot be read.
        InputError: There are obstacles, but the robot has no shapes.
    """
    check_robot(robot)
    check_world(world)
    links = frozen_shapes(robot.shapes if world.links is None else world.links)
    chain, parts = robot_parts(robot, links, frozen_shapes(world.attached))
    if world.obstacles and not len(parts.owner):
        raise InputError(
            f"the robot {robot.name!r} has no shapes that could meet an obstacle; give them as "
            "World(..., links={link: shapes}), or load a file with collision shapes"
        )
    shapes = list(world.obstacles.values())
    names = list(world.obstacles)
    both = set(names) & set(robot.description.links)
    if both:
        raise InputError(f"an obstacle has the name of a link: {min(both)!r}")
    speeds = [world.speeds.get(name, 0.0) for name in names]
    count = len(shapes)
    obstacles = parts_of(
        shapes, names, [WORLD] * count, [FIXED] * count, [np.eye(4)] * count, speeds
    )
    if world.unchecked == "auto":
        unchecked = [(one, other) for one, other, _ in unchecked_pairs(robot, dict(links))]
    else:
        unchecked = list(world.unchecked)
        available = (*robot.description.links, *names)
        known = set(available)
        for name in (name for pair in unchecked for name in pair):
            if name not in known:
                raise unknown_name_error("link or obstacle", name, available)
    every = parts + obstacles
    pairs = every.pairs_of(unchecked)
    allowed = _allowed(robot, world, links, every, pairs)
    kernel = every.kernel(chain, pairs, allowed) if chain is not None and len(pairs) else None
    return CollisionModel(robot, world, every, pairs, allowed, kernel)


def _allowed(
    robot: Robot, world: World, links: ShapesOfNames, parts: Parts, pairs: NDArray[np.int32]
) -> Array:
    """Return the clearance that suffices for each pair of shapes (k,), or infinity."""
    made = np.full(len(pairs), np.inf)
    if world.close == "auto":
        close = sufficient_clearances(robot, links)
    else:
        close = dict(world.close)
        for name in (name for pair in close for name in pair):
            if name not in robot.description.links:
                raise unknown_name_error("link", name, robot.description.links)
    if not close:
        return made
    names = list(dict.fromkeys(parts.owner))
    index = {name: i for i, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.inf)
    for (one, other), distance in close.items():
        if one in index and other in index:
            i, j = index[one], index[other]
            table[i, j] = table[j, i] = distance
    own = np.array([index[name] for name in parts.owner], dtype=np.intp)
    count = sum(len(shapes) for _, shapes in links)  # shapes of held objects follow those of links
    of_links = (pairs < count).all(axis=1)
    made[of_links] = table[own[pairs[of_links, 0]], own[pairs[of_links, 1]]]
    return made


def moved_obstacles(old: World, new: World) -> tuple[list[int], Array] | None:
    """Return the numbers and poses (k, 4, 4) of obstacles that have moved between two worlds.

    The result is None if something else has changed.
    """
    same = ("attached", "links", "unchecked", "close", "speeds")
    if any(getattr(old, name) is not getattr(new, name) for name in same):
        return None
    if len(old.obstacles) != len(new.obstacles):
        return None
    numbers, poses = [], []
    both = zip(old.obstacles.items(), new.obstacles.items(), strict=True)
    for i, ((one, before), (other, after)) in enumerate(both):
        if before is after and one == other:
            continue
        if one != other or not _differ_in_pose(before, after):
            return None
        numbers.append(i)
        poses.append(after.pose)
    return numbers, np.array(poses, dtype=np.float64).reshape(-1, 4, 4)


def _differ_in_pose(one: Shape, other: Shape) -> bool:
    if type(one) is not type(other):
        return False
    own, others = vars(one), vars(other)
    fields = [name for name in own if name != "pose"]
    return all(own[x] is others[x] or np.array_equal(own[x], others[x]) for x in fields)


def collides(robot: Robot, world: World, q: ArrayLike, clearance: float = 0.0) -> NDArray[np.bool_]:
    """Return whether any two parts are closer than `clearance`, for configurations (..., n).

    Args:
        robot: The robot.
        world: Obstacles, shapes of links, and pairs that are not checked.
        q: Configurations (..., n) [rad or m].
        clearance: Distance that all pairs must keep [m].

    Raises:
        InputError: An argument is malformed, or q is not finite.
        UnknownNameError: The robot has no link or frame that the world names.
    """
    return model_of(robot, check_world(world)).collides(q, check_clearance(clearance))


def contacts(robot: Robot, world: World, q: ArrayLike, *, below: float = np.inf) -> list[Contact]:
    """Return the distances of all pairs of links and obstacles that are checked, nearest first.

    Args:
        robot: The robot.
        world: Obstacles, shapes of links, and pairs that are not checked.
        q: Configuration (n,) [rad or m].
        below: Only pairs that are closer than this are in the result [m].

    Raises:
        InputError: An argument is malformed, or q is not finite.
        UnknownNameError: The robot has no link or frame that the world names.
    """
    return model_of(robot, check_world(world)).contacts(q, below)
