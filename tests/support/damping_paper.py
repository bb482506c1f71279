"""The papers' damping rules, transcribed literally and evaluated slowly with sixty digits.

Matrices are NumPy arrays of Decimal, so results are exact for a given J of any condition number.
The transcriptions are made from Deo & Walker 1995 (DW), Maciejewski & Klein 1988 (MK) and
corrections of their misprints, not from supple's code. λ² is `lambda2` throughout (DW print λ).
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

Array = np.ndarray
P, R = ParamSpec("P"), TypeVar("R")
EPS = np.finfo(float).eps
ZERO_RANK = 16 * EPS  # singular values up to this fraction of the largest are zero


def sixty_digits(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it is evaluated with sixty digits."""

    @wraps(f)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with decimal.localcontext() as context:
            context.prec = 60
            return f(*args, **kwargs)

    return wrapped


exact = np.vectorize(Decimal, otypes=[object])  # the exact values of the floats


def norm(v: Array) -> Decimal:
    return sum((x * x for x in v.ravel()), Decimal(0)).sqrt()


def gram(J: Array) -> Array:
    """Return J Jᵀ, or JᵀJ if J has more rows than columns."""
    return J @ J.T if J.shape[0] <= J.shape[1] else J.T @ J


def eliminated(A: Array, b: Array) -> tuple[Array, Decimal]:
    """Return the solution of A x = b and det A, by Gaussian elimination with row exchanges."""
    A, b, det = A.copy(), b.copy(), Decimal(1)
    n = len(A)
    for i in range(n):
        p = i + int(np.argmax(np.abs(A[i:, i])))
        if p != i:
            A[[i, p]], b[[i, p]], det = A[[p, i]], b[[p, i]], -det
        det *= A[i, i]
        if det == 0:
            return b, det
        for k in range(i + 1, n):
            factor = A[k, i] / A[i, i]
            A[k, i:] -= factor * A[i, i:]
            b[k] -= factor * b[i]
    for i in reversed(range(n)):
        b[i] = (b[i] - A[i, i + 1 :] @ b[i + 1 :]) / A[i, i]
    return b, det


def eigenvalues(A: Array) -> Array:
    """Return the eigenvalues of a symmetric matrix, ascending, by Jacobi rotations."""
    A = A.copy()
    n = len(A)
    for _ in range(60):
        away = max((abs(A[i, k]) for i in range(n) for k in range(i)), default=Decimal(0))
        if away <= Decimal("1e-40") * np.abs(np.diagonal(A)).max():
            break
        for i in range(n):
            for k in range(i):
                if A[i, k] == 0:
                    continue
                theta = (A[k, k] - A[i, i]) / (2 * A[i, k])
                t = 1 / (abs(theta) + (theta * theta + 1).sqrt())
                t = t if theta >= 0 else -t
                c = 1 / (t * t + 1).sqrt()
                s = t * c
                A[i], A[k] = c * A[i] - s * A[k], s * A[i] + c * A[k]
                A[:, i], A[:, k] = c * A[:, i] - s * A[:, k], s * A[:, i] + c * A[:, k]
    return np.sort(np.diagonal(A))


@sixty_digits
def damped_step(J: Array, e: Array, lambda2: Decimal) -> Array:
    """Return the damped step Jᵀ(J Jᵀ + λ² I)⁻¹ e  (DW 4)."""
    return J.T @ eliminated(J @ J.T + lambda2 * exact(np.eye(len(J))), e)[0]


@dataclass(frozen=True)
class Measures:
    """The quantities from which all rules except the optimal one compute λ²."""

    sigma: Array  # singular values, descending
    redundant: bool  # more columns than rows
    rank: int  # number of nonzero singular values
    w: Decimal  # sqrt(det(J Jᵀ))
    w_before: Decimal | None
    error2: Decimal  # ‖e‖²
    change: Decimal  # ‖J - J before‖, Frobenius
    blur: Decimal  # error of singular values by a backward stable decomposition
    blur_w: Decimal  # error of w
    blur_w_before: Decimal  # error of the previous w

    @property
    def sigma_min(self) -> Decimal:
        return self.sigma[-1]

    @sixty_digits
    def moved(self, first: int, others: int, before: int) -> Measures:
        """Return the measures changed by rounding errors, whose signs (-1, 0, 1) are `first` for
        σ_1, `others` for the other singular values and w, and `before` for the previous w.
        """
        shift = np.array([first] + [others] * (len(self.sigma) - 1)) * self.blur
        w_before = self.w_before
        if w_before is not None:
            w_before = max(Decimal(0), w_before + before * self.blur_w_before)
        w = max(Decimal(0), self.w + others * self.blur_w)
        return replace(self, sigma=np.maximum(self.sigma + shift, 0), w=w, w_before=w_before)


@cache
@sixty_digits
def decomposed(shape: tuple[int, ...], numbers: bytes) -> tuple[Array, Decimal, Decimal, Decimal]:
    """Return σ of a J of floats, largest first, a bound on the errors of LAPACK's σ, then
    w = sqrt(det(J Jᵀ)), and a bound on the error of w if it is the product of LAPACK's σ.
    """
    J = exact(np.frombuffer(numbers).reshape(shape))
    sigma = np.array([max(Decimal(0), x).sqrt() for x in eigenvalues(gram(J))[::-1]])
    blur = 4 * max(shape) * Decimal(EPS) * sigma[0]
    w = max(Decimal(0), eliminated(gram(J), gram(J)[0])[1]).sqrt()
    return sigma, blur, w, np.prod(sigma + blur) - np.prod(sigma)


@sixty_digits
def measures(J: Array, e: Array, before: Array | None) -> Measures:
    """Return the measures of a Jacobian, a task vector and the previous Jacobian, all floats."""
    sigma, blur, w, blur_w = decomposed(J.shape, J.tobytes())
    first = J if before is None else before
    _, _, w_before, blur_w_before = decomposed(first.shape, first.tobytes())
    return Measures(
        sigma=sigma,
        redundant=J.shape[0] < J.shape[1],
        rank=int((sigma > Decimal(ZERO_RANK) * sigma[0]).sum()),
        w=w,
        w_before=None if before is None else w_before,
        error2=exact(e) @ exact(e),
        change=norm(exact(J) - exact(first)),
        blur=blur,
        blur_w=blur_w,
        blur_w_before=blur_w_before,
    )


# ---- λ² of DW section 3, methods 1 to 7 ----------------------------------------------------------


def constant(m: Measures, lambda2: Decimal) -> Decimal:
    """Return λ² of method 1, a constant."""
    return lambda2


def manipulability(m: Measures, lambda0: Decimal, w_t: Decimal) -> Decimal:
    """Return λ² of method 2, which depends on the manipulability."""
    return lambda0 * (1 - m.w / w_t) ** 2 if m.w < w_t else Decimal(0)


def manipulability_rate(
    m: Measures, lambda0: Decimal, ratio_t: Decimal, floor: Decimal, w_t: Decimal
) -> Decimal:
    """Return λ² of method 3, or of method 2 if that is larger or method 3 is undefined."""
    least = manipulability(m, floor, w_t)
    if m.w_before is None or m.w_before == 0 or m.w / m.w_before >= ratio_t:
        return least
    return max(least, lambda0 * (1 - m.w / m.w_before))


def error_damped(m: Measures, lambda0: Decimal) -> Decimal:
    """Return λ² of method 4, eq. (5), which depends on the error."""
    return lambda0 * m.error2


def speed_bound_as_printed(m: Measures, max_speed: Decimal) -> Decimal:
    """Return λ² of method 5 as printed in eq. (6) and MK (14), with only two cases."""
    if m.sigma_min > 1 / max_speed:
        return Decimal(0)
    return m.sigma_min / max_speed - m.sigma_min**2


def speed_bound(m: Measures, max_speed: Decimal) -> Decimal:
    """Return λ² by MK (14) where σ_min > λ, and by MK (10), λ = 1/(2 θ̇max), elsewhere."""
    if m.sigma_min < 1 / max_speed / 2:
        return (1 / max_speed / 2) ** 2
    return speed_bound_as_printed(m, max_speed)


def tracking_bound(m: Measures, max_error: Decimal) -> Decimal:
    """Return λ² for a bound on the relative error: eq. (7), MK (16)."""
    return m.sigma[max(m.rank, 1) - 1] ** 2 * max_error / (1 - max_error)


def condition_bound(m: Measures, k_max: Decimal) -> Decimal:
    """Return λ² for a bound on the condition number: eq. (8), MK (18), with max(0, .).

    As the paper states, "0 is used for σ_n if m < n".
    """
    sigma_n = Decimal(0) if m.redundant else m.sigma_min
    return max(Decimal(0), (m.sigma[0] ** 2 - k_max * sigma_n**2) / (k_max - 1))


def region(m: Measures, lambda_max: Decimal, size: Decimal) -> Decimal:
    """Return λ² of method 6, which damps in a region around singularities."""
    return (1 - (m.sigma_min / size) ** 2) * lambda_max if m.sigma_min < size else Decimal(0)


def mayorga(l: Decimal | None, lambda0: Decimal, cap: Decimal) -> Decimal:  # noqa: E741
    """Return λ² of method 7, at most `cap`; l is None where it is infinite."""
    if l is None:
        return cap
    return min(cap, lambda0 * (1 - l) ** 2) if l > 1 else Decimal(0)


def mayorga_condition(m: Measures, lambda0: Decimal, k_max: Decimal, cap: Decimal) -> Decimal:
    """Return λ² of method 7, first form: l is the condition number of J Jᵀ divided by k_max."""
    if m.sigma[0] == 0:
        return Decimal(0)
    l = None if m.sigma_min == 0 else (m.sigma[0] / m.sigma_min) ** 2 / k_max  # noqa: E741
    return mayorga(l, lambda0, cap)


def mayorga_rank(m: Measures, lambda0: Decimal, cap: Decimal) -> Decimal:
    """Return λ² of method 7, second form: l is the change of J divided by σ_min."""
    if m.change == 0:
        return Decimal(0)
    return mayorga(None if m.sigma_min == 0 else m.change / m.sigma_min, lambda0, cap)


def curvature(m: Measures, kappa: Decimal) -> Decimal:
    """Return the smallest λ² with σ² + λ² >= κ‖e‖; this rule is supple's own."""
    return max(Decimal(0), kappa * m.error2.sqrt() - m.sigma_min**2)


def error_norm(m: Measures, gain: Decimal) -> Decimal:
    """Return λ² = μ‖e‖, the Levenberg-Marquardt parameter of Fan & Yuan 2005 with δ = 1."""
    return gain * m.error2.sqrt()


FORMULAS: dict[str, Callable[..., Decimal]] = {
    "Constant": constant,
    "Manipulability": manipulability,
    "ManipulabilityRate": manipulability_rate,
    "ErrorDamped": error_damped,
    "SpeedBound": speed_bound,
    "TrackingBound": tracking_bound,
    "ConditionBound": condition_bound,
    "Region": region,
    "MayorgaCondition": mayorga_condition,
    "MayorgaRank": mayorga_rank,
    "Curvature": curvature,
    "ErrorNorm": error_norm,
}


@sixty_digits
def lambda2(rule: Any, m: Measures) -> Decimal:
    """Return λ² by the transcription of a rule, with the parameters of that rule."""
    return FORMULAS[type(rule).__name__](m, *(Decimal(p) for p in rule.kernel.parameters))


@sixty_digits
def region_weight(m: Measures, size: float, w_min: float, d: Array) -> Array:
    """Return W of method 6: I + (w - 1) d dᵀ, (w - 1)² = [1 - (σ/ε)²](w_min - 1)², ‖d‖ = 1."""
    depth = max(Decimal(0), 1 - (m.sigma_min / Decimal(size)) ** 2)
    w = 1 - (depth * (Decimal(w_min) - 1) ** 2).sqrt()
    d = exact(d)
    return exact(np.eye(len(d))) + (w - 1) * np.outer(d, d) / (d @ d)


# ---- DW section 3.1 ----------------------------------------------------------------------------


@sixty_digits
def phi(J: Array, e: Array, lambda2: Decimal | float) -> Decimal:
    """Return φ = ‖Jᵀ(J Jᵀ + λ² I)⁻¹ e‖  (DW 10) for floats J and e; λ² must not be zero."""
    return norm(damped_step(exact(J), exact(e), Decimal(lambda2)))


@sixty_digits
def optimal(J: Array, e: Array, bound: Decimal) -> Decimal:
    """Return the root of φ(λ²) = Δ by bisection; zero if φ < Δ for negligible λ²."""
    if not J.any() or not e.any():
        return Decimal(0)
    high = norm(exact(J).T @ exact(e)) / bound  # φ(λ²) <= ‖Jᵀe‖/λ²
    low = min(high, norm(exact(J)) ** 2) * Decimal("1e-44")
    if high == 0 or phi(J, e, low) <= bound:
        return Decimal(0)
    while high / low - 1 > Decimal("1e-11"):
        # The first steps bisect the logarithm of λ², later ones λ² itself.
        middle = (low * high).sqrt() if high > 2 * low else (low + high) / 2
        if phi(J, e, middle) > bound:
            low = middle
        else:
            high = middle
    return high


# ---- MK section III ----------------------------------------------------------------------------


@sixty_digits
def damping_residual(J: Array, e: Array, lambda2: Decimal | float) -> Decimal:
    """Return the first term of MK (12), ‖e - J q̇‖; J must have full row rank."""
    return norm(exact(e) - exact(J) @ damped_step(exact(J), exact(e), Decimal(lambda2)))


@sixty_digits
def residual_optimal(J: Array, e: Array, share: Decimal | float) -> Decimal:
    """Return the λ² with ‖e - J q̇‖ = share ‖e‖ by bisection; J must have full row rank."""
    if not e.any():
        return Decimal(0)
    bound = Decimal(share) * norm(exact(e))
    high = norm(exact(J)) ** 2
    while damping_residual(J, e, high) < bound:
        high *= 2
    low = high
    while damping_residual(J, e, low) > bound:
        low /= 16
    while high / low - 1 > Decimal("1e-14"):
        middle = (low * high).sqrt() if high > 2 * low else (low + high) / 2
        if damping_residual(J, e, middle) > bound:
            high = middle
        else:
            low = middle
    return low
