"""Damped least squares whose damping follows a running estimate of the singular values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from supple._core import StepSpec
from supple.damping import ConditionBound, Curvature, MayorgaCondition, Region, SpeedBound
from supple.damping.rule import KernelRule
from supple.errors import InputError
from supple.motion.linearization import Array, Linearization
from supple.motion.readable import name_of
from supple.steps.basic import DLS
from supple.steps.estimate import (
    EstimatedLinearization,
    Estimates,
    ExtremeValues,
    ScaledProblem,
)
from supple.steps.step import damping_of, finite_step

RULES = (SpeedBound, Region, ConditionBound, MayorgaCondition, Curvature)


@dataclass(frozen=True)
class EstimatedDLS:
    """Damped least squares with λ² from an estimate of the singular values, without an SVD.

        λ²  = rule(σ̂),  σ̂ the estimate of the previous step
        (J Jᵀ + λ² I) [z, û'] = [e, û],      q̇ = Jᵀ z
        û  <- û'/‖û'‖,     σ̂² <- 1/‖û'‖ - λ²,  at least 0

    One factorization serves the step and the estimate. Because σ̂ lags by one step, so does the
    damping: a bound of the rule holds up to the change of σ in one step. Rules that also need the
    largest singular value get it from the power method:  ŵ <- J Jᵀŵ/‖J Jᵀŵ‖,  σ̂_1² = ‖J Jᵀŵ‖.
    If J has changed so much that û is no longer a usable estimate, the memory starts again from the
    exact values.

    The memory is an `ExtremeValues`. Called like a plain step, EstimatedDLS has no memory and uses
    the exact singular values, as `DLS(rule)` does; `Servo` and `StatefulStep(EstimatedDLS(...))`
    keep the memory.

    Attributes:
        rule: A rule that depends only on the smallest and the largest singular value: `SpeedBound`,
            `Region`, `ConditionBound`, `MayorgaCondition` or `Curvature`.

    References:
        Maciejewski & Klein 1988, section IV, eqs. (19)-(26).
    """

    rule: KernelRule

    def __post_init__(self) -> None:
        if not isinstance(self.rule, RULES):
            names = ", ".join(repr(each.__name__) for each in RULES)
            raise InputError(
                "EstimatedDLS: rule must depend on the extreme singular values alone; given: "
                f"{name_of(self.rule)}. Available: {names}"
            )

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,) for the exact singular values."""
        return self.step(linearization, self.start(linearization))[0]

    def start(self, linearization: Linearization) -> ExtremeValues:
        """Return the exact extreme singular values, by singular value decomposition."""
        return ExtremeValues.exact(linearization.single())

    def step(
        self, linearization: Linearization, memory: ExtremeValues
    ) -> tuple[Array, ExtremeValues]:
        """Return q̇ (n,) and the estimates for the next step."""
        dq, memory, _ = self._taken(linearization, memory)
        return dq, memory

    def estimates(self, linearization: Linearization, memory: ExtremeValues) -> Estimates:
        """Return σ̂ and λ² of `step` for the same arguments."""
        return self._taken(linearization, memory)[2]

    @property
    def kernel(self) -> StepSpec:
        """The damped step with this rule, for the compiled code."""
        return DLS(self.rule).kernel

    def _taken(
        self, linearization: Linearization, memory: ExtremeValues
    ) -> tuple[Array, ExtremeValues, Estimates]:
        problem = ScaledProblem.prepare(linearization.J, memory.u[:, None])
        seen = EstimatedLinearization(linearization, memory)
        lambda2 = damping_of(self.rule, seen)
        if not problem.gram.any():
            still = ExtremeValues(memory.u, 0.0, memory.w, 0.0)
            found = Estimates(0.0, memory.sigma_min, memory.sigma_min, 0.0, lambda2)
            return np.zeros(linearization.J.shape[1]), still, found
        scale = problem.scale
        shift = max(lambda2 / scale / scale, problem.blur)
        inverse = problem.inverse(shift)
        u = problem.U[:, 0]
        turned = inverse @ u
        if 2 * np.linalg.norm(turned) < np.diagonal(inverse).max() * np.linalg.norm(u) or (
            np.linalg.norm(u) < 0.5
        ):
            U, sigma = problem.exact()
            U = problem.restored(U)
            low, high = (float(x) * scale for x in sigma[[0, -1]])
            return self._taken(linearization, ExtremeValues(U[:, 0], low, U[:, -1], high))
        size = float(np.linalg.norm(turned)) / float(np.linalg.norm(u))
        least = math.sqrt(max(0.0, 1 / size - shift)) * scale
        stretched = problem.gram @ problem.reduced(memory.w)
        largest = float(np.linalg.norm(stretched))
        w = problem.restored(stretched / largest) if largest > 0 else memory.w
        after = ExtremeValues(
            problem.restored(turned / np.linalg.norm(turned)), least, w, math.sqrt(largest) * scale
        )
        J, e = problem.J, problem.reduced(linearization.e)
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            W = self.rule.weight(seen)
            J, e = W @ linearization.J / scale, W @ linearization.e
        m, n = J.shape
        if m <= n:
            dq = J.T @ np.linalg.solve(J @ J.T + shift * np.eye(m), e) / scale
        else:
            dq = np.asarray(np.linalg.solve(J.T @ J + shift * np.eye(n), J.T @ e), float) / scale
        found = Estimates(least, memory.sigma_min, memory.sigma_min, 0.0, lambda2)
        return finite_step(dq), after, found
