"""The trade-off between speed and accuracy as λ² varies, and root searches without safeguards."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import ReadOnlyArrays, number
from supple.errors import InputError, short_repr
from supple.motion.linearization import Array, Linearization, numbers_of


@dataclass(frozen=True, eq=False)
class TradeOff(ReadOnlyArrays):
    """Joint speed and tracking error of damped least squares as functions of λ².

    Attributes:
        lambda2: The dampings (K,).
        speed: ‖q̇‖ (K,) [rad/s and m/s mixed]; Deo & Walker's φ. Decreases with λ².
        residual: ‖e - J q̇‖ (K,), in the units of e. Increases with λ².
    """

    lambda2: Array
    speed: Array
    residual: Array

    def __post_init__(self) -> None:
        _freeze(self.lambda2, self.speed, self.residual)


def trade_off(linearization: Linearization, lambda2: ArrayLike | None = None) -> TradeOff:
    """Return the speed and the error of damped steps over a range of λ².

        speed²    = Σ (σ_i γ_i/(σ_i² + λ²))²                                γ = Uᵀe
        residual² = Σ (λ² γ_i/(σ_i² + λ²))² + ‖e - U γ‖²

    The last term is the part of e outside the range of J, which no step can follow. No other q̇ has
    both a smaller speed and a smaller residual: the curve (residual, speed) is the Pareto front.

    Args:
        linearization: One linearization.
        lambda2: The dampings (K,), not negative; by default 129 of them, from far below the
            smallest to far above the largest σ².

    References:
        Maciejewski & Klein 1988, eqs. (11), (12); Deo & Walker 1995, eq. (10).
    """
    linearization = linearization.single()
    rank = linearization.rank
    sigma, gamma = linearization.sigma[:rank], linearization.gamma[:rank]
    if lambda2 is None:
        least, largest = (float(x) ** 2 for x in (sigma[[-1, 0]] if rank else (1.0, 1.0)))
        lambda2 = np.geomspace(1e-4 * least, 1e4 * largest, 129)
    given = np.atleast_1d(numbers_of(lambda2, "lambda2"))
    if given.ndim != 1 or (given < 0).any():
        raise InputError(f"lambda2 must be numbers (K,), at least 0; given: {short_repr(lambda2)}")
    damped = sigma + given[:, None] / sigma  # (K, rank): σ + λ²/σ
    outside = linearization.e - linearization.U[:, :rank] @ gamma
    lost = gamma * (given[:, None] / sigma) / damped
    return TradeOff(
        lambda2=given,
        speed=np.linalg.norm(gamma / damped, axis=1),
        residual=np.hypot(np.linalg.norm(lost, axis=1), np.linalg.norm(outside)),
    )


@dataclass(frozen=True, eq=False)
class NewtonIterates(ReadOnlyArrays):
    """The iterates of a search for the root of φ(λ²) = max_speed, without safeguards.

    Attributes:
        lambda2: λ² of each iterate (K + 1,), the start first; it may become negative.
        speed: φ(λ²) = ‖q̇‖ of each iterate (K + 1,).
        converged: Whether the last speed is within the tolerance of the bound.
    """

    lambda2: Array
    speed: Array
    converged: bool

    def __post_init__(self) -> None:
        _freeze(self.lambda2, self.speed)


def newton_iterates(
    linearization: Linearization,
    max_speed: float,
    *,
    reciprocal: bool = False,
    start: float = 0.0,
    tolerance: float = 1e-6,
    iterations: int = 50,
) -> NewtonIterates:
    """Return the iterates of Newton's method for φ(λ²) = max_speed, as printed in the paper.

        φ² = Σ (σ_i γ_i/(σ_i² + λ²))²
        λ² <- λ² - (φ - Δ)/φ'                    eq. (17)
        λ² <- λ² - (φ/Δ) (φ - Δ)/φ'              eq. (18), Newton's method on 1/φ

    The search has no safeguards: from a start beyond the root, (17) may jump to a negative λ²,
    where φ has poles. `damping.Optimal` is the safe form. The search ends early if φ is not finite
    or its derivative is zero.

    Args:
        linearization: One linearization; singular values that are exactly zero are omitted.
        max_speed: The bound Δ on ‖q̇‖.
        reciprocal: Whether to use (18) instead of (17).
        start: The first λ².
        tolerance: Relative distance of φ from Δ at which the search ends.
        iterations: Largest number of iterations.

    References:
        Deo & Walker 1995, eqs. (10), (17), (18).
    """
    linearization = linearization.single()
    bound = number(max_speed, "max_speed", above=0.0)
    tolerance = number(tolerance, "tolerance", least=0.0)
    count = int(number(iterations, "iterations", least=0))
    some = linearization.sigma > 0
    sigma, gamma = linearization.sigma[some], linearization.gamma[some]
    x = number(start, "start")
    found, speeds, converged = [], [], False
    with np.errstate(all="ignore"):
        for _ in range(count + 1):
            damped = sigma + x / sigma
            phi = float(np.linalg.norm(gamma / damped))
            found.append(x)
            speeds.append(phi)
            converged = abs(phi - bound) <= tolerance * bound
            slope = -float(((gamma / damped) ** 2 / damped / sigma).sum()) / phi if phi else 0.0
            if converged or not math.isfinite(phi) or not math.isfinite(slope) or slope == 0:
                break
            x -= (phi / bound if reciprocal else 1.0) * (phi - bound) / slope
    return NewtonIterates(np.array(found), np.array(speeds), converged)


def _freeze(*arrays: Array) -> None:
    for array in arrays:
        array.flags.writeable = False
