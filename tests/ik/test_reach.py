"""UNREACHABLE is a proof by heights: bounds of the reach in many directions."""

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
    """Return how far probes are above their heights at configurations q, less rounding errors.

    Points of a frame, relative to a base, are differences of positions in the world.
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
    """No configuration of a random robot is beyond its heights, however close to its limits."""
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
    """Targets 3 mm beyond the boundary, 0.3 % of the reach, are proven to be out of reach."""
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


def test_free_rows_do_not_prove_a_target_unreachable() -> None:
    robot = supple.load("panda")
    high = [0.0, 0.0, 5.0]
    assert solve(robot, high, tasks=PositionTask(rows=("x", "y"))).success
    found = solve(robot, high, tasks=PositionTask(rows=("x", "z")))
    assert found.status is SolveStatus.UNREACHABLE


def test_one_hand_out_of_reach_makes_both_unreachable() -> None:
    robot = arms("panda", "panda")
    T = robot.fk(robot.random(seed=1))
    T[0, 2, 3] += 5.0
    assert solve(robot, T).status is SolveStatus.UNREACHABLE
