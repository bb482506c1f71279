"""Alternate tasks, with the Jacobian at the target's position, in a Servo and in batches."""

from __future__ import annotations

import numpy as np

from loops import robot, somewhere
from supple import (
    DLS,
    Limits,
    PoseTask,
    PositionTask,
    Servo,
    damping,
    simulate,
)
from supple.steps import (
    Pseudoinverse,
)

DT = 0.01


def test_a_servo_with_an_alternate_task_uses_the_alternate_jacobian() -> None:
    """A Servo, `simulate` and a batch all give q̇ = J_alt⁺ gain (t - s)."""
    arm, task = robot("panda"), PositionTask(alternate=True)
    q, target = somewhere("panda", 1), np.array([0.9, 0.6, 0.8])
    poses, J = arm.fk_jacobian(q)
    e = target - poses[:3, 3]
    at_target = J[:3] + np.cross(J[3:], e[:, None], axis=0)
    expected = np.linalg.pinv(at_target) @ (20 * e)
    free = Limits.none(arm)
    servo = Servo(arm, task, dt=DT, step=Pseudoinverse(), limits=free)
    servo(q, target=target)
    np.testing.assert_allclose(servo.qd, expected, rtol=0, atol=1e-10)
    many = simulate(arm, q, tasks=task, target=lambda t: target, dt=DT, duration=DT,
                 step=Pseudoinverse(), limits=free, feedforward=False)  # fmt: skip
    np.testing.assert_allclose(many.qd[0], expected, rtol=0, atol=1e-10)
    # The reported velocity of the frame is that of the ordinary J.
    np.testing.assert_allclose(many.velocity[0], J[:3] @ expected, rtol=0, atol=1e-10)
    ordinary = Servo(arm, PositionTask(), dt=DT, step=Pseudoinverse(), limits=free)
    ordinary(q, np.array([0.1, 0.2, 0.3]))
    servo(q, np.array([0.1, 0.2, 0.3]))  # no target: the ordinary J
    np.testing.assert_array_equal(servo.qd, ordinary.qd)


def test_without_targets_alternate_tasks_equal_ordinary_ones_in_a_batch() -> None:
    """Results are equal bit for bit, with and without limits, and equal to a Servo's first step."""
    arm = robot("panda")
    q = np.stack([somewhere("panda", k) for k in range(5)])
    v = np.random.default_rng(4).normal(size=(5, 6)) * 0.1
    limits = Limits.for_robot(arm)
    for step in (DLS(damping.Constant(0.01)), Pseudoinverse()):
        for more in ({}, {"limits": limits, "dt": DT, "qd": np.zeros((5, 7))}):
            found = [
                step.velocities(arm, q, v, PoseTask(alternate=kind), explain=True, **more)
                for kind in (True, False)
            ]
            np.testing.assert_array_equal(found[0].qd, found[1].qd)
            np.testing.assert_array_equal(found[0].lambda2, found[1].lambda2)
            plain = step.velocities(arm, q, v, PoseTask(alternate=True), **more)
            np.testing.assert_array_equal(plain, found[0].qd)
        servo = Servo(arm, PoseTask(alternate=True), dt=DT, step=step, limits=Limits.none(arm))
        servo(q[2], v[2])
        free = step.velocities(arm, q, v, PoseTask(alternate=True))
        np.testing.assert_allclose(free[2], servo.qd, rtol=0, atol=1e-12)
