"""Characteristic sizes of a robot, from which damping rules derive their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from supple.kinematics import Robot
from supple.kinematics.configuration import to_kernel
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import RANK_FLOOR

Rows: TypeAlias = Sequence[str] | None
SAMPLES = 512  # number of sampled configurations
_PARALLEL = 1e-9  # distance below which two unit vectors are equal up to rounding


@dataclass(frozen=True)
class Scale:
    """Characteristic sizes of a robot, from which damping rules derive their parameters.

    The sizes are computed from random configurations inside the joint limits, which are the same in
    every run.

    Attributes:
        sigma: 10 % quantile of the smallest singular value.
        manipulability: 10 % quantile of the manipulability.
        largest: Median of the largest singular value.
        reach: Largest distance of the frames from the robot's base [m], excluding the travel of a
            sliding base or a lift that carries the whole arm.
    """

    sigma: float
    manipulability: float
    largest: float
    reach: float

    @property
    def lambda2(self) -> float:
        """Damping whose largest gain, 1/(2λ), equals the undamped gain 1/sigma."""
        return (self.sigma / 2) ** 2

    @classmethod
    def for_robot(cls, robot: Robot, frame: FrameNames = None, rows: Rows = None) -> Scale:
        """Return the sizes for the given frames and rows of a robot."""
        q = robot.random(SAMPLES, seed=0)
        sigma = robot.singular_values(q, frame, rows=rows)
        # A direction in which the robot can never move (such as out of the plane of a planar arm)
        # is not a singularity.
        free = sigma[:, sigma.max(axis=0) > RANK_FLOOR * sigma.max()]
        return cls(
            sigma=float(np.quantile(free[:, -1], 0.1)),
            manipulability=float(np.quantile(free.prod(axis=1), 0.1)),
            largest=float(np.median(free[:, 0])),
            reach=reach(robot, frame),
        )


def reach(robot: Robot, frame: FrameNames = None) -> float:
    """Return the largest distance of frames from the base [m], excluding straight travel.

    A prismatic joint that no revolute joint turns moves everything after it along a straight line.
    Its travel does not contribute to the size of the arm.
    """
    q = robot.random(SAMPLES, seed=0)
    away = robot.fk(q, frame)[..., :3, 3] - robot.base[:3, 3]
    if robot.prismatic.any():
        columns = robot.jacobian(q, frame)[..., :3, robot.prismatic]  # (..., 3, sliders)
        straight = np.ptp(columns, axis=0).max(axis=-2) < _PARALLEL  # (..., sliders)
        slid = to_kernel(robot, q)[:, robot.prismatic].reshape(len(q), *[1] * straight.ndim, -1)
        away = away - np.where(straight[..., None, :], columns * slid, 0.0).sum(axis=-1)
    return float(np.linalg.norm(away, axis=-1).max())
