"""Convert the shapes of a robot and its world for the kernel, and list the checked pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._core import ShapeKind
from supple.collision.hull import hull_of
from supple.describe.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    HalfSpace,
    Mesh,
    Shape,
    Sphere,
)
from supple.errors import InputError, unknown_name_error
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD

Array = NDArray[np.float64]
Indices = NDArray[np.int32]

_KINDS: dict[type[Shape], ShapeKind] = {
    Sphere: ShapeKind.SPHERE,
    Capsule: ShapeKind.CAPSULE,
    Box: ShapeKind.BOX,
    Cylinder: ShapeKind.CYLINDER,
    HalfSpace: ShapeKind.HALF_SPACE,
    ConvexHull: ShapeKind.HULL,
}
FIXED = -1  # the frame of shapes that are fixed to the world


@dataclass(frozen=True, eq=False)
class Parts:
    """Shapes in the form of the kernel.

    Attributes:
        owner: Name of the link or obstacle of each shape (s,).
        body: Index of the moving joint that carries each shape, or -1 for the world (s,).
        frame: Index of the frame that each shape is fixed to, or -1 for the world (s,).
        kind: Kind of each shape (s,).
        pose: Pose of each shape in its frame (s, 4, 4) [m].
        size: Sizes of each shape (s, 3) [m].
        radius: Rounding radius of each shape (s,) [m].
        vertices: Points of all hulls (v, 3) [m].
        first_vertex: Index of the first point of each shape (s + 1,).
        speed: Bound of the speed of each shape's obstacle (s,) [m/s].
    """

    owner: tuple[str, ...]
    body: Indices
    frame: Indices
    kind: Indices
    pose: Array
    size: Array
    radius: Array
    vertices: Array
    first_vertex: Indices
    speed: Array

    def __add__(self, other: Parts) -> Parts:
        """Return these shapes followed by those of `other`."""
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("body", "frame", "kind", "pose", "size", "radius", "vertices", "speed")
        }
        later = other.first_vertex[1:] + self.first_vertex[-1]
        joined["first_vertex"] = np.concatenate([self.first_vertex, later])
        return Parts(owner=self.owner + other.owner, **joined)

    def pairs_of(self, unchecked: Iterable[tuple[str, str]]) -> Indices:
        """Return the pairs (k, 2) of shapes on different bodies, except pairs named in `unchecked`.

        The first shape of a pair moves; the second may be fixed to the world.
        """
        names = list(dict.fromkeys(self.owner))
        index = {name: i for i, name in enumerate(names)}
        checked = np.ones((len(names), len(names)), dtype=np.bool_)
        for one, other in unchecked:
            if one in index and other in index:
                checked[index[one], index[other]] = checked[index[other], index[one]] = False
        own = np.array([index[name] for name in self.owner], dtype=np.intp)
        i, j = np.triu_indices(len(own), 1)
        kept = (self.body[i] != self.body[j]) & checked[own[i], own[j]]
        i, j = i[kept], j[kept]
        swap = self.body[i] == WORLD
        i, j = np.where(swap, j, i), np.where(swap, i, j)
        return np.stack([i, j], axis=1).astype(np.int32)

    def kernel(
        self, chain: _core.Chain, pairs: Indices, allowed: Array | None = None
    ) -> _core.CollisionModel:
        """Return the kernel's model; each of the `pairs` has a sufficient clearance, `allowed`."""
        return _core.CollisionModel(
            chain,
            kind=self.kind,
            frame=self.frame,
            pose=self.pose,
            size=self.size,
            radius=self.radius,
            vertices=self.vertices,
            first_vertex=self.first_vertex,
            speed=self.speed,
            pairs=pairs,
            allowed=allowed,
        )


def parts_of(
    shapes: Sequence[Shape],
    owner: Sequence[str],
    body: Sequence[int],
    frame: Sequence[int],
    placement: Sequence[Array],
    speed: Sequence[float],
) -> Parts:
    """Return shapes in the form of the kernel, with the poses placement @ shape.pose."""
    solid = [hull_of(each) if isinstance(each, Mesh) else each for each in shapes]
    points = [each.points if isinstance(each, ConvexHull) else np.empty((0, 3)) for each in solid]
    count = len(solid)
    return Parts(
        owner=tuple(owner),
        body=np.array(body, dtype=np.int32),
        frame=np.array(frame, dtype=np.int32),
        kind=np.array([_KINDS[type(each)].value for each in solid], dtype=np.int32),
        pose=np.array([T @ s.pose for T, s in zip(placement, solid, strict=True)]).reshape(
            -1, 4, 4
        ),
        size=np.array([_size(each) for each in solid]).reshape(count, 3),
        radius=np.array([getattr(each, "radius", 0.0) for each in solid], dtype=np.float64),
        vertices=np.concatenate([np.empty((0, 3)), *points]),
        first_vertex=np.cumsum([0, *(len(each) for each in points)]).astype(np.int32),
        speed=np.array(speed, dtype=np.float64),
    )


def _size(shape: Shape) -> tuple[float, ...]:
    if isinstance(shape, Box):
        return tuple(shape.size.tolist())
    if isinstance(shape, Sphere):
        return (shape.radius, 0.0, 0.0)
    if isinstance(shape, Capsule | Cylinder):
        return (shape.radius, shape.length, 0.0)
    return (0.0, 0.0, 0.0)


ShapesOfNames = tuple[tuple[str, tuple[Shape, ...]], ...]  # hashable


def frozen_shapes(given: Mapping[str, tuple[Shape, ...]]) -> ShapesOfNames:
    """Return a mapping from names to shapes as a tuple, which is hashable."""
    return tuple(given.items())


@lru_cache(maxsize=32)
def robot_parts(
    robot: Robot, links: ShapesOfNames, attached: ShapesOfNames
) -> tuple[_core.Chain | None, Parts]:
    """Return the shapes of a robot's links and held objects, and the chain of their frames.

    Shapes on one body share a frame, whose kinematics are computed once.

    Raises:
        UnknownNameError: The robot has no link or frame of a name.
        DescriptionError: A mesh cannot be read.
        InputError: A half-space is fixed to a link that moves.
    """
    frames = robot._tree.frames
    for name, _ in links:
        if name not in robot.description.links:
            raise unknown_name_error("link", name, robot.description.links)
    for name, _ in attached:
        if name not in frames:
            raise unknown_name_error("frame", name, robot.frames)
    carrier = {each.name: each.link for each in robot.description.frames}
    named = [(name, name, each) for name, each in links]
    named += [(carrier.get(name, name), name, each) for name, each in attached]
    first: dict[int, str] = {}  # a frame of each body that moves
    shapes: list[Shape] = []
    owner, body, frame, placement = [], [], [], []
    for link, place, each in named:
        at = frames[place]
        T = at.placement
        if at.joint != WORLD:
            origin = frames[first.setdefault(at.joint, place)].placement
            T = np.asarray(np.linalg.solve(origin, T), dtype=np.float64)
        for shape in each:
            if isinstance(shape, HalfSpace) and at.joint != WORLD:
                raise InputError(
                    f"a HalfSpace must be fixed to the world; given: one on {place!r}, which moves"
                )
            shapes.append(shape)
            owner.append(link)
            body.append(at.joint)
            frame.append(FIXED if at.joint == WORLD else list(first).index(at.joint))
            placement.append(T)
    chain = robot._chain(tuple(first.values())) if first else None
    return chain, parts_of(shapes, owner, body, frame, placement, [0.0] * len(shapes))
