"""Solids to draw for the shapes of a world and of a robot's links."""

from __future__ import annotations

from typing import Any

import numpy as np

import supple as sp
from supple.describe.shapes import Shape
from supple.view.bodies import Array, Solid, trimesh_module

OBSTACLE, MODEL = (150, 160, 172), (86, 180, 233)
_PLANE_EDGE = 4.0  # edge of the square that is drawn for a half-space [m]


def link_solids(robot: sp.Robot, world: sp.World) -> list[Solid]:
    """Return the solids of the shapes on links and of the objects that the robot holds."""
    shapes = robot.shapes if world.links is None else world.links
    every = [*shapes.items(), *world.attached.items()]
    return [_solid(name, each, MODEL) for name, group in every for each in group]


def obstacle_solids(world: sp.World) -> list[Solid]:
    """Return the solids of obstacles, in the world; their `link` is the name of the obstacle."""
    return [_solid(name, shape, OBSTACLE) for name, shape in world.obstacles.items()]


def _solid(name: str, shape: Shape, color: tuple[int, int, int]) -> Solid:
    mesh = _mesh(shape)
    vertices = np.asarray(mesh.vertices, dtype=np.float64)
    if isinstance(shape, sp.collision.Capsule):  # its origin depends on the version of trimesh
        vertices = vertices - (0, 0, 0.5 * (vertices[:, 2].min() + vertices[:, 2].max()))
    placed: Array = vertices @ shape.pose[:3, :3].T + shape.pose[:3, 3]
    return Solid(name, placed, np.asarray(mesh.faces), color)


def _mesh(shape: Shape) -> Any:
    """Return a mesh of trimesh in the shape's own frame; hulls are drawn without their rounding."""
    create, c = trimesh_module().creation, sp.collision
    if isinstance(shape, c.Sphere):
        return create.icosphere(subdivisions=2, radius=shape.radius)
    if isinstance(shape, c.Capsule):
        return create.capsule(radius=shape.radius, height=shape.length, count=[24, 24])
    if isinstance(shape, c.Box):
        return create.box(extents=shape.size)
    if isinstance(shape, c.Cylinder):
        return create.cylinder(radius=shape.radius, height=shape.length, sections=40)
    if isinstance(shape, c.HalfSpace):
        plate = create.box(extents=(_PLANE_EDGE, _PLANE_EDGE, 0.002))
        plate.apply_translation((0, 0, -0.001))
        return plate
    hull = c.hull_of(shape) if isinstance(shape, c.Mesh) else shape
    assert isinstance(hull, c.ConvexHull)
    try:
        return trimesh_module().Trimesh(vertices=hull.points).convex_hull
    except (ImportError, RuntimeError, ValueError):  # SciPy is missing, or the hull is flat
        box = create.box(extents=np.ptp(hull.points, axis=0) + 1e-6)
        box.apply_translation(0.5 * (hull.points.min(axis=0) + hull.points.max(axis=0)))
        return box
