"""Damping by the condition number, or where the change of J may make the next J singular."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from supple._core import Rule
from supple.damping.rule import ABOVE_ONE, NOT_NEGATIVE, POSITIVE, KernelRule, comparison
from supple.damping.scale import Rows, Scale
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import Linearization


@dataclass(frozen=True)
class ConditionBound(KernelRule):
    """The smallest damping that keeps the condition number of JᵀJ + λ² I within max_condition.

        lambda2 = max(0, (σ_1² - max_condition σ_n²)/(max_condition - 1))

    The matrix is n by n. If J has fewer rows than columns, σ_n is zero, so a redundant arm is
    damped everywhere.

    Attributes:
        max_condition: Bound on the condition number of JᵀJ + λ² I, above 1. Without damping, this
            condition number is the square of that of J.

    References:
        Maciejewski & Klein 1988, eqs. (17), (18); Deo & Walker 1995, eq. (8), where max(0, .) is
        missing.
    """

    rule = Rule.CONDITION_BOUND
    max_condition: float = field(metadata=ABOVE_ONE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        large, small = linearization.sigma_max**2, _sigma_n(linearization) ** 2
        return max(0.0, (large - self.max_condition * small) / (self.max_condition - 1))

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = _sigma_n(linearization), self(linearization)
        bound = linearization.sigma_max / math.sqrt(self.max_condition)
        limit = "sigma_max/sqrt(max_condition)"
        return "condition bound: " + comparison("sigma_n", sigma, limit, bound, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> ConditionBound:
        """Set the bound to about the 90 % quantile of the condition number of J Jᵀ.

        λ² of a redundant arm is then about the square of the 10 % quantile of its σ_min.
        """
        scale = Scale.for_robot(robot, frame, rows)
        return cls(1.01 * (scale.largest / scale.sigma) ** 2)


def _sigma_n(linearization: Linearization) -> float:
    """Return the smallest of n singular values: zero if J has fewer rows than columns."""
    m, n = linearization.single().J.shape
    return linearization.sigma_min if m >= n else 0.0


@dataclass(frozen=True)
class MayorgaCondition(KernelRule):
    """Damp where the condition number is above a threshold.

        lambda2 = lambda2_0 (1 - l)²  if l > 1, else 0            l = cond(J Jᵀ)/max_condition

    As printed in the papers, the rule is circular (cond depends on λ) and unbounded. Here cond is
    the condition number of the undamped matrix, and lambda2 is limited to lambda2_max.

    Attributes:
        lambda2_0: Factor in the formula.
        max_condition: Condition number of J Jᵀ above which damping starts, above 1.
        lambda2_max: Upper limit of the damping.

    References:
        Mayorga, Wong & Milano 1992; Deo & Walker 1995, section 3, method 7, first form.
    """

    rule = Rule.MAYORGA_CONDITION
    lambda2_0: float = field(metadata=POSITIVE)
    max_condition: float = field(metadata=ABOVE_ONE)
    lambda2_max: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        large, small = linearization.sigma_max**2, linearization.sigma_min**2
        if large <= small * self.max_condition:
            return 0.0
        l = large / small / self.max_condition if small > 0 else math.inf  # noqa: E741
        return min(self.lambda2_0 * (1 - l) * (1 - l), self.lambda2_max)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, lambda2 = linearization.sigma_min, self(linearization)
        bound = linearization.sigma_max / math.sqrt(self.max_condition)
        limit = "sigma_max/sqrt(max_condition)"
        return "Mayorga, condition: " + comparison("sigma_min", sigma, limit, bound, lambda2)

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> MayorgaCondition:
        """Set the threshold to about the 90 % quantile of the condition number of J Jᵀ."""
        scale = Scale.for_robot(robot, frame, rows)
        return cls(scale.lambda2, 1.01 * (scale.largest / scale.sigma) ** 2, scale.lambda2)


@dataclass(frozen=True)
class MayorgaRank(KernelRule):
    """Damp where the next step may lose rank.

        lambda2 = lambda2_0 (1 - l)²  if l > 1, else 0            l = ‖J - J_before‖/σ_min

    J_before is J at the previous step. A change of J by less than σ_min cannot make J singular.
    Because l is unbounded, lambda2 is limited to lambda2_max. lambda2 is zero at the first step.

    Attributes:
        lambda2_0: Factor in the formula.
        lambda2_max: Upper limit of the damping.

    References:
        Mayorga, Wong & Milano 1992; Deo & Walker 1995, section 3, method 7, second form.
    """

    rule = Rule.MAYORGA_RANK
    lambda2_0: float = field(metadata=POSITIVE)
    lambda2_max: float = field(metadata=NOT_NEGATIVE)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        change, sigma = linearization.change, linearization.sigma_min
        if change <= sigma:
            return 0.0
        l = change / sigma if sigma > 0 else math.inf  # noqa: E741
        return min(self.lambda2_0 * (1 - l) * (1 - l), self.lambda2_max)

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        sigma, change, lambda2 = linearization.sigma_min, linearization.change, self(linearization)
        return "Mayorga, rank: " + comparison(
            "sigma_min", sigma, "the change of J", change, lambda2
        )

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> MayorgaRank:
        """Use the damping of `Constant.for_robot` for both parameters."""
        lambda2 = Scale.for_robot(robot, frame, rows).lambda2
        return cls(lambda2, lambda2)
