"""The arms of W's remarks, with lengths in units of the maximum reach, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from supple.papers.style import Array

import supple

ARMS = {"puma": "puma560", "stanford": "stanford"}
NAMES = {"puma": "PUMA", "stanford": "Stanford arm"}


@dataclass(frozen=True, eq=False)
class ScaledArm:
    """A robot with lengths in units of its reach, the largest distance from shoulder to tool.

    Speeds of a prismatic joint are in reaches per second.
    """

    robot: supple.Robot
    reach: float

    @classmethod
    def of(cls, name: str) -> ScaledArm:
        """Return the scaled arm of a built-in robot; its shoulder is the origin of link1."""
        robot = supple.load(name)
        q = robot.random(20000, seed=0)
        away = robot.fk(q)[:, :3, 3] - robot.fk(q, "link1")[:, :3, 3]
        return cls(robot, float(np.linalg.norm(away, axis=1).max()))

    def jacobian(self, q: Array) -> Array:
        """Return Ĵ (..., 6, n), with lengths in units of the reach and angles in radians."""
        rows = np.repeat([1 / self.reach, 1.0], 3)
        columns = np.where(self.robot.prismatic, self.reach, 1.0)
        return np.asarray(self.robot.jacobian(q) * rows[:, None] * columns)
