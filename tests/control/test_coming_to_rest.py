"""Joints move to a target that rests, or as near as they can, and rest without oscillation.

Robots, starts, targets, periods and limits are drawn from a seed. `SUPPLE_MOTIONS` draws more.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from loops import robot as robot_of
from supple import Limits, Robot, Servo, StepStatus

CASES = int(os.environ.get("SUPPLE_MOTIONS", "60"))
SEED = int(os.environ.get("SUPPLE_SEED", "11"))
ROBOTS = ("panda", "ur5e", "puma560", "iiwa14")
SECONDS, WATCHED = 12.0, 40  # duration [s], and number of steps checked after it
STILL = 0.005  # speed that counts as rest [rad/s]


def drawn(rng: np.random.Generator) -> tuple[Robot, Servo, np.ndarray, np.ndarray]:
    """Return a robot, a Servo, and the lower and upper bounds of its start configurations."""
    robot = robot_of(str(rng.choice(ROBOTS)))
    speed = np.where(np.isfinite(robot.max_speed), robot.max_speed, 2.0)
    limits = Limits(robot.lower, robot.upper, speed, speed * rng.choice([5.0, 10.0, 20.0]))
    servo = Servo(robot, dt=float(rng.choice([0.01, 0.02, 0.05])), limits=limits)
    return robot, servo, np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)


def driven(servo: Servo, q: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last configuration of a motion, and the velocities of its last steps."""
    for _ in range(int(SECONDS / servo.dt)):
        q = servo(q, target=target)
    velocities = []
    for _ in range(WATCHED):
        q = servo(q, target=target)
        velocities.append(servo.qd.copy())
    return q, np.array(velocities)


@pytest.mark.parametrize("part", range(2))
def test_a_servo_reaches_a_nearby_pose(part: int) -> None:
    """A pose at joint angles that differ by up to 0.3 rad is reached to 0.1 mm and 0.1 mrad.

    If the arm is exactly at its target, the status is neither DAMPED nor OUT_OF_REACH.
    """
    rng, missed, exact = np.random.default_rng([SEED, part]), [], 0
    for case in range(CASES // 2):
        robot, servo, lower, upper = drawn(rng)
        q = rng.uniform(lower, upper)
        target = robot.fk(np.clip(q + rng.uniform(-0.3, 0.3, robot.dof), lower, upper))
        q, _ = driven(servo, q, target)
        off = np.abs(robot.fk(q) - target).max()
        if off > 1e-4:
            missed.append(case)
        if off < 1e-14:
            exact += 1
            assert not servo.status & (StepStatus.DAMPED | StepStatus.OUT_OF_REACH), case
    assert len(missed) <= 0.005 * CASES, missed
    assert exact > CASES / 10


@pytest.mark.parametrize("part", range(2))
def test_joints_do_not_oscillate_whether_or_not_the_target_is_reached(part: int) -> None:
    """From any start, the joints do not oscillate in the last steps of a motion."""
    rng, turning = np.random.default_rng([SEED, 2 + part]), []
    for case in range(CASES):
        robot, servo, lower, upper = drawn(rng)
        _, velocities = driven(
            servo, rng.uniform(lower, upper), robot.fk(rng.uniform(lower, upper))
        )
        turns = (velocities[1:] * velocities[:-1]).sum(axis=1) < 0
        if np.abs(velocities).max() > STILL and turns.sum() > 2:
            turning.append(case)
    assert len(turning) <= 0.005 * CASES, turning
