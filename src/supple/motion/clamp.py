"""Steps around a step that keep it short: targets brought nearer, angles cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supple._core import StepSpec
from supple.errors import InputError, short_repr
from supple.kinematics.arrays import number_field
from supple.motion.linearization import Array, Linearization
from supple.motion.step import Step, a_group, kernel_of


@dataclass(frozen=True)
class ClampError:
    """A step towards targets brought nearer: each effector's error is cut to max_error first.

    Keeps a figure from stretching out towards what it cannot reach.

    Attributes:
        step: Any step.
        max_error: D_max, in the units of e: [m or rad], or [m/s or rad/s] where e is a velocity.
        group: Rows of one effector.

    References:
        Buss 2009, section 2 (ClampMag; with DLS: DLS').
    """

    step: Step
    max_error: float
    group: int = 3

    def __post_init__(self) -> None:
        number_field(self, "max_error", above=0.0)
        a_group(self, self.group)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return self.step(self.clamped(linearization))

    def clamped(self, linearization: Linearization) -> Linearization:
        """What the inner step is given."""
        limits = np.full(groups(linearization.e, self.group), self.max_error)
        return _nearer(linearization, limits, self.group)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        inner = kernel_of(self.step)
        return inner.replace(max_error=self.max_error, error_group=self.group)


@dataclass(frozen=True)
class AdaptiveClampError:
    """A step that follows targets that jump: each effector's error is cut to a limit of its own.

        D_i = max_error + max(0, d_i - d_i before)         d_i = ‖e_i‖, the distance of effector i

    While a target stands still or is approached the limit is max_error, as in `ClampError`; the
    moment one runs away the effector may go as much farther as it ran, so that it does not fall
    behind. The memory is the distances (k,) of the step before; the first step knows none, and
    clamps to max_error. A `StatefulStep` makes a plain step of it.

    Attributes:
        inner: Any step.
        max_error: D_max, in the units of e: [m or rad], or [m/s or rad/s] where e is a velocity.
        group: Rows of one effector.

    References:
        Buss 2009, section 2, and the author's program, whose index of the effector is repaired.
    """

    inner: Step
    max_error: float = 0.4
    group: int = 3

    def __post_init__(self) -> None:
        number_field(self, "max_error", above=0.0)
        a_group(self, self.group)

    def start(self, linearization: Linearization) -> Array:
        """The distances (k,) now: nothing has grown yet."""
        return distances(linearization.e, self.group)

    def step(self, linearization: Linearization, memory: Array) -> tuple[Array, Array]:
        """Return q̇ (n,) and the distances (k,) to remember."""
        now = distances(linearization.e, self.group)
        if np.shape(memory) != now.shape:
            raise InputError(
                f"AdaptiveClampError remembers {len(now)} distances here; "
                f"given: {short_repr(memory)}. `start` makes them"
            )
        limits = self.max_error + np.maximum(0.0, now - memory)
        return self.inner(_nearer(linearization, limits, self.group)), now


@dataclass(frozen=True)
class ClampAngle:
    """A step scaled as a whole so that no joint moves more than max_angle.

    The direction of motion is kept. In a `Servo` steps are speeds, and so is max_angle.

    Attributes:
        step: Any step.
        max_angle: Of each joint [rad or m], or [rad/s or m/s] where e is a velocity.

    References:
        Buss 2009, section 6.
    """

    step: Step
    max_angle: float

    def __post_init__(self) -> None:
        number_field(self, "max_angle", above=0.0)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return shortened(self.step(linearization), self.max_angle)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        inner = kernel_of(self.step)
        return inner.replace(max_angle=min(self.max_angle, inner.max_angle))


def groups(e: Array, group: int) -> int:
    """How many effectors a task vector speaks of; the last may have fewer rows."""
    return -(-len(e) // group)


def distances(e: Array, group: int) -> Array:
    """How far each effector is off (k,)."""
    each = [np.linalg.norm(e[i : i + group]) for i in range(0, len(e), group)]
    return np.array(each, dtype=np.float64)


def _nearer(linearization: Linearization, limits: Array, group: int) -> Linearization:
    """The same task with each effector's error cut to its limit (ClampMag)."""
    sizes = distances(linearization.e, group)
    factors = [factor(float(d), float(most)) for d, most in zip(sizes, limits, strict=True)]
    e = linearization.e * np.repeat(factors, group)[: len(linearization.e)]
    return replace(linearization, e=e)


def factor(size: float, most: float) -> float:
    """What brings a size down to the most that is allowed."""
    return most / size if size > most else 1.0


def shortened(dq: Array, most: float) -> Array:
    """The whole vector scaled so that no entry is larger than the most."""
    return dq * factor(float(np.abs(dq).max()), most)
