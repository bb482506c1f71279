"""Open tasks: rows x_c = f_c(q) that a user defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, names_of
from supple._core import InputSpec, TargetKind
from supple.errors import TASK_HINTS, InputError, check_one_of, known_arguments, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import integrate
from supple.motion.linearization import EPSILON, Array, numbers_of
from supple.motion.readable import Readable
from supple.tasks.base import Task
from supple.tasks.fields import Weight, checked_weight, weights_of, within
from supple.tasks.posture import PostureRows
from supple.tasks.tolerance import Tolerance, ranges_of

Function: TypeAlias = Callable[[Array], ArrayLike | tuple[ArrayLike, ArrayLike]]

UNITS = ("m", "rad")
# Steps of central differences for which rounding and truncation errors are about equal.
_FIRST_DIFFERENCE_STEP = EPSILON ** (1 / 3)
_SECOND_DIFFERENCE_STEP = EPSILON ** (1 / 4)


@known_arguments(**TASK_HINTS)
@dataclass(frozen=True, eq=False, repr=False)
class OpenTask(Readable, Task):
    """A task that the user defines by a function:  x = f(q),  e = x* - x,  J = ∂f/∂q.

        OpenTask(lambda q: q[1] + q[2])                          a sum of two joints
        OpenTask(lambda q: (clearance(q), gradient(q)))          with its Jacobian

    The target is x* (k,), the velocity ẋ (k,), in the units of f. The task works in `Servo`,
    `simulate`, `velocities` and `solve` like any other task, alone or with others, in any order. f
    runs in Python, once per step or iteration. Without a Jacobian f runs 2 n + 1 times, for
    central differences with a step of 6e-6 max(1, |q_j|), which are accurate to about 1e-10. f must
    be differentiable and depend only on q. An angle that jumps by 2π makes e jump: f should return
    an angle that is continuous where the robot moves, or its sine and cosine.

    Attributes:
        function: f, from q (n,) [rad or m] to x (k,), or to a pair of x (k,) and J (k, n). x may be
            a number if there is one row.
        rows: Names of the rows, or their number, at most n; by default as many as f returns at the
            robot's neutral configuration.
        weight: One weight for all rows, or one per row.
        tolerance: The allowed range of x - x*: a number for ±number, or a pair (lower, upper) whose
            ends may be infinite; one range for all rows, or a mapping from row names to ranges.
        unit: Unit of the rows for `solve`: "m" if the position tolerance applies to them and the
            position error includes them, "rad" for the rotation tolerance and error.

    References:
        Deo & Walker 1995, section 4 (x_c = f_c(θ)); Buss 2009, section 4.
    """

    target_kind: ClassVar[TargetKind] = TargetKind.NUMBERS

    function: Function
    _: KW_ONLY
    rows: int | Sequence[str] | None = None
    weight: Weight = 1.0
    tolerance: Tolerance | None = None
    unit: Literal["m", "rad"] = "m"

    def __post_init__(self) -> None:
        function: object = self.function
        if not callable(function):
            given = short_repr(function)
            raise InputError(f"OpenTask: function must be a function of q; given: {given}")
        count = None
        rows: object = self.rows
        if type(rows) is int:
            count = rows
            if rows < 1:
                raise InputError(f"OpenTask: rows must be at least 1; given: {rows}")
        elif rows is not None:
            names = names_of(rows, "OpenTask: rows")  # type: ignore[arg-type]
            object.__setattr__(self, "rows", names)
            count = len(names)
        object.__setattr__(self, "weight", checked_weight(self, self.weight, count))
        check_one_of(self.unit, "unit of an OpenTask", UNITS)

    def on(self, robot: Robot) -> OpenRows:  # noqa: D102
        return _rows_on(self, robot)

    def input_spec(self, robot: Robot, rows: int) -> InputSpec:  # noqa: D102
        return InputSpec(velocity=rows, target=rows)

    def targets(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return self._numbers(robot, given, "target")

    def velocities(self, robot: Robot, given: ArrayLike) -> Array:  # noqa: D102
        return self._numbers(robot, given, "velocity")

    def differences(self, begin: Array, end: Array) -> Array:  # noqa: D102
        return end - begin

    def _numbers(self, robot: Robot, given: ArrayLike, name: str) -> Array:
        count = len(self.on(robot).names)
        if count == 1 and np.ndim(given) == 0:
            given = np.reshape(given, (1,))
        return finite_array(given, (count,), f"an OpenTask's {name}", batch=True)


@dataclass(frozen=True, eq=False)
class OpenRows(PostureRows):
    """The rows of an open task on a robot; in the kernel, placeholders with one number per row.

    Attributes:
        function: f, from q (nq,) to x (k,), or to a pair of x (k,) and J (k, n).
        robot: The robot.
        unit: Unit of the rows.
    """

    in_python: ClassVar[bool] = True

    function: Function | None = None
    robot: Robot | None = None
    unit: Literal["m", "rad"] = "m"

    @property
    def turns(self) -> tuple[bool, ...]:  # noqa: D102
        return (self.unit == "rad",) * len(self.names)

    def moved_by(self, robot: Robot) -> frozenset[int]:  # noqa: D102
        return frozenset(range(robot.nv))

    def value(self, q: Array) -> Array:
        """Return x (k,) at a configuration (n,)."""
        return self._evaluated(q)[0]

    def linear(self, q: Array) -> tuple[Array, Array]:
        """Return x (k,) and J (k, n), not weighted, at a configuration (n,)."""
        x, J = self._evaluated(q)
        if J is None:
            n = len(q) if self.robot is None else self.robot.nv
            J = np.empty((len(x), n))
            for j in range(n):
                h = _FIRST_DIFFERENCE_STEP * max(1.0, abs(q[j]) if n == len(q) else 1.0)
                along = np.zeros(n)
                along[j] = h
                ahead, behind = (integrate(self.robot, q, s * along) for s in (1, -1))
                # The positions q_j ± h are rounded, so that they do not differ by exactly 2 h.
                moved = ahead[j] - behind[j] if n == len(q) else 2 * h
                J[:, j] = (self.value(ahead) - self.value(behind)) / moved
        return x, J

    def bias(self, q: Array, qd: Array) -> Array:
        """Return J̇q̇ (k,), not weighted: the second derivative of f along q̇, by differences."""
        speed = float(np.abs(qd).max(initial=0.0))
        if speed == 0:
            return np.zeros(len(self.names))
        h = _SECOND_DIFFERENCE_STEP * max(1.0, float(np.abs(q).max())) / speed
        ahead, middle, behind = (
            self._evaluated(integrate(self.robot, q, k * h * qd)) for k in (1, 0, -1)
        )
        if ahead[1] is not None and behind[1] is not None:
            change: Array = (ahead[1] - behind[1]) @ qd / (2 * h)
            return change
        return np.asarray((ahead[0] - 2 * middle[0] + behind[0]) / h**2)

    def jacobian(  # noqa: D102
        self, robot: Robot, q: Array, target: Array | None = None
    ) -> Array:
        return np.array(self.weights)[:, None] * self.linear(q)[1]

    def offset(self, robot: Robot, q: Array, target: Array) -> Array:  # noqa: D102
        return np.array(self.weights) * (target - self.value(q))

    def distance(self, offset: Array) -> Array:
        """Return the distance (k,) of an offset x* - x to the allowed range, not weighted."""
        return offset - np.clip(offset, self.lower, self.upper) if self.lower else offset

    def reached(self, robot: Robot, q: Array) -> Array:  # noqa: D102
        flat = [self.value(one) for one in q.reshape(-1, q.shape[-1])]
        return np.reshape(flat, (*q.shape[:-1], len(self.names)))

    def _evaluated(self, q: Array) -> tuple[Array, Array | None]:
        assert self.function is not None
        n = len(q) if self.robot is None else self.robot.nv
        return _value(self.function, q, len(self.names), n)


@lru_cache(maxsize=64)  # cached, because counting the rows calls f
def _rows_on(task: OpenTask, robot: Robot) -> OpenRows:
    names = task.rows
    if names is None:
        names = len(_value(task.function, robot.neutral(), None, robot.nv)[0])
    if isinstance(names, int):
        whole = getattr(task.function, "__name__", type(task.function).__name__)
        name = "open" if whole == "<lambda>" else whole
        names = (name,) if names == 1 else tuple(f"{name} {i}" for i in range(names))
    count = len(names)
    if count > robot.dof:
        raise InputError(
            f"an OpenTask must have at most {robot.dof} rows, one per joint; given: {count}. "
            "Use several tasks for more rows"
        )
    made = OpenRows(
        picked=tuple(range(count)),
        weights=weights_of(checked_weight(task, task.weight, count), count),
        names=tuple(names),
        function=task.function,
        robot=robot,
        unit=task.unit,
    )
    ranges = dict(ranges_of(task.tolerance, names, "OpenTask: tolerance", single=True) or ())
    return within(made, [ranges.get(name) for name in names])


def _value(function: Function, q: Array, rows: int | None, n: int) -> tuple[Array, Array | None]:
    """Return x (rows,) and J (rows, n); J is None if the function does not return it.

    Raises:
        InputError: The function returns wrong shapes, or numbers that are not finite.
    """
    made: Any = function(q.copy())  # a copy, because the function may write to it
    pair = isinstance(made, tuple) and len(made) == 2 and np.ndim(made[1]) == 2
    name = f"the function of an OpenTask, {short_repr(function)},"
    x = np.atleast_1d(numbers_of(made[0] if pair else made, f"{name} at q = {_short(q)}"))
    if x.ndim != 1 or len(x) != (rows or len(x)):
        expected = "a number or (k,)" if rows is None else f"({rows},)"
        raise InputError(f"{name} must return {expected}; given: {x.shape}")
    if not pair:
        return x, None
    J = numbers_of(made[1], f"{name} at q = {_short(q)}")
    if J.shape != (len(x), n):
        raise InputError(f"{name} must return J of shape {(len(x), n)}; given: {J.shape}")
    return x, J


def _short(q: Array) -> str:
    return short_repr(np.round(q, 6).tolist())
