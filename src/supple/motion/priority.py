"""Several tasks at once: weighted against each other, or strictly one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from supple._core import StepSpec
from supple.errors import InputError, short_repr
from supple.kinematics.arrays import ReadOnlyArrays
from supple.motion.damping import DampingRule
from supple.motion.linearization import (
    RANK_FLOOR,
    TINY,
    Array,
    Linearization,
    numbers_of,
    stacked,
)
from supple.motion.redundancy import a_callable, beside
from supple.motion.step import DLS, Step, kernel_of


@dataclass(frozen=True, eq=False)
class Augmented(ReadOnlyArrays):
    """Several tasks as one, weighted.

        minimise Σ_k w_k ‖J_k q̇ - e_k‖² + λ²‖q̇‖²

    Continuous wherever λ² > 0, also where tasks get in each other's way. With weights 1, w, w², …
    and λ² < the least of them, w ≪ 1, it is a smooth form of `Priority`: a lower task costs a
    higher one an error of order w.

    Attributes:
        rule: Chooses λ², from the stacked rows √w_k J_k and √w_k e_k.
        weights: One for each task: a number, or one for each of its rows; not negative.

    References:
        Seraji & Colbaugh 1990; Egeland et al. 1991; Deo & Walker 1995, eq. (19).
    """

    rule: DampingRule
    weights: Sequence[ArrayLike]

    def __post_init__(self) -> None:
        a_callable(self, "rule", self.rule)
        given: object = self.weights
        flat = isinstance(given, np.ndarray) and given.ndim == 0
        if flat or not isinstance(given, Sequence | np.ndarray) or len(given) == 0:
            raise InputError(
                f"Augmented: weights must be one for each task; given: {short_repr(given)}"
            )
        weights = tuple(numbers_of(weight, "Augmented: a weight") for weight in self.weights)
        if any(weight.ndim > 1 or (weight < 0).any() for weight in weights):
            what = "Augmented: weights must be numbers or vectors, not negative"
            raise InputError(f"{what}; given: {short_repr(given)}")
        object.__setattr__(self, "weights", weights)

    def __call__(self, linearizations: Sequence[Linearization]) -> Array:
        """Return q̇ (n,) for one linearization of each task."""
        levels = _levels(self, linearizations, len(self.weights))
        pairs = zip(levels, self.weights, strict=True)
        return DLS(self.rule)(stacked([_weighted(x, np.asarray(weight)) for x, weight in pairs]))


@dataclass(frozen=True, eq=False)
class Priority:
    """Several tasks, each as far as it does not disturb those before it.

        q̇_k = q̇_(k-1) + N_(k-1) step(J_k N_(k-1), e_k - J_k q̇_(k-1))          q̇_0 = 0, N_0 = I

    N_k projects onto what changes none of the tasks up to k: from an orthonormal basis of all their
    rows, so that J_i q̇ of a task i is what it was, to rounding, whatever comes below it, also where
    the task is itself damped, singular, or in conflict with others. What is left of a lower J where
    tasks conflict is singular too (algorithmic singularities): a damped step keeps that bounded.

    Continuous while ranks stay the same. Where a J_k N_(k-1) loses rank, to working precision, a
    direction is set free for the tasks below, and q̇ jumps; `Augmented` is the smooth form.
    A criterion can be the last task: J = I, e = -gain ∇h.

    Attributes:
        steps: One step for all tasks, or one for each. Rules that compare with the step before
            find one for the first task only.

    References:
        Nakamura, Hanafusa & Yoshikawa 1987; Siciliano & Slotine 1991; Baerlocher & Boulic 2004.
    """

    steps: Step | Sequence[Step]

    def __post_init__(self) -> None:
        given: object = self.steps
        several = tuple(given) if isinstance(given, Sequence) else ()
        if several and all(callable(step) for step in several):
            object.__setattr__(self, "steps", several)
        elif not callable(given):
            raise InputError(
                f"Priority: steps must be a step, or several; given: {short_repr(given)}"
            )

    def __call__(self, linearizations: Sequence[Linearization]) -> Array:
        """Return q̇ (n,) for linearizations of the tasks, the most important first."""
        count = None if callable(self.steps) else len(self.steps)
        levels = _levels(self, linearizations, count)
        n = levels[0].J.shape[1]
        dq, taken = np.zeros(n), np.zeros((0, n))  # taken: orthonormal rows
        for k, level in enumerate(levels):
            step = self.steps if callable(self.steps) else self.steps[k]
            left = beside(taken, level.J)
            _, sigma, right = np.linalg.svd(left, full_matrices=False)
            # What projecting has left of a row that is taken is noise, relative to the whole J.
            some = sigma > max(RANK_FLOOR * max(left.shape) * np.linalg.norm(level.J), TINY)
            if k > 0:
                left = left @ right[some].T @ right[some]
                level = replace(level, J=left, e=level.e - level.J @ dq, before=None)
            dq = dq + beside(taken, step(level))
            for row in right[some]:
                new = beside(taken, row)
                size = float(np.linalg.norm(new))
                if size > 0.5:  # else noise after all
                    taken = np.vstack([taken, new / size])
        return dq

    def kernels(self, count: int) -> tuple[StepSpec, ...]:
        """The steps of `count` tasks as the compiled code takes them."""
        steps = [self.steps] * count if callable(self.steps) else self.steps
        return tuple(kernel_of(step) for step in steps)


def _weighted(linearization: Linearization, weight: Array) -> Linearization:
    rows = linearization.e.shape
    if weight.shape not in ((), rows):
        raise InputError(f"Augmented: a weight must be a number or {rows}; given: {weight.shape}")
    root = np.broadcast_to(np.sqrt(weight), rows)
    before = linearization.before
    return replace(
        linearization,
        J=root[:, None] * linearization.J,
        e=root * linearization.e,
        before=None if before is None else _weighted(before, weight),
    )


def _levels(
    owner: object, linearizations: Sequence[Linearization], count: int | None
) -> Sequence[Linearization]:
    name = type(owner).__name__
    given: object = linearizations
    if not isinstance(given, Sequence) or not all(isinstance(x, Linearization) for x in given):
        raise InputError(f"{name}: takes a sequence of linearizations; given: {short_repr(given)}")
    if not given or (count is not None and len(given) != count):
        many = "at least one" if count is None else count
        raise InputError(f"{name}: takes {many} linearizations; given: {len(given)}")
    columns = {x.J.shape[1] for x in linearizations}
    if len(columns) > 1:
        raise InputError(f"{name}: every J must have the same columns; given: {sorted(columns)}")
    return linearizations
