"""Joints with several degrees of freedom: ball, planar and floating joints, and moving bases.

MuJoCo has the coordinates of supple: a unit quaternion (w, x, y, z), the linear velocity of a free
joint in world axes and its angular velocity in body axes. Pinocchio has the linear velocity in body
axes, and the scalar of a quaternion last.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import supple as sp
from cases import each
from generated import seeds
from moving_trees import Drawn, moving
from sizes import nightly
from supple.describe import Description, Joint

Array = np.ndarray
EXACT = 2e-12


# ---- random trees, judged by MuJoCo --------------------------------------------------------------


DRAWN = seeds(nightly(200, 20))


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    return [Drawn(seed) for seed in DRAWN]


def test_the_numbers_of_positions_and_velocities_are_those_of_mujoco(drawn: list[Drawn]) -> None:
    for one in drawn:
        assert (one.robot.nq, one.robot.nv) == (one.model.nq, one.model.nv)
        assert len(one.robot.position_names) == one.robot.nq
        assert len(one.robot.joint_names) == one.robot.nv


def test_momentum_and_capture_point_agree_with_mujoco(drawn: list[Drawn]) -> None:
    for one in drawn:
        mujoco.mj_subtreeVel(one.model, one.data)
        mass, center = one.model.body_subtreemass[0], one.data.subtree_com[0]
        speed, spin = one.data.subtree_linvel[0], one.data.subtree_angmom[0]
        found = one.robot.momentum(one.q, one.qd)
        np.testing.assert_allclose(found, [*(mass * speed), *spin], atol=100 * EXACT)
        both = one.robot.momentum(np.stack([one.q] * 2), np.stack([one.qd, 2 * one.qd]))
        np.testing.assert_allclose(both, np.outer((1, 2), found), atol=200 * EXACT)
        ground = center[2] - 0.7
        point = one.robot.capture_point(one.q, one.qd, ground=ground)
        expected = center + speed * (0.7 / 9.81) ** 0.5
        np.testing.assert_allclose(point, [*expected[:2], ground], atol=100 * EXACT)


def test_poses_and_jacobians_agree_with_mujoco(drawn: list[Drawn]) -> None:
    for one in drawn:
        poses, J = one.robot.fk_jacobian(one.q, one.names)
        bias = one.robot.bias_acceleration(one.q, one.qd, one.names)
        for k, name in enumerate(one.names):
            body = one.data.body(name)
            np.testing.assert_allclose(poses[k, :3, 3], body.xpos, atol=EXACT)
            np.testing.assert_allclose(poses[k, :3, :3].ravel(), body.xmat, atol=EXACT)
            np.testing.assert_allclose(J[k], one.rows(mujoco.mj_jac, name), atol=EXACT)
            drift = one.rows(mujoco.mj_jacDot, name) @ one.qd
            np.testing.assert_allclose(bias[k], drift, atol=1e-11)


def test_inertia_matrices_and_centers_of_mass_agree_with_mujoco(drawn: list[Drawn]) -> None:
    for one in drawn:
        M = np.zeros((one.model.nv, one.model.nv))
        mujoco.mj_fullM(one.model, one.data, M)
        np.testing.assert_allclose(one.robot.inertia_matrix(one.q), M, atol=1e-10)
        np.testing.assert_allclose(
            one.robot.center_of_mass(one.q), one.data.subtree_com[0], atol=EXACT
        )


def test_integrals_and_differences_agree_with_mujoco(drawn: list[Drawn]) -> None:
    for one in drawn:
        q, v = one.q.copy(), np.zeros(one.model.nv)
        mujoco.mj_integratePos(one.model, q, one.other, 1.0)
        np.testing.assert_allclose(one.robot.integrate(one.q, one.other), q, atol=EXACT)
        mujoco.mj_differentiatePos(one.model, v, 1.0, one.q, q)
        np.testing.assert_allclose(one.robot.difference(q, one.q), v, atol=EXACT)


def test_bias_jerk_is_the_derivative_of_the_acceleration(drawn: list[Drawn]) -> None:
    h = 1e-4
    for one in drawn:
        robot, q, qd, qdd, names = one.robot, one.q, one.qd, one.other, one.names
        acceleration = []
        for t in (-h, h):
            at = robot.integrate(q, t * qd + t**2 / 2 * qdd)
            bias = robot.bias_acceleration(at, qd + t * qdd, names)
            acceleration.append(robot.jacobian(at, names) @ qdd + bias)
        found = robot.bias_jerk(q, qd, qdd, names)
        expected = (acceleration[1] - acceleration[0]) / (2 * h)
        np.testing.assert_allclose(found, expected, atol=2e-5 * (1 + np.abs(expected).max()))


# ---- robots from files, judged by Pinocchio ------------------------------------------------------

FILES = {
    "panda": ("cmeel.prefix", "share/example-robot-data/robots/panda_description/urdf/panda.urdf"),
    "g1": ("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"),
    "anymal": (
        "cmeel.prefix",
        "share/example-robot-data/robots/anymal_c_simple_description/urdf/anymal.urdf",
    ),
    "romeo": ("cmeel.prefix", "share/example-robot-data/robots/romeo_description/urdf/romeo.urdf"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_floating_base_agrees_with_pinocchio(
    name: str, robot_files: Callable[[str, str], Path]
) -> None:
    path = robot_files(*FILES[name])
    robot = sp.urdf(path).with_base("floating")
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    data = model.createData()
    ours = {one: i for i, one in enumerate(robot.joint_names)}
    rng = np.random.default_rng(len(name))
    for q in robot.random(4, seed=rng):
        qd = rng.normal(size=robot.nv)
        at, R = pin.neutral(model), robot.fk(q, robot.description.joints[0].child)[:3, :3]
        at[:3], at[3:7] = q[:3], q[[4, 5, 6, 3]]
        S = np.zeros((model.nv, robot.nv))  # maps velocities of supple to velocities of Pinocchio
        S[:3, :3], S[3:6, 3:6] = R.T, np.eye(3)
        speed_of_body = np.zeros(model.nv)
        for joint, one in zip(model.joints[2:], list(model.names)[2:], strict=True):
            leader = robot.description.joints[
                [j.name for j in robot.description.joints].index(one)
            ].mimic
            i, scale, offset = (
                (ours[one], 1.0, 0.0)
                if leader is None
                else (ours[leader.joint], leader.multiplier, leader.offset)
            )
            x = scale * q[i + 1] + offset
            at[joint.idx_q : joint.idx_q + joint.nq] = (
                (np.cos(x), np.sin(x)) if joint.nq == 2 else x
            )
            S[joint.idx_v, i] = scale
        # d/dt (Rᵀ v) = -w × Rᵀ v: where q̈ of supple is 0, Pinocchio's coordinates have this
        # acceleration.
        speed_of_body[:3] = -np.cross(qd[3:6], R.T @ qd[:3])
        pin.forwardKinematics(model, data, at, S @ qd, speed_of_body)
        for frame in robot.tips:
            id_of = model.getFrameId(frame, pin.BODY)
            T = pin.updateFramePlacement(model, data, id_of).homogeneous
            J = pin.computeFrameJacobian(model, data, at, id_of, pin.LOCAL_WORLD_ALIGNED) @ S
            drift = pin.getFrameClassicalAcceleration(model, data, id_of, pin.LOCAL_WORLD_ALIGNED)
            np.testing.assert_allclose(robot.fk(q, frame), T, atol=EXACT)
            np.testing.assert_allclose(robot.jacobian(q, frame), J, atol=EXACT)
            np.testing.assert_allclose(
                robot.bias_acceleration(q, qd, frame), drift.vector, atol=1e-10
            )


@each("kind", ["floating", "planar", "spherical"])
def test_a_urdf_file_may_have_joints_with_several_degrees_of_freedom(kind: str) -> None:
    text = f"""<robot name="r"><link name="a"/><link name="b"/><link name="c"/>
      <joint name="j" type="{kind}"><parent link="a"/><child link="b"/>
        <origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="0 0.6 0.8"/>
        <limit lower="-1" upper="1" velocity="3" effort="1"/></joint>
      <joint name="k" type="continuous"><parent link="b"/><child link="c"/>
        <axis xyz="1 0 0"/></joint></robot>"""
    robot = sp.urdf(text)
    assert (robot.nq, robot.nv) == {"floating": (8, 7), "planar": (4, 4), "spherical": (5, 4)}[kind]
    assert np.isinf(robot.upper).all()
    assert np.isinf(robot.max_speed).all()
    welded = sp.urdf(text, fixed=["j"])
    assert welded.nq == 1
    np.testing.assert_allclose(robot.fk(robot.neutral(), "b"), welded.fk([0.0], "b"), atol=EXACT)
    if kind == "planar":
        moved = robot.fk([0.3, -0.2, 0.5, 0.0], "b")
        start = robot.fk(robot.neutral(), "b")
        inside = np.linalg.inv(start) @ moved
        assert inside[:3, 3] @ (0, 0.6, 0.8) == pytest.approx(0, abs=1e-15)
        assert np.hypot(0.3, 0.2) == pytest.approx(np.linalg.norm(inside[:3, 3]))
        np.testing.assert_allclose(inside[:3, :3] @ (0, 0.6, 0.8), (0, 0.6, 0.8), atol=1e-15)


# ---- laws ----------------------------------------------------------------------------------------


def test_configurations_of_moving_bases_are_integrated_along_their_differences() -> None:
    for seed in seeds(40):
        robot, rng = moving(seed), np.random.default_rng(seed)
        q0, q1 = robot.random((3, 2), seed=rng), robot.random((3, 2), seed=rng)
        v = robot.difference(q1, q0)
        assert v.shape == (3, 2, robot.nv)
        there = robot.integrate(q0, v)
        assert np.abs(robot.difference(there, q1)).max() <= 1e-14 * (1 + np.abs(q1).max())
        np.testing.assert_array_equal(robot.difference(q0, q0), 0 * v)
        half = robot.integrate(q0, v / 2)
        np.testing.assert_allclose(
            robot.difference(q1, half), v / 2, atol=1e-13 * (1 + np.abs(v).max())
        )
        for ball in robot._balls:
            assert np.linalg.norm(v[..., ball : ball + 3], axis=-1).max() <= np.pi + 1e-12


def test_the_length_and_the_sign_of_a_quaternion_change_no_result() -> None:
    robot = sp.load("panda").with_base("floating")
    for q in robot.random(20, seed=3):
        other = q.copy()
        other[3:7] *= -2.5
        np.testing.assert_allclose(robot.fk(other), robot.fk(q), atol=EXACT)
        np.testing.assert_allclose(robot.jacobian(other), robot.jacobian(q), atol=EXACT)
        np.testing.assert_allclose(robot.difference(other, q), 0, atol=EXACT)


def test_a_quaternion_of_zero_length_is_refused() -> None:
    robot = sp.load("panda").with_base("floating")
    q = robot.neutral()
    q[3] = 0
    with pytest.raises(sp.errors.InputError, match="quaternion"):
        robot.fk(q)


def test_random_orientations_are_uniform() -> None:
    robot = sp.load("panda").with_base("floating")
    q = robot.random(20_000, seed=0)
    R = robot.fk(q, "panda_link0" if "panda_link0" in robot.frames else robot.frames[1])[:, :3, :3]
    assert np.abs(R.mean(axis=0)).max() < 0.02
    angle = np.arccos(np.clip((np.trace(R, axis1=1, axis2=2) - 1) / 2, -1, 1))
    # If rotations are uniform, the density of their angle θ is (1 - cos θ)/π.
    for most in (0.5, 1.0, 2.0, 3.0):
        assert (angle < most).mean() == pytest.approx((most - np.sin(most)) / np.pi, abs=0.01)


def test_a_robot_with_a_frozen_base_has_its_base_at_the_given_pose() -> None:
    robot = sp.load("ur5e").with_base("floating")
    q = robot.random(seed=5)
    still = robot.freeze({"base": q[:7]})
    assert still.nq == 6
    np.testing.assert_allclose(still.fk(q[7:]), robot.fk(q), atol=EXACT)
    expected = q.copy()
    np.testing.assert_allclose(still.full_q(q[7:]), expected, atol=EXACT)
    np.testing.assert_allclose(still.reduced_q(q), q[7:], atol=0)
    planar = sp.load("ur5e").with_base("planar")
    q = planar.random(seed=6)
    np.testing.assert_allclose(planar.freeze({"base": q[:3]}).fk(q[3:]), planar.fk(q), atol=EXACT)
    with pytest.raises(sp.errors.InputError, match="base"):
        robot.freeze({"base": [0.0, 0.0]})


def test_robots_with_moving_bases_take_float32_input_and_can_be_pickled() -> None:
    robot = sp.load("ur5e").with_base("floating")
    q = robot.random(50, seed=1)
    single = robot.fk(q.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, robot.fk(q), atol=1e-5)
    copy = pickle.loads(pickle.dumps(robot))
    np.testing.assert_array_equal(copy.fk(q), robot.fk(q))


def test_an_unknown_kind_of_base_is_refused() -> None:
    with pytest.raises(sp.errors.InputError, match="floating"):
        sp.load("ur5e").with_base("free")


@each("kind", ["ball", "planar", "floating"])
def test_joints_with_several_degrees_of_freedom_have_no_limits_and_mimic_none(kind: str) -> None:
    with pytest.raises(sp.errors.DescriptionError, match="limits"):
        Description("r", (Joint("j", kind, "a", "b", lower=-1.0, upper=1.0),))
    with pytest.raises(sp.errors.DescriptionError, match="several degrees of freedom"):
        Description(
            "r",
            (
                Joint("j", kind, "a", "b"),
                Joint("k", "revolute", "b", "c", mimic=sp.describe.Mimic("j")),
            ),
        )
