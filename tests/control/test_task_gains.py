"""Each of several tasks of a Servo has a gain and a reported error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import supple as sp
from generated import seeds
from sizes import nightly

Array = np.ndarray
READY = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])


def tasks_of(robot: sp.Robot) -> list[sp.tasks.Task]:
    tip = robot.tips[0]
    return [
        sp.PoseTask(tip),
        sp.PositionTask(tip, tolerance=1e-3),
        sp.OrientationTask(tip, weight=2.0),
        sp.AxisTask(tip),
        sp.PostureTask(weight=0.3),
    ]


def targets_at(robot: sp.Robot, q: Array) -> list[Array]:
    T = robot.fk(q, robot.tips[0])
    return [T, T[:3, 3], T[:3, :3], T[:3, 2], q]


def test_the_gain_of_a_task_multiplies_its_error() -> None:
    robot = sp.load("panda")
    for seed in seeds(nightly(200, 40)):
        rng = np.random.default_rng([seed, 72])
        q = robot.random(seed=rng)
        given = targets_at(robot, q + 0.05 * rng.normal(size=7))
        gains = rng.uniform(0, 2, size=5)
        plain = tasks_of(robot)
        scaled = [dataclasses.replace(one, gain=g) for one, g in zip(plain, gains, strict=True)]
        chosen = rng.permutation(5)[: int(rng.integers(1, 6))]
        e = {}
        for name, tasks in (("plain", plain), ("scaled", scaled)):
            some = [tasks[k] for k in chosen]
            servo = sp.Servo(robot, some, dt=0.01, gain=3.0, step=sp.steps.Pseudoinverse())
            target = [given[k] for k in chosen]
            servo(q, target=target if len(chosen) > 1 else target[0])
            e[name] = servo.linearization.e
        rows = [len(plain[k].on(robot).names) for k in chosen]
        ranged = np.repeat([k == 1 for k in chosen], rows)  # rows inside their range are free
        expected = np.repeat(gains[chosen], rows) * e["plain"]
        np.testing.assert_allclose(e["scaled"][~ranged], expected[~ranged], rtol=1e-13, atol=1e-15)


def test_a_task_with_a_small_gain_arrives_late_and_one_with_gain_zero_never() -> None:
    robot = sp.load("panda")
    tip = robot.tips[0]
    target = robot.fk(READY, tip)[:3, 3] + [0.05, 0, 0]
    left = {}
    for gain in (0.0, 0.2, 1.0):
        servo = sp.Servo(robot, [sp.PositionTask(tip, gain=gain)], dt=0.01)
        q = READY
        for _ in range(40):
            q = servo(q, target=[target])
        left[gain] = float(np.linalg.norm(robot.fk(q, tip)[:3, 3] - target))
    assert left[0.0] > 0.049
    assert left[1.0] < 0.1 * left[0.2] < 0.1 * left[0.0]


@pytest.mark.parametrize("wrong", [-1, np.nan, np.inf, "high", None])
@pytest.mark.parametrize(
    "kind", [sp.PoseTask, sp.AxisTask, sp.PostureTask, sp.tasks.CenterOfMassTask]
)
def test_task_gains_that_are_negative_or_not_finite_numbers_are_refused(
    kind: type, wrong: object
) -> None:
    with pytest.raises(sp.errors.InputError, match=f"{kind.__name__}: gain"):
        kind(gain=wrong)


@pytest.mark.parametrize("order", [1, 2])
def test_a_servo_reports_how_far_it_misses_each_task(order: int) -> None:
    robot = sp.load("panda")
    tip = robot.tips[0]
    tasks = [sp.PositionTask(tip, weight=10.0), sp.PostureTask(weight=0.05)]
    servo = sp.Servo(robot, tasks, dt=0.01, order=order)
    target = robot.fk(READY, tip)[:3, 3] + [0.01, 0, 0]
    for _ in range(3):
        servo(READY, target=[target, READY + 0.3])
    lin = servo.linearization
    assert servo.missed.shape == (2,)
    if order == 1:
        left = lin.e - lin.J @ servo.qd
        np.testing.assert_allclose(
            servo.missed, [np.linalg.norm(left[:3]), np.linalg.norm(left[3:])], rtol=1e-12
        )
    told = dict(servo.explain().tasks)
    assert told["PostureTask"] > 0.1
    assert "PostureTask misses" in str(servo.explain())
    alone = sp.Servo(robot, tasks[0], dt=0.01)
    alone(READY, target=target)
    assert alone.explain().tasks == ()
