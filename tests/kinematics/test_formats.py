"""Robots written to URDF, MuJoCo or Pinocchio agree with these libraries and can be read again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import supple as sp
from cases import each
from formats import KINDS, URDF_KINDS, drawn_robot, in_mujoco, in_pinocchio
from sizes import nightly
from supple.collision import Box, Capsule, ConvexHull, Cylinder, Mesh, Sphere
from supple.describe import Description, Joint, Mimic
from supple.errors import DescriptionError, InputError
from warned import warned

TOLERANCE = 1e-12
SEEDS = range(nightly(200, 6))
ROUTES: dict[str, Callable[[sp.Robot], sp.Robot]] = {
    "urdf": lambda robot: sp.urdf(robot.to_urdf(shapes=False), tips=robot.tips),
    "mujoco": lambda robot: sp.Robot.from_mujoco(robot.to_mujoco(), tips=robot.tips),
    "pinocchio": lambda robot: sp.Robot.from_pinocchio(robot.to_pinocchio(), tips=robot.tips),
}
RATES = {"urdf": ("max_speed", "max_acceleration", "max_jerk"), "pinocchio": ("max_speed",)}
EXAMPLE = "share/example-robot-data/robots"
# These files have mimic, continuous and floating joints, negative moments, and bodies without a
# mass.
FILES = (
    ("cmeel.prefix", f"{EXAMPLE}/pr2_description/urdf/pr2.urdf"),
    ("cmeel.prefix", f"{EXAMPLE}/icub_description/robots/icub.urdf"),
    ("cmeel.prefix", f"{EXAMPLE}/kinova_description/robots/kinova.urdf"),
    ("ManipulaPy", "ManipulaPy_data/robotiq/robotiq_2f_85.urdf"),
)


def assert_same(one: sp.Robot, other: sp.Robot, route: str) -> None:
    """Check that two robots are equal, except for the order of their joints."""
    assert set(one.position_names) == set(other.position_names)
    index = [other.position_names.index(name) for name in one.position_names]
    order = [other.joint_names.index(name) for name in one.joint_names]
    q = one.random(3, seed=0)
    q2 = np.empty_like(q)
    q2[:, index] = q
    frames = [frame for frame in one.frames if frame in other.frames]
    assert len(frames) >= len(one.frames) - 1  # the root may have another name in the other robot
    assert abs(one.fk(q, frames) - other.fk(q2, frames)).max() < TOLERANCE
    assert abs(one.jacobian(q) - other.jacobian(q2)[..., order]).max() < TOLERANCE
    for key in ("lower", "upper", *RATES.get(route, ())):
        mine, theirs = getattr(one, key), getattr(other, key)[order]
        assert np.allclose(mine, theirs, rtol=0, atol=TOLERANCE), key
    if not np.isnan(one.mass):
        assert abs(one.mass - other.mass) < TOLERANCE
        try:
            center = one.center_of_mass(q)
        except DescriptionError:  # masses are missing or invalid
            return
        assert abs(center - other.center_of_mass(q2)).max() < TOLERANCE


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("route", ROUTES)
def test_a_random_robot_is_unchanged_by_conversion_to_another_format_and_back(
    route: str, seed: int
) -> None:
    robot = drawn_robot(seed, URDF_KINDS if route == "urdf" else KINDS)
    assert_same(robot, ROUTES[route](robot), route)


@pytest.mark.parametrize("route", ROUTES)
def test_robots_of_public_files_are_unchanged_by_conversion_to_another_format_and_back(
    robot_files, route: str
) -> None:
    first = robot_files(*FILES[0])
    paths = [robot_files(*file) for file in FILES]
    if nightly(True, False):
        root = first.parents[len(Path(FILES[0][1]).parts)]
        paths = sorted((*root.rglob("*.urdf"), *root.rglob("*.xml")))
    compared = 0
    for path in paths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                robot = (sp.urdf if path.suffix == ".urdf" else sp.mjcf)(path)
            except DescriptionError:
                continue
            assert_same(robot, ROUTES[route](robot), route)
        compared += 1
    assert compared >= len(FILES)


@each("base", ["floating", "planar"])
def test_a_moving_base_may_have_a_root_link_called_world(base: str) -> None:
    joint = Joint("j", "revolute", "world", "arm", sp.pose([0.1, 0.2, 0.3]), lower=-1, upper=1)
    robot = sp.Robot(Description("r", (joint,))).with_base(base)
    model = robot.to_mujoco()
    q = robot.random(seed=0)
    data, _ = in_mujoco(model, robot, q)
    for link, body in (("arm", "arm"), ("world", "world__"), ("world_", "world_")):
        assert abs(data.body(body).xpos - robot.fk(q, link)[:3, 3]).max() < TOLERANCE
    read = sp.Robot.from_mujoco(model, tips=robot.tips)
    assert read.position_names == robot.position_names
    assert abs(read.fk(q) - robot.fk(q)).max() < TOLERANCE


def test_the_center_of_mass_of_a_file_with_rounded_moments_is_that_of_pinocchio(
    robot_files,
) -> None:
    path = robot_files(*FILES[1])  # the moments of two links with a mass are -5e-20 kg m²
    robot, model = sp.urdf(path), pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    q = robot.random(seed=0)
    theirs = [q[robot.position_names.index(name)] for name in list(model.names)[2:]]
    center = pin.centerOfMass(model, model.createData(), np.array([0, 0, 0, 0, 0, 0, 1, *theirs]))
    assert abs(robot.center_of_mass(q) - center).max() < TOLERANCE


@pytest.mark.parametrize("seed", SEEDS)
def test_poses_and_jacobians_of_a_written_robot_are_those_of_mujoco(seed: int) -> None:
    robot = drawn_robot(seed)
    model = robot.to_mujoco()
    for q in robot.random(2, seed=seed):
        data, S = in_mujoco(model, robot, q)
        for link in robot.description.links:
            T = robot.fk(q, link)
            assert abs(data.body(link).xpos - T[:3, 3]).max() < TOLERANCE
            assert abs(data.body(link).xmat.reshape(3, 3) - T[:3, :3]).max() < TOLERANCE
        site = data.site("tool")
        assert abs(site.xpos - robot.fk(q)[:3, 3]).max() < TOLERANCE
        J = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, J[:3], J[3:], site.id)
        assert abs(J @ S - robot.jacobian(q)).max() < TOLERANCE
        assert abs(data.subtree_com[0] - robot.center_of_mass(q)).max() < TOLERANCE
    assert abs(model.body_mass.sum() - robot.mass) < TOLERANCE


@pytest.mark.parametrize("seed", SEEDS)
def test_poses_and_jacobians_of_a_written_robot_are_those_of_pinocchio(seed: int) -> None:
    robot = drawn_robot(seed)
    model = robot.to_pinocchio()
    data = model.createData()
    for q in robot.random(2, seed=seed):
        theirs, S = in_pinocchio(model, robot, q)
        pin.framesForwardKinematics(model, data, theirs)
        for frame in robot.frames:
            T = data.oMf[model.getFrameId(frame)].homogeneous
            assert abs(T - robot.fk(q, frame)).max() < TOLERANCE
        tool = model.getFrameId("tool")
        J = pin.computeFrameJacobian(model, data, theirs, tool, pin.LOCAL_WORLD_ALIGNED)
        assert abs(J @ S - robot.jacobian(q)).max() < TOLERANCE


def test_pinocchio_reads_the_same_robot_from_a_written_urdf_text() -> None:
    """Pinocchio has its own parser; its model has independent coordinates for joints that mimic
    others.
    """
    robot = drawn_robot(3, ("revolute", "continuous", "prismatic", "fixed"))
    model = pin.buildModelFromXML(robot.to_urdf(), mimic=True)
    data = model.createData()
    q = robot.random(seed=0)
    theirs, _ = in_pinocchio(model, robot, q)
    pin.framesForwardKinematics(model, data, theirs)
    for frame in robot.frames:
        T = data.oMf[model.getFrameId(frame)].homogeneous
        assert abs(T - robot.fk(q, frame)).max() < TOLERANCE


@pytest.mark.parametrize("file", FILES[:3], ids=lambda file: Path(file[1]).stem)
def test_a_robot_made_from_pinocchios_model_of_a_file_is_the_robot_of_the_file(
    robot_files, file
) -> None:
    path = robot_files(*file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = sp.urdf(path)
    for free in (False, True):
        root = [pin.JointModelFreeFlyer()] if free else []
        model = pin.buildModelFromUrdf(str(path), *root, mimic=True)
        read = sp.Robot.from_pinocchio(model, tips=robot.tips)
        q = read.random(seed=1)
        theirs, S = in_pinocchio(model, read, q)
        data = model.createData()
        pin.framesForwardKinematics(model, data, theirs)
        for link in robot.description.links:
            T = data.oMf[model.getFrameId(link, pin.BODY)].homogeneous
            assert abs(T - read.fk(q, link)).max() < TOLERANCE
        tip = model.getFrameId(robot.tips[0], pin.BODY)
        J = pin.computeFrameJacobian(model, data, theirs, tip, pin.LOCAL_WORLD_ALIGNED)
        assert abs(J @ S - read.jacobian(q, robot.tips[0])).max() < TOLERANCE
        assert abs(read.mass - robot.mass) < TOLERANCE
        own = {name: i for i, name in enumerate(robot.joint_names)}
        index = [own[name] for name in read.joint_names if name in own]
        assert len(index) == robot.dof
        mine = [i for i, name in enumerate(read.joint_names) if name in own]
        finite = np.isfinite(robot.lower[index])
        assert (read.upper[mine][finite] >= robot.upper[index][finite]).all()


def test_a_robot_made_from_mujocos_model_of_a_file_is_the_robot_of_the_file(robot_files) -> None:
    """Masses that the file does not state are computed by MuJoCo from shapes."""
    text = """<mujoco model="m"><compiler angle="radian"/><worldbody>
      <body name="a" pos="0 0 1"><freejoint name="root"/><geom size="0.1"/>
        <body name="b" pos="0.1 0 0" euler="0.1 0.2 0.3"><joint name="h" range="-1 1" ref="0.2"/>
          <joint name="s" type="slide" axis="1 1 0" pos="0.1 0 0"/>
          <geom size="0.1 0.2" type="capsule"/>
          <site name="tip" pos="0 0 0.3"/>
          <body name="c"><joint type="ball" pos="0 0.1 0"/><geom type="box" size=".1 .1 .2"/></body>
        </body></body></worldbody>
      <equality><joint joint1="s" joint2="h" polycoef="0.1 0.5 0 0 0"/></equality></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    robot, file = sp.Robot.from_mujoco(model), sp.mjcf(text)
    assert robot.name == "m"
    assert robot.position_names == file.position_names
    assert robot.tips == file.tips
    assert (robot.lower == file.lower).all()
    q = robot.random(5, seed=0)
    assert abs(robot.fk(q, file.frames) - file.fk(q, file.frames)).max() < TOLERANCE
    data, _ = in_mujoco(model, robot, q[0])
    assert abs(data.subtree_com[0] - robot.center_of_mass(q[0])).max() < TOLERANCE
    assert abs(robot.mass - model.body_mass.sum()) < TOLERANCE
    assert sp.Robot.from_mujoco(model, fixed="root", tips="c").dof == file.dof - 6


def test_shapes_are_written_to_urdf(tmp_path: Path) -> None:
    at = sp.pose([0.1, 0.2, 0.3], rpy=[0.3, np.pi / 2, -0.4])
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\n")
    mesh = Mesh(str(tmp_path / "m.obj"), (1, 2, 3), at)
    given = (Box((1, 2, 3), at), Sphere(0.5, at), Cylinder(0.1, 2, at), Capsule(0.2, 1, at), mesh)
    joint = Joint("j", "revolute", "a", "b")
    robot = sp.Robot(Description("r", (joint,), shapes={"b": given}))
    read = sp.urdf(robot.to_urdf()).shapes["b"]
    for mine, theirs in zip(given, read, strict=True):
        assert type(mine) is type(theirs)
        assert abs(mine.pose - theirs.pose).max() < 1e-15
        for key in ("size", "radius", "length", "file", "scale"):
            assert np.array_equal(getattr(mine, key, None), getattr(theirs, key, None))
    hull = ConvexHull(np.eye(3), 0.1)
    robot = sp.Robot(Description("r", (joint,), shapes={"b": hull}))
    with warned("convex hulls are left out .* 'b'"):
        assert "collision" not in robot.to_urdf()
    assert "collision" not in robot.to_urdf(shapes=False)


def test_robots_that_a_format_cannot_express_are_refused() -> None:
    ball = sp.Robot(Description("r", (Joint("socket", "ball", "a", "b"),)))
    with pytest.raises(DescriptionError, match=r"neither ball nor screw joints, given 'socket'"):
        ball.to_urdf()
    follower = Joint("up", "revolute", "a", "b", mimic=Mimic("down"))
    carried = sp.Robot(Description("r", (follower, Joint("down", "revolute", "b", "c"))))
    with pytest.raises(DescriptionError, match="'up' carries the joint that it follows"):
        carried.to_pinocchio()
    model = pin.Model()
    model.addJoint(0, pin.JointModelSphericalZYX(), pin.SE3.Identity(), "euler")
    with pytest.raises(DescriptionError, match="'euler' is a JointModelSphericalZYX"):
        sp.Robot.from_pinocchio(model)


@each("read", [sp.Robot.from_mujoco, sp.Robot.from_pinocchio])
def test_from_mujoco_and_from_pinocchio_refuse_file_names(
    read: Callable[[object], sp.Robot],
) -> None:
    with pytest.raises(InputError, match="takes a"):
        read("robot.urdf")


def test_moments_that_mujoco_rejects_are_changed_with_a_warning() -> None:
    robot = sp.Robot(Description("r", (Joint("j", "revolute", "a", "b"),)))
    robot = robot.with_inertia("b", 1.0, matrix=np.diag([1.0, 1.0, 5.0]))
    with warned("moments that MuJoCo rejects are changed, .* 'b'"):
        model = robot.to_mujoco()
    assert model.body("b").mass == 1
