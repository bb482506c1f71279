"""Limbs on a moving base: which joints form the base, and how few restarts targets need."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import supple as sp
from cases import each
from humanoids import humanoid
from sizes import nightly
from supple.ik.limbs import limbs_of

FEET = [sp.PoseTask("left_foot"), sp.PoseTask("right_foot")]
HANDS = [sp.PositionTask("left_hand"), sp.PositionTask("right_hand")]
TASKS = [
    FEET[0],
    HANDS[0],
    FEET[1],
    HANDS[1],
]  # the tasks of the two arms, which share the waist, are not adjacent


@cache
def on(base: str) -> sp.Robot:
    return humanoid() if base == "fixed" else humanoid().with_base(base)


def targets_of(robot: sp.Robot, q: np.ndarray, tasks: list = TASKS) -> list[np.ndarray]:
    poses = [robot.fk(q, task.frame) for task in tasks]
    return [T if task in FEET else T[..., :3, 3] for task, T in zip(tasks, poses, strict=True)]


@each(("base", "joints"), [("floating", 6), ("planar", 3)])
def test_the_joints_that_move_all_limbs_form_the_base(base: str, joints: int) -> None:
    robot = on(base)
    found = limbs_of(robot, TASKS)
    assert found is not None
    assert found.base == tuple(range(joints))
    assert sorted(found.tasks) == [(0,), (1, 3), (2,)]
    assert sorted(map(len, found.joints)) == [6, 6, 9]
    assert found.axis is not None
    np.testing.assert_allclose(np.abs(found.axis), (0, 0, base == "planar"), atol=1e-12)
    assert robot.fk(robot.neutral(), found.frame) == pytest.approx(
        robot.fk(robot.neutral(), "pelvis")
    )


def test_a_problem_has_limbs_only_if_several_independent_tasks_share_a_moving_base() -> None:
    assert limbs_of(on("fixed"), TASKS) is None
    assert limbs_of(on("floating"), HANDS) is None  # both arms depend on the waist
    assert limbs_of(on("floating"), FEET[:1]) is None


def test_seeds_do_not_place_the_base_if_a_task_is_relative_to_another_limb() -> None:
    related = sp.PositionTask("left_hand", base="left_foot")
    found = limbs_of(on("floating"), [related, FEET[1]])
    assert found is not None
    assert found.axis is None
    robot, q = on("floating"), on("floating").random(50, seed=0)
    T = np.linalg.inv(robot.fk(q, "left_foot")) @ robot.fk(q, "left_hand")
    targets = [T[:, :3, 3], robot.fk(q, "right_foot")]
    assert sp.Solver(robot, [related, FEET[1]]).batch(targets).success.all()


@pytest.mark.parametrize("base", ["floating", "planar"])
def test_most_targets_of_hands_and_feet_are_met_with_eight_seeds(base: str) -> None:
    robot = on(base)
    targets = targets_of(robot, robot.random(nightly(200, 80), seed=0))
    found = sp.Solver(robot, TASKS, max_seeds=8).batch(targets)
    assert np.mean(found.success) > 0.9


def test_tasks_of_limbs_are_met_whatever_the_order_in_which_they_are_given() -> None:
    robot = on("floating")
    q = robot.random(20, seed=1)
    order = [FEET[0], FEET[1], HANDS[0], HANDS[1]]
    one = sp.Solver(robot, TASKS).batch(targets_of(robot, q))
    other = sp.Solver(robot, order).batch(targets_of(robot, q, order))
    assert one.success.all()
    assert other.success.all()
    np.testing.assert_allclose(
        robot.fk(one.q, "left_foot"), robot.fk(other.q, "left_foot"), atol=2e-6
    )


def test_the_fast_path_of_a_solver_returns_the_values_of_its_slow_path() -> None:
    """The fast path converts quaternions in C++, the slow path in Python."""
    robot = on("floating")
    q = robot.random(2, seed=2)
    target = [np.ascontiguousarray(one[0]) for one in targets_of(robot, q)]
    solver, q0 = sp.Solver(robot, TASKS), q[1].copy()
    q0[3:7] *= -3
    for start in (None, q0):
        fast, slow = solver(target, start), solver(target, start, explain=True)
        np.testing.assert_allclose(fast.q, slow.q, atol=1e-14)
        assert fast.status == slow.status
        np.testing.assert_allclose(fast.missed, slow.missed, atol=1e-9)
        if start is not None:
            np.testing.assert_allclose(fast.q0, slow.q0, atol=1e-14)
            assert fast.moved == pytest.approx(slow.moved)
    with pytest.raises(sp.errors.InputError, match="finite"):
        solver(target, np.full(robot.nq, np.nan))


@pytest.mark.parametrize("base", ["floating", "planar"])
def test_reported_errors_of_limbs_are_in_the_order_of_the_tasks(base: str) -> None:
    """If a target is out of reach, these errors tell which task misses it."""
    robot, solver = on(base), sp.Solver(on(base), tasks=[*TASKS, sp.PostureTask()])
    q = robot.random(3, seed=5)
    targets = targets_of(robot, q)
    targets[1] = targets[1] + [0.0, 0.0, 3.0]
    aims = [*targets, np.broadcast_to(robot.neutral(), q.shape)]
    each = [solver([aim[k] for aim in aims]) for k in range(len(q))]
    batch = solver.batch(aims)
    for errors, at in [
        (np.array([one.position_errors for one in each]), each),
        (batch.position_errors, batch),
    ]:
        made = batch.q if at is batch else np.array([one.q for one in each])
        for k, (task, target) in enumerate(zip(TASKS, targets, strict=True)):
            place = target[..., :3, 3] if task in FEET else target
            away = np.linalg.norm(robot.fk(made, task.frame)[:, :3, 3] - place, axis=1)
            np.testing.assert_allclose(errors[:, k], away, atol=1e-9)
    assert (batch.position_errors[:, 1] > 0.5).all()
    assert all(len(one.reasons) > 0 for one in each)
