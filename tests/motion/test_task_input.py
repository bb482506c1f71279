"""Bad input to tasks, and errors that state what was given and what is available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import supple
from solving import solve
from supple import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask
from supple.errors import InputError, UnknownNameError
from supple.tasks import as_tasks

PANDA = supple.load("panda")
Q = PANDA.neutral()
Make = Callable[[], Any]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PoseTask(rows=["w"]), "unknown row of a PoseTask 'w'"),
        (lambda: PositionTask(rows=["rx"]), "unknown row of a PositionTask 'rx'"),
        (lambda: PoseTask("panda_hnd").rows_of(PANDA), "unknown frame 'panda_hnd'; did you mean"),
        (lambda: PoseTask(base="x").rows_of(PANDA), "unknown frame for base= 'x'"),
        (lambda: PoseTask(axes="x").rows_of(PANDA), "unknown frame for axes= 'x'"),
        (lambda: AxisTask("x").rows_of(PANDA), "unknown frame 'x'"),
        (lambda: PostureTask(["elbow"]).rows_of(PANDA), "unknown joint 'elbow'"),
    ],
)
def test_unknown_names_in_tasks_are_refused(make: Make, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PoseTask(rows=["x", "x"]), "rows must differ"),
        (lambda: PoseTask(rows=[]), "PoseTask: rows must be a name"),
        (lambda: PoseTask(weight=0), r"must be a number above 0 or 6 such numbers; given: 0"),
        (lambda: PoseTask(weight=[1, 2]), r"above 0 or 6 such numbers; given: \[1, 2\]"),
        (lambda: PoseTask(weight=[1, 2, 3, 4, 5, -6]), "above 0 or 6 such numbers"),
        (lambda: PositionTask(weight=np.nan), "PositionTask: weight must be finite"),
        (lambda: OrientationTask(weight="heavy"), "OrientationTask: weight must be an array of n"),
        (lambda: PoseTask(weight=True), "PoseTask: weight must be an array of numbers"),
        (lambda: PoseTask(length=0), "PoseTask: length must be above 0; given: 0"),
        (lambda: PoseTask(length=(1, 2)), "PoseTask: length must be above 0"),
        (lambda: AxisTask(axis=(0, 0, 0)), "axis must be a nonzero direction"),
        (lambda: AxisTask(axis=(1, 0)), r"AxisTask: axis must be finite real.*shape \(3,\)"),
        (lambda: AxisTask(weight=(1, 2, 3)), "above 0 or 2 such numbers"),
        (lambda: PostureTask(joints=[]), "PostureTask: joints must be a name"),
        (lambda: PostureTask(weight=[]), "above 0 or a sequence of such numbers"),
        (lambda: PostureTask(weight=[1, 2]).rows_of(PANDA), "above 0 or 7 such numbers"),
        (lambda: as_tasks([]), "tasks must be a task.*given: "),
        (lambda: as_tasks(None), "tasks must be a task.*given: None"),
        (lambda: as_tasks([PoseTask(), 3]), "tasks must be a task"),
        (lambda: supple.pose((1, 2)), r"position must be finite real numbers of shape \(3,\)"),
        (lambda: supple.pose(wxyz=(0, 0, 0, 0)), "a quaternion must not be zero"),
        (lambda: supple.pose(wxyz=(1, 0, 0, 0), xyzw=(0, 0, 0, 1)), "one of .*given: wxyz, xyzw"),
        (lambda: supple.pose(rotation=2 * np.eye(3)), "pose must be a pose.*off by 3"),
    ],
)
def test_invalid_tasks_are_refused(make: Make, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


@pytest.mark.parametrize(
    ("task", "target", "said"),
    [
        (PoseTask(), np.eye(3), r"PoseTask's target must be finite real.*\(..., 4, 4\)"),
        (PoseTask(), np.diag([1.0, 1, -1, 1]), "PoseTask's target must be a pose.*det -1"),
        (PoseTask(), np.full((4, 4), np.nan), "PoseTask's target must be finite"),
        (PoseTask(), "up", "PoseTask's target must be finite real"),
        (PoseTask(), [1, 0, 0, 0, 0, 0, 0], "PoseTask's target must be finite real"),
        (
            PoseTask(),
            np.array([np.eye(4)] * 2),
            r"target must not be a batch; given: a batch of the shape \(2,\)",
        ),
        (PositionTask(), np.eye(4), r"PositionTask's target must be finite real.*given: an array"),
        (PositionTask(), (1, 2), "PositionTask's target"),
        (OrientationTask(), (1, 0, 0, 0), "OrientationTask's target"),
        (OrientationTask(), 2 * np.eye(3), "OrientationTask's target must be a pose.*off by 3"),
        (AxisTask(), (0, 0, 0), "AxisTask's target must be a nonzero direction"),
        (AxisTask(), (0, np.inf, 0), "AxisTask's target must be finite"),
        (PostureTask(), np.zeros(6), r"PostureTask's target must be finite real.*\(..., 7\)"),
        (PostureTask("panda_joint1"), np.zeros(7), r"\(..., 1\); given: an array of shape \(7,\)"),
    ],
)
def test_invalid_targets_of_tasks_are_refused(task: Any, target: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        task.linearize(PANDA, Q, target)


@pytest.mark.parametrize(
    ("task", "velocity", "said"),
    [
        (PoseTask(), np.zeros(3), r"PoseTask's velocity must be .*\(..., 6\)"),
        (PositionTask(), np.zeros(6), r"PositionTask's velocity must be .*\(..., 3\)"),
        (OrientationTask(), 1.0, "OrientationTask's velocity"),
        (AxisTask(), (1, 2, np.nan), "AxisTask's velocity must be finite"),
        (PostureTask(), np.zeros(3), r"PostureTask's velocity must be .*\(..., 7\)"),
    ],
)
def test_invalid_velocities_of_tasks_are_refused(task: Any, velocity: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        task.linearize(PANDA, Q, velocity=velocity)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: solve(PANDA, [0.45, 0.2, 0.4]), r"tasks=supple\.PositionTask\(\)"),
        (lambda: solve(PANDA, np.ones((5, 3))), r"tasks=supple\.PositionTask\(\)"),
        (lambda: solve(PANDA, np.ones(7)), r"supple\.pose\(position, xyzw="),
        (lambda: supple.Servo(PANDA, dt=0.01)(Q, np.eye(4)), "A pose is given as target="),
        (
            lambda: solve(PANDA, np.eye(4), tasks=PositionTask()),
            r"its position is pose\[\.\.\., :3, 3\]",
        ),
    ],
)
def test_the_error_about_a_target_of_a_typical_wrong_shape_has_a_hint(
    call: Make, said: str
) -> None:
    with pytest.raises(InputError, match=rf"given: an array of shape \(.*\)\. .*{said}"):
        call()


def test_a_configuration_must_be_single_and_finite() -> None:
    for q in (np.zeros((2, 7)), np.full(7, np.nan)):
        with pytest.raises(InputError, match=r"q must be one finite configuration \(7,\)"):
            PoseTask().linearize(PANDA, q)
    with pytest.raises(InputError, match=r"q must be an array.*\(7,\)"):
        PoseTask().linearize(PANDA, np.zeros(6))


def test_the_error_for_a_task_without_a_frame_lists_the_end_effectors() -> None:
    from calls import mimicking

    robot = mimicking()
    assert len(robot.tips) > 1
    with pytest.raises(InputError, match="several end effectors, 'link4', 'link7'; given: none"):
        PoseTask().rows_of(robot)
    assert PoseTask("link7").rows_of(robot)[0] == "x of link7"


def test_a_target_that_is_almost_a_rotation_becomes_the_nearest_rotation() -> None:
    T = PANDA.fk(PANDA.random(seed=1))
    off = T + 1e-7 * np.pad(np.ones((3, 3)), ((0, 1), (0, 1)))
    exact = PoseTask().linearize(PANDA, Q, T).e
    assert abs(PoseTask().linearize(PANDA, Q, off).e - exact).max() <= 1e-6
    single = PANDA.fk(PANDA.random(seed=1).astype(np.float32))
    assert abs(PoseTask().linearize(PANDA, Q, single).e - exact).max() <= 1e-5
