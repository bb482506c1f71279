"""Damping rules: each is called with a `Linearization` and returns λ², called `lambda2`.

The damped step is  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e.  Its gain along a singular direction is σ/(σ² + λ²), at
most 1/(2λ). `supple.DLS(rule)` is a step with a rule. Any callable with this signature is a rule.
`RULES` lists all rules. `trade_off` shows speed and error as functions of λ²; `damped_condition` is
the condition number that a λ² leads to.
"""

from supple.motion.damping import (
    RULES,
    AugmentedWeights,
    ConditionBound,
    Constant,
    Curvature,
    DampingRule,
    ErrorDamped,
    ErrorNorm,
    Manipulability,
    ManipulabilityRate,
    MayorgaCondition,
    MayorgaRank,
    NewtonIterates,
    Optimal,
    Region,
    ResidualOptimal,
    SpeedBound,
    TrackingBound,
    TradeOff,
    VaryingWeights,
    newton_iterates,
    trade_off,
)
from supple.motion.linearization import damped_condition

__all__ = [
    "RULES",
    "AugmentedWeights",
    "ConditionBound",
    "Constant",
    "Curvature",
    "DampingRule",
    "ErrorDamped",
    "ErrorNorm",
    "Manipulability",
    "ManipulabilityRate",
    "MayorgaCondition",
    "MayorgaRank",
    "NewtonIterates",
    "Optimal",
    "Region",
    "ResidualOptimal",
    "SpeedBound",
    "TrackingBound",
    "TradeOff",
    "VaryingWeights",
    "damped_condition",
    "newton_iterates",
    "trade_off",
]


def __dir__() -> list[str]:
    return __all__
