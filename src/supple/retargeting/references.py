"""Inputs of a retargeter's control loop: limits, poses between frames, and the first base pose."""

from __future__ import annotations

import numpy as np

from supple.kinematics import Robot
from supple.motion.limits import Limits
from supple.motion.linearization import Array
from supple.poses import pose, wxyz
from supple.retargeting.contacts import Mask
from supple.retargeting.rotations import orthonormal

# Limits of joints for which the robot's file has none: values of quick human motions.
MAX_SPEED, MAX_ACCELERATION = 20.0, 400.0  # [rad/s] and [rad/s²]


def default_limits(robot: Robot) -> Limits:
    """Return a robot's limits, with 20 rad/s and 400 rad/s² for joints without such limits.

    The base of the robot has no limits, and jerk is not limited.
    """
    speed, acceleration = robot.max_speed.copy(), robot.max_acceleration.copy()
    joints = np.ones(robot.dof, dtype=bool)
    for first in robot._balls:
        joints[first - 3 : first + 3] = False
    speed[joints & ~np.isfinite(speed)] = MAX_SPEED
    acceleration[joints & ~np.isfinite(acceleration)] = MAX_ACCELERATION
    return Limits.for_robot(robot, max_speed=speed, max_acceleration=acceleration, max_jerk=np.inf)


def between(poses: Array, stands: Mask, feet: list[int], parts: int) -> Array:
    """Return smooth poses (n, k, 4, 4) at `parts` times per frame; standing feet are at rest.

    Args:
        poses: Poses of the frames (count + 3, k, 4, 4), one before the first, one after the last.
        stands: Whether each foot stands in these frames.
        feet: Indices of the feet among the poses.
        parts: Number of steps per frame.
    """
    slope = 0.5 * (poses[2:] - poses[:-2])
    for k, foot in enumerate(feet):
        slope[stands[1:-1, k], foot] = 0.0
    s = np.arange(parts)[:, None, None, None] / parts
    at, after, begin, end = poses[1:-2, None], poses[2:-1, None], slope[:-1, None], slope[1:, None]
    rise = s * s * (3 - 2 * s)
    made = at + rise * (after - at) + s * (1 - s) ** 2 * begin - s * s * (1 - s) * end
    made = np.concatenate([made.reshape(-1, *poses.shape[1:]), poses[-2:-1]])
    made[..., :3, :3] = orthonormal(made[..., :3, :3])
    return np.asarray(made)


def base_to(robot: Robot, q: Array, frame: str, at: Array) -> Array:
    """Return a configuration whose base is moved such that a frame has a pose (4, 4)."""
    base = pose(q[:3], wxyz=q[3:7])
    moved = at @ np.linalg.inv(robot.fk(q, frame)) @ base
    found = q.copy()
    found[:3], found[3:7] = moved[:3, 3], wxyz(moved)
    return found
