"""Solids to draw for a robot without meshes, made from its kinematics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.errors import MissingExtraError
from supple.plot import palette
from supple.plot.shape import Shape, shape_of

Array = NDArray[np.float64]

LINK, JOINT, SLIDE = "#dfe4ea", "#3d4a57", "#7f8c99"


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
    """Return the module trimesh.

    Raises:
        MissingExtraError: trimesh is not installed.
    """
    try:
        import trimesh
    except ModuleNotFoundError as error:
        raise MissingExtraError("view", "the viewer") from error
    return trimesh


def solids_of(robot: sp.Robot, shape: Shape | None = None) -> list[Solid]:
    """Return the solids of a robot: rods for links, cylinders for joints, a base, balls for tips.

    Rods and cylinders are thinner toward the tips.
    """
    shape = shape_of(robot) if shape is None else shape
    trimesh, made = trimesh_module(), []
    thickest = 0.055 * shape.size
    starts, stops = shape.ends
    for i, deep in enumerate(shape.depth.tolist()):
        if starts.link[i] != stops.link[i]:
            continue  # a prismatic joint, whose rod is added below
        radius = _radius(thickest, deep)
        rod = _rod(trimesh, starts.position[i], stops.position[i], radius)
        made.append(solid_of(shape.links[starts.link[i]], rod, LINK))
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
            made.append(solid_of(link, _rod(trimesh, back, at, 0.7 * radius), SLIDE))
        made.append(solid_of(link, _drum(trimesh, at, axis, 1.22 * radius, 2.5 * radius), JOINT))
    plate = trimesh.creation.cylinder(radius=2.0 * thickest, height=0.5 * thickest, sections=48)
    plate.apply_translation([0, 0, 0.25 * thickest])
    made.append(solid_of(robot.description.root, plate, JOINT))
    for tip in robot.tips:
        ball = trimesh.creation.icosphere(subdivisions=3, radius=0.35 * thickest)
        made.append(solid_of(tip, ball, palette.ORANGE))
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
    # The origin of a capsule depends on the version of trimesh.
    rod.apply_translation([0, 0, 0.5 * length - float(rod.bounds[:, 2].mean())])
    rod.apply_transform(_along(start, stop - start))
    return rod


def _drum(trimesh: Any, at: Array, axis: Array, radius: float, height: float) -> Any:
    drum = trimesh.creation.cylinder(radius=radius, height=height, sections=40)
    drum.apply_transform(_along(at, axis))
    return drum


def _along(origin: Array, direction: Array) -> Array:
    """Return a pose (4, 4) with a given origin, and with z along a given direction."""
    size = np.linalg.norm(direction)
    z = direction / size if size > 0 else np.array([0.0, 0.0, 1.0])
    x = np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z)
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    T[:3, 3] = origin
    return T


def solid_of(link: str, mesh: Any, color: str | tuple[int, int, int]) -> Solid:
    """Convert a mesh of trimesh, in the link's frame, to a solid."""
    return Solid(
        link,
        np.asarray(mesh.vertices, dtype=np.float64),
        np.asarray(mesh.faces),
        palette.rgb(color) if isinstance(color, str) else color,
    )
