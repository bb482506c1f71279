"""Damping rules: functions from a `Linearization` to λ², which is called `lambda2` in the code.

The damped step is  q̇ = Jᵀ(J Jᵀ + λ² I)⁻¹ e.  Along a singular direction with the singular value σ,
its gain is σ/(σ² + λ²), at most 1/(2λ). `supple.DLS(rule)` is the damped step with the λ² of a
rule. A rule is a small frozen class that is called with a `Linearization`; any callable that takes
a `Linearization` and returns λ² is a rule. The papers write λ², α² or ρ² for lambda2, except Deo &
Walker, who write λ. `RULES` lists the rules of this package. `trade_off` returns speed and error as
functions of λ²; `damped_condition` returns the condition number of the damped matrix.

The `__call__` of each class is the paper's formula. `kernel` describes the same rule to the
compiled code (`include/supple/step/damping.hpp`), which runs it on batches.
"""

from supple.damping.augmented import AugmentedWeights, VaryingWeights
from supple.damping.condition import ConditionBound, MayorgaCondition, MayorgaRank
from supple.damping.constant import Constant
from supple.damping.error import Curvature, ErrorDamped, ErrorNorm
from supple.damping.manipulability import Manipulability, ManipulabilityRate
from supple.damping.optimal import Optimal
from supple.damping.residual import ResidualOptimal
from supple.damping.rule import DampingRule
from supple.damping.singular_value import Region, SpeedBound, TrackingBound
from supple.damping.trade_off import (
    NewtonIterates,
    TradeOff,
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


def __dir__() -> list[str]:
    return __all__
