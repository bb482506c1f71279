"""Gradients of kinematics, steps and solutions agree with central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import supple
from floating import floating_arm, rescaled
from gpu_kernels import tree
from sizes import nightly
from supple.ik.adjoints import DAMPING, DifferentiableFrames, DifferentiableSolver

Array = np.ndarray
H = 1e-5
ROBOTS: dict[str, Callable[[], supple.Robot]] = {
    "panda": lambda: supple.load("panda"),
    "two arms, with mimic and sliding joints": tree,
    "floating base and ball joints": floating_arm,
}


def rates(function: Callable[[Array], Array], x: Array) -> Array:
    """Return central differences of a loss of each row, (rows, columns)."""
    steps = H * np.eye(x.shape[-1])
    return np.stack([(function(x + h) - function(x - h)) / (2 * H) for h in steps], axis=-1)


def close(found: Array, expected: Array, room: float = 1e-6) -> None:
    assert np.abs(found - expected).max() <= room * (1 + np.abs(expected).max())


def hold(robot: supple.Robot, seed: int) -> None:
    """Compare the gradients of four random configurations, losses and twists."""
    rng, frames = np.random.default_rng(seed), DifferentiableFrames.of(robot, None)
    q = rescaled(robot, robot.random(4, seed=seed), seed)
    T_bar = rng.normal(size=(4, *frames.axes, 4, 4))
    J_bar = rng.normal(size=(4, *frames.axes, 6, robot.nv))
    x, qd_bar = rng.normal(size=(4, *frames.axes, 6)), rng.normal(size=(4, robot.nv))

    def loss(bar: Array, value: Array) -> Array:
        return np.asarray((bar * value).reshape(4, -1).sum(axis=-1))

    close(frames.fk_adjoint(q, T_bar), rates(lambda p: loss(T_bar, frames.fk(p)), q))
    close(frames.jacobian_adjoint(q, J_bar), rates(lambda p: loss(J_bar, frames.jacobian(p)), q))
    q_bar, x_bar = frames.step_adjoint(q, x, qd_bar, 0.1)
    close(q_bar, rates(lambda p: loss(qd_bar, frames.step(p, x, 0.1)), q))

    def of_twist(p: Array) -> Array:
        return loss(qd_bar, frames.step(q, p.reshape(x.shape), 0.1))

    close(x_bar.reshape(4, -1), rates(of_twist, x.reshape(4, -1)))


@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_of_kinematics_and_steps_are_central_differences(name: str) -> None:
    """Also with respect to quaternions of any length."""
    for seed in range(nightly(40, 2)):
        hold(floating_arm(seed) if name.startswith("floating") else ROBOTS[name](), seed)


def test_the_gradient_of_a_solution_maps_to_quaternions() -> None:
    """Of a redundant arm with ball and sliding joints, also in its units of length."""
    robot = floating_arm(3)
    task = supple.PoseTask(robot.tips[0])
    solver = supple.Solver(robot, task, position_tolerance=1e-12, rotation_tolerance=1e-12)
    known = DifferentiableSolver.of(solver)
    q, rng = robot.random(6, seed=5), np.random.default_rng(5)
    T, weights = robot.fk(q), rng.normal(size=q.shape)

    def loss(p: Array) -> Array:
        moved = T.copy()
        moved[:, :3, 3] += p
        found, success = known.solve(moved, q)
        assert np.all(success)
        return (weights * found).sum(axis=-1)

    found, success = known.solve(T, q)
    target_bar, q0_bar = known.adjoint(found, success, weights, DAMPING)
    close(target_bar[:, :3, 3], rates(loss, np.zeros((6, 3))), 1e-4)

    def seeded(p: Array) -> Array:
        return (weights * known.solve(T, p)[0]).sum(axis=-1)

    close(q0_bar, rates(seeded, q), 1e-4)


@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_are_finite_at_limits_singularities_and_out_of_reach(name: str) -> None:
    """No gradient is NaN: at limits, at singular configurations, for targets that are not met."""
    robot, rng = ROBOTS[name](), np.random.default_rng(7)
    known = DifferentiableSolver.of(supple.Solver(robot, [supple.PoseTask(t) for t in robot.tips]))
    count = nightly(10_000_000, 4000)
    for first in range(0, count, 100_000):
        rows = min(count - first, 100_000)
        q = robot.random(rows, seed=rng)
        if robot.nq == robot.nv:
            ends = np.where(rng.random(q.shape) < 0.5, robot.lower, robot.upper)
            low, high = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
            q = np.where((rng.random(q.shape) < 0.2) & np.isfinite(ends), ends, q)
            straight = np.clip(0.0, low, high)  # singular for many arms
            q = np.where(rng.random(q.shape) < 0.3, straight, q)
        bar = rng.normal(size=q.shape)
        for got in known.adjoint(q, rng.random(rows) < 0.9, bar, DAMPING):
            assert np.isfinite(got).all()
        twist, qd_bar = (
            rng.normal(size=(rows, *known.frames.axes, 6)),
            rng.normal(size=(rows, robot.nv)),
        )
        assert np.isfinite(known.frames.step(q, twist, 1e-10)).all()
        for got in known.frames.step_adjoint(q, twist, qd_bar, 1e-10):
            assert np.isfinite(got).all()
