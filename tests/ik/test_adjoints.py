"""Gradients through kinematics, steps and solutions, against central differences and NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import supple
from generated import robot as random_robot
from generated import seeds
from supple import _core
from supple.ik.adjoints import DifferentiableFrames, DifferentiableSolver

CASES = int(float(os.environ.get("SUPPLE_GRADIENTS", "1e5")))  # rows that must have no NaN
H = 1e-6

Array = np.ndarray


def some(seed: int, rows: int = 9) -> tuple[supple.Robot, Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, size=1.0)
    return robot, rng.uniform(-1.5, 1.5, (rows, robot.nq)), rng


def differences(function: Callable[[Array], Array], x: Array) -> Array:
    """Return the gradients (..., n) of a function of rows by central differences."""
    steps = H * np.eye(x.shape[-1])
    return np.stack([(function(x + h) - function(x - h)) / (2 * H) for h in steps], axis=-1)


def near(found: Array, expected: Array, tolerance: float = 1e-6) -> None:
    assert np.abs(found - expected).max() <= tolerance * (1 + np.abs(expected).max())


@pytest.mark.parametrize("seed", seeds(20))
def test_gradients_through_poses_and_jacobians_are_central_differences(seed: int) -> None:
    robot, q, rng = some(seed)
    frames = DifferentiableFrames.of(robot, robot.frames[-1] if seed % 2 else None)
    for name in ("fk", "jacobian"):
        run = getattr(frames, name)
        bar = rng.normal(size=run(q).shape)
        axes = tuple(range(1, bar.ndim))
        found = getattr(frames, f"{name}_adjoint")(q, bar)
        near(found, differences(lambda x: (run(x) * bar).sum(axis=axes), q))  # noqa: B023


@pytest.mark.parametrize("seed", seeds(12))
def test_gradients_through_a_step_are_central_differences(seed: int) -> None:
    robot, q, rng = some(seed)
    frames, lambda2 = DifferentiableFrames.of(robot, robot.frames[-1]), 0.1
    x, bar = rng.normal(size=(len(q), 6)), rng.normal(size=q.shape)
    q_bar, x_bar = frames.step_adjoint(q, x, bar, lambda2)
    near(q_bar, differences(lambda at: (frames.step(at, x, lambda2) * bar).sum(axis=-1), q))
    near(x_bar, differences(lambda at: (frames.step(q, at, lambda2) * bar).sum(axis=-1), x))
    rule = supple.DLS(supple.damping.Constant(lambda2))
    near(frames.step(q, x, lambda2), rule.velocities(robot, q, x, frame=robot.frames[-1]), 1e-10)


def transcription(J: Array, q_bar: Array, damping: float) -> tuple[Array, Array]:
    """Return the gradients with respect to a twist and q0, by a singular value decomposition."""
    v, w = np.linalg.norm(J[:3]), np.linalg.norm(J[3:])
    D = np.diag([w / v if v > 0 and w > 0 else 1.0] * 3 + [1.0] * 3)
    U, sigma, Vt = np.linalg.svd(D @ J, full_matrices=False)
    lambda2 = damping**2 * (sigma**2).sum()
    gain = np.divide(sigma, sigma**2 + lambda2, out=np.zeros_like(sigma), where=sigma > 0)
    x = U @ (gain * (Vt @ q_bar))
    return D @ x, q_bar - (D @ J).T @ x


@pytest.mark.parametrize("name", ["panda", "ur5e", "iiwa14", "puma560", "stanford", "youbot"])
@pytest.mark.parametrize("damping", [1e-5, 0.1])
def test_the_gradient_of_a_solution_is_its_formula_with_joints_at_limits_fixed(
    name: str, damping: float
) -> None:
    robot, rng = supple.load(name), np.random.default_rng(5)
    solver = DifferentiableSolver.of(supple.Solver(robot))
    q = robot.lower + (robot.upper - robot.lower) * rng.uniform(0.1, 0.9, (40, robot.nq))
    q[20:, 1] = robot.upper[1]  # one joint at a limit, then two
    q[30:, 2] = robot.lower[2]
    bar = rng.normal(size=q.shape)
    T_bar, q0_bar = solver.adjoint(q, np.ones(40, bool), bar, damping)
    T, J = robot.fk_jacobian(q)
    for i in range(40):
        free = (q[i] > robot.lower + 1e-6) & (q[i] < robot.upper - 1e-6)
        x, expected = transcription(J[i] * free, bar[i] * free, damping)
        size = 1 + np.abs(x).max()
        np.testing.assert_allclose(q0_bar[i], expected, atol=1e-5 * size)
        np.testing.assert_allclose(T_bar[i, :3, 3], x[:3], atol=1e-5 * size)
        for k, axis in enumerate(np.eye(3)):  # any rotation of the target has the right derivative
            turned = np.cross(axis, T[i, :3, :3], axisb=0).T
            assert (T_bar[i, :3, :3] * turned).sum() == pytest.approx(x[3 + k], abs=1e-5 * size)
        assert (T_bar[i, 3] == 0).all()


def test_a_joint_at_a_limit_has_the_gradient_of_a_robot_without_that_joint() -> None:
    robot = supple.load("panda")
    q = np.array([0.3, -0.5, 0.2, -1.9, 0.1, 1.4, robot.upper[6]])
    welded = robot.freeze({robot.joint_names[6]: robot.upper[6]})
    bar = np.random.default_rng(1).normal(size=(1, 7))
    both = [
        DifferentiableSolver.of(supple.Solver(one)).adjoint(at[None], np.ones(1, bool), b, 1e-5)
        for one, at, b in ((robot, q, bar), (welded, q[:6], bar[:, :6]))
    ]
    near(both[0][0], both[1][0], 1e-4)


def test_targets_that_are_not_met_have_zero_gradients() -> None:
    robot = supple.load("panda")
    solver = DifferentiableSolver.of(supple.Solver(robot))
    far = np.tile(np.eye(4), (3, 1, 1))
    far[:, 0, 3] = 5.0
    q, success = solver.solve(far, None)
    T_bar, q0_bar = solver.adjoint(q, success, np.ones_like(q), 1e-5)
    assert not success.any()
    assert not T_bar.any()
    assert not q0_bar.any()


def test_one_row_and_a_batch_have_gradients_with_the_same_bits() -> None:
    robot, q, rng = some(3, rows=37)
    frames = DifferentiableFrames.of(robot, None)
    solver = DifferentiableSolver.of(supple.Solver(robot))
    bar, J_bar = rng.normal(size=q.shape), rng.normal(size=frames.jacobian(q).shape)
    met = np.ones(37, bool)
    found = frames.jacobian_adjoint(q, J_bar), *solver.adjoint(q, met, bar, 1e-5)
    for i in (0, 17, 36):
        at = slice(i, i + 1)
        one = solver.adjoint(q[at], met[at], bar[at], 1e-5)
        alone = frames.jacobian_adjoint(q[at], J_bar[at]), *one
        for every, single in zip(found, alone, strict=True):
            np.testing.assert_array_equal(every[i], single[0])


def test_gradients_are_finite_at_limits_singularities_and_out_of_reach() -> None:
    rows = 512
    for seed in range(-(-CASES // (2 * rows))):
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        solver = DifferentiableSolver.of(supple.Solver(robot, frame=robot.frames[-1], max_seeds=4))
        low = np.where(np.isfinite(robot.lower), robot.lower, -2.0)
        high = np.where(np.isfinite(robot.upper), robot.upper, 2.0)
        q = low + np.maximum(high - low, 0) * rng.choice(
            [0, 0.5, 1, rng.random()], (rows, robot.nq)
        )
        q *= rng.choice([0.0, 1.0], (rows, 1), p=[0.1, 0.9])
        bar = rng.normal(size=q.shape) * 10.0 ** rng.integers(-6, 6, (rows, 1))
        found = [*solver.adjoint(q, rng.random(rows) < 0.9, bar, 1e-5)]
        if seed % 8 == 0:  # solutions of targets in and out of reach
            T = solver.frames.fk(q[:32])[:, 0]
            T[::2, :3, 3] *= 3.0
            x, success = solver.solve(T, None)
            found += solver.adjoint(x, success, bar[:32], 1e-5)
        frames = DifferentiableFrames.of(robot, robot.frames[-1])
        found.append(frames.jacobian_adjoint(q, rng.normal(size=(rows, 6, robot.nq))))
        assert all(np.isfinite(one).all() for one in found), seed


def test_adjoints_reject_arrays_of_other_shapes() -> None:
    robot = supple.load("planar3")
    with pytest.raises(TypeError, match=r"shape \(2, 16\)"):
        _core.kinematics_adjoint(robot._chain(None), np.zeros((2, 3)), np.zeros((2, 9)), None, 1, 1)
