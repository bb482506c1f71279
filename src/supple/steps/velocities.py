"""The result of a step's method `velocities` with `explain=True`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple._arrays.checks import FloatArray
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray


@dataclass(frozen=True, eq=False)
class Velocities:
    """Joint velocities of a batch of robots, with the damping and the limits that acted.

    Attributes:
        qd: Joint velocities (..., n) [rad/s or m/s].
        lambda2: Damping (...) chosen by the step's rule, before limits; 0 for an undamped step.
        active: The limit that acts on each joint (..., n): -1 for a lower limit, 1 for an upper,
            else 0.
        status: `StepStatus` of each robot (...): flags, stored as int32; indexing returns a
            `StepStatus`.
    """

    qd: FloatArray
    lambda2: FloatArray
    active: NDArray[np.int8]
    status: StatusArray[StepStatus]

    def __repr__(self) -> str:
        return f"<Velocities {self.qd.shape}: {self.status!r}>"
