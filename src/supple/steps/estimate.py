"""Running estimates of singular values and directions, without a decomposition.

An estimate is kept from step to step and improved by one iteration per step, which costs a few
products. `include/supple/step/estimate.hpp` is the kernel's version. Tuned constants are
explained in docs/constants.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import ReadOnlyArrays, number_field
from supple._core import PARALLEL_WITHIN
from supple.errors import InputError, short_repr
from supple.motion.linearization import EPSILON, Array, Linearization, numbers_of

BLUR = 4 * EPSILON  # bound on the rounding errors of J Jᵀ, divided by rows times trace


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimates and dampings of a step: numbers, or arrays (K,) for K steps.

    Attributes:
        sigma: σ̂, the estimate of the smallest singular value.
        sigma_eff: σ_eff, the singular value that determines λ². For `EstimatedDLS` it is σ̂ of the
            previous step.
        sigma_o: σ_o, the effective singular value outside the filtered directions; infinite if e
            has no component there. For `EstimatedDLS` it is σ_eff.
        alpha2: α², the filter gain along the direction of σ̂; zero for `EstimatedDLS`.
        lambda2: λ², the damping of all directions, before limits.

    References:
        Maciejewski & Klein 1988, eqs. (14), (25), (34), (35).
    """

    sigma: float | Array
    sigma_eff: float | Array
    sigma_o: float | Array
    alpha2: float | Array
    lambda2: float | Array


@dataclass(frozen=True, eq=False)
class SingularDirection(ReadOnlyArrays):
    """A running estimate of the singular direction û of the task, and of its singular value.

        (J Jᵀ + α² û ûᵀ + λ² I) û' = û,     û <- û'/‖û'‖,     σ̂² = 1/‖û'‖ - α² - λ²,  at least 0

    Each update is one inverse iteration, so that û follows the singular vector of the smallest
    singular value as J changes, even where the two smallest singular values cross. û does not
    depend on α (Sherman-Morrison formula). If the inverse stretches a coordinate axis more than
    twice as much as û, this axis replaces û. Therefore û cannot stay orthogonal to the true vector,
    and

        σ_min² <= σ̂² <= 2 √m (σ_min² + λ²) - λ²                              (for α = 0)

    holds for any û and any J, up to the resolution of J Jᵀ: σ̂ is accurate to 2e-7 of J's largest
    singular value. If J has more rows than columns, û lies in the range of J. If J = 0, û is
    unchanged.

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

    @property
    def U(self) -> Array:
        """û as the only column of a matrix (m, 1), as in `SingularSubspace`."""
        return self.u[:, None]

    @classmethod
    def exact(cls, linearization: Linearization) -> SingularDirection:
        """Return the exact direction, by singular value decomposition."""
        return cls(linearization.U[:, -1], linearization.sigma_min)

    def update(self, J: ArrayLike, lambda2: float = 0.0, alpha2: float = 0.0) -> SingularDirection:
        """Return the estimate for the next J (m, n), by one inverse iteration.

        Args:
            J: The next task Jacobian.
            lambda2: Damping of the inverted matrix; with a smaller value û turns faster.
            alpha2: Filter gain of the inverted matrix along û, as in `NumericalFilter`.
        """
        problem = ScaledProblem.prepare(numbers_of(J, "J"), self.U)
        damping = (x / problem.scale / problem.scale for x in (lambda2, alpha2))
        u, sigma2 = problem.iterate(*damping)
        return SingularDirection(problem.restored(u), math.sqrt(sigma2) * problem.scale)


@dataclass(frozen=True, eq=False)
class SingularSubspace(ReadOnlyArrays):
    """A running estimate of the p weakest singular directions of the task, the weakest first.

    The first column is û of `SingularDirection` with λ = α = 0. Each further column is iterated
    orthogonally to the previous ones, so that the columns span the subspace of the p smallest
    singular values even if some of these are equal.

    Attributes:
        U: Orthonormal columns û_1 .. û_p (m, p).
        sigmas: σ̂_1 .. σ̂_p (p,), the estimates of their singular values.

    References:
        Maciejewski & Klein 1988, eqs. (20)-(26), for p = 1.
    """

    U: Array
    sigmas: Array

    def __post_init__(self) -> None:
        for name in ("U", "sigmas"):
            object.__setattr__(self, name, numbers_of(getattr(self, name), name))
        if self.U.ndim != 2 or self.sigmas.shape != self.U.shape[1:]:
            given = f"{self.U.shape} and {self.sigmas.shape}"
            raise InputError(f"SingularSubspace: U must be (m, p) and sigmas (p,); given: {given}")

    @property
    def u(self) -> Array:
        """û_1 (m,), the direction of the smallest singular value."""
        return self.U[:, 0]

    @property
    def sigma(self) -> float:
        """σ̂_1, the estimate of the smallest singular value."""
        return float(self.sigmas[0])

    @classmethod
    def exact(cls, linearization: Linearization, count: int) -> SingularSubspace:
        """Return the `count` weakest directions, or all, by singular value decomposition."""
        some = slice(None, -count - 1, -1)
        return cls(linearization.U[:, some], linearization.sigma[some])


@dataclass(frozen=True, eq=False)
class ExtremeValues(ReadOnlyArrays):
    """A running estimate of the smallest and of the largest singular value of the task.

    Attributes:
        u: û (m,), the direction of the smallest singular value, of unit length.
        sigma_min: The estimate of the smallest singular value.
        w: ŵ (m,), the direction of the largest singular value, of unit length.
        sigma_max: The estimate of the largest singular value.

    References:
        Maciejewski & Klein 1988, eqs. (20)-(26), for û; ŵ is estimated by the power method.
    """

    u: Array
    sigma_min: float
    w: Array
    sigma_max: float

    def __post_init__(self) -> None:
        for name in ("u", "w"):
            object.__setattr__(self, name, numbers_of(getattr(self, name), name))
        if self.u.ndim != 1 or self.w.shape != self.u.shape:
            given = f"{self.u.shape} and {self.w.shape}"
            raise InputError(f"ExtremeValues: u and w must be (m,); given: {given}")
        number_field(self, "sigma_min", least=0.0)
        number_field(self, "sigma_max", least=0.0)

    @classmethod
    def exact(cls, linearization: Linearization) -> ExtremeValues:
        """Return the exact extreme singular values and their left singular vectors."""
        U = linearization.U
        return cls(U[:, -1], linearization.sigma_min, U[:, 0], linearization.sigma_max)


class EstimatedLinearization(Linearization):
    """A linearization whose extreme singular values are estimates."""

    def __init__(self, linearization: Linearization, estimate: ExtremeValues) -> None:
        one = linearization.single()
        super().__init__(one.J, one.e, before=one.before, rows=one.rows, q=one.q)
        object.__setattr__(self, "_estimate", estimate)

    @property
    def sigma_min(self) -> float:
        """The estimate of the smallest singular value."""
        return float(self._estimate.sigma_min)  # type: ignore[attr-defined]

    @property
    def sigma_max(self) -> float:
        """The estimate of the largest singular value."""
        return float(self._estimate.sigma_max)  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class ScaledProblem:
    """J scaled to unit size and reduced to at most n rows, and directions in these coordinates."""

    J: Array  # (k, n)
    U: Array  # (k, p)
    Q: Array | None  # (m, k): basis of the range of J if m > n
    scale: float  # a power of two near the largest entry of the original J; 1 if J = 0
    gram: Array  # J Jᵀ (k, k)
    blur: float  # bound on the rounding errors of gram; 1 if J = 0

    @classmethod
    def prepare(cls, J: Array, U: Array) -> ScaledProblem:
        """Scale and reduce J (m, n) and directions U (m, p)."""
        if J.ndim != 2 or 0 in J.shape or U.shape[0] != J.shape[0]:
            raise InputError(
                "J must be (m, n) with as many rows as the direction in memory has entries; "
                f"given: {J.shape} and {U.shape[:1]}. `start` returns the memory"
            )
        largest = float(np.abs(J).max())
        scale = 2.0 ** max(math.frexp(largest)[1] - 1, -1022) if largest else 1.0
        J, Q = J / scale, None
        if J.shape[0] > J.shape[1]:
            Q, J = (np.asarray(x, dtype=np.float64) for x in np.linalg.qr(J))
            U = Q.T @ U
        gram = J @ J.T
        blur = BLUR * len(gram) * float(np.trace(gram))
        return cls(J, U, Q, scale, gram, blur or 1.0)

    def reduced(self, x: Array) -> Array:
        """Return x (m, ...) in the coordinates of this problem."""
        return x if self.Q is None else self.Q.T @ x

    def restored(self, x: Array) -> Array:
        """Return x (k, ...) in the coordinates of the task."""
        return x if self.Q is None else self.Q @ x

    def exact(self) -> tuple[Array, Array]:
        """Return all directions (k, k), the weakest first, and their singular values (k,)."""
        U, sigma, _ = np.linalg.svd(self.J, full_matrices=False)
        return U[:, ::-1], sigma[::-1]

    def inverse(self, shift: float) -> Array:
        """Return (J Jᵀ + shift I)⁻¹."""
        return np.asarray(np.linalg.inv(self.gram + shift * np.eye(len(self.gram))))

    def iterate(self, lambda2: float, alpha2: float) -> tuple[Array, float]:
        """Return û after one inverse iteration from the first direction, and σ̂²."""
        u = self.U[:, 0]
        if not self.gram.any():  # J = 0: all directions are equivalent
            return (u if u.any() else np.eye(len(u))[0]), 0.0
        shift = lambda2 + self.blur
        inverse = self.inverse(shift)
        turned = inverse @ u
        columns = np.linalg.norm(inverse, axis=0)
        axis = int(columns.argmax())
        if 2 * np.linalg.norm(turned) < columns[axis] * np.linalg.norm(u) or not u.any():
            u, turned = np.eye(len(u))[axis], inverse[:, axis]
        size = float(np.linalg.norm(turned)) / float(np.linalg.norm(u))
        turned = np.asarray(turned / np.linalg.norm(turned), dtype=np.float64)
        # The term α² û ûᵀ increases 1/‖û'‖ by α² times the cosine of the angle from û to û'.
        lost = alpha2 * (1 - float(turned @ u) / float(np.linalg.norm(u)))
        return turned, max(0.0, 1 / size - shift - lost)

    def iterate_all(self) -> tuple[Array, Array] | None:
        """Return all directions after one inverse iteration, and σ̂² (p,).

        Return None if the directions are not a usable estimate: the inverse stretches the first one
        by less than half of the inverse's largest diagonal entry, or a direction lies in the span
        of the previous ones.
        """
        if not self.gram.any():
            return self.U, np.zeros(self.U.shape[1])
        inverse = self.inverse(self.blur)
        U, sizes = np.empty_like(self.U), np.empty(self.U.shape[1])
        for i, u in enumerate(self.U.T):
            before = U[:, :i]
            u = u - before @ (before.T @ u)
            length = float(np.linalg.norm(u))
            if length < PARALLEL_WITHIN:
                return None
            turned = inverse @ (u / length)
            turned = turned - before @ (before.T @ turned)
            sizes[i] = np.linalg.norm(turned)
            U[:, i] = turned / sizes[i]
        if 2 * sizes[0] < np.diagonal(inverse).max():
            return None
        return U, np.maximum(0.0, 1 / sizes - self.blur)
