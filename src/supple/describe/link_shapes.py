"""Shapes of the links of a robot file, which are converted when they are first used.

Most calls need no shapes; reading a robot only keeps the text of their attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol
from xml.etree.ElementTree import Element

import numpy as np

from supple.describe._meshes import mesh_file
from supple.describe._pose import Array, from_wxyz, rotation_x, rotation_y, rotation_z
from supple.describe.shapes import (
    SHAPES,
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Mesh,
    Shape,
    Sphere,
)
from supple.errors import DescriptionError, InputError, short_repr, unknown_name_error, warn

_KINDS = ("box", "sphere", "cylinder", "capsule", "mesh")
_DISC = 32  # number of corners of the polygon around a disc


class ShapeRecord(Protocol):
    """The text of a shape in a file."""

    @property
    def link(self) -> str:
        """Name of the link."""

    def shape(self, folder: Path | None) -> Shape | None:
        """Return the shape, or None for a point; files are searched for in the robot's folder."""

    def meets(self, other: ShapeRecord) -> bool:
        """Return whether the file allows contacts of the two shapes."""


class LinkShapes(Mapping[str, tuple[Shape, ...]]):
    """The shapes of each link that has any, by name of the link; immutable.

    Args:
        records: Shapes as their text in a file.
        label: Name of the file in error messages.
        folder: Folder of the file, in which meshes are searched for.
        excluded: Pairs of links that the file excludes from collision checks.
    """

    def __init__(
        self,
        records: Sequence[ShapeRecord] = (),
        label: str = "",
        folder: Path | None = None,
        excluded: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._records = tuple(records)
        self._label, self._folder = label, folder
        self._excluded = tuple(excluded)

    @cached_property
    def _shapes(self) -> dict[str, tuple[Shape, ...]]:
        made: dict[str, list[Shape]] = {}
        for record in self._records:
            what = f"{self._label}: collision shape of link {short_repr(record.link)}"
            try:
                shape = record.shape(self._folder)
            except (InputError, DescriptionError) as error:
                raise DescriptionError(f"{what}: {error}") from error
            if shape is None:
                warn(f"{what} is a point and is left out: {record}")
            else:
                made.setdefault(record.link, []).append(shape)
        return {link: tuple(shapes) for link, shapes in made.items()}

    @cached_property
    def unchecked(self) -> tuple[tuple[str, str], ...]:
        """Pairs of links that the file excludes from collision checks."""
        by_link: dict[str, list[ShapeRecord]] = {}
        for record in self._records:
            by_link.setdefault(record.link, []).append(record)
        links = list(by_link)
        apart = [
            (one, other)
            for i, one in enumerate(links)
            for other in links[:i]
            if not any(a.meets(b) for a in by_link[one] for b in by_link[other])
        ]
        return (*self._excluded, *apart)

    def __getitem__(self, link: str) -> tuple[Shape, ...]:
        return self._shapes[link]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self) -> str:
        return repr(self._shapes)


class GivenShapes(LinkShapes):
    """Shapes of links, given as objects that have already been checked."""

    def __init__(self, given: object, links: Sequence[str]) -> None:
        super().__init__()
        object.__setattr__(self, "_shapes", checked_shapes(given, links, "shapes", "link"))

    def __reduce__(self) -> tuple[object, ...]:
        return (GivenShapes, (dict(self), tuple(self)))


def checked_shapes(
    given: object, names: Sequence[str], what: str, kind: str
) -> dict[str, tuple[Shape, ...]]:
    """Return a mapping from names to tuples of shapes after checking both.

    Args:
        given: A mapping from names to a shape or a sequence of shapes.
        names: The names that exist.
        what: Name of the argument in error messages.
        kind: Noun for the named things, such as "link".

    Raises:
        InputError: The argument is not such a mapping.
        UnknownNameError: A name does not exist.
    """
    expected = f"{what} must map names of {kind}s to shapes"
    if not isinstance(given, Mapping):
        raise InputError(f"{expected}; given: {short_repr(given)}")
    known, made = set(names), {}
    for name, each in given.items():
        if name not in known:
            raise unknown_name_error(kind, name, names)
        made[name] = shape_sequence(each, f"{what} of {short_repr(name)}")
    return {name: shapes for name, shapes in made.items() if shapes}


def shape_sequence(given: object, what: str) -> tuple[Shape, ...]:
    """Return one shape or a sequence of shapes as a tuple after checking the type of each."""
    if isinstance(given, SHAPES):
        return (given,)
    try:
        shapes: tuple[object, ...] = tuple(given)  # type: ignore[arg-type]
    except Exception as error:  # raised by the object's own iterator
        raise InputError(f"{what} must be shapes; given: {short_repr(given)}") from error
    for shape in shapes:
        if not isinstance(shape, SHAPES):
            names = ", ".join(each.__name__ for each in SHAPES)
            raise InputError(f"{what} must be shapes ({names}); given: {short_repr(shape)}")
    return shapes  # type: ignore[return-value]


@dataclass(frozen=True)
class UrdfShape:
    """The text of a <collision> element of a URDF file.

    Attributes:
        link: Name of the link.
        kind: Tag of the element's geometry; empty without a geometry.
        attributes: Attributes of the geometry.
        origin: Attributes of the element's <origin>.
    """

    link: str
    kind: str
    attributes: Mapping[str, str]
    origin: Mapping[str, str]

    def meets(self, other: ShapeRecord) -> bool:
        """Return true: a URDF file excludes no pairs."""
        return True

    def __str__(self) -> str:
        sizes = " ".join(f'{key}="{value}"' for key, value in self.attributes.items())
        return f"<{self.kind} {sizes}/>"

    def shape(self, folder: Path | None) -> Shape | None:
        """Return the shape; meshes are searched for in the folder of the robot file.

        A shape without volume is the hull of its corners; the result is None for a point.
        """
        if self.kind not in _KINDS:
            if not self.kind:
                raise DescriptionError("has no <geometry> with a shape.")
            raise DescriptionError(str(unknown_name_error("geometry", self.kind, _KINDS)))
        pose = self._pose()
        if self.kind == "box":
            size = self._numbers(self.attributes, "size", 3)
            return Box(size, pose) if size.all() else _flat(size, pose)
        if self.kind == "mesh":
            name = self.attributes.get("filename", "")
            scale = self._numbers(self.attributes, "scale", 3, (1.0, 1.0, 1.0))
            return Mesh(mesh_file(name, folder), scale, pose)
        radius = float(self._numbers(self.attributes, "radius", 1)[0])
        if self.kind == "sphere":
            return Sphere(radius, pose) if radius else None
        length = float(self._numbers(self.attributes, "length", 1)[0])
        if not radius:
            return _flat(np.array([0.0, 0.0, length]), pose)
        if not length and self.kind == "cylinder":
            return ConvexHull(_disc(radius), 0.0, pose)
        return (Capsule if self.kind == "capsule" else Cylinder)(radius, length, pose)

    def _pose(self) -> Array:
        xyz = self._numbers(self.origin, "xyz", 3, (0.0, 0.0, 0.0))
        if "quat_xyzw" in self.origin:
            turned = self._numbers(self.origin, "quat_xyzw", 4)
            if "rpy" in self.origin or not turned.any():
                expected = "expected either rpy or a quaternion that is not zero"
                raise DescriptionError(f"<{self.kind}> origin: {expected}.")
            return from_wxyz(xyz, turned[[3, 0, 1, 2]])
        roll, pitch, yaw = self._numbers(self.origin, "rpy", 3, (0.0, 0.0, 0.0))
        T = rotation_z(yaw) @ rotation_y(pitch) @ rotation_x(roll)
        T[:3, 3] = xyz
        return T

    def _numbers(
        self, values: Mapping[str, str], key: str, count: int, default: Sequence[float] = ()
    ) -> Array:
        text = values.get(key)
        if text is None and default:
            return np.array(default)
        try:
            numbers = [float(word) for word in (text or "").replace(",", " ").split()]
        except ValueError:
            numbers = []
        if len(numbers) != count or not all(map(math.isfinite, numbers)):
            many = f"{count} finite number{'s' if count > 1 else ''}"
            given = "nothing" if text is None else short_repr(text)
            raise DescriptionError(f"<{self.kind}> {key}: expected {many}, given {given}.")
        return np.array(numbers)


def _flat(size: Array, pose: Array) -> Shape | None:
    """Return a box with some edges of length zero as a hull, or None if all are zero."""
    if not size.any():
        return None
    Box(np.where(size == 0, 1.0, size), pose)  # checks the other edges
    signs = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), axis=-1).reshape(-1, 3)
    return ConvexHull(np.unique(signs * size, axis=0), 0.0, pose)


def _disc(radius: float) -> Array:
    """Return the corners (k, 3) of a polygon that contains a disc in the plane of x and y."""
    angle = np.arange(_DISC) * 2 * np.pi / _DISC
    outer = radius / np.cos(np.pi / _DISC)
    return np.stack([outer * np.cos(angle), outer * np.sin(angle), 0 * angle], axis=1)


def urdf_shapes(links: Sequence[Element], known: set[str]) -> Iterator[UrdfShape]:
    """Yield the shapes of the <collision> elements of some <link> elements."""
    for link in links:
        name = link.get("name", "")
        for element in link.findall("collision") if name in known else ():
            geometry, origin = element.find("geometry"), element.find("origin")
            inner = geometry[0] if geometry is not None and len(geometry) else None
            yield UrdfShape(
                name,
                "" if inner is None else inner.tag,
                {} if inner is None else dict(inner.attrib),
                {} if origin is None else dict(origin.attrib),
            )
