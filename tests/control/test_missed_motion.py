"""`Trajectory.missed`: the part of each task's command that the steps did not perform."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supple as sp

READY = np.array([0.1, -0.5, 0.2, -2.0, 0.1, 1.7, 0.8])


def followed(order: int, step: object = None) -> tuple[sp.Trajectory, np.ndarray]:
    """Return a motion with two tasks, and `missed` of each step of a Servo that repeats it."""
    robot = sp.load("panda")
    tip = robot.tips[0]
    tasks = [sp.PositionTask(tip, weight=3.0), sp.PostureTask(weight=0.05)]
    target = robot.fk(READY, tip)[:3, 3] + [0.1, 0.1, 0]
    given = [[target, READY + 0.3]] * 31
    motion = sp.simulate(robot, READY, target=given, tasks=tasks, dt=0.01, order=order, step=step)
    servo = sp.Servo(robot, tasks, dt=0.01, order=order, step=step)
    q, missed = READY, []
    for k in range(30):
        q = servo(q, target=given[k + 1])
        missed.append(servo.missed)
        np.testing.assert_allclose(servo.missed, numpy_missed(servo, order), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(motion.q[-1], q, atol=1e-9)
    return motion, np.array(missed)


def numpy_missed(servo: sp.Servo, order: int) -> np.ndarray:
    lin = servo.linearization
    left = lin.e - lin.J @ (servo.qd if order == 1 else servo._performed)
    return np.array([np.linalg.norm(left[:3]), np.linalg.norm(left[3:])])


@pytest.mark.parametrize("order", [1, 2])
def test_a_motion_has_the_missed_errors_of_each_servo_step(order: int) -> None:
    motion, missed = followed(order)
    assert motion.missed.shape == motion.commanded.shape == (30, 2)
    assert motion.tasks == (f"PositionTask of {motion.robot.tips[0]!r}", "PostureTask")
    np.testing.assert_allclose(motion.missed, missed, rtol=1e-6, atol=1e-9)
    assert any("PostureTask misses up to" in each for each in motion.reasons)
    assert all(each in str(motion) for each in motion.reasons)


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_files_and_joined_motions_keep_the_missed_parts(tmp_path: Path, suffix: str) -> None:
    motion, _ = followed(1)
    again = sp.Trajectory.load(motion.save(tmp_path / f"motion{suffix}"))
    np.testing.assert_array_equal(again.missed, motion.missed)
    assert again.tasks == motion.tasks
    assert again.reasons == motion.reasons
    back = sp.simulate(
        motion.robot,
        motion.q[-1],
        velocity=np.zeros(3),
        tasks=sp.PositionTask(),
        dt=0.01,
        duration=0.1,
    )
    assert back.missed.shape == (10, 1)
    twice = motion.resampled(0.01)
    assert twice.missed.shape == (len(twice), 2)


def test_the_missed_part_of_an_exactly_followed_path_is_zero() -> None:
    robot = sp.load("ur5e")
    motion = sp.paths.JointPath(robot, robot.random(2, seed=1)).timed(dt=0.01)
    assert motion.missed.shape == (len(motion), 1)
    assert not motion.missed.any()
    assert motion.commanded.any()
    assert motion.reasons == ()
