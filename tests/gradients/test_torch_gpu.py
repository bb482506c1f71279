"""Tensors in GPU memory take the path of the GPU, here on an emulated GPU in host memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import emulator
import supple

torch = pytest.importorskip("torch")
st = pytest.importorskip("supple.torch")

Tensor = Any


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[emulator.Device]:
    """Let gradients of tensors in host memory run on an emulated GPU."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=0))
    made = emulator.install(monkeypatch, Path(__file__).parents[2] / "build/emulated")
    launched: list[Any] = []
    run = made.launch

    def launch(*given: Any) -> None:
        launched.append(given)
        run(*given)

    made.launch = launch  # type: ignore[method-assign]
    made.launched = launched  # type: ignore[attr-defined]
    return made


def arm() -> supple.Robot:
    """Return a robot that keeps nothing of other tests' GPUs."""
    return supple.Robot(supple.load("ur5e").description)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_tensors_in_gpu_memory_are_those_of_the_cpu(
    device: Any, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    """`fk`, `jacobian`, `step` and the adjoint of `solve` launch CUDA kernels, with autograd."""
    robot = arm()
    solver, generator = supple.Solver(robot), torch.Generator().manual_seed(0)
    at = torch.as_tensor(robot.random((2, 3), seed=1)) * 0.4 + 0.3
    x = torch.rand(2, 3, 6, generator=generator, dtype=at.dtype)
    T = st.fk(robot, at)
    found, success = st.solve(solver, T, at)
    number, damping = st._solver(solver, 1e-5)[:2]

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
    monkeypatch.setattr(st, "_on_gpu", lambda tensor: True)
    monkeypatch.setattr(st.DifferentiableFrames, "fk", there(robot, "fk"))
    monkeypatch.setattr(st.DifferentiableFrames, "jacobian", there(robot, "jacobian"))
    for one, other in zip(results(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert len(device.launched) >= 7


def there(robot: supple.Robot, name: str) -> Any:
    """Return `fk` or `jacobian` for tensors that claim to be in GPU memory."""

    def run(_: Any, q: Tensor) -> Tensor:
        found = getattr(robot, name)(emulator.There(q.numpy()))
        return torch.from_numpy(found.numpy())

    return run
