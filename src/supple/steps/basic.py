"""The basic steps: the transpose, the pseudoinverse, the truncated SVD, damped least squares."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Literal

import numpy as np

from supple._arrays.checks import number_field
from supple._core import Method, StepSpec
from supple.damping import DampingRule, Region
from supple.damping.rule import KernelRule
from supple.errors import InputError, known_arguments, short_repr
from supple.motion.linearization import RANK_FLOOR, TINY, Array, Linearization
from supple.motion.readable import Readable, name_of
from supple.steps.batch import run_batch
from supple.steps.step import BatchStep, batched, damping_of, finite_step, gained


@dataclass(frozen=True)
class Transpose(BatchStep):
    """A step along the transpose of the Jacobian, of the length that minimizes ‖J q̇ - e‖.

        q̇ = α Jᵀ e        α = ⟨e, J Jᵀ e⟩ / ⟨J Jᵀ e, J Jᵀ e⟩,  0 where J Jᵀ e = 0

    The step is cheap but slow to converge. If e lies along the singular direction, the step is as
    long as that of the pseudoinverse. `AngleClamp(Transpose(), max_angle)` bounds the step.

    References:
        Buss 2009, section 3.
    """

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        J, e = linearization.J, linearization.e
        size, reach = float(np.abs(J).max()), float(np.abs(e).max())
        if size < TINY or reach == 0:
            return np.zeros(J.shape[1])
        J, e = J / size, e / reach  # squares of scaled entries neither overflow nor vanish
        down = J.T @ e
        back = J @ down
        if np.linalg.norm(down) <= RANK_FLOOR * np.linalg.norm(J) * np.linalg.norm(e):
            return np.zeros(len(down))  # only rounding errors remain
        with np.errstate(over="ignore"):
            return finite_step(e @ back / (back @ back) * reach * down / size)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        return StepSpec(method=Method.TRANSPOSE)


@dataclass(frozen=True)
class Pseudoinverse(BatchStep):
    """The shortest q̇ that minimizes ‖J q̇ - e‖:  q̇ = J⁺ e.

    The step is unbounded near singularities. Singular values that are zero to working precision are
    omitted.

    References:
        Buss 2009, section 4.
    """

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return gained(linearization, RANK_FLOOR, 0.0)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        return StepSpec(method=Method.PSEUDOINVERSE)


@dataclass(frozen=True)
class TruncatedSVD(BatchStep):
    """The pseudoinverse without the smallest singular values.

        TruncatedSVD(0.01)              omits singular values up to 0.01 times the largest
        TruncatedSVD(min_sigma=0.05)    omits singular values up to 0.05, in the units of J
        TruncatedSVD(rank=4)            keeps only the four largest singular values

    With a threshold or min_sigma, the step is bounded by ‖e‖/(threshold σ_1) or ‖e‖/min_sigma, but
    discontinuous where a singular value crosses the threshold. With a rank, the step is not
    bounded, and it is discontinuous where the last kept and the first omitted singular value are
    equal.

    Attributes:
        threshold: Fraction of the largest singular value, between 0 and 1; 0.01 by default, None
            if min_sigma or rank is given.
        min_sigma: Largest singular value that is omitted, above 0; None for no such bound.
        rank: Number of singular values that are kept, at least 1; None for all.

    References:
        Maciejewski & Klein 1988, eq. (13), for a rank; Wampler 1986, eq. (45), for min_sigma, and
        "Rank-Deficient or Near-Rank-Deficient Configurations" for the threshold.
    """

    threshold: float | None = None
    _: KW_ONLY
    min_sigma: float | None = None
    rank: int | None = None

    def __post_init__(self) -> None:
        given = {
            name: getattr(self, name)
            for name in ("threshold", "min_sigma", "rank")
            if getattr(self, name) is not None
        }
        if not given:
            object.__setattr__(self, "threshold", 0.01)
        if len(given) > 1:
            each = ", ".join(f"{name}={short_repr(value)}" for name, value in given.items())
            raise InputError(
                f"TruncatedSVD takes one of threshold, min_sigma and rank; given: {each}"
            )
        if self.threshold is not None:
            number_field(self, "threshold", above=0.0, below=1.0)
        if self.min_sigma is not None:
            number_field(self, "min_sigma", above=0.0)
        if self.rank is not None and (type(self.rank) is not int or self.rank < 1):
            raise InputError(
                "TruncatedSVD: rank must be a number of singular values, at least 1; "
                f"given: {short_repr(self.rank)}"
            )

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        relative = RANK_FLOOR if self.threshold is None else max(RANK_FLOOR, self.threshold)
        return gained(linearization, relative, 0.0, above=self.min_sigma or 0.0, rank=self.rank)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        if self.min_sigma is not None:
            return StepSpec(method=Method.TRUNCATED_BELOW, parameter=self.min_sigma)
        if self.rank is not None:
            return StepSpec(method=Method.TRUNCATED_RANK, parameter=float(self.rank))
        return StepSpec(method=Method.TRUNCATED, parameter=self.threshold or 0.0)


_RULE = "The damping rule is the first argument: supple.DLS(supple.damping.Constant(lambda2))."


@known_arguments(**dict.fromkeys(("damping", "lambda2", "lambda_", "lm_damping"), _RULE))
@dataclass(frozen=True, repr=False)
class DLS(Readable, BatchStep):
    """Damped least squares:  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e,  the minimizer of ‖J q̇ - e‖² + λ²‖q̇‖².

    Where λ² > 0, the step is bounded by ‖q̇‖ <= ‖e‖/(2λ) and continuous through singularities;
    where λ² = 0, it is the pseudoinverse.

    Attributes:
        rule: The damping rule, which chooses λ²: one of `supple.damping`, or a callable.
        method: The kernel's linear solver. "auto" computes singular values only if necessary.
            Singular values are not necessary for `Optimal`, `Constant`, `ErrorDamped` and
            `ErrorNorm`, nor for `SpeedBound`, `Region` and `Curvature` if a bound on the smallest
            singular value shows that J is not close to losing rank and that the rule does not damp.
            "svd" always computes singular values. "cholesky" factors the smaller of J Jᵀ + λ² I and
            JᵀJ + λ² I, even if this matrix is ill conditioned. "qr" factors the stacked matrix [J;
            λ I], which does not square the condition number. If the rule needs singular values,
            every method uses the SVD.

    References:
        Wampler 1986, eqs. (34)-(37), (48); Deo & Walker 1995, eq. (4); Buss 2009, section 5.
    """

    rule: DampingRule
    method: Literal["auto", "svd", "cholesky", "qr"] = "auto"

    def __post_init__(self) -> None:
        method: object = self.method
        if not isinstance(method, str) or method not in _SOLVERS:
            expected = f"one of {', '.join(map(repr, _SOLVERS))}"
            raise InputError(f"DLS: method must be {expected}; given: {short_repr(self.method)}")
        rule: object = self.rule
        if not callable(rule):
            given = f"given: {short_repr(rule)}"
            if isinstance(rule, Real):
                given += f". For constant damping, write DLS(damping.Constant({rule}))"
            raise InputError(f"DLS: rule must be a damping rule or a callable; {given}")

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        lambda2 = damping_of(self.rule, linearization)
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            W = self.rule.weight(linearization)
            linearization = Linearization(W @ linearization.J, W @ linearization.e)
        J, e = linearization.J, linearization.e
        m, n = J.shape
        if self.method in ("auto", "svd") or lambda2 == 0 or getattr(self.rule, "spectral", False):
            return gained(linearization, RANK_FLOOR, lambda2)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                if self.method == "qr":
                    Q, R = np.linalg.qr(np.vstack([J, math.sqrt(lambda2) * np.eye(n)]))
                    dq = np.linalg.solve(R, Q.T @ np.concatenate([e, np.zeros(n)]))
                elif m <= n:
                    dq = J.T @ np.linalg.solve(J @ J.T + lambda2 * np.eye(m), e)
                else:
                    dq = np.linalg.solve(J.T @ J + lambda2 * np.eye(n), J.T @ e)
        except np.linalg.LinAlgError:  # λ² is below the rounding errors of a singular J
            return gained(linearization, RANK_FLOOR, lambda2)
        return finite_step(dq)

    def lambda2(self, linearization: Linearization) -> Array:
        """Return the damping that the rule chooses: a number, or an array (...) for a batch."""
        if linearization.J.ndim > 2:
            return run_batch(self.kernel, linearization)[1]
        return np.asarray(damping_of(self.rule, linearization))

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        if not isinstance(self.rule, KernelRule):
            raise InputError(
                "a batch takes the rules of supple.damping; given: "
                f"{name_of(self.rule)}. CONTRIBUTING.md explains how to add a rule to the kernel"
            )
        spec = StepSpec(method=_SOLVERS[self.method], damping=self.rule.kernel)
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            return spec.replace(direction=self.rule.direction, min_weight=self.rule.min_weight)
        return spec


_SOLVERS = {
    "auto": Method.DAMPED_QUICK,
    "svd": Method.DAMPED_SVD,
    "cholesky": Method.DAMPED_CHOLESKY,
    "qr": Method.DAMPED_QR,
}
