"""The step `Yielding` equals a transcription of its rules to NumPy (`yielding_law`)."""

from __future__ import annotations

import numpy as np
import pytest

from arm_tasks import REDUNDANT, label, robot_of
from sizes import nightly
from supple import (
    Limits,
    OrientationTask,
    PoseTask,
    PositionTask,
    Servo,
    linearize,
    load,
    pose,
)
from supple.steps import Yielding
from supple.tasks import Task
from yielding_law import YieldingLaw

CASES = nightly(24, 8)  # configurations of each robot and task
SIZES = {PositionTask: 3, OrientationTask: 3, PoseTask: 6}
OTHERS: list[tuple[str, Task]] = [
    ("ur5e", PoseTask()),
    ("puma560", PoseTask()),
    ("planar2", PositionTask(rows=("x", "y"))),
]


def law_of(servo: Servo) -> YieldingLaw:
    def jacobian(q: np.ndarray) -> np.ndarray:
        return np.asarray(linearize(servo.robot, servo.tasks, q).J)

    limits = servo.limits
    return YieldingLaw(jacobian, limits, servo.dt, servo.gain, servo._curvature / servo.dt)


def near_singularities(servo: Servo, count: int, seed: int) -> list[np.ndarray]:
    """Return configurations inside the limits, half of them with a small singular value."""
    rng, found, law = np.random.default_rng(seed), [], law_of(servo)
    each = min(10, count // 2)
    lower = np.maximum(servo.limits.lower, -3) + 0.02
    upper = np.minimum(servo.limits.upper, 3) - 0.02
    while len(found) < count:
        tried = rng.uniform(lower, upper, (100, servo.robot.dof)) * rng.choice(
            [0.05, 1.0], (100, 1)
        )
        tried = np.clip(tried, lower, upper)
        sigma = np.linalg.svd(law.jacobian(tried), compute_uv=False)
        distinct = (np.diff(sigma, axis=1) < -1e-3).all(axis=1)
        small = sigma[:, -1] < 0.1 * law.kappa
        found += [*tried[distinct & small][:each], *tried[distinct & ~small][:each]]
    return found[:count]


@pytest.mark.parametrize("dt", [0.001, 0.01])
@pytest.mark.parametrize(("name", "task"), [*REDUNDANT, *OTHERS], ids=label)
def test_the_yielding_step_equals_the_transcription_of_its_rules(
    name: str, task: Task, dt: float
) -> None:
    """q̇ is compared before limits; where no rule damps, q̇ performs the command exactly."""
    robot = robot_of(name)
    rng = np.random.default_rng(5)
    limits = Limits(
        np.maximum(robot.lower, -4),
        np.minimum(robot.upper, 4),
        np.full(robot.dof, 2.0),
        rng.uniform(5, 60, robot.dof),
    )
    servo = Servo(robot, task, dt=dt, step=Yielding(), limits=limits)
    law, size = law_of(servo), SIZES[type(task)]
    ruled = 0
    for q in near_singularities(servo, CASES, seed=3):
        qd = rng.normal(0, 0.3, robot.dof) * rng.integers(0, 2)
        velocity = rng.normal(0, 0.2, size) * rng.choice([0.1, 1, 5])
        servo.reset(qd)
        last = 0 * qd
        for _ in range(2):  # the second step depends on the change of speeds in the first
            servo(q, velocity)
            rate = servo.linearization.e
            exact = servo.lambda2 == 0
            expected = law.step(q, qd, last, rate, 0 * rate, exact)
            scale = float(np.linalg.norm(expected))
            np.testing.assert_allclose(servo._step, expected, rtol=0, atol=5e-3 * scale)
            last, qd = servo.qd - qd, servo.qd.copy()
            ruled += not exact
    assert 1 <= ruled < 2 * CASES


@pytest.mark.parametrize("dt", [0.004, 0.05])
@pytest.mark.parametrize("name", ["panda", "ur5e", "puma560", "planar2"])
def test_with_a_target_the_yielding_step_equals_the_transcription_of_its_rules(
    name: str, dt: float
) -> None:
    """Targets are near or far; the transcription is given their offsets from the pose at q."""
    robot, rng, ruled = robot_of(name), np.random.default_rng(8), 0
    task: Task = PositionTask(rows=("x", "y")) if name == "planar2" else PoseTask()
    limits = Limits.for_robot(robot, max_acceleration=20.0)
    servo = Servo(robot, task, dt=dt, step=Yielding(), limits=limits)
    law = law_of(servo)
    for q in near_singularities(servo, nightly(30, 15), seed=4):
        target = robot.fk(q)
        target[:3, 3] += rng.normal(0, 1, 3) * rng.choice([1e-4, 1e-2, 1])
        turn = rng.normal(0, 1, 3) * rng.choice([1e-4, 1e-2, 0.5])
        target[:3, :3] = pose((0, 0, 0), rotation_vector=turn)[:3, :3] @ target[:3, :3]
        servo.reset()
        servo(q, target=target if name != "planar2" else target[:3, 3])
        offset = servo.linearization.e / servo.gain
        exact = servo.lambda2 == 0
        expected = law.step(q, 0 * q, 0 * q, 0 * offset, offset, exact)
        scale = float(np.linalg.norm(expected))
        np.testing.assert_allclose(servo._step, expected, rtol=0, atol=5e-3 * scale)
        ruled += not exact
    assert ruled >= nightly(5, 3)


def test_self_motion_leads_away_from_position_limits() -> None:
    """The step minus J⁺e does not move the frame; it moves a joint near its limit inwards."""
    robot, rng, away = load("panda"), np.random.default_rng(2), 0
    servo = Servo(robot, dt=0.001, step=Yielding())
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    for _ in range(40):
        j = int(rng.integers(7))
        at, span = q.copy(), robot.upper[j] - robot.lower[j]
        at[j] = robot.upper[j] - 0.02 * span
        J = robot.jacobian(at)
        _, sigma, V = np.linalg.svd(J)
        if sigma[-1] < 0.15 or abs(V[6, j]) < 0.05:
            continue
        twist = 0.1 * rng.normal(size=6)
        servo.reset()
        servo(at, twist)
        added = servo._step - np.linalg.pinv(J) @ twist
        np.testing.assert_allclose(J @ added, 0, atol=1e-12)
        assert added[j] < 0
        away += 1
    assert away >= 5


def test_two_servos_with_one_yielding_step_move_alike() -> None:
    """Called directly with a linearization, which has no limits, the step returns J⁺e."""
    robot, rng = load("ur5e"), np.random.default_rng(3)
    one = Servo(robot, dt=0.004, step=Yielding())
    other = Servo(robot, dt=0.004, step=one.step)
    p = q = np.array([0.3, -1.1, 1.2, -0.9, 0.02, 0.2])
    for _ in range(100):
        twist = 0.1 * rng.normal(size=6)
        p, q = one(p, twist), other(q, twist)
        np.testing.assert_array_equal(p, q)
    lin = linearize(robot, PoseTask(), [0.3, -1.1, 1.2, -0.9, 0.9, 0.2], velocity=twist)
    np.testing.assert_allclose(lin.J @ Yielding()(lin), twist, atol=1e-12)
