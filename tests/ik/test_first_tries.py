"""Typical first calls of a new user work, or raise an error that says what to do."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import supple


def test_a_damping_rule_given_as_a_step_gets_a_hint() -> None:
    with pytest.raises(supple.errors.InputError, match=r"such as DLS\(rule\)"):
        supple.Servo(supple.load("ur5e"), dt=0.01, step=supple.damping.Constant(0.1))  # type: ignore[arg-type]


def test_explain_before_the_first_step_is_refused() -> None:
    with pytest.raises(supple.errors.InputError, match="explain needs a step"):
        supple.Servo(supple.load("ur5e"), dt=0.01).explain()


def test_with_a_list_of_one_task_targets_and_velocities_are_lists_of_one() -> None:
    robot, q = supple.load("ur5e"), np.array([0.0, -1.2, 1.5, -1.0, -1.0, 0.3])
    twist = np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.2])
    bare = supple.Servo(robot, robot.tips[0], dt=0.01)(q, twist)
    listed = supple.Servo(robot, [robot.tips[0]], dt=0.01)(q, [twist])
    np.testing.assert_array_equal(bare, listed)
    again = supple.simulate(robot, q, velocity=[[twist]] * 3, tasks=[robot.tips[0]], dt=0.01)
    np.testing.assert_array_equal(again.q[1], bare)


def test_simulate_accepts_constant_targets_and_velocities() -> None:
    robot, q = supple.load("ur5e"), np.array([0.0, -1.2, 1.5, -1.0, -1.0, 0.3])
    twist = np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.2])
    one = supple.simulate(robot, q, velocity=twist, dt=0.01, duration=0.1)
    np.testing.assert_array_equal(
        one.q, supple.simulate(robot, q, velocity=[twist] * 10, dt=0.01, duration=0.1).q
    )
    goal = robot.fk(q + 0.1)
    held = supple.simulate(robot, q, target=goal, dt=0.01, duration=3.0)
    np.testing.assert_allclose(robot.fk(held.q[-1]), goal, atol=1e-6)


def test_dt_and_gain_of_a_servo_cannot_be_changed() -> None:
    servo = supple.Servo(supple.load("ur5e"), dt=0.01)
    for name in ("dt", "gain"):
        with pytest.raises(AttributeError):
            setattr(servo, name, 1.0)


def test_optimal_damping_keeps_its_bound_at_limits_too() -> None:
    """If some joints are at limits, the others may move faster, but ‖q̇‖ stays at most Δ."""
    robot = supple.load("panda")
    q = robot.neutral()
    q[3] = robot.upper[3]
    servo = supple.Servo(robot, dt=0.01, step=supple.DLS(supple.damping.Optimal(0.8)))
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        q = servo(q, rng.normal(size=6))
        held += bool(servo.active.any())
        assert np.linalg.norm(servo.qd) <= 0.8
    assert held > 20


def test_a_servo_in_a_reference_cycle_is_garbage_collected() -> None:
    """If the globals of a user's step refer to the Servo that has the step, both are freed."""
    script = """
import gc, numpy as np, supple
robot = supple.load("ur5e")
def mine(linearization):
    return supple.steps.Pseudoinverse()(linearization)
servo = supple.Servo(robot, dt=0.01, step=mine)
mine.servo = servo
servo(robot.neutral(), np.ones(6))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "leak" not in done.stderr
