"""The arrays of a Trajectory describe its motion."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from loops import Array, moved, pose_of, robot
from supple import (
    DLS,
    Limits,
    PoseTask,
    PositionTask,
    Servo,
    StepStatus,
    Trajectory,
    damping,
    simulate,
)
from supple.tasks.evaluation import linearize

Q = np.array([0.2, 0.1, -0.1, -1.9, 0.1, 2.0, 0.6])
TASK = PoseTask(rows=("x", "y", "z", "rx", "ry"), weight=(2.0, 1.0, 0.5, 1.0, 3.0))
WEIGHTS = np.array([2.0, 1.0, 0.5, 1.0, 3.0])


def target(t: float) -> Array:
    """Return the target at time t of a motion that is at times too fast for the arm."""
    return moved(pose_of("panda", Q), np.array([0.3 * t, 0.2 * np.sin(9 * t), -0.1 * t]))


def motion(order: int = 1, **more: Any) -> Trajectory:
    arm = robot("panda")
    limits = Limits.for_robot(arm, speed_factor=0.3, max_norm=0.9, max_acceleration=30.0)
    given: dict[str, Any] = {"target": target, "tasks": TASK, "dt": 0.01, "duration": 1.0}
    return simulate(arm, Q, order=order, limits=limits, **(given | more))


@pytest.mark.parametrize("order", [1, 2])
def test_arrays_of_a_trajectory_have_the_documented_shapes(order: int) -> None:
    result = motion(order)
    K, n, m = 100, 7, 5
    shapes = {
        "t": (K + 1,), "q": (K + 1, n), "qd": (K, n), "lambda2": (K,), "sigma_min": (K,),
        "command": (K, m), "velocity": (K, m), "error": (K, m), "active": (K, n), "status": (K,),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(result, name)
        assert array.shape == shape, name
        assert np.isfinite(array).all(), name
    assert len(result) == K
    assert len(result.rows) == m
    np.testing.assert_allclose(result.t, 0.01 * np.arange(K + 1), rtol=1e-15)
    np.testing.assert_array_equal(result.q[0], Q)


@pytest.mark.parametrize("order", [1, 2])
def test_arrays_of_a_trajectory_agree_with_the_robots_kinematics(order: int) -> None:
    result, arm = motion(order), robot("panda")
    np.testing.assert_allclose(result.q[1:], result.q[:-1] + 0.01 * result.qd, rtol=0, atol=1e-15)
    for k in range(0, 100, 7):
        lin = linearize(arm, TASK, result.q[k], target(result.t[k]))
        J, e = lin.J, lin.e
        sigma = np.linalg.svd(J, compute_uv=False)
        assert result.sigma_min[k] == pytest.approx(sigma[-1], abs=1e-14)
        np.testing.assert_allclose(result.velocity[k], J @ result.qd[k] / WEIGHTS, atol=1e-13)
        after = linearize(arm, TASK, result.q[k + 1], target(result.t[k + 1])).e / WEIGHTS
        np.testing.assert_allclose(result.error[k], after, rtol=0, atol=1e-14)
        if order == 1:
            shift = np.asarray(target(result.t[k + 1]) - target(result.t[k]))[:3, 3] / 0.01
            asked = 20 * e / WEIGHTS + np.concatenate([shift, [0, 0]])
            np.testing.assert_allclose(result.command[k], asked, rtol=0, atol=1e-11)


@pytest.mark.parametrize("mode", ["exact", "scale"])
@pytest.mark.parametrize(
    ("speed", "bound", "seen"), [(1.0, 0.3, StepStatus.DAMPED), (0.2, 2.0, StepStatus.SPEED_LIMIT)]
)
def test_the_status_of_each_step_agrees_with_its_active_limits(
    mode: Any, speed: float, bound: float, seen: StepStatus
) -> None:
    """Some step has the expected status."""
    arm = robot("panda")
    limits = Limits.for_robot(arm, speed_factor=speed, max_norm=0.9, mode=mode)

    def faster(t: float) -> Array:
        return moved(pose_of("panda", Q), np.array([0.05 * t, 0.5 * max(t - 0.5, 0.0) ** 2, 0.0]))

    step = DLS(damping.Optimal(bound))
    result = simulate(
        arm, Q, target=faster, tasks=TASK, dt=0.01, duration=2.0, limits=limits, step=step
    )
    held = (result.active != 0).any(axis=1)
    np.testing.assert_array_equal((result.status & StepStatus.SPEED_LIMIT) != 0, held)
    following = result.status == StepStatus.FOLLOWING
    assert not result.lambda2[following].any()
    missed = np.linalg.norm(result.velocity - result.command, axis=1)
    assert following.any()
    assert (missed[following] < 1e-9).all()
    assert (result.status == seen).any()
    if mode == "exact":
        at = np.abs(np.abs(result.qd) - limits.max_speed) < 1e-12
        assert at[result.active != 0].all()
        assert (np.sign(result.qd)[result.active != 0] == result.active[result.active != 0]).all()


def test_simulate_gives_the_steps_of_a_servo() -> None:
    result, arm = motion(), robot("panda")
    limits = Limits.for_robot(arm, speed_factor=0.3, max_norm=0.9, max_acceleration=30.0)
    servo = Servo(arm, TASK, dt=0.01, limits=limits)
    q = Q
    for k, (now, then) in enumerate(itertools.pairwise(result.t)):
        v = np.zeros(6)
        v[:3] = (target(then) - target(now))[:3, 3] / (then - now)
        q = servo(q, v, target(now))
        np.testing.assert_allclose(result.q[k + 1], q, rtol=0, atol=1e-10)
        assert result.lambda2[k] == pytest.approx(servo.lambda2, rel=1e-5, abs=1e-9)
        assert result.status[k] == servo.status
        assert result.sigma_min[k] == pytest.approx(servo.sigma_min, abs=1e-12)
        np.testing.assert_array_equal(result.active[k], servo.active)


def test_commands_as_arrays_and_as_functions_give_equal_motions() -> None:
    t = 0.01 * np.arange(101)
    poses = np.array([target(x) for x in t])
    from_arrays = motion(target=poses, duration=None)
    np.testing.assert_array_equal(from_arrays.q, motion().q)
    v = np.array([0.05, 0.02, -0.04])
    arm = robot("panda")
    common: dict[str, Any] = {"tasks": PositionTask(), "dt": 0.01}
    one = simulate(arm, Q, velocity=np.tile(v, (50, 1)), **common)
    two = simulate(arm, Q, velocity=lambda t: v, duration=0.5, **common)
    np.testing.assert_array_equal(one.q, two.q)
    pushed = simulate(arm, Q, acceleration=np.tile(v, (50, 1)), order=2, **common)
    assert len(pushed) == 50


def test_a_simulation_with_qd0_starts_with_these_joint_speeds() -> None:
    arm = robot("panda")
    limits = Limits.for_robot(arm, max_acceleration=1.0)
    start = np.full(7, 0.3)
    result = simulate(
        arm, Q, velocity=lambda t: np.zeros(6), dt=0.01, duration=0.1, limits=limits, qd0=start
    )
    assert (np.abs(result.qd[0] - 0.3) <= 0.01 + 1e-12).all()
    assert np.linalg.norm(result.qd[-1]) < np.linalg.norm(result.qd[0]) < np.linalg.norm(start)


def test_the_text_of_a_trajectory_counts_steps_and_statuses() -> None:
    text = str(motion())
    for piece in ("100 steps in 1 s", "joint speeds: at most", "smallest singular value", "error:"):
        assert piece in text
    statuses = list(motion().status)
    for status in StepStatus.__members__.values():
        count = sum(status in one if status else not one for one in statuses)
        assert (f"{count} {status}" in text) == (count > 0)
