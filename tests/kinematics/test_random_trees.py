"""Kinematics of random trees agree with the definitions and with finite differences."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import in_axes
from sizes import nightly
from slow_fk import fk as slow_fk
from trees import Tree, trees

Array = np.ndarray
H = np.finfo(float).eps ** (1 / 3)  # balances the errors h^2 and eps / h of a central difference
laws = settings(max_examples=nightly(120, 40), deadline=None, derandomize=True)


def turn(R_after: Array, R_before: Array) -> Array:
    """Return the axis times the sine of the angle (3,) of a small rotation, in world axes."""
    R = R_after @ R_before.T
    return np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2


def moved(T_after: Array, T_before: Array) -> Array:
    """Return the small twist (6,) from one pose to another: [displacement of the
    origin; rotation].
    """
    return np.concatenate(
        [T_after[:3, 3] - T_before[:3, 3], turn(T_after[:3, :3], T_before[:3, :3])]
    )


def difference_tolerance(tree: Tree, qd: Array, order: int) -> float:
    """Return a bound on the error of the central difference for the `order`-th derivative."""
    speed = tree.speed(qd)
    return H**2 * speed ** (order + 2) * tree.reach + tree.rounding * speed ** (order - 1) / H


@laws
@given(trees())
def test_poses_of_random_trees_are_those_of_the_definition(tree: Tree) -> None:
    expected = slow_fk(tree.robot.description, tree.q)
    poses = tree.robot.fk(tree.q, tree.frames)
    for name, T in zip(tree.frames, poses, strict=True):
        assert abs(T - tree.robot.base @ expected[name]).max() <= tree.rounding, name


@laws
@given(trees())
def test_a_pose_is_a_rotation_and_a_translation(tree: Tree) -> None:
    for T in tree.robot.fk(tree.q, tree.frames):
        assert abs(T[:3, :3].T @ T[:3, :3] - np.eye(3)).max() <= tree.rounding
        assert np.linalg.det(T[:3, :3]) > 0
        assert (T[3] == (0, 0, 0, 1)).all()


@laws
@given(trees())
def test_a_jacobian_is_the_derivative_of_the_pose(tree: Tree) -> None:
    J = tree.robot.jacobian(tree.q, tree.frames)
    for j in range(tree.robot.dof):
        step = np.zeros(tree.robot.dof)
        step[j] = 1.0
        after = tree.robot.fk(tree.q + H * step, tree.frames)
        before = tree.robot.fk(tree.q - H * step, tree.frames)
        tolerance = difference_tolerance(tree, step, order=1)
        for k, name in enumerate(tree.frames):
            column = moved(after[k], before[k]) / (2 * H)
            assert abs(J[k, :, j] - column).max() <= tolerance, (name, j)


@laws
@given(trees())
def test_twists_are_linear_in_the_joint_speeds(tree: Tree) -> None:
    # Along q(t) = q + t qd, the twist of the frame is J qd.
    J = tree.robot.jacobian(tree.q, tree.frames)
    after = tree.robot.fk(tree.q + H * tree.qd, tree.frames)
    before = tree.robot.fk(tree.q - H * tree.qd, tree.frames)
    tolerance = difference_tolerance(tree, tree.qd, order=1)
    for k, name in enumerate(tree.frames):
        twist = moved(after[k], before[k]) / (2 * H)
        assert abs(J[k] @ tree.qd - twist).max() <= tolerance, name


@laws
@given(trees(), st.data())
def test_the_bias_acceleration_is_the_derivative_of_the_twist_at_constant_joint_speeds(
    tree: Tree, data: st.DataObject
) -> None:
    axes = data.draw(st.sampled_from(("world", "body", *tree.frames)))
    bias_acceleration = tree.robot.bias_acceleration(tree.q, tree.qd, tree.frames, axes=axes)
    after = tree.robot.jacobian(tree.q + H * tree.qd, tree.frames, axes=axes) @ tree.qd
    before = tree.robot.jacobian(tree.q - H * tree.qd, tree.frames, axes=axes) @ tree.qd
    tolerance = difference_tolerance(tree, tree.qd, order=2)
    assert abs(bias_acceleration - (after - before) / (2 * H)).max() <= tolerance


@laws
@given(trees())
def test_the_bias_acceleration_is_quadratic_in_the_speeds(tree: Tree) -> None:
    bias_acceleration = tree.robot.bias_acceleration(tree.q, tree.qd, tree.frames)
    assert (tree.robot.bias_acceleration(tree.q, -tree.qd, tree.frames) == bias_acceleration).all()
    assert (
        tree.robot.bias_acceleration(tree.q, 2 * tree.qd, tree.frames) == 4 * bias_acceleration
    ).all()
    assert not tree.robot.bias_acceleration(tree.q, 0 * tree.qd, tree.frames).any()


@laws
@given(trees(), st.data())
def test_jacobians_in_other_axes_differ_only_by_a_rotation(tree: Tree, data: st.DataObject) -> None:
    frame = data.draw(st.sampled_from(tree.frames))
    axes = data.draw(st.sampled_from(("body", *tree.frames)))
    R = tree.robot.fk(tree.q, frame if axes == "body" else axes)[:3, :3]
    J = tree.robot.jacobian(tree.q, frame)
    turned = tree.robot.jacobian(tree.q, frame, axes=axes)
    assert abs(turned - in_axes(R, J)).max() <= tree.rounding * max(1.0, abs(J).max())


@laws
@given(trees(), st.data())
def test_results_for_a_frame_do_not_depend_on_other_requested_frames(
    tree: Tree, data: st.DataObject
) -> None:
    # Because the kernel's chain depends on the requested frames, results may differ by rounding.
    robot, q = tree.robot, tree.q
    frames = data.draw(st.lists(st.sampled_from(tree.frames), min_size=1, max_size=4))
    T, J = robot.fk_jacobian(q, frames)
    bias_acceleration = robot.bias_acceleration(q, tree.qd, frames)
    size = tree.rounding * max(1.0, abs(J).max())
    for k, frame in enumerate(frames):
        assert abs(T[k] - robot.fk(q, frame)).max() <= tree.rounding
        assert abs(J[k] - robot.jacobian(q, frame)).max() <= size
        assert abs(
            bias_acceleration[k] - robot.bias_acceleration(q, tree.qd, frame)
        ).max() <= size * tree.speed(tree.qd)
