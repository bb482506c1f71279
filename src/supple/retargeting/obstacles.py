"""The shapes of a robot, of a world and of the ground z = 0, and their distances."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from supple import _core
from supple.collision import HalfSpace
from supple.collision.model import CollisionModel, check_world, new_model
from supple.collision.pairs import unchecked_pairs
from supple.collision.parts import frozen_shapes, robot_parts
from supple.collision.world import World
from supple.describe.shapes import Shape
from supple.errors import DescriptionError, InputError
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD, FixedFrame
from supple.motion.linearization import Array

_GROUND = "ground"
_ORIGIN = FixedFrame(WORLD, np.eye(4))
_GROUND_TOLERANCE = 1e-9  # slope, and height [m], below which a plane coincides with the ground


@lru_cache(maxsize=32)
def kept_apart(robot: Robot, world: World | None) -> _core.CollisionModel | None:
    """Return the model of the distances that a motion keeps; None if there are no shapes to check.

    Pairs of links that no sample of configurations brings together are left out.

    Raises:
        InputError: A shape of the robot cannot be read.
    """
    made = _model(robot, world, never=True)
    return None if made is None else made.kernel


class Depths:
    """How deep links penetrate the world, or other links.

    Args:
        robot: The robot.
        world: Obstacles, besides the ground.
        others: Whether to measure pairs of links, instead of pairs of a link and the world.

    Attributes:
        shapes: Whether there are shapes of links, and all of these can be read.
    """

    def __init__(self, robot: Robot, world: World | None, *, others: bool) -> None:
        try:
            model = _model(robot, world, never=False)
        except InputError:
            model = None
        self.shapes = model is not None
        self._kernel: _core.CollisionModel | None = None
        self._names: list[tuple[str, str]] = []
        if model is None:
            return
        made, owner = model.world, model.parts.owner
        count = len(owner) - len(made.obstacles)  # the obstacles are the last ones
        of_links = (model.pairs < count).all(axis=1)
        chosen = of_links if others else ~of_links
        if not chosen.any():
            return
        assert made.links is not None
        chain, _ = robot_parts(robot, frozen_shapes(made.links), frozen_shapes(made.attached))
        assert chain is not None
        pairs = model.pairs[chosen]
        self._kernel = model.parts.kernel(chain, pairs, model.allowed[chosen])
        self._names = [(owner[a], owner[b]) for a, b in pairs.tolist()]

    def largest(self, q: Array) -> Array:
        """Return the depth (T,) of the deepest pair at configurations (T, nq) [m], at least 0."""
        if self._kernel is None:
            return np.zeros(len(q))
        return np.array([max(0.0, -self._kernel.min_distance(each, 0.0)[0]) for each in q])

    def deepest(self, q: Array) -> tuple[str, str]:
        """Return the names of the deepest pair at a configuration (nq,)."""
        assert self._kernel is not None
        return self._names[self._kernel.min_distance(q, 0.0)[1]]


@lru_cache(maxsize=32)
def depths_of(robot: Robot, world: World | None, *, others: bool) -> Depths:
    """Return the `Depths` of a robot in a world, cached."""
    return Depths(robot, world, others=others)


def _model(robot: Robot, world: World | None, *, never: bool) -> CollisionModel | None:
    """Return the model of a robot, a world and the ground; `never` omits pairs that never meet."""
    given = World() if world is None else check_world(world)
    shapes = {
        link: tuple(shape for shape in own if not _is_ground(shape, robot._tree.frames.get(link)))
        for link, own in (robot.shapes if given.links is None else given.links).items()
    }
    if not any(shapes.values()) and not given.attached:
        return None
    name = _GROUND
    while name in given.obstacles or name in robot.description.links:
        name += "_"
    try:
        unchecked = given.unchecked
        if unchecked == "auto" and never:
            every = unchecked_pairs(robot, dict(shapes), never=True)
            unchecked = tuple((one, other) for one, other, _ in every)
        made = World(
            {
                **{key: each for key, each in given.obstacles.items() if not _is_ground(each)},
                name: HalfSpace(),
            },
            attached=given.attached,
            links=shapes,
            unchecked=unchecked,
            close=given.close,
        )
        return new_model(robot, made)
    except DescriptionError as error:
        raise InputError(f"{str(error).rstrip('.')}; clearance=None needs no shapes") from error


def _is_ground(shape: Shape, at: FixedFrame | None = _ORIGIN) -> bool:
    """Return whether a shape is the ground plane, whose pairs would be checked twice."""
    if not isinstance(shape, HalfSpace) or at is None or at.joint != WORLD:
        return False
    T = at.placement @ shape.pose
    return bool(np.abs(T[2] - [0, 0, 1, 0]).max() < _GROUND_TOLERANCE)
