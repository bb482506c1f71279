"""Held tasks of a Servo: exact in every step in which the limits of the joints allow it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import generated
import supple as sp
from generated import seeds
from mobile import mobile
from sizes import nightly
from test_whole_body import drawn

Array = np.ndarray
DT = 0.005
EXACT = 1e-9  # [m or rad]
PANDA = sp.load("panda")
READY = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
ROWS = ("x", "y", "z", "rx", "ry", "rz")


def some_robot(seed: int) -> tuple[sp.Robot, np.random.Generator]:
    """Return a robot that floats, one on a mobile base, one of any kind, or an arm."""
    rng = np.random.default_rng([seed, 81])
    kind = seed % 4
    if kind == 0:
        return drawn(seed)[0], rng
    if kind == 1:
        return mobile(limit=None), rng
    if kind == 2:
        return generated.robot(rng, joints=int(rng.integers(6, 15)), size=1.0), rng
    return PANDA, rng


def some_task(robot: sp.Robot, rng: np.random.Generator, *, few: bool = False) -> Any:
    """Return a task that can be held: a pose, a position, or some of their rows; or an axis."""
    frame = str(rng.choice(robot.tips))
    others = [tip for tip in robot.tips if tip != frame]
    base = str(rng.choice(others)) if others and rng.random() < 0.3 else None
    kind = rng.integers(4)
    if kind == 0 and not few:
        return sp.PoseTask(frame, base=base)
    if kind == 1:
        return sp.AxisTask(frame, axis=tuple(rng.normal(size=3)), base=base)
    rows = rng.choice(6, size=int(rng.integers(1, 3 if few else 4)), replace=False)
    return sp.PoseTask(frame, rows=[ROWS[i] for i in sorted(rows)], base=base)


def errors_of(robot: sp.Robot, tasks: list[Any], q: Array, start: Array) -> list[Array]:
    """Return the errors of tasks at q relative to where they were at `start`, in Python."""
    rows = [task.on(robot) for task in tasks]
    return [one.error(robot, q, one.reached(robot, start)) for one in rows]


def slopes(robot: sp.Robot, tasks: list[Any], q: Array, start: Array) -> Array:
    """Return minus the derivative of all errors (m, n), by central differences."""

    def at(v: Array) -> Array:
        return np.concatenate(errors_of(robot, tasks, robot.integrate(q, v), start))

    return np.array([at(-v) - at(v) for v in 1e-5 * np.eye(robot.nv)]).T / 2e-5


def limits_of(robot: sp.Robot, rng: np.random.Generator) -> sp.Limits:
    acceleration = None if rng.random() < 0.3 else 10 ** rng.uniform(0.5, 1.5)
    speed = np.where(np.isfinite(robot.max_speed), robot.max_speed, 3.0)
    return sp.Limits.for_robot(robot, max_speed=speed, max_acceleration=acceleration)


def check_limits(limits: sp.Limits, before: Array, qd: Array, q: Array) -> None:
    assert (np.abs(qd) <= limits.max_speed * (1 + 1e-12)).all()
    assert (np.abs(qd - before) <= limits.max_acceleration * DT * (1 + 1e-9) + 1e-12).all()
    if len(q) == len(qd):
        assert (q <= limits.upper + 1e-12).all()
        assert (q >= limits.lower - 1e-12).all()


def reachable(robot: sp.Robot, limits: sp.Limits, q: Array, before: Array, task: Any) -> bool:
    """Return whether speeds well inside the limits lead to a configuration without errors.

    `task` are the held tasks, and the configuration where they were when holding began.
    """
    low = np.maximum(-limits.max_speed, before - limits.max_acceleration * DT)
    high = np.minimum(limits.max_speed, before + limits.max_acceleration * DT)
    if len(q) == len(before):  # stop in front of position limits, with half the deceleration
        brake = np.minimum(limits.max_acceleration, 1e3) / 2
        room = [np.maximum(x - 1e-3, 0) for x in (q - limits.lower, limits.upper - q)]
        down, up = (np.sqrt(2 * brake * r + (brake * DT) ** 2) - brake * DT for r in room)
        low, high = np.maximum(low, -down), np.minimum(high, up)
    low, high = np.maximum(low, -1e4), np.minimum(high, 1e4)
    low, high = low + 0.05 * (high - low), high - 0.05 * (high - low)
    if (low >= high).any():
        return False
    x, there = np.clip(before, low, high), q
    for _ in range(6):
        there = robot.integrate(q, DT * x)
        e = np.concatenate(errors_of(robot, task[0], there, task[1]))
        if np.abs(e).max() < EXACT:
            return True
        A = slopes(robot, task[0], there, task[1])
        x = lsq_linear(A, A @ x + e / DT, (low, high), tol=1e-14).x
    return False


def test_held_tasks_have_no_error_wherever_the_limits_allow_it() -> None:
    """Under random commands that jump, on robots of every kind; the limits always hold."""
    exact = missed = 0
    worst = {}
    for seed in seeds(nightly(400, 32)):
        robot, rng = some_robot(seed)
        limits = limits_of(robot, rng)
        held = [some_task(robot, rng, few=bool(seed % 3))]
        if seed % 4 == 0:
            held.append(sp.PositionTask(robot.tips[0], rows=("x", "z")))
        servo = sp.Servo(robot, sp.PostureTask(), dt=DT, limits=limits, held=held)
        q = start = robot.random(seed=rng)
        for k in range(60):
            if k % 15 == 0:
                goal = robot.random(seed=rng)
            before, at = servo.qd, q
            errors = np.concatenate(errors_of(robot, held, q, start))
            q = servo(q, target=goal)
            check_limits(limits, before, servo.qd, q)
            after = np.array([abs(e).max() for e in errors_of(robot, held, q, start)])
            reported = sp.StepStatus.HELD_EXCEEDED in servo.status
            if not reported:
                assert after.max() <= EXACT, (seed, k)
                exact += 1
                continue
            missed += 1
            worst[seed] = max(worst.get(seed, 0), after.max())
            assert after.max() > 0.9 * EXACT, (seed, k)
            np.testing.assert_allclose(servo.held_error, after, atol=1e-11)
            if abs(errors).max() <= EXACT:
                assert not reachable(robot, limits, at, before, (held, start)), (seed, k)
    print(exact, missed, worst)
    assert exact > 20 * max(missed, nightly(400, 32))
