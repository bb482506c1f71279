"""Functions that are given arrays of PyTorch or JAX return arrays of the same library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from jax_doubles import doubles
from supple.errors import InputError

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

ROBOT = supple.load("ur5e")
for link in [joint.child for joint in ROBOT.description.joints]:
    ROBOT = ROBOT.with_inertia(link, 1.0, (0.0, 0.0, 0.1), 0.1 * np.eye(3))
FROZEN = ROBOT.freeze(ROBOT.joint_names[:1])
Q = np.random.default_rng(0).uniform(-1, 1, (3, 2, 6))
KINDS = {
    "torch": (torch.as_tensor, torch.Tensor, lambda x: x.numpy()),
    "jax": (jax.numpy.asarray, jax.Array, np.asarray),
}
CALLS: dict[str, Any] = {
    "fk": lambda q: ROBOT.fk(q),
    "jacobian": lambda q: ROBOT.jacobian(q),
    "both": lambda q: ROBOT.fk_jacobian(q)[1],
    "analytic": lambda q: ROBOT.analytic_jacobian(q),
    "torques": lambda q: ROBOT.joint_torques(q, np.ones(6)),
    "bias": lambda q: ROBOT.bias_acceleration(q, q),
    "jerk": lambda q: ROBOT.bias_jerk(q, q, q),
    "sigma": lambda q: ROBOT.singular_values(q),
    "manipulability": lambda q: ROBOT.manipulability(q),
    "inertia": lambda q: ROBOT.inertia_matrix(q),
    "gravity": lambda q: ROBOT.gravity_torques(q),
    "center": lambda q: ROBOT.center_of_mass(q),
    "momentum": lambda q: ROBOT.momentum(q, q),
    "momentum matrix": lambda q: ROBOT.momentum_matrix(q),
    "capture point": lambda q: ROBOT.capture_point(q, q),
    "full": lambda q: FROZEN.full_q(q[..., 1:]),
    "reduced": lambda q: FROZEN.reduced_q(q),
    "integrate": lambda q: ROBOT.integrate(q, q),
    "difference": lambda q: ROBOT.difference(q, q),
    "velocities": lambda q: supple.DLS(supple.damping.Constant(0.01)).velocities(
        ROBOT, q, np.ones((*q.shape[:-1], 6), np.float32 if "32" in str(q.dtype) else np.float64)
    ),
    "linearize": lambda q: supple.linearize(ROBOT, ROBOT.tips[0], q, velocity=np.ones(6)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_result_is_of_the_library_of_its_argument_with_the_numbers_of_numpy(
    kind: str, call: str, dtype: Any
) -> None:
    make, expected, back = KINDS[kind]
    with doubles():
        found = CALLS[call](make(Q.astype(dtype)))
        same = CALLS[call](Q.astype(dtype))
        if call == "linearize":  # a linearization has NumPy arrays
            found, same = make(np.array(found.J)), same.J
        assert isinstance(found, expected)
        np.testing.assert_array_equal(back(found), same)


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_have_arrays_of_the_library_of_the_targets(kind: str) -> None:
    make, expected, back = KINDS[kind]
    solver = supple.Solver(ROBOT)
    with doubles():
        T, q0 = ROBOT.fk(Q), make(Q)
        for mine, theirs in (
            (solver.batch(make(T), q0=q0), solver.batch(T, q0=Q)),
            (solver.all(make(T[0, 0])), solver.all(T[0, 0])),
            (solver.several(make(T[0, 0]), 4), solver.several(T[0, 0], 4)),
        ):
            assert isinstance(mine.q, expected)
            assert isinstance(mine.success, expected)
            assert str(mine) == str(theirs)
            np.testing.assert_array_equal(back(mine.q), theirs.q)
            np.testing.assert_array_equal(mine.numpy().status, theirs.status)
        one = supple.solve(ROBOT, make(T[0, 0]), q0=make(Q[0, 0]))
        assert isinstance(one.q, expected)
        assert one.moved == supple.solve(ROBOT, T[0, 0], q0=Q[0, 0]).moved
    with pytest.raises(InputError, match=r"use numpy\(\)"):
        mine[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_servo_returns_arrays_of_the_library_of_q(kind: str) -> None:
    make, expected, back = KINDS[kind]
    q, twist = Q[0, 0], np.full(6, 0.02)
    with doubles():
        found = supple.Servo(ROBOT, dt=0.01)(make(q), make(twist))
        assert isinstance(found, expected)
        np.testing.assert_array_equal(back(found), supple.Servo(ROBOT, dt=0.01)(q, twist))
        out = np.empty(6)
        assert supple.Servo(ROBOT, dt=0.01)(make(q), make(twist), out=out) is out


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_of_another_library_is_planned_as_one_of_numpy(kind: str) -> None:
    make = KINDS[kind][0]
    T = np.repeat(ROBOT.fk(Q[:1, 0]), 5, axis=0)
    T[:, 2, 3] += np.linspace(0, 0.02, 5)
    with doubles():
        found = supple.plan_path(ROBOT, make(T), q0=make(Q[0, 0]))
    np.testing.assert_array_equal(found.q, supple.plan_path(ROBOT, T, q0=Q[0, 0]).q)


SPARSE = torch.eye(4).to_sparse()
REFUSED = {
    "fk of a sparse tensor": (lambda: ROBOT.fk(SPARSE), "cannot read"),
    "a sparse target": (lambda: supple.solve(ROBOT, SPARSE), "cannot read"),
    "a path that requires gradients": (
        lambda: supple.plan_path(ROBOT, torch.eye(4)[None].requires_grad_()),
        r"supple\.torch",
    ),
    "a path on a device": (
        lambda: supple.plan_path(ROBOT, torch.eye(4, device="meta")[None]),
        "memory of a device, meta",
    ),
    "a target on a device": (
        lambda: supple.solve(ROBOT, torch.eye(4, device="meta")),
        "memory of a device, meta",
    ),
    "complex numbers": (lambda: ROBOT.fk(torch.zeros(6) + 0j), "complex"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_error_names_the_tensor_that_cannot_be_read(what: str) -> None:
    call, message = REFUSED[what]
    with pytest.raises(InputError, match=message):
        call()


def test_tensors_with_any_strides_or_half_precision_are_read_as_by_numpy() -> None:
    wide = torch.as_tensor(np.repeat(Q, 2, axis=-1))[..., ::2]
    assert not wide.is_contiguous()
    np.testing.assert_array_equal(ROBOT.fk(wide).numpy(), ROBOT.fk(Q))
    for half in (torch.float16, torch.bfloat16):
        rounded = torch.as_tensor(Q).to(half)
        found = ROBOT.fk(rounded)
        assert found.dtype == torch.float64
        np.testing.assert_array_equal(found.numpy(), ROBOT.fk(rounded.double().numpy()))
    half = jax.numpy.asarray(Q, jax.numpy.bfloat16)
    assert ROBOT.fk(half).shape == (3, 2, 4, 4)
    twist = jax.numpy.full((3, 2, 6), 0.25, jax.numpy.bfloat16)
    found = supple.linearize(ROBOT, ROBOT.tips[0], half, velocity=twist)
    assert (found.e == 0.25).all()


def test_the_array_made_from_a_tensor_shares_its_memory() -> None:
    from supple.describe._libraries import to_numpy

    for array in (torch.as_tensor(Q), jax.numpy.asarray(Q.astype(np.float32))):
        assert np.shares_memory(to_numpy(array), to_numpy(array))


def test_errors_for_tensors_with_gradients_and_traced_values_name_the_module_to_use() -> None:
    with pytest.raises(InputError, match=r"requires gradients; supple\.torch"):
        ROBOT.fk(torch.as_tensor(Q).requires_grad_())
    with torch.no_grad():
        ROBOT.fk(torch.as_tensor(Q).requires_grad_())
    with pytest.raises(InputError, match=r"traced by JAX; supple\.jax"):
        jax.jit(ROBOT.fk)(Q)
    with pytest.raises(InputError, match=r"supple\.torch"):
        supple.solve(ROBOT, torch.eye(4).requires_grad_())
    with pytest.raises(InputError, match="memory of a device, meta"):
        ROBOT.fk(torch.zeros(6, device="meta"))
