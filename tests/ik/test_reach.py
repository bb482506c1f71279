"""UNREACHABLE is proven by heights: upper bounds of the reach in many directions."""

from __future__ import annotations

import numpy as np
import pytest

import generated
import supple
from generated import CASES, seeds
from several_arms import arms
from sizes import nightly
from solving import solve
from supple import PoseTask, PositionTask, SolveStatus
from supple.ik.problem import compile_problem
from targets import boundary, reached

SEEDS = seeds(max(nightly(40, 16), CASES // 20))


def beyond(robot: supple.Robot, task: PoseTask | PositionTask, q: np.ndarray) -> np.ndarray:
    """Return how far probes at configurations q are above the heights that bound them, minus a
    bound on rounding errors.

    A point of a frame relative to a base is given by the difference of two positions in the world.
    """
    directions, heights, probes = compile_problem(robot, task).kernel.reach()
    (T,) = reached(robot, (task,), q)
    frames = [name for name in (task.frame, task.base) if name is not None]
    extent = np.abs(robot.fk(q, frames)[..., :3, 3]).max()
    worst = [np.empty((len(q), 0))]
    for height, (_, *point, lever, _weight) in zip(heights, probes, strict=True):
        at = T if T.ndim == 2 else T[:, :3, 3] + T[:, :3, :3] @ point
        far = (at @ directions - height).max(axis=1, keepdims=True)
        worst.append(far - 1e-15 * (extent + lever))
    return np.concatenate(worst, axis=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_configuration_reaches_beyond_the_computed_heights(seed: int) -> None:
    """Configurations of random robots include some with all joints at or near their limits."""
    rng = np.random.default_rng(seed)
    size = generated.size_of(rng)
    robot = generated.robot(rng, size=size, joints=int(rng.integers(1, 9)))
    frame = robot.tips[0]
    others = [name for name in robot.frames if name != frame]
    base = str(rng.choice(others)) if rng.random() < 0.4 else None
    for task in (PoseTask(frame, base=base), PositionTask(frame, base=base)):
        far = beyond(robot, task, generated.configurations(robot, 300, rng, size))
        assert far.size == 0 or far.max() <= 0


@pytest.mark.parametrize("name", ["panda", "ur5e", "iiwa14", "puma560"])
def test_targets_3_mm_beyond_the_boundary_are_proven_unreachable(name: str) -> None:
    robot = supple.load(name)
    _, T0, T5 = boundary(robot, 8)
    out = (T5 - T0)[:, :3, 3] / 0.05
    for away, status in ((0.0, SolveStatus.CONVERGED), (0.003, SolveStatus.UNREACHABLE)):
        T = T0.copy()
        T[:, :3, 3] += away * out
        assert (solve(robot, T).status == status).all()


def test_a_target_in_a_hole_of_the_workspace_is_not_called_unreachable() -> None:
    robot = supple.dh([(1.0, 0, 0, 0), (0.4, 0, 0, 0)])
    found = solve(robot, [0.1, 0, 0], tasks=PositionTask(rows=("x", "y")))
    assert found.status is SolveStatus.NOT_CONVERGED
    assert f"from {found.restarts + 1} seeds" in str(found)
    assert found.position_error == pytest.approx(0.5, abs=1e-6)


def test_a_target_out_of_reach_only_in_a_row_that_is_not_selected_is_met() -> None:
    robot = supple.load("panda")
    high = [0.0, 0.0, 5.0]
    assert solve(robot, high, tasks=PositionTask(rows=("x", "y"))).success
    found = solve(robot, high, tasks=PositionTask(rows=("x", "z")))
    assert found.status is SolveStatus.UNREACHABLE


def test_targets_of_two_hands_are_called_unreachable_if_one_is_out_of_reach() -> None:
    robot = arms("panda", "panda")
    T = robot.fk(robot.random(seed=1))
    T[0, 2, 3] += 5.0
    assert solve(robot, T).status is SolveStatus.UNREACHABLE
