"""Held feet of a floating Unitree G1 under large commands; MuJoCo computes their poses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

import supple as sp
from sizes import nightly

Array = np.ndarray
DT = 0.005
G1 = "frax/assets/unitree_g1/g1_29dof_rev_1_0.xml"
FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
HANDS = ("left_wrist_yaw_link", "right_wrist_yaw_link")
BENT = {"hip_pitch": -0.3, "knee": 0.6, "ankle_pitch": -0.3, "elbow": 0.6}


@pytest.fixture
def g1(robot_files: Callable[[str, str], Path]) -> tuple[sp.Robot, mujoco.MjModel, Array]:
    """Return the robot, its MuJoCo model without meshes, and a stance with bent knees."""
    path = robot_files("", G1)
    spec = mujoco.MjSpec.from_file(str(path))
    for geom in [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]:
        spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    robot = sp.mjcf(path)
    q = robot.neutral()
    for name, angle in BENT.items():
        for i, place in enumerate(robot.position_names):
            q[i] = angle if name in place else q[i]
    return robot, spec.compile(), q


def poses(model: mujoco.MjModel, q: Array) -> Array:
    """Return the poses (2, 12) of the feet by MuJoCo's kinematics."""
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    ids = [model.body(name).id for name in FEET]
    return np.hstack([data.xpos[ids], data.xmat[ids]])


@pytest.mark.parametrize("posture", [True, False])
def test_held_feet_do_not_slip_however_the_hands_move(
    g1: tuple[sp.Robot, mujoco.MjModel, Array], posture: bool
) -> None:
    robot, model, q = g1
    rng = np.random.default_rng(5)
    tasks = [sp.PositionTask(hand) for hand in HANDS]
    tasks += [sp.tasks.CenterOfMassTask(("x", "y"), weight=3.0)]
    tasks += [sp.PostureTask(weight=0.05)] if posture else []
    servo = sp.Servo(robot, tasks, dt=DT, held=[sp.PoseTask(foot) for foot in FEET])
    start, hands, center = poses(model, q), robot.fk(q, HANDS)[:, :3, 3], robot.center_of_mass(q)
    limits, worst, moved, stance = servo.limits, 0.0, 0.0, q
    for k in range(nightly(2000, 130)):
        if k % 40 == 0:  # targets are often out of reach
            wanted = [hand + 0.3 * rng.normal(size=3) for hand in hands]
        before = servo.qd
        given = [*wanted, center, stance] if posture else [*wanted, center]
        q = servo(q, target=given)
        assert sp.StepStatus.HELD_EXCEEDED not in servo.status, k
        worst = max(worst, float(np.abs(poses(model, q) - start).max()))
        moved = max(moved, float(np.abs(robot.fk(q, HANDS)[:, :3, 3] - hands).max()))
        assert (np.abs(servo.qd) <= limits.max_speed * (1 + 1e-12)).all()
        assert (np.abs(servo.qd - before) <= limits.max_acceleration * DT * (1 + 1e-9)).all()
        assert (q[7:] <= limits.upper[6:] + 1e-12).all()
        assert (q[7:] >= limits.lower[6:] - 1e-12).all()
    assert worst <= 1e-9
    assert moved > 0.1


def test_held_feet_stay_while_a_hand_reaches_for_a_distant_point(
    g1: tuple[sp.Robot, mujoco.MjModel, Array],
) -> None:
    """At straight knees, a singularity of the robot with held feet, the hand stops."""
    robot, model, q = g1
    far = robot.fk(q, HANDS[0])[:3, 3] + [1.5, 0.0, 0.3]
    servo = sp.Servo(
        robot, sp.PositionTask(HANDS[0]), dt=DT, held=[sp.PoseTask(foot) for foot in FEET]
    )
    start, away = poses(model, q), np.inf
    for _ in range(nightly(1000, 250)):
        q = servo(q, target=far)
        assert np.abs(poses(model, q) - start).max() <= 1e-9
        away = float(np.linalg.norm(robot.fk(q, HANDS[0])[:3, 3] - far))
    assert away < 0.7
    assert sp.StepStatus.OUT_OF_REACH in servo.status
