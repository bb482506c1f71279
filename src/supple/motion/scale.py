"""What is small for a robot: the scale that damping rules take their parameters from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import RANK_FLOOR

Rows: TypeAlias = Sequence[str] | None
SAMPLES = 512  # configurations that are looked at
_PARALLEL = 1e-9  # unit vectors closer than this differ by rounding alone


@dataclass(frozen=True)
class Scale:
    """What is small for a robot, so that nobody tunes λ by hand.

    Taken from random configurations inside the limits, the same ones every time.

    Attributes:
        sigma: The least singular value that a tenth of all configurations fall below.
        manipulability: Likewise.
        largest: The median of the largest singular value.
        reach: The farthest that the frames get from the robot's base [m], not counting how far
            a sliding base or a lift carries the whole arm.
    """

    sigma: float
    manipulability: float
    largest: float
    reach: float

    @property
    def lambda2(self) -> float:
        """Damping whose largest gain, 1/(2λ), is the gain 1/sigma at the edge of the tenth."""
        return (self.sigma / 2) ** 2

    @classmethod
    def of(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> Scale:
        """Look at the Jacobian of some rows of some frames of a robot."""
        q = robot.random(SAMPLES, seed=0)
        sigma = robot.singular_values(q, frame, rows=rows)
        # Rows that the robot can never move (out of the plane of a planar arm) are no singularity.
        free = sigma[:, sigma.max(axis=0) > RANK_FLOOR * sigma.max()]
        return cls(
            sigma=float(np.quantile(free[:, -1], 0.1)),
            manipulability=float(np.quantile(free.prod(axis=1), 0.1)),
            largest=float(np.median(free[:, 0])),
            reach=reach(robot, frame),
        )


def reach(robot: Robot, frame: FrameNames = None) -> float:
    """Return how far frames get from the base by the joints that curve their path [m].

    A prismatic joint that no revolute joint turns carries everything after it along a straight
    line. Its travel says nothing about the size of the arm, however long it is.
    """
    q = robot.random(SAMPLES, seed=0)
    away = robot.fk(q, frame)[..., :3, 3] - robot.base[:3, 3]
    if robot.prismatic.any():
        columns = robot.jacobian(q, frame)[..., :3, robot.prismatic]  # (..., 3, sliders)
        straight = np.ptp(columns, axis=0).max(axis=-2) < _PARALLEL  # (..., sliders)
        slid = q[:, robot.prismatic].reshape(len(q), *[1] * straight.ndim, -1)
        away = away - np.where(straight[..., None, :], columns * slid, 0.0).sum(axis=-1)
    return float(np.linalg.norm(away, axis=-1).max())
