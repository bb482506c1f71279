"""Damping rules: functions from a Linearization to λ².

The damped step is  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e.  Along a singular direction with the singular value σ,
its gain is σ/(σ² + λ²), at most 1/(2λ). A rule is a small frozen class that is called with a
`Linearization` and returns `lambda2`; any callable with this signature can serve as a rule. The
papers write λ², α² or ρ² for lambda2, except Deo & Walker, who write λ.

The `__call__` of each class is the paper's formula. `kernel` describes the same rule to the
compiled code (`include/supple/step/damping.hpp`), which runs it on batches.
"""

from supple._core import Rule
from supple.motion.damping.augmented import AugmentedWeights, VaryingWeights
from supple.motion.damping.condition import ConditionBound, MayorgaCondition, MayorgaRank
from supple.motion.damping.constant import Constant
from supple.motion.damping.error import Curvature, ErrorDamped, ErrorNorm
from supple.motion.damping.manipulability import Manipulability, ManipulabilityRate
from supple.motion.damping.optimal import Optimal
from supple.motion.damping.residual import ResidualOptimal
from supple.motion.damping.rule import DampingRule, KernelRule
from supple.motion.damping.singular_value import Region, SpeedBound, TrackingBound
from supple.motion.damping.trade_off import (
    NewtonIterates,
    TradeOff,
    newton_iterates,
    trade_off,
)

__all__ = [
    "RULES",
    "AugmentedWeights",
    "ConditionBound",
    "Constant",
    "Curvature",
    "DampingRule",
    "ErrorDamped",
    "ErrorNorm",
    "KernelRule",
    "Manipulability",
    "ManipulabilityRate",
    "MayorgaCondition",
    "MayorgaRank",
    "NewtonIterates",
    "Optimal",
    "Region",
    "ResidualOptimal",
    "Rule",
    "SpeedBound",
    "TrackingBound",
    "TradeOff",
    "VaryingWeights",
    "newton_iterates",
    "trade_off",
]

RULES = (
    Constant,
    Manipulability,
    ManipulabilityRate,
    ErrorDamped,
    SpeedBound,
    TrackingBound,
    ConditionBound,
    Region,
    MayorgaCondition,
    MayorgaRank,
    Optimal,
    Curvature,
    ErrorNorm,
    ResidualOptimal,
)
