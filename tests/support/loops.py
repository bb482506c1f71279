"""Robots, their singular configurations and motions, for the tests of control loops."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

import supple
from supple import Robot, Servo

Array = NDArray[np.float64]
NAMES = ("panda", "ur5e", "puma560", "youbot", "planar2", "stanford", "y", "double_y")

# Configurations where a singular value of the Jacobian is zero up to rounding.
SINGULAR: dict[str, tuple[str, Array]] = {
    "ur5e wrist": ("ur5e", np.array([0.3, -1.2, 1.4, -0.5, 0.0, 0.2])),
    "ur5e elbow": ("ur5e", np.array([0.3, -1.2, 0.0, 0.7, 1.1, 0.2])),
    "ur5e all": ("ur5e", np.zeros(6)),
    "puma560 wrist": ("puma560", np.array([0.2, 0.4, 0.4, 0.3, 0.0, -0.4])),
    "stanford wrist": ("stanford", np.array([0.2, 0.7, 0.6, 0.3, 0.0, -0.4])),
    "planar2 stretched": ("planar2", np.array([0.4, 0.0])),
    "planar2 folded": ("planar2", np.array([0.4, math.pi])),
    "panda": ("panda", np.array([0.3, 0.0, math.pi / 2, -1.6, 0.0, 1.6, 0.2])),
}


@lru_cache
def robot(name: str) -> Robot:
    return supple.load(name)


def somewhere(name: str, seed: int = 0) -> Array:
    """Return a configuration well inside the limits and away from singularities."""
    found: Array = 0.6 * robot(name).random(seed=np.random.default_rng((7, seed)))
    low, high = robot(name).lower, robot(name).upper
    some = np.isfinite(low) & np.isfinite(high)
    middle, half = np.zeros(len(low)), np.full(len(low), math.inf)
    middle[some], half[some] = (low[some] + high[some]) / 2, (high[some] - low[some]) / 2
    return np.clip(found, middle - 0.7 * half, middle + 0.7 * half)


def pose_of(name: str, q: Array) -> Array:
    """Return the pose (4, 4) of the end effector at q."""
    return np.asarray(robot(name).fk(q))


def moved(T: Array, by: Array) -> Array:
    """Return a pose translated by `by` (3,) [m] in world axes."""
    result = T.copy()
    result[:3, 3] += by
    return result


def turned(T: Array, axis: Array, angle: float) -> Array:
    """Return a pose rotated in place about a world axis."""
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    result = T.copy()
    result[:3, :3] = (np.eye(3) + math.sin(angle) * K + (1 - math.cos(angle)) * K @ K) @ T[:3, :3]
    return result


def run(servo: Servo, q: Array, steps: int, **wishes: object) -> tuple[Array, Array]:
    """Return the coordinates (steps + 1, n) and speeds (steps, n) under a constant command."""
    at, speed = [q], []
    for _ in range(steps):
        at.append(servo(at[-1], **wishes))
        speed.append(servo.qd)
    return np.array(at), np.array(speed)
