"""Damping rules: functions from a `Linearization` to λ², which is called `lambda2` in the code.

The damped step is  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e.  Its gain along a singular direction is σ/(σ² + λ²), at
most 1/(2λ). `supple.DLS(rule)` is the damped step with the λ² of a rule. Any callable that takes a
`Linearization` and returns λ² is a rule. `RULES` lists all rules. `trade_off` shows speed and error
as functions of λ²; `damped_condition` returns the condition number that results from a λ².
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
