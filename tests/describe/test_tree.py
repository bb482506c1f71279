"""A Description orders its joints, is exact and immutable, and refuses invalid parts by name."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest

from cases import each
from samples import random_tree
from sizes import nightly
from slow_fk import coordinates, fk
from supple.describe import Description, Frame, Joint, Mimic
from supple.errors import DescriptionError
from work import counted


def turn(name: str, parent: str, child: str, **options: object) -> Joint:
    return Joint(name, "revolute", parent, child, **options)  # type: ignore[arg-type]


def test_joints_are_ordered_depth_first_with_children_as_given() -> None:
    joints = (
        turn("e", "c", "e"),
        turn("b", "root", "b"),
        turn("a", "root", "a"),
        turn("c", "b", "c"),
        turn("d", "b", "d"),
    )
    robot = Description("tree", joints)
    assert [joint.name for joint in robot.joints] == ["b", "c", "e", "d", "a"]
    assert robot.root == "root"
    assert robot.links == ("root", "b", "c", "e", "d", "a")


@each("seed", range(5))
def test_the_order_of_joints_does_not_change_the_poses_of_links(seed: int) -> None:
    robot = random_tree(seed)
    rng = np.random.default_rng(seed)
    q = {joint.name: rng.uniform(-2, 2) for joint in coordinates(robot)}
    shuffled = Description("tree", tuple(robot.joints[i] for i in rng.permutation(8)))
    one, two = (
        fk(r, np.array([q[joint.name] for joint in coordinates(r)])) for r in (robot, shuffled)
    )
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[link], two[link]) for link in one)


def test_arrays_of_a_description_are_read_only_copies() -> None:
    origin = np.eye(4)
    robot = Description("r", (turn("j", "a", "b", origin=origin),), (Frame("f", "b", origin),))
    origin[0, 3] = 7
    joint = robot.joints[0]
    assert joint.origin[0, 3] == 0
    for array in (joint.origin, joint.axis, joint.child_placement, robot.frames[0].placement):
        assert array.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        robot.name = "other"  # type: ignore[misc]


@each("error", [0.0, 1e-15, 1e-9, 4e-7])
def test_rotations_and_axes_of_a_description_are_made_orthonormal(error: float) -> None:
    rng = np.random.default_rng(1)
    c, s = math.cos(0.3), math.sin(0.3)
    T = np.eye(4)
    T[:2, :2] = (c, -s), (s, c)
    T[:3, :3] += error * rng.uniform(-1, 1, (3, 3))
    joint = Description("r", (turn("j", "a", "b", origin=T, axis=(3, -4, 12)),)).joints[0]
    R = joint.origin[:3, :3]
    assert abs(R.T @ R - np.eye(3)).max() < 1e-15
    assert abs(R - T[:3, :3]).max() <= 3 * error + 1e-15
    assert np.allclose(joint.axis, np.array((3, -4, 12)) / 13, rtol=1e-15)


def test_rounded_quarter_turns_in_a_description_become_exact() -> None:
    T = np.eye(4)
    T[:2, :2] = (math.cos(math.pi / 2), -1), (1, math.cos(math.pi / 2))
    R = Description("r", (turn("j", "a", "b", origin=T),)).joints[0].origin[:3, :3]
    assert np.array_equal(R, [(0, -1, 0), (1, 0, 0), (0, 0, 1)])


def test_a_mimic_of_a_mimic_is_composed_into_one() -> None:
    joints = (
        turn("c", "2", "3", mimic=Mimic("b", -2.0, 0.5)),
        turn("a", "0", "1"),
        turn("b", "1", "2", mimic=Mimic("a", 3.0, 0.25)),
    )
    follower = Description("r", joints).joints[2]
    assert follower.mimic is not None
    assert follower.mimic.joint == "a"
    assert (follower.mimic.multiplier, follower.mimic.offset) == (-6.0, 0.0)


@each(
    ("second", "third", "message"),
    [
        (
            Mimic("a", math.nan),
            Mimic("b"),
            "'b': the mimic of 'a' must have a finite .*=nan, offset=0",
        ),
        (Mimic("a", 1, math.inf), Mimic("b"), "'b': the mimic of 'a' .* multiplier=1, offset=inf"),
        (Mimic("a", -2e12), Mimic("b"), "'b': the mimic of 'a' .* at most 1e.12, given .*=-2e.12"),
        (Mimic("a", 1e7), Mimic("b", 1e7), "'c': the mimic of 'a' .* given multiplier=1e.14"),
        (Mimic("a", 1, 1e7), Mimic("b", 1e7), "'c': the mimic of 'a' .* offset=1e.14"),
        (Mimic("a", 1e300), Mimic("b", 1e300), "'b': the mimic of 'a' .* given multiplier=1e.300"),
    ],
)
def test_huge_mimic_coefficients_are_refused_also_when_composed(
    second: Mimic, third: Mimic, message: str
) -> None:
    joints = (
        turn("c", "2", "3", mimic=third),
        turn("a", "0", "1"),
        turn("b", "1", "2", mimic=second),
    )
    with pytest.raises(DescriptionError, match=message):
        Description("r", joints)


def test_long_chains_are_read_without_recursion() -> None:
    n = nightly(10_000, 3_000)
    last = n - 1
    joints = [turn(f"j{i}", f"l{i}", f"l{i + 1}") for i in range(n)]
    for i in range(1, n):
        joints[i] = dataclasses.replace(joints[i], mimic=Mimic(f"j{i - 1}", 1.0, 0.5))
    with counted() as work:
        robot = Description("snake", tuple(reversed(joints)))
    assert work.calls < 300 * n
    assert robot.links[-1] == f"l{n}"
    assert robot.joints[last].mimic is not None
    assert robot.joints[last].mimic.offset == 0.5 * last


nan_pose = np.full((4, 4), math.nan)
mirror = np.diag((1.0, 1.0, -1.0, 1.0))
scaled = np.diag((2.0, 1.0, 1.0, 1.0))
far = np.eye(4) - 1e13 * np.eye(4)[1][:, None] * np.eye(4)[3]
projective = np.eye(4) + np.outer((0, 0, 0, 1), (1, 0, 0, 0))


@each(
    ("options", "message"),
    [
        ({"origin": nan_pose}, "'j': origin: contains values that are not finite"),
        (
            {"child_placement": math.inf * np.ones((4, 4))},
            "'j': child_placement: contains values that are not finite",
        ),
        ({"origin": mirror}, "'j': origin: rotation is left-handed"),
        ({"origin": scaled}, "'j': origin: rotation is not orthonormal"),
        ({"origin": 1e200 * scaled}, "'j': origin: last row"),
        ({"child_placement": projective}, "'j': child_placement: last row is not 0 0 0 1"),
        ({"origin": np.eye(3)}, r"'j': origin: expected shape \(4, 4\), given shape \(3, 3\)"),
        ({"origin": "here"}, "'j': origin: expected real numbers, given 'here'"),
        ({"origin": 1j * np.eye(4)}, "'j': origin: expected real numbers, given array"),
        ({"origin": [[10**400] * 4] * 4}, "'j': origin: expected real numbers"),
        (
            {"child_placement": far},
            "'j': child_placement: is farther away than 1e.12 m, given 1 0 0 0; 0 1 0 -1e.13; 0 0",
        ),
        ({"axis": (0, 0, 0)}, "'j': axis: is zero, expected a direction, given 0 0 0"),
        ({"axis": (0, math.nan, 1)}, "'j': axis: contains .* not finite, given 0 nan 1"),
        ({"axis": (1, 0)}, r"'j': axis: expected shape \(3,\)"),
        ({"lower": 1, "upper": -1}, "'j': the lower limit is above .* lower=1, upper=-1"),
        ({"lower": np.complex128(1)}, "'j': lower: expected a number, given"),
        ({"upper": 10**400}, "'j': upper: expected a number, given 1000"),
        ({"lower": math.nan}, "'j': limits must be numbers"),
        ({"lower": math.inf}, "'j': no position lies between"),
        ({"max_speed": 0}, "'j': max_speed must be positive or infinite, given 0"),
        ({"max_speed": -1}, "'j': max_speed"),
        ({"max_speed": math.nan}, "'j': max_speed"),
        ({"kind": "continuous", "lower": -1}, "'j': a continuous joint must not have limits"),
        ({"kind": "helical"}, "'j': unknown kind 'helical'. Available: 'revolute'"),
        ({"kind": "revolut"}, "'j': unknown kind 'revolut'; did you mean 'revolute'"),
        ({"kind": ["revolute"]}, "'j': unknown kind .'revolute'"),
        ({"kind": "fixed"}, "has 1 joints and none of them moves"),
        ({"mimic": Mimic("j")}, "'j' mimics itself"),
        ({"mimic": Mimic("jj")}, "'j' mimics an unknown joint 'jj'; did you mean 'j'"),
        ({"mimic": "k"}, "'j': mimic: expected a Mimic or None, given 'k'"),
        ({"name": ""}, "joint name: expected a non-empty string, given ''"),
        ({"child": None}, "link name: expected a non-empty string, given None"),
    ],
)
def test_an_invalid_joint_is_refused_by_name(options: dict[str, object], message: str) -> None:
    given = {"name": "j", "kind": "revolute", "parent": "a", "child": "b"} | options
    with pytest.raises(DescriptionError, match=message):
        Description("r", (Joint(**given),))  # type: ignore[arg-type]


still = Joint("still", "fixed", "b", "c")


@each(
    ("joints", "message"),
    [
        ((), "has 0 joints and none of them moves"),
        ((turn("j", "a", "b"), turn("j", "b", "c")), "two joints are named 'j'"),
        (
            (turn("j", "a", "c"), turn("k", "b", "c")),
            "'c' has two parents, through the joints 'j', 'k'",
        ),
        ((turn("j", "a", "b"), turn("k", "c", "d")), "2 links have no parent: 'a', 'c'"),
        ((turn("j", "a", "b"), turn("k", "b", "a")), "cycle: '[ab]' -> '[ab]' -> '[ab]'"),
        ((turn("j", "a", "a"),), "cycle: 'a' -> 'a'"),
        (
            (turn("j", "r", "s"), turn("k", "a", "b"), turn("l", "b", "c"), turn("m", "c", "a")),
            "cycle: 'c' -> 'a' -> 'b' -> 'c'",
        ),
        (
            (turn("j", "a", "b", mimic=Mimic("k")), turn("k", "b", "c", mimic=Mimic("j"))),
            "mimic each other in a cycle: 'j', 'k', 'j'",
        ),
        ((turn("j", "a", "b", mimic=Mimic("still")), still), "'j' mimics 'still', which is fixed"),
        (
            (turn("j", "a", "b"), dataclasses.replace(still, mimic=Mimic("j"))),
            "'still' is fixed and cannot mimic 'j'",
        ),
    ],
)
def test_joints_that_make_no_tree_are_refused(joints: tuple[Joint, ...], message: str) -> None:
    with pytest.raises(DescriptionError, match=message):
        Description("r", joints)


@each(
    ("frames", "tips", "message"),
    [
        ((Frame("b", "a"),), (), "frame 'b' has the name of a link"),
        ((Frame("f", "a"), Frame("f", "b")), (), "two frames are named 'f'"),
        ((Frame("f", "nowhere"),), (), "frame 'f' is on an unknown link 'nowhere'"),
        ((Frame("f", "a", mirror),), (), "frame 'f': placement: rotation is left-handed"),
        ((Frame("tool", "b"),), ("tol",), "unknown frame 'tol'; did you mean 'tool'"),
        ((), ("b", "b"), "two tips are named 'b'"),
        (None, (), "frames: expected a sequence of Frame, given None"),
        (("f",), (), "frames: expected a sequence of Frame, given 'f' among them"),
        ((Frame("f", ["a"]),), (), "link of frame 'f': expected a non-empty string, given .'a'"),  # type: ignore[arg-type]
        ((Frame("f", "a", far),), (), "frame 'f': placement: is farther away than 1e.12 m"),
        ((), None, "tips: expected a sequence of str, given None"),
        ((), (["b"],), "tips: expected a sequence of str, given .'b'. among them"),
        ((), "b", "tips: expected a sequence of str, given the single string 'b'"),
    ],
)
def test_invalid_frames_and_tips_are_refused(
    frames: tuple[Frame, ...], tips: tuple[str, ...], message: str
) -> None:
    with pytest.raises(DescriptionError, match=message):
        Description("r", (turn("j", "a", "b"),), frames, tips)


@each("joints", [None, 3, "joints", ("a",), (None,)])
def test_a_description_refuses_joints_of_a_wrong_type(joints: object) -> None:
    with pytest.raises(DescriptionError, match="joints: expected a sequence of Joint, given"):
        Description("r", joints)  # type: ignore[arg-type]


@each("joint", [None, 3, ["a"]])
def test_a_mimic_whose_leader_is_not_given_by_name_is_refused(joint: object) -> None:
    with pytest.raises(DescriptionError, match="mimic: expected a joint's name, given"):
        Mimic(joint)  # type: ignore[arg-type]


def test_a_pickled_description_is_the_same_and_read_only() -> None:
    tree = random_tree(3)
    follower = turn("f", tree.links[-1], "end", mimic=Mimic("joint1", 2.0, 0.5))
    robot = Description("r", (*tree.joints, follower), (Frame("tool", "end"),), ("tool",))
    again = pickle.loads(pickle.dumps(robot))
    assert (again.name, again.links, again.tips) == (robot.name, robot.links, robot.tips)
    assert again.joints[-1].mimic.__dict__ == robot.joints[-1].mimic.__dict__
    for one, two in zip(robot.joints, again.joints, strict=True):
        for key in ("origin", "axis", "child_placement"):
            assert np.array_equal(getattr(one, key), getattr(two, key))
            assert not getattr(two, key).flags.writeable
    assert not again.frames[0].placement.flags.writeable
