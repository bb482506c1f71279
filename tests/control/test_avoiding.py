"""The default Servo of a redundant arm avoids singularities by self-motion."""

from __future__ import annotations

import numpy as np
import pytest

from arm_tasks import REDUNDANT, label, robot_of
from singularities.passages import passage
from supple import (
    Limits,
    OrientationTask,
    PositionTask,
    Servo,
    linearize,
    load,
    steps,
)
from supple.motion.task import Task

# The law in NumPy, with the constants of self_motion.hpp.
APPROACH, KEPT, RANGE, SLOPE, SINGULAR = 3.0, 0.08, 0.13, 0.1, 0.02
DT = 1e-7  # so short that folds need no correction


def jacobian(servo: Servo, q: np.ndarray) -> np.ndarray:
    return np.asarray(linearize(servo.robot, servo.tasks, q).J)


def law(servo: Servo, kappa: float, q: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return the joint speeds (n,), with a gradient from differences of J."""
    J = jacobian(servo, q)
    step = np.linalg.pinv(J) @ e
    u, sigma, v = np.linalg.svd(J)
    m, n = J.shape
    if sigma[-1] > RANGE * kappa:
        return step
    h = 1e-6
    ahead, behind = (jacobian(servo, q + sign * h * np.eye(n)) for sign in (1, -1))
    gradient = u[:, -1] @ (ahead - behind) @ v[m - 1] / (2 * h)
    rate = gradient @ (step - v[m - 1] * (v[m - 1] @ step))
    missing = min(-APPROACH * (sigma[-1] - KEPT * kappa) - rate, -rate)
    if missing <= 0:
        return step
    along = v[m:].T @ (v[m:] @ gradient)
    amount = missing / (along @ along + (SLOPE * kappa) ** 2)
    amount *= sigma[-1] ** 2 / (sigma[-1] ** 2 + (SINGULAR * kappa) ** 2)
    amount *= min((RANGE - sigma[-1] / kappa) / (RANGE - KEPT), 1.0)
    return step + amount * along / np.sqrt(1 + along @ along * (amount / np.linalg.norm(step)) ** 2)


def near_singularities(
    servo: Servo, kappa: float, count: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return configurations with one small singular value, and random commands."""
    rng, found = np.random.default_rng(7), []
    while len(found) < count:
        q = servo.robot.random(200, seed=rng) * rng.choice([0.2, 1.0], (200, 1))
        sigma = np.linalg.svd(jacobian(servo, q))[1]
        small = (0.02 * kappa < sigma[:, -1]) & (sigma[:, -1] < 0.14 * kappa)
        for one in q[small & (sigma[:, -2] > 3 * sigma[:, -1])]:
            found.append((one, rng.normal(size=len(servo._layout.rows))))
    return found[:count]


@pytest.mark.parametrize(("name", "task"), REDUNDANT, ids=label)
def test_the_step_follows_the_law(name: str, task: Task) -> None:
    """q̇ is that of the law, and self-motion does not change the velocity of the task."""
    robot = robot_of(name)
    servo = Servo(robot, task, dt=DT, limits=Limits.none(robot))
    kappa, moved = servo._curvature / DT, 0
    for q, _ in near_singularities(servo, kappa, 60):
        twist = np.random.default_rng(int(1e6 * abs(q).sum())).normal(size=6)
        velocity = twist[: 3 if isinstance(task, PositionTask | OrientationTask) else 6]
        e = task.linearize(robot, q, velocity=velocity).e
        expected = law(servo, kappa, q, e)
        servo.reset()
        servo(q, velocity)
        np.testing.assert_allclose(servo.qd, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jacobian(servo, q) @ servo.qd, e, rtol=1e-8, atol=1e-9)
        moved += not np.allclose(servo.qd, np.linalg.pinv(jacobian(servo, q)) @ e, atol=1e-5)
    assert moved >= 5


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_an_arm_stays_away_from_an_avoidable_singularity(name: str) -> None:
    """Past its shoulder σ stays four times as large as without self-motion, within 0.05 mm."""
    here = passage(name, "shoulder")
    robot, least, worst = here.robot, [], 0.0
    for step in (None, steps.Pseudoinverse()):
        servo = Servo(robot, dt=here.dt, step=step)
        q, found = here.q0, []
        for k, twist in enumerate(here.twists):
            q = servo(q, twist, here.poses[k])
            found.append(np.linalg.svd(robot.jacobian(q))[1][-1])
            if step is None:
                off = robot.fk(q)[:3, 3] - here.poses[k + 1][:3, 3]
                worst = max(worst, float(np.linalg.norm(off)))
        least.append(min(found))
    assert least[0] > 4 * least[1]
    assert worst < 5e-5


def test_an_arm_at_rest_does_not_move() -> None:
    robot = load("panda")
    servo = Servo(robot, dt=0.001)
    q = passage("panda", "shoulder").q0
    assert np.array_equal(servo(q, np.zeros(6)), q)
    for _ in range(200):
        q = servo(q, target=robot.fk(passage("panda", "shoulder").q0))
    np.testing.assert_allclose(q, passage("panda", "shoulder").q0, atol=1e-9)


def test_self_motion_slows_down_toward_position_limits() -> None:
    """No joint reaches a limit because of self-motion; the task keeps its velocity."""
    robot = load("panda")
    free = Servo(robot, dt=DT, limits=Limits.none(robot))
    kappa = free._curvature / DT
    for q, e in near_singularities(free, kappa, 60):
        motion = law(free, kappa, q, e) - np.linalg.pinv(jacobian(free, q)) @ e
        if np.linalg.norm(motion) > 0.3:
            break
    else:
        pytest.fail("no configuration has enough self-motion")
    j = int(np.abs(motion).argmax())
    room = 0.01
    limits = Limits.none(robot)
    ends = {"upper": limits.upper.copy(), "lower": limits.lower.copy()}
    ends["upper" if motion[j] > 0 else "lower"][j] = q[j] + np.sign(motion[j]) * room
    servo = Servo(
        robot,
        dt=DT,
        limits=Limits(ends["lower"], ends["upper"], limits.max_speed, limits.max_acceleration),
    )
    servo(q, e)
    added = servo.qd - np.linalg.pinv(jacobian(free, q)) @ e
    assert 0 < abs(added[j]) <= APPROACH * room * (1 + 1e-9)
    np.testing.assert_allclose(jacobian(free, q) @ servo.qd, e, rtol=1e-8, atol=1e-9)


def test_self_motion_goes_on_while_a_joint_is_at_a_limit() -> None:
    """At a speed limit, q̇ is the nearest to that of the law among those that keep J q̇."""
    robot, task = load("planar4"), PositionTask(rows=("x", "y"))
    none = Limits.none(robot)
    free = Servo(robot, task, dt=DT, limits=none)
    kappa, compared = free._curvature / DT, 0
    for q, e in near_singularities(free, kappa, 60):
        J, expected = jacobian(free, q), law(free, kappa, q, e)
        if np.allclose(expected, np.linalg.pinv(J) @ e, atol=1e-3):
            continue
        j = int(np.abs(expected).argmax())
        speed = np.full(4, 1e3)
        speed[j] = 0.95 * abs(expected[j])
        servo = Servo(
            robot,
            task,
            dt=DT,
            limits=Limits(none.lower, none.upper, speed, none.max_acceleration),
        )
        servo(q, np.append(e, 0.0))
        A = np.vstack([J, np.eye(4)[j]])
        b = np.append(e, np.sign(expected[j]) * speed[j])
        nearest = expected + np.linalg.pinv(A) @ (b - A @ expected)
        np.testing.assert_allclose(servo.qd, nearest, rtol=1e-3, atol=1e-3)
        compared += 1
    assert compared >= 5
