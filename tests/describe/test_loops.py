"""Loops and couplings of MJCF texts have the constraint residuals that MuJoCo computes."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import mechanisms
import supple as sp
from cases import each
from supple.describe import Coupling, Description, Joint, Loop, Mimic
from supple.errors import DescriptionError, UnknownNameError
from warned import warned

CLOSED = 1e-9
TEXTS = {
    **{f"four_bar{seed}": mechanisms.four_bar(seed) for seed in range(3)},
    **{f"weld{seed}": mechanisms.spatial_loop(seed, 9, "weld") for seed in range(3)},
    **{f"connect{seed}": mechanisms.spatial_loop(seed, 9, "connect") for seed in range(2)},
    "legs": mechanisms.leg(),
    **{f"coupled{seed}": mechanisms.coupled(seed) for seed in range(2)},
}
SITES = """<mujoco><worldbody>
  <body name="one"><joint name="a" axis="0 1 0"/><site name="end" pos="0.5 0 0" euler="10 20 30"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
  <body name="two" pos="1 0 0"><joint name="b" type="ball"/><joint name="c" type="slide"/>
    <site name="start" pos="0 0.2 0.1"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
  </worldbody><equality>{}</equality></mujoco>"""


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_error_of_random_configurations_is_the_residual_of_mujoco(text: str) -> None:
    robot, oracle = sp.mjcf(text), mechanisms.MuJoCo(text)
    for q in robot.without_loops().random(20, seed=1):
        error = robot.loop_error(q)
        assert abs(error).max() > 1e-3  # the loops are open at configurations of the tree
        ours = np.sort(np.linalg.norm(_points(robot, error), axis=-1))
        theirs = np.sort(np.linalg.norm(oracle.points(robot, q), axis=-1))
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def _points(robot: sp.Robot, error: np.ndarray) -> np.ndarray:
    """Return position errors of loops and errors of couplings, as rows (k, 3) padded with zeros."""
    found, at = [], 0
    for loop in robot.loops:
        found.append(error[at : at + 3])
        at += 3 if loop.kind == "point" else 6
    return np.array([*found, *([item, 0.0, 0.0] for item in error[at:])])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_random_configurations_satisfy_the_constraints_of_mujoco(text: str) -> None:
    robot, oracle = sp.mjcf(text), mechanisms.MuJoCo(text)
    q = robot.random(20, seed=2)
    assert oracle.residual(robot, q) <= CLOSED
    assert oracle.residual(robot, robot.neutral()) <= CLOSED


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_loops_survive_conversion_to_mujoco_and_back(text: str) -> None:
    robot = sp.mjcf(text)
    again = sp.Robot.from_mujoco(robot.to_mujoco())
    read = sp.Robot.from_mujoco(mujoco.MjModel.from_xml_string(text))
    assert again.loops == robot.loops
    q = robot.random(5, seed=3)
    for other in (again, read):
        assert other.position_names == robot.position_names
        assert abs(other.loop_error(q)).max() <= CLOSED
        far = robot.without_loops().random(5, seed=4)
        np.testing.assert_allclose(other.loop_error(far), robot.loop_error(far), atol=1e-12)


@each(
    "line",
    [
        '<connect body1="one" body2="two" anchor="0.5 0.1 0.2"/>',
        '<connect body1="two" anchor="0.5 0.1 0.2"/>',
        '<connect site1="end" site2="start"/>',
        '<weld body1="one" body2="two"/>',
        '<weld body1="two" anchor="0.1 0.2 0.3"/>',
        '<weld body1="one" body2="two" relpose="0.1 0.2 0.3 0.5 0.5 -0.5 0.5" anchor="1 2 3"/>',
        '<weld site1="start" site2="end"/>',
    ],
)
def test_every_notation_of_a_loop_means_what_it_means_in_mujoco(line: str) -> None:
    text = SITES.format(line)
    robot, model = sp.mjcf(text), mujoco.MjModel.from_xml_string(text)
    read = sp.Robot.from_mujoco(model)
    oracle = mechanisms.MuJoCo(text)
    for q in robot.without_loops().random(5, seed=5):
        residual = oracle.points(robot, q)[0]
        for one in (robot, read):
            error = one.loop_error(q)
            np.testing.assert_allclose(np.linalg.norm(error[:3]), np.linalg.norm(residual))


def test_a_replicated_loop_closes_each_copy() -> None:
    leg = """<mujoco><worldbody><replicate count="3" euler="0 0 120"><body name="a" pos="1 0 0">
      <joint name="ja"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
      <body name="b" pos="1 1 0"><joint name="jb"/><joint name="kb" axis="1 0 0"/>
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></replicate></worldbody>
      <equality><connect name="rod" body1="a" body2="b" anchor="0.5 0.5 0"/></equality></mujoco>"""
    robot = sp.mjcf(leg)
    read = sp.Robot.from_mujoco(mujoco.MjModel.from_xml_string(leg))
    assert len(robot.loops) == len(read.loops) == 3
    q = robot.without_loops().random(4, seed=0)
    np.testing.assert_allclose(robot.loop_error(q), read.loop_error(q), atol=1e-12)


def test_a_coupling_of_a_joint_with_itself_is_refused() -> None:
    body = "<body name='a'><joint name='j'/><geom size='1'/></body>"
    equality = "<joint joint1='j' joint2='j' polycoef='0 0 1'/>"
    text = f"<mujoco><worldbody>{body}</worldbody><equality>{equality}</equality></mujoco>"
    with pytest.raises(DescriptionError, match="couples 'j' with itself"):
        sp.mjcf(text)


def test_files_with_too_many_loops_are_refused() -> None:
    copies = """<mujoco><worldbody><replicate count="600"><body name="a"><joint/></body></replicate>
      </worldbody><equality>{}</equality></mujoco>"""
    with pytest.raises(DescriptionError, match="more than 1000 loops"):
        sp.mjcf(copies.format('<connect body1="a" anchor="0 0 0"/>' * 3000))


def test_inactive_loops_and_those_of_mocap_bodies_are_ignored() -> None:
    assert sp.mjcf(SITES.format('<weld body1="one" body2="two" active="false"/>')).is_tree
    moved = SITES.replace('name="two"', 'name="two" mocap="true"').replace(
        "<joint name=", "<joint "
    )
    hand = """<mujoco><worldbody><body name="mocap" mocap="true"/><body name="hand"><joint/>
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
      <equality><weld body1="mocap" body2="hand"/></equality></mujoco>"""
    assert "mocap" in moved
    assert sp.mjcf(hand).is_tree
    assert sp.Robot.from_mujoco(mujoco.MjModel.from_xml_string(hand)).is_tree


def test_equalities_of_tendons_are_ignored_with_a_warning() -> None:
    with warned("<tendon>"):
        robot = sp.mjcf(SITES.format('<tendon tendon1="string"/>'))
    assert robot.is_tree


def test_chains_of_followers_in_mjcf_and_urdf_agree_with_mujoco() -> None:
    """A joint may follow a follower. A second leader of a joint becomes a coupling."""
    body = '<body name="b{0}"><joint name="j{0}" axis="0 0 1"/>{1}</body>'
    inside = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    for i in reversed(range(5)):
        mass = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        inside = body.format(i, mass + (inside if i < 4 else ""))
    lines = (
        '<joint joint1="j4" joint2="j3" polycoef="0.1 2"/>'
        '<joint joint1="j3" joint2="j1" polycoef="-0.2 -0.5"/>'
        '<joint joint1="j1" joint2="j0" polycoef="0.3 0.7"/>'
        '<joint joint1="j4" joint2="j2" polycoef="0.2 1.5"/>'
        '<joint joint1="j0" joint2="j4" polycoef="1 0.5"/>'
    )
    text = f"<mujoco><worldbody>{inside}</worldbody><equality>{lines}</equality></mujoco>"
    robot = sp.mjcf(text)
    assert robot.joint_names == ("j0", "j2")
    assert len(robot.couplings) == 2
    q = robot.random(seed=0)
    assert mechanisms.MuJoCo(text).residual(robot, q) <= CLOSED
    link = '<link name="l{0}"/>'
    joint = (
        '<joint name="j{0}" type="continuous"><parent link="l{0}"/><child link="l{1}"/>'
        '<axis xyz="0 0 1"/>{2}</joint>'
    )
    mimic = '<mimic joint="j{0}" multiplier="{1}" offset="{2}"/>'
    parts = [link.format(i) for i in range(6)]
    follows = {4: (3, 2, 0.1), 3: (1, -0.5, -0.2), 1: (0, 0.7, 0.3)}
    parts += [
        joint.format(i, i + 1, mimic.format(*follows[i]) if i in follows else "") for i in range(5)
    ]
    urdf = sp.urdf(f'<robot name="chain">{"".join(parts)}</robot>')
    assert urdf.joint_names == ("j0", "j2")
    for one in urdf.description.joints:
        other = next(j for j in robot.description.joints if j.name == one.name)
        assert (one.mimic is None) == (other.mimic is None)
        if one.mimic is not None and other.mimic is not None:
            assert one.mimic.joint == other.mimic.joint == "j0"
            assert one.mimic.multiplier == pytest.approx(other.mimic.multiplier)
            assert one.mimic.offset == pytest.approx(other.mimic.offset)


def test_a_leader_is_found_by_a_name_without_prefix_unless_it_is_ambiguous() -> None:
    """A public file of a hand has such names on both sides."""
    joints = []
    for side in ("Left_", "Right_"):
        joints.append(Joint(f"{side}q1", "revolute", "palm", f"{side}1"))
        joints.append(Joint(f"{side}q2", "revolute", f"{side}1", f"{side}2", mimic=Mimic("q1", 2)))
    with warned("'Left_q2' follows 'Left_q1'; 'Right_q2' follows"):
        hand = Description("hand", tuple(joints))
    leaders = {joint.name: joint.mimic.joint for joint in hand.joints if joint.mimic}
    assert leaders == {"Left_q2": "Left_q1", "Right_q2": "Right_q1"}
    both = [
        Joint("Lq1", "revolute", "palm", "a"),
        Joint("LLq1", "revolute", "a", "b"),
        Joint("LLq2", "revolute", "b", "c", mimic=Mimic("q1")),
    ]
    with pytest.raises(DescriptionError, match="unknown joint 'q1'"):
        Description("hand", tuple(both))


def test_freezing_a_leader_freezes_its_follower_at_the_polynomials_value() -> None:
    robot = sp.mjcf(mechanisms.coupled(3))
    leader = robot.couplings[0].leader
    frozen = robot.freeze({leader: 0.3})
    assert robot.couplings[0].follower not in frozen.joint_names
    q = frozen.random(5, seed=0)
    full = np.zeros((5, robot.nq))
    place = {name: j for j, name in enumerate(robot.joint_names)}
    for j, name in enumerate(frozen.joint_names):
        full[:, place[name]] = q[:, j]
    full[:, place[leader]] = 0.3
    for item in robot.couplings:
        full[:, place[item.follower]] = item(full[0, place[item.leader]])
        full[:, place[item.follower]] = [item(x) for x in full[:, place[item.leader]]]
    np.testing.assert_allclose(robot.fk(full), frozen.fk(q), atol=1e-12)
    with pytest.raises(DescriptionError, match="cannot be fixed alone"):
        robot.freeze(robot.couplings[0].follower)


def test_invalid_loops_and_couplings_are_refused() -> None:
    joints = (Joint("a", "revolute", "0", "1"), Joint("b", "ball", "1", "2"))
    with pytest.raises(DescriptionError, match="unknown frame 'x'"):
        Description("r", joints, loops=(Loop("0", "x"),))
    with pytest.raises(DescriptionError, match="two different frames"):
        Description("r", joints, loops=(Loop("0", "0"),))
    with pytest.raises(DescriptionError, match="two loops are named"):
        Description("r", joints, loops=(Loop("0", "1"), Loop("0", "2")))
    with pytest.raises(DescriptionError, match="unknown kind 'hinge'"):
        Loop("0", "1", "hinge")  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match="one degree of freedom"):
        Description("r", joints, couplings=(Coupling("b", "a", (0, 1)),))
    with pytest.raises(DescriptionError, match="unknown joint"):
        Description("r", joints, couplings=(Coupling("a", "c", (0, 1)),))
    with pytest.raises(DescriptionError, match="2 to 5 coefficients"):
        Coupling("a", "b", (1.0,))
    with pytest.raises(DescriptionError, match="finite"):
        Coupling("a", "b", (1.0, np.inf))
    with pytest.raises(UnknownNameError, match="tip"):
        sp.load("panda").with_loop("tip", "panda_link0")


def test_a_coupling_of_two_followers_becomes_a_coupling_of_their_leaders() -> None:
    joints = (
        Joint("a", "revolute", "0", "1"),
        Joint("b", "revolute", "1", "2", mimic=Mimic("a", 2.0, 0.5)),
        Joint("c", "revolute", "2", "3"),
        Joint("d", "revolute", "3", "4", mimic=Mimic("c", -0.5, 0.25)),
    )
    p = Coupling("d", "b", (0.1, 0.2, 0.3))
    (made,) = Description("r", joints, couplings=(p,)).couplings
    assert (made.follower, made.leader) == ("c", "a")
    for x in np.linspace(-1, 1, 5):
        assert -0.5 * made(x) + 0.25 == pytest.approx(p(2 * x + 0.5))


def test_formats_without_loops_warn_that_loops_are_lost() -> None:
    robot = sp.mjcf(mechanisms.four_bar(0))
    with warned("no loops"):
        assert sp.urdf(robot.to_urdf()).is_tree
    with warned("no loops"):
        robot.to_pinocchio()
