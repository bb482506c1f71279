"""The arms of the benchmark, and the postures that their passages lead through."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import supple as sp

from .singular import Singularity

ROBOTS = ("puma560", "ur5e", "panda", "iiwa14")
PUMA_SPEED = 2.0  # [rad/s]: an assumption, none is published


@dataclass(frozen=True, eq=False)
class Arm:
    """A robot and the postures that its passages lead through.

    Attributes:
        robot: The robot, with position and speed limits.
        postures: Start of Newton's method for each singularity (n,) [rad].
        free: Joints that Newton's method may move: one of six, two of seven, as needed.
        travel: Displacement and rotation of the lines (6,) [m, rad], world axes; the component
            along u is removed.
        reach: Distance from shoulder to wrist when stretched out [m].
    """

    robot: sp.Robot
    postures: dict[str, tuple[float, ...]]
    free: dict[str, tuple[int, ...]]
    travel: dict[str, tuple[float, ...]]
    reach: float

    def singularity(self, posture: str) -> Singularity:
        """Return the singular configuration of a posture."""
        return Singularity.near(self.robot, np.array(self.postures[posture]), self.free[posture])


@cache
def arms() -> dict[str, Arm]:
    """Return the four arms by name."""
    free6 = {"stretched": (2,), "wrist": (4,), "shoulder": (1,)}
    puma = sp.load("puma560").description
    fast = [replace(j, max_speed=PUMA_SPEED) if j.moves else j for j in puma.joints]
    arms = [
        Arm(
            sp.Robot(replace(puma, joints=tuple(fast))),
            {
                "stretched": (0.3, -0.6, 1.6, 0.1, 1.5, 0.2),
                "wrist": (0.3, -0.8, 0.7, -0.3, 0.0, -0.5),
                "shoulder": (0.3, -1.05, 0.57, 0.1, 1.2, 0.2),
            },
            free6,
            {"wrist": (0, -0.4, 0, 0, 0, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            0.4318 + math.hypot(0.0203, 0.4318),
        ),
        Arm(
            sp.load("ur5e"),
            {
                "stretched": (0.3, -0.9, 0.0, -0.8, 1.2, 0.2),
                "wrist": (0.3, -1.2, 1.7, -2.07, 0.0, 0.2),
                "shoulder": (0.3, -2.7, 2.0, -1.0, 1.2, 0.2),
            },
            free6,
            {"wrist": (0.2, 0.06, -0.12, 1.15, 0.35, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            0.4250 + 0.3922,
        ),
        Arm(
            sp.load("panda"),
            {
                "stretched": (0.0, 0.5, 0.0, -0.47, 0.0, 2.0, 0.7),
                "wrist": (0.7, 0.0, 0.6, -1.9, 0.3, 3.3, 1.5),
                "shoulder": (0.2, 0.0, 1.6, -1.8, 0.4, 1.9, 0.7),
            },
            {"stretched": (3, 4), "wrist": (1, 5), "shoulder": (1, 2)},
            {"wrist": (0.4, 0, 0, 0, 0, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            math.hypot(0.0825, 0.316) + math.hypot(0.0825, 0.384),
        ),
        Arm(
            sp.load("iiwa14"),
            {
                "stretched": (0.2, 0.6, 0.0, 0.0, 0.3, 1.2, 0.1),
                "wrist": (0.3, 0.0, 0.6, -1.5, 1.6, 0.0, -1.4),
                "shoulder": (0.2, 0.0, 1.6, -1.2, 0.6, 0.9, 0.1),
            },
            {"stretched": (3,), "wrist": (1, 5), "shoulder": (1, 2)},
            {"wrist": (0, 0, 0.4, 0, 0, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            0.420 + 0.400,
        ),
    ]
    return {arm.robot.name: arm for arm in arms}
