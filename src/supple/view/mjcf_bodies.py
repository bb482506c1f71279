"""Solids of the bodies in an MJCF file, as MuJoCo compiles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import supple as sp
from supple.view.bodies import Solid, trimesh_module

_VISIBLE_GROUPS = 3  # groups of geoms that MuJoCo shows; by convention, group 3 is for collisions


def solids_in_mjcf(path: Path, robot: sp.Robot) -> tuple[list[Solid], list[str]]:
    """Return the solids of all bodies in an MJCF file, and messages about reading problems."""
    try:
        import mujoco
    except ModuleNotFoundError:
        return [], ["the shapes of an MJCF file are read by MuJoCo: pip install mujoco"]
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:  # an asset is missing, or MuJoCo rejects the file
        return [], [str(error).splitlines()[0]]
    return list(_solids(model, robot)), []


def _solids(model: Any, robot: sp.Robot) -> Iterator[Solid]:
    for i in range(model.ngeom):
        body = int(model.geom_bodyid[i])
        link = "world" if body == 0 else model.body(body).name or f"body{body}"
        paint = model.geom_matid[i]
        rgba = model.geom_rgba[i] if paint < 0 else model.mat_rgba[paint]
        shape = None if model.geom_group[i] >= _VISIBLE_GROUPS or rgba[3] == 0 else _shape(model, i)
        if shape is None or link not in robot.frames:
            continue
        vertices, faces = shape
        T = sp.pose(model.geom_pos[i], wxyz=model.geom_quat[i])
        red, green, blue = (round(255 * min(max(float(x), 0.0), 1.0)) for x in rgba[:3])
        placed = vertices @ T[:3, :3].T + T[:3, 3]
        yield Solid(link, np.asarray(placed, dtype=np.float64), faces, (red, green, blue))


def _shape(model: Any, i: int) -> tuple[Any, Any] | None:
    """Return vertices (v, 3) and faces (f, 3) of a geom in its own frame.

    Return None for a type that is not drawn, such as a plane.
    """
    import mujoco

    create, size = trimesh_module().creation, [float(x) for x in model.geom_size[i]]
    kind = mujoco.mjtGeom(model.geom_type[i])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.mesh(int(model.geom_dataid[i]))
        v, f = int(mesh.vertadr[0]), int(mesh.faceadr[0])
        vertices = model.mesh_vert[v : v + int(mesh.vertnum[0])]
        return np.array(vertices), np.array(model.mesh_face[f : f + int(mesh.facenum[0])])
    makers: dict[Any, Callable[[], Any]] = {
        mujoco.mjtGeom.mjGEOM_BOX: lambda: create.box(extents=[2 * x for x in size]),
        mujoco.mjtGeom.mjGEOM_SPHERE: lambda: create.icosphere(subdivisions=3, radius=size[0]),
        mujoco.mjtGeom.mjGEOM_CYLINDER: lambda: create.cylinder(
            radius=size[0], height=2 * size[1], sections=40
        ),
        mujoco.mjtGeom.mjGEOM_CAPSULE: lambda: create.capsule(
            radius=size[0], height=2 * size[1], count=[24, 24]
        ),
        mujoco.mjtGeom.mjGEOM_ELLIPSOID: lambda: create.icosphere(subdivisions=3, radius=1.0),
    }
    if kind not in makers:
        return None
    made = makers[kind]()
    vertices = np.array(made.vertices)
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        vertices = vertices * size
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:  # its origin depends on the version of trimesh
        vertices[:, 2] -= 0.5 * (vertices[:, 2].min() + vertices[:, 2].max())
    return vertices, np.array(made.faces)
