"""Joint limits: position, speed, acceleration, jerk of each joint, and the norm of all speeds.

At a configuration they form a box, low <= q̇ <= high (`include/supple/limits/limits.hpp`). A step
outside the box is replaced by the step inside with the smallest cost (`limits/box.hpp`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._arrays.checks import (
    ReadOnlyArrays,
    as_doubles,
    finite_array,
    number,
    real_numbers,
)
from supple.errors import LIMIT_HINTS, InputError, known_arguments, short_repr
from supple.kinematics import Robot
from supple.kinematics.joint_limits import JointValues, joint_values
from supple.kinematics.robot import check_robot
from supple.motion.linearization import Array, numbers_of

Mode = Literal["exact", "scale", "halt", "path"]
MODES = ("exact", "scale", "halt", "path")
SLOW_CONDITION, HALT_CONDITION = 17.0, 30.0  # condition numbers of mode "halt", as in MoveIt Servo
_MAX_LISTED = 12  # maximum number of joints in a repr


@known_arguments(**LIMIT_HINTS)
@dataclass(frozen=True, eq=False, repr=False)
class Limits(ReadOnlyArrays):
    """Position, speed, acceleration and jerk limits of a robot's joints; infinite for no limit.

    In a step of length dt, a speed may change by max_acceleration dt. A joint that can stop inside
    its range at this rate keeps all its limits, whatever the command. A joint that starts outside
    its range is driven back as fast as possible, but such that it can stop inside. A joint that
    cannot stop in time is slowed down nevertheless: its position limits hold, and its acceleration
    limit is exceeded. A joint of a `Servo` that is faster than a new speed limit slows down within
    its acceleration limit; in a single step (`box`, `velocities`), the speed limit has precedence
    (docs/servo.md).

    With max_jerk, the change of a speed per step may itself change by max_jerk dt². A joint then
    moves only at speeds from which it can stop within all its limits.

    Attributes:
        lower: Lower joint limits (n,) [rad or m].
        upper: Upper joint limits (n,) [rad or m].
        max_speed: Speed limits (n,), above 0 [rad/s or m/s].
        max_acceleration: Acceleration limits (n,), above 0 [rad/s² or m/s²].
        max_jerk: Jerk limits (n,), above 0 [rad/s³ or m/s³].
        max_norm: Bound on the norm of all speeds, above 0 [rad/s and m/s mixed].
        mode: "exact" minimizes the cost of the damped step within the limits: joints without an
            active limit compensate for the others. "scale" slows down the whole motion, to a stop
            if necessary, so that it keeps the direction of the command. "halt" also slows down
            before a singularity and halts at it (docs/servo.md). "path", only for `simulate`, keeps
            the tool on its path and changes the timing.
        joints: Names of the n joints, for messages; empty if unnamed.
        units: Units of the joints' positions, "rad" or "m"; empty if unknown.
        slow_condition: Condition number of J from which mode "halt" slows down, at least 1.
        halt_condition: Condition number of J at which mode "halt" halts, above slow_condition.
    """

    lower: Array
    upper: Array
    max_speed: Array
    max_acceleration: Array
    max_jerk: Array = field(default_factory=lambda: np.array(math.inf))
    max_norm: float = math.inf
    mode: Mode = "exact"
    joints: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    slow_condition: float = SLOW_CONDITION
    halt_condition: float = HALT_CONDITION

    def __post_init__(self) -> None:
        n = real_numbers(self.lower, "Limits: lower must be numbers").size
        for name in ("joints", "units"):
            names: object = getattr(self, name)
            if not isinstance(names, tuple) or len(names) not in (0, n):
                raise InputError(f"Limits: {name} must be {n} strings; given: {short_repr(names)}")
        if np.ndim(self.max_jerk) == 0:
            object.__setattr__(self, "max_jerk", np.full(n, self.max_jerk))
        for name in ("lower", "upper", "max_speed", "max_acceleration", "max_jerk"):
            object.__setattr__(self, name, _bounds(getattr(self, name), n, name))
        if not (self.lower <= self.upper).all():
            j = int(np.argmin(self.lower <= self.upper))
            given = f"{self.lower[j]} and {self.upper[j]} of {self._names[j]}"
            raise InputError(f"Limits: lower must not be above upper; given: {given}")
        for name in ("max_speed", "max_acceleration", "max_jerk"):
            if not (getattr(self, name) > 0).all():
                given = short_repr(getattr(self, name).tolist())
                raise InputError(f"Limits: {name} must be above 0; given: {given}")
        bound: object = self.max_norm
        if not (isinstance(bound, float) and bound == math.inf):
            number(self.max_norm, "Limits: max_norm", above=0)
        mode: object = self.mode
        if not isinstance(mode, str) or mode not in MODES:
            raise InputError(f"Limits: mode must be one of {MODES}; given: {short_repr(self.mode)}")
        slow = number(self.slow_condition, "Limits: slow_condition", least=1)
        number(self.halt_condition, "Limits: halt_condition", above=slow)

    @classmethod
    @known_arguments(**LIMIT_HINTS)
    def for_robot(
        cls,
        robot: Robot,
        *,
        lower: JointValues = None,
        upper: JointValues = None,
        max_speed: JointValues = None,
        max_acceleration: JointValues = None,
        max_jerk: JointValues = None,
        max_norm: float = math.inf,
        speed_factor: float = 1.0,
        acceleration_time: float | None = None,
        mode: Mode = "exact",
        slow_condition: float = SLOW_CONDITION,
        halt_condition: float = HALT_CONDITION,
    ) -> Limits:
        """Return the limits of a robot's description, with some of them replaced by the arguments.

        Limits of joints are given by one number for all joints, by an array (n,) or by a mapping
        from joint names to numbers; joints left out of a mapping keep the robot's limit.
        `Robot.with_limits` changes the robot itself, and thereby what `solve` returns.

        Args:
            robot: The robot.
            lower: Lower joint limits [rad or m].
            upper: Upper joint limits [rad or m].
            max_speed: Speed limits [rad/s or m/s].
            max_acceleration: Acceleration limits [rad/s² or m/s²].
            max_jerk: Jerk limits [rad/s³ or m/s³].
            max_norm: Bound on the norm of all speeds [rad/s and m/s mixed].
            speed_factor: Fraction of the speed limits, above 0 and at most 1: 0.5 for half speed.
            acceleration_time: Time in which a joint without an acceleration limit reaches its speed
                limit [s]: its acceleration limit becomes max_speed divided by this time. A
                max_speed that is unknown, or above one turn per second (for a prismatic joint,
                twice its range per second), is replaced by this bound (docs/servo.md). None for no
                acceleration limit.
            mode: As in `Limits`.
            slow_condition: Condition number of J from which mode "halt" slows down.
            halt_condition: Condition number of J at which mode "halt" halts.
        """
        check_robot(robot)
        number(speed_factor, "Limits: speed_factor", above=0, most=1)
        present = {
            "lower": (lower, robot.lower),
            "upper": (upper, robot.upper),
            "max_speed": (max_speed, robot.max_speed),
            "max_acceleration": (max_acceleration, robot.max_acceleration),
            "max_jerk": (max_jerk, robot.max_jerk),
        }
        low, high, speed, acceleration, jerk = (
            joint_values(given, own, robot.joint_names, f"Limits: {name}")
            for name, (given, own) in present.items()
        )
        # A product that overflows becomes infinite, which means no limit.
        with np.errstate(over="ignore"):
            fastest = speed_factor * speed
        if acceleration_time is not None:
            time = number(acceleration_time, "Limits: acceleration_time", above=0)
            with np.errstate(over="ignore"):
                derived = plausible_speed(fastest, low, high, robot.prismatic) / time
            acceleration = np.where(np.isinf(acceleration), derived, acceleration)
        units = tuple("m" if slides else "rad" for slides in robot.prismatic)
        return cls(
            low,
            high,
            fastest,
            acceleration,
            jerk,
            max_norm,
            mode,
            tuple(robot.joint_names),
            units,
            slow_condition,
            halt_condition,
        )

    @classmethod
    def none(cls, robot: Robot) -> Limits:
        """Return infinite limits for a robot."""
        check_robot(robot)
        free = math.inf
        rates = {"max_speed": free, "max_acceleration": free, "max_jerk": free}
        return cls.for_robot(robot, lower=-free, upper=free, **rates)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        norm = (
            "" if math.isinf(self.max_norm) else f", norm of all speeds at most {self.max_norm:g}"
        )
        plural = "s" * (len(self.lower) != 1)
        slow, halt = self.conditions
        halts = f" at the condition number {halt:g}, slower from {slow:g}" if halt else ""
        lines = [f'Limits of {len(self.lower)} joint{plural}, mode "{self.mode}"{halts}{norm}']
        width = max(map(len, self._names[:_MAX_LISTED]), default=0)
        units = self.units or ("",) * len(self.lower)
        rows = zip(
            self._names,
            self.lower,
            self.upper,
            self.max_speed,
            self.max_acceleration,
            self.max_jerk,
            units,
            strict=True,
        )
        for name, low, high, speed, acceleration, jerk, unit in list(rows)[:_MAX_LISTED]:
            said = [f"{low:.4g} to {high:.4g} {unit}".rstrip()]
            per = f" {unit}/s" if unit else " per s"
            said += [f"{speed:.4g}{per}"] if np.isfinite(speed) else []
            said += [f"{acceleration:.4g}{per}²"] if np.isfinite(acceleration) else []
            said += [f"{jerk:.4g}{per}³"] if np.isfinite(jerk) else []
            lines.append(f"  {name:<{width}}  {', '.join(said)}")
        more = len(self.lower) - _MAX_LISTED
        return "\n".join(lines + [f"  and {more} more"] * (more > 0))

    @property
    def conditions(self) -> tuple[float, float]:
        """The condition numbers of mode "halt", `slow_condition` first; zeros in other modes."""
        return (self.slow_condition, self.halt_condition) if self.mode == "halt" else (0.0, 0.0)

    @property
    def _names(self) -> tuple[str, ...]:
        """The names of the joints, or their indices if they are unnamed."""
        return self.joints or tuple(f"joint {j}" for j in range(len(self.lower)))

    def box(
        self, q: ArrayLike, qd: ArrayLike, dt: float, *, change: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """Return the bounds of q̇ for the next step, low (n,) and high (n,).

        Args:
            q: Joint positions (n,) [rad or m].
            qd: Previous joint speeds (n,) [rad/s or m/s], for acceleration limits.
            dt: Length of this step and the following ones [s].
            change: Change of qd in the last step (n,), for jerk limits; zero by default.
        """
        n, dt = self.lower.shape, number(dt, "dt", above=0)
        last = np.zeros(n) if change is None else finite_array(change, n, "change")
        return self.boxes(finite_array(q, n, "q"), finite_array(qd, n, "qd"), dt, change=last)

    def boxes(
        self, q: Array, qd: Array, dt: float, *, change: Array | None = None
    ) -> tuple[Array, Array]:
        """Return the bounds of q̇ for K states of the robot: low and high, each flattened to (K n,).

        The arguments are those of `box`, with q, qd and change of shape (K, n).
        """
        return boxes_of_joints(self, np.indices(q.shape)[-1].ravel(), q, qd, dt, change)

    def exceeded(self, before: ArrayLike, qd: ArrayLike, dt: ArrayLike) -> Array:
        """Return the ratio (..., n) of each joint's acceleration to its limit.

        Args:
            before: Joint speeds before the step (..., n).
            qd: Joint speeds in the step (..., n).
            dt: Length of the step [s], a number or (..., 1).
        """
        change = np.abs(np.subtract(qd, before))
        return np.asarray(change / (self.max_acceleration * np.asarray(dt)))

    def applied(
        self, dq: ArrayLike, J: ArrayLike, lambda2: float, low: ArrayLike, high: ArrayLike
    ) -> tuple[Array, Array, float]:
        """Restrict a step to a box and to `max_norm`.

            minimize  ‖J (x - dq)‖² + λ² ‖x - dq‖²      low <= x <= high,  ‖x‖ <= max_norm

        For a damped step dq this minimizes the cost of the step itself, ‖J x - e‖² + λ²‖x‖².

        Args:
            dq: The step (n,).
            J: Task Jacobian (m, n).
            lambda2: Damping of the step; zero for an undamped one.
            low: Lower bounds (n,).
            high: Upper bounds (n,), not below low.

        Returns:
            The restricted step (n,); the active bound of each joint (n,): -1 for low, 1 for high
            and 0 for none; and the damping applied.
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
            keep_direction=self.mode != "exact",
            rows=len(matrix),
            columns=n,
            threads=1,
        )
        return step.astype(np.float64), side.astype(np.float64), float(used)


def plausible_speed(
    max_speed: Array, lower: Array, upper: Array, prismatic: NDArray[np.bool_]
) -> Array:
    """Return speeds (n,), finite and above 0, from which acceleration limits are derived.

    These speeds are the speed limits, but at most one turn, or twice the range of a prismatic
    joint, per second. A prismatic joint with neither speed limit nor range has the speed 1 m/s.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite range is no bound
        most = np.where(prismatic, 2 * (upper - lower), 2 * np.pi)
    most = np.where(most > 0, most, math.inf)
    speed = np.minimum(max_speed, most)
    return np.where(np.isfinite(speed), speed, 1.0)


def _bounds(given: object, n: int, name: str) -> Array:
    expected = f"Limits: {name} must be {n} numbers, not NaN"
    array = as_doubles(real_numbers(given, expected))
    if array.ndim != 1 or len(array) != n or np.isnan(array).any():
        raise InputError(f"{expected}; given: {short_repr(given)}")
    array.flags.writeable = False
    return array


def boxes_of_joints(
    limits: Limits, joints: NDArray[np.intp], q: Array, qd: Array, dt: float, change: Array | None
) -> tuple[Array, Array]:
    """Return bounds of q̇, low and high (K,), for K joints, each with its own q, qd and change."""
    low, high = _core.joint_box(
        lower=limits.lower[joints],
        upper=limits.upper[joints],
        max_speed=limits.max_speed[joints],
        max_acceleration=limits.max_acceleration[joints],
        max_jerk=limits.max_jerk[joints],
        q=q.ravel(),
        qd=qd.ravel(),
        change=np.zeros(q.size) if change is None else change.ravel(),
        dt=dt,
    )
    return low, high


def check_mode(limits: Limits) -> None:
    """Raise an error for limits of mode "path", in functions that know only single steps.

    Raises:
        InputError: The mode needs a whole path.
    """
    if limits.mode == "path":
        raise InputError(
            'limits with mode="path" are only for supple.simulate, which knows the whole path; '
            "given: such limits for a function that computes single steps"
        )


def limits_spec(limits: Limits, max_norm: float) -> _core.LimitsSpec:
    """Return the kernel's form of joint limits, with a bound on the norm of all joint speeds.

    Raises:
        InputError: The mode needs a whole path.
    """
    check_mode(limits)
    return _core.LimitsSpec(
        lower=limits.lower.tolist(),
        upper=limits.upper.tolist(),
        max_speed=limits.max_speed.tolist(),
        max_acceleration=limits.max_acceleration.tolist(),
        max_jerk=limits.max_jerk.tolist(),
        max_norm=max_norm,
        keep_direction=limits.mode != "exact",
    )
