"""Gradients of kinematics, steps and solutions agree with central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import generated
import supple
from cases import each
from floating import floating_arm, rescaled
from gpu_kernels import tree
from sizes import nightly
from supple import _core
from supple.ik.adjoints import AT_LIMIT, DAMPING, DifferentiableFrames, DifferentiableSolver
from supple.kinematics.configuration import configuration_gradient, to_kernel, velocity_gradient

Array = np.ndarray
H = 1e-5
ROBOTS: dict[str, Callable[[], supple.Robot]] = {
    "panda": lambda: supple.load("panda"),
    "two arms, with mimic and sliding joints": tree,
    "floating base and ball joints": floating_arm,
}


def rates(function: Callable[[Array], Array], x: Array) -> Array:
    """Return the derivatives (rows, columns) of the loss of each row, by central differences."""
    steps = H * np.eye(x.shape[-1])
    return np.stack([(function(x + h) - function(x - h)) / (2 * H) for h in steps], axis=-1)


def close(found: Array, expected: Array, room: float = 1e-6) -> None:
    assert np.abs(found - expected).max() <= room * (1 + np.abs(expected).max())


def hold(robot: supple.Robot, seed: int) -> None:
    """Check adjoints of fk, Jacobian and step by central differences, at four random q."""
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


@each("name", ROBOTS)
def test_gradients_of_kinematics_and_steps_agree_with_central_differences(name: str) -> None:
    """The robots include some with quaternions, which may have any length."""
    for seed in range(nightly(40, 2)):
        hold(floating_arm(seed) if name.startswith("floating") else ROBOTS[name](), seed)


def test_the_gradient_of_a_solution_with_quaternions_agrees_with_differences() -> None:
    """The robot is redundant and has ball joints and prismatic joints of some unit of length."""
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


def by_singular_values(
    known: DifferentiableSolver, q: Array, q_bar: Array, damping: float
) -> tuple[Array, Array]:
    """Return the gradients with respect to the twists (k, 6) of the targets and to
    q0, by an SVD.
    """
    robot = known.solver.robot
    x = to_kernel(robot, q)
    free = (x > robot.lower + AT_LIMIT) & (x < robot.upper - AT_LIMIT)
    scale = free * (np.ones(robot.nv) if known.joint_scale is None else known.joint_scale)
    J = known.frames.jacobian(q).reshape(-1, 6, robot.nv) * scale
    if known.positions:
        J = J[:, :3]
    rows = np.ones(J.shape[1])
    norms = np.linalg.norm(J[:, :3]), np.linalg.norm(J[:, 3:])
    if norms[0] > 0 and norms[1] > 0:
        rows[:3] = norms[1] / norms[0]
    J = (J * rows[:, None]).reshape(-1, robot.nv)
    v_bar = scale * velocity_gradient(robot, q[None], q_bar[None])[0]
    U, sigma, Vt = np.linalg.svd(J, full_matrices=False)
    damped = sigma**2 + (damping * np.linalg.norm(J)) ** 2
    x_bar = U @ ((sigma * (Vt @ v_bar)) / np.where(damped > 0, damped, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        v0_bar = np.where(scale > 0, (v_bar - J.T @ x_bar) / scale, 0)
    twists = np.zeros((known.frames.count, 6))
    twists[:, : len(rows)] = x_bar.reshape(-1, len(rows)) * rows
    return twists, configuration_gradient(robot, q[None], v0_bar[None])[0]


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("draw", [generated.robot, floating_arm])
def test_the_gradient_of_a_solution_agrees_with_a_singular_value_decomposition(
    draw: Callable[[int], supple.Robot], positions: bool
) -> None:
    """Robots are random, of any size, with one or more tips; some joints are at their limits."""
    kind = supple.PositionTask if positions else supple.PoseTask
    damping, met, held = 1e-2, 0, 0
    for seed in range(nightly(400, 20)):
        robot, rng = draw(seed), np.random.default_rng(seed)
        if not robot.nv:
            continue
        known = DifferentiableSolver.of(supple.Solver(robot, [kind(tip) for tip in robot.tips]))
        q = robot.random(3, seed=seed)
        if robot.nq == robot.nv:
            ends = np.where(rng.random(q.shape) < 0.5, robot.lower, robot.upper)
            at_end = (rng.random(q.shape) < 0.2) & np.isfinite(ends)
            q, held = np.where(at_end, ends, q), held + int(at_end.sum())
        q_bar = rng.normal(size=q.shape)
        T_bar, q0_bar = known.adjoint(q, np.ones(3, bool), q_bar, damping)
        T_bar = T_bar.reshape(3, known.frames.count, *known.target_shape[len(known.axes) :])
        T = known.frames.fk(q).reshape(3, -1, 4, 4)
        for i in range(3):
            twists, seeds = by_singular_values(known, q[i], q_bar[i], damping)
            np.testing.assert_allclose(q0_bar[i], seeds, atol=1e-8 * (1 + np.abs(seeds).max()))
            for R, bar, twist in zip(T[i, :, :3, :3], T_bar[i], twists, strict=True):
                p_bar = bar if positions else bar[:3, 3]
                size = np.abs(twists).max(axis=0) + 1e-300
                np.testing.assert_allclose(p_bar, twist[:3], atol=1e-8 * size[:3].max())
                if not positions:
                    W = bar[:3, :3] @ R.T
                    assert np.abs(W + W.T).max() <= 1e-12 * (1 + np.abs(W).max())
                    w = W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]
                    np.testing.assert_allclose(w, twist[3:], atol=1e-8 * size[3:].max())
            met += 1
    assert met > 50
    assert held > 0 or draw is floating_arm


def test_the_gradient_of_a_solution_runs_on_the_number_of_threads_of_the_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, adjoint = [], _core.solution_adjoint

    def seen(*given: object, threads: int, **more: object) -> object:
        used.append(threads)
        return adjoint(*given, threads=threads, **more)

    monkeypatch.setattr(_core, "solution_adjoint", seen)
    robot = supple.load("ur5e")
    q = robot.random(2, seed=0)
    for threads in (1, 3):
        known = DifferentiableSolver.of(supple.Solver(robot, threads=threads))
        known.adjoint(q, np.ones(2, bool), q, DAMPING)
    assert used == [1, 3]


@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_are_finite_at_limits_singularities_and_out_of_reach(name: str) -> None:
    """Gradients have no NaN at limits, at singular configurations and for targets
    that are missed.
    """
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
            straight = np.clip(0.0, low, high)  # for many arms, zero is singular
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
