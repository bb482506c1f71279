"""Joint torques of a wrench (Wampler 1986, eq. 24) obey virtual work in all coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from cases import each
from supple.errors import InputError


@each("axes", ["world", "body", "spatial", "panda_link3"])
def test_a_wrench_has_the_same_power_at_the_joints_and_at_the_frame(axes: str) -> None:
    robot, rng = supple.load("panda"), np.random.default_rng(2)
    q, qd, f = robot.random(20, seed=rng), rng.normal(size=(20, 7)), rng.normal(size=(20, 6))
    torques = robot.joint_torques(q, f, axes=axes)
    twist = np.einsum("kij,kj->ki", robot.jacobian(q, axes=axes), qd)
    np.testing.assert_allclose((torques * qd).sum(axis=1), (f * twist).sum(axis=1), atol=1e-12)


def test_the_same_wrench_in_other_coordinates_has_the_same_torques() -> None:
    robot, rng = supple.load("puma560"), np.random.default_rng(3)
    q, f = robot.random(seed=rng), rng.normal(size=6)
    T = robot.fk(q)
    body = np.concatenate([T[:3, :3].T @ f[:3], T[:3, :3].T @ f[3:]])
    spatial = np.concatenate([f[:3], f[3:] + np.cross(T[:3, 3], f[:3])])
    expected = robot.joint_torques(q, f)
    np.testing.assert_allclose(robot.joint_torques(q, body, axes="body"), expected, atol=1e-13)
    np.testing.assert_allclose(
        robot.joint_torques(q, spatial, axes="spatial"), expected, atol=1e-13
    )
    np.testing.assert_allclose(supple.poses.adjoint(T).T @ spatial, body, atol=1e-13)


def test_torques_of_a_force_on_a_planar_arm_are_the_force_times_its_lever_arms() -> None:
    # The links, of 1, 0.5 and 0.5 m, lie along x; a force of 2 N along y acts at their end.
    arm = supple.load("planar3")
    np.testing.assert_allclose(arm.joint_torques(np.zeros(3), [0, 2, 0, 0, 0, 0]), [4, 2, 1])
    np.testing.assert_allclose(arm.joint_torques(np.zeros(3), [0, 0, 0, 0, 0, 5]), [5, 5, 5])


def test_a_prismatic_joint_bears_the_force_along_its_axis() -> None:
    robot = supple.load("stanford")
    q = robot.random(seed=0)
    z = robot.fk(q, "link3")[:3, 2]
    torques = robot.joint_torques(q, [*(3.0 * z), 0, 0, 0])
    assert torques[2] == pytest.approx(3.0, abs=1e-12)


def test_torques_of_several_frames_add_up_and_broadcast() -> None:
    robot, rng = supple.load("double_y"), np.random.default_rng(5)
    q, f = robot.random((2, 3), seed=rng), rng.normal(size=(4, 6))
    found = robot.joint_torques(q, f)
    each = [robot.joint_torques(q, f[k], tip) for k, tip in enumerate(robot.tips)]
    assert found.shape == (2, 3, 25)
    np.testing.assert_allclose(found, sum(each), atol=1e-13)
    single = robot.joint_torques(q.astype(np.float32), f)
    assert single.dtype == np.float32


def test_wrenches_of_other_shapes_are_refused() -> None:
    robot = supple.load("panda")
    with pytest.raises(InputError, match=r"wrench must be finite real numbers of shape \(..., 6\)"):
        robot.joint_torques(np.zeros(7), np.zeros(3))
    with pytest.raises(InputError, match=r"leading axes of q, \(2,\)"):
        robot.joint_torques(np.zeros((2, 7)), np.zeros((3, 6)))
