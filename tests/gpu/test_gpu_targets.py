"""Steps of whole bodies toward targets on a GPU agree with those of the CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import supple as sp
from generated import seeds
from supple.damping import Constant
from whole_bodies import drawn_batch, slow_limits

pytestmark = pytest.mark.cuda

Array = np.ndarray
STEP, DT = sp.DLS(Constant(1e-5)), 0.01


def drawn(
    seed: int, count: int, *, limited: bool, base: str = "floating", followers: int = 0
) -> tuple[Any, ...]:
    """Return a random robot, `count` configurations and targets, and the options of a call."""
    robot, tasks, q, targets, rng = drawn_batch(seed, 0.3, count, base, followers)
    options: dict[str, Any] = {"tasks": tuple(tasks), "gain": 20.0}
    if limited:
        options |= {"limits": slow_limits(robot, rng), "dt": DT}
    return robot, q, targets, options


def close(found: Any, expected: Array, tolerance: float) -> None:
    """Check that each row agrees, relative to its largest entry."""
    size = np.abs(expected).max(axis=-1, keepdims=True)
    assert (np.abs(found - expected) <= tolerance * size).all()


@pytest.mark.parametrize("limited", [False, True])
def test_steps_toward_targets_on_a_gpu_are_those_of_the_cpu(limited: bool) -> None:
    for seed in seeds(2):
        robot, q, targets, options = drawn(seed, 500, limited=limited)
        expected = STEP.velocities(robot, q, target=targets, **options)
        close(STEP.velocities(robot, q, target=targets, device="cuda", **options), expected, 1e-7)


@pytest.mark.parametrize(("base", "followers"), [("floating", 4), ("planar", 0), ("ball", 3)])
def test_gpu_steps_of_robots_on_any_base_with_mimic_joints_are_those_of_the_cpu_in_any_order(
    base: str, followers: int
) -> None:
    robot, q, targets, options = drawn(
        seeds(1)[0], 3000, limited=True, base=base, followers=followers
    )
    expected = STEP.velocities(robot, q, target=targets, **options)
    found = STEP.velocities(robot, q, target=targets, device="cuda", **options)
    close(found, expected, 1e-7)
    order = np.random.default_rng(0).permutation(3000)[:2000]
    some = [one[order] for one in targets]
    again = STEP.velocities(robot, q[order], target=some, device="cuda", **options)
    assert (again == found[order]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_toward_targets_in_cupy_arrays_stay_in_gpu_memory(
    cupy: ModuleType, dtype: Any
) -> None:
    robot, q, targets, options = drawn(seeds(1)[0], 333, limited=True)
    q, targets = q.astype(dtype), [one.astype(dtype) for one in targets]
    expected = STEP.velocities(robot, q, target=targets, **options)
    at, there = cupy.asarray(q), [cupy.asarray(one) for one in targets]
    tolerance = 1e-7 if dtype == np.float64 else 1e-6
    found = STEP.velocities(robot, at, target=there, **options)
    assert (type(found), found.dtype) == (cupy.ndarray, dtype)
    close(found.get(), expected, tolerance)
    at[3], there[0][5, 0, 3] = np.nan, np.inf
    found = STEP.velocities(robot, at, target=there, **options).get()
    assert (found[[3, 5]] == 0).all()
    kept = np.delete(np.arange(333), [3, 5])
    close(found[kept], expected[kept], tolerance)


def test_a_cuda_graph_of_torch_repeats_a_step_toward_targets(torch: ModuleType) -> None:
    robot, q, targets, options = drawn(seeds(1)[0], 200, limited=True)
    at, there = torch.tensor(q, device="cuda"), [torch.tensor(x, device="cuda") for x in targets]
    out = torch.empty((200, robot.nv), dtype=at.dtype, device="cuda")
    STEP.velocities(robot, at, target=there, out=out, **options)  # compiles the kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        STEP.velocities(robot, at, target=there, out=out, stream=stream, **options)
    at.copy_(torch.tensor(q[::-1].copy()))
    graph.replay()
    torch.cuda.synchronize()
    expected = STEP.velocities(robot, q[::-1], target=targets, **options)
    close(out.cpu().numpy(), expected, 1e-7)
