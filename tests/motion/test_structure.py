"""Laws of weighted steps and of the alternate Jacobian."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from batch_steps import in_kernel
from supple import DLS, Linearization, damping
from supple.steps import (
    AdaptiveErrorClamp,
    Pseudoinverse,
    WeightedDLS,
    alternate_jacobian,
)

Array = np.ndarray
SHAPES = [(2, 3), (3, 2), (6, 6), (6, 7), (6, 5)]
RULES = [
    damping.Constant(0.04),
    damping.Constant(1.0),
    damping.SpeedBound(3.0),
    damping.Region(0.04, 0.8),
    damping.Optimal(0.7),
]


def definite(rng: np.random.Generator, n: int) -> Array:
    A = rng.normal(size=(n, n))
    return A @ A.T + 0.1 * np.eye(n)


def jacobians(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return Jacobians (9, m, n), some of them singular or zero."""
    J = rng.normal(size=(9, *shape))
    J[3:6, -1] = J[3:6, 0]
    J[6, :, -1] = J[6, :, 0]
    J[8] = 0
    return J


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_weighted_steps_solve_the_weighted_normal_equations(
    rule: damping.DampingRule, shape: tuple[int, int]
) -> None:
    """(JᵀW₁J + λ²W₂) q̇ = JᵀW₁e, where λ² is that of the rule for the scaled J and e."""
    m, n = shape
    rng = np.random.default_rng(shape)
    diagonal = rng.uniform(0.1, 5, m), rng.uniform(0.1, 5, n)
    full = definite(rng, m), definite(rng, n)
    for J in jacobians(rng, shape):
        e = rng.normal(size=m)
        for task, joint in (diagonal, full, (diagonal[0], full[1]), (None, full[1])):
            W1 = np.eye(m) if task is None else np.diag(task) if task.ndim == 1 else task
            W2 = np.diag(joint) if joint.ndim == 1 else joint
            values, vectors = np.linalg.eigh(W1)
            root = vectors * np.sqrt(values) @ vectors.T
            other, axes = np.linalg.eigh(W2)
            back = axes / np.sqrt(other) @ axes.T
            lambda2 = rule(Linearization(root @ J @ back, root @ e))
            dq = WeightedDLS(rule, task, joint)(Linearization(J, e))
            assert np.isfinite(dq).all()
            A = J.T @ W1 @ J + lambda2 * W2
            off = np.linalg.norm(A @ dq - J.T @ W1 @ e)
            size = np.linalg.norm(A) * np.linalg.norm(dq) + np.linalg.norm(J.T @ W1 @ e)
            assert off <= 1e-10 * max(size, 1e-300)


def test_weights_of_one_give_the_unweighted_step() -> None:
    rng = np.random.default_rng(1)
    lin = Linearization(rng.normal(size=(3, 4)), rng.normal(size=3))
    plain = DLS(damping.Constant(0.1))(lin)
    for weights in ((None, None), (np.ones(3), np.ones(4)), (np.eye(3), np.eye(4))):
        step = WeightedDLS(damping.Constant(0.1), *weights)
        np.testing.assert_allclose(step(lin), plain, rtol=1e-12)


@pytest.mark.parametrize("isa", supple._core.isas())
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weighted_and_directed_steps_of_a_batch_agree_with_python(
    shape: tuple[int, int], dtype: type, isa: str
) -> None:
    m, n = shape
    rng = np.random.default_rng(shape)
    task, joint = rng.uniform(0.5, 2, m), rng.uniform(0.5, 2, n)
    J, e = jacobians(rng, shape).astype(dtype), rng.normal(size=(9, m)).astype(dtype)
    direction = tuple(rng.normal(size=m))
    rules = [damping.Constant(0.04), damping.Region(0.04, 0.8)]
    chosen = supple._core.isa()
    for step in (
        *(WeightedDLS(rule, task, joint) for rule in rules),
        WeightedDLS(rules[0], None, joint),
        WeightedDLS(rules[0], task),
        DLS(damping.Region(0.04, 1.5, direction, 0.2)),
        WeightedDLS(damping.Region(0.04, 1.5, direction, 0.2), task, joint),
    ):
        supple._core.use_isa(isa)
        try:
            there, lambda2 = in_kernel(step, J, e)
        finally:
            supple._core.use_isa(chosen)
        assert there.dtype == lambda2.dtype == dtype
        for i in range(len(J)):
            here = step(Linearization(J[i], e[i]))
            np.testing.assert_allclose(there[i], here, atol=1e-11 if dtype is np.float64 else 2e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WeightedDLS(0.1),  # type: ignore[arg-type]
        lambda: WeightedDLS(damping.Constant(1.0), [1.0, 0.0]),
        lambda: WeightedDLS(damping.Constant(1.0), None, [[1.0, 2.0], [2.0, 1.0]]),
        lambda: WeightedDLS(damping.Constant(1.0), None, [[1.0, 0.5], [0.0, 1.0]]),
        lambda: WeightedDLS(damping.Constant(1.0), [np.nan]),
        lambda: WeightedDLS(damping.Constant(1.0), [1.0, 1.0])(
            Linearization(np.ones((3, 2)), np.ones(3))
        ),
        lambda: in_kernel(WeightedDLS(damping.Constant(1.0), np.eye(2)), np.eye(2), np.ones(2)),
        lambda: in_kernel(WeightedDLS(damping.Constant(1.0), np.ones(3)), np.eye(2), np.ones(2)),
        lambda: AdaptiveErrorClamp(Pseudoinverse(), 0.0),
        lambda: AdaptiveErrorClamp(Pseudoinverse()).step(
            Linearization(np.eye(6), np.ones(6)), np.ones(3)
        ),
    ],
)
def test_weighted_steps_refuse_bad_input(make: object) -> None:
    with pytest.raises(supple.errors.InputError, match="given"):
        make()  # type: ignore[operator]


# ---- the alternate Jacobian --------------------------------------------------------------------


def axes_of(robot: supple.Robot, q: Array) -> list[tuple[Array, Array]]:
    """Return the axis of each revolute joint and a point on the axis, by differences of fk."""
    found = []
    for j in range(robot.dof):
        h = 1e-5 * np.eye(robot.dof)[j]
        ahead, behind = robot.fk(q + h), robot.fk(q - h)
        D = (ahead - behind) / 2e-5 @ np.linalg.inv(robot.fk(q))
        w = np.array([D[2, 1], D[0, 2], D[1, 0]])
        found.append((w, np.cross(w, D[:3, 3])))  # the velocity of the world's origin is w × -p
    return found


@pytest.mark.parametrize("name", ["puma560", "ur5e", "iiwa14"])
def test_the_alternate_jacobian_has_the_columns_of_its_definition(name: str) -> None:
    robot, rng = supple.load(name), np.random.default_rng(4)
    q, target = robot.random(seed=rng), rng.normal(size=3)
    columns = [np.cross(v, target - p) for v, p in axes_of(robot, q)]
    J = alternate_jacobian(robot, q, None, target)
    np.testing.assert_allclose(J, np.transpose(columns), atol=1e-8)


@pytest.mark.parametrize("name", ["puma560", "stanford", "y", "double_y"])
def test_at_the_target_the_alternate_jacobian_is_the_ordinary_one(name: str) -> None:
    robot = supple.load(name)
    q = robot.random(4, seed=np.random.default_rng(5))
    poses, J = robot.fk_jacobian(q)
    there = alternate_jacobian(robot, q, None, poses[..., :3, 3])
    np.testing.assert_array_equal(there, J[..., :3, :])
    with pytest.raises(supple.errors.InputError, match="target"):
        alternate_jacobian(robot, q, None, np.ones(2))


def test_prismatic_joints_keep_their_columns_in_the_alternate_jacobian() -> None:
    robot = supple.load("stanford")
    q = robot.random(seed=np.random.default_rng(6))
    J, there = robot.jacobian(q), alternate_jacobian(robot, q, None, np.ones(3))
    np.testing.assert_array_equal(there[:, robot.prismatic], J[:3, robot.prismatic])
