"""Limits that hold: position, speed and acceleration of each joint, and the norm of all speeds.

At a configuration they become a box, low <= q̇ <= high, and a step that would leave it is replaced
by the one inside that loses least (`include/supple/limits.hpp`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.arrays import ReadOnlyArrays, as_doubles, finite_array, number, real_numbers
from supple.kinematics.robot import check_robot
from supple.motion.linearization import Array, numbers_of

Mode = Literal["exact", "scale"]
MODES = ("exact", "scale")


@dataclass(frozen=True, eq=False)
class Limits(ReadOnlyArrays):
    """What the joints of a robot may do; infinite where they are free.

    In a step of length dt a speed may change by max_acceleration dt. A joint that can stop inside
    its range in such steps keeps all its limits, whatever is asked. A joint outside its
    range turns round and comes back as fast as it can and still stop inside. A joint that cannot
    stop in time, or that is faster than max_speed by more than a step can take, is stopped
    nevertheless: positions and speeds hold, accelerations give way (docs/servo.md).

    Attributes:
        lower, upper: Positions (n,) [rad or m].
        max_speed: Speeds (n,), above 0 [rad/s or m/s].
        max_acceleration: Accelerations (n,), above 0 [rad/s² or m/s²].
        max_norm: Bound on the norm of all speeds, above 0 [rad/s and m/s mixed].
        mode: "exact": the minimiser of the damped problem inside the box; some joints at their
            limits, the others making up for them. "scale": all joints slowed down alike, which
            keeps the direction of the step while every joint may slow down that much: not under
            acceleration limits, nor where a joint has to come back.
    """

    lower: Array
    upper: Array
    max_speed: Array
    max_acceleration: Array
    max_norm: float = math.inf
    mode: Mode = "exact"

    def __post_init__(self) -> None:
        n = real_numbers(self.lower, "Limits: lower must be numbers").size
        for name in ("lower", "upper", "max_speed", "max_acceleration"):
            object.__setattr__(self, name, _bounds(getattr(self, name), n, name))
        if not (self.lower <= self.upper).all():
            j = int(np.argmin(self.lower <= self.upper))
            given = f"{self.lower[j]} and {self.upper[j]} of joint {j}"
            raise InputError(f"Limits: lower must not be above upper; given: {given}")
        for name in ("max_speed", "max_acceleration"):
            if not (getattr(self, name) > 0).all():
                given = short_repr(getattr(self, name).tolist())
                raise InputError(f"Limits: {name} must be above 0; given: {given}")
        bound: object = self.max_norm
        if not (isinstance(bound, float) and bound == math.inf):
            number(self.max_norm, "Limits: max_norm", above=0)
        mode: object = self.mode
        if not isinstance(mode, str) or mode not in MODES:
            raise InputError(f"Limits: mode must be one of {MODES}; given: {short_repr(self.mode)}")

    @classmethod
    def of(
        cls,
        robot: Robot,
        *,
        max_acceleration: ArrayLike = math.inf,
        max_norm: float = math.inf,
        speed: float = 1.0,
        mode: Mode = "exact",
    ) -> Limits:
        """The robot's own, with speeds times `speed`; accelerations (n,) or one for all."""
        check_robot(robot)
        number(speed, "Limits: speed", above=0)
        expected = f"Limits: max_acceleration must be a number, or {robot.dof} of them"
        given = real_numbers(max_acceleration, expected)
        each = _bounds(
            np.full(robot.dof, given) if given.ndim == 0 else given, robot.dof, "max_acceleration"
        )
        with np.errstate(over="ignore"):  # so fast is not limited
            fastest = speed * robot.max_speed
        return cls(robot.lower, robot.upper, fastest, each, max_norm, mode)

    @classmethod
    def none(cls, robot: Robot) -> Limits:
        """No limits at all."""
        check_robot(robot)
        free = np.full(robot.dof, math.inf)
        return cls(-free, free, free, free)

    def box(self, q: ArrayLike, qd: ArrayLike, dt: float) -> tuple[Array, Array]:
        """Return where q̇ (n,) may be in the next step: low and high.

        Args:
            q: Where the joints are (n,).
            qd: How fast they went in the step before (n,), for accelerations.
            dt: Length of this step and of those after it [s].
        """
        n, dt = self.lower.shape, number(dt, "dt", above=0)
        now = {"q": finite_array(q, n, "q"), "qd": finite_array(qd, n, "qd")}
        box = _core.joint_box(
            lower=self.lower,
            upper=self.upper,
            max_speed=self.max_speed,
            max_acceleration=self.max_acceleration,
            **now,
            dt=dt,
        )
        return box[0], box[1]

    def exceeded(self, before: ArrayLike, qd: ArrayLike, dt: ArrayLike) -> Array:
        """Return how many times its acceleration limit each joint's acceleration is (..., n).

        Args:
            before: Speeds before the step (..., n).
            qd: Speeds in the step (..., n).
            dt: Length of the step [s], a number or (..., 1).
        """
        change = np.abs(np.subtract(qd, before))
        return np.asarray(change / (self.max_acceleration * np.asarray(dt)))

    def applied(
        self, dq: ArrayLike, J: ArrayLike, lambda2: float, low: ArrayLike, high: ArrayLike
    ) -> tuple[Array, Array, float]:
        """Put a step inside a box and under `max_norm`.

            minimise  ‖J (x - dq)‖² + λ² ‖x - dq‖²      low <= x <= high,  ‖x‖ <= max_norm

        For a damped step dq this is the minimiser of its own problem, ‖J x - e‖² + λ²‖x‖².

        Args:
            dq: The step (n,).
            J: Task Jacobian (m, n).
            lambda2: The step's damping; zero for an undamped one.
            low: Of the box (n,).
            high: Of the box (n,), not below low.

        Returns:
            The step inside (n,); at which end each joint is (n,): -1, 0 or 1; the damping used.
        """
        n, matrix = len(self.lower), numbers_of(J, "J")
        if matrix.ndim != 2 or matrix.shape[1] != n or not len(matrix):
            raise InputError(f"J must be (m, {n}) with m >= 1; given: {matrix.shape}")
        ends = _bounds(low, n, "low"), _bounds(high, n, "high")
        if not (ends[0] <= ends[1]).all():
            given = f"{short_repr(low)} and {short_repr(high)}"
            raise InputError(f"Limits: low must not be above high; given: {given}")
        step, side, used = _core.limited(
            J=np.ascontiguousarray(matrix).reshape(-1),
            dq=finite_array(dq, (n,), "dq"),
            lambda2=np.array([number(lambda2, "lambda2", least=0)]),
            low=ends[0],
            high=ends[1],
            max_norm=self.max_norm,
            keep_direction=self.mode == "scale",
            rows=len(matrix),
            columns=n,
            threads=1,
        )
        return step.astype(np.float64), side.astype(np.float64), float(used)


def _bounds(given: object, n: int, name: str) -> Array:
    expected = f"Limits: {name} must be {n} numbers, not NaN"
    array = as_doubles(real_numbers(given, expected))
    if array.ndim != 1 or len(array) != n or np.isnan(array).any():
        raise InputError(f"{expected}; given: {short_repr(given)}")
    array.flags.writeable = False
    return array
