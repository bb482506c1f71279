"""Spheres that contain a closed or open mesh: no point of a triangle is outside all spheres."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from supple import collision as c
from supple.errors import DescriptionError

CASES = int(os.environ.get("SUPPLE_CASES", "60")) // 15
Array = np.ndarray


def torus(big: float, small: float, around: int = 24, across: int = 12) -> tuple[Array, Array]:
    """Return the points and the outward triangles of a torus around z."""
    u, v = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    a, b = 2 * np.pi * u.ravel() / around, 2 * np.pi * v.ravel() / across
    ring = big + small * np.cos(b)
    points = np.stack([ring * np.cos(a), ring * np.sin(a), small * np.sin(b)], axis=1)
    index = lambda i, j: (i % around) * across + j % across  # noqa: E731
    faces = []
    for i in range(around):
        for j in range(across):
            p, q, r, s = index(i, j), index(i + 1, j), index(i + 1, j + 1), index(i, j + 1)
            faces += [(p, q, r), (p, r, s)]
    return points, np.array(faces)


def written(folder: Path, points: Array, faces: Array) -> str:
    lines = [f"v {' '.join(map(repr, each))}" for each in points.tolist()]
    lines += [f"f {' '.join(str(i + 1) for i in face)}" for face in faces.tolist()]
    path = folder / "mesh.obj"
    path.write_text("\n".join(lines))
    return str(path)


def uncovered(cover: c.SphereCover, corners: Array, rng: np.random.Generator) -> float:
    """Return the largest distance from all spheres of many points on triangles (f, 3, 3)."""
    share = rng.dirichlet((0.5, 0.5, 0.5), size=(len(corners), 12))
    points = np.concatenate([(share @ corners).reshape(-1, 3), corners.reshape(-1, 3)])
    centers = np.array([each.pose[:3, 3] for each in cover.spheres])
    radii = np.array([each.radius for each in cover.spheres])
    away = np.linalg.norm(points[:, None] - centers, axis=2) - radii
    return float(away.min(axis=1).max())


@pytest.mark.parametrize("seed", range(CASES))
def test_no_point_of_a_mesh_is_outside(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:  # a torus, possibly facing inward, stretched and moved
        points, faces = torus(1.0, rng.uniform(0.1, 0.4))
        faces = faces[:, ::-1] if rng.random() < 0.5 else faces
    else:  # any triangles, some of them very long or without an area
        points = rng.normal(size=(30, 3)) * 10 ** rng.uniform(-2, 0, 3)
        faces = rng.integers(0, 30, size=(40, 3))
    scale = rng.uniform(0.5, 2, 3) * rng.choice([-1, 1], 3)
    pose = sp.pose(rng.normal(size=3), wxyz=rng.normal(size=4))
    mesh = c.Mesh(written(tmp_path, points, faces), scale, pose)
    count = int(rng.choice([4, 16, 64]))
    cover = c.spheres_of(mesh, count=count)
    assert 0 < len(cover.spheres) <= count
    corners = (points * scale @ pose[:3, :3].T + pose[:3, 3])[faces]
    assert uncovered(cover, corners, rng) <= 0


def test_spheres_follow_concave_parts_of_a_mesh(tmp_path: Path) -> None:
    """No sphere sticks out of a torus by more than the padding, and the hole stays open."""
    points, faces = torus(0.5, 0.1)
    mesh = c.Mesh(written(tmp_path, points, faces))
    cover = c.spheres_of(mesh, count=48)
    for each in cover.spheres:
        x, y, z = each.pose[:3, 3]
        inside = 0.1 - np.hypot(np.hypot(x, y) - 0.5, z)  # depth of the center in the torus
        assert each.radius - inside <= cover.padding + 0.003  # the mesh is a polyhedron
        assert each.radius < np.hypot(x, y)
    assert cover.padding < 0.05
    coarse = c.spheres_of(mesh, count=8)
    assert coarse.padding > cover.padding


def test_meshes_of_links_can_be_replaced_by_spheres(tmp_path: Path) -> None:
    file = written(tmp_path, *torus(0.2, 0.05))
    text = (
        '<robot name="arm"><link name="a"><collision><geometry><box size="1 1 1"/></geometry>'
        '</collision></link><link name="b"><collision><geometry><mesh filename="{}"/></geometry>'
        '</collision></link><joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
        '<origin xyz="0 0 2"/></joint></robot>'
    )
    robot = sp.urdf(text.format(file))
    links = c.sphere_links(robot, count=16)
    assert [type(each) for each in links["a"]] == [c.Box]
    assert {type(each) for each in links["b"]} == {c.Sphere}
    ball = {"ball": c.Sphere(0.05, (0, 0, 2))}  # in the hole, which the hull fills
    q = robot.neutral()
    assert c.collides(robot, sp.World(ball), q)
    assert not c.collides(robot, sp.World(ball, links=links), q)


def test_a_mesh_without_size_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, np.zeros((3, 3)), np.array([[0, 1, 2]]))
    with pytest.raises(DescriptionError, match="no size"):
        c.spheres_of(c.Mesh(file))
