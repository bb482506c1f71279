"""A Servo with defaults keeps the limits of each joint, and has no other bound on speeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supple
from loops import NAMES, robot, somewhere
from supple import PoseTask, PositionTask, PostureTask, Servo, StepStatus, damping, simulate

Finder = Callable[[str, str], Path]
DATA = ("cmeel.prefix", "share/example-robot-data/robots/")
SPEED, DT = 0.3, 0.002  # [m/s], [s]

# In each of these files, by far the slowest joint is a gripper finger or a lift.
FILES = {
    "panda": ("panda_description/urdf/panda.urdf", "panda_hand_tcp"),
    "pr2": ("pr2_description/urdf/pr2.urdf", "r_gripper_tool_frame"),
    "tiago": ("tiago_description/robots/tiago.urdf", "arm_tool_link"),
    "tiago pro": ("tiago_pro_description/robots/tiago_pro.urdf", "arm_left_tool_link"),
    "talos": ("talos_data/robots/talos_reduced.urdf", "wrist_left_ft_tool_link"),
}


def performed(arm: supple.Robot, frame: str, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Return the mean twist (6,) of a frame in a step: J q̇ and the effect of curvature."""
    before, after = arm.fk(q, frame), arm.fk(q + DT * qd, frame)
    turn = after[:3, :3] @ before[:3, :3].T
    turned = 0.5 * np.array(
        [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
    )
    return np.concatenate([after[:3, 3] - before[:3, 3], turned]) / DT


@pytest.mark.parametrize("name", FILES)
def test_the_tool_has_the_commanded_velocity_where_limits_allow_it(
    robot_files: Finder, name: str
) -> None:
    """It does if the limits allow q̇ of least norm, with joints weighted equally or by max_speed.

    The mean velocity in a step is then the commanded one, to second order in dt. Where limits or
    damping prevent it, the status reports them.
    """
    path, frame = FILES[name]
    arm = supple.urdf(robot_files(DATA[0], DATA[1] + path))
    servo = Servo(arm, frame=frame, dt=DT, limits=supple.Limits.for_robot(arm))
    assert servo.limits.max_norm == np.inf
    rng, met = np.random.default_rng(0), []
    for q in arm.random(60, seed=rng):
        twist = np.append(rng.normal(size=3), np.zeros(3))
        twist *= SPEED / np.linalg.norm(twist)
        servo.reset()
        for _ in range(20):  # at the same q, until the joints have accelerated
            servo(q, twist)
        J = servo.linearization.J
        low = np.maximum(-arm.max_speed, (arm.lower - q) / DT)
        high = np.minimum(arm.max_speed, (arm.upper - q) / DT)
        each = [np.linalg.pinv(J * weight) @ twist * weight for weight in (1.0, arm.max_speed)]
        possible = any(((low <= x) & (x <= high)).all() for x in each)
        off = np.abs(performed(arm, frame, q, servo.qd) - twist).max() / SPEED
        if possible and servo.sigma_min > 0.05:
            met.append(off)
        elif off > 0.01:  # the status must report losses above 1 %
            assert servo.status != StepStatus.FOLLOWING
    assert len(met) > 15
    assert max(met) < 1e-3
    assert np.quantile(met, 0.9) < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_a_default_servo_keeps_the_limits_of_each_joint(name: str) -> None:
    arm = robot(name)
    limits = Servo(arm, dt=DT).limits
    np.testing.assert_array_equal(limits.lower, arm.lower)
    np.testing.assert_array_equal(limits.upper, arm.upper)
    np.testing.assert_array_equal(limits.max_speed, arm.max_speed)
    assert limits.max_norm == np.inf
    assert np.isinf(limits.max_jerk).all()


@pytest.mark.parametrize("name", ["planar2", "puma560", "panda", "ur5e"])
@pytest.mark.parametrize("size", [1e-3, 0.3, 10.0])
def test_without_limits_the_default_damping_bounds_joint_speeds(name: str, size: float) -> None:
    """In each singular direction, ‖q̇‖ <= ‖e‖/(2 λ), with λ = 1e-3 κ for the curvature κ."""
    arm, rng = robot(name), np.random.default_rng(2)
    servo = Servo(arm, dt=DT, limits=supple.Limits.none(arm))
    fastest = size / (2e-3 * servo._curvature / DT)
    for q in [*arm.random(50, seed=rng), np.zeros(arm.dof), somewhere(name) * 1e-7]:
        servo.reset()
        twist = rng.normal(size=6)
        twist *= size / np.linalg.norm(twist)
        for _ in range(3):
            servo(q, twist)
            # A redundant arm may add self-motion that is as fast as the rest of the step.
            assert np.linalg.norm(servo.qd) <= 2 * np.sqrt(min(6, arm.dof)) * fastest


def test_the_default_damping_uses_the_curvature_of_the_frames_of_the_tasks() -> None:
    """Other branches of a robot do not change this curvature; a posture has curvature 0."""
    body = supple.load("y")
    here, all_tips = Servo(body, body.tips[0], dt=DT), damping.Curvature.for_robot(body, dt=DT)
    of_tip = damping.Curvature.for_robot(body, body.tips[0], dt=DT)
    assert here._curvature == pytest.approx(of_tip.curvature, rel=1e-15)
    assert here._curvature <= all_tips.curvature
    arm = robot("panda")
    posture = Servo(arm, PostureTask(), dt=DT)
    assert posture.step.rule == damping.Curvature(0.0)  # type: ignore[union-attr]
    both = Servo(arm, [PositionTask(), PostureTask()], dt=DT)
    of_arm = damping.Curvature.for_robot(arm, dt=DT)
    assert both._curvature == pytest.approx(of_arm.curvature, rel=1e-15)


SLIDER = """<robot name="slider">
  <link name="world"/><link name="base"/><link name="upper"/><link name="lower"/><link name="tip"/>
  <joint name="slide" type="prismatic"><parent link="world"/><child link="base"/><axis xyz="1 0 0"/>
    <limit lower="{low}" upper="{high}" velocity="5" effort="1"/></joint>
  <joint name="a" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="2" effort="1"/></joint>
  <joint name="b" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.5 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="2" effort="1"/></joint>
  <joint name="c" type="fixed"><parent link="lower"/><child link="tip"/><origin xyz="0.5 0 0"/>
  </joint>
</robot>"""


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-1000, 1000), (900, 1000)])
def test_a_long_rail_does_not_damp_the_arm_on_it(tmp_path: Path, low: float, high: float) -> None:
    file = tmp_path / "slider.urdf"
    file.write_text(SLIDER.format(low=low, high=high))
    arm = supple.urdf(file)
    task = PoseTask("tip", rows=("x", "y"))
    servo = Servo(arm, task, dt=0.01, limits=supple.Limits.for_robot(arm))
    assert servo._curvature == pytest.approx(0.5 * 0.01, rel=1e-2)
    servo([(low + high) / 2, 0.4, 1.0], [0.3, 0.2, 0, 0, 0, 0])
    assert servo.status == StepStatus.FOLLOWING
    np.testing.assert_allclose(servo.linearization.J @ servo.qd, [0.3, 0.2], atol=1e-12)


@pytest.mark.parametrize("dt", [0.001, 0.1, 0.5, 4.0])
def test_with_the_default_gain_no_step_goes_beyond_the_target(dt: float) -> None:
    """The gain is 20/s, or 1/dt if 1/dt is smaller: with a larger gain, steps would overshoot."""
    arm = robot("planar2")
    free = supple.Limits.none(arm)
    servo = Servo(arm, PostureTask(), dt=dt, limits=free)
    assert servo.gain == min(20.0, 1 / dt)
    q, target = np.array([0.3, 0.4]), np.array([0.5, -0.1])
    off = np.abs(q - target)
    for _ in range(20):
        new = servo(q, target=target)
        assert ((new - target) * (q - target) >= -1e-12).all()  # never beyond the target
        q = new
    assert (np.abs(q - target) <= off * max(1 - 20 * dt, 0.0) ** 20 + 1e-12).all()
    motion = simulate(
        arm,
        [0.3, 0.4],
        tasks=PostureTask(),
        target=[0.5, -0.1],
        dt=dt,
        duration=20 * dt,
        limits=free,
    )
    np.testing.assert_array_equal(motion.q[-1], q)
