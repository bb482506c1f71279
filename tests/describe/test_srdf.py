"""Groups, end effectors and states of SRDF files agree with the kinematics and Pinocchio."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest

import supple as sp
from cases import each
from supple.errors import DescriptionError, InputError, UnknownNameError
from warned import warned

ROBOTS = "share/example-robot-data/robots"
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
  <origin xyz="0.1 0.2 0.3"/><axis xyz="0 {y} 1"/><limit lower="-2" upper="2" velocity="1"/>{more}
</joint>"""
LINKS = "".join(f'<link name="{name}"/>' for name in "abcdefgh")
JOINTS = (
    ("ab", "revolute", ""),
    ("bc", "prismatic", ""),
    ("cd", "fixed", ""),
    ("de", "revolute", ""),
    ("bf", "revolute", ""),
    ("fg", "revolute", ""),
    ("gh", "revolute", '<mimic joint="fg"/>'),
)
TREE = (
    '<robot name="tree">'
    + LINKS
    + "".join(
        JOINT.format(name=name, kind=kind, parent=name[0], child=name[1], y=i, more=more)
        for i, (name, kind, more) in enumerate(JOINTS)
    )
    + "</robot>"
)


def tree(groups: str) -> sp.Robot:
    return sp.urdf(TREE, srdf=f"<robot>{groups}</robot>")


@each(
    ("parts", "joints", "tips"),
    [
        ('<chain base_link="a" tip_link="e"/>', ("ab", "bc", "de"), ("e",)),
        ('<chain base_link="b" tip_link="d"/>', ("bc",), ("d",)),
        ('<chain base_link="e" tip_link="h"/>', ("bc", "de", "bf", "fg"), ("h",)),
        ('<joint name="fg"/><joint name="ab"/><joint name="gh"/>', ("ab", "fg"), ("h",)),
        ('<joint name="ab"/><joint name="de"/>', ("ab", "de"), ("e",)),
        ('<link name="b"/><link name="c"/><link name="f"/>', ("ab", "bc", "bf"), ("c", "f")),
        ('<link name="a"/><link name="b"/>', ("ab",), ("b",)),
        ('<group name="one"/><group name="two"/>', ("bc", "fg"), ("d", "g")),
        ('<group name="one"/><joint name="bf"/>', ("bc", "bf"), ("d",)),
    ],
)
def test_a_group_has_the_joints_and_end_effectors_of_its_parts(
    parts: str, joints: tuple[str, ...], tips: tuple[str, ...]
) -> None:
    one = '<group name="one"><chain base_link="b" tip_link="d"/></group>'
    two = '<group name="two"><joint name="fg"/></group>'
    robot = tree(f'{one}<group name="it">{parts}</group>{two}')
    assert robot.groups["it"].joints == joints
    assert robot.groups["it"].tips == tips
    reduced = robot.with_group("it")
    assert (reduced.joint_names, reduced.tips) == (joints, tips)


@each(("base", "tip"), [("a", "e"), ("b", "h"), ("e", "h"), ("c", "g"), ("h", "d")])
def test_the_joints_of_a_chain_are_those_that_move_its_tip_relative_to_its_base(
    base: str, tip: str
) -> None:
    robot = tree(f'<group name="it"><chain base_link="{base}" tip_link="{tip}"/></group>')
    q = robot.random(seed=0)

    def relative(q: np.ndarray) -> np.ndarray:
        one, other = robot.fk(q, [base, tip])
        return np.linalg.inv(one) @ other

    moving = [
        name
        for i, name in enumerate(robot.joint_names)
        if abs(relative(q + 0.1 * np.eye(robot.dof)[i]) - relative(q)).max() > 1e-9
    ]
    assert robot.groups["it"].joints == tuple(moving)


def test_a_group_moves_as_the_robot_does_with_its_other_joints_frozen() -> None:
    robot = tree('<group name="arm"><chain base_link="a" tip_link="e"/></group>')
    for at in (None, robot.random(seed=1)):
        arm = robot.with_group("arm", at=at)
        full = arm.full_q(arm.random(5, seed=2))
        other = robot.neutral() if at is None else at
        assert (full[:, 3:] == other[3:]).all()
        assert np.allclose(robot.fk(full, "e"), arm.fk(arm.reduced_q(full)), atol=1e-15)


def test_the_parent_link_of_an_end_effector_is_a_tip_of_an_arm_and_the_mount_of_its_hand() -> None:
    robot = tree("""
      <group name="arm"><joint name="ab"/><joint name="bc"/><joint name="cd"/></group>
      <group name="hand"><joint name="de"/></group>
      <group name="leg"><joint name="bf"/><joint name="fg"/></group>
      <end_effector name="hand" parent_link="c" group="hand" parent_group="arm"/>
      <end_effector name="foot" parent_link="f" group="leg"/>""")
    arm, hand, leg = (robot.groups[name] for name in ("arm", "hand", "leg"))
    assert (arm.tips, arm.mount) == (("c",), None)
    assert (hand.tips, hand.mount) == (("e",), "c")
    assert (leg.tips, leg.mount) == (("f",), None)


@each(("kind", "nv", "nq"), [("planar", 3, 3), ("floating", 6, 7), ("fixed", 0, 0)])
def test_a_virtual_joint_moves_the_base_only_in_groups_that_contain_it(
    kind: str, nv: int, nq: int
) -> None:
    values = {"planar": "1 2 0.5", "floating": "1 2 3 0 0 0.6 0.8", "fixed": "0"}[kind]
    robot = tree(f"""
      <virtual_joint name="world_joint" type="{kind}" parent_frame="world" child_link="a"/>
      <group name="body"><joint name="world_joint"/><joint name="ab"/></group>
      <group name="arm"><joint name="ab"/></group>
      <group_state name="there" group="body"><joint name="world_joint" value="{values}"/>
        <joint name="ab" value="0.25"/></group_state>""")
    assert robot.nv == 5
    assert robot.with_group("arm").nv == 1
    body = robot.with_group("body")
    assert (body.nv, body.nq) == (nv + 1, nq + 1)
    there = body.group_state("body", "there")
    expected = {"planar": [1, 2, 0.5], "floating": [1, 2, 3, 0.8, 0, 0, 0.6], "fixed": []}[kind]
    assert there.tolist() == [*expected, 0.25]


def test_passive_joints_are_not_joints_of_a_group() -> None:
    robot = tree(
        '<passive_joint name="bc"/><group name="g"><joint name="ab"/><link name="c"/></group>'
    )
    assert robot.groups["g"].joints == ("ab",)


def test_group_states_of_srdf_files_become_configurations() -> None:
    robot = tree("""<group name="g"><joint name="ab"/><joint name="fg"/></group>
      <group_state name="up" group="g"><joint name="fg" value="1.5"/><joint name="gh" value="1"/>
      <joint name="ab" value="-0.5"/></group_state>""")
    assert dict(robot.groups["g"].states["up"]) == {"fg": (1.5,), "gh": (1.0,), "ab": (-0.5,)}
    assert robot.group_state("g", "up").tolist() == [-0.5, 0, 0, 0, 1.5]
    assert robot.with_group("g").group_state("g", "up").tolist() == [-0.5, 1.5]
    assert robot.with_tips("c").groups == robot.groups
    again = pickle.loads(pickle.dumps(robot))
    assert again.group_state("g", "up").tolist() == [-0.5, 0, 0, 0, 1.5]


@each(
    ("urdf", "srdf"),
    [
        ("a1_description/urdf/a1.urdf", "a1_description/srdf/a1.srdf"),
        ("talos_data/robots/talos_reduced.urdf", "talos_data/srdf/talos.srdf"),
        ("xarm_description/urdf/xarm7.urdf", "xarm_description/srdf/xarm7.srdf"),
        ("panda_description/urdf/panda.urdf", "panda_description/srdf/panda.srdf"),
    ],
)
def test_states_of_public_files_are_those_of_pinocchio(robot_files, urdf: str, srdf: str) -> None:
    urdf, srdf = (robot_files("cmeel.prefix", f"{ROBOTS}/{path}") for path in (urdf, srdf))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*are ignored", UserWarning)
        robot = sp.urdf(urdf, srdf=srdf)
    free = any("base" in s for g in robot.groups.values() for s in g.states.values())
    model = pin.buildModelFromUrdf(str(urdf), *([pin.JointModelFreeFlyer()] if free else []))
    pin.loadReferenceConfigurations(model, str(srdf), False)
    robot = robot.with_base("floating") if free else robot
    compared = 0
    for group in robot.groups.values():
        for state in group.states:
            q = dict(zip(robot.position_names, robot.group_state(group.name, state), strict=True))
            theirs = model.referenceConfigurations[state]
            for name in group.states[state]:
                if name in q:
                    assert theirs[model.joints[model.getJointId(name)].idx_q] == q[name]
                    compared += 1
            if free:
                x, y, z, w = (q[f"base/{part}"] for part in ("qx", "qy", "qz", "qw"))
                place = [q["base/x"], q["base/y"], q["base/z"], x, y, z, w]
                assert theirs[:7].tolist() == place
    assert compared > 5


def test_every_group_of_the_public_files_gives_a_robot_with_its_joints_and_tips(
    robot_files,
) -> None:
    """The joints and tips of the reduced robot are those of the group."""
    folder = robot_files("cmeel.prefix", f"{ROBOTS}/pr2_description/srdf/pr2.srdf").parents[2]
    seen = 0
    for name, srdf in (("pr2", "pr2"), ("romeo", "romeo_moveit"), ("icub", "icub")):
        home = folder / f"{name}_description"
        urdf = next(path for path in home.rglob(f"{name}.urdf"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*are ignored", UserWarning)
            robot = sp.urdf(urdf, srdf=home / "srdf" / f"{srdf}.srdf")
        for item in ElementTree.parse(home / "srdf" / f"{srdf}.srdf").findall("group"):
            group = robot.groups.get(item.get("name"))
            if group is None or not group.joints:
                continue
            reduced = robot.with_group(group.name)
            assert reduced.joint_names == group.joints
            tips = [chain.get("tip_link") for chain in item.findall("chain")]
            assert not tips or set(tips) == set(reduced.tips)
            seen += 1
    assert seen > 10


def test_a_world_leaves_out_the_pairs_of_the_srdf_file() -> None:
    data = Path(__file__).parents[1] / "collision" / "data"
    robot = sp.urdf(data / "panda.urdf", srdf=data / "panda.srdf")
    found = {frozenset(p[:2]): p.reason for p in sp.collision.unchecked_pairs(robot, samples=1)}
    for pair in sp.collision.srdf_pairs(data / "panda.srdf", robot):
        if set(pair) <= set(robot.shapes):
            assert found[frozenset(pair)] in ("excluded", "adjacent")


@each(
    ("srdf", "error", "match"),
    [
        (
            '<group name="x"><group name="y"/></group><group name="y"><group name="x"/></group>',
            DescriptionError,
            "in a cycle: 'x' -> 'y' -> 'x'",
        ),
        (
            '<group name="x"><joint name="ab"/></group><group name="x"><joint name="ab"/></group>',
            DescriptionError,
            "two groups are named 'x'",
        ),
        (
            '<group name="x"><joint name="ab"/></group>'
            '<group_state name="s" group="x"><joint name="ab" value="nan"/></group_state>',
            DescriptionError,
            "state 's': joint 'ab': expected numbers, given 'nan'",
        ),
        (
            '<group name="x"><joint name="ab"/></group>'
            '<group_state name="s" group="x"><joint name="ab"/></group_state>',
            DescriptionError,
            "expected numbers, given ''",
        ),
        ('<disable_collisions link1="u" link2="v"/>', DescriptionError, "names no two links"),
    ],
)
def test_an_invalid_srdf_file_is_refused(srdf: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        tree(srdf)


def test_unknown_or_unusable_groups_and_states_are_refused() -> None:
    robot = tree("""<group name="arm"><joint name="ab"/></group>
      <group name="still"><joint name="cd"/></group>
      <group_state name="bad" group="arm"><joint name="ab" value="1 2"/></group_state>""")
    with pytest.raises(UnknownNameError, match=r"unknown group 'leg'.*'arm', 'still'"):
        robot.with_group("leg")
    with pytest.raises(UnknownNameError, match=r"unknown state 'up'.*'bad'"):
        robot.group_state("arm", "up")
    with pytest.raises(InputError, match="must have joints that move"):
        robot.with_group("still")
    with pytest.raises(InputError, match="must have 1 values for 'ab'"):
        robot.group_state("arm", "bad")
    with pytest.raises(InputError, match="has no groups"):
        sp.load("panda").with_group("arm")
    with pytest.raises(InputError, match="at must have shape"):
        robot.with_group("arm", at=np.zeros((2, 5)))


def test_names_that_the_robot_does_not_have_are_ignored_with_a_warning() -> None:
    with warned("are ignored: 'zz', 'q', 'other'"):
        robot = tree("""<group name="g"><joint name="zz"/><joint name="ab"/><link name="q"/>
          <chain base_link="a" tip_link="q"/><group name="other"/></group>""")
    assert robot.groups["g"].joints == ("ab",)


def test_nested_groups_take_no_exponential_time() -> None:
    inner = '<group name="g0"><joint name="ab"/></group>'
    more = "".join(
        f'<group name="g{i}"><group name="g{i - 1}"/><group name="g{i - 1}"/></group>'
        for i in range(1, 60)
    )
    assert tree(inner + more).groups["g59"].joints == ("ab",)  # not in 2^59 visits
