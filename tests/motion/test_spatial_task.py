"""Pose tasks in spatial coordinates: twists of the point of a body at the origin."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from solving import solve
from supple import PoseTask, Servo, linearize
from supple.damping import Constant
from supple.errors import InputError

Array = np.ndarray


def spatial_twists(robot: supple.Robot, q: Array, base: str | None) -> Array:
    """Return Ṫ T⁻¹ as twists (6, n), for the pose T in the base, by central differences."""

    def pose(at: Array) -> Array:
        T = robot.fk(at)
        return T if base is None else np.linalg.inv(robot.fk(at, base)) @ T

    h, inverse, columns = 1e-6, np.linalg.inv(pose(q)), []
    for step in h * np.eye(robot.dof):
        W = (pose(q + step) - pose(q - step)) / (2 * h) @ inverse
        columns.append([*W[:3, 3], W[2, 1], W[0, 2], W[1, 0]])
    return np.array(columns).T


@pytest.mark.parametrize("base", [None, "panda_link3"])
def test_rows_in_spatial_coordinates_are_the_spatial_twist_of_the_frame(base: str | None) -> None:
    robot, rng = supple.load("panda"), np.random.default_rng(1)
    task = PoseTask(axes="spatial", base=base)
    q = robot.random(6, seed=rng)
    target = supple.pose([0.4, 0.2, 0.5], rotation_vector=[0.3, -0.2, 0.5])
    for linear in (linearize(robot, task, q, target), *[task.linearize(robot, q[0], target)]):
        J = linear.J if linear.J.ndim > 2 else linear.J[None]
        for i in range(len(J)):
            np.testing.assert_allclose(J[i], spatial_twists(robot, q[i], base), atol=1e-8)
    if base is None:
        linear = linearize(robot, task, q, target)
        np.testing.assert_allclose(linear.J, robot.jacobian(q, axes="spatial"), atol=1e-14)
        plain = linearize(robot, PoseTask(), q, target)
        to_origin = supple.poses.adjoint(supple.pose(robot.fk(q)[:, :3, 3]))
        expected = np.einsum("kij,kj->ki", to_origin, plain.e)
        np.testing.assert_allclose(linear.e, expected, atol=1e-13)


def test_a_spatial_rotation_command_moves_the_tool_on_a_circle_about_the_origin() -> None:
    robot, q = supple.load("ur5e"), np.array([0.2, -1.2, 1.5, -1.8, -1.4, 0.3])
    servo = Servo(
        robot,
        tasks=PoseTask(axes="spatial"),
        dt=0.002,
        step=supple.DLS(Constant(1e-8)),
        # Without acceleration limits, full speed is reached in the first step.
        limits=supple.Limits.for_robot(robot),
    )
    start, n = robot.fk(q), 250
    for _ in range(n):
        q = servo(q, [0, 0, 0, 0, 0, 0.4])
    turn = supple.pose(rotation_vector=[0, 0, 0.4 * 0.002 * n])
    np.testing.assert_allclose(robot.fk(q), turn @ start, atol=1e-3)


def test_spatial_and_frame_coordinates_give_the_same_step_only_without_damping() -> None:
    robot, rng = supple.load("ur5e"), np.random.default_rng(2)
    q, twist = robot.random(seed=rng), rng.normal(size=6)
    spatial = supple.poses.adjoint(supple.pose(robot.fk(q)[:3, 3])) @ twist
    found = {}
    for lambda2 in (0.0, 0.01):
        step = supple.DLS(Constant(lambda2))
        one = step.velocities(robot, q, twist)
        two = step.velocities(robot, q, spatial, tasks=PoseTask(axes="spatial"))
        found[lambda2] = np.linalg.norm(one - two) / np.linalg.norm(one)
    assert found[0.0] < 1e-10
    assert found[0.01] > 1e-3


def test_tasks_that_cannot_use_spatial_coordinates_are_refused() -> None:
    with pytest.raises(InputError, match="spatial coordinates need position and rotation"):
        supple.PositionTask(axes="spatial")
    robot = supple.load("ur5e")
    with pytest.raises(InputError, match="solve takes no tasks in spatial coordinates"):
        solve(robot, robot.fk(np.ones(6)), tasks=PoseTask(axes="spatial"))
    names = linearize(robot, PoseTask(axes="spatial"), np.ones(6), np.eye(4)).rows
    assert names[0] == "x of tool0 in axes of spatial coordinates"
