"""Steps that wrap another step and clamp its error or its joint motion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple._arrays.checks import names_of, number, number_field
from supple._core import ErrorClampSpec, StepSpec
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.frames import link_lengths
from supple.kinematics.robot import FrameNames, check_robot
from supple.motion.linearization import Array, Linearization
from supple.motion.readable import Readable
from supple.steps.stateful import has_memory
from supple.steps.step import BatchStep, Step, batched, check_group, effectors_of, kernel_of

VARIANTS = ("text", "program")
# The distances (k,) of the previous step; a pair if the wrapped step has a memory too.
ClampMemory: TypeAlias = Array | tuple[Array, object]


@dataclass(frozen=True, repr=False)
class ErrorClamp(Readable, BatchStep):
    """A step with the error of each end effector clamped to max_error.

    The clamp keeps the robot from stretching out toward targets out of reach.
    `ErrorClamp.for_robot` derives max_error from the lengths of the robot's links.

    Attributes:
        step: The wrapped step.
        max_error: D_max, in the units of e: [m or rad], or [m/s or rad/s] if e is a velocity.
        group: Number of successive rows that form one end effector. If None, rows are grouped by
            the end effectors of the tasks; without tasks, every three rows form one.

    References:
        Buss 2009, section 2 (ClampMag; with DLS: DLS').
    """

    step: Step
    max_error: float
    group: int | None = None

    @classmethod
    def for_robot(
        cls, robot: Robot, step: Step, frame: FrameNames = None, *, dt: float = 1.0
    ) -> ErrorClamp:
        """Clamp to half the length of a typical link.

        Orientation errors are clamped to the same number of radians.

        Args:
            robot: The robot.
            step: The wrapped step.
            frame: Name of a frame, or a sequence of names; all end effectors if None.
            dt: Length of a step [s], if e is a velocity: the clamp is divided by dt.

        References:
            Buss 2009, section 2.
        """
        return cls(step, typical_link(robot, frame) / 2 / number(dt, "dt", above=0))

    def __post_init__(self) -> None:
        number_field(self, "max_error", above=0.0)
        check_group(self, self.group)

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return self.step(self.clamped(linearization))

    def clamped(self, linearization: Linearization) -> Linearization:
        """Return the linearization with clamped errors, the input of the wrapped step."""
        effectors = effectors_of(linearization, self.group)
        sizes = _lengths(linearization.e, effectors)
        return _clamped(linearization, sizes, np.full(len(sizes), self.max_error), effectors)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        inner = kernel_of(self.step)
        own = ErrorClampSpec(max_error=self.max_error, group=self.group or 0)
        return inner.replace(error_clamps=[own, *inner.error_clamps])


@dataclass(frozen=True, repr=False)
class AdaptiveErrorClamp(Readable):
    """A step for targets that move or jump: the error of each end effector has an adaptive clamp.

        D_i = max_error + max(0, previous d_i - d_i)       "text": grows by the distance that the
                                                           last step brought end effector i closer
        D_i = max_error + max(0, d_i - previous d_i)       "program": grows by the distance that
                                                           the target has moved away
        D_i = infinity in the first step, and after a jump             d_i = ‖e_i‖

    With "text", an end effector that gets closer in large steps may continue with large steps, and
    an end effector that stalls in front of a target out of reach is clamped to max_error. With
    "program", the end effector does not fall behind a target that moves away.

    The memory holds the distances (k,) of the previous step, infinite at the start; if the wrapped
    step has a memory, the two form a pair. Called like a plain step, the clamp has no memory and
    every step is the first; a `Servo` and `StatefulStep` keep the memory.

    Attributes:
        inner: The wrapped step.
        max_error: D_max, in the units of e: [m or rad], or [m/s or rad/s] if e is a velocity.
        group: Number of successive rows that form one end effector. If None, rows are grouped by
            the end effectors of the tasks; without tasks, every three rows form one.
        variant: "text" for the rule of the paper, "program" for that of its author's program, with
            a correction of the index of the end effector in that program.
        jump: Growth of d_i in one step above which the target counts as having jumped, in the units
            of e; infinite if the caller resets the memory instead.

    References:
        Buss 2009, section 2 (D_max,i).
    """

    inner: Step
    max_error: float = 0.4
    group: int | None = None
    variant: Literal["text", "program"] = "text"
    jump: float = math.inf

    def __post_init__(self) -> None:
        number_field(self, "max_error", above=0.0)
        check_group(self, self.group)
        variant: object = self.variant
        if variant not in VARIANTS:
            raise InputError(
                f"AdaptiveErrorClamp: variant must be one of {VARIANTS}; "
                f"given: {short_repr(variant)}"
            )
        if self.jump != math.inf:
            number_field(self, "jump", above=0.0)

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,) of a first step."""
        return self.step(linearization, self.start(linearization))[0]

    def start(self, linearization: Linearization) -> ClampMemory:
        """Return the memory of the first step: infinite distances (k,)."""
        now = distances(linearization, self.group)
        far = np.full(len(now), math.inf)
        inner: Any = self.inner
        return (far, inner.start(self.clamped(linearization, far))) if has_memory(inner) else far

    def step(self, linearization: Linearization, memory: ClampMemory) -> tuple[Array, ClampMemory]:
        """Return q̇ (n,) and the memory of the next step."""
        inner: Any = self.inner
        before, kept = memory if isinstance(memory, tuple) else (memory, None)
        seen, now = self.clamped(linearization, before), distances(linearization, self.group)
        if not has_memory(inner):
            return inner(seen), now
        dq, kept = inner.step(seen, inner.start(seen) if kept is None else kept)
        return dq, (now, kept)

    def clamped(self, linearization: Linearization, before: ArrayLike) -> Linearization:
        """Return the linearization with clamped errors, from the previous distances (k,)."""
        effectors = effectors_of(linearization, self.group)
        now = _lengths(linearization.e, effectors)
        if np.shape(before) != now.shape:
            raise InputError(
                f"AdaptiveErrorClamp: memory must be {len(now)} distances, as `start` returns "
                f"them; given: {short_repr(before)}"
            )
        first = np.isinf(before)
        grown = now - np.where(first, now, before)
        more = np.maximum(0.0, grown if self.variant == "program" else -grown)
        limits = np.where(first | (grown > self.jump), math.inf, self.max_error + more)
        return _clamped(linearization, now, limits, effectors)


@dataclass(frozen=True, repr=False)
class AngleClamp(Readable, BatchStep):
    """A step scaled down so that no joint moves by more than max_angle.

    All joints are scaled by the same factor, which keeps the direction of motion.

    Attributes:
        step: The wrapped step.
        max_angle: Largest motion of a joint [rad or m], or [rad/s or m/s] if e is a velocity, as in
            a `Servo`.

    References:
        Buss 2009, section 8.
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


def typical_link(robot: Robot, frame: FrameNames = None) -> float:
    """Return the median length [m] of the links that carry the given frames, by default all tips.

    Raises:
        InputError: The links have no length.
    """
    check_robot(robot)
    frames = robot.tips if frame is None else names_of(frame, "frame")
    lengths = link_lengths(robot, frames)
    if not lengths:
        raise InputError(f"the robot must have links with a length; given: {robot!r}")
    return float(np.median(lengths))


def distances(linearization: Linearization, group: int | None) -> Array:
    """Return the length of each end effector's error (k,)."""
    return _lengths(linearization.e, effectors_of(linearization, group))


def _lengths(e: Array, effectors: NDArray[np.intp]) -> Array:
    return np.array([np.linalg.norm(e[effectors == k]) for k in range(effectors.max() + 1)])


def _clamped(
    linearization: Linearization, sizes: Array, limits: Array, effectors: NDArray[np.intp]
) -> Linearization:
    """Return the task with each end effector's error clamped to its limit (ClampMag)."""
    factors = [factor(float(d), float(limit)) for d, limit in zip(sizes, limits, strict=True)]
    return linearization.with_e(linearization.e * np.array(factors)[effectors])


def factor(size: float, limit: float) -> float:
    """Return the factor that reduces a size to a limit; 1 if it is within the limit."""
    return limit / size if size > limit else 1.0


def scaled_down(dq: Array, limit: float) -> Array:
    """Return the vector, scaled down so that no entry exceeds a limit."""
    return dq * factor(float(np.abs(dq).max()), limit)
