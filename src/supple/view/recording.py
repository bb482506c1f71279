"""Recording and replay of a simulated motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.control.missed import TaskShares
from supple.motion.status_array import StatusArray
from supple.view.posture import ROWS, followed_frames

Array = NDArray[np.float64]

_MAX_STEPS = 150_000  # maximum length of a recording: ten minutes in steps of 4 ms


@dataclass(frozen=True, eq=False)
class _Sample:
    """A recorded step."""

    q: Array
    qd: Array
    lambda2: float
    J: Array
    e: Array
    left: Array
    active: NDArray[np.int8]
    status: int
    targets: Array


class Recording:
    """The recorded steps of a robot that follows targets."""

    def __init__(self, robot: sp.Robot, rows: Sequence[str], dt: float, q: Array) -> None:
        """Start a recording.

        Args:
            robot: The robot.
            rows: The controlled rows of each end effector, among `posture.ROWS`.
            dt: Length of a step [s].
            q: Configuration (n,) before the first step.
        """
        self._robot, self._dt, self._q = robot, dt, np.array(q)
        self._picked = [ROWS.index(row) for row in rows]
        self._rows: tuple[str, ...] = ()
        self._layout: Any = None  # the compiled tasks of the servo
        self._samples: list[_Sample] = []

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def full(self) -> bool:
        """Whether the recording has reached its maximum length."""
        return len(self) >= _MAX_STEPS

    def add(self, servo: sp.Servo, q: Array, targets: Array) -> None:
        """Add the last step of a servo.

        Args:
            servo: The servo that computed the step.
            q: Configuration (n,) after the step.
            targets: Targets (tips, 4, 4) of the step [m].
        """
        lin = servo.linearization
        self._rows, self._layout = lin.rows, servo._layout
        self._samples.append(
            _Sample(
                q=q.copy(),
                qd=np.array(servo.qd),
                lambda2=servo.lambda2,
                J=np.array(lin.J),
                e=np.array(lin.e),
                left=servo._left,
                active=servo.active,
                status=int(servo.status),
                targets=targets.copy(),
            )
        )

    def trajectory(self) -> sp.Trajectory | None:
        """Return the recorded motion; None if no step was recorded."""
        samples = list(self._samples)
        if not samples:
            return None
        J = np.array([each.J for each in samples])
        qd = np.array([each.qd for each in samples])
        q = np.array([self._q, *(each.q for each in samples)])
        status = np.array([each.status for each in samples], dtype=np.int16)
        e, left = (np.array([getattr(each, name) for each in samples]) for name in ("e", "left"))
        return sp.Trajectory(
            t=np.asarray(self._dt * np.arange(len(samples) + 1), dtype=np.float64),
            q=q,
            qd=qd,
            lambda2=np.array([each.lambda2 for each in samples]),
            sigma_min=np.linalg.svd(J, compute_uv=False)[:, -1],
            command=e,
            velocity=np.einsum("kmn,kn->km", J, qd),
            error=self._errors(q[1:], np.array([each.targets for each in samples])),
            active=np.array([each.active for each in samples]),
            status=StatusArray.of(sp.StepStatus, status),
            rows=self._rows,
            robot=self._robot,
            _shares=None if self._layout is None else TaskShares.of(self._layout, e, left),
        )

    def _errors(self, q: Array, targets: Array) -> Array:
        """Return the errors of all rows (K, m) to targets (K, tips, 4, 4) at q (K, n)."""
        tips = followed_frames(self._robot)
        at, parts = np.asarray(self._robot.fk(q, tips), dtype=np.float64), []
        for k in range(len(tips)):
            moved = targets[:, k, :3, 3] - at[:, k, :3, 3]
            turned = targets[:, k, :3, :3] @ at[:, k, :3, :3].swapaxes(-1, -2)
            both = np.concatenate([moved, sp.poses.rotation_vector(turned)], axis=1)
            parts.append(both[:, self._picked])
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class Replay:
    """Configurations of a motion that is played back.

    Attributes:
        path: Configurations (k, n), one for each step.
        since: Time at which the first configuration is shown [s].
        dt: Length of a step [s].
    """

    path: Array
    since: float
    dt: float

    def at(self, t: float) -> tuple[Array, bool]:
        """Return the configuration (n,) at a time [s], and whether the path has ended."""
        k = round((t - self.since) / self.dt)
        return self.path[min(k, len(self.path) - 1)].copy(), k >= len(self.path)
