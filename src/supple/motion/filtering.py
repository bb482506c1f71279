"""Numerical filtering: damp the direction that a singularity takes away, and hardly the others.

The direction is remembered from step to step and improved by one inverse iteration in each, which
costs a few products instead of a decomposition. `include/supple/filtering.hpp` is the same on
lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import InputError, short_repr
from supple.kinematics.arrays import ReadOnlyArrays, number_field
from supple.motion.linearization import EPSILON, Array, Linearization, numbers_of

BLUR = 4 * EPSILON  # rounding errors of J Jᵀ are below this times its rows times its trace


@dataclass(frozen=True, eq=False)
class LeastDirection(ReadOnlyArrays):
    """The direction û of the task that J moves least, and how little: a running estimate.

        (J Jᵀ + α² û ûᵀ + λ² I) û' = û,     û <- û'/‖û'‖,     σ̂² = 1/‖û'‖ - α² - λ²,  at least 0

    Each update is one step of inverse iteration, so û follows the least singular vector as J moves,
    also where the two smallest singular values cross. û does not depend on α (Sherman & Morrison).
    Where a coordinate axis would make a start twice as good as û, it is taken: so û cannot be stuck
    across the true vector, and

        σ_min² <= σ̂² <= 2 √m (σ_min² + λ²) - λ²                              (for α = 0)

    holds at any û and any J, to the resolution of J Jᵀ: σ̂ is known to 2e-7 of J's largest singular
    values. Where J has more rows than columns û lies in its range. Where J = 0, û stays.

    Attributes:
        u: û (m,), of length one.
        sigma: σ̂, the estimate of the least singular value.

    References:
        Maciejewski & Klein 1988, eqs. (20)-(26).
    """

    u: Array
    sigma: float = 0.0

    def __post_init__(self) -> None:
        u = numbers_of(self.u, "LeastDirection: u")
        largest = float(np.abs(u).max()) if u.ndim == 1 and u.size else 0.0
        if largest == 0:
            raise InputError(
                f"LeastDirection: u must be a vector, not zero; given: {short_repr(self.u)}"
            )
        u = u / largest
        u = u / np.linalg.norm(u)
        u.flags.writeable = False
        object.__setattr__(self, "u", u)
        number_field(self, "sigma", least=0.0)

    @classmethod
    def of(cls, linearization: Linearization) -> LeastDirection:
        """The exact one, by singular value decomposition."""
        return cls(linearization.U[:, -1], linearization.sigma_min)

    def update(self, J: ArrayLike, lambda2: float = 0.0, alpha2: float = 0.0) -> LeastDirection:
        """The estimate for the next J (m, n), by one inverse iteration.

        Args:
            J: The task Jacobian now.
            lambda2: Damping of the matrix that is inverted. The less, the faster û turns.
            alpha2: Filter gain of that matrix along û, as in `NumericalFilter`.
        """
        problem = _Problem.of(numbers_of(J, "J"), self.u)
        damping = (x / problem.scale / problem.scale for x in (lambda2, alpha2))
        return problem.remembered(*problem.turned(*damping))


@dataclass(frozen=True)
class NumericalFilter:
    """Damp the least direction û of the task as needed, the rest hardly ever.

        (J Jᵀ + α² û ûᵀ + λ² I) z = e,      q̇ = Jᵀ z,    then cut to ‖q̇‖ <= max_gain ‖e‖

    With c the share of e along û, e_o the rest of e, σ_m the least singular value,

        α² = (c/(2 max_gain))²                     if σ_m <= c/(2 max_gain)
             max(0, σ_m c/max_gain - σ_m²)         above
        λ² = what `SpeedBound` takes for the effective singular value
        σ_eff = ‖e‖ / sqrt(‖e_s‖²/σ_m² + ‖e_o‖²/σ_o²),    σ_o² = ‖e_o‖/‖z_o‖

    so a motion that does not ask for the lost direction passes a singularity undamped. The bound is
    on the gain, relative to ‖e‖, as in the paper: the printed 0.05 rad is 0.02 rad/cm times the
    largest commanded speed. Near two small singular values α and λ alone do not keep it, therefore
    the cut. Bounded and finite at every singularity; q̇ = 0 where e = 0 or J = 0.

    Its memory is a `LeastDirection`, updated once at every step before α is chosen. Called as a
    plain step it remembers nothing and takes the exact direction by decomposition;
    `StatefulStep(NumericalFilter(...))` is the plain step that remembers.

    Attributes:
        max_gain: The bound on ‖q̇‖/‖e‖ (θ̇max).
        printed: Take α from eq. (14), whatever e asks for, as the paper does. It blocks the way
            through an inner singularity that the default passes.

    References:
        Maciejewski & Klein 1988, eqs. (27)-(35). z is that of the same interval, not of the one
        before, and z_o = z - û(ûᵀz) instead of eq. (32), which divides a difference by zero.
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
        """Return q̇ (n,), with the exact direction."""
        return self.step(linearization, self.start(linearization))[0]

    def start(self, linearization: Linearization) -> LeastDirection:
        """The exact direction, by singular value decomposition."""
        return LeastDirection.of(linearization)

    def step(
        self, linearization: Linearization, memory: LeastDirection
    ) -> tuple[Array, LeastDirection]:
        """Return q̇ (n,) and the direction to remember."""
        problem = _Problem.of(linearization.J, memory.u)
        u, sigma2 = problem.turned(0.0, 0.0)
        memory = problem.remembered(u, sigma2)
        size = float(np.abs(linearization.e).max())
        e = problem.inside(linearization.e / size) if size > 0 else np.zeros(len(u))
        length = float(np.linalg.norm(e))
        edge = 1 / problem.scale / self.max_gain  # where a singular value's gain is the bound
        if length == 0 or edge >= EPSILON**-2:  # the bound is zero but for rounding
            return np.zeros(linearization.J.shape[1]), memory
        dq = self._filtered(problem, e / length, u, sigma2, edge)
        return size * length * (dq / problem.scale), memory

    def _filtered(self, problem: _Problem, e: Array, u: Array, sigma2: float, edge: float) -> Array:
        """The step for a unit e and a J of unit size."""
        J, m, blur = problem.J, len(e), problem.blur
        sigma, along = math.sqrt(sigma2), float(u @ e)
        alpha2 = _least_damping(sigma, edge, 1.0 if self.printed else abs(along))
        A = problem.gram + alpha2 * np.outer(u, u) + blur * np.eye(m)
        z = np.linalg.solve(A, e)
        across = float(np.linalg.norm(e - along * u))
        z_across = float(np.linalg.norm(z - (u @ z) * u))
        # ‖e_s‖²/σ_m² + ‖e_o‖²/σ_o², the square of the gain without damping
        gain2 = along**2 / max(sigma2, blur)
        if across > 0 and z_across > 0:
            gain2 += across**2 / max(across / z_across - blur, blur)
        lambda2 = _least_damping(1 / math.sqrt(gain2), edge, 1.0) if gain2 > 0 else 0.0
        dq: Array = J.T @ np.linalg.solve(A + lambda2 * np.eye(m), e)
        # A little under the bound, by more than rounding takes away.
        speed = float(np.linalg.norm(dq)) * edge * (1 + 32 * EPSILON)
        return dq / speed if speed > 1 else dq


def _least_damping(sigma: float, edge: float, share: float) -> float:
    """The least λ² with  share σ/(σ² + λ²) <= 1/edge,  for this σ and all below (MK 14)."""
    reach = share * edge
    return max(0.0, sigma * (reach - sigma)) if 2 * sigma >= reach else (reach / 2) ** 2


@dataclass(frozen=True, eq=False)
class _Problem:
    """J of unit size, with no more rows than columns, and û as seen by it."""

    J: Array  # (k, n)
    u: Array  # (k,)
    Q: Array | None  # (m, k): the axes of the range of J where m > n
    scale: float  # the size of the J that was given; 1 if it is zero
    gram: Array  # J Jᵀ (k, k)
    blur: float  # what rounding may change in it; 1 if it is zero

    @classmethod
    def of(cls, J: Array, u: Array) -> _Problem:
        if J.ndim != 2 or 0 in J.shape or u.shape != J.shape[:1]:
            raise InputError(
                f"J must be (m, n) with as many rows as û has entries; given: {J.shape} and "
                f"{u.shape}. `start` makes the memory"
            )
        scale = float(np.abs(J).max()) or 1.0
        J, Q = J / scale, None
        if J.shape[0] > J.shape[1]:
            Q, J = (np.asarray(x, dtype=np.float64) for x in np.linalg.qr(J))
            u = Q.T @ u
        gram = J @ J.T
        blur = BLUR * len(gram) * float(np.trace(gram))
        return cls(J, u, Q, scale, gram, blur or 1.0)

    def inside(self, e: Array) -> Array:
        return e if self.Q is None else self.Q.T @ e

    def remembered(self, u: Array, sigma2: float) -> LeastDirection:
        outside = u if self.Q is None else self.Q @ u
        return LeastDirection(outside, math.sqrt(sigma2) * self.scale)

    def turned(self, lambda2: float, alpha2: float) -> tuple[Array, float]:
        """û after one inverse iteration, and σ̂²."""
        if not self.gram.any():  # J = 0: every direction is as good
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
        # With α² û ûᵀ in the matrix 1/‖û'‖ grows by α² times the cosine of the turn.
        lost = alpha2 * (1 - float(turned @ u) / float(np.linalg.norm(u)))
        return turned, max(0.0, 1 / size - shift - lost)
