"""The caches of `solve` never return the entry of another problem, and never delay a call."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import supple
from batch_steps import velocities
from solving import solve
from supple import AxisTask, PositionTask, SolveStatus
from supple.ik.problem import compile_problem

PANDA = supple.load("panda")
T = PANDA.fk(np.array([0.3, -0.5, 0.2, -2.0, 0.1, 1.6, 0.8]))


class Several(Sequence):  # type: ignore[type-arg]
    """A sequence of tasks that has a hash although its tasks can be changed."""

    def __init__(self, *tasks: Any) -> None:
        self.tasks = list(tasks)

    def __getitem__(self, i: Any) -> Any:
        return self.tasks[i]

    def __setitem__(self, i: int, task: Any) -> None:
        self.tasks[i] = task

    def __len__(self) -> int:
        return len(self.tasks)


@pytest.mark.parametrize("kind", [list, collections.UserList, Several])
def test_solve_notices_changed_tasks_in_a_list(kind: Any) -> None:
    p, z = T[:3, 3].copy(), T[:3, 2].copy()
    tasks = (
        kind(PositionTask(), AxisTask()) if kind is Several else kind([PositionTask(), AxisTask()])
    )
    for axis, column in (((0, 0, 1), 2), ((1, 0, 0), 0), ((0, 1, 0), 1)):
        tasks[1] = AxisTask(axis=axis)
        for found in (
            supple.solve(PANDA, [p, z], tasks=tasks),
            supple.solve(PANDA, [p.tolist(), z], tasks=tasks),
            supple.Solver(PANDA, tasks)([p, z]),
        ):
            assert found.success
            np.testing.assert_allclose(PANDA.fk(found.q)[:3, column], z, atol=1e-5)


@pytest.mark.parametrize("kind", [list, collections.UserList, Several])
def test_velocities_of_a_batch_notice_a_changed_list_of_tasks(kind: Any) -> None:
    q = PANDA.neutral()
    tasks = kind("panda_hand") if kind is Several else kind(["panda_hand"])
    twist = np.ones((1, 6))
    first = velocities(PANDA, q, twist, tasks=tasks)
    tasks[0] = "panda_link4"
    second = velocities(PANDA, q, twist, tasks=tasks)
    np.testing.assert_array_equal(second, velocities(PANDA, q, twist[0], tasks="panda_link4"))
    assert not np.array_equal(first, second)


def fresh(name: str = "double_y") -> tuple[supple.Robot, Any]:
    """Return a robot with empty caches, and one of its targets."""
    robot = supple.load(name).with_base(np.eye(4))
    compile_problem.__globals__["_compiled"].cache_clear()
    return robot, list(robot.fk(robot.neutral() + 0.05))


def test_a_first_call_with_timeout_zero_does_not_build_the_seed_table() -> None:
    robot, target = fresh()
    found = solve(robot, target, timeout=0.0)
    assert found.status == SolveStatus.TIMEOUT
    assert np.isfinite(found.q).all()
    assert compile_problem(robot, None).kernel.seeds == 0
    batch = solve(robot, np.array(target)[None], timeout=0.0)
    assert batch.status[0] == SolveStatus.TIMEOUT
    assert compile_problem(robot, None).kernel.seeds == 0
    solve(robot, target)
    assert compile_problem(robot, None).kernel.seeds == 2048


def test_short_calls_build_the_seed_table_in_parts() -> None:
    """Short calls spend half of their time on building the table; until it is complete, the search
    does without it.
    """
    robot, target = fresh()
    solve(robot, target, timeout=1e-4)  # building the table takes far longer on every machine
    assert compile_problem(robot, None).kernel.seeds == 0
    for _ in range(10_000):
        found = solve(robot, target, timeout=1e-3)
        assert found.status in (SolveStatus.CONVERGED, SolveStatus.TIMEOUT)
        if compile_problem(robot, None).kernel.seeds:
            break
    assert compile_problem(robot, None).kernel.seeds == 2048
    assert solve(robot, target).success


def test_a_search_without_the_seed_table_finds_solutions() -> None:
    robot, _ = fresh("panda")
    T = robot.fk(robot.random(50, seed=0))
    while not (found := solve(robot, T[0], timeout=2e-4)).success:
        assert found.status == SolveStatus.TIMEOUT
    far = T[0].copy()
    far[0, 3] += 3.0
    assert solve(robot, far, timeout=2e-4).status in (SolveStatus.UNREACHABLE, SolveStatus.TIMEOUT)
