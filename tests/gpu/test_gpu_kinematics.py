"""Poses and Jacobians of GPU arrays of every installed library agree with those of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import supple
from floating import floating_arm, rescaled
from gpu_kernels import ARMS, tree
from supple.errors import InputError

pytestmark = pytest.mark.cuda

Array = np.ndarray
ROBOTS: dict[str, Callable[[], supple.Robot]] = {
    **{name: lambda name=name: supple.load(name) for name in ARMS},  # type: ignore[misc]
    "tree": tree,
    "floating": floating_arm,
}


def agree(found: Any, expected: Array, reach: float = 1.0) -> None:
    """Check equality to 1e-12, or to 1e-5 in float32, relative to the reach of the robot."""
    numbers = found.get() if hasattr(found, "get") else np.asarray(found)
    assert numbers.shape == expected.shape
    assert numbers.dtype == expected.dtype
    room = 1e-12 if expected.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(numbers, expected, rtol=0, atol=room * reach)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ROBOTS)
def test_poses_and_jacobians_of_cupy_arrays_are_those_of_the_cpu(
    cupy: ModuleType, name: str, dtype: Any
) -> None:
    robot = ROBOTS[name]()
    q = rescaled(robot, robot.random((50, 20), seed=1)).astype(dtype)
    there = cupy.asarray(q)
    for frame in (None, robot.tips[0], robot.frames[:3]):
        agree(robot.fk(there, frame), robot.fk(q, frame), 3)
    for axes in ("world", "body", "spatial", robot.frames[-1]):
        agree(robot.jacobian(there, axes=axes), robot.jacobian(q, axes=axes), 3)
    T, J = robot.fk_jacobian(there[0, 0])
    agree(T, robot.fk(q[0, 0]), 3)
    agree(J, robot.jacobian(q[0, 0]), 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_million_configurations_agree_with_the_cpu(cupy: ModuleType, dtype: Any) -> None:
    robot = supple.load("panda")
    q = robot.random(1_000_003, seed=2).astype(dtype)
    T, J = robot.fk_jacobian(cupy.asarray(q))
    agree(T, robot.fk(q))
    agree(J, robot.jacobian(q))


def test_kinematics_of_torch_tensors_run_on_their_device_and_stream(torch: ModuleType) -> None:
    robot = supple.load("panda")
    q = robot.random((30, 40), seed=3)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = torch.zeros((30, 40, 7), dtype=torch.float64, device="cuda")
        torch.cuda._sleep(50_000_000)  # delays the copy below
        there.copy_(torch.from_numpy(q))
        T, J = robot.fk(there), robot.jacobian(there)
        moved = 2 * T
    stream.synchronize()
    assert T.device == there.device
    agree(T.cpu(), robot.fk(q))
    agree(J.cpu(), robot.jacobian(q))
    assert torch.equal(moved, 2 * T)


def test_tensors_of_any_strides_and_types_are_read(torch: ModuleType) -> None:
    robot = supple.load("panda")
    q = robot.random((8, 12), seed=4)
    there = torch.as_tensor(q, device="cuda")
    wide = there.repeat_interleave(2, dim=-1)[..., ::2]
    assert not wide.is_contiguous()
    agree(robot.fk(wide).cpu(), robot.fk(q))
    agree(robot.fk(there.transpose(0, 1)).cpu(), robot.fk(q.swapaxes(0, 1)))
    agree(robot.fk(there[:0]).cpu(), robot.fk(q[:0]))
    for half in (torch.float16, torch.bfloat16):
        rounded = there.to(half)
        agree(robot.fk(rounded).cpu(), robot.fk(rounded.double().cpu().numpy()))


def test_arrays_of_jax_return_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    robot = supple.load("panda")
    q = robot.random(50, seed=5)
    found = robot.fk(jax.numpy.asarray(q))
    assert isinstance(found, jax.Array)
    agree(np.asarray(found), robot.fk(q))


def test_fk_takes_solutions_that_are_in_gpu_memory(cupy: ModuleType) -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(200, seed=6))
    found = supple.Solver(robot).batch(cupy.asarray(T))
    there = cupy.asarray(robot.fk(found.q)).get()
    met = found.numpy().success
    assert met.all()
    assert np.abs(there - T).max() < 1e-5


def test_nonfinite_rows_of_q_give_zeros(cupy: ModuleType) -> None:
    robot = supple.load("panda")
    q = robot.random(300, seed=7)
    q[3, 0], q[4, 6] = np.nan, np.inf
    T = robot.fk(cupy.asarray(q)).get()
    assert not T[3:5].any()
    agree(np.delete(T, [3, 4], 0), robot.fk(np.delete(q, [3, 4], 0)))


def test_a_call_with_out_can_be_captured_in_a_cuda_graph(torch: ModuleType) -> None:
    robot = supple.load("panda")
    q = torch.as_tensor(robot.random(1000, seed=8), device="cuda")
    T = torch.empty((1000, 4, 4), dtype=q.dtype, device="cuda")
    robot.fk(q, out=T)  # compiles the kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        robot.fk(q, out=T)
    for seed in range(3):
        at = robot.random(1000, seed=seed)
        q.copy_(torch.as_tensor(at))
        graph.replay()
        torch.cuda.synchronize()
        agree(T.cpu(), robot.fk(at))


def test_wrong_tensors_raise_an_error(torch: ModuleType) -> None:
    robot = supple.load("panda")
    q = torch.zeros((3, 7), device="cuda")
    with pytest.raises(InputError, match=r"requires gradients; supple\.torch"):
        robot.fk(q.clone().requires_grad_())
    with torch.no_grad():
        robot.fk(q.clone().requires_grad_())
    with pytest.raises(InputError, match=r"shape \(7,\) or \(..., 7\)"):
        robot.jacobian(q[:, :6])
    with pytest.raises(InputError, match="out must be"):
        robot.fk(q, out=torch.zeros((3, 4, 4), device="cuda", dtype=torch.float64))
    with pytest.raises(InputError, match="out must be in GPU memory"):
        robot.fk(q, out=torch.zeros((3, 4, 4)))
    with pytest.raises(InputError, match="threads is for arrays in host memory"):
        robot.fk(q, threads=1)
    with pytest.raises(InputError, match="complex"):
        robot.fk(q + 0j)
    for call in (robot.singular_values, robot.manipulability):
        with pytest.raises(InputError, match="memory of a device, cuda:0"):
            call(q)
