"""Damping by the smallest singular value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from supple._arrays.checks import number_field
from supple._core import Rule
from supple.damping.rule import FRACTION, NOT_NEGATIVE, POSITIVE, KernelRule, comparison
from supple.damping.scale import Rows, Scale
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Array, Linearization, numbers_of


@dataclass(frozen=True)
class SpeedBound(KernelRule):
    """The smallest damping that keeps  ‖q̇‖ <= max_gain ‖e‖  for every e.

        lambda2 = 0                        if σ >= 1/max_gain,   σ the smallest singular value
                  σ/max_gain - σ²          if σ >= 1/(2 max_gain)
                  1/(4 max_gain²)          otherwise

    The papers print only the first two cases. Without the third, the bound fails at small σ,
    because the gain s/(s² + λ²) of a larger singular value s may exceed that of σ.

    Attributes:
        max_gain: Bound on the joint speed per unit of task velocity [rad/m or rad/rad].

    References:
        Maciejewski & Klein 1988, eq. (14); Deo & Walker 1995, eq. (6), with the third case added.
    """

    rule = Rule.SPEED_BOUND
    max_gain: float = field(metadata=POSITIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        sigma, edge = linearization.sigma_min, 1 / self.max_gain
        if sigma >= edge:
            return 0.0
        return sigma * (edge - sigma) if 2 * sigma >= edge else edge**2 / 4

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, edge, lambda2 = linearization.sigma_min, 1 / self.max_gain, self(linearization)
        limit, bound = ("1/(2 max_gain)", edge / 2) if 2 * sigma < edge else ("1/max_gain", edge)
        return "speed bound: " + comparison("sigma_min", sigma, limit, bound, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> SpeedBound:
        """Bound the gain by the 90 % quantile of the undamped gain over all configurations."""
        return cls(1 / Scale.for_robot(robot, frame, rows).sigma)


@dataclass(frozen=True)
class TrackingBound(KernelRule):
    """The largest damping that keeps the relative tracking error within max_error for every e.

        lambda2 = σ_r² max_error/(1 - max_error)         σ_r the smallest nonzero singular value

    The bound applies to the component of e in the range of J; no step can follow the rest. Joint
    speeds are not bounded, and λ² jumps where J loses rank.

    Attributes:
        max_error: Bound on the relative error, between 0 and 1.

    References:
        Maciejewski & Klein 1988, eq. (16); Deo & Walker 1995, eq. (7).
    """

    rule = Rule.TRACKING_BOUND
    max_error: float = field(default=0.05, metadata=FRACTION)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        rank = max(1, linearization.rank)
        return float(linearization.sigma[rank - 1]) ** 2 * self.max_error / (1 - self.max_error)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma[max(1, linearization.rank) - 1], self(linearization)
        allowed = f"an error of {self.max_error:.3g} is allowed"
        least = f"the smallest nonzero sigma is {sigma:.3g}"
        return f"tracking bound: {least} and {allowed}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> TrackingBound:
        """Return the rule with the default error, 0.05; it does not depend on the robot."""
        return cls()


@dataclass(frozen=True)
class Region(KernelRule):
    """Damp in a region around singularities, and sacrifice accuracy in a chosen direction.

        lambda2 = lambda2_max (1 - (σ/size)²)               if σ < size, else 0
        w       = 1 - (1 - min_weight) sqrt(1 - (σ/size)²)  if σ < size, else 1

    A step weights the task by W = I + (w - 1) d dᵀ, which gives the direction d less weight than
    the others. σ is the smallest singular value of the unweighted J. Without a direction the weight
    is not used.

    Attributes:
        lambda2_max: Damping at the singularity.
        size: Value of σ at the edge of the region.
        direction: d (m,), normalized to unit length; None for no weighting.
        min_weight: w at the singularity, above 0.

    References:
        Chiaverini, Egeland & Kanestrom 1991; Deo & Walker 1995, section 3, method 6.
    """

    rule = Rule.REGION
    lambda2_max: float = field(metadata=NOT_NEGATIVE)
    size: float = field(metadata=POSITIVE)
    direction: tuple[float, ...] | None = None
    min_weight: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        number_field(self, "min_weight", above=0.0, most=1.0)
        if self.direction is not None:
            d = numbers_of(self.direction, "Region: direction")
            if d.ndim != 1 or not d.any():
                given = short_repr(self.direction)
                raise InputError(f"Region: direction must be a nonzero vector; given: {given}")
            d = d / np.abs(d).max()  # squares of the scaled entries neither overflow nor vanish
            object.__setattr__(self, "direction", tuple((d / np.linalg.norm(d)).tolist()))

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.lambda2_max * self._depth(linearization)

    def weight(self, linearization: Linearization) -> Array:
        """Return the task weight W (m, m)."""
        m = len(linearization.e)
        if self.direction is None:
            return np.eye(m)
        if len(self.direction) != m:
            raise InputError(f"Region: direction must have {m} entries; given: {self.direction}")
        w = 1 - (1 - self.min_weight) * math.sqrt(self._depth(linearization))
        return np.eye(m) + (w - 1) * np.outer(self.direction, self.direction)

    def _depth(self, linearization: Linearization) -> float:
        """Return the depth in the region: 0 at its edge and outside, 1 at the singularity."""
        sigma = linearization.sigma_min
        return 1 - (sigma / self.size) ** 2 if sigma < self.size else 0.0

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma_min, self(linearization)
        return "region: " + comparison("sigma_min", sigma, "size", self.size, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> Region:
        """Set the size such that the region contains 10 % of all configurations."""
        scale = Scale.for_robot(robot, frame, rows)
        return cls(scale.lambda2, scale.sigma)
