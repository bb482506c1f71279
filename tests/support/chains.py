"""Chains with random axes and narrow joint ranges, and their configurations at the limits."""

from __future__ import annotations

import numpy as np

import supple
from supple.describe import Description, Joint


def chain(seed: int, joints: int) -> supple.Robot:
    """Return a chain of joints with random axes and limits."""
    rng, made = np.random.default_rng(seed), []
    for i in range(joints):
        origin, lower = np.eye(4), -rng.uniform(0.3, 2.8)
        origin[:3, 3] = 0.25 * rng.normal(size=3)
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        limits = {"lower": lower, "upper": lower + rng.uniform(1, 4)}
        ends = f"link{i}", f"link{i + 1}"
        made.append(Joint(f"joint{i}", "revolute", *ends, axis=axis, origin=origin, **limits))
    return supple.Robot(Description("chain", tuple(made)))


def corner_configurations(robot: supple.Robot, count: int, seed: int) -> np.ndarray:
    """Return random configurations (count, dof) with every joint at a limit."""
    at_lower = np.random.default_rng(seed).random((count, robot.dof)) < 0.5
    return np.where(at_lower, robot.lower, robot.upper)
