"""URDF files are read as Pinocchio reads them, also in cases that the format leaves open."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from cases import each
from samples import as_urdf, random_tree
from slow_fk import coordinates, fk
from supple.describe import urdf
from supple.errors import DescriptionError, InputError, UnknownNameError


def two_joints(one: str = "", two: str = "", kind: str = "revolute") -> str:
    """Return a URDF of a chain a - b - c with the given elements inside the joints."""
    return f"""
    <robot name="chain">
      <link name="a"/><link name="b"/><link name="c"/>
      <joint name="one" type="{kind}"><parent link="a"/><child link="b"/>{one}</joint>
      <joint name="two" type="revolute"><parent link="b"/><child link="c"/>{two}</joint>
    </robot>"""


def test_a_quaternion_of_an_origin_is_the_rotation_of_its_angles() -> None:
    box = '<collision>{0}<geometry><box size="1 2 3"/></geometry></collision>'
    moments = 'ixx="2" ixy="0" ixz="0" iyy="3" iyz="0" izz="4"'
    inertial = f'<inertial>{{0}}<mass value="1"/><inertia {moments}/></inertial>'
    made = []
    for kind in ("rpy", "quat_xyzw"):
        rng = np.random.default_rng(0)
        origins = []
        for _ in range(3):
            rpy, xyz = rng.uniform(-3, 3, 3), rng.normal(size=3)
            w, x, y, z = 2.5 * sp.poses.wxyz(sp.pose(xyz, rpy=rpy))
            turned = {"rpy": rpy, "quat_xyzw": (x, y, z, w)}[kind]
            at, way = (" ".join(map(repr, map(float, values))) for values in (xyz, turned))
            origins.append(f'<origin xyz="{at}" {kind}="{way}"/>')
        link = f'<link name="c">{inertial.format(origins[1])}{box.format(origins[2])}</link>'
        made.append(sp.urdf(two_joints(two=origins[0]).replace('<link name="c"/>', link)))
    one, other = made
    q = np.array([0.3, -0.2])
    assert abs(one.fk(q) - other.fk(q)).max() < 1e-14
    M = [robot.with_inertia("b", 1).inertia_matrix(q) for robot in made]
    assert abs(M[0] - M[1]).max() < 1e-13
    shapes = [robot.shapes["c"][0].pose for robot in made]
    assert abs(shapes[0] - shapes[1]).max() < 1e-14


@each("given", ['quat_xyzw="0 0 0 0"', 'quat_xyzw="0 0 0 1" rpy="0 0 0"'])
def test_a_quaternion_that_is_zero_or_given_besides_angles_is_refused(given: str) -> None:
    with pytest.raises(DescriptionError, match="either rpy or a quaternion"):
        urdf(two_joints(f"<origin {given}/>"))


@each("seed", range(8))
def test_link_poses_of_urdf_files_agree_with_pinocchio(seed: int) -> None:
    pin = pytest.importorskip("pinocchio")
    # Pinocchio rejects infinite limits, and its q has (cos, sin) for a continuous joint.
    text = as_urdf(random_tree(seed)).replace('"continuous"', '"revolute"')
    text = text.replace('"-inf"', '"-9"').replace('"inf"', '"9"')
    robot, model = urdf(text), pin.buildModelFromXML(text)
    names = [joint.name for joint in coordinates(robot)]
    rng = np.random.default_rng(seed)
    for values in rng.uniform(-3, 3, (5, len(names))):
        q = np.zeros(model.nq)
        for name, value in zip(names, values, strict=True):
            q[model.idx_qs[model.getJointId(name)]] = value
        data = model.createData()
        pin.framesForwardKinematics(model, data, q)
        T = fk(robot, values)
        for link in robot.links:
            frame = data.oMf[model.getFrameId(link)]
            assert abs(T[link] - frame.homogeneous).max() < 1e-13, link


def test_a_urdf_path_and_its_text_in_any_encoding_give_the_same_robot(tmp_path: Path) -> None:
    text = two_joints('<origin xyz="1 2 3" rpy=".1 .2 .3"/>').strip()
    expected = fk(urdf(text), np.array((0.5, 0.6)))["c"]
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "cp1252"):
        path = tmp_path / f"{encoding}.urdf"
        name = encoding.removesuffix("-sig")
        declared = f'<?xml version="1.0" encoding="{name}"?>\n{text}'
        path.write_text(declared, encoding=encoding)
        for source in (path, str(path), declared, f"\ufeff\n  {declared}"):
            assert np.array_equal(fk(urdf(source), np.array((0.5, 0.6)))["c"], expected)


def test_missing_urdf_elements_have_their_default_values() -> None:
    joint = urdf(two_joints()).joints[0]
    assert np.array_equal(joint.axis, (1, 0, 0))
    assert np.array_equal(joint.origin, np.eye(4))
    assert (joint.lower, joint.upper, joint.max_speed) == (-math.inf, math.inf, math.inf)
    assert joint.mimic is None
    assert (
        urdf("<robot><link name='a'/>" + two_joints().split('<link name="a"/>')[1]).name == "robot"
    )


@each(
    ("limit", "expected"),
    [
        ('lower="-1" upper="2" velocity="3"', (-1, 2, 3)),
        ('velocity="3"', (-math.inf, math.inf, 3)),
        ('upper="2"', (0, 2, math.inf)),
        ('lower="-2"', (-2, 0, math.inf)),
        ('lower="0" upper="0"', (0, 0, math.inf)),
        ('lower="-1" upper="2" velocity="0"', (-1, 2, math.inf)),
        ('lower="-inf" upper="inf"', (-math.inf, math.inf, math.inf)),
    ],
)
def test_urdf_limits_are_read_as_documented(limit: str, expected: tuple[float, ...]) -> None:
    joint = urdf(two_joints(f"<limit {limit}/>")).joints[0]
    assert (joint.lower, joint.upper, joint.max_speed) == expected


@each("version", ["", 'version="1.2"'])
@each(
    ("limit", "acceleration", "jerk"),
    [
        ("", math.inf, math.inf),
        ('acceleration="5" jerk="70"', 5, 70),
        ('acceleration="5" deceleration="3"', 3, math.inf),
        ('acceleration="5" deceleration="8"', 5, math.inf),
        ('deceleration="8"', 8, math.inf),
        ('acceleration="0" deceleration="0" jerk="0"', math.inf, math.inf),
        ('acceleration="inf" jerk="inf"', math.inf, math.inf),
    ],
)
def test_urdf_acceleration_and_jerk_limits_are_read(
    limit: str, acceleration: float, jerk: float, version: str
) -> None:
    """URDF 1.2 defines them. The smaller of `acceleration` and `deceleration` limits both."""
    text = two_joints(f'<limit lower="-1" upper="1" {limit}/>').replace(
        "<robot", f"<robot {version}", 1
    )
    robot = sp.urdf(text)
    joint = robot.description.joints[0]
    assert (joint.max_acceleration, joint.max_jerk) == (acceleration, jerk)
    assert (robot.max_acceleration[0], robot.max_jerk[0]) == (acceleration, jerk)
    limits = sp.Limits.for_robot(robot)
    assert (limits.max_acceleration[0], limits.max_jerk[0]) == (acceleration, jerk)
    welded = urdf(text, fixed=[joint.name]).joints[0]
    assert (welded.max_acceleration, welded.max_jerk) == (math.inf, math.inf)


@each(
    ("kind", "limit", "more", "fixed", "warns"),
    [
        ("revolute", "", "", (), True),
        ("prismatic", '<limit velocity="3"/>', "", (), True),
        ("revolute", '<limit lower="-inf" upper="inf"/>', "", (), False),  # infinite limits
        ("revolute", '<limit upper="1"/>', "", (), False),
        ("continuous", "", "", (), False),
        ("fixed", "", "", (), False),
        ("revolute", "", '<mimic joint="other"/>', (), False),
        ("revolute", "", "", ("j",), False),
    ],
)
def test_a_warning_names_the_joints_whose_limits_are_missing(
    kind: str, limit: str, more: str, fixed: tuple[str, ...], warns: bool
) -> None:
    text = (
        '<robot name="r"><link name="a"/><link name="b"/><link name="c"/>'
        '<joint name="other" type="continuous"><parent link="a"/><child link="b"/></joint>'
        f'<joint name="j" type="{kind}"><parent link="b"/><child link="c"/>{limit}{more}</joint>'
        "</robot>"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sp.urdf(text, fixed=fixed)
    assert [("'j'" in str(each.message), each.filename) for each in caught] == [
        (True, __file__)
    ] * warns


def test_a_continuous_joint_has_no_limits() -> None:
    limit = '<limit lower="0" upper="0" velocity="2"/>'
    joint = urdf(two_joints(limit, kind="continuous")).joints[0]
    assert (joint.kind, joint.lower, joint.upper) == ("continuous", -math.inf, math.inf)
    assert joint.max_speed == 2


def test_urdf_axes_are_normalized_and_right_angles_are_exact() -> None:
    inside = '<axis xyz="0 0 -2"/><origin rpy="1.5707963267948966 0 3.141592653589793"/>'
    joint = urdf(two_joints(inside)).joints[0]
    assert np.array_equal(joint.axis, (0, 0, -1))
    assert np.array_equal(joint.origin[:3, :3], [(-1, 0, 0), (0, 0, 1), (0, 1, 0)])


def test_meshes_and_masses_in_urdf_do_not_change_the_kinematics() -> None:
    visual = (
        '<visual><geometry><mesh/><capsule r="x"/></geometry></visual><inertial><mass/></inertial>'
    )
    text = two_joints().replace('<link name="b"/>', f'<link name="b">{visual}</link>')
    extra = '<gazebo:plugin/><transmission name="t"/><material/></robot>'
    assert urdf(text.replace("</robot>", extra)).links == ("a", "b", "c")


def test_a_urdf_mimic_joint_follows_its_leader() -> None:
    robot = urdf(two_joints(two='<mimic joint="one" multiplier="-2" offset=".5"/>'))
    assert len(coordinates(robot)) == 1
    mimic = robot.joints[1].mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("one", -2, 0.5)


@each("kind", ["revolute", "prismatic", "floating", "planar"])
def test_a_welded_urdf_joint_is_at_its_zero_position(kind: str) -> None:
    inside = '<origin xyz="1 2 3"/><limit lower="1" upper="2"/>'
    robot = urdf(two_joints(inside, kind=kind), fixed=["one"])
    assert [joint.kind for joint in robot.joints] == ["fixed", "revolute"]
    assert np.array_equal(fk(robot, np.zeros(1))["b"][:3, 3], (1, 2, 3))
    assert urdf(two_joints(inside, kind=kind), fixed="one").joints[0].kind == "fixed"


def test_a_mimic_of_a_welded_joint_is_fixed_at_its_offset() -> None:
    text = two_joints(two='<axis xyz="0 0 3"/><mimic joint="one" multiplier="-2" offset=".5"/>')
    third = '<joint name="three" type="revolute"><parent link="c"/><child link="d"/></joint>'
    robot = urdf(text.replace("</robot>", f'<link name="d"/>{third}</robot>'), fixed=["one"])
    assert [joint.kind for joint in robot.joints] == ["fixed", "fixed", "revolute"]
    x = fk(robot, np.zeros(1))["c"][:3, 0]
    assert np.allclose(x, (math.cos(0.5), math.sin(0.5), 0), atol=1e-16)


def test_an_unknown_joint_cannot_be_welded() -> None:
    with pytest.raises(UnknownNameError, match="unknown joint 'onne'; did you mean 'one'"):
        urdf(two_joints(), fixed=["onne"])
    with pytest.raises(UnknownNameError, match="unknown joint None"):
        urdf(two_joints(), fixed=[None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="fixed: expected names of joints, given 3"):
        urdf(two_joints(), fixed=3)  # type: ignore[arg-type]


def test_welding_all_joints_of_a_robot_is_refused() -> None:
    with pytest.raises(DescriptionError, match="none of them moves"):
        urdf(two_joints(), fixed=["one", "two"])


def test_reading_urdf_logs_and_prints_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        urdf(two_joints())
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_importing_the_readers_does_not_import_mujoco_or_xml_dom() -> None:
    code = """
        import sys, supple.describe
        supple.describe.builtin("panda")
        heavy = {"mujoco", "xml.dom"} & set(sys.modules)
        sys.exit(f"imported {heavy}" if heavy else 0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
