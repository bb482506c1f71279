"""Velocities on a GPU agree with those of the CPU in both precisions, also in CUDA graphs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from batch_steps import STEPS, hold_optimal, optimal, some, velocities
from generated import seeds
from loops import SINGULAR, robot
from rules import EVERY
from supple import DLS, Limits, PoseTask, PositionTask, damping
from supple.control.velocity_ik import velocity_ik
from supple.errors import InputError
from supple.gpu import runtime
from supple.gpu.runtime import check, compile_source, device_named
from whole_bodies import BASES, drawn_batch, slow_limits

pytestmark = pytest.mark.cuda

Array = np.ndarray
RULES = {type(rule).__name__: rule for rule in EVERY}
LIMITED = ["exact", "scale", "accelerating"]
ALL_STEPS: dict[str, Any] = {name: DLS(rule) for name, rule in RULES.items()} | STEPS


@cache
def limits(kind: str) -> Limits:
    arm = robot("panda")
    if kind == "accelerating":
        return Limits.for_robot(arm, max_norm=2.0, max_acceleration=6.0)
    return Limits.for_robot(arm, max_norm=3.0, speed_factor=0.5, mode=kind)  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile all CUDA sources in parallel threads, because the compiler releases the GIL."""
    from supple.control.gpu_velocities import text_of

    arm, both = robot("panda"), (np.float64, np.float32)
    wanted = [(arm, None, optimal(arm), None, None, kind) for kind in both]
    wanted += [(arm, None, step, None, None, np.float64) for step in ALL_STEPS.values()]
    wanted += [(arm, None, DLS(RULES[name]), None, None, np.float32) for name in FLOATS]
    wanted += [
        (arm, None, optimal(arm), limits(kind), 0.01, dtype) for kind in LIMITED for dtype in both
    ]
    arms = [robot(name) for name in NAMES]
    wanted += [(arm, None, optimal(arm), None, None, np.float32) for arm in arms]
    architecture = device_named("cuda")[1].architecture
    with ThreadPoolExecutor() as pool:
        texts = [text_of(velocity_ik(*given[:5]), np.dtype(given[5])) for given in wanted]
        list(pool.map(lambda text: compile_source(text, architecture, accurate_sines=True), texts))


FLOATS = ["Constant", "Curvature", "Region", "Manipulability", "ConditionBound", "ErrorNorm"]
NAMES = sorted({name for name, _ in SINGULAR.values()})


def both(*given: Any, **options: Any) -> tuple[Array, Array]:
    """Return q̇ as computed on the CPU, and as computed on the GPU."""
    return velocities(*given, **options), velocities(*given, **options, device="cuda")


@pytest.mark.parametrize("name", ALL_STEPS)
def test_gpu_velocities_in_double_agree_with_the_cpu_for_all_steps(name: str) -> None:
    q, twist = some("panda", 3000)
    expected, found = both(robot("panda"), q, twist, step=ALL_STEPS[name])
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", FLOATS)
def test_gpu_velocities_in_float_agree_with_the_cpu_up_to_rounding(name: str) -> None:
    """J q̇ is compared, because in null directions of J rounding may change q̇."""
    q, twist = (x.astype(np.float32) for x in some("panda", 3000))
    arm, step = robot("panda"), DLS(RULES[name])
    expected = velocities(arm, q.astype(float), twist.astype(float), step=step)
    found = velocities(arm, q, twist, step=step, device="cuda")
    assert found.dtype == np.float32
    J = arm.jacobian(q.astype(float))
    moved = np.einsum("kij,kj->ki", J, found - expected)
    size = np.linalg.norm(twist, axis=1) + np.linalg.norm(expected, axis=1)
    assert (np.linalg.norm(moved, axis=1) <= 2e-4 * size + 1e-6).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("where", SINGULAR)
def test_optimally_damped_gpu_velocities_keep_the_bound_with_the_least_error(
    where: str, dtype: type
) -> None:
    name, at = SINGULAR[where]
    if dtype == np.float64 and name != "panda":
        pytest.skip("in float for every robot, in double for one")
    arm, rng = robot(name), np.random.default_rng(3)
    away = 10.0 ** rng.uniform(-12, 0, (5000, 1)) * rng.normal(size=(5000, arm.dof))
    away[:100] = 0
    twist = rng.normal(size=(5000, 6)) * 10.0 ** rng.uniform(-6, 3, (5000, 1))
    twist[::50] = 0
    q, asked = (at + away).astype(dtype), twist.astype(dtype)
    found = velocities(arm, q, asked, device="cuda")
    hold_optimal(arm, q, asked, found, damping.Optimal.for_robot(arm).max_speed)


def test_gpu_velocities_of_random_configurations_keep_the_bound() -> None:
    arm, rng = robot("panda"), np.random.default_rng(5)
    q = arm.random(200_000, seed=rng).astype(np.float32)
    q[::7] = SINGULAR["panda"][1]  # these configurations need the slow path
    twist = (rng.normal(size=(200_000, 6)) * 10.0 ** rng.uniform(-9, 6, (200_000, 1))).astype("f4")
    found = velocities(arm, q, twist, device="cuda")
    hold_optimal(arm, q, twist, found, damping.Optimal.for_robot(arm).max_speed)


@pytest.mark.parametrize("kind", LIMITED)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_limited_velocities_on_a_gpu_agree_with_the_cpu(kind: str, dtype: type) -> None:
    arm, dt = robot("panda"), 0.01
    q, twist = (x.astype(dtype) for x in some("panda", 4000, seed=2))
    q[::3] = np.where(np.arange(7) % 2, arm.lower, arm.upper) + 1e-2 * np.sin(q[::3])
    qd = (0.1 * np.cos(np.arange(28000)).reshape(4000, 7)).astype(dtype)
    bounds = limits(kind)
    expected, found = both(arm, q, twist, limits=bounds, dt=dt, qd=qd)
    assert np.isfinite(found).all()
    if dtype == np.float64:
        far = np.abs(found - expected).max(axis=1)
        assert (far <= 1e-6).mean() > 0.999  # rounding may decide which limit is active
    for i in range(0, 4000, 7):
        low, high = bounds.box(q[i].astype(float), qd[i].astype(float), dt)
        # Joints outside their limits return as fast as the bound on the norm allows.
        hurry = max(1.0, np.linalg.norm(np.clip(0, low, high)) / bounds.max_norm)
        low, high = np.where(low > 0, low / hurry, low), np.where(high < 0, high / hurry, high)
        # Positions are rounded to floats; this changes the limits of speed by the rounding error
        # over dt.
        slack = 4 * np.finfo(dtype).eps * (np.abs(q[i]) + 3) / dt
        assert ((low - slack <= found[i]) & (found[i] <= high + slack)).all()
    assert (np.linalg.norm(found.astype(float), axis=1) <= bounds.max_norm * (1 + 1e-6)).all()


def test_gpu_velocities_of_other_tasks_agree_with_the_cpu() -> None:
    q, twist = some("panda", 500)
    expected, found = both(robot("panda"), q, twist, PositionTask(axes="body"))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    expected, found = both(robot("panda"), q, twist, PoseTask(axes="spatial"))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    two = robot("y")
    q = two.random(500, seed=0)
    asked = np.random.default_rng(0).normal(size=(500, len(two.tips), 6))
    expected, found = both(two, q, asked)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("base", BASES)
def test_gpu_velocities_of_moving_bases_agree_with_the_cpu(cupy: ModuleType, base: str) -> None:
    arm, tasks, q, _, rng = drawn_batch(seeds(1)[0], 0.1, 300, base, followers=2)
    twist, step = rng.normal(size=(300, 6)), DLS(damping.Constant(1e-3))
    options: dict[str, Any] = {"limits": slow_limits(arm, rng), "dt": 0.01}
    for more in ({}, options):
        expected, found = both(arm, q, twist, tasks[0].frame, step=step, **more)
        assert found.shape == (300, arm.nv)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        there = velocities(
            arm, cupy.asarray(q), cupy.asarray(twist), tasks[0].frame, step=step, **more
        )
        assert (cupy.asarray(there).get() == found).all()


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129])
def test_gpu_velocities_in_batches_of_any_size_agree_with_the_cpu(count: int) -> None:
    q, twist = some("panda", count)
    expected, found = both(robot("panda"), q, twist)
    assert found.shape == (count, 7)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_gpu_velocities_at_angles_of_many_turns_agree_with_the_cpu() -> None:
    arm = robot("ur5e")
    q, twist = some("ur5e", 300)
    for turns, room in ((1000, 1e-7), (1_000_000, 1e-4)):
        far = q + 2 * np.pi * turns
        expected, found = both(arm, far, twist)
        np.testing.assert_allclose(found, expected, rtol=room, atol=room)


def test_nonfinite_host_arrays_are_refused_on_a_gpu() -> None:
    arm = robot("panda")
    q, twist = some("panda", 300)
    q[17, 2] = np.nan
    with pytest.raises(InputError, match=r"q\[17\] = "):
        velocities(arm, q, twist, device="cuda")


# ---- arrays in the GPU's memory ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gpu_velocities_of_cupy_arrays_stay_in_gpu_memory(cupy: ModuleType, dtype: type) -> None:
    arm = robot("panda")
    q, twist = (x.astype(dtype) for x in some("panda", 600))
    there = cupy.asarray(q).reshape(20, 30, 7), cupy.asarray(twist).reshape(20, 30, 6)
    found = velocities(arm, *there)
    assert found.shape == (20, 30, 7)
    expected = velocities(arm, q, twist, device="cuda")
    assert (cupy.asarray(found).get().reshape(600, 7) == expected).all()
    out = cupy.full((20, 30, 7), np.nan, dtype)
    assert velocities(arm, *there, out=out) is out
    assert (out.get().reshape(600, 7) == expected).all()


def test_gpu_velocities_of_nonfinite_rows_are_zero(cupy: ModuleType) -> None:
    arm = robot("panda")
    q, twist = (x.astype(np.float32) for x in some("panda", 300))
    whole = velocities(arm, q, twist, device="cuda")
    q[3, 0], q[4, 6], twist[5, 2], twist[6, 5] = np.nan, np.inf, -np.inf, np.nan
    twist[7] = 3e38  # its square overflows
    found = cupy.asarray(velocities(arm, cupy.asarray(q), cupy.asarray(twist))).get()
    assert np.isfinite(found).all()
    assert (found[3:7] == 0).all()
    assert (np.linalg.norm(found[7]) <= damping.Optimal.for_robot(arm).max_speed).all()
    assert (np.delete(found, range(3, 8), 0) == np.delete(whole, range(3, 8), 0)).all()


def test_gpu_arrays_with_wrong_shapes_are_refused(cupy: ModuleType) -> None:
    arm = robot("panda")
    q, twist = (cupy.asarray(x) for x in some("panda", 20))
    with pytest.raises(InputError, match=r"velocity must be .* float64 on cuda:0, as q is"):
        velocities(arm, q, twist.astype(cupy.float32))
    with pytest.raises(InputError, match="float32 or float64 and C-contiguous"):
        velocities(arm, q.astype(cupy.float16), twist)
    with pytest.raises(InputError, match="C-contiguous"):
        velocities(arm, q[:, ::-1], twist)
    with pytest.raises(InputError, match=r"q must be up to .* \(\.\.\., 7\)"):
        velocities(arm, twist, twist)
    with pytest.raises(InputError, match="out must be"):
        velocities(arm, q, twist, out=twist)


def test_a_cuda_graph_of_torch_uses_changed_inputs(torch: ModuleType) -> None:
    arm = robot("panda")
    data = [tuple(x.astype(np.float32) for x in some("panda", 5000, seed)) for seed in range(3)]
    q, twist = (torch.tensor(x, device="cuda") for x in data[0])
    out = torch.empty_like(q)
    velocities(arm, q, twist, out=out)  # compiles the kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        velocities(arm, q, twist, out=out, stream=torch.cuda.current_stream())
        q += 0.01 * out  # the graph also integrates q
    for at, asked in data:
        q.copy_(torch.tensor(at))
        twist.copy_(torch.tensor(asked))
        graph.replay()
        torch.cuda.synchronize()
        expected = velocities(arm, at, asked, device="cuda")
        assert (out.cpu().numpy() == expected).all()
        np.testing.assert_allclose(q.cpu().numpy(), at + np.float32(0.01) * expected, atol=1e-6)


def test_a_cuda_graph_of_cupy_applies_limits_in_place(cupy: ModuleType) -> None:
    arm = robot("panda")
    q, twist = (x.astype(np.float32) for x in some("panda", 3000))
    there, asked, qd = cupy.asarray(q), cupy.asarray(twist), cupy.zeros((3000, 7), "f4")
    options: dict[str, Any] = {"limits": limits("accelerating"), "dt": 0.01}
    velocities(arm, there, asked, qd=qd, out=qd, **options)  # compiles the kernel
    qd[:] = 0
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        velocities(arm, there, asked, qd=qd, out=qd, stream=stream, **options)
        graph = stream.end_capture()
    expected = np.zeros_like(q)
    for _ in range(4):
        graph.launch(stream)
        stream.synchronize()
        expected = velocities(arm, q, twist, qd=expected, device="cuda", **options)
        assert (qd.get() == expected).all()


def test_a_call_captured_in_a_cuda_graph_is_a_single_kernel_launch(cupy: ModuleType) -> None:
    arm, driver = robot("panda"), runtime.packages()[1]
    q, twist = (cupy.asarray(x.astype(np.float32)) for x in some("panda", 1000))
    out = cupy.empty_like(q)
    velocities(arm, q, twist, out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    with stream:
        check(driver.cuStreamBeginCapture(stream.ptr, mode))
        velocities(arm, q, twist, out=out, stream=stream.ptr)
        graph = check(driver.cuStreamEndCapture(stream.ptr))
    answer = driver.cuGraphGetNodes(graph, 100)
    assert int(answer[0]) == 0
    assert answer[2] == 1
    check(driver.cuGraphDestroy(graph))
