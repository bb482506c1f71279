"""Every step of the literature that needs no memory: a Linearization -> q̇.

A step is a small frozen class that is called with a `Linearization` and returns joint speeds, or
joint displacements, (n,). `steps` runs one on a batch in the compiled code
(`include/supple/step.hpp`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.errors import InputError, shown
from supple.kinematics.environment import thread_count
from supple.motion.damping import Constant, DampingRule, KernelRule, Region
from supple.motion.linearization import RANK_FLOOR, Array, Linearization

FloatArray = NDArray[np.floating[Any]]


class Method(IntEnum):
    """The kernel's name of a step, in the order of `include/supple/step.hpp`."""

    TRANSPOSE = 0
    PSEUDOINVERSE = 1
    TRUNCATED = 2
    DAMPED_SVD = 3
    DAMPED_CHOLESKY = 4
    DAMPED_QR = 5
    SELECTIVE = 6
    SELECTIVE_SOFT = 7


class Step(Protocol):
    """What moves a robot: anything that makes q̇ (n,) of a linearization."""

    def __call__(self, linearization: Linearization, /) -> Array:
        """Return q̇ (n,), finite."""
        ...


@dataclass(frozen=True)
class Kernel:
    """A step as the compiled code takes it."""

    method: Method
    parameter: float = 0.0
    group: int = 3
    max_error: float = math.inf
    error_group: int = 3
    max_angle: float = math.inf
    rule: KernelRule = field(default_factory=lambda: Constant(0.0))


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
        down = J.T @ e
        back = J @ down
        if np.linalg.norm(down) <= RANK_FLOOR * np.linalg.norm(J) * np.linalg.norm(e):
            return np.zeros(len(down))  # nothing but rounding errors
        return e @ back / (back @ back) * down

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        return Kernel(Method.TRANSPOSE)


@dataclass(frozen=True)
class Pseudoinverse:
    """The shortest q̇ that does e exactly, or as nearly as can be:  q̇ = J⁺ e.

    Unbounded near singularities: this is what the other steps cure. Singular values that are zero
    to working precision are left out.

    References:
        Buss 2009, section 4.
    """

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return _gained(linearization, RANK_FLOOR, 0.0)

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        return Kernel(Method.PSEUDOINVERSE)


@dataclass(frozen=True)
class TruncatedSVD:
    """The pseudoinverse of the singular values above threshold × the largest.

    Bounded by 1/(threshold σ_1), but jumps where a singular value crosses the threshold.

    References:
        Maciejewski & Klein 1988, eq. (13).
    """

    threshold: float = 0.01

    def __post_init__(self) -> None:
        _in_range(self, "threshold", self.threshold, 0.0, 1.0)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return _gained(linearization, max(RANK_FLOOR, self.threshold), 0.0)

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        return Kernel(Method.TRUNCATED, self.threshold)


@dataclass(frozen=True)
class DLS:
    """Damped least squares:  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e,  the minimiser of ‖J q̇ - e‖² + λ²‖q̇‖².

    Bounded, ‖q̇‖ <= ‖e‖/(2λ), and continuous through singularities where λ² > 0; the pseudoinverse
    where λ² = 0.

    Attributes:
        rule: Chooses λ² from the linearization: one of `supple.damping`, or a callable.
        method: How it is solved. "svd"; "cholesky" of J Jᵀ + λ² I or JᵀJ + λ² I, whichever is
            smaller, the fastest; "qr" of the stacked [J; λ I], which does not square the condition
            number. A rule that looks at singular values has the SVD already, which is used then.

    References:
        Wampler 1986, eqs. (34)-(37), (48); Deo & Walker 1995, eq. (4); Buss 2009, section 5.
    """

    rule: DampingRule
    method: Literal["svd", "cholesky", "qr"] = "svd"

    def __post_init__(self) -> None:
        if self.method not in _SOLVERS:
            expected = f"one of {', '.join(map(repr, _SOLVERS))}"
            raise InputError(f"DLS: method must be {expected}; given: {shown(self.method)}")
        if not callable(self.rule):
            raise InputError(f"DLS: rule must be a damping rule; given: {shown(self.rule)}")

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        lambda2 = damping_of(self.rule, linearization)
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            W = self.rule.weight(linearization)
            linearization = Linearization(W @ linearization.J, W @ linearization.e)
        J, e = linearization.J, linearization.e
        m, n = J.shape
        if self.method == "svd" or lambda2 == 0 or getattr(self.rule, "spectral", False):
            return _gained(linearization, RANK_FLOOR, lambda2)
        if self.method == "qr":
            Q, R = np.linalg.qr(np.vstack([J, math.sqrt(lambda2) * np.eye(n)]))
            dq = np.linalg.solve(R, Q.T @ np.concatenate([e, np.zeros(n)]))
        elif m <= n:
            dq = J.T @ np.linalg.solve(J @ J.T + lambda2 * np.eye(m), e)
        else:
            dq = np.linalg.solve(J.T @ J + lambda2 * np.eye(n), J.T @ e)
        return np.asarray(dq, dtype=np.float64)

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        if isinstance(self.rule, Region) and self.rule.direction is not None:
            raise InputError(f"a batch takes Region without a direction; given: {shown(self.rule)}")
        if not isinstance(self.rule, KernelRule):
            raise InputError(
                "a batch takes the rules of supple.damping; given: "
                f"{shown(self.rule)}. CONTRIBUTING.md says how to add one to the kernel"
            )
        return Kernel(_SOLVERS[self.method], rule=self.rule)


_SOLVERS = {
    "svd": Method.DAMPED_SVD,
    "cholesky": Method.DAMPED_CHOLESKY,
    "qr": Method.DAMPED_QR,
}


@dataclass(frozen=True)
class SDLS:
    """Selectively damped least squares: each singular direction gets a limit of its own.

    Per singular direction i with σ_i > 0, for effectors k and joints j,

        φ_i = (u_iᵀe/σ_i) v_i,  limited to max|φ_i| <= γ_i
        γ_i = max_angle min(1, N_i/M_i)      N_i = Σ_k ‖u_i,k‖      M_i = Σ_j |v_ji| Σ_k ‖J_k,j‖/σ_i

    and the sum of all limited to max_angle. Where singular values coincide the step depends on
    which of the equal directions the decomposition happens to choose. An effector is `group` rows
    of the task: three of position, or three of orientation, which take part like effectors of their
    own.

    Attributes:
        max_angle: γ_max [rad].
        soft: Limit by φ γ/(γ + max|φ|), as the authors' program does, instead of by cutting.
        group: Rows of one effector.

    References:
        Buss & Kim 2005.
    """

    max_angle: float = math.pi / 4
    soft: bool = False
    group: int = 3

    def __post_init__(self) -> None:
        _in_range(self, "max_angle", self.max_angle, 0.0, math.inf)
        _a_group(self, self.group)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        lin = linearization
        blocks = [slice(i, i + self.group) for i in range(0, len(lin.e), self.group)]
        reaches = sum(np.linalg.norm(lin.J[block], axis=0) for block in blocks)
        total = np.zeros(lin.J.shape[1])
        for i in range(lin.rank if lin.sigma[0] > 0 else 0):
            u, v, sigma = lin.U[:, i], lin.V[:, i], lin.sigma[i]
            N = sum(np.linalg.norm(u[block]) for block in blocks)
            M = np.abs(v) @ reaches / sigma
            gamma = self.max_angle * min(1.0, N / M)
            phi = lin.gamma[i] / sigma * v
            size = np.abs(phi).max()
            cut = gamma / (gamma + size) if self.soft else _factor(size, gamma)
            total += cut * phi
        return _shortened(total, self.max_angle)

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        method = Method.SELECTIVE_SOFT if self.soft else Method.SELECTIVE
        return Kernel(method, self.max_angle, self.group)


@dataclass(frozen=True)
class ClampError:
    """A step towards targets brought nearer: each effector's error is cut to max_error first.

    Keeps a figure from stretching out towards what it cannot reach.

    References:
        Buss 2009, section 2 (ClampMag; with DLS: DLS').
    """

    step: Step
    max_error: float
    group: int = 3

    def __post_init__(self) -> None:
        _in_range(self, "max_error", self.max_error, 0.0, math.inf)
        _a_group(self, self.group)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        e = linearization.e.copy()
        for i in range(0, len(e), self.group):
            block = slice(i, i + self.group)
            size = float(np.linalg.norm(e[block]))
            e[block] *= _factor(size, self.max_error)
        return self.step(replace(linearization, e=e))

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        inner = kernel_of(self.step)
        return replace(inner, max_error=self.max_error, error_group=self.group)


@dataclass(frozen=True)
class ClampAngle:
    """A step scaled as a whole so that no joint moves more than max_angle [rad or m].

    References:
        Buss 2009, section 6.
    """

    step: Step
    max_angle: float

    def __post_init__(self) -> None:
        _in_range(self, "max_angle", self.max_angle, 0.0, math.inf)

    def __call__(self, linearization: Linearization) -> Array:  # noqa: D102
        return _shortened(self.step(linearization), self.max_angle)

    @property
    def kernel(self) -> Kernel:  # noqa: D102
        inner = kernel_of(self.step)
        return replace(inner, max_angle=min(self.max_angle, inner.max_angle))


def steps(
    step: Step, J: ArrayLike, e: ArrayLike, *, threads: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return q̇ (..., n) and lambda2 (...) of a step for a batch of J (..., m, n) and e (..., m).

    Runs in the kernel, on SIMD lanes and threads; the same numbers as `step` called one by one, to
    rounding. float32 in gives float32 out. Rules that compare with the step before find none.

    Raises:
        InputError: shapes that do not match, numbers that are not finite, or a step or a rule that
            the kernel does not have.
    """
    kernel = kernel_of(step)
    jacobians, errors = np.asarray(J), np.asarray(e)
    real = jacobians.dtype.kind in "iuf" and errors.dtype.kind in "iuf"
    if not real or jacobians.ndim < 2 or jacobians.shape[:-1] != errors.shape:
        raise InputError(
            "J must be real, (..., m, n), and e (..., m); given: "
            f"{jacobians.dtype} {jacobians.shape} and {errors.dtype} {errors.shape}"
        )
    single = jacobians.dtype == np.float32 and errors.dtype == np.float32
    dtype = np.float32 if single else np.float64
    m, n = jacobians.shape[-2:]
    lead = jacobians.shape[:-2]
    if m == 0 or n == 0:
        raise InputError(f"J must have rows and columns; given: {jacobians.shape}")
    rule, parameters = kernel.rule.kernel
    dq, lambda2, bad = _core.steps(
        kernel.method,
        kernel.parameter,
        kernel.group,
        kernel.max_error,
        kernel.error_group,
        kernel.max_angle,
        rule,
        parameters,
        np.ascontiguousarray(jacobians, dtype).reshape(*lead, m * n),
        np.ascontiguousarray(errors, dtype),
        np.broadcast_to(np.array([-1.0, 0.0], dtype), (*lead, 2)).copy(),
        m,
        n,
        thread_count(threads),
    )
    if bad >= 0:
        where = ", ".join(str(int(i)) for i in np.unravel_index(bad, lead)) if lead else ""
        raise InputError(
            "J and e must be finite, and such that the step is; "
            f"given: J[{where}] or e[{where}] is not"
        )
    return dq, lambda2


def kernel_of(step: Step) -> Kernel:
    """The kernel's form of a step.

    Raises:
        InputError: the kernel has no such step.
    """
    kernel = getattr(step, "kernel", None)
    if not isinstance(kernel, Kernel):
        raise InputError(
            f"a batch takes the steps that supple has; given: {shown(step)}. CONTRIBUTING.md says "
            "how to add one to the kernel"
        )
    return kernel


def damping_of(rule: DampingRule, linearization: Linearization) -> float:
    """What a rule returns, checked: a user's own may be wrong."""
    lambda2: object = rule(linearization)
    if not isinstance(lambda2, int | float) or not 0 <= lambda2 < math.inf:
        raise InputError(
            f"a damping rule must return a finite lambda2 >= 0; given: {shown(lambda2)} "
            f"by {shown(rule)}"
        )
    return float(lambda2)


def _gained(linearization: Linearization, floor: float, lambda2: float) -> Array:
    """Σ σ/(σ² + λ²) v uᵀe over the singular values above floor × the largest."""
    sigma = linearization.sigma
    some = sigma > floor * sigma[0]
    gain = np.zeros_like(sigma)
    with np.errstate(over="ignore"):  # then the gain is zero; a square might vanish instead
        gain[some] = 1 / (sigma[some] + lambda2 / sigma[some])
    result: Array = linearization.V @ (gain * linearization.gamma)
    return result


def _factor(size: float, most: float) -> float:
    """What brings a size down to the most that is allowed."""
    return most / size if size > most else 1.0


def _shortened(dq: Array, most: float) -> Array:
    return dq * _factor(float(np.abs(dq).max()), most)


def _in_range(owner: object, name: str, value: float, low: float, high: float) -> None:
    if type(value) not in (int, float) or not low < value < high:
        raise InputError(
            f"{type(owner).__name__}: {name} must be above {low} and below {high}; "
            f"given: {shown(value)}"
        )


def _a_group(owner: object, group: int) -> None:
    if type(group) is not int or group < 1:
        raise InputError(
            f"{type(owner).__name__}: group must be a number of rows, at least 1; "
            f"given: {shown(group)}"
        )
