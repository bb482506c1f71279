"""The simulated robot of the viewer, with ball, planar and floating joints."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import supple as sp
from cases import each
from supple.describe import Description, Joint
from supple.view.panel import EXPORTS, exported
from supple.view.path import ToolPath
from supple.view.posture import comfortable, followed_frames, inside_limits
from supple.view.simulation import DT, Simulation

Array = np.ndarray


def balls() -> sp.Robot:
    """Return an arm with ball joints at its shoulder and wrist."""
    turn = np.array([0.0, 1.0, 0.0])
    joints = (
        Joint("shoulder", "ball", "base", "upper", origin=sp.pose([0, 0, 0.3])),
        Joint("elbow", "revolute", "upper", "lower", sp.pose([0.4, 0, 0]), turn, lower=-2, upper=2),
        Joint("wrist", "ball", "lower", "hand", origin=sp.pose([0.4, 0, 0])),
        Joint("end", "fixed", "hand", "tool", origin=sp.pose([0.1, 0, 0])),
    )
    return sp.Robot(Description("balls", joints))


ROBOTS = {
    "balls": balls(),
    "floating arm": sp.load("ur5e").with_base("floating"),
    "planar arm": sp.load("panda").with_base("planar"),
    "floating figure": sp.load("y").with_base("floating"),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_a_robot_with_a_moving_base_starts_inside_its_limits_and_rests(name: str) -> None:
    robot = ROBOTS[name]
    q = comfortable(robot)
    assert q.shape == (robot.nq,)
    np.testing.assert_allclose(inside_limits(robot, q), q, atol=1e-12)
    simulation = Simulation(robot, q)
    for _ in range(5):
        measured = simulation.advance(0.02)
    np.testing.assert_allclose(robot.difference(simulation.q, q), 0, atol=1e-8)
    assert measured.position_error < 1e-8
    if robot.nq != robot.nv and "floating" in name:
        np.testing.assert_array_equal(q[:7], robot.neutral()[:7])
        assert followed_frames(robot)[-1] not in robot.tips


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("task", ["pose", "position"])
def test_tips_of_robots_with_ball_joints_or_a_moving_base_reach_their_targets(
    name: str, task: str
) -> None:
    robot = ROBOTS[name]
    simulation = Simulation(robot, task=task)
    goal = simulation.targets
    goal[0, :3, 3] += [0.05, 0.03, 0.0]
    goal[-1, :3, 3] += [0.0, 0.02, 0.0]
    simulation.record(True)
    for k, T in enumerate(goal):
        simulation.set_target(k, T)
    for _ in range(100):
        measured = simulation.advance(0.02)
    # With more rows than joints, targets cannot be met.
    if (name, task) != ("floating figure", "pose"):
        assert measured.position_error < 1e-4
        places = simulation.tip_poses(simulation.q)[:, :3, 3]
        np.testing.assert_allclose(places, goal[:, :3, 3], atol=1e-4)
    motion = simulation.trajectory()
    assert motion is not None
    assert motion.q.shape == (len(motion) + 1, robot.nq)
    assert len(exported(simulation, EXPORTS["CSV"])) > 100
    assert simulation.replay()
    simulation.advance(0.1)
    assert simulation.replaying


@each("name", ROBOTS)
def test_a_slider_moves_only_its_coordinate(name: str) -> None:
    """The three sliders of a quaternion set its rotation vector, as computed by SciPy."""
    robot = ROBOTS[name]
    simulation = Simulation(robot)
    for j, joint in enumerate(robot.joint_names):
        before = simulation.q
        if joint in robot.position_names:
            at = robot.position_names.index(joint)
            simulation.set_joint(j, before[at] + 0.01)
            moved = np.zeros(robot.nv)
            moved[j] = min(0.01, robot.upper[j] - before[at])
            np.testing.assert_allclose(robot.difference(simulation.q, before), moved, atol=1e-9)
            continue
        first = robot.position_names.index(joint[:-2] + "qw")
        own = slice(first, first + 4)
        vector = Rotation.from_quat(before[own], scalar_first=True).as_rotvec()
        vector["xyz".index(joint[-1])] = 0.3
        simulation.set_joint(j, 0.3)
        there = Rotation.from_quat(simulation.q[own], scalar_first=True)
        np.testing.assert_allclose(there.as_rotvec(), vector, atol=1e-12)
        others = np.delete(np.arange(robot.nq), own)
        np.testing.assert_allclose(simulation.q[others], before[others], atol=1e-12)


@pytest.mark.parametrize("name", ROBOTS)
def test_solutions_and_paths_of_robots_with_ball_joints_or_a_moving_base_have_quaternions(
    name: str,
) -> None:
    robot = ROBOTS[name]
    simulation = Simulation(robot)
    found = simulation.solutions()
    assert len(found)
    assert found.q.shape[1] == robot.nq
    simulation.move_along(found.q[-1:])
    simulation.show_ghost(True)
    for _ in range(20):
        simulation.advance(0.1)
    reached = simulation.tip_poses(found.q[-1])
    np.testing.assert_allclose(simulation.tip_poses(simulation.q), reached, atol=1e-3)
    first = simulation.targets
    second = first.copy()
    second[:, :3, 3] += [0.02, 0.01, 0.0]
    path = simulation.plan_path([first, second])
    shown = ToolPath.of(path, robot, DT)
    assert shown.q.shape[1] == robot.nq
    step = np.abs(robot.difference(shown.q[1:], shown.q[:-1])).max()
    assert step < 0.1
