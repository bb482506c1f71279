"""Steps of whole bodies toward targets on an emulated GPU agree with those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

import emulator
import supple as sp
from generated import seeds
from sizes import nightly
from supple.control import gpu_targets, target_velocities
from supple.damping import Constant
from supple.errors import InputError
from whole_bodies import drawn_batch, slow_limits

Array = np.ndarray
STEP, DT = sp.DLS(Constant(1e-5)), 0.01


BASES = [("floating", 3), ("planar", 0), ("ball", 2), ("planar", 4)]


def there(given: Any, dtype: Any = np.float64) -> Any:
    """Return arrays that count as arrays in GPU memory."""
    if isinstance(given, list):
        return [one if one is None else there(one, dtype) for one in given]
    return emulator.There(np.ascontiguousarray(given, dtype))


@cache
def limited(
    seed: int, size: float, base: str = "floating", followers: int = 0
) -> tuple[sp.Robot, dict[str, Any], Array, list[Array]]:
    """Return a random robot, the options of a call with limits, and 70
    configurations and targets.
    """
    robot, tasks, q, targets, rng = drawn_batch(seed, size, 70, base, followers)
    options = {"tasks": tuple(tasks), "gain": 20.0, "limits": slow_limits(robot, rng), "dt": DT}
    return robot, options, q, targets


@cache
def free() -> tuple[sp.Robot, dict[str, Any], Array, list[Array]]:
    """Return a robot, the options of a call without limits, and 6 configurations and targets."""
    robot, tasks, q, targets, _ = drawn_batch(seeds(1)[0], 0.1, count=6)
    return robot, {"tasks": tuple(tasks), "gain": 20.0}, q, targets


def shared_and_missing() -> tuple[list[Any], list[Any]]:
    """Return two lists with one target per task, shared by all configurations of `free`.

    The first task has no target. The target of the posture is that of the hinges in the first list,
    and the whole configuration, with the base, in the second.
    """
    _, _, q, targets = free()
    shared = [None, *(one[0] for one in targets[1:])]
    return shared, [*shared[:-1], np.concatenate([q[0, :7], shared[-1]])]


def load() -> None:
    first = seeds(1)[0]
    cases = [(limited(first, 0.3), dtype) for dtype in (np.float64, np.float32)]
    cases += [(limited(first, 0.5, *case), np.float64) for case in BASES]
    for (robot, options, q, targets), dtype in cases:
        STEP.velocities(robot, there(q, dtype), target=there(targets, dtype), **options)
    robot, options, q, targets = free()
    for given in (targets, *shared_and_missing()):
        STEP.velocities(robot, there(q), target=there(given), **options)


@pytest.fixture(scope="module", autouse=True)
def emulated() -> Iterator[emulator.Device]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_velocities, "_cached", target_velocities._prepared)
        patch.setattr(gpu_targets, "on_device", gpu_targets.on_device.__wrapped__)
        yield emulator.install(patch, load)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_toward_targets_in_gpu_memory_are_those_of_the_cpu(dtype: Any) -> None:
    for seed in seeds(nightly(8, 1)):
        robot, options, q, targets = limited(seed, 0.3)
        q, targets = q.astype(dtype), [one.astype(dtype) for one in targets]
        for count in (70, 33, 0):
            few = [one[:count] for one in targets]
            expected = STEP.velocities(robot, q[:count], target=few, **options)
            found = STEP.velocities(
                robot, there(q[:count], dtype), target=there(few, dtype), **options
            ).numpy()
            assert (found.dtype, found.shape) == (dtype, (count, robot.nv))
            size = np.abs(expected).max(axis=-1, keepdims=True)
            tolerance = 1e-8 if dtype == np.float64 else 1e-6
            assert (np.abs(found - expected) <= tolerance * size).all()


@pytest.mark.parametrize(("base", "followers"), BASES)
def test_steps_of_robots_on_any_base_with_mimic_joints_are_those_of_the_cpu_in_any_order(
    base: str, followers: int
) -> None:
    for seed in seeds(nightly(6, 1)):
        robot, options, q, targets = limited(seed, 0.5, base, followers)
        expected = STEP.velocities(robot, q, target=targets, **options)
        found = STEP.velocities(robot, there(q), target=there(targets), **options).numpy()
        size = np.abs(expected).max(axis=-1, keepdims=True)
        assert (np.abs(found - expected) <= 1e-8 * size).all()
        order = np.random.default_rng(seed).permutation(70)[:45]
        some = [one[order] for one in targets]
        again = STEP.velocities(robot, there(q[order]), target=there(some), **options).numpy()
        assert (again == found[order]).all()


def test_all_robots_may_share_a_target_and_a_task_may_have_none() -> None:
    robot, options, q, _ = free()
    shared, whole = shared_and_missing()
    expected = STEP.velocities(robot, q, target=shared, **options)
    for given in (shared, whole):
        np.testing.assert_allclose(
            STEP.velocities(robot, there(q), target=there(given), **options).numpy(),
            expected,
            rtol=0,
            atol=1e-9 * np.abs(expected).max(),
        )
    out = there(np.full((6, robot.nv), np.nan))
    assert STEP.velocities(robot, there(q), target=there(shared), out=out, **options) is out
    np.testing.assert_allclose(out.array, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    found = STEP.velocities(robot, q, target=shared, device="cuda", **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_nonfinite_rows_in_gpu_memory_give_steps_of_zero() -> None:
    robot, options, *given = free()
    q, targets = deepcopy(given)
    expected = STEP.velocities(robot, q, target=targets, **options)
    q[1, 2], q[2, 3:7], targets[0][3, 0, 3], targets[-1][4, 0] = np.nan, 0.0, np.inf, np.nan
    found = STEP.velocities(robot, there(q), target=there(targets), **options).numpy()
    assert (found[1:5] == 0).all()
    np.testing.assert_allclose(found[[0, 5]], expected[[0, 5]], rtol=1e-6, atol=1e-9)


def test_errors_for_wrong_targets_in_gpu_memory_name_the_argument() -> None:
    robot, options, q, targets = free()
    with pytest.raises(InputError, match="target must be a sequence with one target for each"):
        STEP.velocities(robot, there(q), target=there(targets[:-1]), **options)
    with pytest.raises(InputError, match=r"the target of PoseTask .* must be .* as q is"):
        STEP.velocities(robot, there(q), target=there([targets[0][:3], *targets[1:]]), **options)
    with pytest.raises(InputError, match="in GPU memory"):
        STEP.velocities(robot, there(q), target=[targets[0], *there(targets[1:])], **options)
    with pytest.raises(InputError, match="threads is for device='cpu' only"):
        STEP.velocities(robot, there(q), target=there(targets), threads=1, **options)


class Millimeters(sp.PoseTask):
    """A pose task whose targets and velocities are in millimeters."""

    def targets(self, robot: sp.Robot, given: Any) -> Array:
        given = np.array(given, float)
        given[..., :3, 3] /= 1000
        return super().targets(robot, given)

    def velocities(self, robot: sp.Robot, given: Any) -> Array:
        return super().velocities(robot, np.array(given, float) * ([1e-3] * 3 + [1.0] * 3))


def test_targets_that_a_task_class_converts_must_be_in_host_memory() -> None:
    robot = sp.load("panda")
    q = robot.random(3, seed=1)
    T, twist = robot.fk(q), np.zeros((3, 6))
    refused = pytest.raises(InputError, match="target of Millimeters must be in host memory")
    with refused:
        STEP.velocities(robot, there(q), target=there(T), tasks=Millimeters())
    with refused:
        sp.linearize(robot, Millimeters(), there(q), there(T))
    with refused:
        sp.Solver(robot, Millimeters()).batch(there(T))
    with pytest.raises(InputError, match="velocity of Millimeters must be in host memory"):
        sp.linearize(robot, Millimeters(), there(q), velocity=there(twist))
    with pytest.raises(InputError, match="whose velocities need no conversion in Python"):
        STEP.velocities(robot, there(q), there(twist), tasks=Millimeters())
