"""Damped least squares in weighted norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import ReadOnlyArrays
from supple._core import WEIGHTED_RIDGE, StepSpec
from supple.damping import DampingRule
from supple.errors import InputError, short_repr
from supple.motion.linearization import Array, Linearization, numbers_of
from supple.motion.readable import Readable
from supple.steps.basic import DLS
from supple.steps.step import BatchStep, batched


@dataclass(frozen=True, eq=False, repr=False)
class WeightedDLS(Readable, BatchStep, ReadOnlyArrays):
    """Damped least squares with weights on the task and on the joints.

        q̇ = (JᵀW₁J + λ²W₂)⁻¹JᵀW₁e,      which minimizes (Jq̇ - e)ᵀW₁(Jq̇ - e) + λ² q̇ᵀW₂q̇

    Rows with a large weight are followed more exactly; joints with a large weight move less. Deo &
    Walker's W₂ stands for λ²W₂; use `Constant(1.0)` for their formula. Weights also define how
    meters compare with radians: a rotation row with the weight L² counts like a lever of length L.

    The step is `DLS` on the scaled problem  C₁ᵀ J C₂⁻ᵀ,  C₁ᵀ e  with Wᵢ = CᵢCᵢᵀ. The rule receives
    the scaled problem, so its bounds on gains and speeds hold for C₂ᵀq̇. Where λ² = 0, the step is
    the least-squares solution that is shortest in the norm of W₂.

    Attributes:
        rule: The damping rule.
        task_weight: W₁, one weight per row (m,) or a symmetric positive definite matrix (m, m);
            all ones if None.
        joint_weight: W₂, one weight per joint (n,) or a matrix (n, n); all ones if None.

    References:
        Deo & Walker 1995, eq. (2).
    """

    rule: DampingRule
    task_weight: ArrayLike | None = None
    joint_weight: ArrayLike | None = None

    def __post_init__(self) -> None:
        DLS(self.rule)  # checks the rule
        for name in ("task_weight", "joint_weight"):
            weight = getattr(self, name)
            if weight is not None:
                weight = numbers_of(weight, f"WeightedDLS: {name}")
                _root(weight, name)
                object.__setattr__(self, name, weight)

    @batched
    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        joint = self._joint_root(linearization.J.shape[1])
        return np.asarray(np.linalg.solve(joint.T, DLS(self.rule)(self.scaled(linearization))))

    def scaled(self, linearization: Linearization) -> Linearization:
        """Return the scaled problem, which the rule receives."""
        m, n = linearization.J.shape
        task, joint = self.row_weights(m), self._joint_root(n)

        def scale(J: Array) -> Array:
            return task @ np.linalg.solve(joint, J.T).T

        before = linearization.before
        if before is not None:
            before = Linearization(scale(before.J), task @ before.e)
        J, e = scale(linearization.J), task @ linearization.e
        return replace(linearization, J=J, e=e, before=before)

    def row_weights(self, rows: int) -> Array:
        """Return C₁ᵀ (m, m), by which the rows of J and e are multiplied."""
        return _root(self.task_weight, "task_weight", rows).T

    def norm(self, linearization: Linearization, lambda2: float) -> Array:
        """Return A = [C₁ᵀJ; λ C₂ᵀ] (m + n, n): the step minimizes ‖A q̇ - [C₁ᵀe; 0]‖.

        λ² is at least WEIGHTED_RIDGE ‖J‖², so that the minimizer is unique.
        """
        m, n = linearization.J.shape
        least = WEIGHTED_RIDGE * float(np.sum(self.scaled(linearization).J ** 2))
        damping = math.sqrt(max(lambda2, least))
        joint = self._joint_root(n)
        return np.vstack([self.row_weights(m) @ linearization.J, damping * joint.T])

    def _joint_root(self, columns: int) -> Array:
        return _root(self.joint_weight, "joint_weight", columns)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        for name in ("task_weight", "joint_weight"):
            weight = getattr(self, name)
            if weight is not None and weight.ndim == 2:
                raise InputError(
                    f"a batch takes one weight per row or joint; given: {name} of shape "
                    f"{weight.shape}"
                )
        task = () if self.task_weight is None else tuple(np.sqrt(self.task_weight).tolist())
        joint = () if self.joint_weight is None else tuple((np.sqrt(self.joint_weight)).tolist())
        scales = {"task_scale": task, "joint_scale": tuple(1 / x for x in joint)}
        return DLS(self.rule).kernel.replace(**scales)


def _root(weight: ArrayLike | None, name: str, size: int | None = None) -> Array:
    """Return the lower triangular C of W = C Cᵀ."""
    if weight is None:
        return np.eye(size or 1)
    W = np.asarray(weight, dtype=np.float64)
    if size is not None and len(W) != size:
        raise InputError(f"WeightedDLS: {name} must have the size {size}; given: {W.shape}")
    if W.ndim == 1 and W.size and (W > 0).all():
        return np.diag(np.sqrt(W))
    if W.ndim == 2 and W.size and W.shape[0] == W.shape[1] and np.allclose(W, W.T, 1e-12, 0):
        try:
            return np.asarray(np.linalg.cholesky(W), dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
    raise InputError(
        f"WeightedDLS: {name} must be positive numbers or a symmetric positive definite matrix; "
        f"given: {short_repr(weight)}"
    )
