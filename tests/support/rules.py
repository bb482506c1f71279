"""The damping rules used by the tests, each with parameters for strong and weak damping."""

from __future__ import annotations

from supple.damping import (
    ConditionBound,
    Constant,
    Curvature,
    ErrorDamped,
    ErrorNorm,
    Manipulability,
    ManipulabilityRate,
    MayorgaCondition,
    MayorgaRank,
    Optimal,
    Region,
    ResidualOptimal,
    SpeedBound,
    TrackingBound,
)
from supple.damping.rule import KernelRule

EVERY: tuple[KernelRule, ...] = (
    Constant(0.0),
    Constant(0.04),
    Manipulability(0.04, 0.3),
    Manipulability(1.0, 1e-4),
    ManipulabilityRate(0.04, 0.99, 0.01, 0.1),
    ManipulabilityRate(0.04, 1.5, 0.0, 1e-4),
    ErrorDamped(2.0),
    SpeedBound(0.7),
    SpeedBound(5.0),
    TrackingBound(),
    TrackingBound(0.5),
    ConditionBound(1.5),
    ConditionBound(1e4),
    Region(0.04, 0.3),
    Region(1.0, 1e-3),
    MayorgaCondition(0.01, 100.0, 0.04),
    MayorgaCondition(1e-6, 2.0, 1.0),
    MayorgaRank(0.01, 0.04),
    MayorgaRank(1e-6, 1.0),
    Optimal(0.5),
    Optimal(20.0),
    Optimal(0.5, newton=True),
    Optimal(20.0, newton=True),
    Curvature(0.5),
    Curvature(1e-4),
    ErrorNorm(0.3),
    ResidualOptimal(),
    ResidualOptimal(0.7),
)

# Valid values of the parameters of each class.
NUMBERS: dict[type[KernelRule], dict[str, float]] = {
    Constant: {"lambda2": 1.0},
    Manipulability: {"lambda2_max": 1.0, "threshold": 1.0},
    ManipulabilityRate: {
        "lambda2_max": 1.0,
        "ratio": 0.9,
        "floor_lambda2": 1.0,
        "floor_threshold": 1.0,
    },
    ErrorDamped: {"gain": 1.0},
    SpeedBound: {"max_gain": 1.0},
    TrackingBound: {"max_error": 0.5},
    ConditionBound: {"max_condition": 10.0},
    Region: {"lambda2_max": 1.0, "size": 1.0},
    MayorgaCondition: {"lambda2_0": 1.0, "max_condition": 10.0, "lambda2_max": 1.0},
    MayorgaRank: {"lambda2_0": 1.0, "lambda2_max": 1.0},
    Optimal: {"max_speed": 1.0},
    Curvature: {"curvature": 1.0},
    ErrorNorm: {"gain": 1.0},
    ResidualOptimal: {"max_error": 0.5},
}


def key(value: object) -> str:
    """Return a test id for a rule: its repr without spaces."""
    return str(value).replace(" ", "")
