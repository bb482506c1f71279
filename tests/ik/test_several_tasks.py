"""A Servo with several tasks or end effectors, some of them without a command."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import each
from loops import Array, robot, run, somewhere
from supple import (
    DLS,
    AxisTask,
    Limits,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Servo,
    StepStatus,
    damping,
    simulate,
)
from supple.redundancy import Priority
from supple.tasks.evaluation import linearize

TIPS = (PositionTask("E0"), PositionTask("E1"))
Q = np.array([0.3, 0.5, -0.4, 0.3, 0.6, 0.4, -0.5])


def tips(q: Array) -> list[Array]:
    return [np.asarray(robot("y").fk(q, tip))[:3, 3] for tip in ("E0", "E1")]


@each("order", [1, 2])
def test_both_end_effectors_of_the_y_reach_their_targets(order: int) -> None:
    arm = robot("y")
    goals = tips(Q + 0.3 * np.cos(np.arange(7)))
    servo = Servo(arm, TIPS, dt=0.01, limits=Limits.none(arm), order=order)
    q, _ = run(servo, Q, 1000, target=goals)
    for at, goal in zip(tips(q[-1]), goals, strict=True):
        np.testing.assert_allclose(at, goal, atol=1e-7)


def test_the_default_tasks_of_a_servo_are_all_end_effectors() -> None:
    for name in ("y", "double_y", "panda"):
        servo = Servo(robot(name), dt=0.01)
        assert [task.frame for task in servo.tasks] == list(robot(name).tips)  # type: ignore[attr-defined]


def test_an_end_effector_with_target_none_stays_in_place() -> None:
    """It stays while the other end effector moves to its target."""
    arm = robot("y")
    q0 = somewhere("y")
    task = DLS(damping.Constant(1e-6))
    servo = Servo(arm, TIPS, dt=0.01, step=task, limits=Limits.none(arm))
    goal = tips(q0)[0] + [0.05, 0.02, -0.03]
    given = servo(q0, target=[goal, None])
    e = np.concatenate([servo.gain * (goal - tips(q0)[0]), np.zeros(3)])
    np.testing.assert_allclose(servo.linearization.e, e, rtol=0, atol=1e-12)
    servo.reset()
    np.testing.assert_array_equal(given, servo(q0, [None, None], [goal, None]))
    servo.reset()
    np.testing.assert_array_equal(given, servo(q0, None, (goal, None), None))
    v = np.array([0.1, 0.2, 0.3])
    servo(q0, [None, v], [goal, None])
    np.testing.assert_allclose(servo.linearization.e, np.concatenate([e[:3], v]), atol=1e-12)


def test_a_hand_reaches_its_target_and_a_posture_of_lower_priority_is_approached() -> None:
    """The posture ends as close as the task of the hand allows."""
    arm = robot("panda")
    q0 = np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6])
    rest = q0 + 0.4
    tasks = (PoseTask(), PostureTask())
    step = Priority(DLS(damping.Constant(1e-8)))
    servo = Servo(arm, tasks, dt=0.01, step=step, limits=Limits.none(arm))
    home = np.asarray(arm.fk(q0))
    q, qd = run(servo, q0, 3000, target=[home, rest])
    np.testing.assert_allclose(arm.fk(q[-1]), home, atol=1e-6)
    assert np.linalg.norm(qd[-1]) < 1e-6
    # At the end, no motion in the null space of J brings the joints closer to the posture.
    way = rest - q[-1]
    null = np.linalg.svd(np.asarray(arm.jacobian(q[-1])))[2][-1]
    assert abs(null @ way) < 1e-4
    assert np.linalg.norm(way) < np.linalg.norm(rest - q0)


def test_an_end_effector_keeps_its_pose_relative_to_a_moving_one() -> None:
    arm = robot("y")
    tasks = (PositionTask("E0"), PositionTask("E1", base="E0"))
    q0 = Q

    def seen(q: Array) -> Array:
        A, B = (np.asarray(arm.fk(q, tip)) for tip in ("E0", "E1"))
        return np.asarray((np.linalg.inv(A) @ B)[:3, 3])

    keep, at = seen(q0), tips(q0)[0]
    servo = Servo(arm, tasks, dt=0.01, limits=Limits.none(arm))
    goal = at + np.array([-0.05, 0.04, 0.05])
    q, _ = run(servo, q0, 1500, target=[goal, keep])
    np.testing.assert_allclose(seen(q[-1]), keep, atol=1e-7)
    np.testing.assert_allclose(tips(q[-1])[0], goal, atol=1e-7)


def test_every_kind_of_task_reaches_its_target() -> None:
    arm = robot("panda")
    q0, q1 = somewhere("panda", 1), somewhere("panda", 1) + 0.2 * np.sin(np.arange(7))
    T = np.asarray(arm.fk(q1))
    kinds: list[tuple[Any, Array]] = [
        (PoseTask(), T),
        (PoseTask(rows=("x", "z", "ry"), weight=(1.0, 2.0, 0.5), axes="body"), T),
        (PositionTask(weight=3.0), T[:3, 3]),
        (OrientationTask(), T[:3, :3]),
        (AxisTask(), T[:3, 2]),
        (PostureTask(weight=np.linspace(1, 2, 7)), q1),
    ]
    for task, target in kinds:
        servo = Servo(arm, task, dt=0.01)
        q, _ = run(servo, q0, 800, target=target)
        e = linearize(arm, task, q[-1], target).e
        assert np.abs(e).max() < 1e-6, task


def test_simulate_accepts_targets_of_several_tasks_with_none() -> None:
    """At each time, targets are a sequence with None for each task without a target."""
    arm = robot("y")
    start = tips(Q)

    def goal(t: float) -> list[Array | None]:
        return [start[0] + [0.02 * np.sin(t), 0.0, 0.0], None]

    result = simulate(
        arm, Q, target=goal, tasks=TIPS, dt=0.01, duration=1.0, limits=Limits.none(arm)
    )
    assert result.error.shape == (100, 6)
    assert not result.error[:, 3:].any()
    assert np.abs(result.error[:, :3]).max() < 1e-4
    assert len(result.rows) == 6
    assert all(status in StepStatus.DAMPED for status in result.status)
