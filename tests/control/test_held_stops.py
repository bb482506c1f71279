"""Legs with held feet stop before they are stretched, for postures that jump at random."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio
import pytest
import scipy.linalg

import supple as sp
from generated import seeds
from sizes import nightly

Array = np.ndarray
ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
ANYMAL = f"{ROBOTS}/anymal_b_simple_description/robots/anymal.urdf"
SOLO = f"{ROBOTS}/solo_description/robots/solo12.urdf"
HEIGHT = 1.0


def walker(rng: np.random.Generator, toes: float | None = None) -> sp.Robot:
    """Return a floating body on two to six legs of random sizes, with wide joint ranges.

    toes: Distance of a toe on each shin from the foot [m]; None for no toes.
    """
    legs, links, joints = int(rng.integers(2, 7)), [], []
    for leg in range(legs):
        angle = 2 * np.pi * (leg + 0.3 * rng.random()) / legs
        thigh, shin = rng.uniform(0.2, 0.4, size=2)
        places = [
            ("body", 0.3 * np.cos(angle), 0.3 * np.sin(angle), 0.0, "1 0 0"),
            ("roll", 0.0, 0.0, 0.0, "0 1 0"),
            ("thigh", 0.0, 0.0, -thigh, "0 1 0"),
        ]
        for k, (parent, x, y, z, axis) in enumerate(places):
            name = ("roll", "thigh", "shin")[k]
            parent = parent if parent == "body" else f"{parent}{leg}"
            joints.append(
                f'<joint name="{name}{leg}" type="revolute"><parent link="{parent}"/>'
                f'<child link="{name}{leg}"/><origin xyz="{x} {y} {z}"/><axis xyz="{axis}"/>'
                f'<limit lower="-6" upper="6" velocity="{rng.uniform(5, 20)}" effort="9"/></joint>'
            )
            links.append(f'<link name="{name}{leg}"/>')
        for name, x in (("foot", 0.0), ("toe", toes)):
            if x is None:
                continue
            joints.append(
                f'<joint name="{name}_end{leg}" type="fixed"><parent link="shin{leg}"/>'
                f'<child link="{name}{leg}"/><origin xyz="{x} 0 {-shin}"/></joint>'
            )
            links.append(f'<link name="{name}{leg}"/>')
    text = f'<robot name="walker"><link name="body"/>{"".join(links + joints)}</robot>'
    return sp.urdf(text).with_base("floating")


def jumps(robot: sp.Robot, rng: np.random.Generator, dt: float, duration: float) -> list[Array]:
    """Return a motion toward postures that jump; check limits and that no held task is missed."""
    first = robot.nq - robot.nv + 6
    middle, start = rng.uniform(-0.7, 0.7, size=robot.nv - 6), robot.neutral()
    lower, upper = np.maximum(robot.lower[6:], -3), np.minimum(robot.upper[6:], 3)
    start[2], start[first:] = HEIGHT, np.clip(middle, lower, upper)
    spread, every = rng.uniform(0.6, 2.5), int(rng.uniform(0.1, 0.6) / dt)
    servo = sp.Servo(
        robot, sp.PostureTask(), dt=dt, held=[sp.PositionTask(tip) for tip in robot.tips]
    )
    limits, motion = servo.limits, [start]
    for k in range(int(duration / dt)):
        if k % every == 0:
            posture = middle + spread * rng.normal(size=robot.nv - 6)
            posture = np.clip(posture, lower, upper)
        before = servo.qd
        motion.append(servo(motion[-1], target=posture))
        assert sp.StepStatus.HELD_EXCEEDED not in servo.status, k
        assert (np.abs(servo.qd) <= limits.max_speed * (1 + 1e-12)).all()
        change = limits.max_acceleration * dt
        assert (np.abs(servo.qd - before) <= change * (1 + 1e-9)).all()
    return motion


@pytest.mark.parametrize("file", [ANYMAL, SOLO])
def test_held_feet_of_quadrupeds_stay_although_postures_would_overstretch_the_legs(
    robot_files: Callable[[str, str], Path], file: str
) -> None:
    path = robot_files("", file)
    robot = sp.urdf(path)
    robot = robot if robot.nq > robot.nv else robot.with_base("floating")
    model = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    data, frames = model.createData(), [model.getFrameId(tip) for tip in robot.tips]

    order = [robot.position_names.index(name) for name in list(model.names)[2:]]

    def feet(q: Array) -> Array:
        there = np.concatenate([q[:3], q[4:7], q[3:4], q[order]])
        pinocchio.framesForwardKinematics(model, data, there)
        return np.array([data.oMf[frame].translation for frame in frames])

    moved = 0.0
    for seed in seeds(nightly(40, 3)):
        rng = np.random.default_rng([seed, 82])
        motion = jumps(robot, rng, dt=10 ** rng.uniform(-2.7, -2), duration=1.0)
        start = feet(motion[0])
        assert max(np.abs(feet(q) - start).max() for q in motion) <= 1e-9
        moved = max(moved, np.abs(motion[-1][order] - motion[0][order]).max())
    assert moved > 0.5


def test_held_feet_of_random_legged_robots_stay_in_place() -> None:
    for seed in seeds(nightly(200, 8)):
        rng = np.random.default_rng([seed, 83])
        robot = walker(rng)
        motion = jumps(robot, rng, dt=10 ** rng.uniform(-3, -2), duration=0.6)
        places = robot.fk(np.array(motion), robot.tips)[..., :3, 3]
        assert np.abs(places - places[0]).max() <= 1e-9


@pytest.mark.parametrize("apart", [0.1, 1e-3, 1e-6, 0.0])
def test_with_held_feet_the_default_step_has_the_least_task_error(apart: float) -> None:
    """This holds also if rows of held tasks are nearly dependent: two points of a shin."""
    for seed in seeds(nightly(100, 6)):
        rng = np.random.default_rng([seed, 84])
        robot = walker(rng, toes=apart)
        q = robot.neutral()
        q[2], q[7:] = HEIGHT, rng.uniform(0.3, 0.8, size=robot.nv - 6)
        held = [sp.PositionTask(f"foot{leg}") for leg in range(2)] + [sp.PositionTask("toe0")]
        weight = float(10 ** rng.uniform(-2, 0))
        tasks = [sp.PoseTask("body", weight=2.0), sp.PostureTask(weight=weight)]
        servo = sp.Servo(robot, tasks, dt=1e-3, gain=5.0, held=held)
        moved = robot.integrate(q, 1e-6 * rng.normal(size=robot.nv))
        servo(q, target=[robot.fk(moved, "body"), moved])
        x, at = servo.qd, servo.linearization
        A = np.vstack([robot.jacobian(q, task.frame)[:3] for task in held])
        free = scipy.linalg.null_space(A, rcond=1e-9)
        best = free @ np.linalg.lstsq(at.J @ free, at.e, rcond=None)[0]
        np.testing.assert_allclose(x, best, atol=1e-5 * np.abs(best).max())
        assert np.abs(A @ x).max() <= 1e-7 * np.abs(best).max()
