"""A slow oracle of allowed ranges: signed distances from boxes, and angles."""

from __future__ import annotations

import numpy as np

from slow_fk import fk
from supple import Robot

Array = np.ndarray


def pose_at(robot: Robot, q: Array, frame: str | None = None) -> Array:
    """Return the poses (..., 4, 4) of a frame in the world, by the slow FK of its description."""
    name = robot.tips[0] if frame is None else frame
    return np.asarray(robot.base @ fk(robot.description, q)[name])


def box_distance(off: Array, lower: Array, upper: Array) -> Array:
    """Return the signed distance of each entry of an offset (..., k) from [lower, upper]."""
    return np.where(off > upper, off - upper, np.where(off < lower, off - lower, 0.0))


def angle_between(a: Array, b: Array) -> Array:
    """Return the angles (...) between unit vectors (..., 3), accurate at 0 and pi [rad]."""
    apart, together = (np.linalg.norm(each, axis=-1) for each in (a - b, a + b))
    return np.asarray(2 * np.arctan2(apart, together))
