"""Results of every kind of task and every damping rule on a GPU agree with those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from gpu_kernels import CASES
from solving import solve
from supple import PoseTask, PostureTask, SolveStatus
from supple.tasks.layout import compile_tasks
from targets import reached

pytestmark = pytest.mark.cuda

COUNTS = [200, 11_000]  # numbers of targets: a warp solves each of 200, a thread each of 11,000
Array = np.ndarray


def errors(robot: supple.Robot, tasks: tuple[Any, ...], q: Array, targets: Any) -> Array:
    """Return the largest position and rotation errors of all tasks (2, B), computed on the CPU."""
    layout = compile_tasks(robot, tasks)
    e = layout.error(q, layout.targets(targets)) / layout.weights
    worst, first = np.zeros((2, len(q))), 0
    for task in tasks:
        kinds = np.array([c >= 3 for c in task.on(robot).picked])
        own = e[:, first : first + len(kinds)]
        first += len(kinds)
        for kind in range(2):
            worst[kind] = np.maximum(worst[kind], np.linalg.norm(own[:, kinds == kind], axis=1))
    return worst


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", CASES)
def test_gpu_results_for_every_task_and_rule_agree_with_the_cpu(name: str, count: int) -> None:
    robot, tasks, rule = CASES[name]
    targets = reached(robot, tasks, robot.random(count, seed=3))
    found = solve(robot, targets, tasks=tasks, damping=rule, device="cuda")
    few = solve(robot, [one[:200] for one in targets], tasks=tasks, damping=rule)
    assert (found.status[:200] == few.status).mean() >= 0.995
    assert found.success.mean() >= few.success.mean() - 0.002
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    far, turned = errors(robot, tasks, found.q, targets)
    np.testing.assert_allclose(found.position_error, far, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.rotation_error, turned, rtol=1e-6, atol=1e-9)
    assert (np.maximum(far, turned)[found.success] <= 1e-6 + 1e-12).all()
    # Targets in another order give the same bits.
    back = [one[::-1] for one in targets]
    again = solve(robot, back, tasks=tasks, damping=rule, device="cuda")
    assert (again.q[::-1] == found.q).all()
    assert (again.status[::-1] == found.status).all()


@pytest.mark.parametrize("count", COUNTS)
def test_most_gpu_solutions_are_as_near_to_a_posture_as_those_of_the_cpu(count: int) -> None:
    robot = supple.load("panda")
    T, rest = robot.fk(robot.random(count, seed=4)), robot.neutral()
    tasks = [PoseTask(), PostureTask()]
    found = solve(robot, [T, rest], tasks=tasks, device="cuda")
    few, plain = solve(robot, [T[:200], rest], tasks=tasks), solve(robot, T[:200])
    assert (found.status == SolveStatus.CONVERGED).all()
    far, near, free = (np.linalg.norm(x.q[:200] - rest, axis=1) for x in (found, few, plain))
    assert far.mean() <= 1.05 * near.mean() < free.mean()
    # This holds for at least 60 % of the solutions.
    assert np.mean(far <= near + 1e-3) >= 0.6
    assert (errors(robot, (PoseTask(),), found.q, [T]) <= 1e-6 + 1e-12).all()
