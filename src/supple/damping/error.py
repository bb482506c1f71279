"""Damping that depends on the length of the task vector e."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from supple._arrays.checks import number
from supple._core import Rule
from supple.damping.rule import NOT_NEGATIVE, KernelRule, comparison
from supple.damping.scale import Rows, Scale, reach
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Linearization


@dataclass(frozen=True)
class ErrorDamped(KernelRule):
    """Damping proportional to the squared task error:  lambda2 = gain ‖e‖².

    λ² vanishes as the target is reached. A large error is damped even far from any singularity.

    Attributes:
        gain: λ² divided by ‖e‖². In a `Servo`, e is a velocity.

    References:
        Chan & Lawrence 1988; Deo & Walker 1995, eq. (5).
    """

    rule = Rule.ERROR
    spectral = False
    gain: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        e = linearization.single().e
        return self.gain * float(e @ e)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        lambda2, e = self(linearization), _length(linearization)
        return f"error damped: the task vector has length {e:.3g}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> ErrorDamped:
        """Set the gain such that an error of 10 % of the reach gives λ² of `Constant.for_robot`."""
        scale = Scale.for_robot(robot, frame, rows)
        return cls(scale.lambda2 / (0.1 * scale.reach / number(dt, "dt", above=0)) ** 2)


@dataclass(frozen=True)
class ErrorNorm(KernelRule):
    """Damping proportional to the length of the task error:  lambda2 = gain ‖e‖.

    λ² vanishes as the target is reached: slowly enough to be effective where J loses rank on the
    way, and fast enough for quadratic convergence. `ErrorNorm` is the default rule of `solve`.

    Attributes:
        gain: λ² divided by ‖e‖, in [m] if e is a displacement in [m], as in `solve`.

    References:
        Fan & Yuan 2005: the Levenberg-Marquardt method with damping ‖e‖, or ‖e‖² as in
        `ErrorDamped`, converges quadratically even where solutions are not isolated.
    """

    rule = Rule.ERROR_NORM
    spectral = False
    gain: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.gain * _length(linearization)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        lambda2, e = self(linearization), _length(linearization)
        return f"error norm: the task vector has length {e:.3g}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> ErrorNorm:
        """Return a rule whose gain is 1/200 of the reach times dt [s]."""
        return cls(0.005 * reach(robot, frame) * number(dt, "dt", above=0))


@dataclass(frozen=True)
class Curvature(KernelRule):
    """The smallest damping that prevents overshoot at the workspace boundary.

        lambda2 = max(0, curvature ‖e‖ - σ²),           σ the smallest singular value

    Near a singularity J overestimates the motion that is available in the singular direction,
    because the boundary of the workspace is curved. If e has a component along that direction (a
    target out of reach), the undamped step overshoots the point of farthest reach, returns, and
    oscillates. The second derivative of ½‖e‖² in that direction is σ² + κ‖e‖, where κ [m/rad] is
    the curvature of the boundary; using this sum instead of σ² makes the step converge. The arm
    therefore stops in front of a target out of reach. No accuracy is lost where σ² > κ‖e‖, which is
    almost everywhere.

    Attributes:
        curvature: κ if e is a displacement; κ dt if e is a velocity and steps have length dt.

    References:
        This library. The term is the one that the Gauss-Newton method drops, restricted to the
        singular direction.
    """

    rule = Rule.CURVATURE
    curvature: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        pull = self.curvature * _length(linearization)
        return max(0.0, pull - linearization.sigma_min**2)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        pull = self.curvature * _length(linearization)
        square, lambda2 = linearization.sigma_min**2, self(linearization)
        return "curvature: " + comparison("sigma_min²", square, "curvature ‖e‖", pull, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> Curvature:
        """Set κ to half the reach.

        Two links of lengths a and b have κ = a b/(a + b), at most a quarter of the reach: half the
        reach has a margin of a factor of two.
        """
        return cls(0.5 * reach(robot, frame) * number(dt, "dt", above=0))


def _length(linearization: Linearization) -> float:
    return float(np.linalg.norm(linearization.single().e))
