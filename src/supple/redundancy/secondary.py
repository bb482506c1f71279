"""Steps that use redundancy: they perform a task and also decrease a criterion h(q).

The secondary velocity is v = -gain ∇h, with a criterion of `supple.criteria` or any callable
q -> ∇h. The linearization must contain q. `explain` reports the leakage of v into the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from supple import _core
from supple._arrays.checks import ReadOnlyArrays, number_field
from supple._core import SecondarySpec
from supple.criteria.criterion import Criterion
from supple.damping import Constant, DampingRule, Optimal, Region
from supple.errors import InputError, short_repr
from supple.motion.linearization import (
    EPSILON,
    TINY,
    Array,
    Linearization,
    numbers_of,
)
from supple.motion.readable import Readable
from supple.steps.basic import DLS, Pseudoinverse
from supple.steps.step import Step, damping_of, kernel_of


@dataclass(frozen=True, repr=False)
class NullSpace(Readable):
    """A step, plus the velocity of a criterion projected onto the null space of the task.

        q̇ = step + (I - J⁺J) v        v = -gain ∇h

    The projector is exact: only directions whose singular value is zero to working precision are
    free. It therefore jumps where J loses rank, and v is not damped.

    Attributes:
        step: The step for the task.
        criterion: Function that returns the gradient of an objective h, q -> ∇h (n,).
        gain: Factor of the gradient, not negative.

    References:
        Liégeois 1977; Wampler 1986, eq. (33); Deo & Walker 1995, eq. (20); Buss 2009, eq. (7).
    """

    step: Step
    criterion: Criterion
    gain: float = 1.0

    def __post_init__(self) -> None:
        check_callable(self, "step", self.step)
        _check(self, self.criterion)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return self.step(linearization) + _free(linearization, _secondary(self, linearization))

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        return SecondarySpec(form=_core.Secondary.NULL_SPACE, step=kernel_of(self.step))


@dataclass(frozen=True, repr=False)
class GradientProjection(Readable):
    """The damped step, plus the velocity of a criterion in the damped null space.

        q̇ = J*e + (I - J*J) v                    without alpha1        v = -gain ∇h
        q̇ = J*e + α1²/λ² (I - J*J) v             with alpha1           J* = Jᵀ(J Jᵀ + λ² I)⁻¹

    The damped projector I - J*J is not exact, so v leaks into the task. With alpha1, q̇ minimizes
    ‖J q̇ - e‖² + α1²‖q̇ - v‖² + (λ² - α1²)‖q̇‖². If λ² of the rule is less than α1², the step uses
    α1² instead, so that λ² - α1² is not negative. Without alpha1, the projector tends to the exact
    projector I - J⁺J as λ² -> 0.

    Attributes:
        rule: The damping rule, which chooses λ².
        criterion: Function that returns the gradient of an objective h, q -> ∇h (n,).
        gain: Factor of the gradient, not negative.
        alpha1: α1 > 0, in the units of singular values; None for the form without it.

    References:
        Deo & Walker 1995, eqs. (23), with alpha1, and (24), without; Mayorga, Ma & Wong 1992.
    """

    rule: DampingRule
    criterion: Criterion
    gain: float = 1.0
    alpha1: float | None = None

    def __post_init__(self) -> None:
        check_callable(self, "rule", self.rule)
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            raise InputError(
                f"GradientProjection: a Region must not have a direction; given: {self.rule}"
            )
        _check(self, self.criterion)
        if self.alpha1 is not None:
            number_field(self, "alpha1", above=0.0)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        lambda2, share = damping_of(self.rule, linearization), 1.0
        if self.alpha1 is not None:
            lambda2 = max(lambda2, self.alpha1**2)
            share = self.alpha1**2 / lambda2
        task = DLS(Constant(lambda2))(linearization)
        return task + share * _free(linearization, _secondary(self, linearization), lambda2)

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        step = DLS(self.rule).kernel
        if self.alpha1 is None:
            return SecondarySpec(form=_core.Secondary.PROJECTION, step=step)
        form = _core.Secondary.WEIGHTED_PROJECTION
        return SecondarySpec(form=form, step=step, alpha1=self.alpha1)


@dataclass(frozen=True, repr=False)
class WeightedCriterion(Readable, ReadOnlyArrays):
    """A step that balances the task, the velocity of a criterion, and the joint speed by weights.

        q̇ = (JᵀJ + α1² I + α2² A)⁻¹ (Jᵀe + α1² v)                    v = -gain ∇h

    This minimizes  ‖J q̇ - e‖² + α1²‖q̇ - v‖² + α2² q̇ᵀA q̇.  The step is computed from the stacked
    matrix, which does not square the condition number.

    Attributes:
        alpha1: Weight of the criterion, not negative, in the units of singular values.
        alpha2: Weight of the speed, not negative, in the units of singular values. alpha1 or alpha2
            must be above zero.
        criterion: Function that returns the gradient of an objective h, q -> ∇h (n,).
        gain: Factor of the gradient, not negative.
        A: A symmetric positive definite matrix (n, n); the identity if None.

    References:
        Wampler 1986, eqs. (38) and (39); in (39) the square of α1 in front of v is not printed.
    """

    alpha1: float
    alpha2: float
    criterion: Criterion
    gain: float = 1.0
    A: Array | None = None

    def __post_init__(self) -> None:
        number_field(self, "alpha1", least=0.0)
        number_field(self, "alpha2", least=0.0)
        if self.alpha1 == self.alpha2 == 0:
            raise InputError("WeightedCriterion: alpha1 or alpha2 must be above 0; given: 0 and 0")
        _check(self, self.criterion)
        if self.A is not None:
            A = numbers_of(self.A, "WeightedCriterion: A")
            square = A.ndim == 2 and A.shape[0] == A.shape[1] and np.allclose(A, A.T, 1e-12, 0)
            if not square or np.linalg.eigvalsh(A)[0] <= 0:
                given = short_repr(self.A)
                raise InputError(
                    f"WeightedCriterion: A must be symmetric positive definite; given: {given}"
                )
            object.__setattr__(self, "A", A)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        e, v = linearization.e, _secondary(self, linearization)
        right = np.concatenate([e, self.alpha1 * v, np.zeros(len(v))])
        return Pseudoinverse()(Linearization(self.norm(linearization), right))

    def norm(self, linearization: Linearization, lambda2: float = 0.0) -> Array:
        """Return M = [J; α1 I; α2 A^½] (m + 2n, n): the step minimizes ‖M q̇ - [e; α1 v; 0]‖."""
        n = linearization.J.shape[1]
        if self.A is not None and len(self.A) != n:
            raise InputError(f"WeightedCriterion: A must be ({n}, {n}); given: {self.A.shape}")
        root = np.eye(n) if self.A is None else np.linalg.cholesky(self.A).T
        return np.vstack([linearization.J, self.alpha1 * np.eye(n), self.alpha2 * root])

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        if self.A is not None:
            raise InputError("WeightedCriterion with A runs only in Python, not in the kernel")
        step = DLS(Constant(self.alpha1**2 + self.alpha2**2)).kernel
        form = _core.Secondary.WEIGHTED_PROJECTION
        return SecondarySpec(form=form, step=step, alpha1=self.alpha1)


@dataclass(frozen=True, repr=False)
class TotalSpeed(Readable):
    """A step for the task and a criterion together, within one bound:  ‖q̇‖ <= max_speed.

        minimize ‖J q̇ - e‖² + α1²‖q̇ - v‖²  within the bound                   v = -gain ∇h
        q̇ = (JᵀJ + λ² I)⁻¹ (Jᵀe + α1² v) = J*e + α1²/λ² (I - J*J) v

    with the damped inverse J* = (JᵀJ + λ² I)⁻¹Jᵀ. λ² = α1² if the resulting q̇ obeys the bound;
    otherwise λ² > α1² is the root of ‖q̇‖ = max_speed. The norm
    ‖q̇‖² = Σ (σγ + α1²b)²/(σ² + λ²)² + α1⁴‖b_0‖²/λ⁴ decreases as λ² grows; γ = Uᵀe, and b and b_0
    are the components of v inside and outside the row space of J. The problem is strictly convex:
    q̇ is continuous in J, e and v everywhere. The criterion leaks into the task
    (`null_space_leakage`), less for smaller α1.

    `switch` gives the paper's form: the exact null space (`NullSpace` of the pseudoinverse) if its
    q̇ obeys the bound, else the root λ² > 0. This form does not leak where ‖q̇‖ is below the bound,
    but q̇ jumps where the bound is reached, because the formulas of the two cases differ there.

    Attributes:
        max_speed: Bound on the norm of q̇ [rad/s and m/s mixed].
        criterion: Function that returns the gradient of an objective h, q -> ∇h (n,).
        gain: Factor of the gradient, not negative.
        alpha1: α1 > 0, in the units of singular values.
        switch: Whether to use the paper's form, which is discontinuous.

    References:
        Deo & Walker 1995, section 4.1, eqs. (25)-(29). λ² here stands for λ in the paper; the
        signs, and the factor α1² · gain of ∇h, are corrected.
    """

    max_speed: float
    criterion: Criterion
    gain: float = 1.0
    alpha1: float = 0.1
    switch: bool = False

    def __post_init__(self) -> None:
        number_field(self, "max_speed", above=0.0)
        _check(self, self.criterion)
        number_field(self, "alpha1", above=0.0)
        if not isinstance(self.switch, bool):
            raise InputError(f"TotalSpeed: switch must be True or False; given: {self.switch!r}")

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return self.solve(linearization)[0]

    def solve(self, linearization: Linearization) -> tuple[Array, float, int]:
        """Return q̇ (n,), λ² and the number of Newton iterations.

        λ² is 0 where the form with `switch` uses the exact null space.
        """
        J, e = linearization.J, linearization.e
        v = _secondary(self, linearization)
        pull = self.alpha1**2 * v
        least = self.alpha1**2
        if self.switch:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # a step that overflows exceeds the bound
                plain = Pseudoinverse()(linearization) + _free(linearization, v)
            if np.isfinite(plain).all() and _size(plain) <= (1 - 32 * EPSILON) * self.max_speed:
                return plain, 0.0, 0
            # The part of v in the null space alone bounds λ² from below; above this bound, nothing
            # overflows.
            free = _size(_free(linearization, pull))
            floor = EPSILON**2 * _size(J.T @ e + pull)
            least = max(free, floor) / self.max_speed
            if least < TINY:
                return np.zeros_like(v), 0.0, 0
        # This problem is the optimally damped step of one stacked task.
        root = math.sqrt(least)
        both = Linearization(
            np.vstack([J, root * np.eye(len(v))]), np.concatenate([e, pull / root])
        )
        more, iterations = Optimal(self.max_speed).solve(both)
        return DLS(Constant(more))(both), least + more, iterations

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        form = _core.Secondary.TOTAL_SPEED_SWITCHED if self.switch else _core.Secondary.TOTAL_SPEED
        step = DLS(Constant(0.0)).kernel
        return SecondarySpec(form=form, step=step, alpha1=self.alpha1, max_speed=self.max_speed)


Secondary: TypeAlias = NullSpace | GradientProjection | WeightedCriterion | TotalSpeed
WITH_CRITERION = (NullSpace, GradientProjection, WeightedCriterion, TotalSpeed)


def added(step: Secondary, linearization: Linearization) -> Array:
    """Return the criterion's contribution to q̇ (n,): q̇ minus q̇ with gain 0."""
    return step(linearization) - replace(step, gain=0.0)(linearization)


def project_out(rows: Array, x: Array) -> Array:
    """Project x (..., n) onto the complement of orthonormal rows (r, n).

    The projection is done twice: the second pass removes the rounding errors of the first.
    """
    for _ in range(2):
        x = x - (x @ rows.T) @ rows
    return x


def _free(linearization: Linearization, v: Array, lambda2: float = 0.0) -> Array:
    """Return (I - J*J) v, or (I - J⁺J) v if λ² = 0."""
    rank = linearization.rank
    right, sigma = linearization.V[:, :rank].T, linearization.sigma[:rank]
    free = project_out(right, v)
    if lambda2 > 0:
        free = free + lambda2 / (sigma**2 + lambda2) * (right @ v) @ right
    return free


def _size(x: Array) -> float:
    """Return ‖x‖, without overflow of squares."""
    largest = float(np.abs(x).max())
    return largest * float(np.linalg.norm(x / largest)) if largest > 0 else 0.0


def secondary_velocity(step: Secondary, n: int) -> Callable[[Array], Array]:
    """Return the function q (nq,) -> v = -gain ∇h (n,), which checks the gradient."""

    def velocity(q: Array) -> Array:
        gradient = numbers_of(step.criterion(q), "the gradient of a criterion")
        if gradient.shape != (n,):
            raise InputError(
                f"a criterion must return a gradient of shape {(n,)}; given: {gradient.shape} "
                f"from {short_repr(step.criterion)}"
            )
        return -step.gain * gradient

    return velocity


def _secondary(step: Secondary, linearization: Linearization) -> Array:
    q = linearization.single().q
    if q is None:
        raise InputError(
            f"{type(step).__name__}: the linearization must contain q; given: q = None"
        )
    return secondary_velocity(step, linearization.J.shape[-1])(q)


def _check(owner: object, criterion: object) -> None:
    check_callable(owner, "criterion", criterion)
    number_field(owner, "gain", least=0.0)


def check_callable(owner: object, name: str, value: object) -> None:
    """Raise an error if a field is not callable."""
    if not callable(value):
        raise InputError(
            f"{type(owner).__name__}: {name} must be callable; given: {short_repr(value)}"
        )
