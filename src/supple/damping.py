"""Damping rules: functions from a `Linearization` to λ², which is called `lambda2` in the code.

The damped step is  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e.  Along a singular direction with the singular value σ,
its gain is σ/(σ² + λ²), at most 1/(2λ). `supple.DLS(rule)` is the damped step with the λ² of a
rule. Any callable that takes a `Linearization` and returns λ² is a rule. `RULES` lists the rules of
this module. `trade_off` returns speed and error as functions of λ²; `damped_condition` returns the
condition number of the damped matrix.
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
