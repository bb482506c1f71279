"""What came of it: a status that is a sentence, and motions as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from supple.motion.linearization import Array


class Status(IntEnum):
    """How a step, or a solve, came out; `sentence` says it in words.

    Of a step it is not about the goal: how far a task is from its target, errors tell.

    Attributes:
        FOLLOWING: A step on which no damping and no limit acted.
        DAMPED: A step with λ² > 0.
        AT_LIMIT: A step on which a limit of some joint acted: position, speed or acceleration.
        CONVERGED: A solve whose answer was verified, in double precision.
        UNREACHABLE: A solve that found no answer; it returns the closest pose it came to.
        TIMEOUT: A solve whose time was up; it returns the best so far.
        NONFINITE_INPUT: A target, or a start, that is no finite number; it was not solved.
        ACCELERATION_EXCEEDED: A step in which a joint could not keep its limit of acceleration,
            because it would have passed a limit of position or speed, or the bound on the norm.
    """

    FOLLOWING = 0
    DAMPED = 1
    AT_LIMIT = 2
    CONVERGED = 3
    UNREACHABLE = 4
    TIMEOUT = 5
    NONFINITE_INPUT = 6
    ACCELERATION_EXCEEDED = 7

    @property
    def sentence(self) -> str:
        """The status in words."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.FOLLOWING: "the task is done as asked, or as nearly as the robot can",
    Status.DAMPED: "some of the task is given up so that joint speeds stay bounded",
    Status.AT_LIMIT: "a joint is held by one of its limits, the others make up for it",
    Status.CONVERGED: "the targets are met within the tolerances",
    Status.UNREACHABLE: "no answer was found; this is the closest pose",
    Status.TIMEOUT: "time was up; this is the best so far",
    Status.NONFINITE_INPUT: "the target or the start is not finite; nothing was solved",
    Status.ACCELERATION_EXCEEDED: "a joint could not stop in time within its limit of acceleration",
}

# Beyond this share of its limit an acceleration exceeds it by more than rounding.
EXCEEDS = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A motion of K steps, as arrays; `str()` of it is a summary.

    Rows are those of the tasks, unweighted [m, rad, or per s], in the tasks' axes.

    Attributes:
        t: Times (K + 1,) [s].
        q: Coordinates (K + 1, n) [rad or m].
        qd: Speeds (K, n) between them [rad/s or m/s].
        lambda2: Damping of each step (K,).
        sigma_min: The least singular value of the weighted J at each step (K,).
        asked: What was asked of each row (K, m): velocities, or accelerations if `order` is 2.
        velocity: What the rows do, J q̇ (K, m).
        error: How far each row is from its target after the step (K, m); zero where there is none.
        active: At which end of its limits each joint is (K, n): -1, 0 or 1.
        status: Of each step (K,): values of `Status`.
        rows: The names of the m rows.
    """

    t: Array
    q: Array
    qd: Array
    lambda2: Array
    sigma_min: Array
    asked: Array
    velocity: Array
    error: Array
    active: NDArray[np.int8]
    status: NDArray[np.int8]
    rows: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.qd)

    def __str__(self) -> str:
        steps = len(self)
        lines = [f"{steps} steps in {self.t[-1] - self.t[0]:.4g} s"]
        for status in Status:
            count = int((self.status == status).sum())
            if count:
                lines.append(f"  {count:>6} {status.name.lower()}: {status.sentence}")
        if steps:
            speeds = np.linalg.norm(self.qd, axis=1)
            lines.append(f"  joint speeds: at most {speeds.max():.4g} in norm")
            lines.append(f"  least singular value: at least {self.sigma_min.min():.3g}")
            errors = np.linalg.norm(self.error, axis=1)
            if errors.any():
                lines.append(f"  error: at most {errors.max():.3g}, {errors[-1]:.3g} at the end")
        return "\n".join(lines)
