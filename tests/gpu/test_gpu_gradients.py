"""CUDA tensors in supple.torch are solved and differentiated on the GPU, with the
CPU's gradients.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import supple
from floating import floating_arm
from gpu_kernels import tree
from supple.errors import InputError

pytestmark = pytest.mark.cuda

ROBOTS = {"panda": lambda: supple.load("panda"), "tree": tree, "floating": floating_arm}


@pytest.fixture
def cuda(torch: ModuleType) -> ModuleType:
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    return torch


def close(torch: Any, found: Any, expected: Any) -> None:
    room = 1e-9 if expected.dtype == torch.float64 else 1e-4
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), expected, rtol=room, atol=room)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seeded", [False, True])
def test_gradients_of_solutions_on_cuda_agree_with_those_on_the_cpu(
    cuda: Any, dtype: str, seeded: bool
) -> None:
    import supple.torch as st
    from supple.ik.operators import solver_constants

    robot = supple.load("panda")
    solver = supple.Solver(robot)
    inside = robot.neutral() + 0.3 * (robot.random(60, seed=1) - robot.neutral())
    at = cuda.as_tensor(inside, dtype=getattr(cuda, dtype), device="cuda")
    T = st.fk(robot, at).reshape(3, 20, 4, 4)
    T[0, 0, 0, 3] = 5.0
    T.requires_grad_()
    q0 = at.reshape(3, 20, 7).clone().requires_grad_() if seeded else None
    q, success = st.solve(solver, T, q0)
    assert q.is_cuda
    assert success.is_cuda
    assert q.dtype == T.dtype
    assert int((~success).sum()) == 1
    assert (st.fk(robot, q) - T)[success].abs().max() < 1e-4
    q.sin().sum().backward()
    bar = q.detach().cos().cpu()
    expected, seeds = st._solve_adjoint(
        q.detach().cpu(), success.cpu(), bar, solver_constants(solver, 1e-5)[0], 1e-5
    )
    # Near a singularity, rounding errors are multiplied by the condition number of J Jᵀ.
    smallest = robot.singular_values(q.detach().double().cpu().numpy())[..., -1]
    good = cuda.as_tensor(smallest > 0.05)
    close(cuda, T.grad[good.to("cuda")], expected[good])
    if q0 is not None:
        close(cuda, q0.grad[good.to("cuda")], seeds[good])
    assert cuda.isfinite(T.grad).all()
    assert not T.grad[0, 0].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROBOTS)
def test_gradients_of_kinematics_and_steps_are_those_of_the_cpu(
    cuda: Any, name: str, dtype: str
) -> None:
    import supple.torch as st
    from supple.ik.operators import frame_constants

    robot = ROBOTS[name]()
    q = cuda.as_tensor(robot.random((7, 30), seed=2), dtype=getattr(cuda, dtype))
    twist = cuda.rand((7, 30, *frame_constants(robot, None)[2], 6), dtype=q.dtype)
    results = []
    for device in ("cpu", "cuda"):
        at, x = (one.to(device).requires_grad_() for one in (q.clone(), twist.clone()))
        qd = st.step(robot, at, x, lambda2=0.1)
        loss = qd.sin().sum() + st.fk(robot, at).square().sum()
        loss = loss + st.jacobian(robot, at).sin().sum()
        loss.backward()
        results.append((qd.detach(), at.grad, x.grad))
    for found, expected in zip(results[1], results[0], strict=True):
        close(cuda, found, expected)


def test_gradients_of_a_million_random_targets_are_finite(cuda: Any) -> None:
    """The targets include singular ones, joints at their limits, and targets out of reach."""
    import supple.torch as st

    robot = supple.load("panda")
    T = st.fk(robot, cuda.as_tensor(robot.random(1_000_000, seed=3), device="cuda"))
    T[::10, 2, 3] += 0.5
    T.requires_grad_()
    q, success = st.solve(supple.Solver(robot), T)
    assert cuda.isfinite(q).all()
    q.sin().sum().backward()
    assert cuda.isfinite(T.grad).all()
    assert not T.grad[~success].any()


def test_a_function_compiled_by_torch_has_the_same_gradient_on_a_gpu(cuda: Any) -> None:
    import supple.torch as st

    robot = supple.load("panda")
    solver = supple.Solver(robot)
    at = cuda.as_tensor(robot.random(50, seed=4), device="cuda")

    def loss(T: Any) -> Any:
        q, _ = st.solve(solver, T, at)
        return st.fk(robot, q).square().sum() + st.jacobian(robot, q).sum()

    grads = []
    for run in (loss, cuda.compile(loss, fullgraph=True, backend="aot_eager")):
        T = st.fk(robot, at).requires_grad_()
        run(T).backward()
        grads.append(T.grad)
    assert cuda.equal(*grads)


def test_tensors_on_two_devices_raise_an_error(cuda: Any) -> None:
    import supple.torch as st

    robot = supple.load("panda")
    T = cuda.eye(4, device="cuda")[None]
    with pytest.raises(InputError, match="one device"):
        st.solve(supple.Solver(robot), T, cuda.zeros(7))
    with pytest.raises(InputError, match="one device"):
        st.step(robot, T[..., 0, :3].repeat(1, 3)[:, :7], cuda.zeros(1, 6), lambda2=0.1)
