"""CUDA kernels compute results for tensors in GPU memory; in these tests, the GPU is emulated."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emulator
import supple
from supple.errors import InputError
from supple.gpu import libraries

torch = pytest.importorskip("torch")
st = pytest.importorskip("supple.torch")
operators = pytest.importorskip("supple.ik.operators")

Tensor = Any


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[emulator.Device]:
    """Install an emulated GPU, on which gradients of tensors in host memory are then computed."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=0))
    made = emulator.install(monkeypatch)
    launched: list[Any] = []
    run = made.launch

    def launch(*given: Any) -> None:
        launched.append(given)
        run(*given)

    made.launch = launch  # type: ignore[method-assign]
    made.launched = launched  # type: ignore[attr-defined]
    return made


def arm() -> supple.Robot:
    """Return a new robot, so that no code is cached for the GPUs of other tests."""
    return supple.Robot(supple.load("ur5e").description)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_tensors_in_gpu_memory_are_those_of_the_cpu(
    device: Any, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    """With autograd, `fk`, `jacobian`, `step` and the adjoint of `solve` launch CUDA kernels."""
    robot = arm()
    solver, generator = supple.Solver(robot), torch.Generator().manual_seed(0)
    at = torch.as_tensor(robot.random((2, 3), seed=1)) * 0.4 + 0.3
    x = torch.rand(2, 3, 6, generator=generator, dtype=at.dtype)
    T = st.fk(robot, at)
    found, success = st.solve(solver, T, at)
    number, damping = operators.solver_constants(solver, 1e-5)[:2]

    def loss(q: Tensor, twist: Tensor) -> Tensor:
        moved = q + st.step(robot, q, twist, lambda2=0.1)
        return st.fk(robot, moved).square().sum() + st.jacobian(robot, moved).sin().sum()

    def results() -> list[Tensor]:
        q, twist = at.clone().requires_grad_(), x.clone().requires_grad_()
        run = torch.compile(loss, fullgraph=True, backend="aot_eager") if compiled else loss
        value = run(q, twist)
        value.backward()
        bars = st._solve_adjoint(found, success, torch.ones_like(found), number, damping)
        return [value.detach(), q.grad, twist.grad, *bars]

    expected = results()
    assert not device.launched
    monkeypatch.setattr(st, "is_on_gpu", lambda tensor: True)
    monkeypatch.setattr(st.DifferentiableFrames, "fk", there(robot, "fk"))
    monkeypatch.setattr(st.DifferentiableFrames, "jacobian", there(robot, "jacobian"))
    for one, other in zip(results(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert len(device.launched) >= 7


def there(robot: supple.Robot, name: str) -> Any:
    """Return `fk` or `jacobian` as a function of a tensor that counts as one in GPU memory."""

    def run(_: Any, q: Tensor) -> Tensor:
        found = getattr(robot, name)(emulator.There(q.numpy()))
        return torch.from_numpy(found.numpy())

    return run


def test_only_tensors_that_cuda_kernels_cannot_read_are_copied() -> None:
    """Contiguous float32 and float64 tensors are not copied; others become contiguous float64."""
    x = torch.arange(24, dtype=torch.float64).reshape(4, 6)
    for dense in (x, x.float()):
        assert libraries.readable(dense, "q").data_ptr() == dense.data_ptr()
    negative = torch.complex(x, x).conj().imag
    assert negative.is_neg()
    for other in (x.T, x[:, ::2], x.half(), x.bfloat16(), x.int(), negative, x.expand(2, 4, 6)):
        found = libraries.readable(other, "q")
        assert found.is_contiguous()
        assert found.dtype == torch.float64
        assert torch.equal(found, other.double())
    for wrong, message in (
        (x.clone().requires_grad_(), r"supple\.torch"),
        (x + 0j, "complex"),
        (x > 0, "bool"),
    ):
        with pytest.raises(InputError, match=message):
            libraries.readable(wrong, "q")
    with torch.no_grad():
        assert not libraries.readable(x.clone().requires_grad_(), "q").requires_grad


def test_results_for_tensors_are_allocated_by_pytorch() -> None:
    like = torch.zeros(3, 7, dtype=torch.float32)
    made = libraries.new_result(like, (3, 4, 4), np.dtype(np.float32), None, 0)  # type: ignore[arg-type]
    assert made.returned().shape == (3, 4, 4)
    assert made.returned().dtype == like.dtype
    assert made.pointer == made.returned().data_ptr()


def test_cuda_kernels_can_read_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6.0).reshape(2, 3)
    assert libraries.readable(x, "q") is x
    half = libraries.readable(x.astype(jax.numpy.bfloat16), "q")
    assert half.dtype in (np.float32, np.float64)
    with pytest.raises(InputError, match="traced by JAX"):
        jax.jit(lambda x: libraries.readable(x, "q"))(x)
