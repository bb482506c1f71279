"""Solids to draw: made from the kinematics of a robot alone, or read from its file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, parse

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.errors import MissingExtraError
from supple.plot import palette
from supple.plot.shape import Shape, shape_of

Array = NDArray[np.float64]

LINK, JOINT, SLIDE = "#dfe4ea", "#3d4a57", "#7f8c99"
_MESHES = (".stl", ".obj", ".dae", ".ply", ".glb", ".gltf", ".off")
_MAX_BYTES = 64_000_000  # of a mesh file
_MAX_FACES = 400_000  # of a mesh


@dataclass(frozen=True, eq=False)
class Solid:
    """A colored mesh fixed to a link.

    Attributes:
        link: Name of the link.
        vertices: Positions (v, 3) in the link's frame [m].
        faces: Indices of the corners of each triangle (f, 3).
        color: Red, green and blue, 0 to 255.
    """

    link: str
    vertices: Array
    faces: NDArray[Any]
    color: tuple[int, int, int]


def trimesh_module() -> Any:
    """Return trimesh.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import trimesh
    except ModuleNotFoundError as error:
        raise MissingExtraError("view", "the viewer") from error
    return trimesh


# ---- from kinematics -----------------------------------------------------------------------------


def solids_of(robot: sp.Robot, shape: Shape | None = None) -> list[Solid]:
    """Return rods between joints, thinner toward the tips, a drum for each joint, and the base."""
    shape = shape_of(robot) if shape is None else shape
    trimesh, made = trimesh_module(), []
    thickest = 0.055 * shape.size
    starts, stops = shape.ends
    for i, deep in enumerate(shape.depth.tolist()):
        if starts.link[i] != stops.link[i]:
            continue  # a slide: its rod belongs to the joint
        radius = _radius(thickest, deep)
        rod = _rod(trimesh, starts.position[i], stops.position[i], radius)
        made.append(_solid(shape.links[starts.link[i]], rod, LINK))
    by_name = {joint.name: joint for joint in robot.description.joints}
    moving = [joint for joint in robot.description.joints if joint.moves]
    moving = [joint for joint in moving if joint.child in shape.links]
    depths = _depths(robot)
    for k, joint in enumerate(moving):
        at, axis = shape.joints.position[k], shape.axes[k]
        radius = _radius(thickest, depths[joint.child] - 1)
        link = shape.links[shape.joints.link[k]]
        if shape.prismatic[k]:
            leader = by_name[joint.mimic.joint] if joint.mimic else joint
            travel = leader.upper if math.isfinite(leader.upper) else 0.8 * shape.size
            back = at - max(travel, 0.2 * shape.size) * axis
            made.append(_solid(link, _rod(trimesh, back, at, 0.7 * radius), SLIDE))
        made.append(_solid(link, _drum(trimesh, at, axis, 1.22 * radius, 2.5 * radius), JOINT))
    plate = trimesh.creation.cylinder(radius=2.0 * thickest, height=0.5 * thickest, sections=48)
    plate.apply_translation([0, 0, 0.25 * thickest])
    made.append(_solid(robot.description.root, plate, JOINT))
    for tip in robot.tips:
        ball = trimesh.creation.icosphere(subdivisions=3, radius=0.35 * thickest)
        made.append(_solid(tip, ball, palette.ORANGE))
    return made


def _radius(thickest: float, deep: int) -> float:
    return thickest * max(0.9**deep, 0.38)


def _depths(robot: sp.Robot) -> dict[str, int]:
    """Return the number of moving joints before each link."""
    found = {robot.description.root: 0}
    for joint in robot.description.joints:
        found[joint.child] = found[joint.parent] + joint.moves
    return found


def _rod(trimesh: Any, start: Array, stop: Array, radius: float) -> Any:
    length = float(np.linalg.norm(stop - start))
    rod = trimesh.creation.capsule(height=length, radius=radius, count=[24, 24])
    # Versions of trimesh differ in where a capsule begins.
    rod.apply_translation([0, 0, 0.5 * length - float(rod.bounds[:, 2].mean())])
    rod.apply_transform(_along(start, stop - start))
    return rod


def _drum(trimesh: Any, at: Array, axis: Array, radius: float, height: float) -> Any:
    drum = trimesh.creation.cylinder(radius=radius, height=height, sections=40)
    drum.apply_transform(_along(at, axis))
    return drum


def _along(origin: Array, direction: Array) -> Array:
    """Return the pose (4, 4) at an origin whose z axis has a direction."""
    size = np.linalg.norm(direction)
    z = direction / size if size > 0 else np.array([0.0, 0.0, 1.0])
    x = np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z)
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    T[:3, 3] = origin
    return T


def _solid(link: str, mesh: Any, color: str | tuple[int, int, int]) -> Solid:
    return Solid(
        link,
        np.asarray(mesh.vertices, dtype=np.float64),
        np.asarray(mesh.faces),
        palette.rgb(color) if isinstance(color, str) else color,
    )


# ---- from a file ---------------------------------------------------------------------------------


def solids_in(path: Path, robot: sp.Robot) -> tuple[list[Solid], list[str]]:
    """Return what a URDF file shows of each link, and sentences about what cannot be read.

    Meshes are looked for next to the file, and for package:// in the folders above it.
    """
    try:
        root = parse(path).getroot()
    except (OSError, ParseError):
        return [], []
    if root.tag != "robot":
        return [], []
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
        found.append(_solid(link, mesh, color or own or palette.rgb(LINK)))
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
        raise ValueError(f"the geometry {shape.tag} is not drawn")
    file = mesh_file(shape.get("filename", ""), path)
    if file.suffix.lower() not in _MESHES:
        raise ValueError(f"meshes of the format {file.suffix} are not read")
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
        FileNotFoundError: No such file; the message says where it was looked for.
    """
    folders = [urdf.resolve().parent, *urdf.resolve().parent.parents]
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        tries = [folder / package / rest for folder in folders]
        tries += [folder / rest for folder in folders if folder.name == package]
        tries.append(folders[0] / rest)
    else:
        tries = [folders[0] / name.removeprefix("file://")]
    for path in tries:
        if path.is_file():
            return path
    raise FileNotFoundError(f"the mesh {name} was not found near {urdf.name}")


def _numbers(text: str, count: int, default: list[float]) -> list[float]:
    words = text.split()
    return [float(word) for word in words] if len(words) == count else default


def _pose(origin: Element | None) -> Array:
    if origin is None:
        return np.eye(4)
    xyz = _numbers(origin.get("xyz", ""), 3, [0.0] * 3)
    rpy = _numbers(origin.get("rpy", ""), 3, [0.0] * 3)
    return np.asarray(sp.pose(xyz, rpy=rpy))
