"""Subproblems: tasks that share no joint are decoupled without changing the solutions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from calls import mimicking
from cases import each
from several_arms import HEAD, arms, far_of, hold, somewhere
from sizes import nightly
from solving import solve
from supple import AxisTask, PoseTask, PositionTask, SolveStatus
from supple.ik import driver
from supple.ik.problem import CompiledProblem, compile_problem
from supple.ik.subproblems import Subproblem, subproblems_of
from targets import apart, fields_of
from trees import Tree, trees


def of(robot: supple.Robot, *tasks: supple.Task) -> tuple[CompiledProblem, tuple[Subproblem, ...]]:
    problem = compile_problem(robot, tasks)
    return problem, subproblems_of(problem)


def joints(robot: supple.Robot, *tasks: supple.Task) -> list[list[int]]:
    return [part.joints.tolist() for part in of(robot, *tasks)[1]]


@given(trees(), st.data())
@settings(max_examples=nightly(60, 25), deadline=None)
def test_subproblems_share_no_task_and_no_joint(tree: Tree, data: st.DataObject) -> None:
    """The rows of a subproblem depend only on its joints."""
    frames = st.sampled_from(tree.frames)
    axes = st.sampled_from([None, "world", "body", *tree.frames])
    base = st.none() | frames
    tasks = tuple(
        PoseTask(data.draw(frames), base=data.draw(base), axes=data.draw(axes))
        for _ in range(data.draw(st.integers(1, 3)))
    )
    problem, parts = of(tree.robot, *tasks)
    numbers = np.concatenate([part.numbers for part in parts])
    assert sorted(numbers) == list(range(problem.layout.kernel.targets))
    held = [j for part in parts for j in part.joints]
    assert len(set(held)) == len(held)
    q = np.stack([tree.q, tree.q + tree.qd])
    J = problem.layout.jacobian(q)
    goals = problem.layout.reached(q[::-1])
    for part in parts:
        k = sorted({int(x) // 12 for x in part.numbers})
        rows = np.concatenate([np.arange(6 * i, 6 * i + 6) for i in k])
        assert not np.delete(J[:, rows], part.joints, axis=2).any()
        # Rows and errors of a subproblem equal those of the whole problem.
        own = part.problem.layout
        near = tree.rounding * 1e3
        alone = q[:, part.joints]
        np.testing.assert_allclose(
            own.jacobian(alone), J[:, rows][:, :, part.joints], rtol=0, atol=near
        )
        np.testing.assert_allclose(
            own.reached(alone), problem.layout.reached(q)[:, part.numbers], rtol=0, atol=near
        )
        np.testing.assert_allclose(
            own.error(alone, goals[:, part.numbers]),
            problem.layout.error(q, goals)[:, rows],
            rtol=0,
            atol=1e-6,
        )


def test_arms_on_a_fixed_stand_are_decoupled_but_arms_on_a_lift_are_coupled() -> None:
    stand, lift = arms("ur5e", "panda"), arms("ur5e", "panda", lift=True)
    tasks = tuple(PoseTask(tip) for tip in stand.tips)
    assert joints(stand, *tasks) == [[*range(1, 7)], [*range(7, 14)]]
    assert joints(stand, *tasks[::-1]) == [[*range(7, 14)], [*range(1, 7)]]
    assert joints(stand, tasks[1]) == [[*range(7, 14)]]
    assert joints(lift, *tasks) == [[0, *range(2, 15)]]
    assert stand.joint_names[0] == HEAD


def test_a_single_arm_is_its_only_subproblem() -> None:
    for robot in (supple.load("panda"), mimicking()):
        problem = compile_problem(robot, None)
        (part,) = subproblems_of(problem)
        assert part.problem is problem
        assert part.joints.tolist() == list(range(robot.dof))


def test_a_task_relative_to_another_arm_couples_both_arms() -> None:
    """A base or axes on another arm couple tasks; joints that move both frame and base do not."""
    lift = arms("ur5e", "panda", lift=True)
    one, two = lift.tips
    assert joints(lift, PoseTask(one, base=two)) == [[*range(2, 15)]]
    assert joints(lift, PoseTask(one, base="stand")) == [[*range(2, 8)]]
    assert joints(lift, PoseTask(one, base="stand", axes=two)) == [[0, *range(2, 15)]]
    tasks = (PoseTask(one, base="stand"), PositionTask(two, base="stand"))
    assert joints(lift, *tasks) == [[*range(2, 8)], [*range(8, 15)]]


def test_a_task_that_no_joint_moves_stays_in_a_subproblem() -> None:
    stand = arms("ur5e", "panda")
    one, two = stand.tips
    still = PositionTask("0: " + supple.load("ur5e").description.root)
    _, parts = of(stand, PoseTask(one), still, AxisTask(two))
    assert [part.problem.layout.tasks for part in parts] == [
        (PoseTask(one), still),
        (AxisTask(two),),
    ]
    (whole,) = of(stand, still)[1]
    assert whole.problem.layout.robot is stand


def test_regions_and_postures_over_all_joints_prevent_subproblems() -> None:
    stand = arms("ur5e", "panda")
    tasks = tuple(PoseTask(tip) for tip in stand.tips)
    rule = supple.damping.Region(0.1, 0.1, direction=[1.0] * 12)
    assert len(subproblems_of(compile_problem(stand, tasks, rule))) == 1
    for joints in (None, stand.joint_names[1:3]):  # a posture of all joints, or of one arm
        posture = (*tasks, supple.PostureTask(joints=joints))
        assert len(subproblems_of(compile_problem(stand, posture))) == 1


def test_subproblems_keep_the_damping_rule_and_max_step() -> None:
    stand = arms("ur5e", "panda")
    tasks = tuple(PoseTask(tip) for tip in stand.tips)
    rule = supple.damping.Constant(0.02)
    for part in subproblems_of(compile_problem(stand, tasks, rule, 0.2)):
        assert part.problem.settings == (rule, 0.2)
        assert part.problem.rule is rule


@each("count", [1, 3])
def test_a_mimic_joint_couples_the_frames_that_it_and_its_leader_move(count: int) -> None:
    """It couples the tasks of these frames, because one coordinate moves both joints."""
    robot = mimicking()
    tasks = [PositionTask(tip) for tip in robot.tips][:count]
    (held,) = joints(robot, *tasks)
    moving = np.abs(robot.jacobian(robot.random(20, seed=0), list(robot.tips)[:count])).max(
        (0, 1, 2)
    )
    assert held == np.nonzero(moving)[0].tolist()


# ---- subproblems on the CPU ----------------------------------------------------------------------

WAYS = ["a batch", "one by one", "one by one, explained"]


def ask(robot: supple.Robot, T: list[np.ndarray], way: str, **more: Any) -> supple.Solutions:
    """Solve for all targets in a batch, or one by one, with or without `explain`."""
    if way == "a batch":
        return solve(robot, T, threads=2, **more)
    q0, each = more.pop("q0", None), []
    for i in range(len(T[0])):
        own = {} if q0 is None else {"q0": q0[i]}
        each.append(solve(robot, [one[i] for one in T], explain=way == WAYS[2], **own, **more))
    parts = zip(*(fields_of(one)[:6] for one in each), strict=True)
    return supple.Solutions(*map(np.array, parts))


@pytest.mark.parametrize("way", WAYS)
def test_each_of_two_arms_has_the_solution_that_it_has_alone(way: str) -> None:
    """The q of each arm has the same bits as alone; iterations and restarts of both arms are added.
    The head, which no task moves, is as near to 0 as its limits allow.
    """
    robot = arms("ur5e", "panda")
    T = somewhere(robot, 40)
    found = ask(robot, T, way)
    assert found.status.tolist() == [SolveStatus.CONVERGED] * 40
    hold(robot, T, found)
    assert (found.q[:, 0] == robot.lower[0]).all()
    effort = np.zeros((2, 40))
    for k, tip in enumerate(robot.tips):
        own = [name.startswith(f"{k}: ") for name in robot.joint_names]
        still = [name for name, moves in zip(robot.joint_names, own, strict=True) if not moves]
        alone = ask(robot.freeze(still), [T[k]], way, tasks=[PoseTask(tip)])
        assert (alone.q == found.q[:, own]).all()
        effort += alone.iterations, alone.restarts
    assert (effort == (found.iterations, found.restarts)).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arm", [0, 1])
def test_one_arm_out_of_reach_does_not_stop_the_other(arm: int, way: str) -> None:
    """The result is called unreachable, but the other arm reaches its target."""
    robot = arms("ur5e", "panda")
    T = somewhere(robot, 10)
    T[arm][7, 0, 3] += 5
    found = ask(robot, T, way)
    assert ((found.status == SolveStatus.UNREACHABLE) == (np.arange(10) == 7)).all()
    hold(robot, T, found)
    far = far_of(robot, found.q, T)
    assert (far[:, 1 - arm] <= 1e-6 + 1e-12).all()
    assert far[0, arm, 7] > 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prefer", ["fast", "nearest"])
def test_arms_end_near_q0_and_joints_that_move_no_task_stay_there(way: str, prefer: str) -> None:
    """A joint that moves no task is clipped to its limits if its q0 is outside."""
    robot = arms("ur5e", "panda")
    q = 0.9 * robot.random(20, seed=6)
    T = [robot.fk(q, tip) for tip in robot.tips]
    q0 = q + 0.03
    q0[1, 0] = 7.0  # beyond its limit
    found = ask(robot, T, way, q0=q0, prefer=prefer)
    assert robot.joint_names[0] == HEAD
    assert (found.q[:, 0] == np.clip(q0[:, 0], robot.lower[0], robot.upper[0])).all()
    assert found.status.tolist() == [SolveStatus.CONVERGED] * 20
    hold(robot, T, found)
    if prefer == "nearest":
        assert np.abs(found.q - q0)[:, 1:].max() < 0.3


def test_only_rows_with_a_nonfinite_target_or_q0_get_nonfinite_input() -> None:
    robot = arms("ur5e", "panda")
    T, q0 = somewhere(robot, 12), robot.random(12, seed=4)
    T[0][3, 0, 3] = np.nan
    T[1][5, 1, 3] = 1e12
    q0[8, 0] = np.nan  # a joint of the head
    q0[9, 4] = np.inf
    found = solve(robot, T, q0=q0, prefer="fast")
    bad = np.isin(np.arange(12), (3, 5, 8, 9))
    assert ((found.status == SolveStatus.NONFINITE_INPUT) == bad).all()
    assert (found.status[~bad] == SolveStatus.CONVERGED).all()
    assert (found.q[bad] == robot.neutral()).all()
    assert not found.iterations[bad].any()
    assert not found.restarts[bad].any()
    assert np.isinf(found.position_error[bad]).all()
    for i in (3, 8, 9):
        with pytest.raises(supple.errors.InputError, match="finite"):
            solve(robot, [one[i] for one in T], q0=q0[i])


def test_a_timeout_of_zero_is_reported_for_all_subproblems() -> None:
    robot = arms("ur5e", "panda")
    T = somewhere(robot, 5)
    assert (solve(robot, T, timeout=0).status == SolveStatus.TIMEOUT).all()
    one = solve(robot, [each[0] for each in T], timeout=0)
    assert one.status is SolveStatus.TIMEOUT
    assert np.isfinite(one.q).all()


def test_targets_met_before_the_timeout_are_called_converged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = arms("ur5e", "panda")
    T = somewhere(robot, 40)
    same = solve(robot, T)
    monkeypatch.setattr(driver, "_MERGED_AT_ONCE", (8, 8))

    def until_time_is_up(done: int, total: int) -> None:
        if done >= 16:
            time.sleep(max(0.0, began + 1.1 - time.perf_counter()))

    began = time.perf_counter()
    found = solve(robot, T, timeout=1.0, progress=until_time_is_up)
    assert (found.status[:16] == SolveStatus.CONVERGED).all()
    assert (found.status[16:] == SolveStatus.TIMEOUT).all()
    assert (found.q[:16] == same.q[:16]).all()


@pytest.mark.parametrize("way", ["one by one", "a batch"])
def test_a_hard_subproblem_leaves_half_of_the_time_to_the_next_one(way: str) -> None:
    """The first arm cannot reach its target; the second arm reaches its own before the timeout."""
    robot = arms("ur5e", "panda")
    T = [one[:1] for one in somewhere(robot, 1)]
    # The target is inside the shoulder and out of reach, but no plane separates it from the reach.
    T[0][:, :3, 3] = robot.fk(robot.random(2000, seed=0), robot.tips[0])[:, :3, 3].mean(axis=0)
    given = T if way == "a batch" else [one[0] for one in T]
    found = solve(robot, given, timeout=0.4, max_seeds=2**31 - 1, tasks=robot.tips)
    assert np.all(found.status == SolveStatus.TIMEOUT)
    off = apart(robot.fk(np.atleast_2d(found.q), robot.tips[1]), T[1])
    assert max(one.max() for one in off) <= 1e-6


def test_progress_counts_a_target_by_the_share_of_its_subproblems_that_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = arms("ur5e", "panda")
    monkeypatch.setattr(driver, "_MERGED_AT_ONCE", (1000, 1000))
    told: list[tuple[int, int]] = []
    solve(robot, somewhere(robot, 3000), progress=lambda *now: told.append(now))
    done = [now for now, _ in told]
    assert {total for _, total in told} == {3000}
    assert done == sorted(done)
    assert done[-1] == 3000
    assert 500 in done  # a thousand targets with one of two subproblems solved


def test_several_solutions_meet_the_targets_of_all_subproblems() -> None:
    robot = arms("ur5e", "planar3")
    T = [one[0] for one in somewhere(robot, 1)]
    found = solve(robot, T, solutions=5)
    assert len(found.q) > 1
    hold(robot, [np.stack([one] * len(found.q)) for one in T], found)
    best = solve(robot, T, prefer="limits")
    assert best.status is SolveStatus.CONVERGED


def test_an_empty_batch_of_targets_gives_an_empty_result() -> None:
    robot = arms("ur5e", "panda")
    assert solve(robot, np.empty((0, 2, 4, 4))).q.shape == (0, robot.dof)


def test_hands_and_feet_of_a_humanoid_meet_their_targets(
    robot_files: Callable[[str, str], Path],
) -> None:
    robot = supple.urdf(robot_files("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"))
    ends = [f"{s}_{k}_link" for k in ("wrist_yaw", "ankle_roll") for s in ("left", "right")]
    parts = subproblems_of(compile_problem(robot, ends))
    assert [(len(part.joints), part.problem.primary) for part in parts] == [
        (17, 12),
        (6, 6),
        (6, 6),
    ]
    T = robot.fk(robot.random(300, seed=14), ends)
    found = solve(robot, T, tasks=ends)
    assert found.success.mean() >= 0.995
    far, off = apart(robot.fk(found.q, ends), T)
    np.testing.assert_allclose(far.max(axis=1), found.position_error, rtol=1e-6, atol=1e-12)
    assert (far[found.success] <= 1e-6 + 1e-12).all()
    assert (off[found.success] <= 1e-6 + 1e-12).all()
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("prefer", [None, "limits", "manipulability"])
def test_several_solutions_differ_in_joints_that_move_the_task(
    prefer: str | None, seeded: bool
) -> None:
    """In every solution, all other joints stay at q0, or at neutral without q0."""
    robot = arms("panda", "ur5e")
    tip = robot.tips[1]
    arm = [j for j, name in enumerate(robot.joint_names) if name.startswith("1: ")]
    q = robot.random(seed=3)
    q0 = robot.random(seed=4) if seeded else None
    target = robot.fk(q, tip)
    still = np.delete(robot.neutral() if q0 is None else q0, arm)
    found = solve(robot, target, frame=tip, q0=q0, prefer=prefer, solutions=8)
    assert len(found.q) > 1
    np.testing.assert_array_equal(np.delete(found.q, arm, axis=1), np.tile(still, (len(found), 1)))
    np.testing.assert_allclose(
        robot.fk(found.q, tip), np.tile(target, (len(found), 1, 1)), atol=1e-5
    )
    apart_by = np.abs(found.q[:, None, arm] - found.q[None, :, arm]).max(axis=-1)
    assert apart_by[~np.eye(len(found), dtype=bool)].min() > 1e-3
    if prefer is not None:
        batch = solve(robot, np.tile(target, (3, 1, 1)), frame=tip, q0=q0, prefer=prefer)
        np.testing.assert_array_equal(batch.q, np.tile(found.q[0], (3, 1)))


def test_a_nonfinite_q0_of_a_joint_without_a_task_is_refused() -> None:
    robot = arms("panda", "ur5e")
    q0 = robot.neutral()
    q0[0] = np.nan
    target = robot.fk(robot.random(seed=3), robot.tips[1])
    with pytest.raises(supple.errors.InputError, match="finite"):
        solve(robot, target, frame=robot.tips[1], q0=q0, solutions=4)
