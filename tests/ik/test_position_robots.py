"""`solve` for hands, fingers, few joints, frozen joints, joints without limits, and NaN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from cases import each
from solving import solve
from supple import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask, SolveStatus
from supple.errors import DescriptionError, InputError

Array = np.ndarray
PANDA = supple.load("panda")
TIP = PANDA.tips[0]
ROBOTS = "share/example-robot-data/robots/"


def inside(robot: supple.Robot, q: Array) -> bool:
    return bool(((robot.lower <= q) & (q <= robot.upper)).all())


# ---- several frames, and frames relative to each other -------------------------------------------


def test_a_pose_of_one_hand_relative_to_the_other_is_met(
    robot_files: Callable[[str, str], Path],
) -> None:
    robot = supple.urdf(robot_files("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"))
    left, right = "left_wrist_yaw_link", "right_wrist_yaw_link"
    q = robot.random(30, seed=51)
    T, S = robot.fk(q, left), robot.fk(q, right)
    tasks = [PositionTask(left), PoseTask(right, base=left)]
    found = solve(robot, [T[:, :3, 3], np.linalg.inv(T) @ S], tasks=tasks)
    assert found.success.mean() >= 0.9
    good = found.q[found.success]
    at = np.linalg.inv(robot.fk(good, left)) @ robot.fk(good, right)
    assert np.abs(at - (np.linalg.inv(T) @ S)[found.success]).max() <= 3e-6
    assert np.abs(robot.fk(good, left)[:, :3, 3] - T[found.success, :3, 3]).max() <= 1e-6
    assert inside(robot, found.q)


def test_positions_of_all_fingertips_of_a_hand_are_met(
    robot_files: Callable[[str, str], Path],
) -> None:
    file = ROBOTS + "allegro_hand_description/urdf/allegro_right_hand.urdf"
    robot = supple.urdf(robot_files("cmeel.prefix", file))
    assert len(robot.tips) == 4
    tasks = [PositionTask(tip) for tip in robot.tips]
    T = robot.fk(robot.random(60, seed=52))
    found = solve(robot, [T[:, k, :3, 3] for k in range(4)], tasks=tasks)
    assert found.success.mean() >= 0.95
    off = robot.fk(found.q)[:, :, :3, 3] - T[:, :, :3, 3]
    assert np.linalg.norm(off[found.success], axis=-1).max() <= 1e-6
    assert inside(robot, found.q)


@pytest.mark.parametrize("base", ["panda_link0", "panda_link3"])
def test_relative_targets_do_not_depend_on_the_pose_of_the_base(base: str) -> None:
    # Relative targets reached with two different poses of the base have the same solutions.
    T = np.linalg.inv(PANDA.fk(PANDA.random(40, seed=53), base)) @ PANDA.fk(
        PANDA.random(40, seed=53)
    )
    away = np.array([[0, -1, 0, 5.0], [1, 0, 0, -2.0], [0, 0, 1, 1.0], [0, 0, 0, 1]])
    here = solve(PANDA, T, tasks=PoseTask(TIP, base=base))
    there = solve(PANDA.with_base(away), T, tasks=PoseTask(TIP, base=base))
    assert here.success.all()
    assert there.success.all()
    for robot, found in ((PANDA, here), (PANDA.with_base(away), there)):
        at = np.linalg.inv(robot.fk(found.q, base)) @ robot.fk(found.q)
        assert np.abs(at - T).max() <= 3e-6


# ---- masks and weights ---------------------------------------------------------------------------


@each("rows", [("x",), ("x", "y"), ("z", "rx", "ry"), ("rx", "ry", "rz")])
def test_unselected_rows_of_a_target_do_not_change_the_solution(rows: tuple[str, ...]) -> None:
    # Targets that differ only in unselected rows are the same target.
    task = PoseTask(TIP, rows=rows)
    T = PANDA.fk(PANDA.random(40, seed=54))
    found = solve(PANDA, T, tasks=task)
    assert found.success.all()
    for q, target in zip(found.q[:10], T, strict=False):
        assert np.abs(task.linearize(PANDA, q, target).e).max() <= 1e-6
    if rows == ("x", "y"):
        T[:, 2, 3] += 7.0
        assert solve(PANDA, T, tasks=task).success.all()


def test_reachable_poses_are_met_exactly_with_any_weights() -> None:
    T = PANDA.fk(PANDA.random(100, seed=55))
    for weight in ((10.0,) * 3 + (1.0,) * 3, (1, 2, 3, 0.1, 0.2, 0.3)):
        found = solve(PANDA, T, tasks=PoseTask(TIP, weight=weight))
        assert found.success.all()
        assert np.abs(PANDA.fk(found.q) - T).max() <= 3e-6


def test_a_row_with_a_larger_weight_has_a_smaller_error() -> None:
    far = np.array([1.5, 1.0, 0.5])
    off = []
    for weight in (0.2, 1.0, 5.0):
        found = solve(PANDA, far, tasks=PositionTask(TIP, weight=(weight, 1.0, 1.0)))
        assert found.status is SolveStatus.UNREACHABLE
        off.append(abs(PANDA.fk(found.q)[0, 3] - 1.5))
    assert off[0] > off[1] > off[2]


# ---- robots with one joint, with frozen joints, without limits -----------------------------------


def test_targets_of_a_robot_with_one_joint_are_met_or_called_unreachable() -> None:
    one = PANDA.freeze(dict.fromkeys(PANDA.joint_names[1:], 0.4))
    assert one.dof == 1
    q = one.random(50, seed=57)
    found = solve(one, one.fk(q))
    assert found.success.all()
    np.testing.assert_allclose(found.q, q, atol=1e-5)
    assert len(solve(one, one.fk(q[0]), solutions=5).q) == 1
    assert np.abs(solve(one, one.fk(q[0]), q0=q[0]).q - q[0]).max() < 1e-6
    off = one.fk(q[0])
    off[2, 3] += 0.1  # out of the plane
    beyond = solve(one, off, explain=True)
    assert beyond.status is SolveStatus.UNREACHABLE
    assert beyond.position_error == pytest.approx(0.1, rel=1e-6)
    slide = supple.load("stanford").freeze([n for i, n in enumerate(
        supple.load("stanford").joint_names) if i != 2])  # fmt: skip
    assert slide.prismatic.all()
    assert solve(slide, slide.fk(slide.random(20, seed=58))).success.all()


def test_a_robot_without_joints_is_refused() -> None:
    with pytest.raises(DescriptionError, match="none of them moves"):
        PANDA.freeze(PANDA.joint_names)


def test_welded_joints_stay_where_they_are() -> None:
    values = {PANDA.joint_names[2]: 0.7, PANDA.joint_names[6]: -0.3}
    welded = PANDA.freeze(values)
    free = [i for i, name in enumerate(PANDA.joint_names) if name not in values]
    T = welded.fk(welded.random(100, seed=59))
    found = solve(welded, T)
    assert found.success.mean() >= 0.99
    q = np.empty((100, 7))
    q[:, free], q[:, [2, 6]] = found.q, (0.7, -0.3)
    np.testing.assert_allclose(PANDA.fk(q)[found.success], T[found.success], atol=3e-6)


def test_joint_limits_may_be_infinite_on_one_side_or_both() -> None:
    inf = np.inf
    limits = [(-inf, inf), (-inf, 1.0), (-0.5, inf), (-2, 2), (-inf, inf), (-2, 2)]
    table = [(0.0, np.pi / 2, 0.3, 0.0), (0.4, 0.0, 0.0, 0.0), (0.1, np.pi / 2, 0.0, 0.0)]
    wrist = [(0.0, -np.pi / 2, 0.4, 0.0), (0.0, np.pi / 2, 0.0, 0.0), (0.0, 0.0, 0.1, 0.0)]
    robot = supple.dh(table + wrist, limits=limits)
    T = robot.fk(robot.random(200, seed=60))
    for found in (solve(robot, T), solve(robot, T, q0=robot.random(200, seed=61))):
        assert found.success.mean() >= 0.99
        assert inside(robot, found.q)
        assert np.abs(found.q).max() < 20.0


# ---- NaN in every kind of call -------------------------------------------------------------------

TASKS: dict[str, Any] = {
    "pose": (PoseTask(TIP), PANDA.fk(PANDA.neutral())),
    "position": (PositionTask(TIP), np.array([0.4, 0.0, 0.4])),
    "orientation": (OrientationTask(TIP), np.eye(3)),
    "axis": (AxisTask(TIP), np.array([0.0, 0.0, 1.0])),
}


@each("bad", [np.nan, np.inf])
@each("kind", TASKS)
@each(
    "options",
    [{}, {"q0": PANDA.neutral()}, {"prefer": "limits"}, {"damping": supple.damping.Constant(1e-3)}],
    ids=["plain", "q0", "prefer", "damping"],
)
def test_targets_with_nan_or_infinity_are_refused(
    kind: str, options: dict[str, Any], bad: float
) -> None:
    task, good = TASKS[kind]
    broken = good.copy()
    broken[(0,) * good.ndim] = bad
    with pytest.raises(InputError):
        solve(PANDA, broken, tasks=task, **options)
    with pytest.raises(InputError):
        solve(PANDA, broken, tasks=task, solutions=2, **options)
    found = solve(PANDA, np.stack([good, broken, good]), tasks=task, **options)
    assert found.status[1] == SolveStatus.NONFINITE_INPUT
    assert found.success[[0, 2]].all()
    assert np.isfinite(found.q).all()
    assert inside(PANDA, found.q)


def test_a_posture_with_nan_has_the_status_nonfinite_input() -> None:
    T = PANDA.fk(PANDA.random(3, seed=62))
    rest = np.tile(PANDA.neutral(), (3, 1))
    rest[1, 4] = np.nan
    found = solve(PANDA, [T, rest], tasks=[PoseTask(TIP), PostureTask()])
    assert found.status[1] == SolveStatus.NONFINITE_INPUT
    assert found.success[[0, 2]].all()
    with pytest.raises(InputError):
        solve(PANDA, [T[1], rest[1]], tasks=[PoseTask(TIP), PostureTask()])
