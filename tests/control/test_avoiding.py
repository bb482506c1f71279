"""The default Servo of a redundant arm avoids singularities by self-motion."""

from __future__ import annotations

import numpy as np
import pytest

from singularities.passages import passage
from supple import Limits, PositionTask, Servo, linearize, load, steps

DT = 0.002


def near_singularities(servo: Servo, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of a configuration with one small singular value and a random command."""
    rng, found, kappa = np.random.default_rng(7), [], servo._curvature / servo.dt
    while len(found) < count:
        q = servo.robot.random(200, seed=rng) * rng.choice([0.2, 1.0], (200, 1))
        sigma = np.linalg.svd(linearize(servo.robot, servo.tasks, q).J)[1]
        small = (0.05 * kappa < sigma[:, -1]) & (sigma[:, -1] < 0.2 * kappa)
        for one in q[small & (sigma[:, -2] > 3 * sigma[:, -1])]:
            found.append((one, rng.normal(size=len(servo._layout.rows))))
    return found[:count]


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_an_arm_stays_away_from_an_avoidable_singularity(name: str) -> None:
    """At the shoulder singularity, σ is over 4 times that without self-motion; errors < 0.05 mm."""
    here = passage(name, "shoulder")
    robot, least = here.robot, []
    for step in (None, steps.Pseudoinverse()):
        servo = Servo(robot, dt=here.dt, step=step)
        way = [here.q0]
        for k, twist in enumerate(here.twists):
            way.append(servo(way[-1], twist, here.poses[k]))
        q = np.array(way[1:])
        least.append(np.linalg.svd(robot.jacobian(q), compute_uv=False)[:, -1].min())
        if step is None:
            off = robot.fk(q)[:, :3, 3] - here.poses[1 : len(way), :3, 3]
            assert np.linalg.norm(off, axis=1).max() < 5e-5
    assert least[0] > 4 * least[1]


def test_an_arm_at_its_target_does_not_start_self_motion() -> None:
    robot = load("panda")
    servo = Servo(robot, dt=0.001)
    q = passage("panda", "shoulder").q0
    assert np.array_equal(servo(q, np.zeros(6)), q)
    for _ in range(200):
        q = servo(q, target=robot.fk(passage("panda", "shoulder").q0))
    np.testing.assert_allclose(q, passage("panda", "shoulder").q0, atol=1e-9)


def test_self_motion_goes_on_while_a_joint_is_at_a_limit() -> None:
    """With a joint at its speed limit, q̇ is the nearest to the step before limits with this J q̇."""
    robot, task = load("planar4"), PositionTask(rows=("x", "y"))
    none = Limits.none(robot)
    free = Servo(robot, task, dt=DT, limits=none)
    compared = 0
    for q, e in near_singularities(free, 60):
        J = np.asarray(linearize(robot, [task], q).J)
        free.reset()
        free(q, np.append(e, 0.0))
        expected = free.qd
        if np.allclose(expected, np.linalg.pinv(J) @ e, atol=1e-3):
            continue
        j = int(np.abs(expected).argmax())
        speed = np.full(4, 1e3)
        speed[j] = 0.95 * abs(expected[j])
        limits = Limits(none.lower, none.upper, speed, none.max_acceleration)
        servo = Servo(robot, task, dt=DT, limits=limits)
        servo(q, np.append(e, 0.0))
        A = np.vstack([J, np.eye(4)[j]])
        b = np.append(J @ expected, np.sign(expected[j]) * speed[j])
        nearest = expected + np.linalg.pinv(A) @ (b - A @ expected)
        np.testing.assert_allclose(servo.qd, nearest, rtol=1e-3, atol=1e-3)
        compared += 1
    assert compared >= 5
