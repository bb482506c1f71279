"""The interface of a constraint of a `Servo`."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from supple.kinematics import Robot
from supple.motion.linearization import Array


class Constraint(Protocol):
    """The interface of a constraint of a `Servo`: rows of inequalities G q̇ >= h.

    Any object with this method is a constraint; deriving from this class is not necessary.
    """

    def rows(self, robot: Robot, q: Array, /) -> tuple[ArrayLike, ArrayLike]:
        """Return G (k, n) and h (k,) at the configuration q (nq,), in SI units.

        k may differ from step to step; n is `robot.nv`.
        """
        ...
