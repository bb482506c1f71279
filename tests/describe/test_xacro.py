"""Xacro files are expanded as by the program xacro, and packages that files name are found."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from cases import each
from supple.errors import DescriptionError, InputError, MissingExtraError

ARM = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="prefix" default=""/><xacro:arg name="count" default="3"/>
  <xacro:property name="count" value="$(arg count)"/>
  {include}
  <link name="$(arg prefix)0"/>
  <xacro:arms n="1"/>
</robot>"""
PART = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:macro name="arms" params="n"><xacro:if value="${n &lt;= count}">
    <link name="$(arg prefix)${n}"/>
    <joint name="$(arg prefix)j${n}" type="revolute"><parent link="$(arg prefix)${n - 1}"/>
      <child link="$(arg prefix)${n}"/><origin xyz="${n / 10} 0 0" rpy="0 0 ${pi / 2}"/>
      <axis xyz="0 0 1"/><limit lower="${-n}" upper="${n}" velocity="1"/></joint>
    <xacro:arms n="${n + 1}"/>
  </xacro:if></xacro:macro></robot>"""
MESH = """<robot name="r"><link name="a"><collision><geometry>
  <mesh filename="package://some_pkg/meshes/m.obj"/></geometry></collision></link><link name="b"/>
  <joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>"""
TRIANGLES = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"


def written(folder: Path, include: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "arm.urdf.xacro"
    path.write_text(ARM.format(include=f'<xacro:include filename="{include}"/>'))
    return path


def test_a_xacro_file_gives_the_robot_of_the_urdf_that_xacro_writes(tmp_path: Path) -> None:
    path = written(tmp_path, "part.xacro")
    (tmp_path / "part.xacro").write_text(PART)
    robot = sp.urdf(path, xacro_args={"prefix": "left_", "count": 4})
    assert robot.joint_names == ("left_j1", "left_j2", "left_j3", "left_j4")
    command = [sys.executable, "-m", "xacro.cli", str(path), "prefix:=left_", "count:=4"]
    command[1:3] = ["-c", "import xacro; xacro.main()"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    other = sp.urdf(text)
    q = robot.random(seed=0)
    assert (robot.fk(q) == other.fk(q)).all()
    assert (robot.upper == np.arange(1, 5)).all()
    assert sp.urdf(str(path)).dof == 3


@pytest.mark.parametrize("where", ["above", "package.xml", "ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"])
def test_packages_of_xacro_files_are_found(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(name, raising=False)
    robots = tmp_path / "some" / "robots"
    home = {
        "above": tmp_path / "some_pkg",
        "package.xml": tmp_path / "some",
        "ROS_PACKAGE_PATH": tmp_path / "elsewhere" / "some_pkg",
        "AMENT_PREFIX_PATH": tmp_path / "install" / "share" / "some_pkg",
    }[where]
    (home / "meshes").mkdir(parents=True)
    (home / "part.xacro").write_text(PART)
    (home / "meshes" / "m.obj").write_text(TRIANGLES)
    path = written(robots, "$(find some_pkg)/part.xacro")
    (robots / "mesh.urdf").write_text(MESH)
    if where == "package.xml":
        (home / "package.xml").write_text("<package><name>some_pkg</name></package>")
    elif where != "above":
        folder = home.parent if where == "ROS_PACKAGE_PATH" else home.parents[1]
        with pytest.raises(DescriptionError, match=r"find some_pkg.*set ROS_PACKAGE_PATH"):
            sp.urdf(path)
        with pytest.raises(DescriptionError, match=r"some_pkg.*above the robot file and in ROS_"):
            sp.collision.unchecked_pairs(sp.urdf(robots / "mesh.urdf"), samples=1)
        monkeypatch.setenv(where, f"/nowhere:{folder}")
    assert sp.urdf(path).dof == 3
    (shape,) = sp.urdf(robots / "mesh.urdf").shapes["a"]
    assert Path(shape.file) == home / "meshes" / "m.obj"


@each(
    ("text", "match"),
    [
        ('<link name="${1 / 0}"/>', "xacro: .*zero"),
        ('<link name="${unknown}"/>', "unknown"),
        ("<xacro:nothing/>", "nothing"),
        ('<xacro:include filename="missing.xacro"/>', "missing.xacro"),
        ("<link", "xacro: "),
    ],
)
def test_an_invalid_xacro_file_is_refused(text: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.xacro"
    path.write_text(f'<robot xmlns:xacro="http://www.ros.org/wiki/xacro">{text}</robot>')
    with pytest.raises(DescriptionError, match=match):
        sp.urdf(path)


def test_invalid_arguments_for_xacro_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="no such file"):
        sp.urdf(tmp_path / "missing.urdf.xacro")
    (tmp_path / "part.xacro").write_text(PART)
    path = written(tmp_path, "part.xacro")
    with pytest.raises(InputError, match="xacro_args must map names"):
        sp.urdf(path, xacro_args=["prefix:=a"])
    with pytest.raises(InputError, match=r"needs a file with the suffix \.xacro"):
        sp.urdf(MESH, xacro_args={})


def test_without_xacro_installed_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def without(name: str, *args, **kwargs):
        if name.partition(".")[0] == "xacro":
            raise ModuleNotFoundError(name)
        return original(name, *args, **kwargs)

    path = written(tmp_path, "part.xacro")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match='needs the extra "xacro": pip install "xacro'):
        sp.urdf(path)
