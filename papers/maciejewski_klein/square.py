"""The square that an arm of two links follows, beyond its reach and past its inner singularity."""

from __future__ import annotations

import itertools

import numpy as np
from supple.papers.maciejewski_klein.methods import error, norm
from supple.papers.style import Array

from supple import PositionTask, Trajectory, load

ARM = load("planar2")  # links of 1.10 and 1.00 m
LINKS = (1.10, 1.00)
OFFSET = 0.1  # distance of the square from the base [m]
SIDE = 200  # number of intervals of 1 cm on each side
MAX_GAIN = 2.0  # θ̇max [rad/m], so that λ <= 0.25 m
MAX_SPEED = 0.05  # the paper's bound on the norm of joint speeds [rad per interval]
RATE_GAINS = (1.0, 0.632)  # k_v of resolved acceleration, per interval; 0.632 is 2 √k_p
B_TO_C, D_TO_A = slice(SIDE, 2 * SIDE), slice(3 * SIDE, None)
TASK = PositionTask(rows=("x", "y"))


def corners(offset: float = OFFSET) -> dict[str, tuple[float, float]]:
    """Return the corners of the square [m]."""
    near, far = offset, offset + 2.0
    return {"A": (near, -1.0), "B": (far, -1.0), "C": (far, 1.0), "D": (near, 1.0)}


def square(offset: float = OFFSET) -> Array:
    """Return the targets of the hand (801, 3) [m], from A through B, C and D back to A."""
    ends = [np.array([x, y, 0.0]) for x, y in corners(offset).values()]
    ends.append(ends[0])
    sides = [np.linspace(a, b, SIDE, endpoint=False) for a, b in itertools.pairwise(ends)]
    return np.vstack([*sides, ends[-1]])


def start(offset: float = OFFSET) -> Array:
    """Return the configuration with the hand at A and the elbow to the right."""
    x, y = corners(offset)["A"]
    a, b = LINKS
    elbow = np.arccos((x**2 + y**2 - a**2 - b**2) / (2 * a * b))
    shoulder = np.arctan2(y, x) - np.arctan2(b * np.sin(elbow), a + b * np.cos(elbow))
    return np.array([shoulder, elbow])


def measures(moved: Trajectory) -> dict[str, float]:
    """Return the paper's numbers: errors from D to A, speeds [rad per interval] and distances [m];
    and the largest change of the joint speeds between intervals, except at the corners.
    """
    jumps = norm(np.diff(moved.qd, axis=0))
    jumps[SIDE - 1 :: SIDE] = 0.0
    return {
        "da_peak": float(error(moved)[D_TO_A].max()),
        "da_integral": float(error(moved)[D_TO_A].sum()),
        "total": float(error(moved).sum()),
        "max_joint_speed": float(norm(moved.qd).max()),
        "max_position_error": float(norm(moved.error).max()),
        "max_speed_change": float(jumps.max()),
    }
