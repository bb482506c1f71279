"""A solution of several tasks states which task was missed, by how much, and whether it could be
met.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import generated
import supple
from several_arms import arms, far_of
from sizes import nightly
from solving import solve
from supple import AxisTask, PoseTask, PositionTask, PostureTask, SolveStatus
from supple.ik.problem import compile_problem
from supple.tasks import OpenTask
from targets import reached

Array = np.ndarray
ROBOTS = int(os.environ.get("SUPPLE_TASK_ROBOTS", nightly("60", "8")))


def some(robot: supple.Robot, count: int) -> list[Array]:
    """Return targets of two arms; every second target of the second arm is out of reach."""
    T = [robot.fk(robot.random(count, seed=3), tip) for tip in robot.tips]
    T[1][::2, 0, 3] += 3.0
    return T


def test_the_reported_error_of_each_task_is_that_of_its_frame() -> None:
    robot = arms("ur5e", "panda")
    T = some(robot, 6)
    found = solve(robot, T)
    expected = far_of(robot, found.q, T).transpose(0, 2, 1)
    np.testing.assert_allclose(found.position_errors, expected[0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.rotation_errors, expected[1], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.success, [False, True] * 3)
    assert (
        repr(found) == f"<Solutions (6,): 3 of 6 converged, 3 miss PoseTask of '{robot.tips[1]}'>"
    )
    assert f"3 miss PoseTask of '{robot.tips[1]}', by up to " in str(found)
    for part in (found[2:5], found[~found.success]):
        np.testing.assert_array_equal(part.position_errors.shape, (*part.shape, 2))
    np.testing.assert_array_equal(found[2:5].position_errors, found.position_errors[2:5])
    for i, one in enumerate(found):
        np.testing.assert_allclose(one.position_errors, found.position_errors[i], rtol=1e-12)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("order", [0, 1])
def test_the_report_names_the_task_that_is_missed(fast: bool, order: int) -> None:
    robot = arms("ur5e", "panda")
    T = [one[0] for one in some(robot, 1)]
    tasks = [PoseTask(tip) for tip in robot.tips]
    if order:
        T, tasks = T[::-1], tasks[::-1]
    target = T if fast else [one.tolist() for one in T]
    found = solve(robot, target, tasks=tasks)
    far = 1 - order
    assert found.status == SolveStatus.UNREACHABLE
    assert found.position_errors[far] == pytest.approx(found.position_error)
    assert found.position_errors[1 - far] <= 1e-6
    assert f"missed: PoseTask of '{robot.tips[1]}' by " in str(found)
    assert robot.tips[0] not in str(found)
    assert "position_errors=array(" in repr(found)
    explained = solve(robot, target, tasks=tasks, explain=True)
    ((name, position, rotation),) = explained.report.missed
    assert name == f"PoseTask of '{robot.tips[1]}'"
    np.testing.assert_allclose(
        [position, rotation],
        [explained.position_errors[far], explained.rotation_errors[far]],
    )
    assert f"missed: {name} by " in str(explained)
    assert str(explained).count("missed") == 1


def test_a_posture_is_a_preference_and_has_no_error() -> None:
    robot = supple.load("panda")
    T = robot.fk(robot.random(1, seed=4)[0])
    for tasks, target in (
        ([PoseTask(), PostureTask()], [T, robot.neutral()]),
        ([PostureTask(), PoseTask()], [robot.neutral(), T]),
    ):
        found = solve(robot, target, tasks=tasks)
        assert found.success
        assert found.tasks == tuple(tasks)
        place = tasks.index(PoseTask())
        assert found.position_errors[1 - place] == 0
        assert found.position_errors[place] == pytest.approx(found.position_error, abs=1e-12)


def test_the_error_of_the_only_task_is_the_error_of_the_solution() -> None:
    robot = supple.load("panda")
    found = solve(robot, robot.fk(robot.random(3, seed=5)))
    np.testing.assert_array_equal(found.position_errors, found.position_error[:, None])
    np.testing.assert_array_equal(found[1].rotation_errors, [found[1].rotation_error])
    np.testing.assert_array_equal(found[1].missed, [0.0])
    assert found[1].reasons == ()


def test_errors_of_all_tasks_are_infinite_for_a_nonfinite_target() -> None:
    robot = arms("ur5e", "panda")
    T = [robot.fk(robot.random(2, seed=6), tip) for tip in robot.tips]
    T[0][0] = np.nan
    found = solve(robot, T)
    assert np.isinf(found.position_errors[0]).all()
    assert np.isfinite(found.position_errors[1]).all()
    late = solve(robot, T[0][1:2] * 1, frame=robot.tips[0], timeout=0.0)
    assert np.isinf(late.position_errors).all() == np.isinf(late.position_error).all()


def test_errors_of_open_tasks_are_reported() -> None:
    robot = supple.load("panda")
    level = OpenTask(lambda q: q[1] + q[3], unit="rad")
    tasks: Any = (PositionTask(), level)
    found = solve(robot, ([0.4, 0.2, 0.5], [9.0]), tasks=tasks, max_seeds=1, max_iterations=50)
    assert not found.success
    assert found.rotation_errors[1] == pytest.approx(abs(9.0 - found.q[1] - found.q[3]))
    assert found.rotation_errors[0] == 0
    assert found.missed[1] == found.rotation_errors[1]
    assert found.reasons[-1].startswith("OpenTask by ")


def test_a_solution_of_five_joints_for_six_rows_says_that_most_targets_cannot_be_met() -> None:
    robot = supple.load("youbot")
    T = robot.fk(robot.random(1, seed=7)[0])
    assert "cannot" not in str(solve(robot, T))  # a target that five joints can meet
    T[:3, :3] = T[:3, :3] @ np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]]).T[::-1, ::-1]
    words = "5 joints cannot meet 6 rows except at special targets"
    found = solve(robot, T, explain=True)
    assert not found.success
    assert found.report.surplus.startswith(words)
    assert str(found).count(words) == 1
    assert words in str(solve(robot, T))
    assert words in str(solve(robot, T[None]))


def test_surplus_rows_are_counted_on_every_robot() -> None:
    """The summary mentions surplus rows if and only if J has more rows than nonzero columns."""
    for seed in range(ROBOTS):
        robot = generated.robot(seed, size=1.0)
        for task in (PoseTask(robot.tips[0]), PositionTask(robot.tips[0]), AxisTask(robot.tips[0])):
            q = generated.configurations(robot, 20, seed)
            lin = supple.linearize(robot, task, q)
            columns = int((np.abs(lin.J).max(axis=(0, 1)) > 1e-12).sum())
            target = reached(robot, (task,), q[:1])[0][0]
            moved = target + 100.0 if isinstance(task, PositionTask) else target
            if isinstance(task, PoseTask):
                moved = target.copy()
                moved[:3, 3] += 100.0
            found = solve(robot, moved, tasks=task, max_seeds=2)
            assert found or ("cannot meet" in str(found)) == (lin.J.shape[-2] > columns), seed


def test_rows_with_a_tolerance_are_not_counted_as_surplus() -> None:
    robot = supple.load("youbot")
    T = robot.fk(robot.random(1, seed=8)[0])
    T[:3, 3] += 5.0
    for task in (
        PoseTask(tolerance={"rz": 0.5}),
        PoseTask(rows=("x", "y", "z", "rx", "ry")),
        PositionTask(),
    ):
        target = T[:3, 3] if isinstance(task, PositionTask) else T
        assert "cannot" not in str(solve(robot, target, tasks=task))


def few_joints(rng: np.random.Generator) -> supple.Robot:
    """Return an arm with 2 to 5 revolute joints, whose axes are often parallel or perpendicular."""
    tidy = (0.0, np.pi / 2, -np.pi / 2)
    rows = [
        (rng.uniform(-0.5, 0.5), rng.choice([*tidy, rng.uniform(-3, 3)]), rng.uniform(-0.5, 0.5), 0)
        for _ in range(rng.integers(2, 6))
    ]
    return supple.dh(rows, limits=[np.sort(rng.uniform(-3, 3, 2)) for _ in rows])


@pytest.mark.parametrize("part", range(4))
def test_targets_with_more_rows_than_joints_are_judged_after_512_seeds(part: int) -> None:
    """With more rows than joints, targets that can be met are met, and the search for other targets
    ends after 512 seeds.

    Although a configuration comes near a target, the search is not prolonged, because this is no
    sign of a solution there.
    """
    for seed in range(part, ROBOTS, 4):
        rng = np.random.default_rng((28, seed))
        robot = few_joints(rng)
        q = robot.random(50, seed=rng)
        ends = np.where(rng.random(q.shape) < 0.5, robot.lower, robot.upper)
        q = np.where(rng.random(q.shape) < rng.random((50, 1)), ends, q)
        T = robot.fk(q)
        assert solve(robot, T).success.all(), seed
        off = T.copy()
        off[:, :3, 3] += 1e-3 * rng.normal(size=(50, 3))
        found = solve(robot, off[:8])
        assert not found.success.any(), seed
        assert (found.restarts < 512).all(), seed
        assert solve(robot, off[0]).restarts < 512, seed
        assert solve(robot, off[0], q0=q[0]).restarts < 512, seed
        assert solve(robot, off[0], max_seeds=600).restarts <= 600, seed


def test_without_surplus_rows_a_search_is_not_shortened_to_512_seeds() -> None:
    """Rows with a range, free rows and additional joints leave no surplus rows."""
    robot = supple.load("youbot")
    free = (PoseTask(tolerance={"rz": 0.5}), PoseTask(rows=("x", "y", "z", "rx", "ry")))
    for task in (*free, PositionTask()):
        assert compile_problem(robot, task).default_starts == 0
    assert compile_problem(robot, PoseTask()).default_starts > 0
    for name in ("ur5e", "panda", "double_y"):
        assert compile_problem(supple.load(name), None).default_starts == 0
