"""Steps that wrap a step and bound it: clamped errors and clamped joint motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supple._core import StepSpec
from supple.errors import InputError, short_repr
from supple.kinematics.arrays import number_field
from supple.motion.linearization import Array, Linearization
from supple.motion.steps.step import BatchStep, Step, batched, check_group, kernel_of


@dataclass(frozen=True)
class ErrorClamp(BatchStep):
    """A step with the error of each end effector clamped to max_error.

    Keeps a figure from stretching out towards targets out of reach.

    Attributes:
        step: The wrapped step.
        max_error: D_max, in the units of e: [m or rad], or [m/s or rad/s] if e is a velocity.
        group: Number of rows per end effector.

    References:
        Buss 2009, section 2 (ClampMag; with DLS: DLS').
    """

    step: Step
    max_error: float
    group: int = 3

    def __post_init__(self) -> None:
        number_field(self, "max_error", above=0.0)
        check_group(self, self.group)

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return self.step(self.clamped(linearization))

    def clamped(self, linearization: Linearization) -> Linearization:
        """Return the input of the wrapped step."""
        limits = np.full(groups(linearization.e, self.group), self.max_error)
        return _clamped(linearization, limits, self.group)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        inner = kernel_of(self.step)
        return inner.replace(max_error=self.max_error, error_group=self.group)


@dataclass(frozen=True)
class AdaptiveErrorClamp:
    """A step for moving targets: the error of each end effector has its own, adaptive clamp.

        D_i = max_error + max(0, d_i - previous d_i)       d_i = ‖e_i‖, the error of effector i

    While a target is at rest or getting closer, the limit is max_error, as in `ErrorClamp`. When a
    target moves away, the limit grows by the distance it moved, so that the end effector does not
    fall behind. The memory holds the distances (k,) of the previous step; the first step clamps to
    max_error. Wrap it in `StatefulStep` to call it like other steps.

    Attributes:
        inner: The wrapped step.
        max_error: D_max, in the units of e: [m or rad], or [m/s or rad/s] if e is a velocity.
        group: Number of rows per end effector.

    References:
        Buss 2009, section 2, and the author's program, with its index of the effector corrected.
    """

    inner: Step
    max_error: float = 0.4
    group: int = 3

    def __post_init__(self) -> None:
        number_field(self, "max_error", above=0.0)
        check_group(self, self.group)

    def start(self, linearization: Linearization) -> Array:
        """Return the current distances (k,)."""
        return distances(linearization.single().e, self.group)

    def step(self, linearization: Linearization, memory: Array) -> tuple[Array, Array]:
        """Return q̇ (n,) and the distances (k,) for the next step."""
        now = distances(linearization.single().e, self.group)
        if np.shape(memory) != now.shape:
            raise InputError(
                f"AdaptiveErrorClamp: memory must be {len(now)} distances, made by `start`; "
                f"given: {short_repr(memory)}"
            )
        limits = self.max_error + np.maximum(0.0, now - memory)
        return self.inner(_clamped(linearization, limits, self.group)), now


@dataclass(frozen=True)
class AngleClamp(BatchStep):
    """A step scaled down so that no joint moves by more than max_angle.

    The direction of motion is kept.

    Attributes:
        step: The wrapped step.
        max_angle: Largest motion of a joint [rad or m], or [rad/s or m/s] if e is a velocity, as in
            a `Servo`.

    References:
        Buss 2009, section 6.
    """

    step: Step
    max_angle: float

    def __post_init__(self) -> None:
        number_field(self, "max_angle", above=0.0)

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return scaled_down(self.step(linearization), self.max_angle)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        inner = kernel_of(self.step)
        return inner.replace(max_angle=min(self.max_angle, inner.max_angle))


def groups(e: Array, group: int) -> int:
    """Return the number of end effectors in a task vector; the last may have fewer rows."""
    return -(-len(e) // group)


def distances(e: Array, group: int) -> Array:
    """Return the length of each end effector's error (k,)."""
    each = [np.linalg.norm(e[i : i + group]) for i in range(0, len(e), group)]
    return np.array(each, dtype=np.float64)


def _clamped(linearization: Linearization, limits: Array, group: int) -> Linearization:
    """Return the task with each end effector's error clamped to its limit (ClampMag)."""
    sizes = distances(linearization.e, group)
    factors = [factor(float(d), float(limit)) for d, limit in zip(sizes, limits, strict=True)]
    e = linearization.e * np.repeat(factors, group)[: len(linearization.e)]
    return replace(linearization, e=e)


def factor(size: float, limit: float) -> float:
    """Return the factor that reduces a size to a limit; 1 if it is within."""
    return limit / size if size > limit else 1.0


def scaled_down(dq: Array, limit: float) -> Array:
    """Return the vector, scaled down so that no entry exceeds a limit."""
    return dq * factor(float(np.abs(dq).max()), limit)
