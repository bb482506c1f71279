"""The extended Jacobian J_e keeps an optimum of a criterion, and may be singular itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

import supple
from sizes import nightly
from solving import solve
from supple import DLS, PoseTask, PositionTask, Robot, criteria, damping
from supple.errors import InputError
from supple.redundancy import extended_task
from supple.steps import Pseudoinverse

Array = np.ndarray
FOUR = supple.load("planar4")
FLAT = PositionTask(rows=("x", "y"))
PANDA = supple.load("panda")
STEP = DLS(damping.Constant(0.0))


def projected_gradient(robot: Robot, task: supple.PoseTask, q: Array, gradient: Array) -> Array:
    """Return (I - J⁺J)∇h, by NumPy."""
    J = task.linearize(robot, q).J
    return gradient - np.linalg.pinv(J) @ (J @ gradient)


@pytest.mark.parametrize("robot", ["four", "panda"])
def test_the_added_rows_of_the_extended_jacobian_are_derivatives_of_g(robot: str) -> None:
    """G is the gradient of the criterion h in the null space: G = 0 where N∇h = 0, N = I - J⁺J."""
    arm, task = (FOUR, FLAT) if robot == "four" else (PANDA, PoseTask())
    rng = np.random.default_rng(3)
    rest = rng.uniform(-0.5, 0.5, arm.dof)
    criterion = criteria.RestPosture(rest)
    rows = extended_task(arm, task, criterion).on(arm)
    for _ in range(5):
        q = rng.uniform(-1.0, 1.0, arm.dof) + (0 if robot == "four" else arm.neutral())
        G, slopes = rows.linear(q)
        numeric = [(rows.value(q + d) - rows.value(q - d)) / 2e-5 for d in 1e-5 * np.eye(arm.dof)]
        # If G has several rows, their derivative includes the rotation of the null-space basis.
        J = task.linearize(arm, q).J
        assert len(J) + len(G) == arm.dof
        left = projected_gradient(arm, task, q, criterion(q))
        assert np.linalg.norm(G) == pytest.approx(np.linalg.norm(left), abs=1e-12)
        if len(G) == 1:  # the basis of a one-dimensional null space does not rotate
            np.testing.assert_allclose(slopes, np.array(numeric).T, atol=1e-7)


def track_circle(arm: Robot, task: supple.PoseTask, q0: Array, dt: float) -> tuple[float, float]:
    """Follow a circle from the optimum near q0; return max |N∇h| and the change of q over it."""
    criterion = criteria.RestPosture(q0 + 0.1)
    extra = extended_task(arm, task, criterion)
    T = arm.fk(q0)
    full = type(task) is PoseTask
    zero = np.zeros(len(extra.rows_of(arm)))

    def target(t: float) -> list[Array]:
        P = T.copy()
        P[:2, 3] += 0.03 * np.array([math.sin(2 * math.pi * t), math.cos(2 * math.pi * t) - 1])
        return [P if full else P[:3, 3], zero]

    start = solve(arm, target(0.0), tasks=[task, extra], q0=q0, max_seeds=1)
    assert start, start
    motion = supple.simulate(
        arm,
        start.q,
        target=target,
        tasks=[task, extra],
        dt=dt,
        duration=1.0,
        gain=1 / dt,
        step=STEP,
        limits=supple.Limits.none(arm),
    )
    worst = max(
        float(np.linalg.norm(projected_gradient(arm, task, q, criterion(q)))) for q in motion.q[1:]
    )
    return worst, float(np.abs(motion.q[-1] - motion.q[0]).max())


def test_a_four_link_arm_with_an_extended_jacobian_keeps_the_optimum() -> None:
    """On a circle, |N∇h| stays below 1e-6, and the joints return to their initial values."""
    worst, gap = track_circle(FOUR, FLAT, np.array([0.3, 0.5, 0.6, 0.4]), nightly(1e-3, 2e-3))
    assert worst < 1e-6
    assert gap < 1e-5


def test_a_seven_joint_arm_with_an_extended_jacobian_keeps_the_optimum() -> None:
    """For a pose task of an arm with seven joints, |N∇h| stays below 1e-6 on a circle."""
    q0 = np.array([0.1, 0.3, 0.1, -1.8, 0.2, 2.0, 0.5])
    worst, gap = track_circle(PANDA, PoseTask(), q0, 2e-3)
    assert worst < 1e-6
    assert gap < 1e-5


def test_an_algorithmic_singularity_lies_between_minimum_and_maximum() -> None:
    """On the self-motion from minimum to maximum, det J_e changes its sign; J has full rank."""
    arm = supple.load("planar3")
    task = FLAT
    rows = extended_task(arm, task, criteria.RestPosture(np.array([0.2, 0.9, 0.4]))).on(arm)

    def determinant(q: Array) -> float:
        return float(np.linalg.det(np.vstack([task.linearize(arm, q).J, rows.linear(q)[1]])))

    q = np.array([0.2, 0.9, 0.4])
    p, signs, sizes, before = arm.fk(q)[:3, 3], [], [], np.zeros(3)
    for _ in range(400):  # once around the self-motion
        lin = task.linearize(arm, q, p)
        tangent = np.linalg.svd(lin.J)[2][2]
        if tangent @ before < 0:
            tangent = -tangent
        before = tangent
        q = q + 0.03 * tangent + Pseudoinverse()(lin)
        signs.append(determinant(q) > 0)
        sizes.append(task.linearize(arm, q).sigma_min)
    assert len(set(signs)) == 2
    assert min(sizes) > 0.05  # J itself stays regular


def test_extended_task_refuses_robots_without_redundancy_and_criteria_of_wrong_shape() -> None:
    """Errors say that tasks must leave a free joint motion, and what a criterion must return."""
    with pytest.raises(InputError, match="fewer rows than the robot has joints, 7; given: 9"):
        extended_task(PANDA, [PoseTask(), PositionTask()], criteria.RestPosture(PANDA.neutral()))
    with pytest.raises(InputError, match="criterion must be callable"):
        extended_task(PANDA, PoseTask(), 3)  # type: ignore[arg-type]
    short = extended_task(PANDA, PoseTask(), lambda q: q[:2])
    with pytest.raises(InputError, match=r"gradient of shape \(7,\); given: \(2,\)"):
        supple.linearize(PANDA, short, PANDA.neutral())
