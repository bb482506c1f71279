"""Motions as arrays: the result of `track`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.motion.steps.estimate import Estimates


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A motion of K steps, as arrays; `str()` of it is a summary.

    Rows are those of the tasks, without weights [m, rad, or per s], in the tasks' axes.

    Attributes:
        t: Times (K + 1,) [s].
        q: Joint coordinates (K + 1, n) [rad or m].
        qd: Joint speeds (K, n) between them [rad/s or m/s].
        lambda2: Damping of each step (K,).
        sigma_min: Smallest singular value of the weighted J at each step (K,).
        command: Command of each row (K, m): velocities, or accelerations if `order` is 2.
        velocity: Velocity of each row, J q̇ (K, m).
        error: Error of each row to its target after the step (K, m); zero without a target.
        active: The end of its limits at which each joint is (K, n): -1, 0 or 1.
        status: `StepStatus` of each step (K,): flags in an int8 array, whose entries are statuses.
        rows: Names of the m rows.
        estimates: Estimated singular values and the damping chosen from them, arrays (K,), for a
            `NumericalFilter` or an `EstimatedDLS`; None for other steps.
    """

    t: Array
    q: Array
    qd: Array
    lambda2: Array
    sigma_min: Array
    command: Array
    velocity: Array
    error: Array
    active: NDArray[np.int8]
    status: StatusArray[StepStatus]
    rows: tuple[str, ...]
    estimates: Estimates | None = None

    def __len__(self) -> int:
        return len(self.qd)

    def __str__(self) -> str:
        steps = len(self)
        lines = [f"{steps} steps in {self.t[-1] - self.t[0]:.4g} s"]
        for status in StepStatus.__members__.values():
            count = self.status.count(status)
            if count:
                lines.append(f"  {count:>6} {status}: {status.sentence}")
        if steps:
            speeds = np.linalg.norm(self.qd, axis=1)
            lines.append(f"  joint speeds: at most {speeds.max():.4g} in norm")
            lines.append(f"  smallest singular value: at least {self.sigma_min.min():.3g}")
            errors = np.linalg.norm(self.error, axis=1)
            if errors.any():
                lines.append(f"  error: at most {errors.max():.3g}, {errors[-1]:.3g} at the end")
        return "\n".join(lines)
