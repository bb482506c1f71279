"""Solids that draw a robot, made from its kinematics or from the visuals of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from cases import each
from supple.describe import builtin_names
from supple.plot.shape import shape_of
from supple.view.bodies import solids_of
from supple.view.file_bodies import solids_in
from supple.view.urdf_bodies import mesh_file
from supple.view.world_bodies import link_solids, obstacle_solids

trimesh = pytest.importorskip("trimesh")


@pytest.mark.parametrize("name", builtin_names())
def test_solids_of_every_robot_contain_its_joints_and_segments(name: str) -> None:
    """Each joint and each end of a segment is inside the box around the solids of its link."""
    robot = sp.load(name)
    shape, solids = shape_of(robot), solids_of(robot)
    for points in (*shape.ends, shape.joints):
        for link, at in zip(points.link, points.position, strict=True):
            own = [one for one in solids if one.link == shape.links[link]]
            if not own:
                continue  # the solid of a prismatic joint belongs to its parent
            low = np.min([one.vertices.min(axis=0) for one in own], axis=0)
            high = np.max([one.vertices.max(axis=0) for one in own], axis=0)
            assert (low - 1e-9 <= at).all()
            assert (at <= high + 1e-9).all()
    for one in solids:
        assert np.isfinite(one.vertices).all()
        assert one.faces.max() < len(one.vertices)
        assert one.link in robot.frames
    assert set(robot.tips) <= {one.link for one in solids}


URDF = """<robot name="r">
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="base"><visual><origin xyz="0 0 1"/><geometry><box size="1 2 3"/></geometry>
    <material name="red"/></visual></link>
  <link name="a">
    <visual><geometry><mesh filename="package://pack/meshes/part.stl" scale="2 2 2"/></geometry>
    </visual>
    <visual><geometry><cylinder radius="0.1" length="0.5"/></geometry></visual>
    <visual><geometry><mesh filename="package://pack/missing.stl"/></geometry></visual>
    <visual><geometry><mesh filename="notes.txt"/></geometry></visual>
  </link>
  <joint name="j" type="revolute"><parent link="base"/><child link="a"/></joint></robot>"""


def package(folder: Path) -> Path:
    """Write a package with a URDF file and a mesh; return the path of the URDF file."""
    (folder / "pack/urdf").mkdir(parents=True)
    (folder / "pack/meshes").mkdir()
    (folder / "pack/urdf/notes.txt").write_text("no mesh")
    trimesh.creation.box(extents=[1, 1, 1]).export(folder / "pack/meshes/part.stl")
    file = folder / "pack/urdf/robot.urdf"
    file.write_text(URDF)
    return file


def test_visuals_of_a_urdf_file_become_solids(tmp_path: Path) -> None:
    file = package(tmp_path)
    solids, problems = solids_in(file, sp.urdf(file))
    box, part, cylinder = solids
    assert box.color == (255, 0, 0)
    np.testing.assert_allclose(box.vertices.min(axis=0), [-0.5, -1, -0.5])
    np.testing.assert_allclose(np.ptp(part.vertices, axis=0), [2, 2, 2])
    np.testing.assert_allclose(np.ptp(cylinder.vertices[:, 2]), 0.5)
    assert [one.link for one in solids] == ["base", "a", "a"]
    assert len(problems) == 2
    assert "missing.stl" in problems[0]
    assert ".txt" in problems[1]


def test_a_urdf_file_of_an_iiwa_gives_solids_or_messages_about_missing_meshes(
    robot_files: Any,
) -> None:
    file = robot_files("frax", "assets/iiwa/iiwa14.urdf")
    solids, problems = solids_in(Path(file), sp.urdf(file))
    assert solids or problems


def test_the_error_about_a_missing_mesh_names_the_mesh(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.stl was not found near robot\.urdf"):
        mesh_file("package://pack/none.stl", package(tmp_path))


@each("text", ["", "<mujoco/>", "<robot", "<robot name='r'/>"])
def test_files_without_visuals_have_no_solids(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(text)
    assert solids_in(tmp_path / "x.xml", sp.load("panda")) == ([], [])


MJCF = """<mujoco>
  <asset><mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1  1 1 0" scale="0.1 0.1 0.2"/>
    <material name="red" rgba="1 0 0 1"/></asset>
  <default><geom group="2"/><default class="hit"><geom group="3"/></default></default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="a" pos="0 0 0.5"><joint name="j" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.05" rgba="0 1 0 1"/>
      <geom class="hit" type="box" size="1 1 1"/>
      <body pos="0.3 0 0"><joint name="k" axis="0 0 1"/>
        <geom type="mesh" mesh="wedge" material="red" pos="0.1 0.2 0.3" euler="20 30 40"/>
        <geom type="box" size="0.1 0.2 0.3"/> <geom type="ellipsoid" size="0.1 0.2 0.3"/>
        <geom type="cylinder" size="0.1 0.2"/> <geom type="sphere" size="0.1"/>
      </body></body></worldbody></mujoco>"""


def test_shapes_of_an_mjcf_file_are_where_mujoco_has_them(tmp_path: Path) -> None:
    """Boxes around solids agree at a random configuration; hidden groups of geoms are omitted."""
    mujoco = pytest.importorskip("mujoco")
    file = tmp_path / "arm.xml"
    file.write_text(MJCF)
    robot, model = sp.mjcf(file), mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    q = robot.random(seed=3)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    solids, problems = solids_in(file, robot)
    assert not problems
    shown = [i for i in range(model.ngeom) if model.geom_group[i] == 2 and model.geom_type[i] != 0]
    assert len(solids) == len(shown) == 6
    assert solids[0].color == (0, 255, 0)
    assert solids[1].color == (255, 0, 0)
    for i, one in zip(shown, solids, strict=True):
        T = robot.fk(q, one.link)
        at = one.vertices @ T[:3, :3].T + T[:3, 3]
        low, high = at.min(axis=0), at.max(axis=0)
        R = data.geom_xmat[i].reshape(3, 3)
        half = np.abs(R) @ model.geom_aabb[i, 3:]
        middle = data.geom_xpos[i] + R @ model.geom_aabb[i, :3]
        assert (low >= middle - half - 1e-6).all()
        assert (high <= middle + half + 1e-6).all()
        local = (at - data.geom_xpos[i]) @ R
        np.testing.assert_allclose(np.ptp(local, axis=0), 2 * model.geom_aabb[i, 3:], rtol=0.03)


def test_the_message_about_a_missing_mesh_of_an_mjcf_file_names_the_mesh(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.replace('vertex="0 0 0  1 0 0  0 1 0  0 0 1  1 1 0"', 'file="no.stl"'))
    solids, problems = solids_in(file, sp.mjcf(file))
    assert not solids
    assert "no.stl" in problems[0]


def test_solids_that_draw_a_world_have_the_sizes_and_poses_of_its_shapes() -> None:
    """The shapes are obstacles, shapes of links, and attached objects."""
    T = sp.pose([0.1, 0.2, 0.3], rpy=[0.3, 0.2, 0.1])
    c = sp.collision
    shapes = {
        "sphere": (c.Sphere(0.1, T), (0.2, 0.2, 0.2)),
        "capsule": (c.Capsule(0.1, 0.3, T), (0.2, 0.2, 0.5)),
        "box": (c.Box((0.1, 0.2, 0.3), T), (0.1, 0.2, 0.3)),
        "cylinder": (c.Cylinder(0.1, 0.3, T), (0.2, 0.2, 0.3)),
        "hull": (c.ConvexHull(np.eye(4, 3) * (0.1, 0.2, 0.3), 0.0, T), (0.1, 0.2, 0.3)),
    }
    world = sp.World({name: shape for name, (shape, _) in shapes.items()})
    for one in obstacle_solids(world):
        back = np.linalg.inv(T)
        own = one.vertices @ back[:3, :3].T + back[:3, 3]
        size = np.asarray(shapes[one.link][1])
        assert np.allclose(np.ptp(own, axis=0), size, atol=0.02 * size.max()), one.link
    robot = sp.load("ur5e")
    held = sp.World(links={"link2": c.Sphere(0.1)}, attached={"tool0": [c.Sphere(0.2)]})
    assert [one.link for one in link_solids(robot, held)] == ["link2", "tool0"]
