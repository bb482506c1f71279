"""Robots derived from other robots, and the printed text of a robot."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from calls import calls, mimicking
from cases import each
from sizes import nightly
from supple.describe import Description, Joint
from trees import Tree, trees
from trees import pose as some_pose

Array = np.ndarray
laws = settings(max_examples=nightly(60, 20), deadline=None, derandomize=True)
ARRAYS = ("lower", "upper", "max_speed", "max_acceleration", "max_jerk", "prismatic", "base")


@pytest.fixture(params=["panda", "double_y", "stanford", "mimicking"])
def robot(request: pytest.FixtureRequest) -> supple.Robot:
    return mimicking() if request.param == "mimicking" else supple.load(request.param)


def limited(*limits: tuple[float, float], kind: str = "revolute") -> supple.Robot:
    """Return a chain of joints with given limits."""
    joints = [
        Joint(f"joint{i}", kind, f"link{i}", f"link{i + 1}", lower=low, upper=high)  # type: ignore[arg-type]
        for i, (low, high) in enumerate(limits)
    ]
    return supple.Robot(Description("limited", tuple(joints)))


# ---- immutability ------------------------------------------------------------------------------


def test_attributes_of_a_robot_cannot_be_set(robot: supple.Robot) -> None:
    for name in ("name", "dof", "lower", "tips", "_base", "anything"):
        with pytest.raises(AttributeError, match=name):
            setattr(robot, name, 1)
    with pytest.raises(AttributeError, match="tips"):
        del robot.tips


def test_arrays_of_a_robot_are_read_only(robot: supple.Robot) -> None:
    for name in ARRAYS:
        array = getattr(robot, name)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_the_base_pose_given_to_a_robot_is_copied() -> None:
    base = np.eye(4)
    robot = supple.load("panda").with_base(base)
    base[0, 3] = 5.0
    assert robot.base[0, 3] == 0.0


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda robot: pickle.loads(pickle.dumps(robot))]
)
def test_a_copied_robot_gives_the_same_bits(
    copied: Callable[[supple.Robot], supple.Robot], robot: supple.Robot, rng: np.random.Generator
) -> None:
    robot = robot.with_base(some_pose(rng)).with_frame("extra", robot.frames[-1], some_pose(rng))
    robot.fk(robot.neutral())  # a robot with caches can be pickled as well
    twin = copied(robot)
    for name in ("name", "dof", "joint_names", "frames", "tips"):
        assert getattr(twin, name) == getattr(robot, name)
    for name in ARRAYS:
        assert (getattr(twin, name) == getattr(robot, name)).all()
        assert not getattr(twin, name).flags.writeable
    q = robot.random(5, seed=rng)
    there, here = calls(twin), calls(robot)
    assert all(there[what](q).tobytes() == here[what](q).tobytes() for what in here)
    for ours in (*twin.description.joints, *twin.description.frames):
        for value in vars(ours).values():
            assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_repr_and_summary_describe_the_robot(robot: supple.Robot) -> None:
    plural = "s" if len(robot.tips) > 1 else ""
    tips = ", ".join(map(repr, robot.tips))
    assert repr(robot) == (
        f"Robot('{robot.name}': {robot.dof} degrees of freedom, end effector{plural} {tips})"
    )
    lines = robot.summary().splitlines()
    assert len(lines) == 1 + robot.dof
    assert all(tip in lines[0] for tip in robot.tips)
    assert all(name in line for name, line in zip(robot.joint_names, lines[1:], strict=True))
    kinds = {joint.name: joint.kind for joint in robot.description.joints}
    assert all(kinds[line.split()[0]] == line.split()[1] for line in lines[1:])


# ---- limits ------------------------------------------------------------------------------------


def test_limits_may_be_changed_by_a_number_an_array_or_joint_names() -> None:
    panda = supple.load("panda")
    slow = panda.with_limits(max_speed=0.5)
    assert (slow.max_speed == 0.5).all()
    assert (slow.lower == panda.lower).all()
    assert (slow.tips, slow.frames) == (panda.tips, panda.frames)
    higher = panda.with_limits(upper=panda.upper + 1, lower={"panda_joint4": -1.0})
    assert (higher.upper == panda.upper + 1).all()
    assert higher.lower[3] == -1.0
    assert (np.delete(higher.lower, 3) == np.delete(panda.lower, 3)).all()
    inside = panda.with_limits(margin=0.1, upper={"panda_joint1": 1.0})
    assert inside.upper[0] == 0.9
    np.testing.assert_allclose(inside.lower, panda.lower + 0.1)
    some = panda.with_limits(margin={"panda_joint2": 0.1})
    assert (some.upper < panda.upper).sum() == (some.lower > panda.lower).sum() == 1


def test_limits_make_continuous_joints_revolute_and_may_be_removed() -> None:
    arm = supple.load("planar2")
    limited = arm.with_limits(lower=-1, upper={"joint1": 2.0, "joint2": 3.0})
    assert (limited.lower == -1).all()
    assert list(limited.upper) == [2, 3]
    q = arm.random(seed=0)
    assert (limited.fk(q) == arm.fk(q)).all()
    free = limited.with_limits(lower=-np.inf, upper=np.inf)
    assert (np.isinf(free.lower) & np.isinf(free.upper)).all()
    assert (arm.with_limits(margin=0.5).upper == np.inf).all()


@each(
    ("limits", "message"),
    [
        ({"lower": 1.0, "upper": 0.0}, "'joint1' must be at most the upper one; given: 1 and 0"),
        ({"lower": -1, "upper": 1, "margin": 2}, "given: 1 and -1, after the margin"),
        ({"max_speed": {"joint2": 0.0}}, "max_speed of 'joint2' must be positive; given: 0"),
        ({"max_acceleration": 0.0}, "max_acceleration of 'joint1' must be positive; given: 0"),
        ({"max_jerk": -1.0}, "max_jerk of 'joint1' must be positive; given: -1"),
        ({"margin": -0.1}, "margin must be finite and at least 0; given: -0.1"),
        ({"margin": np.inf}, "margin must be finite"),
        ({"upper": [1, 2, 3]}, r"upper must be a number, an array \(2,\) or a mapping"),
        ({"upper": "high"}, "upper must be a number"),
        ({"upper": {"joint1": np.nan}}, "upper of 'joint1' must be a number; given: nan"),
        ({"upper": {"joint1": [1.0]}}, "upper of 'joint1' must be a number"),
        ({"lower": np.nan}, "lower must be a number"),
        ({"upper": {"joint3": 1.0}}, "unknown joint 'joint3'; did you mean"),
    ],
)
def test_invalid_limits_of_with_limits_are_refused(limits: dict[str, object], message: str) -> None:
    with pytest.raises(supple.errors.SuppleError, match=message):
        supple.load("planar2").with_limits(**limits)  # type: ignore[arg-type]


# ---- base, frames, tools -----------------------------------------------------------------------


@laws
@given(trees(), st.integers(0, 2**32 - 1))
def test_a_base_moves_the_whole_robot(tree: Tree, seed: int) -> None:
    base = some_pose(np.random.default_rng(seed))
    moved = tree.robot.with_base(base)
    change = base @ np.linalg.inv(tree.robot.base)
    few = tree.rounding * 4
    expected = change @ tree.robot.fk(tree.q, tree.frames)
    assert abs(moved.fk(tree.q, tree.frames) - expected).max() <= few
    assert abs(moved.fk(tree.q, tree.frames[0]) - base).max() == 0.0
    J = tree.robot.jacobian(tree.q, tree.frames, axes="body")
    J_moved = moved.jacobian(tree.q, tree.frames, axes="body")
    assert abs(J_moved - J).max() <= few * max(1.0, abs(J).max())


@laws
@given(trees(), st.data())
def test_the_pose_of_an_added_frame_is_its_placement_on_its_parent_frame(
    tree: Tree, data: st.DataObject
) -> None:
    parent = data.draw(st.sampled_from(tree.frames))
    placement = some_pose(np.random.default_rng(data.draw(st.integers(0, 99))))
    robot = tree.robot.with_frame("new", parent, placement)
    assert robot.frames == (*tree.frames, "new")
    assert robot.tips == tree.robot.tips
    expected = robot.fk(tree.q, parent) @ placement
    assert abs(robot.fk(tree.q, "new") - expected).max() <= 2 * tree.rounding
    # A frame can also be placed on a frame that was added.
    robot = robot.with_frame("newer", "new", placement)
    assert abs(robot.fk(tree.q, "newer") - expected @ placement).max() <= 2 * tree.rounding


def test_with_tips_changes_the_end_effectors() -> None:
    panda = supple.load("panda")
    two = panda.with_tips(["panda_link4", "panda_hand_tcp"])
    assert two.tips == ("panda_link4", "panda_hand_tcp")
    assert two.with_tips("panda_hand").tips == ("panda_hand",)
    assert supple.load("panda", tips="panda_link8").tips == ("panda_link8",)
    with pytest.raises(
        supple.errors.UnknownNameError, match=r"end effector 'panda_hnd'; .*'panda_hand'"
    ):
        panda.with_tips("panda_hnd")
    with pytest.raises(
        supple.errors.InputError, match="tips must be a name or a sequence of names"
    ):
        panda.with_tips([])


def test_the_frame_of_a_tool_replaces_the_end_effector(rng: np.random.Generator) -> None:
    panda, placement = supple.load("panda"), some_pose(rng)
    q = panda.random(seed=rng)
    held = panda.with_tool(placement)
    assert held.tips == ("tool",)
    assert abs(held.fk(q) - panda.fk(q) @ placement).max() < 1e-15
    assert panda.with_tool(placement, name="pen").tips == ("pen",)
    again = held.with_tool(placement, name="tip of the tool")
    assert again.tips == ("tip of the tool",)
    assert abs(again.fk(q) - panda.fk(q) @ placement @ placement).max() < 1e-15


def test_a_tool_replaces_one_of_several_end_effectors(rng: np.random.Generator) -> None:
    robot, placement = supple.load("y"), some_pose(rng)
    with pytest.raises(supple.errors.InputError, match=r"E0.*E1"):
        robot.with_tool(placement)
    assert robot.with_tool(placement, parent="E0").tips == ("tool", "E1")
    # A tool that is mounted on another frame of the same link replaces the end effector of this
    # link.
    link = next(f.link for f in robot.description.frames if f.name == "E1")
    assert robot.with_tool(placement, parent=link).tips == ("E0", "tool")
    with pytest.raises(supple.errors.InputError, match=r"end effectors, 'E0', 'E1', .*'j1'"):
        robot.with_tool(placement, parent="j1")
    assert supple.load("panda").with_tool(placement, parent="panda_link4").tips == ("tool",)


def test_base_and_tool_poses_in_single_precision_are_made_orthonormal(
    rng: np.random.Generator,
) -> None:
    rough = some_pose(rng).astype(np.float32)
    robot = supple.load("panda").with_base(rough).with_tool(rough)
    R = robot.fk(robot.neutral())[:3, :3]
    assert abs(R.T @ R - np.eye(3)).max() < 1e-14
    assert abs(robot.base - rough).max() < 1e-6


@each(
    ("given", "said"),
    [
        (np.eye(3), r"\(3, 3\)"),
        (np.zeros((2, 4, 4)), r"\(2, 4, 4\)"),
        (np.zeros((4, 4)), "off by"),
        (np.diag([1.0, 1, -1, 1]), "det -1"),
        (np.diag([2.0, 2, 2, 1]), "off by"),
        (np.eye(4) * [1, 1, 1, 2], "off by"),
        (np.full((4, 4), np.nan), "not finite"),
        ("pose", "pose"),
        (7, r"shape \(\)"),
        (None, "None of type object"),
    ],
)
def test_arrays_that_are_not_poses_are_refused(given: object, said: str) -> None:
    panda = supple.load("panda")
    with pytest.raises(supple.errors.InputError, match=rf"^base must be a pose.*{said}"):
        panda.with_base(given)  # type: ignore[arg-type]
    with pytest.raises(supple.errors.InputError, match=rf"^placement must be a pose.*{said}"):
        panda.with_frame("new", "panda_hand", given)  # type: ignore[arg-type]
    with pytest.raises(supple.errors.InputError, match=rf"^placement must be a pose.*{said}"):
        panda.with_tool(given)  # type: ignore[arg-type]


def test_a_new_frame_with_an_existing_name_is_refused() -> None:
    panda = supple.load("panda")
    for taken in ("panda_hand", panda.frames[-1], panda.frames[0]):
        with pytest.raises(supple.errors.DescriptionError, match=taken):
            panda.with_frame(taken, "panda_hand", np.eye(4))


# ---- configurations ----------------------------------------------------------------------------


@each("kind", ["revolute", "prismatic"])
def test_neutral_and_random_configurations_are_inside_the_limits(kind: str) -> None:
    inf = np.inf
    ends = [(-1, 2), (0.5, 0.7), (-3, -2), (1, 1), (-inf, inf), (-inf, -10), (10, inf), (-inf, 0.1)]
    robot = limited(*ends, kind=kind)
    neutral = robot.neutral()
    assert neutral.tolist() == [0, 0.5, -2, 1, 0, -10, 10, 0]
    q = robot.random(4000, seed=1)
    assert q.shape == (4000, 8)
    assert np.isfinite(q).all()
    assert (q >= robot.lower).all()
    assert (q <= robot.upper).all()
    # Values lie in both halves of each range; joints without limits are within ±π or ±1 m.
    bound = np.pi if kind == "revolute" else 1.0
    assert abs(q[:, 4]).max() <= bound
    width = np.array([3, 0.2, 1, 0, *[2 * bound] * 4])
    assert (q.max(axis=0) - q.min(axis=0) >= 0.99 * width).all()


def test_the_same_seed_gives_the_same_random_configurations() -> None:
    panda = supple.load("panda")
    assert (
        panda.random((2, 3), seed=7) == panda.random((2, 3), seed=np.random.default_rng(7))
    ).all()
    assert panda.random(seed=7).shape == (7,)
    assert panda.random((0, 3), seed=7).shape == (0, 3, 7)
    rng = np.random.default_rng(7)
    assert (panda.random(seed=rng) != panda.random(seed=rng)).all()
    assert (panda.random(5, seed=7)[0] == panda.random(seed=7)).all()


def test_random_returns_as_many_configurations_as_requested() -> None:
    panda = supple.load("panda")
    assert panda.random().shape == (7,)
    assert panda.random(count=5).shape == (5, 7)
    assert panda.random((), seed=0).shape == (7,)
    assert (panda.random() != panda.random()).any()


# ---- frames ------------------------------------------------------------------------------------


def test_results_have_an_axis_for_frames_only_if_several_names_are_given() -> None:
    one, several = supple.load("panda"), supple.load("double_y")
    q = one.random(3, seed=0)
    tip = one.tips[0]
    assert one.fk(q).shape == one.fk(q, tip).shape == (3, 4, 4)
    assert one.fk(q, [tip]).shape == one.fk(q, (tip,)).shape == (3, 1, 4, 4)
    assert (one.fk(q, [tip])[:, 0] == one.fk(q)).all()
    assert one.jacobian(q, [tip, one.frames[2], tip]).shape == (3, 3, 6, 7)
    q = several.random(3, seed=0)
    assert several.fk(q).shape == (3, 4, 4, 4)
    assert several.jacobian(q).shape == (3, 4, 6, 25)
    assert several.bias_acceleration(q, q).shape == (3, 4, 6)
    assert several.singular_values(q).shape == (3, 24)
    assert several.manipulability(q).shape == (3,)
    assert (several.fk(q) == several.fk(q, several.tips)).all()
    assert (several.fk(q) == several.fk(q, list(several.tips))).all()
    assert (several.fk(q) == several.fk(q, np.array(several.tips))).all()
    assert (several.fk(q, iter(several.tips)) == several.fk(q)).all()  # type: ignore[arg-type]


def test_results_are_in_the_order_of_the_requested_frames(robot: supple.Robot) -> None:
    q = robot.random(seed=0)
    backwards = robot.frames[::-1]
    assert abs(robot.fk(q, backwards) - robot.fk(q, robot.frames)[::-1]).max() < 1e-14


def test_the_first_frame_has_the_pose_of_the_base(rng: np.random.Generator) -> None:
    robot = supple.load("panda").with_base(some_pose(rng))
    q = robot.random(3, seed=rng)
    assert (robot.fk(q, robot.frames[0]) == robot.base).all()
