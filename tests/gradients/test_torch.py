"""supple.torch: operators of PyTorch whose gradients agree with central differences."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import supple
from floating import floating_arm, rescaled
from supple.errors import InputError

torch = pytest.importorskip("torch")
st = pytest.importorskip("supple.torch")
operators = pytest.importorskip("supple.ik.operators")

Tensor = Any
H = 1e-5


def tight(robot: supple.Robot, **options: Any) -> supple.Solver:
    return supple.Solver(robot, position_tolerance=1e-12, rotation_tolerance=1e-12, **options)


def inside(robot: supple.Robot, count: int, seed: int = 0) -> Tensor:
    share = np.random.default_rng(seed).uniform(0.25, 0.75, (count, robot.nq))
    return torch.as_tensor(robot.lower + share * (robot.upper - robot.lower))


def from_parameters(p: Tensor) -> Tensor:
    """Return poses (..., 4, 4) from positions and quaternions (x, y, z, w) of any length."""
    x, y, z, w = (p[..., 3:] / p[..., 3:].norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        *(1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), p[..., 0]),
        *(2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), p[..., 1]),
        *(2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), p[..., 2]),
        *(torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x), torch.ones_like(x)),
    ]
    return torch.stack(rows, dim=-1).reshape(*p.shape[:-1], 4, 4)


def parameters(T: Tensor) -> Tensor:
    xyzw = supple.poses.xyzw(T.numpy())
    return torch.cat([T[..., :3, 3], torch.as_tensor(xyzw)], dim=-1)


def matches(function: Callable[[Tensor], Tensor], x: Tensor, tolerance: float = 1e-6) -> None:
    """Check the gradient of the losses of all rows by central differences."""
    x = x.detach().clone().requires_grad_()
    function(x).sum().backward()
    with torch.no_grad():
        steps = H * torch.eye(x.shape[-1], dtype=x.dtype)
        rates = [(function(x + h) - function(x - h)) / (2 * H) for h in steps]
    expected = torch.stack(rates, dim=-1)
    assert (x.grad - expected).abs().max() <= tolerance * (1 + expected.abs().max())


def test_importing_supple_imports_neither_torch_nor_jax() -> None:
    code = (
        "import supple, sys; supple.solve; print([m for m in sys.modules if m in ('torch', 'jax')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_the_first_call_does_not_import_the_compiler_of_pytorch() -> None:
    code = """
import sys, torch, supple, supple.torch
robot = supple.load("ur5e")
q = torch.zeros(6, requires_grad=True)
supple.torch.solve(supple.Solver(robot), supple.torch.fk(robot, q), q)[0].sum().backward()
print("torch._dynamo" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize("name", ["ur5e", "puma560", "stanford"])
def test_gradients_with_respect_to_parameters_of_a_target_agree_with_central_differences(
    name: str,
) -> None:
    robot = supple.load(name)
    solver, q = tight(robot), inside(robot, 24)
    q = q[torch.as_tensor(robot.singular_values(q.numpy())[:, -1] > 0.1)]
    weights = torch.rand(q.shape, dtype=q.dtype)

    def loss(p: Tensor) -> Tensor:
        found, success = st.solve(solver, from_parameters(p), q)
        assert success.all()
        return (weights * torch.sin(found)).sum(dim=-1)

    assert len(q) >= 4
    matches(loss, parameters(st.fk(robot, q)))


def test_for_q0_at_a_solution_gradients_of_a_redundant_arm_agree_with_central_differences() -> None:
    robot = supple.load("panda")
    solver, q = tight(robot), inside(robot, 8)
    T, weights = st.fk(robot, q), torch.rand(q.shape, dtype=q.dtype)

    def loss(seeds: Tensor) -> Tensor:
        return (weights * st.solve(solver, T, seeds)[0]).sum(dim=-1)

    def turned(p: Tensor) -> Tensor:
        return (weights * st.solve(solver, from_parameters(p), q)[0]).sum(dim=-1)

    matches(loss, q, 1e-4)
    matches(turned, parameters(T), 1e-4)


def test_gradients_for_positions_agree_with_differences_and_for_several_frames_are_finite() -> None:
    robot = supple.load("panda")
    tip = robot.tips[0]
    q = inside(robot, 4)
    at = st.fk(robot, q)[..., :3, 3]
    solver = tight(robot, tasks=supple.PositionTask(tip))

    def error(x: Tensor) -> Tensor:  # J dq = dx holds for every solution
        found, _ = st.solve(solver, x, q)
        return torch.sin(3 * st.fk(robot, found)[..., :3, 3]).sum(dim=-1)

    matches(error, at)
    both = supple.load("double_y")
    x = torch.as_tensor(np.random.default_rng(2).uniform(-0.5, 0.5, (3, both.nq)))
    T = st.fk(both, x).requires_grad_()
    found, success = st.solve(supple.Solver(both), T, x)
    found[success].sum().backward()
    assert T.grad.shape == T.shape
    assert torch.isfinite(T.grad).all()


def test_operators_pass_the_checks_of_torch_opcheck() -> None:
    robot = supple.load("ur5e")
    solver, q = supple.Solver(robot), inside(robot, 2).requires_grad_()
    T, x = st.fk(robot, q.detach()).requires_grad_(), torch.rand(2, 6, dtype=q.dtype)
    frames = operators.frame_constants(robot, None)[0]
    number = operators.solver_constants(solver, 1e-5)[0]
    for operator, given in (
        (st._solve, (T, q, number, 1e-5)),
        (st._fk, (q, frames)),
        (st._jacobian, (q, frames)),
        (st._step, (q, x.requires_grad_(), frames, 0.01)),
    ):
        found = torch.library.opcheck(operator.overload, given)
        assert set(found.values()) == {"SUCCESS"}


def test_a_function_compiled_by_torch_gives_the_same_loss_and_gradient() -> None:
    robot = supple.load("ur5e")
    solver, q = supple.Solver(robot), inside(robot, 3)
    twist = torch.rand(3, 6, dtype=q.dtype)

    def loss(T: Tensor) -> Tensor:
        found, _ = st.solve(solver, T, q)
        moved = found + 0.1 * st.step(robot, found, twist, lambda2=0.01)
        return (st.fk(robot, moved) ** 2).sum() + st.jacobian(robot, moved).sum()

    results = []
    for run in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        T = st.fk(robot, q).requires_grad_()
        value = run(T)
        value.backward()
        results.append((value.detach(), T.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_vmap_of_torch_gives_the_same_results_as_a_batch() -> None:
    robot = supple.load("ur5e")
    solver, q = supple.Solver(robot), inside(robot, 3)
    T = st.fk(robot, q)
    assert torch.equal(torch.vmap(lambda x: st.fk(robot, x))(q), T)
    mapped = torch.vmap(lambda t, x: st.solve(solver, t, x)[0])(T, q)
    assert torch.equal(mapped, st.solve(solver, T, q)[0])
    shared = torch.vmap(lambda t: st.solve(solver, t, q[0])[0])(T)
    assert torch.equal(shared, st.solve(solver, T, q[0])[0])


def test_gradients_of_robots_with_quaternions_agree_with_central_differences() -> None:
    """The robots have floating bases and ball joints; quaternions may have any length."""
    robot = floating_arm(1)
    q = torch.as_tensor(rescaled(robot, robot.random(3, seed=1)))
    weights = torch.rand(3, robot.nv, dtype=q.dtype)
    x = torch.rand(3, 6, dtype=q.dtype)
    matches(lambda p: torch.sin(st.fk(robot, p)).sum(dim=(-1, -2)), q)
    matches(lambda p: torch.sin(st.jacobian(robot, p)).sum(dim=(-1, -2)), q)
    matches(lambda p: (weights * st.step(robot, p, x, lambda2=0.1)).sum(dim=-1), q)
    unit = torch.as_tensor(robot.random(3, seed=2))
    solver, T = tight(robot), st.fk(robot, unit)

    def loss(p: Tensor) -> Tensor:
        found, success = st.solve(solver, from_parameters(p), unit)
        assert success.all()
        return torch.sin(found).sum(dim=-1)

    matches(loss, parameters(T), 1e-4)
    number = operators.solver_constants(solver, 1e-5)[0]
    found = torch.library.opcheck(st._solve.overload, (T.requires_grad_(), unit, number, 1e-5))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_derivatives_that_supple_does_not_provide_raise_an_error() -> None:
    """Without the error, PyTorch would return zeros in forward mode and for second derivatives."""
    robot = supple.load("ur5e")
    q = inside(robot, 2)
    with pytest.raises(InputError, match="reverse mode only"):
        torch.func.jvp(lambda x: st.fk(robot, x), (q,), (q,))
    q.requires_grad_()
    solver, T = supple.Solver(robot), st.fk(robot, q.detach()).requires_grad_()
    x = torch.ones(2, 6, dtype=q.dtype, requires_grad=True)
    for result, at in (
        (st.fk(robot, q), q),
        (st.jacobian(robot, q), q),
        (st.step(robot, q, x, lambda2=0.1), q),
        (st.step(robot, q, x, lambda2=0.1), x),
        (st.solve(solver, T, q)[0], T),
        (st.solve(solver, T, q)[0], q),
    ):
        (bar,) = torch.autograd.grad(result.sum(), at, create_graph=True)
        with pytest.raises(InputError, match="first derivatives"):
            bar.sum().backward()


def test_missed_targets_have_success_false_and_a_zero_gradient() -> None:
    robot = supple.load("panda")
    T = st.fk(robot, inside(robot, 2))
    T[1, 0, 3] = 5.0
    T.requires_grad_()
    q, success = st.solve(supple.Solver(robot), T)
    q.square().sum().backward()
    assert success.tolist() == [True, False]
    assert T.grad[0].abs().max() > 0
    assert not T.grad[1].any()


def test_float32_tensors_give_float32_solutions_and_gradients() -> None:
    robot = supple.load("ur5e")
    T = st.fk(robot, inside(robot, 4).float()).requires_grad_()
    q, _ = st.solve(supple.Solver(robot), T)
    q.sum().backward()
    assert (T.dtype, q.dtype, T.grad.dtype) == (torch.float32,) * 3
    wide = T.detach().double().requires_grad_()
    st.solve(supple.Solver(robot), wide)[0].sum().backward()
    torch.testing.assert_close(T.grad, wide.grad.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, s, T: st.solve(s, T.half()), "float32 or float64"),
        (lambda r, s, T: st.solve(s, T.numpy()), "torch.Tensor"),
        (lambda r, s, T: st.solve(s, T[..., :3]), r"shape \(..., 4, 4\)"),
        (lambda r, s, T: st.solve(r, T), "must be a Solver"),
        (lambda r, s, T: st.solve(s, T, torch.zeros(3, 6)), "batch axes"),
        (lambda r, s, T: st.solve(s, T, torch.zeros(6, device="meta")), "one device"),
        (lambda r, s, T: st.solve(s, T, damping=0), "damping must be"),
        (lambda r, s, T: st.step(r, torch.zeros(6), torch.zeros(6), lambda2=0), "lambda2 must be"),
        (lambda r, s, T: st.fk(s, T), "must be a Robot"),
        (
            lambda r, s, T: st.solve(supple.Solver(r, supple.AxisTask(r.tips[0])), T),
            "all poses, or all positions",
        ),
    ],
)
def test_the_error_for_a_malformed_argument_names_it(call: Any, message: str) -> None:
    robot = supple.load("ur5e")
    with pytest.raises(InputError, match=message):
        call(robot, supple.Solver(robot), torch.eye(4)[None].expand(2, 4, 4))


def test_a_solver_that_is_no_longer_used_is_released() -> None:
    robot = supple.load("ur5e")
    solver = supple.Solver(robot, max_seeds=3)
    st.solve(solver, st.fk(robot, inside(robot, 1)))
    gone = weakref.ref(solver)
    del solver
    gc.collect()
    assert gone() is None


def test_threads_that_register_frames_simultaneously_get_one_number() -> None:
    """With two numbers, a compiled function might keep that of an object which is then released."""
    threads = 8
    barrier = threading.Barrier(threads, timeout=60)
    robot = supple.load("panda").with_base(np.eye(4))

    class Kept:
        pass

    def made() -> Kept:
        barrier.wait()
        return Kept()

    with ThreadPoolExecutor(threads) as pool:
        numbers = list(pool.map(lambda _: operators._number(robot, "a key", made), range(threads)))
    assert len(set(numbers)) == 1
    gc.collect()
    assert isinstance(operators.registered[numbers[0]], Kept)
