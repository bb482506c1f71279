"""Twists, bias accelerations and bias jerks in all coordinates agree with exact derivatives.

The oracle (tests/support/jets.py) differentiates the product of exponentials by Leibniz' rule.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import jets
import supple
from cases import each
from samples import random_tree
from supple.describe import Description, Mimic

Array = np.ndarray
AXES = ("world", "body", "spatial", "link3")


def with_screws(seed: int) -> Description:
    """Return a random tree in which some joints are screws and one mimics another."""
    rng = np.random.default_rng(seed)
    tree = random_tree(seed)
    joints = []
    for joint in tree.joints:
        if joint.kind in ("revolute", "continuous") and rng.random() < 0.5:
            joint = replace(joint, kind="screw", pitch=float(rng.uniform(-0.3, 0.3)))
        joints.append(joint)
    moving = [i for i, joint in enumerate(joints) if joint.moves]
    if len(moving) > 3:
        follower = moving[-1]
        mimic = Mimic(joints[moving[0]].name, -1.5, 0.2)
        joints[follower] = replace(joints[follower], mimic=mimic)
    return Description("tree", tuple(joints))


@pytest.fixture(params=range(8))
def case(request: pytest.FixtureRequest) -> tuple[supple.Robot, Array, Array, Array]:
    """Return a robot and random q, q̇ and q̈ (n,)."""
    rng = np.random.default_rng(100 + request.param)
    robot = supple.Robot(with_screws(request.param))
    return robot, *rng.normal(size=(3, robot.dof))


def test_twists_accelerations_and_jerks_are_exact_derivatives(case: tuple) -> None:
    robot, q, qd, qdd = case
    T = jets.poses(robot.description, q, qd, qdd)
    for frame, axes in itertools.product(robot.frames[1:], AXES):
        kind = axes if axes in ("world", "body", "spatial") else "frame"
        twist, acceleration, jerk = jets.twist(T[frame], kind, T.get(axes))
        size = max(1.0, *(abs(x).max() for x in (twist, acceleration, jerk)))
        J = robot.jacobian(q, frame, axes=axes)
        np.testing.assert_allclose(J @ qd, twist, atol=1e-12 * size)
        bias = robot.bias_acceleration(q, qd, frame, axes=axes)
        np.testing.assert_allclose(J @ qdd + bias, acceleration, atol=1e-12 * size)
        bias = robot.bias_jerk(q, qd, qdd, frame, axes=axes)
        np.testing.assert_allclose(bias, jerk, atol=1e-11 * size)


@each("axes", AXES)
def test_the_bias_jerk_is_the_derivative_of_the_acceleration_at_a_constant_joint_acceleration(
    case: tuple, axes: str
) -> None:
    # The acceleration along q(t) with q⃛ = 0 is differentiated by central differences.
    robot, q, qd, qdd = case
    frame, h = robot.frames[-1], 1e-5

    def acceleration(t: float) -> Array:
        at, speed = q + qd * t + qdd * t**2 / 2, qd + qdd * t
        J = robot.jacobian(at, frame, axes=axes)
        return J @ qdd + robot.bias_acceleration(at, speed, frame, axes=axes)

    difference = (acceleration(h) - acceleration(-h)) / (2 * h)
    bias = robot.bias_jerk(q, qd, qdd, frame, axes=axes)
    np.testing.assert_allclose(bias, difference, atol=1e-7 * max(1.0, abs(bias).max()))


def test_bias_jerks_of_a_batch_are_those_of_its_rows(case: tuple) -> None:
    robot, *_ = case
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.normal(size=(3, 5, 7, robot.dof))
    frames = list(robot.frames[1:3])
    found = robot.bias_jerk(q, qd, qdd, frames, axes="spatial")
    assert found.shape == (5, 7, 2, 6)
    for i in np.ndindex(5, 7):
        one = robot.bias_jerk(q[i], qd[i], qdd[i], frames, axes="spatial")
        np.testing.assert_allclose(found[i], one, rtol=1e-13, atol=1e-13 * abs(one).max())
    np.testing.assert_array_equal(
        robot.bias_jerk(q, qd[0, 0], 0.0 * qdd[0, 0], frames),
        robot.bias_jerk(q, np.broadcast_to(qd[0, 0], q.shape), np.zeros_like(q), frames),
    )
    single = robot.bias_jerk(*(x.astype(np.float32) for x in (q, qd, qdd)), frames)
    assert single.dtype == np.float32
    exact = robot.bias_jerk(q, qd, qdd, frames)
    assert abs(single - exact).max() < 1e-4 * max(1.0, abs(exact).max())


def test_spatial_twists_are_body_twists_transformed_to_the_origin(case: tuple) -> None:
    robot, q, *_ = case
    for frame in robot.frames[1:]:
        T, J = robot.fk_jacobian(q, frame, axes="body")
        spatial = robot.jacobian(q, frame, axes="spatial")
        np.testing.assert_allclose(spatial, supple.poses.adjoint(T) @ J, atol=1e-12)
        # All frames of a rigid body have the same spatial twist.
        moved = robot.with_frame("other", frame, supple.pose([0.3, -0.2, 0.5], rpy=[1, 2, 3]))
        np.testing.assert_allclose(moved.jacobian(q, "other", axes="spatial"), spatial, atol=1e-12)


def test_accelerations_that_are_not_finite_are_refused() -> None:
    robot = supple.load("planar3")
    with pytest.raises(supple.errors.InputError, match="qdd must be finite"):
        robot.bias_jerk([0, 0, 0], [0, 0, 0], [0, np.nan, 0])
    with pytest.raises(supple.errors.InputError, match="qdd"):
        robot.bias_jerk([0, 0, 0], [0, 0, 0], [0, 0])
    with pytest.raises(supple.errors.InputError, match=r"qdd must have the shape of qd, \(3,\)"):
        robot.bias_jerk([0, 0, 0], [0, 0, 0], np.zeros((2, 3)))
