"""Random joint motions inside the limits, and the errors of a robot relative to poses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple import Limits, Robot
from supple.poses import rotation_vector

Array = NDArray[np.float64]


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
            slope = ((moved @ V[5]) @ U[:, -1] - sigma[-1]) / h
            way = -slope * sigma[-1] / (slope @ slope + 1e-6)
            q = q + way * min(1.0, 0.3 / np.linalg.norm(way))
        if sigma[-1] < 1e-9 and (q > lower).all() and (q < upper).all():
            return q


def feasible_motion(
    robot: Robot, shape: str, rng: np.random.Generator
) -> tuple[Limits, float, Array]:
    """Return limits, a period, and a motion (K + 1, n) of the joints inside 80 % of the limits.

    The joints move on a straight line from rest to rest. The middle of the line is a singular
    configuration ("through") or a random one ("anywhere"); or the motion turns back at a singular
    configuration ("turn"); or near its middle it stays singular to first order ("along").
    """
    limits, (lower, upper) = limits_of(robot, rng), inside(robot, 0.05)
    middle = rng.uniform(lower, upper) if shape == "anywhere" else singular(robot, rng)
    along = rng.normal(size=robot.dof)
    if shape == "along":
        U, _, V = np.linalg.svd(robot.jacobian(middle))
        slope = robot.jacobian(middle + 1e-6 * np.eye(len(V))) @ V[5] @ U[:, -1]
        along -= slope * (slope @ along) / (slope @ slope)
    ends = np.where(along > 0, (upper - middle) / along, (lower - middle) / along)
    back = np.where(along > 0, (middle - lower) / along, (middle - upper) / along)
    along = along * max(min(ends.min(), back.min(), 0.5 / np.abs(along).max()), 0.0)
    # The largest rate at which q = middle + along cos(2π s) keeps speed and acceleration limits.
    rate = min(
        0.8 * (limits.max_speed / np.abs(along)).min(),
        np.sqrt(0.8 * (limits.max_acceleration / np.abs(along)).min()),
    ) * rng.uniform(0.1, 1.0)
    dt = float(rng.choice([0.001, 0.002, 0.005, 0.01, 0.02]))
    steps = int(min((2 if shape == "turn" else 1) * np.pi / rate / dt, 3000))
    wave = np.cos(np.arange(steps + 1)[:, None] * dt * rate)
    return limits, dt, middle + along * ((1 + wave) / 2 if shape == "turn" else -wave)


def offs(robot: Robot, q: Array, poses: Array) -> Array:
    """Return the distances [m] and angles [rad] (K, 2) of configurations (K, n) from poses."""
    turns = np.tile(np.eye(4), (len(q), 1, 1))
    found = robot.fk(q)
    turns[:, :3, :3] = poses[:, :3, :3] @ found[:, :3, :3].swapaxes(1, 2)
    angles = np.linalg.norm(rotation_vector(turns), axis=1)
    return np.stack([np.linalg.norm(poses[:, :3, 3] - found[:, :3, 3], axis=1), angles], axis=1)


def twists_along(poses: Array, dt: float) -> Array:
    """Return the twists (K, 6) that lead from each pose to the next."""
    turns = np.tile(np.eye(4), (len(poses) - 1, 1, 1))
    turns[:, :3, :3] = poses[1:, :3, :3] @ poses[:-1, :3, :3].swapaxes(1, 2)
    return np.hstack([np.diff(poses[:, :3, 3], axis=0), rotation_vector(turns)]) / dt
