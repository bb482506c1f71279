"""Robots with frozen joints have the kinematics of the whole robot with these joints held still."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from calls import mimicking
from cases import each
from sizes import nightly
from trees import Tree, trees

Array = np.ndarray
laws = settings(max_examples=nightly(60, 20), deadline=None, derandomize=True)


@pytest.fixture(params=["panda", "double_y", "stanford", "mimicking"])
def robot(request: pytest.FixtureRequest) -> supple.Robot:
    return mimicking() if request.param == "mimicking" else supple.load(request.param)


@laws
@given(trees(), st.data())
def test_freezing_a_joint_gives_the_kinematics_at_a_constant_coordinate(
    tree: Tree, data: st.DataObject
) -> None:
    robot, q = tree.robot, tree.q.copy()
    if robot.dof == 1:
        return
    names = st.sampled_from(robot.joint_names)
    some = data.draw(st.lists(names, min_size=1, max_size=robot.dof - 1, unique=True))
    values = {name: data.draw(st.sampled_from((0.0, -0.7, np.pi / 2))) for name in some}
    frozen = robot.freeze(values)
    assert frozen.joint_names == tuple(n for n in robot.joint_names if n not in some)
    assert frozen.frames == robot.frames
    assert frozen.tips == robot.tips
    free = [i for i, name in enumerate(robot.joint_names) if name not in some]
    assert (frozen.lower == robot.lower[free]).all()
    for name, value in values.items():
        q[robot.joint_names.index(name)] = value
    T, J = robot.fk_jacobian(q, robot.frames)
    T_frozen, J_frozen = frozen.fk_jacobian(q[free], robot.frames)
    assert abs(T - T_frozen).max() <= tree.rounding
    assert abs(J[..., free] - J_frozen).max() <= tree.rounding * max(1.0, abs(J).max())


def test_a_joint_that_is_frozen_by_its_name_alone_is_frozen_at_zero() -> None:
    panda = supple.load("panda")
    third = panda.joint_names[2]
    expected = panda.freeze({third: 0.0})
    q = panda.freeze(third).random(seed=0)
    for frozen in (panda.freeze(third), panda.freeze([third]), panda.freeze((third,))):
        assert frozen.dof == 6
        assert (frozen.fk(q) == expected.fk(q)).all()
    assert panda.freeze([]).dof == panda.freeze({}).dof == 7


def test_a_mimic_of_a_frozen_joint_does_not_move(rng: np.random.Generator) -> None:
    robot = mimicking()
    q = robot.random(seed=rng)
    frozen = robot.freeze({"joint0": q[0]})
    assert frozen.dof == robot.dof - 1
    assert abs(frozen.fk(q[1:], robot.frames) - robot.fk(q, robot.frames)).max() < 1e-14
    # joint3 mimics joint0; only joint1 and joint2 still move the branch of joint3.
    assert abs(frozen.jacobian(q[1:], "link4")[:, 2:]).max() == 0.0


def test_freezing_all_joints_is_refused(robot: supple.Robot) -> None:
    with pytest.raises(supple.errors.DescriptionError, match="none of them moves"):
        robot.freeze(robot.joint_names)


@each("value", [np.nan, np.inf, "a", None, [1, 2]])
def test_freezing_at_a_nonfinite_value_is_refused(value: object) -> None:
    panda = supple.load("panda")
    with pytest.raises(supple.errors.InputError, match=r"panda_joint1.*finite number"):
        panda.freeze({"panda_joint1": value})  # type: ignore[dict-item]


@laws
@given(trees(), st.data())
def test_full_and_reduced_configurations_have_the_same_poses(
    tree: Tree, data: st.DataObject
) -> None:
    robot = tree.robot
    names = data.draw(st.lists(st.sampled_from(robot.joint_names), unique=True))
    if len(names) == robot.dof:
        names = names[1:]
    q = np.stack([tree.q, robot.neutral(), tree.q / 2])
    values = {name: float(tree.q[robot.joint_names.index(name)]) for name in names}
    q[:, [robot.joint_names.index(name) for name in names]] = list(values.values())
    # Freezing joints in two calls, with a derived robot in between, is the same as in one call.
    half = dict(list(values.items())[::2])
    frozen = robot.freeze(half).with_base(robot.base) if half else robot
    rest = {name: value for name, value in values.items() if name not in half}
    frozen = frozen.freeze(rest) if rest else frozen
    frozen = pickle.loads(pickle.dumps(frozen))
    assert dict(frozen.frozen) == values
    reduced = frozen.reduced_q(q)
    assert reduced.shape == (3, frozen.dof)
    assert (frozen.full_q(reduced) == q).all()
    assert (frozen.full_q(reduced[0]) == q[0]).all()
    poses = frozen.fk(reduced, tree.frames), robot.fk(q, tree.frames)
    assert abs(poses[0] - poses[1]).max() <= 8 * tree.rounding


def test_full_q_keeps_the_dtype_and_configurations_of_a_wrong_shape_are_refused() -> None:
    panda = supple.load("panda")
    frozen = panda.freeze({"panda_joint3": 0.5})
    assert frozen.full_q(np.zeros((2, 6), np.float32)).dtype == np.float32
    assert (frozen.full_q(np.zeros(6)) == [0, 0, 0.5, 0, 0, 0, 0]).all()
    assert (panda.full_q(np.arange(7)) == np.arange(7)).all()
    with pytest.raises(supple.errors.InputError, match=r"q must be .*\(6,\)"):
        frozen.full_q(np.zeros(7))
    with pytest.raises(supple.errors.InputError, match=r"q must be .*\(7,\)"):
        frozen.reduced_q(np.zeros(6))
