"""All solutions on a GPU, emulated or real, are those of the CPU.

On a real GPU:  pytest tests/gpu/test_gpu_branches.py -m cuda
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emulator
import supple as sp
from solving import solve
from supple.errors import InputError
from supple.ik.gpu.branches import CAPACITY

Array = np.ndarray
ARMS = ("ur5e", "puma560")


def load() -> None:
    for name in ARMS:
        robot = sp.load(name)
        solve(robot, np.empty((0, 4, 4)), solutions="all", device="cuda")


device = emulator.emulated_and_real(load)


def count_of(device: str) -> int:
    return 300 if device == "emulated" else 200_000


def same_solutions(ours: Any, theirs: Any) -> None:
    """Check that both results have the same solutions of each target; those of equal cost may be in
    any order.
    """
    np.testing.assert_array_equal(ours.count, theirs.count)
    np.testing.assert_array_equal(ours.complete, theirs.complete)
    a, b = (np.nan_to_num(one.padded(), nan=1e3) for one in (ours, theirs))
    away = np.abs(a[:, :, None] - b[:, None]).max(axis=-1)  # (B, k, k)
    assert away.min(axis=2).max() < 1e-7
    assert away.min(axis=1).max() < 1e-7


@pytest.mark.parametrize("name", ARMS)
def test_all_solutions_on_a_gpu_are_those_of_the_cpu(name: str, device: str) -> None:
    robot = sp.load(name)
    T = robot.fk(robot.random(count_of(device), seed=1))
    found = solve(robot, T, solutions="all", device="cuda")
    same_solutions(found, solve(robot, T, solutions="all"))
    reached = robot.fk(found.q)
    assert np.abs(reached - T[found.target]).max() < 1e-8
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()


@pytest.mark.parametrize("name", ARMS)
def test_solutions_on_a_gpu_are_ordered_by_distance_from_q0(name: str, device: str) -> None:
    robot = sp.load(name)
    q = robot.random(count_of(device) // 10, seed=2)
    q0 = np.clip(q + 0.05, robot.lower, robot.upper)
    found = solve(robot, robot.fk(q), q0=q0, solutions="all", device="cuda")
    first = np.cumsum(found.count) - found.count
    moved = np.abs(found.q - q0[found.target]).max(axis=1)
    assert (moved[first] <= np.abs(q - q0).max(axis=1) + 1e-9).all()
    # Near a singularity, the solution nearest to q0 may be another one than q.
    assert (np.abs(found.q[first] - q).max(axis=1) < 1e-6).mean() > 0.999
    inner = found.target[1:] == found.target[:-1]
    assert (np.diff(moved)[inner] >= 0).all()


def test_singular_and_unreachable_targets_have_the_solutions_of_the_cpu() -> None:
    robot = sp.load("puma560")
    q = robot.random(6, seed=3)
    q[2, 4] = 0.0  # at this wrist angle, there is a continuum of solutions
    T = robot.fk(q)
    T[3, 0, 3] += 10.0
    T[4, :3, 3] = np.nan
    found, same = (solve(robot, T, solutions="all", device=d) for d in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.count, same.count)
    np.testing.assert_array_equal(found.complete, same.complete)
    np.testing.assert_array_equal(found.sampled, same.sampled)
    assert found.sampled.any()
    assert found.count[3] == found.count[4] == 0


def test_each_solution_of_a_stretched_arm_is_found_once() -> None:
    robot = sp.load("ur5e")
    q = robot.random(40, seed=4)
    q[:, 2] = 0.0  # the two solutions, one for each bend of the elbow, are equal up to rounding
    found, same = (solve(robot, robot.fk(q), solutions="all", device=d) for d in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.count, same.count)
    assert (found.count < 8).all()


def test_all_solutions_of_targets_in_gpu_memory_stay_there() -> None:
    robot = sp.load("ur5e")
    T = robot.fk(robot.random((4, 5), seed=4))
    found: Any = solve(robot, emulator.there(T), solutions="all")
    assert found.count.shape == (4, 5)
    assert found.q.shape == (4, 5, CAPACITY, 6)
    q, count = found.q.numpy(), found.count.numpy()
    same = solve(robot, T, solutions="all")
    np.testing.assert_array_equal(count, same.count)
    there = np.arange(CAPACITY) < count[..., None]
    assert np.isfinite(q[there]).all()
    assert np.isnan(q[~there]).all()
    assert found.position_error.numpy()[there].max() < 1e-9
    assert found.rotation_error.numpy()[there].max() < 1e-9
    assert found.complete.numpy().all()
    with pytest.raises(InputError, match=r"success needs arrays in host memory: use numpy\(\)"):
        _ = found.success
    copied = found.numpy()
    np.testing.assert_array_equal(copied.count, same.count)
    assert len(copied) == same.count.sum()
    assert copied.success.all()
    assert np.abs(robot.fk(copied.of((1, 2)).q) - T[1, 2]).max() < 1e-8


def test_arms_without_a_closed_form_are_refused_for_all_solutions_on_a_gpu() -> None:
    panda = sp.load("panda")
    with pytest.raises(InputError, match="closed form"):
        solve(panda, panda.fk(panda.neutral()), solutions="all", device="cuda")
