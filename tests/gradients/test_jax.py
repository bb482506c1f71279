"""supple.jax: its functions work with jit and vmap, and grad agrees with central differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import supple
from floating import floating_arm, rescaled
from jax_doubles import doubles
from supple.errors import InputError

jax = pytest.importorskip("jax")
jnp = jax.numpy
sj = pytest.importorskip("supple.jax")

ROBOT = supple.load("ur5e")
SOLVER = supple.Solver(ROBOT, position_tolerance=1e-12, rotation_tolerance=1e-12)
Q = np.random.default_rng(0).uniform(0.4, 1.2, (3, 6))
H = 1e-5


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with doubles():
        yield


def moved(x: Any, q: Any) -> Any:
    """Return the pose at q, moved by a translation and a rotation about z, given by x."""
    c, s = jnp.cos(x[3]), jnp.sin(x[3])
    turn = jnp.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    shift = jnp.eye(4).at[:3, 3].set(x[:3])
    return shift @ ROBOT.fk(q) @ turn


def test_jax_gradients_of_a_target_agree_with_central_differences() -> None:
    def loss(x: Any) -> Any:
        q, success = sj.solve(SOLVER, moved(x, Q[0]), Q[0])
        return jnp.sin(q).sum() + success.sum()

    x = jnp.array([0.01, 0.02, -0.01, 0.1])
    steps = H * np.eye(4)
    expected = [(loss(x + h) - loss(x - h)) / (2 * H) for h in steps]
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda q: sj.fk(ROBOT, q)[..., :3, :].sum(axis=(-1, -2)),
        lambda q: (sj.jacobian(ROBOT, q) ** 2).sum(axis=(-1, -2)),
        lambda q: sj.step(ROBOT, q, jnp.sin(jnp.arange(6.0)), lambda2=0.1).sum(axis=-1),
    ],
)
def test_jax_gradients_of_kinematics_and_steps_agree_with_central_differences(
    function: Any,
) -> None:
    found = jax.vmap(jax.grad(function))(jnp.asarray(Q))
    steps = H * np.eye(6)
    rates = [(function(Q + h) - function(Q - h)) / (2 * H) for h in steps]
    np.testing.assert_allclose(found, np.stack(rates, axis=-1), rtol=1e-6, atol=1e-6)


def test_jax_gradients_of_robots_with_quaternions_agree_with_central_differences() -> None:
    robot = floating_arm(1)
    solver, q = supple.Solver(robot), jnp.asarray(rescaled(robot, robot.random(3, seed=1)))
    weights = jnp.sin(jnp.arange(robot.nv))

    def loss(p: Any) -> Any:
        qd = sj.step(robot, p, jnp.cos(jnp.arange(6.0)), lambda2=0.1)
        return (qd * weights).sum(-1) + (sj.jacobian(robot, p) ** 2).sum((-1, -2))

    found = jax.jit(jax.vmap(jax.grad(loss)))(q)
    steps = H * np.eye(robot.nq)
    rates = [(loss(q + h) - loss(q - h)) / (2 * H) for h in steps]
    np.testing.assert_allclose(found, np.stack(rates, axis=-1), rtol=1e-6, atol=1e-5)
    T = sj.fk(robot, q)
    bars = jax.grad(lambda t, x: sj.solve(solver, t, x)[0].sum(), argnums=(0, 1))(T, q)
    assert bars[0].shape == T.shape
    assert bars[1].shape == q.shape
    assert all(jnp.isfinite(bar).all() for bar in bars)


def test_jit_and_vmap_give_the_same_results_as_a_batch() -> None:
    T = sj.fk(ROBOT, Q)
    q, success = sj.solve(SOLVER, T, Q)
    assert success.all()
    np.testing.assert_array_equal(jax.jit(lambda t: sj.solve(SOLVER, t, Q)[0])(T), q)
    np.testing.assert_array_equal(jax.vmap(lambda t, x: sj.solve(SOLVER, t, x)[0])(T, Q), q)
    grad = jax.grad(lambda t: sj.solve(SOLVER, t, Q)[0].sum())(T.at[1, 0, 3].set(5.0))
    assert not grad[1].any()
    assert grad[0].any()


def test_malformed_arguments_of_jax_functions_raise_an_error() -> None:
    with pytest.raises(InputError, match="float32 or float64"):
        sj.fk(ROBOT, jnp.zeros(6, jnp.float16))
    with pytest.raises(InputError, match=r"shape \(..., 4, 4\)"):
        sj.solve(SOLVER, jnp.eye(3))
    with pytest.raises(InputError, match="batch axes"):
        sj.solve(SOLVER, jnp.eye(4), jnp.zeros((2, 6)))
