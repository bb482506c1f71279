"""Damping rule, damping, minimized norm and losses of a step, or of the step that it wraps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supple._core import PRIORITY_WEIGHT, WEIGHTED_RIDGE
from supple.damping import DampingRule
from supple.motion.linearization import EPSILON, RANK_FLOOR, TINY, Array, Linearization
from supple.redundancy.priority import Augmented, Priority
from supple.redundancy.secondary import GradientProjection, NullSpace, WeightedCriterion
from supple.steps.clamp import AdaptiveErrorClamp, AngleClamp, ErrorClamp
from supple.steps.stateful import StatefulStep
from supple.steps.step import damping_of
from supple.steps.weighted import WeightedDLS

GIVEN_UP = 1e-6  # fraction of the task below which a loss counts as rounding
ROUNDING = 1e4  # rounding error of J q̇ relative to ‖J‖ ‖q̇‖, in units of the machine epsilon


def damping_inside(step: object, lin: Linearization) -> tuple[DampingRule | None, Linearization]:
    """Return the damping rule of a step, or of the step it wraps, and the input of that rule.

    For a step with memory, the input is the linearization of its last call.
    """
    if isinstance(step, ErrorClamp):
        return damping_inside(step.step, step.clamped(lin))
    if isinstance(step, StatefulStep):
        inner, used = step.inner, step.used
        if isinstance(inner, AdaptiveErrorClamp) and used is not None:
            before = used[0] if isinstance(used, tuple) else used
            return damping_inside(inner.inner, inner.clamped(lin, before))
        return None, lin  # λ² depends on more than one linearization
    if isinstance(step, Priority | Augmented):
        return None, lin
    if isinstance(step, WeightedDLS):
        return step.rule, step.scaled(lin)
    inside, rule = getattr(step, "step", None), getattr(step, "rule", None)
    if rule is None and callable(inside):
        return damping_inside(inside, lin)
    return (rule if callable(rule) else None), lin


def damping_used(step: object, lin: Linearization) -> float:
    """Return λ² of a step, or of the step it wraps; 0 if there is no damping."""
    if isinstance(step, AngleClamp):
        return damping_used(step.step, lin)
    if isinstance(step, ErrorClamp):
        return damping_used(step.step, step.clamped(lin))
    if isinstance(step, WeightedCriterion):
        return step.alpha1**2 + step.alpha2**2
    estimates = getattr(getattr(step, "inner", None), "estimates", None)
    if isinstance(step, StatefulStep) and callable(estimates):
        return 0.0 if step.used is None else float(estimates(lin, step.used).lambda2)
    rule, seen = damping_inside(step, lin)
    lambda2 = 0.0 if rule is None else damping_of(rule, seen)
    if isinstance(step, GradientProjection) and step.alpha1 is not None:
        return max(lambda2, step.alpha1**2)
    return lambda2


def minimized_norm(step: object, lin: Linearization, lambda2: float) -> Array | None:
    """Return a matrix A (n, n) such that a step minimizes ‖A q̇ - b‖² for some b.

    Return None if the step minimizes ‖J q̇ - e‖² + λ²‖q̇‖².
    """
    if isinstance(step, ErrorClamp | AngleClamp):
        return minimized_norm(step.step, lin, lambda2)
    if isinstance(step, WeightedDLS | WeightedCriterion):
        return np.asarray(np.linalg.qr(step.norm(lin, lambda2))[1])
    return None


def priority_norm(levels: Sequence[Linearization]) -> Array:
    """Return A (n, n): limits change the step q̇₀ of a `Priority` to q̇ at the cost ‖A(q̇ - q̇₀)‖².

    Each task has a small weight relative to the task above it, as in the kernel.
    """
    weighted = [PRIORITY_WEIGHT**k * level.J for k, level in enumerate(levels)]
    n = weighted[0].shape[1]
    ridge = np.sqrt(WEIGHTED_RIDGE) * max(float(np.linalg.norm(weighted[0])), TINY)
    return np.asarray(np.linalg.qr(np.concatenate([*weighted, ridge * np.eye(n)]))[1])


def row_weights(step: object, counts: Sequence[int]) -> Array | None:
    """Return the matrix (m, m) by which a step multiplies the rows of a task; None for no matrix.

    Args:
        step: The step.
        counts: The number of rows of each task.
    """
    if isinstance(step, Augmented):
        if step.rule is None or callable(step.weights) or not step.is_diagonal:
            return None  # the weights vary, or are matrices of whole tasks
        step = step.as_weighted(counts)
    if isinstance(step, ErrorClamp | AngleClamp | NullSpace):
        return row_weights(step.step, counts)
    return step.row_weights(sum(counts)) if isinstance(step, WeightedDLS) else None


def gives_up(
    J: Array,
    e: Array,
    dq: Array,
    *,
    weights: Array | None = None,
    levels: Sequence[int] | None = None,
    epsilon: float = EPSILON,
) -> NDArray[np.bool_]:
    """Return a mask (...) of the steps that perform less of their task than the joints could.

    The mask is true where e - J q̇ has a component in the range of J, above rounding: the joints
    could perform this part of the task. A part that no joint motion can perform does not count.

    Args:
        J: Task Jacobians (..., m, n).
        e: Task vectors (..., m).
        dq: Steps (..., n).
        weights: A matrix (m, m) by which the step multiplies all rows; None for no matrix.
        levels: Number of rows of each task, in order of priority, if each task may use only the
            null space of the previous ones; None if all rows form one task.
        epsilon: Machine epsilon of the type in which the steps were computed.
    """
    rounding = ROUNDING * epsilon
    if weights is not None:
        J, e = weights @ J, e @ weights.T
    left = e - np.einsum("...mn,...n->...m", J, dq)
    lost = np.zeros(J.shape[:-2], dtype=bool)
    sizes = [J.shape[-2]] if levels is None else levels
    ends = np.cumsum(sizes)
    for begin, end in zip(ends - sizes, ends, strict=True):
        rows = slice(int(begin), int(end))
        free = J[..., rows, :]
        if begin > 0:
            free = _projected(free, J[..., :begin, :])
        reach = np.linalg.norm(J[..., rows, :], axis=(-2, -1))
        U, sigma, _ = np.linalg.svd(free, full_matrices=False)
        floor = 16 * epsilon * max(J.shape[-2:]) * reach
        some = sigma > np.maximum(floor, TINY)[..., None]
        missed = np.where(some, np.einsum("...mk,...m->...k", U, left[..., rows]), 0.0)
        allowed = max(GIVEN_UP, rounding) * np.linalg.norm(e[..., rows], axis=-1)
        allowed += rounding * reach * np.linalg.norm(dq, axis=-1)
        lost |= np.linalg.norm(missed, axis=-1) > allowed
    return lost


def _projected(J: Array, above: Array) -> Array:
    """Return J, projected onto the null space of the rows above it."""
    _, sigma, Vt = np.linalg.svd(above, full_matrices=False)
    floor = RANK_FLOOR * max(above.shape[-2:]) * np.linalg.norm(above, axis=(-2, -1))
    Vt = np.where((sigma > np.maximum(floor, TINY)[..., None])[..., None], Vt, 0.0)
    return np.asarray(J - J @ Vt.swapaxes(-1, -2) @ Vt)
