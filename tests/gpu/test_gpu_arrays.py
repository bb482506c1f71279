"""Arrays of every installed library in GPU memory are accepted, and results stay in GPU memory."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import supple
from solving import solve
from supple import AxisTask, OrientationTask, PositionTask, PostureTask, SolveStatus
from supple.errors import InputError
from targets import apart, hold

pytestmark = pytest.mark.cuda

COUNTS = [50, 20_000]  # numbers of targets: a warp solves each of 50, a thread each of 20,000


def poses(count: int) -> tuple[supple.Robot, np.ndarray]:
    robot = supple.load("panda")
    return robot, robot.fk(robot.random(count, seed=3))


@pytest.mark.parametrize("count", COUNTS)
def test_targets_in_cupy_arrays_are_solved_on_the_gpu(cupy: ModuleType, count: int) -> None:
    robot, T = poses(count)
    found = solve(robot, cupy.asarray(T))
    q, status, far = (cupy.asarray(x) for x in (found.q, found.status, found.position_error))
    assert q.shape == (count, 7)
    assert bool((status == int(SolveStatus.CONVERGED)).all())
    same = solve(robot, T, device="cuda")
    assert (q.get() == same.q).all()
    assert (far.get() == same.position_error).all()
    assert (found.restarts.numpy() == same.restarts).all()
    assert (cupy.asarray(found.iterations).get() == same.iterations).all()
    hold(robot, T, same)


@pytest.mark.parametrize("count", COUNTS)
def test_targets_in_torch_tensors_are_solved_on_the_given_stream(
    torch: ModuleType, count: int
) -> None:
    robot, T = poses(count)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        target = torch.zeros((count, 4, 4), dtype=torch.float64, device="cuda")
        torch.cuda._sleep(50_000_000)  # delays the copy below
        target.copy_(torch.from_numpy(T))
        found = solve(robot, target, stream=stream)
        q = torch.from_dlpack(found.q)
        met = torch.from_dlpack(found.status) == int(SolveStatus.CONVERGED)
    stream.synchronize()
    assert bool(met.all())
    assert (q.cpu().numpy() == solve(robot, T, device="cuda").q).all()


def test_targets_in_jax_arrays_are_solved_on_the_gpu() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    robot, T = poses(50)
    found = solve(robot, jax.numpy.asarray(T))
    q = np.asarray(jax.dlpack.from_dlpack(found.q))
    assert (q == solve(robot, T, device="cuda").q).all()


def test_results_have_the_batch_axes_of_targets_and_q0_in_gpu_memory(cupy: ModuleType) -> None:
    robot, T = poses(24)
    q0 = robot.random(24, seed=4)
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


def test_invalid_poses_in_gpu_memory_get_nonfinite_input(cupy: ModuleType) -> None:
    robot, T = poses(20)
    T[3, 0, 3] = np.inf
    T[4, :3, 0] *= 1.1
    T[5, :3, 0] *= -1
    T[6, 3, 3] = 2
    T[7, :3, :3] *= 1 + 2e-7  # within the tolerance of a rotation
    status = solve(robot, cupy.asarray(T)).status.numpy()
    assert (status[3:7] == SolveStatus.NONFINITE_INPUT).all()
    assert (np.delete(status, [3, 4, 5, 6]) == SolveStatus.CONVERGED).all()


@pytest.mark.parametrize("count", COUNTS)
def test_float32_and_strided_gpu_arrays_are_read_correctly(cupy: ModuleType, count: int) -> None:
    robot, T = poses(count)
    there, same = cupy.asarray(T), solve(robot, T, device="cuda")
    for view in (
        cupy.asfortranarray(there),
        cupy.repeat(there, 2, axis=0)[::2],
        cupy.ascontiguousarray(there.transpose(0, 2, 1)).transpose(0, 2, 1),
        there[::-1].copy()[::-1],
    ):
        assert (solve(robot, view).q.numpy() == same.q).all()
    floats = solve(robot, there.astype(cupy.float32))
    assert floats.q.dtype == np.float64
    assert (floats.status.numpy() == SolveStatus.CONVERGED).all()
    T32 = T.astype(np.float32).astype(np.float64)
    far, turned = apart(robot.fk(floats.q.numpy()), T32)
    assert (far <= 1e-6 + 1e-12).all()
    assert (turned <= 1e-6 + 1e-6).all()  # float32 has seven digits


def test_q0_in_gpu_memory_may_have_either_precision_and_any_layout(cupy: ModuleType) -> None:
    robot, T = poses(24)
    q0, there = robot.random(24, seed=4), cupy.asarray(T)
    for given in (q0, q0.astype(np.float32), np.asfortranarray(q0), q0[0]):
        for prefer in ("fast", "nearest"):
            found = solve(robot, there, q0=cupy.asarray(given), prefer=prefer)
            same = solve(robot, T, q0=given.astype(np.float64), prefer=prefer, device="cuda")
            assert (found.q.numpy() == same.q).all()


def test_targets_of_several_tasks_may_be_in_gpu_memory(cupy: ModuleType) -> None:
    robot = supple.load("youbot")
    (tip,) = robot.tips
    T = robot.fk(robot.random(300, seed=9))
    tasks = [PositionTask(tip), AxisTask(tip)]
    position, direction = T[:, :3, 3], 2 * T[:, :3, 2]
    for there in (direction, direction[0]):  # one for each target, or one for all, as on the CPU
        found = solve(robot, [cupy.asarray(position), cupy.asarray(there)], tasks=tasks)
        same = solve(robot, [position, there], tasks=tasks, device="cuda")
        # Directions are normalized on the GPU, so the last bit may differ from the CPU.
        np.testing.assert_allclose(found.q.numpy(), same.q, atol=1e-5)
        assert (found.status.numpy() == same.status).all()
        assert same.success.all() or there.ndim == 1
    # A vector of zero length has no direction.
    nowhere = solve(robot, [cupy.asarray(position), cupy.zeros((300, 3))], tasks=tasks)
    assert (nowhere.status.numpy() == SolveStatus.NONFINITE_INPUT).all()


@pytest.mark.parametrize("size", [3, 4])
def test_targets_of_orientations_and_postures_may_be_gpu_arrays(
    cupy: ModuleType, size: int
) -> None:
    robot, T = poses(200)
    given = [T[:, :size, :size], robot.neutral()]
    tasks = [OrientationTask(), PostureTask()]
    found = solve(robot, tuple(cupy.asarray(one) for one in given), tasks=tasks)
    same = solve(robot, given, tasks=tasks, device="cuda")
    assert same.success.all()
    assert (found.q.numpy() == same.q).all()


def test_gpu_arrays_of_wrong_type_or_shape_are_refused(cupy: ModuleType) -> None:
    robot, T = poses(5)
    there = cupy.asarray(T)
    with pytest.raises(InputError, match="must be float64 or float32; given: int64"):
        solve(robot, there.astype(cupy.int64))
    with pytest.raises(
        InputError, match=r"target must have the shape \(..., 4, 4\); given: \(5, 3, 4\)"
    ):
        solve(robot, there[:, :3])
    with pytest.raises(InputError, match=r"q0 must have the shape \(..., 7\)"):
        solve(robot, there, q0=cupy.zeros((5, 6)))
    with pytest.raises(InputError, match=r"q0 must have the shape .* batch axes"):
        solve(robot, there, q0=cupy.zeros((4, 7)))
    with pytest.raises(InputError, match="q0 must be in GPU memory"):
        solve(robot, there, q0=np.zeros(7))
    with pytest.raises(InputError, match=r"target must have the shape \(..., 3\)"):
        solve(robot, there, tasks=supple.PositionTask())
    with pytest.raises(InputError, match="one target for each of 2 tasks; given: 1"):
        solve(robot, there, tasks=[supple.PoseTask(), supple.PositionTask()])
    with pytest.raises(InputError, match="stream must be"):
        solve(robot, there, stream="fast")
    with pytest.raises(TypeError, match=r"cupy\.asarray"):
        solve(robot, there).status == 0  # noqa: B015
