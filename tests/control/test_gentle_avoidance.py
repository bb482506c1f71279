"""A redundant arm avoids singularities almost as gently as if it knew the path.

Lines and turns through poses of singular configurations are drawn from a seed. The reference is the
gentlest motion along the whole path (`gentlest`). `SUPPLE_PASSAGES` draws more.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from feasible_motions import inside, offs, singular, twists_along
from gentlest import gentlest_motion
from loops import robot as robot_of
from solving import solve
from supple import Limits, Robot, Servo, pose

Array = NDArray[np.float64]
CASES = int(os.environ.get("SUPPLE_PASSAGES", "12"))
SEED = int(os.environ.get("SUPPLE_SEED", "3"))
DT, SECONDS, LENGTH = 0.004, 3.0, 0.24  # [s, s, m]
KNOTS = 25  # number of knots of the reference motion
AVOIDED = 0.02  # a motion with σ_min above this [m] avoids the singularity


def is_avoidable(robot: Robot, q: Array) -> bool:
    """Return whether some self-motion leads away from a singular configuration."""
    U, _, V = np.linalg.svd(robot.jacobian(q))
    null, u, h = V[5:], U[:, -1], 1e-5
    bends = [(u @ robot.jacobian(q + h * z) - u @ robot.jacobian(q - h * z)) / h for z in null]
    low, high = np.linalg.eigvalsh(null @ np.array(bends).T + np.array(bends) @ null.T)
    return bool(low < -0.05 * high < 0 and high > -0.05 * low)


def drawn(robot: Robot, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """Return a start (n,) and poses (K + 1, 4, 4) through the pose of a singular configuration.

    Return None if self-motion cannot avoid the singularity, or no start is found.
    """
    middle, (lower, upper) = singular(robot, rng), inside(robot, 0.05)
    if not is_avoidable(robot, middle):
        return None
    twist = robot.jacobian(middle) @ rng.normal(size=robot.dof)
    twist /= np.linalg.norm(twist[:3]) + 0.3 * np.linalg.norm(twist[3:])
    s = np.linspace(0, 1, round(SECONDS / DT) + 1)
    way = LENGTH * (s**3 * (10 - 15 * s + 6 * s**2) - 0.5)
    poses = np.repeat(robot.fk(middle)[None], len(s), axis=0)
    poses[:, :3, 3] += way[:, None] * twist[:3]
    turns = np.array([pose((0, 0, 0), rotation_vector=x * twist[3:]) for x in way])
    poses[:, :3, :3] = turns[:, :3, :3] @ poses[:, :3, :3]
    near = np.clip(middle + rng.normal(0, 0.2, robot.dof), lower, upper)
    found = solve(robot, poses[0], q0=near)
    if not found.success or np.abs(found.q - middle).max() > 1:
        return None
    return found.q, poses


def largest(limits: Limits, q: Array, dt: float) -> Array:
    """Return the largest speed and acceleration of a motion (K, n), relative to their limits."""
    speeds = np.diff(q, axis=0, prepend=q[:1]) / dt
    hard = np.diff(speeds, axis=0) / dt / limits.max_acceleration
    return np.array([np.abs(speeds / limits.max_speed).max(), np.abs(hard).max()])


def test_speeds_and_accelerations_are_within_twice_those_of_the_gentlest_motion() -> None:
    """This holds for all speeds and at least 70 % of the accelerations; errors are < 0.05 mm.

    Only paths count that the reference motion follows within the limits and away from
    singularities.
    """
    ratios, number = [], 0
    while len(ratios) < CASES // 2:
        robot = robot_of("iiwa14" if number % 4 == 0 else "panda")
        made = drawn(robot, np.random.default_rng([SEED, number]))
        number += 1
        if made is None:
            continue
        start, poses = made
        servo, moved = Servo(robot, dt=DT), [start]
        for twist, at in zip(twists_along(poses, DT), poses, strict=False):
            moved.append(servo(moved[-1], twist, at))
        q, every = np.array(moved), len(poses) // KNOTS
        best, limits = gentlest_motion(robot, poses[::every], q[::every]), servo.limits
        inside_limits = ((best > limits.lower) & (best < limits.upper)).all()
        exact = offs(robot, best, poses[::every]).max() < 1e-5
        away = np.linalg.svd(robot.jacobian(best))[1][:, -1].min() > AVOIDED
        if inside_limits and exact and away:
            assert offs(robot, q, poses).max() < 5e-5, number
            ratios.append(largest(limits, q, DT) / largest(limits, best, every * DT))
    assert np.max(ratios, axis=0)[0] < 2
    assert np.mean(np.array(ratios)[:, 1] < 2) >= 0.7
