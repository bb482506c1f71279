"""Shapes of the geoms of MJCF files, converted when they are first used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from xml.etree.ElementTree import Element

import numpy as np

from supple.describe._mjcf_values import Compiler, Values
from supple.describe._pose import Array, from_wxyz
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
from supple.errors import DescriptionError, short_repr, unknown_name_error

_KINDS = ("sphere", "capsule", "ellipsoid", "cylinder", "box", "plane", "mesh", "hfield", "sdf")
# Number of subdivisions of the octahedron around an ellipsoid: 66 points, at most 6 % outside it.
_SUBDIVISIONS = 2


@dataclass(frozen=True)
class Assets:
    """The meshes of an MJCF model, by name, and the folder of its files."""

    meshes: Mapping[str, Mapping[str, str]]
    folder: Path | None

    @staticmethod
    def of(root: Element, defaults: Mapping[str, Mapping[str, str]], folder: Path) -> Assets:
        """Return the meshes of all <asset> sections; `defaults` has the attributes by class."""
        meshes: dict[str, dict[str, str]] = {}
        for element in (each for part in root.findall("asset") for each in part.findall("mesh")):
            own = {**defaults.get(element.get("class", "main"), {}), **element.attrib}
            meshes[own.get("name") or PurePath(own.get("file", "")).stem] = own
        return Assets(meshes, folder)


@dataclass(frozen=True)
class MjcfShape:
    """The text of a <geom> element.

    Attributes:
        attributes: Attributes of the geom, with those of its default class.
        placement: Pose (4, 4) of the frames around the geom in its body.
        compiler: Settings of the model.
        assets: Meshes of the model.
        link: Name of the body.
    """

    attributes: Mapping[str, str]
    placement: Array
    compiler: Compiler
    assets: Assets
    link: str = field(default="")

    @property
    def name(self) -> str:
        """Name of the geom; empty without one."""
        return self.attributes.get("name", "")

    @property
    def masks(self) -> tuple[int, int]:
        """The bit masks contype and conaffinity."""
        values = []
        for key in ("contype", "conaffinity"):
            try:
                values.append(int(self.attributes.get(key, "1")))
            except ValueError:
                values.append(1)
        return values[0], values[1]

    @property
    def collides(self) -> bool:
        """Whether the geom takes part in any contact."""
        return self.masks != (0, 0)

    def meets(self, other: object) -> bool:
        """Return whether the masks of two geoms allow contacts."""
        if not isinstance(other, MjcfShape):
            return True
        (contype, affinity), (contype2, affinity2) = self.masks, other.masks
        return bool((contype & affinity2) | (contype2 & affinity))

    def shape(self, _: Path | None) -> Shape:
        """Return the shape of the geom in its body."""
        values = Values(Element("geom", dict(self.attributes)))
        has_mesh = bool(values.text("mesh"))
        kind = values.keyword("type", _KINDS, "mesh" if has_mesh else "sphere")
        if kind in ("hfield", "sdf"):
            raise values.error(f"is of type {kind}, which supple does not read")
        if has_mesh and kind != "mesh":
            raise values.error(f"fits a {kind} to a mesh, which supple does not read")
        T = self.placement @ values.pose(self.compiler)
        if kind == "mesh":
            return self._mesh(values, T)
        if kind == "plane":
            return HalfSpace(T)
        size = values.numbers("size", 3, (math.nan,) * 3, least=1)
        ends = values.text("fromto").strip()
        if ends:
            numbers = values.numbers("fromto", 6, ())
            half = 0.5 * float(np.linalg.norm(numbers[3:] - numbers[:3]))
            size = np.array([size[0], size[0], half] if kind in ("box", "ellipsoid") else size)
            size[2 if kind in ("box", "ellipsoid") else 1] = half
        if kind == "sphere":
            return Sphere(float(size[0]), T)
        if kind == "box":
            return Box(2 * size, T)
        if kind == "ellipsoid":
            return _around_ellipsoid(size, T, values)
        return (Capsule if kind == "capsule" else Cylinder)(float(size[0]), 2 * float(size[1]), T)

    def _mesh(self, values: Values, T: Array) -> Shape:
        name = values.text("mesh")
        if name not in self.assets.meshes:
            problem = unknown_name_error("mesh", name, self.assets.meshes)
            raise DescriptionError(f"{values.what}: {problem}")
        mesh = Values(Element("mesh", dict(self.assets.meshes[name])))
        scale = mesh.numbers("scale", 3, (1, 1, 1))
        if mesh.text("refpos").strip() or mesh.text("refquat").strip():
            if np.ptp(scale):
                raise mesh.error("has refpos or refquat and different scales, which is not read")
            quat = mesh.numbers("refquat", 4, (1, 0, 0, 0))
            back = np.linalg.inv(from_wxyz(mesh.numbers("refpos", 3, (0, 0, 0)), quat))
            back[:3, 3] *= scale[0]
            T = T @ back
        vertices = mesh.text("vertex").split()
        if vertices:
            return ConvexHull(np.array(vertices, dtype=np.float64).reshape(-1, 3) * scale, 0.0, T)
        file = mesh.text("file")
        if not file:
            raise mesh.error(f"has no file; expected one for the geom {short_repr(self.name)}")
        if self.compiler.strippath:
            file = PurePath(file).name
        folder = self.assets.folder or Path()
        return Mesh(str(folder / self.compiler.meshdir / file), scale, T)


def _around_ellipsoid(axes: Array, T: Array, values: Values) -> ConvexHull:
    """Return a polyhedron that contains the ellipsoid with given half axes (3,).

    A polyhedron around the unit sphere, scaled by the half axes, contains the ellipsoid.
    """
    if not (axes > 0).all():
        raise values.error(f"size: expected three lengths, given {short_repr(values.text('size'))}")
    points = np.concatenate([np.eye(3), -np.eye(3)])
    faces = np.array([[i, j, k] for i in (0, 3) for j in (1, 4) for k in (2, 5)])
    corners = points[faces]
    for _ in range(_SUBDIVISIONS):
        a, b, c = (corners[:, i] for i in range(3))
        ab, bc, ca = (_unit(one + other) for one, other in ((a, b), (b, c), (c, a)))
        parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        corners = np.concatenate([np.stack(part, axis=1) for part in parts])
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inside = np.abs((_unit(normal) * corners[:, 0]).sum(axis=1)).min()
    outer = np.unique(corners.reshape(-1, 3).round(15), axis=0) * (1 + 1e-12) / inside
    return ConvexHull(outer * axes, 0.0, T)


def _unit(x: Array) -> Array:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
