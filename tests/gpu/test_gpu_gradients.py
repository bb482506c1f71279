"""CUDA tensors in supple.torch: solved on the GPU, with the gradients of the CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import supple
from supple.errors import InputError

pytestmark = pytest.mark.cuda


@pytest.fixture
def cuda(torch: ModuleType) -> ModuleType:
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    return torch


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seeded", [False, True])
def test_cuda_tensors_have_the_gradients_of_their_solutions(
    cuda: Any, dtype: str, seeded: bool
) -> None:
    import supple.torch as st

    robot = supple.load("panda")
    solver = supple.Solver(robot)
    at = cuda.as_tensor(robot.random(60, seed=1), dtype=getattr(cuda, dtype), device="cuda")
    T = st.fk(robot, at).reshape(3, 20, 4, 4)
    T[0, 0, 0, 3] = 5.0
    T.requires_grad_()
    q, success = st.solve(solver, T, at.reshape(3, 20, 7) if seeded else None)
    assert q.is_cuda
    assert success.is_cuda
    assert q.dtype == T.dtype
    assert int((~success).sum()) == 1
    assert (st.fk(robot, q) - T)[success].abs().max() < 1e-4
    q.sin().sum().backward()
    bar = q.detach().cos().cpu()
    expected, _ = st._solve_adjoint(
        q.detach().cpu(), success.cpu(), bar, st._solver(solver, 1e-5)[0], 1e-5
    )
    assert cuda.equal(T.grad.cpu(), expected)
    assert not T.grad[0, 0].any()


def test_kinematics_of_cuda_tensors_stay_on_their_device(cuda: Any) -> None:
    import supple.torch as st

    robot = supple.load("panda")
    q = cuda.zeros(5, 7, device="cuda", dtype=cuda.float64, requires_grad=True)
    found = st.step(robot, q, st.jacobian(robot, q)[..., 0], lambda2=0.01)
    found.sum().backward()
    assert found.is_cuda
    assert q.grad.is_cuda
    assert cuda.isfinite(q.grad).all()


def test_tensors_on_two_devices_and_arrays_of_a_gpu_in_fk_raise_an_error(cuda: Any) -> None:
    import supple.torch as st

    robot = supple.load("panda")
    T = cuda.eye(4, device="cuda")[None]
    with pytest.raises(InputError, match="one device"):
        st.solve(supple.Solver(robot), T, cuda.zeros(7))
    with pytest.raises(InputError, match="memory of a device, cuda:0"):
        robot.fk(cuda.zeros(7, device="cuda"))
