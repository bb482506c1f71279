"""Screw joints: kinematics, which are compared with Pinocchio, limits, solve, Servo
and freezing.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

import slow_fk
import supple
from cases import each
from solving import solve
from supple.describe import Description, Joint, Mimic
from supple.errors import DescriptionError

Array = np.ndarray
LEAD = 0.02  # [m] per turn
PITCH = LEAD / (2 * np.pi)


def scara() -> supple.Robot:
    """Return a SCARA arm with two links whose last joint is a ball screw about the vertical."""
    table = [(0.3, 0, 0.4, 0), (0.25, 0, 0, 0), (0, 0, -0.1, 0)]
    limits = [(-2.5, 2.5), (-2.6, 2.6), (-40.0, 40.0)]
    return supple.dh(table, kinds="RRH", pitch=PITCH, limits=limits, max_speed=[3, 3, 30])


def random_arm(rng: np.random.Generator, n: int = 5) -> tuple[Description, pin.Model]:
    """Return an arm of screw and other joints, and its model in Pinocchio."""
    joints, model = [], pin.Model()
    for i in range(n):
        kind = ("screw", "continuous", "prismatic")[i % 3]
        origin = supple.pose(rng.normal(size=3), rotation_vector=rng.normal(size=3))
        axis, pitch = rng.normal(size=3), float(rng.uniform(-0.5, 0.5)) * (kind == "screw")
        axis /= np.linalg.norm(axis)
        joints.append(Joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", origin, axis, pitch=pitch))
        made = {
            "screw": lambda a, h: pin.JointModelHelicalUnaligned(a, h),
            "continuous": lambda a, _: pin.JointModelRevoluteUnaligned(a),
            "prismatic": lambda a, _: pin.JointModelPrismaticUnaligned(a),
        }[kind](axis, pitch)
        model.addJoint(i, made, pin.SE3(origin), f"j{i}")
    return Description("screws", tuple(joints)), model


@each("seed", range(5))
def test_kinematics_are_those_of_pinocchio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    described, model = random_arm(rng)
    robot, data = supple.Robot(described), model.createData()
    for q, qd in rng.normal(size=(4, 2, robot.dof)):
        pin.forwardKinematics(model, data, q, qd, 0 * q)
        pin.computeJointJacobians(model, data, q)
        last = robot.dof
        np.testing.assert_allclose(robot.fk(q), data.oMi[last].homogeneous, atol=1e-13)
        for axes, theirs in (
            ("world", pin.LOCAL_WORLD_ALIGNED),
            ("body", pin.LOCAL),
            ("spatial", pin.WORLD),
        ):
            J = pin.getJointJacobian(model, data, last, theirs)
            np.testing.assert_allclose(robot.jacobian(q, axes=axes), J, atol=1e-12)
        for axes, theirs in (("body", pin.LOCAL), ("spatial", pin.WORLD)):
            bias = pin.getAcceleration(model, data, last, theirs).vector
            ours = robot.bias_acceleration(q, qd, axes=axes)
            np.testing.assert_allclose(ours, bias, atol=1e-11)


def test_poses_of_arms_with_screw_joints_are_those_of_the_definition(isa: str) -> None:
    rng = np.random.default_rng(3)
    for seed in range(5):
        described, _ = random_arm(np.random.default_rng(seed), 6)
        robot, q = supple.Robot(described), rng.normal(size=(11, 6))
        T = robot.fk(q)
        for i in range(len(q)):
            np.testing.assert_allclose(T[i], slow_fk.fk(described, q[i])["l6"], atol=1e-13)
        single = robot.fk(q.astype(np.float32))
        assert abs(single - T).max() < 1e-5


def test_one_turn_of_a_screw_joint_advances_by_its_lead() -> None:
    robot = scara()
    before, after = robot.fk([[0.3, 0.4, 0.0], [0.3, 0.4, 2 * np.pi]])
    np.testing.assert_allclose(after[:3, 3] - before[:3, 3], [0, 0, LEAD], atol=1e-15)
    np.testing.assert_allclose(after[:3, :3], before[:3, :3], atol=1e-15)
    np.testing.assert_allclose(robot.jacobian([0.1, 0.2, 3.0])[:, 2], [0, 0, PITCH, 0, 0, 1])
    assert "screw" in robot.summary()
    assert not robot.prismatic.any()


@each("convention", ["standard", "modified"])
def test_a_screw_joint_of_a_dh_table_adds_to_theta_and_d(convention: str) -> None:
    row, q = (0.2, 0.7, 0.3, 0.4), 1.3
    screw = supple.dh([row], kinds=["screw"], pitch=0.05, convention=convention)
    moved = [(row[0], row[1], row[2] + 0.05 * q, row[3] + q)]
    np.testing.assert_allclose(
        screw.fk([q]), supple.dh(moved, convention=convention).fk([0.0]), atol=1e-15
    )


def test_screw_joints_may_mimic_be_frozen_and_get_other_limits() -> None:
    joints = (
        Joint("turn", "continuous", "base", "a"),
        Joint(
            "screw",
            "screw",
            "a",
            "b",
            origin=supple.pose([0.1, 0, 0]),
            axis=np.array([0.0, 1.0, 0.0]),
            mimic=Mimic("turn", -2.0, 0.3),
            pitch=0.1,
        ),
    )
    robot = supple.Robot(Description("r", joints))
    np.testing.assert_allclose(
        robot.fk([0.7]), slow_fk.fk(robot.description, np.array([0.7]))["b"], atol=1e-15
    )
    arm = scara()
    still = arm.freeze({"joint3": 5.0})
    np.testing.assert_allclose(still.fk([0.1, 0.2]), arm.fk([0.1, 0.2, 5.0]), atol=1e-15)
    wider = arm.with_limits(upper={"joint3": 60.0})
    assert wider.upper[2] == 60.0


def test_solve_turns_a_screw_joint_as_often_as_a_distant_height_requires() -> None:
    # The height determines the angle of the screw: a turn by 2π would change the pose.
    robot = scara()
    targets = robot.random(40, seed=0)
    found = solve(robot, robot.fk(targets))
    assert found.success.all()
    np.testing.assert_allclose(found.q[:, 2], targets[:, 2], atol=1e-3)
    np.testing.assert_allclose(robot.fk(found.q), robot.fk(targets), atol=1e-5)


def test_a_servo_follows_a_helix_within_limits() -> None:
    robot = scara()
    own = supple.Limits.for_robot(robot)  # no acceleration limits: full speed at once
    servo, q = supple.Servo(robot, dt=0.01, limits=own), np.array([0.3, 0.8, 0.0])
    start = robot.fk(q)[:3, 3]
    for _ in range(200):
        q = servo(q, [0, 0, PITCH, 0, 0, 1.0])
    np.testing.assert_allclose(robot.fk(q)[:3, 3] - start, [0, 0, PITCH * 2], atol=1e-9)
    np.testing.assert_allclose(q, [0.3, 0.8, 2.0], atol=1e-9)
    near, q = supple.Servo(robot, dt=0.01), np.array([0.3, 0.8, 39.0])
    for _ in range(200):
        q = near(q, [0, 0, PITCH, 0, 0, 1.0])
    assert 39.9 < q[2] <= robot.upper[2]


def test_invalid_pitches_of_screw_joints_are_refused() -> None:
    with pytest.raises(DescriptionError, match="joint 2 is a screw joint"):
        supple.dh([(1, 0, 0, 0)] * 2, kinds="RH")
    with pytest.raises(DescriptionError, match="pitch other than zero"):
        Description("r", (Joint("j", "screw", "a", "b"),))
    with pytest.raises(DescriptionError, match="only a screw joint has a pitch"):
        Description("r", (Joint("j", "revolute", "a", "b", pitch=0.1),))
    with pytest.raises(DescriptionError, match="only a screw joint has a pitch"):
        supple.dh([(1, 0, 0, 0)] * 2, kinds="RH", pitch=[0.1, 0.1])
