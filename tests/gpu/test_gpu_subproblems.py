"""Tasks that share no joint are solved separately on a GPU, and the solutions are merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supple
from several_arms import HEAD, arms, far_of, hold, somewhere
from solving import solve
from supple import PoseTask, SolveStatus
from targets import apart

pytestmark = pytest.mark.cuda

COUNTS = [200, 11_000]  # numbers of targets: a warp solves each of 200, a thread each of 11,000


@pytest.mark.parametrize("count", COUNTS)
def test_targets_of_two_arms_are_met_on_a_gpu(count: int) -> None:
    robot = arms("ur5e", "panda")
    T = somewhere(robot, count)
    found = solve(robot, T, device="cuda")
    assert found.success.all()
    hold(robot, T, found)
    assert (found.q[:, 0] == robot.lower[0]).all()  # joint of the head, which no task moves


@pytest.mark.parametrize("count", COUNTS)
def test_each_of_two_arms_has_the_solution_that_it_has_alone(count: int) -> None:
    """The q of each arm has the same bits as alone; iterations and restarts of both
    arms are added.
    """
    robot = arms("ur5e", "panda")
    T = somewhere(robot, count)
    found = solve(robot, T, device="cuda")
    effort = np.zeros((2, count))
    for k, tip in enumerate(robot.tips):
        own = [name.startswith(f"{k}: ") for name in robot.joint_names]
        still = [name for name, moves in zip(robot.joint_names, own, strict=True) if not moves]
        alone = solve(robot.freeze(still), T[k], tasks=PoseTask(tip), device="cuda")
        assert (alone.q == found.q[:, own]).all()
        effort += alone.iterations, alone.restarts
    assert (effort == (found.iterations, found.restarts)).all()


@pytest.mark.parametrize("count", COUNTS)
def test_one_arm_out_of_reach_does_not_stop_the_other(count: int) -> None:
    """The result is called unreachable, with the remaining error, but the other arm reaches its
    target.
    """
    robot = arms("ur5e", "panda")
    T = somewhere(robot, count)
    lost = np.arange(count) % 100 == 7
    T[1][lost, 0, 3] += 5
    found = solve(robot, T, device="cuda")
    assert (found.status[lost] == SolveStatus.UNREACHABLE).all()
    assert (found.status[~lost] == SolveStatus.CONVERGED).all()
    hold(robot, T, found)
    far = far_of(robot, found.q, T)
    assert (far[:, 0] <= 1e-6 + 1e-12).all()
    assert (far[0, 1, lost] > 3).all()


@pytest.mark.parametrize("count", COUNTS)
def test_only_rows_with_a_nonfinite_target_or_q0_get_nonfinite_input(count: int) -> None:
    robot = arms("ur5e", "panda")
    T, q0 = somewhere(robot, count), robot.random(count, seed=4)
    T[0][3, 0, 3] = np.nan
    T[1][5, 1, 3] = 1e12
    q0[8, 0] = np.nan  # a joint of the head
    q0[9, 4] = np.inf
    found = solve(robot, T, q0=q0, prefer="fast", device="cuda")
    bad = np.isin(np.arange(count), (3, 5, 8, 9))
    assert ((found.status == SolveStatus.NONFINITE_INPUT) == bad).all()
    assert (found.status[~bad] == SolveStatus.CONVERGED).all()
    assert np.isfinite(found.q).all()
    assert np.isinf(found.position_error[bad]).all()


@pytest.mark.parametrize("count", COUNTS)
def test_joints_that_move_no_task_stay_at_q0(count: int) -> None:
    robot = arms("ur5e", "panda")
    T, q0 = somewhere(robot, count), robot.random(count, seed=5)
    q0[1, 0] = 7.0  # beyond its limit
    found = solve(robot, T, q0=q0, prefer="fast", device="cuda")
    assert robot.joint_names[0] == HEAD
    assert (found.q[:, 0] == np.clip(q0[:, 0], robot.lower[0], robot.upper[0])).all()
    hold(robot, T, found)


def test_single_and_empty_targets_of_two_arms_are_solved_on_a_gpu() -> None:
    robot = arms("ur5e", "panda")
    T = [one[0] for one in somewhere(robot, 1)]
    found = solve(robot, T, device="cuda")
    assert found.status is SolveStatus.CONVERGED
    batch = solve(robot, [one[None] for one in T], device="cuda")
    hold(robot, [one[None] for one in T], batch)
    assert (batch.q[0] == found.q).all()
    assert solve(robot, np.empty((0, 2, 4, 4)), device="cuda").q.shape == (0, robot.dof)


@pytest.mark.parametrize("count", [300, 20_000])
def test_hands_and_feet_of_a_humanoid_meet_their_targets(
    count: int, robot_files: Callable[[str, str], Path]
) -> None:
    robot = supple.urdf(robot_files("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"))
    ends = [f"{s}_{k}_link" for k in ("wrist_yaw", "ankle_roll") for s in ("left", "right")]
    T = robot.fk(robot.random(count, seed=14), ends)
    for tight, gate in enumerate([(1e-4, 1e-3), (1e-6, 1e-6)]):
        found = solve(
            robot,
            T,
            tasks=ends,
            position_tolerance=gate[0],
            rotation_tolerance=gate[1],
            device="cuda",
        )
        assert found.success.mean() >= 1 - tight / 1000
        far, off = apart(robot.fk(found.q, ends), T)
        np.testing.assert_allclose(far.max(axis=1), found.position_error, rtol=1e-6, atol=1e-12)
        assert (far[found.success] <= gate[0] * (1 + 1e-9)).all()
        assert (off[found.success] <= gate[1] + 1e-12).all()
        assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
