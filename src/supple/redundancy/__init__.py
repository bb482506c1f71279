"""Steps for redundant robots: a task plus a criterion, or several tasks.

| step | effect of the criterion on the task | continuous through singularities |
|---|---|---|
| `NullSpace` | none | no: where J loses rank, the null space gains a direction |
| `GradientProjection` | leakage in singular directions with σ ≲ λ | where λ² > 0 |
| `WeightedCriterion`, `TotalSpeed` | leakage in the same directions | yes |
| `Augmented` | tasks that conflict share the error according to their weights | where λ² > 0 |
| `Priority` | none: a task never disturbs tasks of higher priority | with `transition` |

`SupportPolygon` is a constraint of a `Servo` that keeps the center of mass above the feet;
`Constraint` is the interface of a constraint, for type annotations. `extended_task` returns an open
task that keeps a criterion at its optimum (the extended Jacobian method). `self_motion` traces the
configurations that keep the pose of a frame.
"""

from supple.redundancy.balance import SupportPolygon
from supple.redundancy.constraint import Constraint
from supple.redundancy.extended import extended_task
from supple.redundancy.leakage import null_space_leakage
from supple.redundancy.priority import Augmented, Priority
from supple.redundancy.secondary import (
    GradientProjection,
    NullSpace,
    TotalSpeed,
    WeightedCriterion,
)
from supple.redundancy.self_motion import SelfMotion, self_motion

__all__ = [
    "Augmented",
    "Constraint",
    "GradientProjection",
    "NullSpace",
    "Priority",
    "SelfMotion",
    "SupportPolygon",
    "TotalSpeed",
    "WeightedCriterion",
    "extended_task",
    "null_space_leakage",
    "self_motion",
]


def __dir__() -> list[str]:
    return __all__
