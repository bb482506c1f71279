"""Solids of a robot: from its kinematics alone, or from the visuals of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from supple.describe import builtin_names
from supple.plot.shape import shape_of
from supple.view.bodies import mesh_file, solids_in, solids_of

trimesh = pytest.importorskip("trimesh")


@pytest.mark.parametrize("name", builtin_names())
def test_every_robot_has_solids_around_its_skeleton(name: str) -> None:
    """Each joint and each end of a segment is inside, or on, a solid of its link."""
    robot = sp.load(name)
    shape, solids = shape_of(robot), solids_of(robot)
    for points in (*shape.ends, shape.joints):
        for link, at in zip(points.link, points.position, strict=True):
            own = [each for each in solids if each.link == shape.links[link]]
            if not own:
                continue  # a slide begins at its parent's joint
            low = np.min([each.vertices.min(axis=0) for each in own], axis=0)
            high = np.max([each.vertices.max(axis=0) for each in own], axis=0)
            assert (low - 1e-9 <= at).all()
            assert (at <= high + 1e-9).all()
    for each in solids:
        assert np.isfinite(each.vertices).all()
        assert each.faces.max() < len(each.vertices)
        assert each.link in robot.frames
    assert set(robot.tips) <= {each.link for each in solids}


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
    """A package with a URDF file and a mesh."""
    (folder / "pack/urdf").mkdir(parents=True)
    (folder / "pack/meshes").mkdir()
    (folder / "pack/urdf/notes.txt").write_text("no mesh")
    trimesh.creation.box(extents=[1, 1, 1]).export(folder / "pack/meshes/part.stl")
    file = folder / "pack/urdf/robot.urdf"
    file.write_text(URDF)
    return file


def test_visuals_of_a_file_are_read(tmp_path: Path) -> None:
    file = package(tmp_path)
    solids, problems = solids_in(file, sp.urdf(file))
    box, part, cylinder = solids
    assert box.color == (255, 0, 0)
    np.testing.assert_allclose(box.vertices.min(axis=0), [-0.5, -1, -0.5])
    np.testing.assert_allclose(np.ptp(part.vertices, axis=0), [2, 2, 2])
    np.testing.assert_allclose(np.ptp(cylinder.vertices[:, 2]), 0.5)
    assert [each.link for each in solids] == ["base", "a", "a"]
    assert len(problems) == 2
    assert "missing.stl" in problems[0]
    assert ".txt" in problems[1]


def test_real_files_have_meshes(robot_files: Any) -> None:
    file = robot_files("frax", "assets/iiwa/iiwa14.urdf")
    solids, problems = solids_in(Path(file), sp.urdf(file))
    assert solids or problems


def test_a_missing_mesh_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.stl was not found near robot\.urdf"):
        mesh_file("package://pack/none.stl", package(tmp_path))


@pytest.mark.parametrize("text", ["", "<mujoco/>", "<robot", "<robot name='r'/>"])
def test_other_files_have_no_solids(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(text)
    assert solids_in(tmp_path / "x.xml", sp.load("panda")) == ([], [])
