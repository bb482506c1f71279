"""Weights and damping of an augmented task; both vary with the distance from singularities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supple._arrays.checks import number_field
from supple.errors import InputError
from supple.motion.linearization import Linearization, stacked


@dataclass(frozen=True)
class AugmentedWeights:
    """Weights of an augmented task and its damping, for one step.

    Attributes:
        weights: One weight per task, 1 for the main task.
        lambda2: The damping λ².
    """

    weights: tuple[float, ...]
    lambda2: float


@dataclass(frozen=True)
class VaryingWeights:
    """Weights of constraint tasks, and damping, that vary with the distance from singularities.

        minimize ‖J_1 q̇ - e_1‖² + Σ_k w ‖J_k q̇ - e_k‖² + λ²‖q̇‖²

        depth = 1 - (σ/size)²  if σ < size, else 0,     σ the smallest singular value of all rows
        w     = 1 - (1 - min_weight) sqrt(depth)
        λ²    = lambda2_max depth

    Away from singularities all tasks have the same weight and nothing is damped. At an artificial
    singularity, where the tasks conflict but the main one has full rank, λ² < w ≪ 1: the constraint
    tasks lose nearly all of their motion, and the main task has an error of order w. If the
    smallest singular value σ_1 of the main task itself is small, there is more damping:

        λ²    = lambda2_max depth + main_lambda2_max (1 - (σ_1/main_size)²)   if σ_1 < main_size

    w and λ² are continuous.

    Attributes:
        lambda2_max: Damping at an artificial singularity; it must be below min_weight.
        size: Value of σ below which the weights vary and damping acts.
        min_weight: Weight of the constraint tasks at the singularity, between 0 and 1.
        main_lambda2_max: Additional damping where the main task is singular.
        main_size: Value of σ_1 below which the additional damping acts.

    References:
        Egeland et al. 1991 (w, λ < w); Seraji & Colbaugh 1990 (weights that spare the main task);
        Deo & Walker 1995, section 4, eq. (19). The functions of σ are those of Chiaverini, Egeland
        & Kanestrom 1991; Deo & Walker name no function.
    """

    lambda2_max: float
    size: float
    min_weight: float = 0.01
    main_lambda2_max: float = 0.0
    main_size: float = 0.0

    def __post_init__(self) -> None:
        number_field(self, "min_weight", above=0.0, most=1.0)
        number_field(self, "lambda2_max", least=0.0)
        number_field(self, "size", above=0.0)
        number_field(self, "main_lambda2_max", least=0.0)
        number_field(self, "main_size", least=0.0)
        if self.lambda2_max >= self.min_weight:
            raise InputError(
                "VaryingWeights: lambda2_max must be below min_weight, so that the main task "
                f"counts more; given: {self.lambda2_max:.3g} and {self.min_weight:.3g}"
            )

    def __call__(self, linearizations: Sequence[Linearization]) -> AugmentedWeights:
        """Return the weights for the linearizations of the tasks, the main task first."""
        parts = [part.single() for part in linearizations]
        both = stacked(parts)
        m, n = both.J.shape
        # More rows than joints always conflict: the smallest of m singular values is then zero.
        depth = _depth(both.sigma_min if m <= n else 0.0, self.size)
        weight = 1 - (1 - self.min_weight) * depth**0.5
        lambda2 = self.lambda2_max * depth
        lambda2 += self.main_lambda2_max * _depth(parts[0].sigma_min, self.main_size)
        return AugmentedWeights((1.0, *[weight] * (len(parts) - 1)), lambda2)


def _depth(sigma: float, size: float) -> float:
    """Return the depth in a region: 0 at its edge and outside, 1 at the singularity."""
    return 1 - (sigma / size) ** 2 if sigma < size else 0.0
