"""Steps for several tasks: weighted, or in strict order of priority."""

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
from supple.motion.redundancy.secondary import check_callable, project_out
from supple.motion.steps.step import DLS, BatchStep, Step, kernel_of
from supple.motion.steps.weighted import WeightedDLS


@dataclass(frozen=True, eq=False)
class Augmented(BatchStep, ReadOnlyArrays):
    """Several tasks in one weighted sum.

        minimize Σ_k w_k ‖J_k q̇ - e_k‖² + λ²‖q̇‖²

    Continuous wherever λ² > 0, even where tasks conflict. With weights 1, w, w², …, w ≪ 1, and λ²
    below the smallest of them, it is a smooth form of `Priority`: a lower task causes an error of
    order w in a higher one.

    Attributes:
        rule: The damping rule, which chooses λ² from the stacked rows √w_k J_k and √w_k e_k.
        weights: One entry per task: a number, or one number per row; not negative.

    References:
        Seraji & Colbaugh 1990; Egeland et al. 1991; Deo & Walker 1995, eq. (19).
    """

    rule: DampingRule
    weights: Sequence[ArrayLike]

    def __post_init__(self) -> None:
        check_callable(self, "rule", self.rule)
        given: object = self.weights
        flat = isinstance(given, np.ndarray) and given.ndim == 0
        if flat or not isinstance(given, Sequence | np.ndarray) or len(given) == 0:
            raise InputError(
                f"Augmented: weights must be a sequence, one per task; given: {short_repr(given)}"
            )
        weights = tuple(numbers_of(weight, "Augmented: a weight") for weight in self.weights)
        if any(weight.ndim > 1 or (weight < 0).any() for weight in weights):
            what = "Augmented: weights must be numbers or vectors, not negative"
            raise InputError(f"{what}; given: {short_repr(given)}")
        object.__setattr__(self, "weights", weights)

    def __call__(self, linearizations: Sequence[Linearization]) -> Array:
        """Return q̇ (n,) for the linearizations of the tasks, in order."""
        levels = _levels(self, linearizations, len(self.weights))
        pairs = zip(levels, self.weights, strict=True)
        return DLS(self.rule)(stacked([_weighted(x, np.asarray(weight)) for x, weight in pairs]))

    def as_weighted(self, counts: Sequence[int]) -> WeightedDLS:
        """Return the same step for stacked tasks, which have `counts` rows."""
        if len(self.weights) != len(counts):
            given = f"{len(self.weights)} weights for {len(counts)} tasks"
            raise InputError(f"Augmented: weights must be one per task; given: {given}")
        each = [
            np.full(rows, weight) if np.ndim(weight) == 0 else np.asarray(weight)
            for weight, rows in zip(self.weights, counts, strict=True)
        ]
        if [len(one) for one in each] != list(counts):
            given = f"{short_repr(self.weights)} for tasks of {tuple(counts)} rows"
            raise InputError(
                f"Augmented: a weight must be a number, or one per row; given: {given}"
            )
        return WeightedDLS(self.rule, np.concatenate(each))


@dataclass(frozen=True, eq=False)
class Priority:
    """Several tasks in strict order: each acts in the null space of those before it.

        q̇_k = q̇_(k-1) + N_(k-1) step(J_k N_(k-1), e_k - J_k q̇_(k-1))          q̇_0 = 0, N_0 = I

    N_k projects onto the null space of the tasks up to k, by an orthonormal basis of all their
    rows. J_i q̇ of a task i is therefore, to rounding, independent of all tasks below it, even where
    the task is damped, singular or in conflict with others. Where tasks conflict, the projected J
    of the lower one is singular as well (an algorithmic singularity); a damped step stays bounded.

    Continuous while ranks are constant. Where a J_k N_(k-1) loses rank, to working precision, a
    direction becomes free for the tasks below and q̇ jumps; `Augmented` is the smooth form.
    A criterion can be the last task: J = I, e = -gain ∇h.

    Attributes:
        steps: One step for all tasks, or one per task. Rules that compare with the previous step
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
                f"Priority: steps must be a step or a sequence of steps; given: {short_repr(given)}"
            )

    def __call__(self, linearizations: Sequence[Linearization]) -> Array:
        """Return q̇ (n,) for the linearizations of the tasks, the highest priority first."""
        count = None if callable(self.steps) else len(self.steps)
        levels = _levels(self, linearizations, count)
        n = levels[0].J.shape[1]
        dq, taken = np.zeros(n), np.zeros((0, n))  # taken: orthonormal basis of the rows so far
        for k, level in enumerate(levels):
            step = self.steps if callable(self.steps) else self.steps[k]
            left = project_out(taken, level.J)
            _, sigma, right = np.linalg.svd(left, full_matrices=False)
            # A row in their span leaves only rounding noise, relative to J, after projection.
            some = sigma > max(RANK_FLOOR * max(left.shape) * np.linalg.norm(level.J), TINY)
            if k > 0:
                left = left @ right[some].T @ right[some]
                level = replace(level, J=left, e=level.e - level.J @ dq, before=None)
            dq = dq + project_out(taken, step(level))
            for row in right[some]:
                new = project_out(taken, row)
                size = float(np.linalg.norm(new))
                if size > 0.5:  # otherwise rounding noise
                    taken = np.vstack([taken, new / size])
        return dq

    def kernels(self, count: int) -> tuple[StepSpec, ...]:
        """Return the steps of `count` tasks for the compiled code."""
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
        raise InputError(
            f"{name} takes a sequence of linearizations, one per task; given: {short_repr(given)}"
        )
    if not given or (count is not None and len(given) != count):
        many = "at least one linearization" if count is None else f"{count} linearizations"
        raise InputError(f"{name} takes {many}; given: {len(given)}")
    for one in linearizations:
        one.single()
    columns = {x.J.shape[1] for x in linearizations}
    if len(columns) > 1:
        raise InputError(f"{name}: every J must have the same columns; given: {sorted(columns)}")
    return linearizations
