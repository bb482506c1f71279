"""Position IK of robots with ball and floating joints, for which nq > nv."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from floating import floating_arm, half_turned, least_difference, rescaled
from generated import seeds
from moving_trees import moving
from sizes import nightly

Array = np.ndarray
ROBOTS = ("ur5e", "floating arm", *range(nightly(8, 6)))
STEPPED = ("floating arm", 0, 1, 2, 3, 5)  # 4 has rails of kilometers, too long for small steps
AT_LIMIT = 1e-6  # distance from a limit below which a joint is at the limit [rad or m]
RULE = sp.DLS(sp.damping.Constant(1e-4))


def robot_of(which: str | int) -> sp.Robot:
    if isinstance(which, int):
        return moving(which)
    return sp.load(which) if which == "ur5e" else floating_arm()


def moves(robot: sp.Robot, q: Array, q0: Array) -> Array:
    return np.abs(robot.difference(q, q0)).max(axis=-1)


@pytest.mark.parametrize("which", ROBOTS)
def test_the_moves_of_all_solutions_are_measured_from_the_given_q0(which: str | int) -> None:
    """The law holds for one target, several targets with one q0, and several with a q0 for each."""
    robot = robot_of(which)
    frame = robot.tips[0]
    solver = sp.Solver(robot, frame=frame)
    q = robot.random(3, seed=1)
    T, starts = robot.fk(q, frame), rescaled(robot, robot.random(3, seed=2))
    for targets, q0 in ((T[0], starts[0]), (T, starts[0]), (T, starts)):
        found = solver.all(targets, q0=q0)
        assert found.q0 is not None
        assert found.q0.shape == q0.shape
        np.testing.assert_allclose(moves(robot, found.q0, q0), 0, atol=1e-12)
        own = q0 if q0.ndim == 1 else q0[found.target]
        np.testing.assert_allclose(found.moved, moves(robot, found.q, own), atol=1e-9)


def test_a_solver_that_iterates_a_given_step_meets_targets_of_robots_with_ball_joints() -> None:
    """The same step is given as a step of the kernel and as a Python function."""
    for which in STEPPED:
        robot = robot_of(which)
        frame = robot.tips[0]
        T = robot.fk(robot.random(3, seed=1), frame)
        q0 = rescaled(robot, robot.random(3, seed=2))
        found = sp.Solver(robot, frame=frame, step=RULE).batch(T, q0=q0)
        python = sp.Solver(robot, frame=frame, step=lambda J: RULE(J)).batch(T, q0=q0)
        assert found.q0 is not None
        np.testing.assert_allclose(moves(robot, found.q0, q0), 0, atol=1e-12)
        for one in (found, python, sp.Solver(robot, frame=frame, step=RULE).batch(T)):
            assert one.success.all()
            np.testing.assert_allclose(robot.fk(one.q, frame), T, atol=1e-5)
            for j, name in enumerate(robot.joint_names):
                if name in robot.position_names:
                    values = one.q[:, robot.position_names.index(name)]
                    assert (robot.lower[j] <= values).all()
                    assert (values <= robot.upper[j]).all()


def test_a_report_on_a_target_out_of_reach_names_the_joints_at_their_limits() -> None:
    """The index of such a joint in q differs from its index in q̇, because
    quaternions precede it.
    """
    named = 0
    for which in ROBOTS[1:]:
        robot = robot_of(which)
        frame = robot.tips[0]
        T = robot.fk(robot.neutral(), frame)
        T[:3, 3] += (3.0, -2.0, 400.0)
        found = sp.Solver(robot, frame=frame, max_seeds=4)(T, explain=True)
        assert found.report is not None
        ends = {}
        for j, name in enumerate(robot.joint_names):
            if name in robot.position_names:
                at = found.q[robot.position_names.index(name)]
                ends |= {(name, "lower"): at - robot.lower[j], (name, "upper"): robot.upper[j] - at}
        moving_it = np.flatnonzero(robot.jacobian(found.q, frame).any(axis=0))
        near = {each for each, left in ends.items() if left <= AT_LIMIT}
        near = {each for each in near if robot.joint_names.index(each[0]) in moving_it}
        assert set(found.report.at_limit) <= near
        assert {name for name, _ in found.report.at_limit} == {name for name, _ in near}
        named += len(found.report.at_limit)
    assert named > 3


def test_configurations_of_equal_orientation_count_as_one_solution() -> None:
    """A rotation of a ball joint by π has two rotation vectors, whose axes are opposite."""
    several = 0
    for seed in seeds(20):
        robot, q = half_turned(seed)
        T = robot.fk(q)
        for solver in (sp.Solver(robot, max_seeds=64), sp.Solver(robot, max_seeds=64, max_move=9)):
            found = solver.several(T, 16, q0=robot.random(seed=seed))
            assert found.success.all()
            assert least_difference(robot, found.q) > 1e-2
            several += len(found) > 1
    assert several > 20
