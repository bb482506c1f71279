"""A Servo keeps the loops of a robot closed in every step, as MuJoCo confirms."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import mechanisms
import supple as sp
from generated import seeds
from sizes import nightly
from supple.errors import InputError

Array = np.ndarray
CLOSED = 1e-9
DT = 0.005
CASES: dict[str, tuple[str, Any, Any]] = {
    **{
        f"four_bar{seed}": (mechanisms.four_bar(seed), "tip", sp.PositionTask("tip"))
        for seed in range(nightly(20, 1))
    },
    **{
        f"weld{seed}": (mechanisms.spatial_loop(seed, 9, "weld"), "tip", sp.PositionTask("tip"))
        for seed in range(nightly(20, 2))
    },
    "weld12": (mechanisms.spatial_loop(2, 12, "weld"), "tip", None),
    "connect9": (mechanisms.spatial_loop(0, 9, "connect"), "tip", None),
    **{
        f"coupled{seed}": (mechanisms.coupled(seed), "tip", sp.PositionTask("tip"))
        for seed in range(nightly(20, 2))
    },
    "gripper": (mechanisms.gripper(), "tip", None),
    "legs": (
        mechanisms.leg(),
        ["toe_l", "toe_r"],
        [sp.PositionTask("toe_l"), sp.PoseTask("toe_r")],
    ),
}


@cache
def robot_of(name: str) -> sp.Robot:
    text, tips, _ = CASES[name]
    return sp.mjcf(text, tips=tips)


def limits_of(robot: sp.Robot) -> sp.Limits:
    return sp.Limits.for_robot(robot, max_speed=2.0, max_acceleration=10.0)


def check_step(limits: sp.Limits, servo: sp.Servo, before: Array, q: Array) -> None:
    """Check the limits of a step; acceleration may be exceeded if the status reports it."""
    assert (np.abs(servo.qd) <= limits.max_speed * (1 + 1e-12)).all()
    exceeded = np.abs(servo.qd - before) > limits.max_acceleration * DT * (1 + 1e-9) + 1e-12
    if sp.StepStatus.ACCELERATION_EXCEEDED not in servo.status:
        assert not exceeded.any()
    if len(q) == len(limits.lower):
        assert ((q >= limits.lower - 1e-12) & (q <= limits.upper + 1e-12)).all()


@pytest.mark.parametrize("name", CASES)
def test_the_status_reports_loops_that_are_not_closed(name: str) -> None:
    robot, tasks = robot_of(name), CASES[name][2]
    rng = np.random.default_rng(3)
    opened = 0
    for limits in (sp.Limits.for_robot(robot), limits_of(robot)):
        q = robot.random(seed=5)
        target = robot.fk(q, [task.frame for task in sp.Servo(robot, tasks, dt=DT).tasks])
        q = robot.without_loops().integrate(q, 0.03 * rng.normal(size=robot.nv))
        q = np.clip(q, robot.lower, robot.upper) if robot.nq == robot.nv else q
        servo = sp.Servo(robot, tasks, dt=DT, limits=limits)
        goals = [
            T[:3, 3] if isinstance(task, sp.PositionTask) else T
            for task, T in zip(servo.tasks, target, strict=True)
        ]
        path, reported = [], []
        for _ in range(60):
            q = servo(q, target=goals[0] if len(goals) == 1 else goals)
            path.append(q)
            reported.append(sp.StepStatus.HELD_EXCEEDED in servo.status)
        is_open = np.abs(robot.loop_error(path)).max(axis=1) > CLOSED
        assert (is_open <= reported).all()
        opened += is_open.sum()
    assert opened > 0


@pytest.mark.parametrize("name", CASES)
def test_loops_are_closed_after_every_step_to_targets_that_jump(name: str) -> None:
    text, _, tasks = CASES[name]
    robot, oracle = robot_of(name), mechanisms.MuJoCo(text)
    limits = limits_of(robot)
    for seed in range(nightly(4, 1)):
        q = robot.random(seed=seed)
        servo, path = sp.Servo(robot, tasks, dt=DT, limits=limits), []
        for k in range(nightly(400, 50)):
            if k % 25 == 0:
                there = robot.random(seed=1000 * seed + k)
                goals = [
                    T[:3, 3] if isinstance(task, sp.PositionTask) else T
                    for task in servo.tasks
                    for T in [robot.fk(there, task.frame)]
                ]
            before = servo.qd
            q = servo(q, target=goals[0] if len(goals) == 1 else goals)
            path.append(q)
            assert sp.StepStatus.HELD_EXCEEDED not in servo.status
            check_step(limits, servo, before, q)
            if k % 10 == 0:
                assert oracle.residual(robot, q) <= CLOSED
        assert abs(robot.loop_error(path)).max() <= CLOSED


@cache
def one_leg() -> sp.Robot:
    return sp.mjcf(mechanisms.leg(sides="l"), tips="toe_l")


def test_a_servo_reaches_targets_with_closed_loops() -> None:
    robot = one_leg()
    q = robot.neutral()
    goal = robot.close_loops(robot.integrate(q, np.r_[np.zeros(6), 0.1 * np.ones(robot.nv - 6)]))
    targets = [robot.fk(goal, "toe_l")[:3, 3], robot.fk(goal, "pelvis")]
    servo = sp.Servo(robot, [sp.PositionTask("toe_l"), sp.PoseTask("pelvis")], dt=DT)
    for _ in range(400):
        q = servo(q, target=targets)
    np.testing.assert_allclose(robot.fk(q, "toe_l")[:3, 3], targets[0], atol=1e-6)
    np.testing.assert_allclose(robot.fk(q, "pelvis"), targets[1], atol=1e-6)
    assert abs(robot.loop_error(q)).max() <= CLOSED


@pytest.mark.parametrize("seed", seeds(nightly(60, 4)))
def test_loops_that_are_open_at_the_start_are_closed_and_stay_closed(seed: int) -> None:
    robot = robot_of("gripper")
    rng = np.random.default_rng(seed)
    q = robot.random(seed=seed) + 0.02 * rng.normal(size=robot.nv)
    q = np.clip(q, robot.lower, robot.upper)
    limits = limits_of(robot)
    servo = sp.Servo(robot, dt=DT, limits=limits)
    assert abs(robot.loop_error(q)).max() > 1e-4
    path = []
    for _ in range(300):
        before = servo.qd
        q = servo(q, np.zeros(6))
        check_step(limits, servo, before, q)
        path.append(q)
    assert abs(robot.loop_error(path[250:])).max() <= CLOSED


def test_targets_of_joints_that_follow_others_by_polynomials_are_reached() -> None:
    robot = robot_of("coupled1")
    q, there = robot.random(seed=1), robot.random(seed=2)
    servo, path = sp.Servo(robot, sp.PostureTask(), dt=DT), []
    for _ in range(900):
        q = servo(q, target=there)
        path.append(q)
    assert abs(robot.loop_error(path)).max() <= CLOSED
    np.testing.assert_allclose(q, there, atol=1e-6)


def test_simulate_and_held_tasks_keep_loops_closed() -> None:
    robot = one_leg()
    q = robot.neutral()
    track = sp.simulate(
        robot, q, frame="pelvis", velocity=[0.02, 0, -0.02, 0, 0, 0], dt=DT, duration=0.1
    )
    assert abs(robot.loop_error(track.q)).max() <= CLOSED
    servo = sp.Servo(robot, sp.PoseTask("pelvis"), dt=DT, held=[sp.PoseTask("toe_l")])
    assert servo.held == (sp.PoseTask("toe_l"),)
    foot = robot.fk(q, "toe_l")
    for _ in range(40):
        q = servo(q, [0.02, 0, -0.02, 0, 0, 0])
        assert abs(robot.loop_error(q)).max() <= CLOSED
        np.testing.assert_allclose(robot.fk(q, "toe_l"), foot, atol=CLOSED)
        assert servo.held_error.shape == servo.held_share.shape == (1,)
    servo.release("toe_l", over=0)
    q = servo(q, [0.02, 0, -0.02, 0, 0, 0])
    assert servo.held_share == [0]
    assert abs(robot.loop_error(q)).max() <= CLOSED


def test_copies_keep_loops_closed() -> None:
    robot = robot_of("weld0")
    servo = sp.Servo(robot, sp.PositionTask("tip"), dt=DT)
    q = robot.random(seed=0)
    for _ in range(5):
        q = servo(q, [0.1, 0, 0])
    for other in (copy.copy(servo), pickle.loads(pickle.dumps(servo))):
        there = other(q, [0.1, 0, 0])
        assert abs(robot.loop_error(there)).max() <= CLOSED
        np.testing.assert_array_equal(there, copy.copy(servo)(q, [0.1, 0, 0]))


def test_limits_of_mode_scale_are_refused_for_robots_with_loops() -> None:
    robot = robot_of("weld0")
    with pytest.raises(InputError, match='loops of a robot need limits of mode "exact"'):
        sp.Servo(robot, dt=DT, limits=sp.Limits.for_robot(robot, mode="scale"))
    robot = robot_of("coupled0")
    with pytest.raises(InputError, match='loops of a robot need limits of mode "exact"'):
        sp.Servo(robot, dt=DT, limits=sp.Limits.for_robot(robot, mode="scale"))
