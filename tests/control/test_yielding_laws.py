"""Laws of a Servo with the step `Yielding`, over motions and periods drawn from a seed."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.typing import NDArray

from solving import solve
from supple import Limits, Robot, Servo, load
from supple.steps import Yielding

Array = NDArray[np.float64]
CASES = int(os.environ.get("SUPPLE_PASSAGES", "12"))  # of each law and robot
ROBOTS = ["puma560", "ur5e", "panda", "iiwa14"]


def inside(robot: Robot, margin: float) -> tuple[Array, Array]:
    """Return position limits at most ±π, narrowed by a fraction of their range."""
    lower, upper = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
    return lower + margin * (upper - lower), upper - margin * (upper - lower)


def limits_of(robot: Robot, rng: np.random.Generator) -> Limits:
    """Return the robot's limits with accelerations that reach full speed in 50 to 200 ms."""
    speed = np.where(np.isfinite(robot.max_speed), robot.max_speed, 2.0)
    return Limits(robot.lower, robot.upper, speed, speed * rng.choice([5.0, 10.0, 20.0]))


def singular(robot: Robot, rng: np.random.Generator) -> Array:
    """Return a random configuration inside the limits where J is exactly singular."""
    lower, upper = inside(robot, 0.1)
    while True:
        q = rng.uniform(lower, upper)
        for _ in range(40):
            U, sigma, V = np.linalg.svd(robot.jacobian(q))
            if sigma[-1] < 1e-10:
                break
            h = 1e-6
            moved = robot.jacobian(q + h * np.eye(robot.dof))
            slope = np.array([(U[:, -1] @ J @ V[5] - sigma[-1]) / h for J in moved])
            way = -slope * sigma[-1] / (slope @ slope + 1e-6)
            q = q + way * min(1.0, 0.3 / np.linalg.norm(way))
        if sigma[-1] < 1e-9 and (q > lower).all() and (q < upper).all():
            return q


def twist_between(before: Array, after: Array, dt: float) -> Array:
    """Return the twist (6,) that leads from one pose to the next."""
    turn = after[:3, :3] @ before[:3, :3].T
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    sine, cosine = np.linalg.norm(axis) / 2, (np.trace(turn) - 1) / 2
    angle = np.arctan2(sine, cosine)
    vector = axis / 2 * (angle / sine if sine > 1e-12 else 1.0)
    return np.concatenate([after[:3, 3] - before[:3, 3], vector]) / dt


def errors(robot: Robot, q: Array, pose: Array) -> tuple[float, float]:
    """Return the distance [m] and the angle [rad] between the end effector and a pose."""
    off = twist_between(robot.fk(q), pose, 1.0)
    return float(np.linalg.norm(off[:3])), float(np.linalg.norm(off[3:]))


@pytest.mark.parametrize("through", ["singular", "anywhere"])
@pytest.mark.parametrize("name", ROBOTS)
def test_what_is_feasible_is_hardly_damped(name: str, through: str) -> None:
    """A motion of the joints inside 80 % of their limits is tracked to 0.05 mm and 0.05 mrad.

    The joints move on a straight line through a singular configuration, or through any other one,
    from rest to rest. The error that one explicit step has at this period is allowed in addition.
    This holds for about nine of ten motions of arms with six joints. An arm with seven joints moves
    through other postures, in which the motion need not be feasible.
    """
    kept = 0
    robot = load(name)
    for seed in range(CASES):
        rng = np.random.default_rng([seed, ROBOTS.index(name)])
        limits = limits_of(robot, rng)
        lower, upper = inside(robot, 0.05)
        middle = singular(robot, rng) if through == "singular" else rng.uniform(lower, upper)
        along = rng.normal(size=robot.dof)
        ends = np.where(along > 0, (upper - middle) / along, (lower - middle) / along)
        back = np.where(along > 0, (middle - lower) / along, (middle - upper) / along)
        reach = min(ends.min(), back.min(), 0.5 / np.abs(along).max())
        along = along * max(reach, 0.0)
        # q = middle + along cos(2π s) is inside its limits of speed and acceleration.
        rate = min(
            0.8 * (limits.max_speed / np.abs(along)).min(),
            np.sqrt(0.8 * (limits.max_acceleration / np.abs(along)).min()),
        ) * rng.uniform(0.1, 1.0)
        dt = float(rng.choice([0.001, 0.002, 0.005, 0.01, 0.02]))
        steps = int(min(np.pi / rate / dt, 1500))
        phase = np.linspace(0, steps * dt * rate, steps + 1)
        path = middle - along * np.cos(phase)[:, None]
        poses = robot.fk(path)
        servo = Servo(robot, dt=dt, step=Yielding(), limits=limits)
        q, worst, allowed = path[0], np.zeros(2), np.array([5e-5, 5e-5])
        for k in range(steps):
            twist = twist_between(poses[k], poses[k + 1], dt)
            q = servo(q, twist, poses[k])
            worst = np.maximum(worst, errors(robot, q, poses[k + 1]))
            speed = (path[k + 1] - path[k]) / dt
            explicit = path[k] + dt * speed
            bend = twist_between(robot.fk(path[k]), robot.fk(explicit), dt)
            bend = (bend - robot.jacobian(path[k]) @ speed) * dt
            allowed = np.maximum(
                allowed, 5e-5 + np.array([np.linalg.norm(bend[:3]), np.linalg.norm(bend[3:])])
            )
        kept += bool((worst < allowed).all())
        assert robot.dof > 6 or worst[0] < 3e-3, (seed, dt, 1e3 * worst)
    assert kept >= (0.8 if robot.dof == 6 else 0.6) * CASES


@pytest.mark.parametrize("name", ROBOTS)
def test_a_step_target_is_reached(name: str) -> None:
    """The arm arrives at a target near its own posture, and rests, for periods up to 50 ms."""
    robot = load(name)
    lower, upper = inside(robot, 0.15)
    for seed in range(CASES):
        rng = np.random.default_rng([seed, ROBOTS.index(name), 1])
        dt = float(rng.choice([0.001, 0.004, 0.01, 0.02, 0.033, 0.05]))
        while True:
            q = rng.uniform(lower, upper)
            goal = np.clip(q + rng.normal(0, 0.3, robot.dof), lower, upper)
            between = q + np.linspace(0, 1, 20)[:, None] * (goal - q)
            if np.linalg.svd(robot.jacobian(between))[1][:, -1].min() > 0.08:
                break
        target = robot.fk(goal)
        servo = Servo(robot, dt=dt, step=Yielding(), limits=limits_of(robot, rng))
        for _ in range(int(6 / dt)):
            q = servo(q, target=target)
        distance, angle = errors(robot, q, target)
        assert max(distance, angle) < 1e-6, (seed, dt, distance, angle)
        assert np.abs(servo.qd).max() < 1e-4


@pytest.mark.parametrize("speed", [0.1, 0.4, 0.8])
def test_a_line_exactly_through_a_wrist_singularity(speed: float) -> None:
    """The wrist of a UR5e passes zero at constant speed: nothing else has to happen."""
    robot, dt = load("ur5e"), 0.004
    middle = np.array([0.0, -1.2, 1.8, -0.6, 0.0, 0.0])
    count = int(0.3 / speed / dt)
    poses = np.repeat(robot.fk(middle)[None], count + 1, axis=0)
    poses[:, 1, 3] += np.linspace(-0.15, 0.15, count + 1)
    twist = np.array([0, 0.3 / count / dt, 0, 0, 0, 0])
    q = solve(robot, poses[0], q0=middle + 0.3 * np.eye(6)[4]).q
    before = np.linalg.solve(robot.jacobian(q), twist)
    servo, fastest = Servo(robot, dt=dt, step=Yielding()), 0.0
    servo.reset(before)
    for k in range(count):
        q = servo(q, twist, poses[k])
        assert errors(robot, q, poses[k + 1])[0] < 2e-5
        fastest = max(fastest, float(np.abs(servo.qd - before).max()) / dt)
        before = servo.qd.copy()
    assert fastest < 10  # [rad/s²]: the exact motion has up to 4


def test_a_redundant_arm_passes_beside_a_singularity_gently() -> None:
    """A Panda on a line past a singularity at 1 cm/s stays within 1 rad/s² and 0.01 mm."""
    robot, dt, speed = load("panda"), 0.004, 0.01
    q = np.array([0.3671, -0.3348, 0.9455, -2.761, -0.4048, 0.0723, 0.5147])
    along, start = np.array([0.1318, -0.5232, -0.8419]), robot.fk(q)
    servo, before = Servo(robot, dt=dt, step=Yielding()), np.zeros(7)
    for k in range(int(0.24 / speed / dt)):
        pose = start.copy()
        pose[:3, 3] += k * dt * speed * along
        q = servo(q, np.concatenate([speed * along, np.zeros(3)]), pose)
        pose[:3, 3] += dt * speed * along
        if k > 50:
            assert errors(robot, q, pose)[0] < 1e-5
            assert np.abs(servo.qd - before).max() < 1.0 * dt
        before = servo.qd.copy()


@pytest.mark.parametrize("factor", [1.5, 5.0])
@pytest.mark.parametrize("name", [*ROBOTS, "puma560_rail"])
def test_an_arm_rests_in_front_of_a_target_out_of_reach(name: str, factor: float) -> None:
    """After some seconds the joints do not reverse, also where some are at their limits."""
    robot = load(name)
    for seed in range(max(CASES // 3, 1)):
        q = np.clip(robot.neutral(), robot.lower, robot.upper)
        target = robot.fk(robot.random(1, seed=100 + seed)[0])
        target[:3, 3] *= factor
        servo, turned, before = Servo(robot, dt=0.005, step=Yielding()), 0, np.zeros(robot.dof)
        for k in range(2500):
            q = servo(q, target=target)
            moves = max(np.abs(before).max(), np.abs(servo.qd).max()) > 1e-6
            turned += int(k >= 2300 and moves and servo.qd @ before < 0)
            before = servo.qd.copy()
        assert turned == 0, seed
