"""Steps for several tasks: weighted, or in strict order of priority."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import ReadOnlyArrays, number_field
from supple._core import StepSpec
from supple.damping import Constant, DampingRule
from supple.errors import InputError, short_repr
from supple.motion.linearization import (
    RANK_FLOOR,
    TINY,
    Array,
    Linearization,
    numbers_of,
    stacked,
)
from supple.motion.readable import Readable
from supple.redundancy.secondary import check_callable, project_out
from supple.redundancy.transition import Remaining
from supple.steps.basic import DLS
from supple.steps.step import BatchStep, Step, kernel_of
from supple.steps.weighted import WeightedDLS

Weighting: TypeAlias = ArrayLike | Callable[[Linearization], ArrayLike]
VaryingWeighting: TypeAlias = Callable[[Sequence[Linearization]], object]


@dataclass(frozen=True, eq=False, repr=False)
class Augmented(Readable, BatchStep, ReadOnlyArrays):
    """A step that minimizes a weighted sum of the errors of several tasks.

        minimize Σ_k (J_k q̇ - e_k)ᵀ W_k (J_k q̇ - e_k) + λ² q̇ᵀ W_v q̇
        q̇ = (Σ J_kᵀ W_k J_k + λ² W_v)⁻¹ Σ J_kᵀ W_k e_k

    q̇ is continuous wherever λ² > 0, even where tasks conflict. With weights 1, w, w², … for w ≪ 1,
    and λ² below the smallest weight, the step is a smooth form of `Priority`: a lower task causes
    an error of order w in a higher task. Near an artificial singularity, where tasks conflict, λ²
    acts on the stacked rows and therefore also damps the main task; `Priority` and `NullSpace` do
    not. Weights and damping that vary with the distance from singularities (`VaryingWeights`) keep
    the resulting error of the main task small.

    Weights that are numbers or vectors run in the kernel; matrices and functions run in Python.

    Attributes:
        rule: The damping rule, which chooses λ² from the stacked rows C_kᵀJ_k and C_kᵀe_k, with
            W_k = C_kC_kᵀ. None if `weights` is a function that also returns lambda2.
        weights: One entry per task: a number or one number per row, not negative, a symmetric
            positive definite matrix (m_k, m_k), or a function of the task's linearization that
            returns one of these. Alternatively, one function of the linearizations of all tasks
            that returns such a sequence, or an object with the attributes `weights` and `lambda2`.
        joint_weight: W_v, one number per joint (n,), a matrix (n, n), or a function of the stacked
            linearization that returns one of these; all ones if None.

    References:
        Seraji & Colbaugh 1990; Egeland et al. 1991; Deo & Walker 1995, eq. (19), where W_v stands
        for λ² W_v.
    """

    rule: DampingRule | None
    weights: Sequence[Weighting] | VaryingWeighting
    joint_weight: Weighting | None = None

    def __post_init__(self) -> None:
        if self.rule is not None or not callable(self.weights):
            check_callable(self, "rule", self.rule)
        if self.joint_weight is not None and not callable(self.joint_weight):
            weight = WeightedDLS(Constant(0.0), joint_weight=self.joint_weight).joint_weight
            object.__setattr__(self, "joint_weight", weight)
        if callable(self.weights):
            return
        given: object = self.weights
        flat = isinstance(given, np.ndarray) and given.ndim == 0
        if flat or not isinstance(given, Sequence | np.ndarray) or len(given) == 0:
            raise InputError(
                f"Augmented: weights must be a sequence, one per task; given: {short_repr(given)}"
            )
        weights = tuple(w if callable(w) else _checked_weight(w) for w in self.weights)
        object.__setattr__(self, "weights", weights)

    def __call__(self, linearizations: Sequence[Linearization]) -> Array:
        """Return q̇ (n,) for the linearizations of the tasks, in order."""
        rule, weights, joint = self._at(linearizations)
        each = [_weighted(x, w) for x, w in zip(linearizations, weights, strict=True)]
        if joint is None:
            return DLS(rule)(stacked(each))
        return WeightedDLS(rule, joint_weight=joint)(stacked(each))

    @property
    def is_diagonal(self) -> bool:
        """Whether all weights are constants, one per row or joint, as the kernel requires."""
        every: tuple[Any, ...] = ()
        if not callable(self.weights):
            every = (*self.weights, self.joint_weight)
        return bool(every) and not any(callable(w) or np.ndim(w) == 2 for w in every)

    def at(self, linearizations: Sequence[Linearization]) -> WeightedDLS:
        """Return the same step for stacked tasks, with weights evaluated at linearizations."""
        rule, weights, joint = self._at(linearizations)
        counts = [len(one.e) for one in linearizations]
        ends = np.cumsum(counts)
        W = np.zeros((ends[-1], ends[-1]))
        for weight, rows, end in zip(weights, counts, ends, strict=True):
            block = np.diag(np.broadcast_to(weight, rows)) if weight.ndim < 2 else weight
            W[end - rows : end, end - rows : end] = block
        return WeightedDLS(rule, W, joint)

    def _at(
        self, linearizations: Sequence[Linearization]
    ) -> tuple[DampingRule, list[Array], Array | None]:
        """Return the damping rule, the weight of each task and the weight of the joints."""
        count = None if callable(self.weights) else len(self.weights)
        levels = _levels(self, linearizations, count)
        rule = self.rule
        given: Any = self.weights
        if callable(given):
            given = given(levels)
            if hasattr(given, "lambda2"):
                rule = Constant(given.lambda2) if rule is None else rule
            given = getattr(given, "weights", given)
        if rule is None:
            raise InputError(
                "Augmented: rule must be a damping rule, unless weights return lambda2; given: "
                f"None and weights {short_repr(self.weights)}"
            )
        each = [
            _checked_weight(w(level) if callable(w) else w, len(level.e))
            for w, level in zip(_one_per_task(given, len(levels)), levels, strict=True)
        ]
        joint: Any = self.joint_weight
        if callable(joint):
            joint = numbers_of(joint(stacked(levels)), "Augmented: joint_weight")
        return rule, each, joint

    def as_weighted(self, counts: Sequence[int]) -> WeightedDLS:
        """Return the same step for stacked tasks with `counts` rows, and with constant weights.

        Raises:
            InputError: A weight is a matrix or a function, or the weights do not match the tasks.
        """
        if self.rule is None or callable(self.weights) or not self.is_diagonal:
            raise InputError(
                "a batch takes weights that are numbers, one per task or row; given: "
                f"{short_repr(self)}"
            )
        if len(self.weights) != len(counts):
            given = f"{len(self.weights)} weights for {len(counts)} tasks"
            raise InputError(f"Augmented: weights must be one per task; given: {given}")
        constant: Any = self.weights
        each: list[Array] = [
            np.full(rows, weight) if np.ndim(weight) == 0 else np.asarray(weight)
            for weight, rows in zip(constant, counts, strict=True)
        ]
        if [len(one) for one in each] != list(counts):
            given = f"{short_repr(self.weights)} for tasks of {tuple(counts)} rows"
            raise InputError(
                f"Augmented: a weight must be a number or have one entry per row; given: {given}"
            )
        joint: Any = self.joint_weight
        return WeightedDLS(self.rule, np.concatenate(each), joint)


@dataclass(frozen=True, eq=False, repr=False)
class Priority(Readable):
    """A step for tasks in strict order: each task acts in the null space of the tasks before it.

        q̇_k = q̇_(k-1) + N_(k-1) step(J_k N_(k-1), e_k - J_k q̇_(k-1))          q̇_0 = 0, N_0 = I

    N_k projects onto the null space of the tasks up to k, by an orthonormal basis of all their
    rows. J_i q̇ of a task i is therefore independent of all tasks below it, up to rounding, even
    where the task is damped, singular or in conflict with others. Where tasks conflict, the
    projected J of the lower task is singular as well (an algorithmic singularity); a damped step
    stays bounded.

    q̇ is continuous while ranks are constant. Where J_k N_(k-1) loses rank to working precision, a
    direction becomes free for the tasks below, and q̇ jumps. With a `transition`, q̇ is continuous:
    a direction whose singular value σ is below transition · ‖J_k‖ passes from task k to the tasks
    below gradually, as σ falls to zero. Lower tasks then disturb J_k q̇ by at most
    0.36 · transition · ‖J_k‖ times their joint speed. While no σ is in this interval, q̇ is the same
    as without a transition. Steps with a transition run in Python. `Augmented` is continuous as
    well, but its lower tasks disturb higher ones everywhere.

    A criterion can be the last task: J = I, e = -gain ∇h.

    Attributes:
        steps: One step for all tasks, or one per task. Only the first task has a previous step that
            rules can compare with.
        transition: Singular value, relative to the norm of the task's J, below which directions
            pass to lower tasks gradually; 0 for the published formula. With a transition, steps
            cannot have row weights: give the weights to the tasks.

    References:
        Nakamura, Hanafusa & Yoshikawa 1987; Siciliano & Slotine 1991; Baerlocher & Boulic 2004;
        for continuous transitions between priorities, Mansard, Remazeilles & Chaumette 2009.
    """

    steps: Step | Sequence[Step]
    transition: float = 0.0

    def __post_init__(self) -> None:
        given: object = self.steps
        several = tuple(given) if isinstance(given, Sequence) else ()
        if several and all(callable(step) for step in several):
            object.__setattr__(self, "steps", several)
        elif not callable(given):
            raise InputError(
                f"Priority: steps must be a step or a sequence of steps; given: {short_repr(given)}"
            )
        number_field(self, "transition", least=0, below=1)
        weighted = [x for x in several or (given,) if getattr(x, "task_weight", None) is not None]
        if weighted and self.transition > 0:
            raise InputError(
                "Priority: steps with row weights have no transition; give the weights to the "
                f"tasks. Given: {short_repr(weighted[0])}"
            )

    def __call__(self, linearizations: Sequence[Linearization]) -> Array:
        """Return q̇ (n,) for the linearizations of the tasks, the highest priority first."""
        count = None if callable(self.steps) else len(self.steps)
        levels = _levels(self, linearizations, count)
        steps = [self.steps] * len(levels) if callable(self.steps) else self.steps
        dq, remaining = np.zeros(levels[0].J.shape[1]), Remaining(levels[0].J.shape[1])
        if self.transition == 0:
            return _in_order(levels, steps)
        for k, (level, step) in enumerate(zip(levels, steps, strict=True)):
            left = replace(level, e=level.e - level.J @ dq)
            dq = dq + remaining.step(left, step, self.transition, first=k == 0)
        return dq

    def kernels(self, count: int) -> tuple[StepSpec, ...]:
        """Return the steps of `count` tasks for the compiled code.

        Raises:
            InputError: The compiled code does not have one of the steps, or there is a transition.
        """
        if self.transition > 0:
            raise InputError("a Priority with a transition runs in Python")
        steps = [self.steps] * count if callable(self.steps) else self.steps
        return tuple(kernel_of(step) for step in steps)


def _in_order(levels: Sequence[Linearization], steps: Sequence[Step]) -> Array:
    """Return q̇ (n,) by the published formula."""
    n = levels[0].J.shape[1]
    dq, taken = np.zeros(n), np.zeros((0, n))  # taken: orthonormal basis of the rows so far
    for k, (level, step) in enumerate(zip(levels, steps, strict=True)):
        left = project_out(taken, level.J)
        _, sigma, right = np.linalg.svd(left, full_matrices=False)
        # A row in the span of `taken` leaves only rounding errors, proportional to ‖J‖.
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


def _weighted(linearization: Linearization, weight: Array) -> Linearization:
    before = linearization.before
    if weight.ndim == 2:
        root = np.linalg.cholesky(weight).T
    else:
        root = np.diag(np.broadcast_to(np.sqrt(weight), linearization.e.shape))
    return replace(
        linearization,
        J=root @ linearization.J,
        e=root @ linearization.e,
        before=None if before is None else _weighted(before, weight),
    )


def _checked_weight(given: ArrayLike, rows: int | None = None) -> Array:
    """Return a weight after checking it: numbers >= 0, or a positive definite matrix."""
    weight = numbers_of(given, "Augmented: a weight")
    fits = weight.ndim < 2 and bool((weight >= 0).all())
    if weight.ndim == 2 and weight.shape[0] == weight.shape[1]:
        symmetric = np.allclose(weight, weight.T, 1e-12, 0)
        fits = symmetric and float(np.linalg.eigvalsh(weight)[0]) > 0
    if rows is not None and weight.ndim > 0 and len(weight) != rows:
        raise InputError(
            f"Augmented: a weight must be a number, a vector ({rows},) or a matrix "
            f"({rows}, {rows}); given: {weight.shape}"
        )
    if not fits:
        raise InputError(
            "Augmented: a weight must be a number or a vector, not negative, or a symmetric "
            f"positive definite matrix; given: {short_repr(given)}"
        )
    return weight


def _one_per_task(given: Any, count: int) -> Any:
    if not isinstance(given, Sequence | np.ndarray) or len(given) != count:
        raise InputError(
            f"Augmented: weights must return {count} weights, one per task; "
            f"given: {short_repr(given)}"
        )
    return given


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
        counts = sorted(columns)
        raise InputError(f"{name}: every J must have the same number of columns; given: {counts}")
    return linearizations
