"""Default accelerations depend only on the joint and are plausible; files may replace them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import supple
from generated import CASES, seeds
from generated import robot as any_robot
from rescaled import rescaled
from sizes import a_third
from supple import Limits, PostureTask, Servo
from supple.control.arguments import ACCELERATION_TIME
from supple.describe import Description

PLAIN = supple.DLS(supple.damping.Constant(1e-6))
SPEEDS = (np.inf, 1e-3, 0.1, 1.5, 3.0, 10.0, 17.0, 37.0, 1e6, 1e300)
# Speeds [rad/s] and accelerations [rad/s²] that makers publish for real-time control: libfranka,
# Universal Robots (800°/s²), KUKA's robot descriptions.
PUBLISHED = {
    "Panda": ([2.175] * 4 + [2.61] * 3, [15, 7.5, 10, 12.5, 15, 20, 20]),
    "UR5e": ([3.142] * 6, [13.96] * 6),
    "KR 6 R700": ([6.283, 5.236, 6.283, 6.650, 6.772, 10.734], [41.7, 21.6, 46.2, 145.8, 152, 293]),
    "LBR iisy 3": ([3.491] * 3 + [5.236] * 3, [17.6, 2.10, 10.7, 27.3, 21.8, 112]),
}


@lru_cache(maxsize=256)
def drawn(seed: int) -> supple.Robot:
    """Return a random robot; some of its joints have limits of speed, acceleration or jerk."""
    rng, robot = np.random.default_rng([seed, 29]), any_robot(seed)

    def some(values: np.ndarray) -> np.ndarray:
        return np.where(rng.random(robot.dof) < 0.3, values, np.inf)

    return robot.with_limits(
        max_speed=rng.choice(SPEEDS, robot.dof),
        max_acceleration=some(10 ** rng.uniform(-2, 3, robot.dof)),
        max_jerk=some(10 ** rng.uniform(0, 5, robot.dof)),
    )


def accelerations(robot: supple.Robot) -> dict[str, float]:
    """Return the acceleration limits of a default Servo by joint name."""
    limits = Servo(robot, PostureTask(), dt=0.01).limits
    return dict(zip(robot.joint_names, limits.max_acceleration.tolist(), strict=True))


@pytest.mark.parametrize("seed", a_third(seeds(CASES)))
def test_default_accelerations_of_a_joint_do_not_depend_on_other_joints(seed: int) -> None:
    robot, rng = drawn(seed), np.random.default_rng([seed, 30])
    found = accelerations(robot)
    name = str(rng.choice(robot.joint_names))
    others = {
        key: {each: float(rng.choice(SPEEDS)) for each in robot.joint_names if each != name}
        for key in ("max_speed", "max_acceleration", "max_jerk")
    }
    assert accelerations(robot.with_limits(**others))[name] == found[name]
    still = {each: float(robot.neutral()[j]) for j, each in enumerate(robot.joint_names)}
    still.pop(name)
    assert accelerations(robot.freeze(still) if still else robot) == {name: found[name]}


@pytest.mark.parametrize("seed", a_third(seeds(CASES)))
def test_default_accelerations_are_bounded_and_replaced_by_those_of_a_file(seed: int) -> None:
    robot = drawn(seed)
    limits = Servo(robot, PostureTask(), dt=0.01).limits
    a, own = limits.max_acceleration, np.isfinite(robot.max_acceleration)
    assert (np.isfinite(a) & (a > 0)).all()
    np.testing.assert_array_equal(a[own], robot.max_acceleration[own])
    np.testing.assert_array_equal(limits.max_jerk, robot.max_jerk)
    np.testing.assert_array_equal(limits.max_speed, robot.max_speed)
    derived, turns = a[~own], ~robot.prismatic[~own]
    speed = robot.max_speed[~own]
    assert (derived[turns] <= 2 * np.pi / ACCELERATION_TIME).all()
    known = (speed < 2 * np.pi) & turns
    np.testing.assert_allclose(derived[known], speed[known] / ACCELERATION_TIME)
    assert (derived[np.isfinite(speed)] <= speed[np.isfinite(speed)] / ACCELERATION_TIME).all()


@pytest.mark.parametrize("seed", a_third(seeds(CASES)))
def test_default_accelerations_scale_with_the_unit_of_length(seed: int) -> None:
    robot = drawn(seed)
    found, large = accelerations(robot), accelerations(rescaled(robot, 1000.0))
    bounded = np.isfinite(robot.max_speed) | np.isfinite(robot.max_acceleration)
    bounded |= np.isfinite(robot.upper - robot.lower) & (robot.upper > robot.lower)
    for j, name in enumerate(robot.joint_names):
        if robot.prismatic[j] and not bounded[j]:  # none of its given limits contains a length
            assert found[name] == large[name] == 1 / ACCELERATION_TIME
        else:
            unit = 1000.0 if robot.prismatic[j] else 1.0
            assert large[name] == pytest.approx(unit * found[name])


def test_default_accelerations_are_near_those_published_by_makers() -> None:
    """The geometric mean ratio is about 1; all ratios but one are between 0.14 and 2.2."""
    typical = []
    for name, (speed, published) in PUBLISHED.items():
        table = np.zeros((len(speed), 4))
        robot = supple.dh(table, limits=[(-3, 3)] * len(speed), max_speed=speed)
        ratio = np.array(list(accelerations(robot).values())) / published
        typical.append(np.exp(np.log(ratio).mean()))
        odd = ratio > 11 if name == "LBR iisy 3" else np.zeros(len(ratio), dtype=bool)
        assert odd.sum() == (name == "LBR iisy 3")
        assert (ratio[~odd] > 0.14).all()
        assert (ratio[~odd] < 2.2).all()
    assert 0.8 < np.exp(np.log(typical).mean()) < 1.25


@pytest.mark.parametrize("seed", a_third(seeds(CASES)))
def test_joints_reach_a_distant_target_without_overshoot(seed: int) -> None:
    """The default gain leaves a joint enough time to brake, with or without a limit of speed."""
    robot, rng = drawn(seed).with_limits(max_jerk=np.inf), np.random.default_rng([seed, 31])
    q, target = robot.random(2, seed=rng)
    servo = Servo(robot, PostureTask(), dt=0.002)
    side, wide, way = np.sign(target - q), np.abs(target - q), []
    for _ in range(800):
        q = servo(q, target=target)
        way.append(q)
    assert ((np.array(way) - target) * side <= 0.01 * wide + 1e-12).all()


def test_the_default_gain_with_the_step_yielding_ignores_acceleration_limits() -> None:
    panda = supple.load("panda")
    slow = Limits.for_robot(panda, max_acceleration=8.0)
    assert Servo(panda, dt=0.002, limits=slow, step=PLAIN).gain == pytest.approx(2 * 8.0 / 2.61)
    assert Servo(panda, dt=0.002, limits=slow, step=supple.steps.Yielding()).gain == 20.0
    assert Servo(panda, dt=0.1, limits=slow, step=supple.steps.Yielding()).gain == 10.0


def test_joints_that_move_no_task_do_not_lower_the_default_gain() -> None:
    """A slow gripper or a slow second arm does not change the gain of the first arm."""
    body = supple.load("y")
    left, right = body.tips[:2]
    joints = [name for name in body.joint_names if name not in moving(body, left)]
    slow = dict.fromkeys(joints, 0.01)
    limits = Limits.for_robot(body, max_speed=1.0, max_acceleration=10.0)
    other = Limits.for_robot(
        body.with_limits(max_acceleration=10.0), max_speed=1.0, max_acceleration=slow
    )
    for frame, same in ((left, True), (right, False), ((left, right), False)):
        gains = [
            Servo(body, dt=0.01, frame=frame, limits=one, step=PLAIN).gain
            for one in (limits, other)
        ]
        assert (gains[0] == gains[1]) is same


def moving(robot: supple.Robot, frame: str) -> list[str]:
    """Return the names of the joints that move a frame."""
    J = robot.jacobian(robot.random(3, seed=0), frame)
    moves = np.abs(J).reshape(-1, robot.dof).max(axis=0) > 1e-9
    return [name for name, one in zip(robot.joint_names, moves, strict=True) if one]


def test_changed_copies_of_a_robot_keep_its_other_accelerations_and_jerks() -> None:
    table = [(0.0, 0.3, 0.0, 0.0)] * 2
    arm = supple.dh(table, max_speed=1.0, max_acceleration=[3.0, 4.0], max_jerk=50.0)
    for robot in (arm, arm.with_tool(np.eye(4)), supple.Robot(replace(arm.description, name="x"))):
        np.testing.assert_array_equal(robot.max_acceleration, [3.0, 4.0])
        np.testing.assert_array_equal(robot.max_jerk, [50.0, 50.0])
    other = arm.with_limits(max_acceleration={"joint2": 9.0}, max_jerk=np.inf)
    np.testing.assert_array_equal(Limits.for_robot(other).max_acceleration, [3.0, 9.0])
    assert np.isinf(Limits.for_robot(other).max_jerk).all()
    assert np.isinf(Limits.none(arm).max_acceleration).all()
    assert np.isinf(Limits.none(arm).max_jerk).all()
    assert isinstance(arm.description, Description)
