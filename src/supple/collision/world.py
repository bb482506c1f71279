"""A world: obstacles, shapes of links, attached objects, and pairs that are not checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import number
from supple.collision.scenes import read_scene
from supple.describe.link_shapes import shape_sequence
from supple.describe.shapes import SHAPES, Shape, placed, shape_pose
from supple.errors import InputError, known_arguments, short_repr, unknown_name_error

ShapesOf = Mapping[str, "Shape | Sequence[Shape]"]
Unchecked = Iterable[tuple[str, str]] | Literal["auto"]


class World:
    """Obstacles around a robot, shapes of its links, and objects that it holds; immutable.

        world = World({"table": Box((1, 1, 0.05), (0.5, 0, -0.03))})
        world = World.load("scene.json")
        solve(robot, T, world=world)

    A world does not belong to a robot: names of links and frames are checked when the world is used
    with a robot.

    Attributes:
        obstacles: Shapes in the world, by name; their poses are in the world.
        attached: Shapes that the robot holds, by name of the frame that they are fixed to; their
            poses are in that frame. They count as parts of the link that carries the frame.
        links: Shapes of links, by name of the link; None for those of the robot's file
            (`Robot.shapes`).
        unchecked: Pairs of names of links or obstacles that are not checked against each other, or
            "auto": adjacent links, links that overlap in every configuration, and pairs that the
            robot's file excludes. Two parts that no joint moves relative to each other are never
            checked.
        close: Distances that pairs of links keep instead of a larger required clearance [m], by the
            names of both links, or "auto": those of `close_pairs`. Obstacles and objects that the
            robot holds always keep the whole clearance.
        speeds: Bounds of the speeds of obstacles that may move [m/s], by name; others stand still.
    """

    if TYPE_CHECKING:  # only for type checkers, so that help() does not list them twice
        obstacles: Mapping[str, Shape]
        attached: Mapping[str, tuple[Shape, ...]]
        links: Mapping[str, tuple[Shape, ...]] | None
        unchecked: tuple[tuple[str, str], ...] | Literal["auto"]
        close: Mapping[tuple[str, str], float] | Literal["auto"]
        speeds: Mapping[str, float]

    @known_arguments()
    def __init__(
        self,
        obstacles: Mapping[str, Shape] = MappingProxyType({}),
        *,
        attached: ShapesOf = MappingProxyType({}),
        links: ShapesOf | None = None,
        unchecked: Unchecked = "auto",
        close: Mapping[tuple[str, str], float] | Literal["auto"] = "auto",
        speeds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Make a world; the arguments are the attributes.

        Raises:
            InputError: An argument is malformed.
            UnknownNameError: A speed is given for an obstacle that does not exist.
        """
        shapes = _named(obstacles, "obstacles", "obstacles by name, each a shape")
        for name, shape in shapes.items():
            if not isinstance(shape, SHAPES):
                kinds = ", ".join(each.__name__ for each in SHAPES)
                raise InputError(
                    f"the obstacle {name!r} must be a shape of supple.collision ({kinds}); given: "
                    f"{short_repr(shape)}"
                )
        moving = _named(speeds, "speeds", "names of obstacles with speeds [m/s]")
        for name in moving:
            if name not in shapes:
                raise unknown_name_error("obstacle", name, shapes)
        vars(self).update(
            obstacles=MappingProxyType(shapes),
            attached=_shapes(attached, "attached"),
            links=None if links is None else _shapes(links, "links"),
            unchecked=_pairs(unchecked),
            close=_close(close),
            speeds=MappingProxyType(
                {name: number(v, f"the speed of {name!r}", least=0) for name, v in moving.items()}
            ),
        )

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> World:
        """Read the obstacles of a scene file: JSON, URDF or MJCF.

        A JSON file is an object with "obstacles", or only the list of obstacles. An obstacle has a
        "type" with its sizes [m]: "sphere" (radius), "box" (size), "cylinder" and "capsule"
        (radius, length), "half_space", "hull" (points, radius) or "mesh" (file, scale); optional
        are "id", "position" (x, y, z) [m], "xyzw", "wxyz" or "rpy", and "speed" [m/s]. Sizes may
        also be "dimensions": of a box x, y, z; of a cylinder or capsule its length, then its
        radius; of a sphere its radius.

        Obstacles of a URDF file are the <collision> shapes of its links, all of which must be fixed
        to the world. Obstacles of an MJCF file are the geoms that take part in contacts and belong
        to bodies that are fixed to the world or free; they stand where the file places them.

        Raises:
            DescriptionError: The file cannot be read, or a shape in it is invalid.
        """
        obstacles, speeds = read_scene(source)
        return cls(obstacles, speeds=speeds)

    def moved(self, poses: Mapping[str, ArrayLike]) -> World:
        """Return a copy of the world with some obstacles at other poses.

        Args:
            poses: Poses (4, 4) or positions (3,) in the world [m], by name of the obstacle. A
                position leaves the orientation as it is.

        Raises:
            UnknownNameError: There is no obstacle with one of the names.
        """
        obstacles = dict(self.obstacles)
        for name, given in _named(poses, "poses", "names of obstacles with poses").items():
            if name not in obstacles:
                raise unknown_name_error("obstacle", name, obstacles)
            T = shape_pose(given, f"the pose of {name!r}")
            if np.shape(given) == (3,):
                T[:3, :3] = obstacles[name].pose[:3, :3]
            obstacles[name] = placed(obstacles[name], T)
        made = object.__new__(World)  # all else has been checked
        vars(made).update(vars(self), obstacles=MappingProxyType(obstacles))
        return made

    def with_obstacle(self, name: str, shape: Shape, *, speed: float = 0.0) -> World:
        """Return a copy of the world with one more obstacle, or with one of this name replaced.

        Args:
            name: Name of the obstacle.
            shape: Shape with its pose in the world.
            speed: Bound of the obstacle's speed [m/s].
        """
        speeds = {key: v for key, v in self.speeds.items() if key != name}
        if number(speed, "speed", least=0):
            speeds[name] = speed
        return self._changed(obstacles={**self.obstacles, name: shape}, speeds=speeds)

    def without(self, name: str) -> World:
        """Return a copy of the world without the obstacle `name`.

        Raises:
            UnknownNameError: There is no such obstacle.
        """
        if name not in self.obstacles:
            raise unknown_name_error("obstacle", name, self.obstacles)
        return self._changed(
            obstacles={key: each for key, each in self.obstacles.items() if key != name},
            speeds={key: each for key, each in self.speeds.items() if key != name},
        )

    def _changed(self, **changes: object) -> World:
        return World(**{**vars(self), **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a World is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a World is immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        plain = {key: dict(v) if isinstance(v, Mapping) else v for key, v in vars(self).items()}
        return (_rebuilt, (plain,))

    def __repr__(self) -> str:
        names = ", ".join(f"{k!r}: {type(v).__name__}" for k, v in self.obstacles.items())
        held = f", attached to {', '.join(map(repr, self.attached))}" if self.attached else ""
        return f"World({{{names}}}{held})"


def _rebuilt(fields: dict[str, object]) -> World:
    return World(**fields)  # type: ignore[arg-type]


def _named(given: object, what: str, expected: str) -> dict[str, Any]:
    """Return a mapping as a dictionary after checking that its keys are names."""
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must be a mapping: {expected}; given: {short_repr(given)}")
    for name in given:
        if not isinstance(name, str) or not name:
            raise InputError(f"{what}: names must be strings; given: {short_repr(name)}")
    return dict(given)


def _shapes(given: object, what: str) -> Mapping[str, tuple[Shape, ...]]:
    each = _named(given, what, "names with a shape or a sequence of shapes")
    made = {name: shape_sequence(s, f"{what} of {name!r}") for name, s in each.items()}
    return MappingProxyType(made)


def _close(given: object) -> Mapping[tuple[str, str], float] | Literal["auto"]:
    """Return distances by pairs of names, or "auto", after checking the argument."""
    if isinstance(given, str) and given == "auto":
        return "auto"
    expected = 'close must be "auto" or distances [m] by pairs of names of links'
    if not isinstance(given, Mapping):
        raise InputError(f"{expected}; given: {short_repr(given)}")
    for pair in given:
        names = isinstance(pair, tuple) and all(isinstance(name, str) for name in pair)
        if not names or len(pair) != 2:
            raise InputError(f"{expected}; given: {short_repr(pair)} among them")
    return MappingProxyType({pair: number(d, f"close[{pair!r}]") for pair, d in given.items()})


def _pairs(given: object) -> tuple[tuple[str, str], ...] | Literal["auto"]:
    """Return pairs of names, or "auto", after checking the argument."""
    if isinstance(given, str) and given == "auto":
        return "auto"
    expected = 'unchecked must be "auto" or pairs of names'
    if isinstance(given, str):
        raise InputError(f"{expected}; given: {short_repr(given)}")
    try:
        pairs = tuple(tuple(pair) for pair in given)  # type: ignore[attr-defined]
    except Exception as error:  # raised by the object's own iterator
        raise InputError(f"{expected}; given: {short_repr(given)}") from error
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise InputError(f"{expected}; given: {short_repr(pair)} among them")
    return pairs
