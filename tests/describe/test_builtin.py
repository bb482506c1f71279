"""The built-in robots agree with their papers and with the manufacturers' public files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

import supple
from cases import each
from slow_fk import coordinates, fk
from supple.describe import builtin, builtin_names, urdf

Finder = Callable[[str, str], Path]


def zero(name: str) -> dict[str, np.ndarray]:
    robot = builtin(name)
    return fk(robot, np.zeros(len(coordinates(robot))))


@each(
    ("name", "coordinates_", "tips"),
    [
        ("planar2", 2, ("link2",)),
        ("planar3", 3, ("link3",)),
        ("planar4", 4, ("link4",)),
        ("puma560_mk", 6, ("link6",)),
        ("puma560", 6, ("link6",)),
        ("puma560_roll", 7, ("link6",)),
        ("puma560_rail", 7, ("link6",)),
        ("stanford", 6, ("link6",)),
        ("panda", 7, ("panda_hand_tcp",)),
        ("ur5e", 6, ("tool0",)),
        ("iiwa14", 7, ("flange",)),
        ("youbot", 5, ("arm_link_5",)),
        ("so101", 5, ("gripper_frame_link",)),
        ("y", 7, ("E0", "E1")),
        ("double_y", 25, ("E0", "E1", "E2", "E3")),
        ("double_y16", 16, ("E0", "E1", "E2", "E3")),
    ],
)
def test_built_in_robots_have_the_listed_coordinates_and_end_effectors(
    name: str, coordinates_: int, tips: tuple[str, ...]
) -> None:
    robot = builtin(name)
    assert robot.name == name
    assert len(coordinates(robot)) == coordinates_
    assert robot.tips == tips
    assert set(tips) <= zero(name).keys()


def test_there_are_16_built_in_robots() -> None:
    assert len(builtin_names()) == 16


# `rounding` is the accuracy of the files, in which π/2 is rounded to 9, 10 or 12 digits.
@each(
    ("name", "package", "path", "frames", "rounding"),
    [
        (
            "panda",
            "frax",
            "assets/franka_panda/panda.urdf",
            {link: link for link in [f"panda_link{i}" for i in range(9)] + ["panda_hand"]},
            1e-10,
        ),
        (
            "panda",
            "ManipulaPy",
            "ManipulaPy_data/franka_panda/panda.urdf",
            {"panda_hand": "panda_hand"},
            1e-9,
        ),
        (
            "ur5e",
            "ManipulaPy",
            "ManipulaPy_data/universal_robots/ur5e/ur5e.urdf",
            {"tool0": "tool0"},
            1e-8,
        ),
        (
            "iiwa14",
            "ManipulaPy",
            "ManipulaPy_data/kuka_iiwa/iiwa14/iiwa14.urdf",
            {"flange": "iiwa_link_ee_kuka"},
            1e-10,
        ),
    ],
)
def test_built_in_robots_have_the_kinematics_of_the_makers_files(
    robot_files: Finder, name: str, package: str, path: str, frames: dict[str, str], rounding: float
) -> None:
    ours, theirs = builtin(name), urdf(robot_files(package, path))
    names = [joint.name for joint in coordinates(ours)]
    there = [joint.name for joint in coordinates(theirs)]
    rng = np.random.default_rng(5)
    for q in rng.uniform(-3, 3, (10, len(names))):
        values = dict(zip(names, q, strict=True))
        T, U = fk(ours, q), fk(theirs, np.array([values.get(joint, 0.0) for joint in there]))
        base = U["base"] if "base" in U else np.eye(4)
        for mine, their in frames.items():
            assert abs(T[mine] - np.linalg.inv(base) @ U[their]).max() < rounding, mine


@each(
    ("name", "package", "path"),
    [
        ("panda", "frax", "assets/franka_panda/panda.urdf"),
        ("iiwa14", "frax", "assets/iiwa/iiwa14.urdf"),
        ("ur5e", "ManipulaPy", "ManipulaPy_data/universal_robots/ur5e/ur5e.urdf"),
    ],
)
def test_built_in_robots_have_the_limits_of_the_makers_files(
    robot_files: Finder, name: str, package: str, path: str
) -> None:
    there = {joint.name: joint for joint in urdf(robot_files(package, path)).joints}
    for ours in coordinates(builtin(name)):
        theirs = there[ours.name]
        assert math.isclose(ours.lower, theirs.lower, rel_tol=1e-9), ours.name
        assert math.isclose(ours.upper, theirs.upper, rel_tol=1e-9), ours.name
        assert math.isclose(ours.max_speed, theirs.max_speed, rel_tol=1e-9), ours.name


def test_the_hand_of_the_panda_points_down_at_zero() -> None:
    T = zero("panda")["panda_hand_tcp"]
    assert np.allclose(T[:3, 3], (0.088, 0, 0.333 + 0.316 + 0.384 - 0.107 - 0.1034), atol=1e-12)


def test_the_puma_of_the_paper_has_the_lengths_of_table_one_and_no_limits() -> None:
    robot = builtin("puma560_mk")
    assert all(joint.kind == "continuous" for joint in robot.joints)
    T = zero("puma560_mk")["link6"]
    assert np.allclose(T[:3, 3], (0.432 - 0.020, 0.149, 0.433 + 0.056), atol=1e-15)


def test_the_two_models_of_the_puma_differ_only_in_base_height() -> None:
    rng = np.random.default_rng(6)
    one, two = builtin("puma560_mk"), builtin("puma560")
    for q in rng.uniform(-3, 3, (10, 6)):
        off = fk(two, q)["link6"] - fk(one, q)["link6"]
        off[2, 3] -= 0.672
        assert abs(off).max() < 0.004


def test_the_stanford_arm_slides_along_its_third_axis() -> None:
    robot = builtin("stanford")
    assert [joint.kind[0] for joint in robot.joints] == list("rrprrr")
    T = fk(robot, np.array((0, 0, 0.5, 0, 0, 0)))["link6"]
    assert np.allclose(T[:3, 3], (0, 0.154, 0.412 + 0.5 + 0.263), atol=1e-15)


def test_the_youbot_is_upright_at_zero_and_leans_forward_at_positive_angles() -> None:
    T = zero("youbot")["arm_link_5"]
    assert np.allclose(T[:3, 3], (0.033, 0, 0.147 + 0.155 + 0.135 + 0.2175), atol=1e-15)
    assert np.allclose(T[:3, 2], (0, 0, 1), atol=1e-15)
    for joint in (1, 2, 3):
        leaning = fk(builtin("youbot"), np.eye(5)[joint] * 0.1)["arm_link_5"]
        assert leaning[0, 3] > 0.033


def test_the_y_has_its_end_effectors_where_the_program_of_buss_draws_them() -> None:
    T = zero("y")
    assert np.allclose(T["E0"][:3, 3], (0.7, 2, 0), atol=1e-15)
    assert np.allclose(T["E1"][:3, 3], (-0.8, 1.9, 0), atol=1e-15)
    assert [joint.name for joint in builtin("y").joints] == [
        "j0",
        "j1",
        "j3",
        "j5",
        "j2",
        "j4",
        "j6",
    ]


def test_the_double_y_has_the_symmetric_pose_of_the_program_of_buss() -> None:
    T = {name: pose[:3, 3] for name, pose in zero("double_y").items()}
    mirror = np.array((-1, 1, 1))
    assert np.allclose(T["E3"], T["E0"] * mirror, atol=1e-15)
    assert np.allclose(T["E2"], T["E1"] * mirror, atol=1e-15)
    h, r = math.sqrt(3) / 2, 1 / math.sqrt(2)
    assert np.allclose(T["E0"], (0.5 * r + 1.5 * h, -0.5 + 0.5 * r + 0.75, 0), atol=1e-15)
    assert np.allclose(T["E1"], (0.5 * r + 1.5 * h, -0.5 + 0.5 * r + 1.5 * h, 0), atol=1e-15)
    axis = next(joint.axis for joint in builtin("double_y").joints if joint.name == "a")
    assert np.allclose(axis, (math.sqrt(14) / 8, 1 / 8, 7 / 8), rtol=1e-15)


def test_the_double_y_of_the_text_of_buss_has_the_link_lengths_of_his_program() -> None:
    # There are 16 links with one joint each, so J is (12, 16); end effectors are ends of links.
    one, two = zero("double_y16"), zero("double_y")
    for tip in ("E0", "E1", "E2", "E3"):
        np.testing.assert_allclose(one[tip], two[tip], atol=1e-15)
    starts = {tuple(T[:3, 3].round(12) + 0.0) for T in two.values()}
    assert {tuple(T[:3, 3].round(12) + 0.0) for T in one.values()} == starts
    robot = supple.load("double_y16")
    q = robot.random(seed=0)
    J = robot.jacobian(q)[:, :3].reshape(12, 16)
    assert np.linalg.matrix_rank(J) == 12


def test_the_redundant_pumas_equal_the_puma_if_the_added_joint_is_zero() -> None:
    puma, q = supple.load("puma560"), np.linspace(-0.5, 0.7, 6)
    roll, rail = supple.load("puma560_roll"), supple.load("puma560_rail")
    np.testing.assert_allclose(roll.fk(np.insert(q, 2, 0.0)), puma.fk(q), atol=1e-15)
    np.testing.assert_allclose(rail.fk(np.insert(q, 0, 0.0)), puma.fk(q), atol=1e-15)
    moved = rail.fk(np.insert(q, 0, 0.4)) - puma.fk(q)
    np.testing.assert_allclose(moved[:3, 3], [0.4, 0, 0], atol=1e-15)
    # The roll axis is the upper arm's center line, so the roll does not move the elbow.
    at = [roll.fk(np.insert(q, 2, angle), "upper_arm")[:3, 3] for angle in (0.0, 1.0)]
    np.testing.assert_allclose(at[0], at[1], atol=1e-15)
    for robot in (roll, rail):
        assert np.linalg.matrix_rank(robot.jacobian(robot.random(seed=1))) == 6


def test_planar4_reaches_as_far_as_planar3() -> None:
    assert np.allclose(zero("planar4")["link4"][:3, 3], zero("planar3")["link3"][:3, 3])


SO101 = """
shoulder_pan   0.0388353 -8.97657e-09 0.0624    3.14159 4.18253e-17 -3.14159     -1.91986 1.91986
shoulder_lift  -0.0303992 -0.0182778 -0.0542    -1.5708 -1.5708 0                -1.74533 1.74533
elbow_flex     -0.11257 -0.028 1.73763e-16      -3.63608e-16 8.74301e-16 1.5708  -1.69 1.69
wrist_flex     -0.1349 0.0052 3.62355e-17       4.02456e-15 8.67362e-16 -1.5708  -1.65806 1.65806
wrist_roll     5.55112e-17 -0.0611 0.0181       1.5708 0.0486795 3.14159         -2.74385 2.84121
"""  # origins (xyz, rpy) and limits of the maker's file


def test_the_so101_has_the_dimensions_of_the_makers_file() -> None:
    links, joints = ["base_link"], []
    for k, line in enumerate(SO101.split("\n")[1:-1]):
        name, *given = line.split()
        links.append(f"link{k}")
        joints.append(
            f'<joint name="{name}" type="revolute"><parent link="{links[-2]}"/>'
            f'<child link="{links[-1]}"/><origin xyz="{" ".join(given[:3])}" '
            f'rpy="{" ".join(given[3:6])}"/><axis xyz="0 0 1"/>'
            f'<limit lower="{given[6]}" upper="{given[7]}" velocity="10" effort="10"/></joint>'
        )
    tip = (
        '<joint name="tip" type="fixed"><parent link="link4"/><child link="gripper_frame_link"/>'
        '<origin xyz="-0.0079 -0.000218121 -0.0981274" rpy="0 3.14159 0"/></joint>'
    )
    every = "".join(f'<link name="{name}"/>' for name in [*links, "gripper_frame_link"])
    theirs = supple.urdf(f'<robot name="so101">{every}{"".join(joints)}{tip}</robot>')
    ours = supple.load("so101")
    assert ours.joint_names == theirs.joint_names
    for name in ("lower", "upper", "max_speed"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-12)
    q = ours.random(20, seed=0)
    np.testing.assert_allclose(ours.fk(q), theirs.fk(q), atol=3e-5)  # the angles have six digits
    # At zero, the gripper points forward, and its joint turns it about its own axis.
    assert ours.fk(np.zeros(5))[0, 3] > 0.35
    np.testing.assert_allclose(
        ours.fk([0, 0, 0, 0, 1.0])[:3, 2], ours.fk(np.zeros(5))[:3, 2], atol=1e-12
    )
