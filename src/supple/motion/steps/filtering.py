"""Numerical filtering: damp the singular direction, and the others hardly at all.

An estimate of the direction is kept from step to step and improved by one inverse iteration per
step, which costs a few products instead of a decomposition. `include/supple/filtering.hpp` is the
kernel's version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, short_repr
from supple.kinematics.arrays import ReadOnlyArrays, number_field
from supple.motion.linearization import EPSILON, Array, Linearization, numbers_of

BLUR = 4 * EPSILON  # times rows times trace: a bound on the rounding errors of J Jᵀ


@dataclass(frozen=True, eq=False)
class SingularDirection(ReadOnlyArrays):
    """A running estimate of the singular direction û of the task, and of its singular value.

        (J Jᵀ + α² û ûᵀ + λ² I) û' = û,     û <- û'/‖û'‖,     σ̂² = 1/‖û'‖ - α² - λ²,  at least 0

    Each update is one inverse iteration, so that û follows the singular vector of the smallest
    singular value as J changes, even where the two smallest singular values cross. û does not
    depend on α (Sherman-Morrison formula). If a coordinate axis is a starting vector twice as good
    as û, it replaces û. Therefore û cannot stay orthogonal to the true vector, and

        σ_min² <= σ̂² <= 2 √m (σ_min² + λ²) - λ²                              (for α = 0)

    holds for any û and any J, up to the resolution of J Jᵀ: σ̂ is accurate to 2e-7 of J's largest
    singular value. If J has more rows than columns, û lies in its range. If J = 0, û is unchanged.

    Attributes:
        u: û (m,), of unit length.
        sigma: σ̂, the estimate of the smallest singular value.

    References:
        Maciejewski & Klein 1988, eqs. (20)-(26).
    """

    u: Array
    sigma: float = 0.0

    def __post_init__(self) -> None:
        u = numbers_of(self.u, "SingularDirection: u")
        largest = float(np.abs(u).max()) if u.ndim == 1 and u.size else 0.0
        if largest == 0:
            raise InputError(
                f"SingularDirection: u must be a nonzero vector; given: {short_repr(self.u)}"
            )
        u = u / largest
        u = u / np.linalg.norm(u)
        u.flags.writeable = False
        object.__setattr__(self, "u", u)
        number_field(self, "sigma", least=0.0)

    @classmethod
    def exact(cls, linearization: Linearization) -> SingularDirection:
        """Return the exact direction, by singular value decomposition."""
        return cls(linearization.U[:, -1], linearization.sigma_min)

    def update(self, J: ArrayLike, lambda2: float = 0.0, alpha2: float = 0.0) -> SingularDirection:
        """Return the estimate for the next J (m, n), by one inverse iteration.

        Args:
            J: The next task Jacobian.
            lambda2: Damping of the inverted matrix; a smaller value makes û turn faster.
            alpha2: Filter gain of the inverted matrix along û, as in `NumericalFilter`.
        """
        problem = _Problem.prepare(numbers_of(J, "J"), self.u)
        damping = (x / problem.scale / problem.scale for x in (lambda2, alpha2))
        return problem.estimate(*problem.iterate(*damping))


@dataclass(frozen=True)
class NumericalFilter:
    """Damp the singular direction û of the task as far as necessary, the rest hardly at all.

        (J Jᵀ + α² û ûᵀ + λ² I) z = e,      q̇ = Jᵀ z,  scaled down to ‖q̇‖ <= max_gain ‖e‖

    With c the fraction of e along û, e_s that component, e_o the rest of e, and σ_m the smallest
    singular value,

        α² = (c/(2 max_gain))²                     if σ_m <= c/(2 max_gain)
             max(0, σ_m c/max_gain - σ_m²)         otherwise
        λ² = the damping of `SpeedBound` for the effective singular value
        σ_eff = ‖e‖ / sqrt(‖e_s‖²/σ_m² + ‖e_o‖²/σ_o²),    σ_o² = ‖e_o‖/‖z_o‖

    A motion without a component along the singular direction therefore passes a singularity
    undamped. As in the paper, the bound applies to the gain, relative to ‖e‖: the printed 0.05 rad
    is 0.02 rad/cm times the largest commanded speed. With two small singular values, α and λ alone
    do not keep the bound; hence the scaling. Bounded and finite at every singularity; q̇ = 0 where
    e = 0 or J = 0.

    The memory is a `SingularDirection`, updated once per step before α is chosen. Called like a
    plain step, the filter has no memory and takes the exact direction by decomposition;
    `StatefulStep(NumericalFilter(...))` keeps the memory.

    Attributes:
        max_gain: Bound on ‖q̇‖/‖e‖ (θ̇max).
        printed: Whether to take α from eq. (14) regardless of e, as in the paper. This blocks the
            path through an inner singularity that the default passes.

    References:
        Maciejewski & Klein 1988, eqs. (27)-(35). z is that of the same interval, not of the
        previous one, and z_o = z - û(ûᵀz) replaces eq. (32), which divides a difference by zero.
    """

    max_gain: float
    printed: bool = False

    def __post_init__(self) -> None:
        number_field(self, "max_gain", above=0.0)
        printed: object = self.printed
        if not isinstance(printed, bool):
            given = short_repr(printed)
            raise InputError(f"NumericalFilter: printed must be True or False; given: {given}")

    def __call__(self, linearization: Linearization) -> Array:
        """Return q̇ (n,) for the exact direction."""
        return self.step(linearization, self.start(linearization))[0]

    def start(self, linearization: Linearization) -> SingularDirection:
        """Return the exact direction, by singular value decomposition."""
        return SingularDirection.exact(linearization)

    def step(
        self, linearization: Linearization, memory: SingularDirection
    ) -> tuple[Array, SingularDirection]:
        """Return q̇ (n,) and the direction for the next step."""
        problem = _Problem.prepare(linearization.J, memory.u)
        u, sigma2 = problem.iterate(0.0, 0.0)
        memory = problem.estimate(u, sigma2)
        size = float(np.abs(linearization.e).max())
        e = problem.reduced(linearization.e / size) if size > 0 else np.zeros(len(u))
        length = float(np.linalg.norm(e))
        edge = 1 / problem.scale / self.max_gain  # the singular value whose gain is the bound
        if length == 0 or edge >= EPSILON**-2:  # the bound is zero to rounding
            return np.zeros(linearization.J.shape[1]), memory
        dq = self._filtered(problem, e / length, u, sigma2, edge)
        return size * length * (dq / problem.scale), memory

    def _filtered(self, problem: _Problem, e: Array, u: Array, sigma2: float, edge: float) -> Array:
        """Return the step for a unit e and a J of unit size."""
        J, m, blur = problem.J, len(e), problem.blur
        sigma, along = math.sqrt(sigma2), float(u @ e)
        alpha2 = _min_damping(sigma, edge, 1.0 if self.printed else abs(along))
        A = problem.gram + alpha2 * np.outer(u, u) + blur * np.eye(m)
        z = np.linalg.solve(A, e)
        across = float(np.linalg.norm(e - along * u))
        z_across = float(np.linalg.norm(z - (u @ z) * u))
        # ‖e_s‖²/σ_m² + ‖e_o‖²/σ_o², the squared gain without damping
        gain2 = along**2 / max(sigma2, blur)
        if across > 0 and z_across > 0:
            gain2 += across**2 / max(across / z_across - blur, blur)
        lambda2 = _min_damping(1 / math.sqrt(gain2), edge, 1.0) if gain2 > 0 else 0.0
        dq: Array = J.T @ np.linalg.solve(A + lambda2 * np.eye(m), e)
        # Slightly below the bound, by more than the rounding errors.
        speed = float(np.linalg.norm(dq)) * edge * (1 + 32 * EPSILON)
        return dq / speed if speed > 1 else dq


def _min_damping(sigma: float, edge: float, share: float) -> float:
    """Return the smallest λ² with  share σ/(σ² + λ²) <= 1/edge  for this σ and all below."""
    reach = share * edge
    return max(0.0, sigma * (reach - sigma)) if 2 * sigma >= reach else (reach / 2) ** 2


@dataclass(frozen=True, eq=False)
class _Problem:
    """J scaled to unit size and reduced to at most n rows, with û in the same coordinates."""

    J: Array  # (k, n)
    u: Array  # (k,)
    Q: Array | None  # (m, k): basis of the range of J if m > n
    scale: float  # the largest entry of the original J; 1 if J = 0
    gram: Array  # J Jᵀ (k, k)
    blur: float  # bound on the rounding errors of gram; 1 if J = 0

    @classmethod
    def prepare(cls, J: Array, u: Array) -> _Problem:
        if J.ndim != 2 or 0 in J.shape or u.shape != J.shape[:1]:
            raise InputError(
                "J must be (m, n) with as many rows as the direction in memory has entries; "
                f"given: {J.shape} and {u.shape}. `start` makes the memory"
            )
        scale = float(np.abs(J).max()) or 1.0
        J, Q = J / scale, None
        if J.shape[0] > J.shape[1]:
            Q, J = (np.asarray(x, dtype=np.float64) for x in np.linalg.qr(J))
            u = Q.T @ u
        gram = J @ J.T
        blur = BLUR * len(gram) * float(np.trace(gram))
        return cls(J, u, Q, scale, gram, blur or 1.0)

    def reduced(self, e: Array) -> Array:
        return e if self.Q is None else self.Q.T @ e

    def estimate(self, u: Array, sigma2: float) -> SingularDirection:
        outside = u if self.Q is None else self.Q @ u
        return SingularDirection(outside, math.sqrt(sigma2) * self.scale)

    def iterate(self, lambda2: float, alpha2: float) -> tuple[Array, float]:
        """Return û after one inverse iteration, and σ̂²."""
        if not self.gram.any():  # J = 0: all directions are equivalent
            return (self.u if self.u.any() else np.eye(len(self.u))[0]), 0.0
        shift = lambda2 + self.blur
        inverse: Array = np.asarray(np.linalg.inv(self.gram + shift * np.eye(len(self.u))))
        u, turned = self.u, inverse @ self.u
        columns = np.linalg.norm(inverse, axis=0)
        axis = int(columns.argmax())
        if 2 * np.linalg.norm(turned) < columns[axis] * np.linalg.norm(u) or not u.any():
            u, turned = np.eye(len(u))[axis], inverse[:, axis]
        size = float(np.linalg.norm(turned)) / float(np.linalg.norm(u))
        turned = np.asarray(turned / np.linalg.norm(turned), dtype=np.float64)
        # The term α² û ûᵀ increases 1/‖û'‖ by α² times the cosine between û and û'.
        lost = alpha2 * (1 - float(turned @ u) / float(np.linalg.norm(u)))
        return turned, max(0.0, 1 / size - shift - lost)
