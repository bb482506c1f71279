"""Servo and solve move a floating or planar base like other joints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from commands import found
from generated import robot as generated_robot
from generated import seeds
from sizes import nightly

G1 = ("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf")


def on_moving_base(seed: int) -> tuple[sp.Robot, np.random.Generator]:
    """Return a random robot on a floating or planar base."""
    rng = np.random.default_rng([seed, 32])
    return generated_robot(rng, size=1.0).with_base(str(rng.choice(["floating", "planar"]))), rng


def targets_of(robot: sp.Robot, q: np.ndarray) -> np.ndarray:
    """Return the poses of the end effectors at q."""
    return robot.fk(q)


def with_spheres(robot: sp.Robot) -> sp.Robot:
    """Return a robot with a sphere on every third link."""
    shapes = {link: (sp.collision.Sphere(0.06),) for link in robot.description.links[::3]}
    return sp.Robot(replace(robot.description, shapes=shapes))


def test_a_step_of_a_moving_base_moves_the_hand_as_commanded() -> None:
    for seed in seeds(nightly(200, 40)):
        robot, rng = on_moving_base(seed)
        servo = sp.Servo(robot.with_tips(robot.tips[0]), dt=0.002)
        q, twist = robot.random(seed=rng), 0.01 * rng.normal(size=6)
        for _ in range(3):
            before = q
            q = servo(before, velocity=twist)
            np.testing.assert_allclose(
                robot.difference(q, before), 0.002 * servo.qd, atol=1e-13 * (1 + np.abs(q).max())
            )
        if robot.joint_names[3] == "base/rx":  # the base is floating, so it can perform every twist
            J = robot.jacobian(before, robot.tips[0])
            np.testing.assert_allclose(J @ servo.qd, twist, atol=1e-3 * np.abs(twist).max())
        for ball in robot._balls:
            assert np.linalg.norm(q[ball : ball + 4]) == pytest.approx(1, abs=1e-14)


def test_a_servo_with_a_floating_base_reaches_any_pose() -> None:
    for seed in seeds(nightly(100, 15)):
        rng = np.random.default_rng([seed, 33])
        robot = sp.load(str(rng.choice(["ur5e", "panda", "puma560"]))).with_base("floating")
        servo, q = sp.Servo(robot, dt=0.01), robot.random(seed=rng)
        target = robot.fk(robot.random(seed=rng))
        for _ in range(3000):
            q = servo(q, target=target)
        np.testing.assert_allclose(robot.fk(q), target, atol=1e-6)
        assert np.abs(servo.qd).max() < 1e-5


def test_a_moving_base_passes_a_half_turn_without_a_jump() -> None:
    robot = sp.load("ur5e").with_base("floating").freeze(sp.load("ur5e").joint_names[1:])
    servo, q = sp.Servo(robot, dt=0.01), robot.neutral()
    for _ in range(1500):  # two and a half turns about z
        before = q
        q = servo(q, velocity=[0, 0, 0, 0, 0, 1.0])
        step = robot.difference(q, before)
        assert np.abs(step).max() < 0.02


def test_almost_all_random_targets_of_moving_bases_are_met() -> None:
    missed = []
    for seed in seeds(nightly(300, 20)):
        robot, rng = on_moving_base(seed)
        q = robot.random(nightly(100, 20), seed=rng)
        poses = robot.fk(q)
        targets = list(np.moveaxis(poses, 1, 0)) if len(robot.tips) > 1 else poses
        found = sp.Solver(robot).batch(targets)
        assert found.q.shape == q.shape
        met = found.success
        back = robot.fk(found.q)
        size = 1 + np.abs(poses[..., :3, 3]).max()
        assert np.abs(back - poses)[met].max(initial=0) < 1e-5 * size
        missed += [seed] * int((~met).sum())
    assert len(missed) <= 1e-3 * nightly(30_000, 400), missed


def test_a_solution_for_a_nearby_target_of_a_floating_robot_stays_near_q0(
    robot_files: Callable[[str, str], Path],
) -> None:
    robot = sp.urdf(robot_files(*G1)).with_base("floating")
    rng = np.random.default_rng(7)
    solver = sp.Solver(robot)
    for q in robot.random(20, seed=rng):
        near = robot.integrate(q, 0.01 * rng.normal(size=robot.nv))
        near[7:] = np.clip(near[7:], robot.lower[6:], robot.upper[6:])
        found = solver(list(robot.fk(near)), q0=q)
        assert found.success
        assert found.moved < 0.3
        np.testing.assert_allclose(robot.fk(found.q), robot.fk(near), atol=1e-5)


def test_targets_are_met_by_a_robot_whose_six_base_joints_have_ranges_of_kilometers(
    robot_files: Callable[[str, str], Path],
) -> None:
    path = robot_files("frax", "assets/unitree_g1/floating_g1_29dof_rev_1_0.urdf")
    robot = sp.urdf(path)
    base = robot.joint_names[:6]
    wide = robot.with_limits(lower=dict.fromkeys(base, -1000.0), upper=dict.fromkeys(base, 1000.0))
    assert wide.upper[0] == 1000
    q = sp.urdf(robot_files(*G1)).random(nightly(2000, 200), seed=3)
    still = np.concatenate([np.zeros((len(q), 6)), q], axis=1)
    poses = robot.fk(still)
    found = sp.Solver(wide).batch(list(np.moveaxis(poses, 1, 0)))
    assert found.success.all()


def test_a_floating_humanoid_reaches_a_posture_and_a_center_of_mass(
    robot_files: Callable[[str, str], Path],
) -> None:
    robot = sp.urdf(robot_files(*G1)).with_base("floating")
    tips = robot.tips
    tasks = [
        *(sp.PoseTask(tip) for tip in tips),
        sp.tasks.CenterOfMassTask(),
        sp.PostureTask(weight=1e-3),
    ]
    servo = sp.Servo(robot, tasks=tasks, dt=0.005)
    q = start = robot.neutral()
    poses = [robot.fk(start, tip) for tip in tips]
    center = robot.center_of_mass(start) + np.array((0.02, 0.01, -0.03))
    for _ in range(800):
        q = servo(q, target=[*poses, center, start])
    for tip, pose in zip(tips, poses, strict=True):
        np.testing.assert_allclose(robot.fk(q, tip), pose, atol=2e-3)
    np.testing.assert_allclose(robot.center_of_mass(q), center, atol=2e-3)


def test_a_posture_task_for_one_of_the_coordinates_of_an_orientation_is_refused() -> None:
    robot = sp.load("ur5e").with_base("floating")
    with pytest.raises(sp.errors.UnknownNameError, match="base/rx"):
        sp.Servo(robot, tasks=[sp.PoseTask(), sp.PostureTask(["base/rx"])], dt=0.01)


@pytest.mark.parametrize("seed", range(nightly(12, 3)))
def test_a_robot_on_a_floating_base_keeps_the_clearance_from_obstacles(seed: int) -> None:
    """Moving the world by the inverse of a motion of the base gives the same distances."""
    rng = np.random.default_rng([seed, 34])
    fixed = with_spheres(sp.load("panda"))
    robot = fixed.with_base("floating")
    box = sp.collision.Box(rng.uniform(0.05, 0.3, 3), sp.pose(rng.uniform(0.3, 0.6, 3)))
    world = sp.World({"box": box})
    q = robot.random(200, seed=rng)
    hit = sp.collision.collides(robot, world, q, 0.01)
    for one, touched in zip(q[:30], hit[:30], strict=True):
        base = np.linalg.inv(robot.fk(one, "panda_link0"))
        other = sp.World({"box": replace(box, pose=base @ box.pose)})
        assert bool(sp.collision.collides(fixed, other, one[7:], 0.01)) == bool(touched)
    start = next(one for one, touched in zip(q, hit, strict=True) if not touched)
    servo = sp.Servo(robot, world=world, clearance=0.01, dt=0.005)
    target = robot.fk(start)
    target[:3, 3] = box.pose[:3, 3]  # inside the box
    at = start
    for _ in range(400):
        at = servo(at, target=target)
        assert servo.nearest is None or servo.nearest.distance >= 0.01 - 1e-9
    found = sp.Solver(robot, world=world, clearance=0.01).batch(robot.fk(q[~hit][:20]))
    assert found.success.all()
    assert not sp.collision.collides(robot, world, found.q, 0.01).any()


def test_a_motion_with_a_floating_base_is_saved_and_drawn(tmp_path: Path) -> None:
    robot = sp.load("ur5e").with_base("floating")
    q = robot.random(seed=2)
    motion = sp.simulate(robot, q, target=robot.fk(robot.random(seed=3)), dt=0.01, duration=0.5)
    assert motion.q.shape == (51, 13)
    assert motion.qd.shape == (50, 12)
    for name in ("motion.csv", "motion.npz"):
        motion.save(tmp_path / name)
        again = sp.Trajectory.load(tmp_path / name, robot=robot)
        np.testing.assert_allclose(again.q, motion.q, atol=1e-15)
    assert "base/qw" in (tmp_path / "motion.csv").read_text().splitlines()[0]
    assert motion.plot() is not None
    assert "base/rz" in motion._repr_html_()
    assert robot.plot(q) is not None
    assert "base/rx" in robot.summary()


def test_the_command_solve_prints_the_quaternion_of_a_floating_base(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(
        """<mujoco><worldbody><body name="trunk"><freejoint name="root"/>
        <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
        <body name="arm" pos="0.1 0 0"><joint name="elbow" axis="0 0 1"/>
        <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></body></worldbody></mujoco>"""
    )
    done = found("solve", str(path), "--position", "0.5", "0.2", "0.1")
    assert "root/qw" in str(done["q"])
