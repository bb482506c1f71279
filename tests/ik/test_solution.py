"""The three results of `solve` for one target, a batch, and several solutions: type, indexing,
iteration and truth value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple
from cases import each
from solving import solve
from supple import Solution, Solutions, SolveStatus
from supple.errors import InputError, UnknownNameError
from targets import fields_of

PANDA = supple.load("panda")
POSES = PANDA.fk(PANDA.random(6, seed=7))
FAR = POSES[0] + np.array([[0, 0, 0, 3.0], [0] * 4, [0] * 4, [0] * 4])
MIXED = np.array([POSES[0], FAR, np.full((4, 4), np.nan), POSES[1]])


def test_the_solution_of_one_target_is_true_if_and_only_if_it_converged() -> None:
    for target in (POSES[0], POSES[0].tolist()):  # the fast path, and the slow one
        found = solve(PANDA, target)
        assert type(found) is Solution
        assert found
        assert found.success is True
        assert found.status is SolveStatus.CONVERGED
        assert isinstance(found.position_error, float)
        assert isinstance(found.restarts, int)
        assert found.report is None
    for target in (FAR, FAR.tolist()):
        missed = solve(PANDA, target)
        assert not missed
        assert missed.success is False
    with pytest.raises(TypeError):
        iter(found)  # type: ignore[call-overload]


def test_a_batch_is_a_sequence_of_solutions() -> None:
    found = solve(PANDA, MIXED)
    assert type(found) is Solutions
    assert len(found) == 4
    assert found.shape == (4,)
    item = list(found)
    assert all(type(one) is Solution for one in item)
    assert [one.status for one in item] == list(found.status)
    assert found.status[1].name == "UNREACHABLE"
    assert found.status.count(SolveStatus.CONVERGED) == 2
    assert "2 converged; 1 unreachable; 1 nonfinite_input" in repr(found.status)
    assert found.status.dtype == np.int8
    assert [bool(one) for one in item] == found.success.tolist() == [True, False, False, True]
    for i in (0, -1, np.int64(1)):
        one: Solution = found[i]
        assert (one.q == found.q[i]).all()
        assert fields_of(one, "position_error")[:4] == (
            found.position_error[i],
            found.rotation_error[i],
            found.iterations[i],
            found.restarts[i],
        )
    assert "nonfinite" in str(found[2])
    assert "2 of 4 converged" in repr(found)
    with pytest.raises(IndexError):
        found[4]


@each("index", [slice(1, 3), np.array([0, 3]), [0, 3], MIXED[:, 0, 0] > -9])
def test_slices_masks_and_index_arrays_select_part_of_a_batch(index: Any) -> None:
    found = solve(PANDA, MIXED)
    some = found[index]
    assert type(some) is Solutions
    np.testing.assert_array_equal(some.q, found.q[index])
    np.testing.assert_array_equal(some.status, found.status[index])


def test_solutions_of_a_batch_with_several_axes_are_indexed_like_an_array() -> None:
    grid = solve(PANDA, POSES.reshape(2, 3, 4, 4))
    assert grid.shape == (2, 3)
    assert (len(grid), grid.size) == (2, 6)
    assert (grid[1, 2].q == grid.q[1, 2]).all()
    for row, item in zip(grid, (grid[0], grid[1, :]), strict=True):
        assert type(row) is Solutions
        assert row.shape == (3,)
        np.testing.assert_array_equal(row.q, item.q)
    with pytest.raises(IndexError, match=r"each of the batch axes \(2, 3\)"):
        grid[1, 2, 0]


def test_writing_into_a_result_changes_no_other_result() -> None:
    """A part of a batch is a copy, and no result shares memory with q0 or another result."""
    found = solve(PANDA, MIXED)
    before = found.q.copy()
    for part in (found[0], next(iter(found)), found[1:3], found[[0, 3]], found[found.success]):
        assert part.q.flags.writeable
        part.q[...] = 0.0
    np.testing.assert_array_equal(found.q, before)
    q0 = PANDA.neutral()
    for target in (POSES[0], POSES[0].tolist(), FAR):
        one, other = (solve(PANDA, target, q0=q0, timeout=t) for t in (None, 0.0))
        assert not np.shares_memory(one.q, other.q)
        assert not any(np.shares_memory(x.q, q0) for x in (one, other))
    several = solve(PANDA, POSES[0], solutions=2)
    several[0].q[:] = 0.0
    assert several.q[0].any()


def test_several_solutions_of_one_target_are_a_sequence_of_solutions() -> None:
    found = solve(PANDA, POSES[0], solutions=4)
    assert type(found) is Solutions
    assert len(found) == 4
    assert all(type(one) is Solution and one for one in found)
    assert (found[0].q == found.q[0]).all()
    assert type(found[:2]) is Solutions
    assert type(solve(PANDA, POSES[0], solutions=1)) is Solutions
    missed = solve(PANDA, FAR, solutions=4)
    (closest,) = missed
    assert closest.status is SolveStatus.UNREACHABLE
    assert str(missed) == f"no solution; {closest}"
    assert f" {closest.position_error:.4g} m " in str(missed)


def test_several_solutions_are_ordered_by_the_preference() -> None:
    """Without q0, solutions far from joint limits come first; with q0, those nearest to q0."""
    middle, half = (PANDA.upper + PANDA.lower) / 2, (PANDA.upper - PANDA.lower) / 2
    q0 = PANDA.neutral()
    orders: dict[str, tuple[dict[str, Any], Any]] = {
        "default": ({}, lambda q: np.abs((q - middle) / half).max(axis=-1)),
        "limits": ({"prefer": "limits"}, lambda q: np.abs((q - middle) / half).max(axis=-1)),
        "nearest": ({"q0": q0}, lambda q: np.abs(q - q0).max(axis=-1)),
        "own": ({"prefer": lambda q: q[2] ** 2}, lambda q: q[:, 2] ** 2),
    }
    for options, cost in orders.values():
        for target in POSES[:3]:
            found = solve(PANDA, target, solutions=6, **options)
            assert len(found) > 1
            assert (np.diff(cost(found.q)) >= 0).all()


def test_a_report_is_printed_with_its_solution() -> None:
    for target in (POSES[0], FAR):
        found = solve(PANDA, target, explain=True)
        first, _, rest = str(found).partition("\n")
        assert first.startswith(str(found.status))
        assert rest == str(found.report)


@each("options", [{}, {"solutions": 2}], ids=["a batch", "several"])
def test_the_truth_value_of_several_solutions_is_refused(options: dict[str, Any]) -> None:
    found = solve(PANDA, POSES[0] if options else POSES, **options)
    with pytest.raises(InputError, match=r"use success.all\(\) or success.any\(\)"):
        bool(found)


def test_a_status_prints_as_a_word() -> None:
    for status in SolveStatus:
        assert str(status) == f"{status}" == status.name.lower()
        assert f"{status:>20}" == f"{status.name.lower():>20}"
        assert status.sentence
        assert SolveStatus(int(status)) is status


# ---- frames --------------------------------------------------------------------------------------


def test_the_argument_frame_selects_frames_as_in_the_methods_of_a_robot() -> None:
    robot = supple.load("y")
    q = robot.random(seed=3)
    for frame in ("E1", ["E1", "E0"], robot.tips):
        found = solve(robot, robot.fk(q, frame), frame=frame)
        assert found
        np.testing.assert_allclose(robot.fk(found.q, frame), robot.fk(q, frame), atol=2e-6)
        names = [frame] if isinstance(frame, str) else list(frame)
        poses = [supple.PoseTask(name) for name in names]
        T = list(robot.fk(q, names))
        assert (solve(robot, T, tasks=poses).q == found.q).all()
        assert supple.Servo(robot, frame=frame, dt=0.01).tasks == tuple(poses)


@each("target", [POSES[0], POSES[0].tolist()], ids=["fast", "list"])
def test_the_arguments_frame_and_tasks_are_refused_together(target: Any) -> None:
    both = {"frame": "panda_hand", "tasks": supple.PoseTask("panda_hand")}
    for options in (both, dict(reversed(both.items()))):
        with pytest.raises(InputError, match="frame and tasks must not be given together"):
            solve(PANDA, target, **options)
    with pytest.raises(InputError, match="frame must be a name or a sequence of names"):
        solve(PANDA, target, frame=supple.PoseTask())  # type: ignore[call-overload]


# ---- mistakes ------------------------------------------------------------------------------------


def test_solve_refuses_a_target_before_the_robot() -> None:
    with pytest.raises(InputError, match=r"the robot is the first argument: solve\(robot, target"):
        solve(POSES[0], PANDA)  # type: ignore[call-overload]


def test_errors_for_unknown_arguments_say_what_to_use_instead() -> None:
    """They are errors of `solve`, also on its fast path, of `Servo` and of `simulate`."""
    with pytest.raises(UnknownNameError, match=r"argument 'limits'. .*robot.with_limits\(lower"):
        solve(PANDA, POSES[0], limits=None)  # type: ignore[call-overload]
    with pytest.raises(UnknownNameError, match="'framee'; did you mean 'frame'"):
        solve(PANDA, POSES[0].tolist(), framee="x")  # type: ignore[call-overload]
    q = PANDA.neutral()
    calls: tuple[Any, ...] = (
        lambda **wrong: solve(PANDA, POSES[0], **wrong),
        lambda **wrong: supple.Servo(PANDA, dt=0.01, **wrong),
        lambda **wrong: supple.simulate(PANDA, q, velocity=np.zeros(6), **wrong),
    )
    for call in calls:
        with pytest.raises(UnknownNameError, match=r"robot.freeze\(.*full_q"):
            call(joints=["panda_joint1"])
        for name, value in (("mode", "scale"), ("max_speed", 1.0), ("max_norm", 2.0)):
            said = rf"argument '{name}'. .*limits=supple.Limits.for_robot\(robot, {name}=\.\.\.\)"
            with pytest.raises(UnknownNameError, match=said):
                call(**{name: value})


def test_the_error_for_too_few_or_too_many_targets_lists_the_end_effectors() -> None:
    robot = supple.load("y")
    with pytest.raises(InputError, match=r"the poses of 'E0', 'E1' \(frame='E0' selects one"):
        solve(robot, robot.fk(robot.neutral())[0])
    with pytest.raises(InputError, match=r"2 tasks, the poses of 'E0', 'E1'"):
        solve(robot, [np.eye(4)] * 3)
