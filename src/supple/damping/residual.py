"""Residual-optimal damping: the largest λ² that keeps the tracking error within a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from supple._arrays.checks import number
from supple._core import Rule
from supple.damping.rule import FRACTION, KernelRule
from supple.damping.scale import Rows
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import EPSILON, Linearization

_MIN_TOLERANCE = 64 * EPSILON  # smallest tolerance of the root search that rounding permits
_MAX_ITERATIONS = 201  # ends the search even if rounding prevents convergence
_HUGE = 2.0**1023  # bound on y that avoids overflow


@dataclass(frozen=True)
class ResidualOptimal(KernelRule):
    """The largest damping that keeps the relative tracking error within max_error for the given e.

        lambda2 is the root of  ψ(lambda2) = max_error,
        ψ = sqrt(Σ (γ_i lambda2/(σ_i² + lambda2))² / Σ γ_i²),    γ = Uᵀe,   over the σ_i > 0

    ψ is the part of the residual ‖e - J q̇‖ that damping causes, relative to the component of e in
    the range of J. It increases with lambda2 from 0 to 1, while ‖q̇‖ decreases: this step is the
    shortest q̇ whose error is within the bound. The rule is the dual of `Optimal`. lambda2 is at
    least that of `TrackingBound`, which keeps the bound for every e, and zero if e = 0.

    The root is found by Newton's method on 1/ψ as a function of 1/lambda2, starting at a lower
    bound of 1/lambda2. Directions whose singular value is zero to working precision are omitted.
    Joint speeds are not bounded, and λ² jumps where J loses rank.

    Attributes:
        max_error: Bound on the relative error, between 0 and 1.

    References:
        Maciejewski & Klein 1988, eq. (12) and section III.
    """

    rule = Rule.RESIDUAL_OPTIMAL
    max_error: float = field(default=0.05, metadata=FRACTION)

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.solve(linearization)[0]

    def solve(
        self,
        linearization: Linearization,
        start: float | None = None,
        *,
        tolerance: float = _MIN_TOLERANCE,
    ) -> tuple[float, int]:
        """Return lambda2 and the number of Newton iterations.

        Args:
            linearization: The linearization to damp.
            start: Initial value of lambda2, such as that of the previous step; an upper bound of
                the root if None. A poor start costs at most one more iteration.
            tolerance: Relative distance by which the error may be below the bound.
        """
        if start is not None:
            start = number(start, "ResidualOptimal: start", least=0.0)
        what = "ResidualOptimal: tolerance"
        slack = max(number(tolerance, what, least=0.0, below=1.0), _MIN_TOLERANCE)
        sigma = linearization.sigma[: linearization.rank]
        gamma = np.abs(linearization.gamma[: len(sigma)])
        if not gamma.any():
            return 0.0, 0
        # With s = σ/σ_1, c = γ/max γ and y = σ_1²/lambda2, ψ is ‖c/(1 + s² y)‖/‖c‖.
        largest = float(sigma[0])
        s2, c = (sigma / largest) ** 2, gamma / gamma.max()
        limit = self.max_error * float(np.linalg.norm(c))
        aim, enough = limit * (1 - slack), limit * (1 - slack / 2)
        # Two lower bounds of y: by Jensen's inequality, and because no term may exceed the limit.
        lower = max(0.0, (1 / self.max_error - 1) * float(c @ c) / float(c**2 @ s2))
        lower = min(_HUGE, max(lower, float(((c / aim - 1) / s2).max())))
        y = lower if not start else max(lower, min(_HUGE, largest / start * largest))
        for iteration in range(_MAX_ITERATIONS):
            terms = (c / (1 + s2 * y)) ** 2
            psi = math.sqrt(terms.sum())
            slope = float((terms * s2 / (1 + s2 * y)).sum())
            beyond = iteration == 0 and y > lower and psi < limit * (1 - 1.5 * slack)
            if (psi <= enough and not beyond) or slope == 0:
                break
            further = (psi - aim) * float(terms.sum()) / (slope * aim)
            # Far beyond the root, rounding errors dominate `further`.
            y = max(lower, y + further) if 2 * psi > aim else lower
        return largest / y * largest, iteration

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        lambda2 = self(linearization)
        allowed = f"an error of {self.max_error:.3g} is allowed for this command"
        return f"residual optimal: {allowed}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> ResidualOptimal:
        """Return the rule with the default error, 0.05; it does not depend on the robot."""
        return cls()
