"""Solids of the links in a URDF file: its visuals, with their meshes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.describe._meshes import find_mesh
from supple.plot import palette
from supple.view.bodies import LINK, Solid, solid_of, trimesh_module

Array = NDArray[np.float64]

_MESHES = (".stl", ".obj", ".dae", ".ply", ".glb", ".gltf", ".off")
_MAX_BYTES = 64_000_000  # maximum size of a mesh file
_MAX_FACES = 400_000  # maximum number of triangles of a mesh


def solids_in_urdf(path: Path, root: Element, robot: sp.Robot) -> tuple[list[Solid], list[str]]:
    """Return the solids of all links in a URDF file, and messages about unreadable visuals.

    Meshes are searched for in the folder of the file; meshes named package://... also in the
    folders above it.

    Args:
        path: The file.
        root: The root element of the file.
        robot: The robot read from the file.
    """
    colors = {
        each.get("name", ""): _color(each, {}) for each in root.findall("material") if len(each)
    }
    made: list[Solid] = []
    problems: list[str] = []
    for link in root.findall("link"):
        name = link.get("name", "")
        if name not in robot.frames:
            continue
        for visual in link.findall("visual"):
            try:
                made += _visual(visual, name, path, colors)
            except (OSError, ValueError, TypeError, ImportError, LookupError) as error:
                problems.append(f"{name}: {error}")
    return made, problems


def _visual(
    visual: Element, link: str, path: Path, colors: dict[str, Any]
) -> Iterator[Solid] | list[Solid]:
    geometry, material = visual.find("geometry"), visual.find("material")
    if geometry is None or not len(geometry):
        return []
    color = None if material is None else _color(material, colors)
    placed = _pose(visual.find("origin"))
    parts = _geometry(geometry[0], path)
    found = []
    for mesh, own in parts:
        mesh.apply_transform(placed)
        found.append(solid_of(link, mesh, color or own or palette.rgb(LINK)))
    return found


def _color(material: Element, known: dict[str, Any]) -> tuple[int, int, int] | None:
    given = material.find("color")
    if given is None:
        return known.get(material.get("name", ""))
    rgba = _numbers(given.get("rgba", ""), 4, [0.8, 0.8, 0.8, 1.0])
    red, green, blue = (round(255 * min(max(x, 0.0), 1.0)) for x in rgba[:3])
    return red, green, blue


def _geometry(shape: Element, path: Path) -> list[tuple[Any, tuple[int, int, int] | None]]:
    trimesh = trimesh_module()
    if shape.tag == "box":
        size = _numbers(shape.get("size", ""), 3, [0.1] * 3)
        return [(trimesh.creation.box(extents=size), None)]
    if shape.tag == "sphere":
        radius = float(shape.get("radius", "0.05"))
        return [(trimesh.creation.icosphere(subdivisions=3, radius=radius), None)]
    if shape.tag == "cylinder":
        radius, length = (float(shape.get(key, "0.1")) for key in ("radius", "length"))
        return [(trimesh.creation.cylinder(radius=radius, height=length, sections=40), None)]
    if shape.tag != "mesh":
        raise ValueError(f"a geometry must be a box, sphere, cylinder or mesh; given: {shape.tag}")
    file = mesh_file(shape.get("filename", ""), path)
    if file.suffix.lower() not in _MESHES:
        raise ValueError(f"a mesh file must end in {', '.join(_MESHES)}; given: {file.name}")
    if file.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{file.name} is larger than {_MAX_BYTES // 1_000_000} MB")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scene = trimesh.load(file, force="scene")
    scale = np.diag([*_numbers(shape.get("scale", ""), 3, [1.0] * 3), 1.0])
    found = []
    for name in scene.graph.nodes_geometry:
        T, geometry = scene.graph[name]
        mesh = scene.geometry[geometry]
        if not hasattr(mesh, "faces") or len(mesh.faces) > _MAX_FACES:
            raise ValueError(f"{file.name} is not a mesh of at most {_MAX_FACES} triangles")
        mesh = mesh.copy()
        mesh.apply_transform(scale @ T)
        found.append((mesh, _own_color(mesh)))
    return found


def _own_color(mesh: Any) -> tuple[int, int, int] | None:
    """Return the color of a mesh file's material, if it has one."""
    try:
        rgba = mesh.visual.material.main_color
        red, green, blue = (int(x) for x in rgba[:3])
    except (AttributeError, TypeError, ValueError):
        return None
    return red, green, blue


def mesh_file(name: str, urdf: Path) -> Path:
    """Return the file of a mesh that a URDF file names.

    Raises:
        FileNotFoundError: The mesh is not in the searched folders.
    """
    found = find_mesh(name, urdf.resolve().parent)
    if found is None:
        raise FileNotFoundError(f"the mesh {name} was not found near {urdf.name}")
    return found


def _numbers(text: str, count: int, default: list[float]) -> list[float]:
    words = text.split()
    return [float(word) for word in words] if len(words) == count else default


def _pose(origin: Element | None) -> Array:
    if origin is None:
        return np.eye(4)
    xyz = _numbers(origin.get("xyz", ""), 3, [0.0] * 3)
    turned = _numbers(origin.get("quat_xyzw", ""), 4, [])
    if any(turned):
        return np.asarray(sp.pose(xyz, xyzw=turned))
    rpy = _numbers(origin.get("rpy", ""), 3, [0.0] * 3)
    return np.asarray(sp.pose(xyz, rpy=np.remainder(rpy, 2 * np.pi)))  # files may have any angles
