"""Using the freedom that a task leaves: steps around a step.

`NullSpace`, `GradientProjection`, `Wampler` and `TotalSpeed` are steps that also decrease a
criterion h(q) (`supple.motion.criteria`, or any callable q -> ∇h): they go along v = -gain ∇h as
far as each allows, and need linearizations that know their q. `explain` tells what leaks.
`Augmented` and `Priority` (`supple.motion.priority`) are called with several linearizations.

| step | what the criterion does to the task | continuous through singularities |
|---|---|---|
| `NullSpace` | nothing | no: a direction is set free where rank is lost |
| `GradientProjection` | leaks, in directions with σ near λ and below | where λ² > 0 |
| `Wampler`, `TotalSpeed` | leaks likewise | yes |
| `Augmented` | all tasks share the error, by their weights | where λ² > 0 |
| `Priority` | nothing, for each task from those below it | no, as `NullSpace` |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from supple import _core
from supple._core import SecondarySpec
from supple.errors import InputError, short_repr
from supple.kinematics.arrays import ReadOnlyArrays, number_field
from supple.motion.criteria import Criterion
from supple.motion.damping import Constant, DampingRule, Optimal, Region
from supple.motion.linearization import (
    EPSILON,
    TINY,
    Array,
    Linearization,
    numbers_of,
)
from supple.motion.step import DLS, Pseudoinverse, Step, damping_of, kernel_of


@dataclass(frozen=True)
class NullSpace:
    """A step, and the criterion as far as the task does not feel it.

        q̇ = step + (I - J⁺J) v        v = -gain ∇h

    The projector is exact: singular values that are zero to working precision are, all others are
    not. So it jumps where rank is lost: v is not damped in a direction that is all but free.

    Attributes:
        step: Does the task: any step.
        criterion: q -> ∇h (n,).
        gain: Not negative.

    References:
        Liégeois 1977; Wampler 1986, eq. (33); Deo & Walker 1995, eq. (20); Buss 2009, eq. (7).
    """

    step: Step
    criterion: Criterion
    gain: float = 1.0

    def __post_init__(self) -> None:
        a_callable(self, "step", self.step)
        _check(self, self.criterion)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return self.step(linearization) + _free(linearization, _pull(self, linearization))

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        return SecondarySpec(form=_core.Secondary.NULL_SPACE, step=kernel_of(self.step))


@dataclass(frozen=True)
class GradientProjection:
    """The damped step, and the criterion through the damped projector, which leaks into the task.

        q̇ = J*e + (I - J*J) v                    without alpha1        v = -gain ∇h
        q̇ = J*e + α1²/λ² (I - J*J) v             with alpha1           J* = Jᵀ(J Jᵀ + λ² I)⁻¹

    With alpha1 this is the minimiser of ‖J q̇ - e‖² + α1²‖q̇ - v‖² + (λ² - α1²)‖q̇‖², so λ² is the
    rule's, but at least α1². Without, it tends to the exact null space as λ² -> 0.

    Attributes:
        rule: Chooses λ².
        criterion: q -> ∇h (n,).
        gain: Not negative.
        alpha1: α1 > 0, in the units of singular values; None for the form without.

    References:
        Deo & Walker 1995, eqs. (23), with alpha1, and (24), without; Mayorga, Ma & Wong 1992.
    """

    rule: DampingRule
    criterion: Criterion
    gain: float = 1.0
    alpha1: float | None = None

    def __post_init__(self) -> None:
        a_callable(self, "rule", self.rule)
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            raise InputError("GradientProjection: takes Region without a direction")
        _check(self, self.criterion)
        if self.alpha1 is not None:
            number_field(self, "alpha1", above=0.0)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        lambda2, share = damping_of(self.rule, linearization), 1.0
        if self.alpha1 is not None:
            lambda2 = max(lambda2, self.alpha1**2)
            share = self.alpha1**2 / lambda2
        task = DLS(Constant(lambda2))(linearization)
        return task + share * _free(linearization, _pull(self, linearization), lambda2)

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        step = DLS(self.rule).kernel
        if self.alpha1 is None:
            return SecondarySpec(form=_core.Secondary.PROJECTION, step=step)
        form = _core.Secondary.WEIGHTED_PROJECTION
        return SecondarySpec(form=form, step=step, alpha1=self.alpha1)


@dataclass(frozen=True)
class Wampler(ReadOnlyArrays):
    """The task, the criterion and small speeds, weighted against each other.

        q̇ = (JᵀJ + α1² I + α2² A)⁻¹ (Jᵀe + α1² v)                    v = -gain ∇h

    the minimiser of  ‖J q̇ - e‖² + α1²‖q̇ - v‖² + α2² q̇ᵀA q̇,  found from the stacked matrix, which
    does not square the condition number.

    Attributes:
        alpha1, alpha2: Not negative and not both zero, in the units of singular values.
        criterion: q -> ∇h (n,).
        gain: Not negative.
        A: Symmetric, positive definite (n, n); the identity if left out.

    References:
        Wampler 1986, eqs. (38) and (39), where the square of α1 in front of v is not printed.
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
            raise InputError("Wampler: alpha1 or alpha2 must be above 0; given: 0 and 0")
        _check(self, self.criterion)
        if self.A is not None:
            A = numbers_of(self.A, "Wampler: A")
            square = A.ndim == 2 and A.shape[0] == A.shape[1] and np.allclose(A, A.T, 1e-12, 0)
            if not square or np.linalg.eigvalsh(A)[0] <= 0:
                given = short_repr(self.A)
                raise InputError(f"Wampler: A must be symmetric, positive definite; given: {given}")
            object.__setattr__(self, "A", A)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        J, e = linearization.J, linearization.e
        v = _pull(self, linearization)
        n = len(v)
        if self.A is not None and len(self.A) != n:
            raise InputError(f"Wampler: A must be ({n}, {n}); given: {self.A.shape}")
        root = np.eye(n) if self.A is None else np.linalg.cholesky(self.A).T
        rows = np.vstack([J, self.alpha1 * np.eye(n), self.alpha2 * root])
        right = np.concatenate([e, self.alpha1 * v, np.zeros(n)])
        return Pseudoinverse()(Linearization(rows, right))

    @property
    def kernel(self) -> SecondarySpec:  # noqa: D102
        if self.A is not None:
            raise InputError("the kernel takes Wampler's step with A left out")
        step = DLS(Constant(self.alpha1**2 + self.alpha2**2)).kernel
        form = _core.Secondary.WEIGHTED_PROJECTION
        return SecondarySpec(form=form, step=step, alpha1=self.alpha1)


@dataclass(frozen=True)
class TotalSpeed:
    """The task and the criterion together within a bound:  ‖q̇‖ <= max_speed,  strictly.

        minimise ‖J q̇ - e‖² + α1²‖q̇ - v‖²  within the bound                   v = -gain ∇h
        q̇ = (JᵀJ + λ² I)⁻¹ (Jᵀe + α1² v) = J*e + α1²/λ² (I - J*J) v

    λ² = α1² where that obeys, else the root of ‖q̇‖ = max_speed above it:  ‖q̇‖² =
    Σ (σγ + α1²b)²/(σ² + λ²)² + α1⁴‖b_0‖²/λ⁴, b and b_0 the components of v in and beside the rows
    of J, falls as λ² grows. The problem is strictly convex: q̇ is continuous in J, e and v
    everywhere. It leaks (`leak`), the less the smaller α1 is. With `switch` it is as the paper has
    it: the exact null space (`NullSpace` of the pseudoinverse) while that obeys, else the root
    anywhere above 0. That has no leak away from the bound, and jumps where it is met: the two forms
    do not tend to each other.

    Attributes:
        max_speed: The bound on the norm of q̇ [rad/s and m/s mixed].
        criterion: q -> ∇h (n,).
        gain: Not negative.
        alpha1: α1 > 0, in the units of singular values.
        switch: The paper's form, which jumps.

    References:
        Deo & Walker 1995, section 4.1, eqs. (25)-(29), whose λ is λ² here, with the signs and the
        factor α1² gain of ∇h put right.
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
        """Return q̇ (n,), λ² and the number of Newton steps it took.

        λ² is 0 for the exact null space of the form with `switch`.
        """
        J, e = linearization.J, linearization.e
        v = _pull(self, linearization)
        pull = self.alpha1**2 * v
        least = self.alpha1**2
        if self.switch:
            with np.errstate(over="ignore", invalid="ignore"):  # then it does not obey
                plain = Pseudoinverse()(linearization) + _free(linearization, v)
            if np.isfinite(plain).all() and _size(plain) <= (1 - 32 * EPSILON) * self.max_speed:
                return plain, 0.0, 0
            # λ² is at least what the free part alone asks for: from there on all is finite.
            free = _size(_free(linearization, pull))
            floor = EPSILON**2 * _size(J.T @ e + pull)
            least = max(free, floor) / self.max_speed
            if least < TINY:
                return np.zeros_like(v), 0.0, 0
        # The same as the bounded damped step of one stacked task.
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


Secondary: TypeAlias = NullSpace | GradientProjection | Wampler | TotalSpeed
WITH_CRITERION = (NullSpace, GradientProjection, Wampler, TotalSpeed)


def added(step: Secondary, linearization: Linearization) -> Array:
    """What the criterion adds to the motion (n,):  q̇ - q̇ with gain 0.  What leaks is J times it."""
    return step(linearization) - replace(step, gain=0.0)(linearization)


def beside(rows: Array, x: Array) -> Array:
    """What is left of x (..., n) beside orthonormal rows (r, n); twice, for what rounding left."""
    for _ in range(2):
        x = x - (x @ rows.T) @ rows
    return x


def _free(linearization: Linearization, v: Array, lambda2: float = 0.0) -> Array:
    """(I - J*J) v,  or (I - J⁺J) v if λ² = 0: what J does not feel of v."""
    rank = linearization.rank
    right, sigma = linearization.V[:, :rank].T, linearization.sigma[:rank]
    free = beside(right, v)
    if lambda2 > 0:
        free = free + lambda2 / (sigma**2 + lambda2) * (right @ v) @ right
    return free


def _size(x: Array) -> float:
    """The norm, of which no square overflows."""
    largest = float(np.abs(x).max())
    return largest * float(np.linalg.norm(x / largest)) if largest > 0 else 0.0


def pull_at(step: Secondary) -> Callable[[Array], Array]:
    """What makes v = -gain ∇h (n,) of q (n,), checked: a criterion may be a user's own."""

    def pull(q: Array) -> Array:
        gradient = numbers_of(step.criterion(q), "a criterion's gradient")
        if gradient.shape != q.shape:
            raise InputError(
                f"a criterion must return a gradient {q.shape}; given: {gradient.shape} "
                f"by {short_repr(step.criterion)}"
            )
        return -step.gain * gradient

    return pull


def _pull(step: Secondary, linearization: Linearization) -> Array:
    if linearization.q is None:
        raise InputError(
            f"{type(step).__name__}: the linearization must know its q; given: q = None"
        )
    return pull_at(step)(linearization.q)


def _check(owner: object, criterion: object) -> None:
    a_callable(owner, "criterion", criterion)
    number_field(owner, "gain", least=0.0)


def a_callable(owner: object, name: str, value: object) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise InputError(
            f"{type(owner).__name__}: {name} must be callable; given: {short_repr(value)}"
        )
