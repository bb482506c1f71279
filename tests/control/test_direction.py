"""Modes "scale" and "halt" keep the direction of the command while all limits hold."""

from __future__ import annotations

import numpy as np
import pytest

from loops import robot
from supple import Limits, PoseTask, Robot, Servo, StepStatus, load

DIRECTION = 1e-9


def off_direction(servo: Servo, command: np.ndarray) -> float:
    """Return the part of J q̇ perpendicular to a command, as a fraction of ‖J q̇‖."""
    moved = servo._J @ servo.qd
    size = float(np.linalg.norm(moved))
    if size == 0:
        return 0.0
    unit = command / np.linalg.norm(command)
    return float(np.linalg.norm(moved - (moved @ unit) * unit) / size)


def limits_of(arm: Robot, rng: np.random.Generator, jerk: bool) -> Limits:
    speed = np.minimum(arm.max_speed, 3.0)
    acceleration = speed * rng.uniform(2, 30)
    return Limits.for_robot(
        arm,
        max_speed=speed,
        max_acceleration=acceleration,
        max_jerk=acceleration * rng.uniform(10, 60) if jerk else None,
        mode="scale",
    )


@pytest.mark.parametrize("jerk", [False, True])
@pytest.mark.parametrize("name", ["ur5e", "panda", "puma560"])
def test_in_mode_scale_every_step_is_along_the_command_or_the_command_before_it(
    name: str, jerk: bool
) -> None:
    """Commands jump; the tool first stops along the last command that it followed."""
    rng = np.random.default_rng(len(name))
    arm = load(name)
    for _ in range(4):
        limits = limits_of(arm, rng, jerk)
        servo = Servo(arm, dt=0.004, limits=limits)
        low, high = np.maximum(arm.lower, -2.5), np.minimum(arm.upper, 2.5)
        q, before = rng.uniform(low, high), np.zeros(arm.dof)
        executed, change = None, np.zeros(arm.dof)
        for k in range(400):
            if k % 80 == 0:
                command = rng.normal(size=6) * rng.choice([0.0, 0.1, 0.5])
            q = servo(q, command)
            assert StepStatus.DIRECTION_LOST not in servo.status
            if servo.qd.any():
                along = np.linalg.norm(command) > 0 and off_direction(servo, command) <= DIRECTION
                executed = command.copy() if along else executed
                assert executed is not None
                assert off_direction(servo, executed) <= DIRECTION
                assert servo._J @ servo.qd @ executed >= 0
            step = servo.qd - before
            allowed = limits.max_jerk * 0.004**2 * (1 + 1e-9) + 1e-14
            assert (np.abs(step - change) <= allowed).all()
            assert (np.abs(step) <= limits.max_acceleration * 0.004 * (1 + 1e-9)).all()
            assert (np.abs(servo.qd) <= limits.max_speed * (1 + 1e-12)).all()
            assert (arm.lower <= q).all()
            assert (q <= arm.upper).all()
            before, change = servo.qd, step


def test_a_command_past_the_reach_stops_the_tool_without_sideways_motion() -> None:
    arm = load("ur5e")
    servo = Servo(arm, dt=0.005, limits=Limits.for_robot(arm, max_acceleration=5.0, mode="scale"))
    q = np.array([0.3, -1.0, 1.2, -1.6, -1.5, 0.4])
    start = arm.fk(q)
    command = np.array([0.3, 0, 0, 0, 0, 0])
    for _ in range(2000):
        q = servo(q, command)
    T = arm.fk(q)
    assert T[0, 3] > start[0, 3] + 0.05
    # The velocity is along the command; the tolerance is the integration error of 5 ms steps.
    assert np.abs(T[1:3, 3] - start[1:3, 3]).max() < 5e-3
    assert np.abs(T[:3, :3] - start[:3, :3]).max() < 5e-3
    assert np.abs(servo.qd).max() < 0.01


def test_the_command_is_performed_in_full_where_limits_allow_it() -> None:
    arm = load("panda")
    servo = Servo(arm, dt=0.005, limits=Limits.for_robot(arm, max_acceleration=20.0, mode="scale"))
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    command = np.array([0.1, 0.05, 0, 0, 0, 0.1])
    for _ in range(60):
        q = servo(q, command)
    np.testing.assert_allclose(servo._J @ servo.qd, command, atol=1e-12)


def test_in_mode_halt_an_arm_stops_before_a_singularity_and_can_leave_it() -> None:
    arm = load("ur5e")
    limits = Limits.for_robot(arm, max_acceleration=10.0, mode="halt")
    servo = Servo(arm, dt=0.005, limits=limits)
    q = np.array([0.3, -1.0, 1.2, -1.6, -1.5, 0.4])
    command, halting = np.array([0.2, 0, 0, 0, 0, 0]), False
    for _ in range(1700):
        q = servo(q, command)
        halting = halting or StepStatus.HALTING in servo.status
    sigma = np.linalg.svd(servo._J, compute_uv=False)
    assert halting
    assert np.abs(servo.qd).max() < 1e-2
    assert 29.9 < sigma[0] / sigma[-1] <= 30
    for _ in range(400):
        q = servo(q, -command)
    np.testing.assert_allclose(servo._J @ servo.qd, -command, atol=1e-9)


def test_in_mode_scale_a_planar_arm_keeps_the_direction_of_the_command() -> None:
    arm = robot("planar2")
    limits = Limits.for_robot(arm, max_acceleration=3.0, max_speed=1.0, mode="scale")
    servo = Servo(arm, PoseTask(rows=("x", "y")), dt=0.01, limits=limits)
    q, command = np.array([0.3, 0.9]), np.array([0.1, 0.2, 0, 0, 0, 0])
    for _ in range(200):
        q = servo(q, command)
        assert off_direction(servo, command[:2]) <= DIRECTION
