"""`missed` and `reasons`: which tasks a result missed, by how much, and why."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from supple import PositionTask, SolveStatus, solve
from supple.describe import Description, Joint


def far_targets(robot: sp.Robot, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return targets (B, 3) of two frames; some are in reach and some are not."""
    rng = np.random.default_rng(seed)
    q = robot.random(24, seed=seed)
    tip = robot.fk(q, robot.tips[0])[:, :3, 3]
    elbow = robot.fk(q, "panda_link4")[:, :3, 3]
    tip += rng.normal(0, 0.4, tip.shape) * (rng.random((24, 1)) < 0.6)
    return tip, elbow


@pytest.mark.parametrize("seed", [1, 2])
def test_missed_is_the_error_of_a_task_that_is_not_met_and_otherwise_zero(seed: int) -> None:
    robot = sp.load("panda")
    tasks = [PositionTask(robot.tips[0]), PositionTask("panda_link4")]
    found = sp.Solver(robot, tasks).batch(far_targets(robot, seed))
    assert found.missed.shape == (24, 2)
    assert not found.missed[found.success].any()
    assert found.missed[~found.success].any(axis=1).all()
    both = np.hypot(found.position_errors, found.rotation_errors)
    there = found.missed > 0
    np.testing.assert_array_equal(found.missed[there], both[there])
    for k, one in enumerate(found):
        np.testing.assert_allclose(one.missed, found.missed[k], rtol=1e-12)
        assert len(one.reasons) == np.count_nonzero(one.missed)
        names = [f"PositionTask of {task.frame!r} by " for task in tasks]
        for name, sentence in zip(np.array(names)[one.missed > 0], one.reasons, strict=True):
            assert sentence.startswith(name)


def test_a_task_is_missed_because_of_another_task_a_joint_limit_or_the_reach() -> None:
    robot = sp.load("panda")
    tip, frames = robot.tips[0], (robot.tips[0], "panda_link4")
    at = robot.fk(robot.random(1, seed=3)[0], frames)[:, :3, 3]
    # Two targets for the same point: meeting either would make the error of the other larger.
    twice = [PositionTask(tip), PositionTask(tip)]
    found = solve(robot, [at[0] + [0.03, 0, 0], at[0]], tasks=twice)
    assert len(found.reasons) == 2
    assert all("would be missed by more" in each for each in found.reasons)
    # A base on a rail of 0.1 m cannot reach its target; another point, moved by its own joint, can.
    joints = (
        Joint("rail", "prismatic", "base", "car", axis=(1, 0, 0), lower=0.0, upper=0.1),
        Joint("lift", "prismatic", "base", "cabin", axis=(0, 0, 1), lower=0.0, upper=1.0),
    )
    rail = sp.Robot(Description("rails", joints))
    tasks = [PositionTask("car", rows="x"), PositionTask("cabin", rows="z")]
    found = solve(rail, [[0.3, 0, 0], [0, 0, 0.5]], tasks=tasks)
    assert not found.success
    np.testing.assert_allclose(found.missed, [0.2, 0.0], atol=1e-6)
    assert found.reasons == ("PositionTask of 'car' by 200.0 mm: rail at its limit",)


def test_the_reason_for_missing_the_only_task_is_that_of_the_status() -> None:
    robot = sp.load("ur5e")
    found = solve(robot, [3.0, 0, 0], tasks=PositionTask())
    assert found.status == SolveStatus.UNREACHABLE
    np.testing.assert_array_equal(found.missed, [found.position_error])
    assert found.reasons[0].endswith(SolveStatus.UNREACHABLE.sentence)
    late = sp.Solver(robot, timeout=0.0)(robot.fk(robot.random(1, seed=1)[0]))
    assert len(late.reasons) == 1 - late.success
