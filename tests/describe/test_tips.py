"""End effectors are chosen by the caller, or by a default rule that fits real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import supple
from cases import each
from supple.describe import Description, dh, mjcf, urdf
from supple.errors import DescriptionError, InputError, SuppleError, UnknownNameError

RobotFiles = Callable[[str, str], Path]
DATA = "share/example-robot-data/robots"
FEET = ("left_sole_link", "right_sole_link")
LEGS = ("FR_foot", "FL_foot", "RR_foot", "RL_foot")
FILES = {
    # Robots with a base plate, and with tool frames of two conventions.
    ("cmeel.prefix", f"{DATA}/ur_description/urdf/ur5_robot.urdf"): ("tool0",),
    ("ManipulaPy", "ManipulaPy_data/fanuc/lrmate200ib.urdf"): ("tool0",),
    # Robots with cameras beside the tool.
    ("ManipulaPy", "ManipulaPy_data/kinova/gen3/gen3_v12.urdf"): ("tool_frame",),
    # Grippers with and without a frame between the fingers.
    ("cmeel.prefix", f"{DATA}/panda_description/urdf/panda.urdf"): ("panda_hand_tcp",),
    ("ManipulaPy", "ManipulaPy_data/franka_panda/panda.urdf"): ("panda_hand",),
    ("ManipulaPy", "ManipulaPy_data/kinova/jaco/jaco_6dof.urdf"): ("j2s6s300_end_effector",),
    ("ManipulaPy", "ManipulaPy_data/xarm/xarm6_with_gripper.urdf"): ("xarm_gripper_base_link",),
    ("cmeel.prefix", f"{DATA}/z1_description/urdf/z1.urdf"): ("gripperStator",),  # a single jaw
    # Mobile robots with wheels, casters, laser scanners or a camera head; one has 34 leaf links.
    ("cmeel.prefix", f"{DATA}/pr2_description/urdf/pr2.urdf"): (
        "r_gripper_tool_frame",
        "l_gripper_tool_frame",
    ),
    ("cmeel.prefix", f"{DATA}/tiago_description/robots/tiago.urdf"): ("hand_tool_link",),
    # Legged robots with rotors and IMUs; humanoids with eleven and sixteen leaf links.
    ("cmeel.prefix", f"{DATA}/go1_description/urdf/go1.urdf"): LEGS,
    ("cmeel.prefix", f"{DATA}/b1_description/urdf/b1-z1.urdf"): (*LEGS, "gripperStator"),
    ("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"): (
        "left_ankle_roll_link",
        "right_ankle_roll_link",
        "left_rubber_hand",
        "right_rubber_hand",
    ),
    ("cmeel.prefix", f"{DATA}/talos_data/robots/talos_full_v2.urdf"): (
        "wrist_left_ft_tool_link",
        "wrist_right_ft_tool_link",
        *FEET,
    ),
    ("cmeel.prefix", f"{DATA}/icub_description/robots/icub.urdf"): (
        "l_sole",
        "r_sole",
        "l_gripper",
        "r_gripper",
    ),
    # The fingertips of a hand without an arm, and the rotors of a drone, are end effectors.
    ("cmeel.prefix", f"{DATA}/allegro_hand_description/urdf/allegro_left_hand.urdf"): tuple(
        f"link_{i}.0_tip" for i in (11, 7, 3, 15)
    ),
    ("cmeel.prefix", f"{DATA}/iris_description/robots/iris.urdf"): tuple(
        f"iris__rotor_{i}" for i in range(4)
    ),
}


@each(("package", "path"), FILES, ids=lambda part: Path(part).stem)
def test_the_default_end_effectors_of_real_files_are_the_listed_ones(
    robot_files: RobotFiles, package: str, path: str
) -> None:
    file = robot_files(package, path)
    try:
        robot = supple.urdf(file)
    except DescriptionError as error:
        joint = str(error).split("fixed=['")[1].split("']")[0]
        robot = supple.urdf(file, fixed=joint)
    assert robot.tips == FILES[package, path]


def branches(*chains: tuple[int, float], trunk: int = 6, length: float = 1.0) -> Description:
    """Return a robot with a trunk and, on its last link, chains of (joints, length [m])."""
    links, joints = ["base"], []

    def add(parent: str, child: str, step: float) -> None:
        links.append(child)
        joints.append(
            f'<joint name="j_{child}" type="continuous"><parent link="{parent}"/>'
            f'<child link="{child}"/><origin xyz="0 0 {step}"/></joint>'
        )

    for i in range(trunk):
        add(links[-1], f"t{i}", length / trunk)
    top = links[-1]
    for c, (count, reach) in enumerate(chains):
        last = top
        for i in range(count):
            add(last, f"c{c}_{i}", reach / count)
            last = links[-1]
    described = "".join(f'<link name="{link}"/>' for link in links)
    return urdf(f'<robot name="r">{described}{"".join(joints)}</robot>')


def test_short_branches_with_few_joints_are_fingers_not_end_effectors() -> None:
    assert branches((1, 0.1), (1, 0.1)).tips == ("t5",)
    assert branches((4, 0.45), (3, 0.2), (4, 0.1)).tips == ("t5",)
    # Branches that are longer or have more joints than the trunk are arms on a torso.
    assert branches((6, 0.6), (6, 0.6)).tips == ("c0_5", "c1_5")
    assert branches((7, 0.4), (7, 0.4)).tips == ("c0_6", "c1_6")
    assert branches((2, 0.2), (2, 0.8)).tips == ("c0_1", "c1_1")
    assert branches((3, 0.4), (3, 0.4), trunk=6, length=0.0).tips == ("c0_2", "c1_2")
    # A serial arm has its tip at the last link; chains on the root are not fingers of a gripper.
    assert branches((2, 0.1)).tips == ("c0_1",)
    assert branches((2, 0.1), (2, 0.1), trunk=0).tips == ("c0_1", "c1_1")


MODEL = """
<mujoco><worldbody><body name="a"><joint name="j"/><geom size="1"/>
  <site name="dot"/><body name="b" pos="0 0 1"><joint name="k"/><geom size="1"/>{site}</body>
</body></worldbody></mujoco>
"""


def test_mjcf_sites_are_end_effectors_by_their_name_or_if_chosen() -> None:
    assert mjcf(MODEL.format(site='<site name="dot2"/>')).tips == ("b",)
    assert mjcf(MODEL.format(site='<site name="attachment_site"/>')).tips == ("attachment_site",)
    text = MODEL.format(site='<site name="dot2"/>')
    assert mjcf(text, tips="dot2").tips == ("dot2",)
    assert supple.mjcf(text, tips=["dot", "b"]).tips == ("dot", "b")


def test_end_effectors_of_dh_tables_can_be_chosen() -> None:
    table = [[1.0, 0, 0, 0]] * 2
    assert dh(table).tips == ("link2",)
    assert dh(table, tips="link1").tips == ("link1",)
    assert dh(table, tool=[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]).tips == (
        "tool",
    )


@each(
    ("tips", "error", "message"),
    [
        ("link3", UnknownNameError, "unknown end effector 'link3'; did you mean .*: 'link0', 'li"),
        ((), InputError, "tips: expected the name of an end effector, or several, given none"),
        (3, InputError, "tips: expected the name of an end effector, or several, given 3"),
        ([["link1"]], UnknownNameError, "unknown end effector .'link1'"),
    ],
)
def test_invalid_end_effectors_are_refused(
    tips: object, error: type[SuppleError], message: str
) -> None:
    with pytest.raises(error, match=message):
        dh([[1.0, 0, 0, 0]] * 2, tips=tips)  # type: ignore[arg-type]


def test_an_end_effector_given_twice_is_one_tip() -> None:
    assert dh([[1.0, 0, 0, 0]], tips=["link1", "link1"]).tips == ("link1",)


@each(
    ("given", "hint"),
    [
        ("arm.urdf", "URDF file with supple.urdf"),
        ("<robot name='r'/>", "URDF file with supple.urdf"),
        ("scene.mjcf", "MJCF file with supple.mjcf"),
        ("scene.xml", "supple.urdf or supple.mjcf"),
        (Path("arm.urdf"), "URDF file with supple.urdf"),
    ],
)
def test_loading_a_file_by_name_hints_at_its_reader(given: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        supple.load(given)
