"""Optimal damping: the smallest λ² that keeps the norm of the joint speeds within a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from supple import _core
from supple._arrays.checks import number
from supple._core import Rule
from supple.damping.rule import POSITIVE, KernelRule
from supple.damping.scale import Rows
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import EPSILON, Linearization

# The smallest tolerance of the root search that rounding permits.
_MIN_TOLERANCE = 64 * EPSILON
_MAX_ITERATIONS = 201  # ends the search even if rounding prevents convergence


@dataclass(frozen=True)
class Optimal(KernelRule):
    """The smallest damping that keeps  ‖q̇‖ <= max_speed  at every configuration.

        lambda2 = 0 if the pseudoinverse obeys the bound, else the root of
        φ(lambda2) = max_speed,         φ = sqrt(Σ (σ_i γ_i/(σ_i² + lambda2))²),  γ = Uᵀe

    The root is found by Newton's method on 1/φ, starting at a lower bound, which takes a few
    iterations at any distance from a singularity; or on φ itself (`newton=True`), starting near
    zero, which takes more iterations the closer the singularity is. Directions whose singular value
    is zero to working precision are omitted. ‖q̇‖ is slightly below the bound, by a margin larger
    than the rounding errors.

    The step minimizes ‖e - J q̇‖ among all q̇ within the bound. Where a singular value passes
    through zero, q̇ changes its sign along that direction: λ² is continuous there and q̇ bounded,
    but q̇ is not continuous.

    Attributes:
        max_speed: The bound Δ on the norm of q̇ [rad/s and m/s mixed].
        newton: Whether to solve φ = Δ instead of 1/φ = 1/Δ.

    References:
        Deo & Walker 1995, eqs. (9)-(18).
    """

    rule = Rule.OPTIMAL
    max_speed: float = field(metadata=POSITIVE)
    newton: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.newton, bool):
            raise InputError(
                f"Optimal: newton must be True or False; given: {short_repr(self.newton)}"
            )

    def __call__(self, linearization: Linearization) -> float:  # noqa: D102
        return self.solve(linearization)[0]

    def solve(
        self,
        linearization: Linearization,
        start: float | None = None,
        *,
        tolerance: float = _MIN_TOLERANCE,
        from_zero: bool = False,
    ) -> tuple[float, int]:
        """Return lambda2 and the number of Newton iterations.

        A `start` near the root, such as lambda2 of the previous step, saves iterations. Any other
        start costs at most one more iteration: from a start above the root, one iteration on φ or
        on 1/φ leads below the root.

        Args:
            linearization: The linearization to damp.
            start: Initial value of lambda2; a lower bound of the root if None.
            tolerance: Relative distance by which ‖q̇‖ may be below the bound.
            from_zero: Whether to start near zero, as in the paper, instead of at the lower bound,
                if no `start` is given. With `newton=True` the search always starts near zero.
        """
        if start is not None:
            start = number(start, "Optimal: start", least=0.0)
        slack = max(number(tolerance, "Optimal: tolerance", least=0.0, below=1.0), _MIN_TOLERANCE)
        sigma = linearization.sigma[: linearization.rank]
        gamma = np.abs(linearization.gamma[: len(sigma)])
        if not gamma.any():
            return 0.0, 0
        # Scaling σ by σ_1, γ by its largest entry and φ by Δ avoids overflow. In these units
        # φ = sqrt(Σ (s c/(beta s² + x))²) and lambda2 = x unit σ_1.
        largest, unit = float(sigma[0]), float(gamma.max()) / self.max_speed
        s, c, beta = sigma / largest, gamma / gamma.max(), largest / unit
        # No single term may exceed 1, which bounds x from below. The paper's method starts near 0.
        lower = max(0.0, float((s * (c - beta * s)).max()))
        lower *= EPSILON**2 if self.newton or from_zero else 1
        x = lower
        if start is not None:  # φ is at most ‖Jᵀe‖/lambda2
            x = max(lower, min(float(start) / unit / largest, float(np.linalg.norm(s * c))))
        numerators, squares = s * c, beta * s**2
        for iteration in range(_MAX_ITERATIONS):
            denominators = squares + x
            terms = (numerators / denominators) ** 2
            total = terms.sum()
            phi = math.sqrt(total)
            beyond = iteration == 0 and x > lower and phi < 1 - 1.5 * slack
            # An undamped step that obeys the bound is kept regardless of the tolerance.
            enough = 1 - (slack if x > 0 else _MIN_TOLERANCE) / 2
            if phi <= enough and not beyond:
                break
            over_slope = total / (terms / denominators).sum()  # φ/|φ'|
            aim = 1 - slack  # far enough below the bound that rounding does not end the search
            x = max(lower, x + float((phi - aim) * over_slope / (phi if self.newton else aim)))
        return x * unit * largest, iteration

    @property
    def kernel(self) -> _core.DampingSpec:  # noqa: D102
        rule = Rule.OPTIMAL_NEWTON if self.newton else Rule.OPTIMAL
        return _core.DampingSpec(rule=rule, parameters=[self.max_speed])

    def reason(self, linearization: Linearization) -> str:  # noqa: D102
        some = slice(linearization.rank)
        speed = float(np.linalg.norm(linearization.gamma[some] / linearization.sigma[some]))
        lambda2 = self(linearization)
        side = "above" if lambda2 > 0 else "within"
        asked = f"undamped speed {speed:.3g} is {side} max_speed = {self.max_speed:.3g}"
        return f"optimal: {asked}, so lambda2 = {lambda2:.3g}"

    @classmethod
    def for_robot(
        cls, robot: Robot, frame: FrameNames = None, rows: Rows = None, *, dt: float = 1.0
    ) -> Optimal:
        """Set the bound to the lowest speed limit, or to 1 rad/s without speed limits."""
        speeds = robot.max_speed[np.isfinite(robot.max_speed)]
        return cls(float(speeds.min()) if len(speeds) else 1.0)
