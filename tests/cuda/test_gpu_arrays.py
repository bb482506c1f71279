"""Arrays in a GPU's memory go in and come out, of every library that is installed."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from targets import hold

import supple
from supple import InputError, Status, solve

pytestmark = pytest.mark.cuda

COUNTS = [50, 20_000]  # a warp for each, and a thread for each


@pytest.fixture
def cupy() -> ModuleType:
    return pytest.importorskip("cupy")


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch")


def poses(count: int) -> tuple[supple.Robot, np.ndarray]:
    robot = supple.load("panda")
    return robot, robot.fk(robot.random(3, count))


@pytest.mark.parametrize("count", COUNTS)
def test_cupy(cupy: ModuleType, count: int) -> None:
    robot, T = poses(count)
    found = solve(robot, cupy.asarray(T))
    q, status, far = (cupy.asarray(x) for x in (found.q, found.status, found.position_error))
    assert q.shape == (count, 7)
    assert bool((status == int(Status.CONVERGED)).all())
    same = solve(robot, T, device="cuda")
    assert (q.get() == same.q).all()
    assert (far.get() == same.position_error).all()
    assert (found.restarts.numpy() == same.restarts).all()
    assert (cupy.asarray(found.iterations).get() == same.iterations).all()
    hold(robot, T, same)


@pytest.mark.parametrize("count", COUNTS)
def test_torch_on_a_stream_of_its_own(torch: ModuleType, count: int) -> None:
    robot, T = poses(count)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        target = torch.zeros((count, 4, 4), dtype=torch.float64, device="cuda")
        torch.cuda._sleep(50_000_000)  # what comes next waits
        target.copy_(torch.from_numpy(T))
        found = solve(robot, target, stream=stream)
        q = torch.from_dlpack(found.q)
        met = torch.from_dlpack(found.status) == int(Status.CONVERGED)
    stream.synchronize()
    assert bool(met.all())
    assert (q.cpu().numpy() == solve(robot, T, device="cuda").q).all()


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    robot, T = poses(50)
    found = solve(robot, jax.numpy.asarray(T))
    q = np.asarray(jax.dlpack.from_dlpack(found.q))
    assert (q == solve(robot, T, device="cuda").q).all()


def test_batch_axes_and_starts(cupy: ModuleType) -> None:
    robot, T = poses(24)
    q0 = robot.random(4, 24)
    found = solve(
        robot,
        cupy.asarray(T).reshape(4, 6, 4, 4),
        q0=cupy.asarray(q0).reshape(4, 6, 7),
        prefer="fast",
    )
    same = solve(robot, T, q0=q0, prefer="fast", device="cuda")
    assert (found.q.numpy().reshape(24, 7) == same.q).all()
    assert found.position_error.shape == (4, 6)
    assert (found.position_error.numpy().ravel() == same.position_error).all()
    assert "24 targets" in str(found)


def test_what_is_no_pose_is_said(cupy: ModuleType) -> None:
    robot, T = poses(20)
    T[3, 0, 3] = np.inf
    T[4, :3, 0] *= 1.1
    T[5, :3, 0] *= -1
    T[6, 3, 3] = 2
    T[7, :3, :3] *= 1 + 2e-7  # (near enough)
    status = solve(robot, cupy.asarray(T)).status.numpy()
    assert (status[3:7] == Status.NONFINITE_INPUT).all()
    assert (np.delete(status, [3, 4, 5, 6]) == Status.CONVERGED).all()


def test_bad_arrays_are_refused(cupy: ModuleType) -> None:
    robot, T = poses(5)
    there = cupy.asarray(T)
    with pytest.raises(InputError, match="float64 and C-contiguous; given: float32"):
        solve(robot, there.astype(cupy.float32))
    with pytest.raises(InputError, match="C-contiguous"):
        solve(robot, there.transpose(0, 2, 1))
    with pytest.raises(InputError, match=r"poses \(..., 4, 4\)"):
        solve(robot, there[:, :3].copy())
    with pytest.raises(InputError, match="q0 must be"):
        solve(robot, there, q0=cupy.zeros((5, 6)), prefer="fast")
    with pytest.raises(InputError, match="one PoseTask"):
        solve(robot, there, tasks=supple.PositionTask())
    with pytest.raises(InputError, match="stream must be"):
        solve(robot, there, stream="fast")
    with pytest.raises(TypeError, match=r"cupy\.asarray"):
        solve(robot, there).success  # noqa: B018
