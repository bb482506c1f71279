"""What a step is, and the plain ones: a Linearization -> q̇.

A step is a small frozen class that is called with a `Linearization` and returns joint speeds, or
joint displacements, (n,). More of them: `selective.py`, `weighted.py`, `clamp.py` (steps around a
step), `filtering.py` and `memory.py` (those that remember), `wrist.py`. `steps` in `batch.py` runs
one on a batch in the compiled code (`include/supple/step.hpp`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from supple._core import Method, StepSpec
from supple.errors import InputError, short_repr
from supple.kinematics.arrays import number, number_field
from supple.motion.damping import DampingRule, KernelRule, Region
from supple.motion.linearization import RANK_FLOOR, TINY, Array, Linearization


class Step(Protocol):
    """What moves a robot: anything that makes q̇ (n,) of a linearization."""

    def __call__(self, linearization: Linearization, /) -> Array:
        """Return q̇ (n,), finite."""
        ...


@dataclass(frozen=True)
class Transpose:
    """Along the transpose of the Jacobian, as far as brings J q̇ nearest to e.

        q̇ = α Jᵀ e        α = ⟨e, J Jᵀ e⟩ / ⟨J Jᵀ e, J Jᵀ e⟩,  0 where J Jᵀ e = 0

    Cheap and slow to converge. Where e lies along the direction that a singularity is about to
    take away it is as long as the pseudoinverse's: clamp it.

    References:
        Buss 2009, section 3.
    """

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        J, e = linearization.J, linearization.e
        size, reach = float(np.abs(J).max()), float(np.abs(e).max())
        if size < TINY or reach == 0:
            return np.zeros(J.shape[1])
        J, e = J / size, e / reach  # so that squares neither overflow nor vanish
        down = J.T @ e
        back = J @ down
        if np.linalg.norm(down) <= RANK_FLOOR * np.linalg.norm(J) * np.linalg.norm(e):
            return np.zeros(len(down))  # nothing but rounding errors
        with np.errstate(over="ignore"):
            return finite_step(e @ back / (back @ back) * reach * down / size)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        return StepSpec(method=Method.TRANSPOSE)


@dataclass(frozen=True)
class Pseudoinverse:
    """The shortest q̇ that does e exactly, or as nearly as can be:  q̇ = J⁺ e.

    Unbounded near singularities: this is what the other steps cure. Singular values that are zero
    to working precision are left out.

    References:
        Buss 2009, section 4.
    """

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return gained(linearization, RANK_FLOOR, 0.0)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        return StepSpec(method=Method.PSEUDOINVERSE)


@dataclass(frozen=True)
class TruncatedSVD:
    """The pseudoinverse of the singular values above threshold × the largest.

    Bounded by ‖e‖/(threshold σ_1), but jumps where a singular value crosses the threshold.

    Attributes:
        threshold: Between 0 and 1.

    References:
        Maciejewski & Klein 1988, eq. (13).
    """

    threshold: float = 0.01

    def __post_init__(self) -> None:
        number_field(self, "threshold", above=0.0, below=1.0)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return gained(linearization, max(RANK_FLOOR, self.threshold), 0.0)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        return StepSpec(method=Method.TRUNCATED, parameter=self.threshold)


@dataclass(frozen=True)
class DLS:
    """Damped least squares:  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e,  the minimiser of ‖J q̇ - e‖² + λ²‖q̇‖².

    Bounded, ‖q̇‖ <= ‖e‖/(2λ), and continuous through singularities where λ² > 0; the pseudoinverse
    where λ² = 0.

    Attributes:
        rule: Chooses λ² from the linearization: one of `supple.damping`, or a callable.
        method: How the kernel solves it. "auto" takes singular values only where it must: not for
            `Optimal`, `Constant`, `ErrorDamped` and `ErrorNorm`, nor where the least of them is so
            far from zero that `SpeedBound`, `Region` and `Curvature` do not damp, as long as J has
            not nearly lost rank. "svd" always; "cholesky" of J Jᵀ + λ² I or JᵀJ + λ² I, whichever
            is smaller, also where that is ill conditioned; "qr" of the stacked [J; λ I], which does
            not square the condition number. A rule that looks at singular values has the SVD
            already, which is used then.

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
        if not callable(self.rule):
            raise InputError(f"DLS: rule must be a damping rule; given: {short_repr(self.rule)}")

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
        except np.linalg.LinAlgError:  # λ² is lost in the rounding of a singular J
            return gained(linearization, RANK_FLOOR, lambda2)
        return finite_step(dq)

    @property
    def kernel(self) -> StepSpec:  # noqa: D102
        if not isinstance(self.rule, KernelRule):
            raise InputError(
                "a batch takes the rules of supple.damping; given: "
                f"{short_repr(self.rule)}. CONTRIBUTING.md says how to add one to the kernel"
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


def kernel_of(step: Step) -> StepSpec:
    """Return the kernel's form of a step.

    Raises:
        InputError: The kernel has no such step.
    """
    kernel = getattr(step, "kernel", None)
    if not isinstance(kernel, StepSpec):
        raise InputError(
            f"a batch takes the steps that supple has; given: {short_repr(step)}. CONTRIBUTING.md "
            "says how to add one to the kernel"
        )
    return kernel


def damping_of(rule: DampingRule, linearization: Linearization) -> float:
    """What a rule returns, checked: a user's own may be wrong."""
    try:
        lambda2: object = rule(linearization)
    except OverflowError:  # of a Python float's power
        lambda2 = math.inf
    return number(lambda2, f"the lambda2 that {short_repr(rule)} returns", least=0.0)


def gained(linearization: Linearization, floor: float, lambda2: float) -> Array:
    """Σ σ/(σ² + λ²) v uᵀe over the singular values above floor × the largest."""
    sigma = linearization.sigma
    some = sigma > max(floor * float(sigma[0]), TINY)
    gain = np.zeros_like(sigma)
    with np.errstate(over="ignore", invalid="ignore"):
        # Where this overflows the gain is zero; a square might vanish instead.
        gain[some] = 1 / (sigma[some] + lambda2 / sigma[some])
        return finite_step(linearization.V @ (gain * linearization.gamma))


def finite_step(dq: Array) -> Array:
    """Refuse a step that numbers cannot hold."""
    if not np.isfinite(dq).all():
        raise InputError(
            f"J and e must be such that the step is finite; given: q̇ = {short_repr(dq)}"
        )
    return np.asarray(dq, dtype=np.float64)


def a_group(owner: object, group: int) -> None:
    """Refuse what is not a number of rows."""
    if type(group) is not int or group < 1:
        raise InputError(
            f"{type(owner).__name__}: group must be a number of rows, at least 1; "
            f"given: {short_repr(group)}"
        )
