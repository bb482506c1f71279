"""The steps other than `supple.DLS`: functions from a `Linearization` to q̇.

Called with one linearization, a step returns joint velocities (n,); called with a batch, (..., n).
Any callable with this signature can serve as a step of a `Servo`.
"""

from supple.steps.alternate import alternate_jacobian
from supple.steps.basic import Pseudoinverse, Transpose, TruncatedSVD
from supple.steps.clamp import AdaptiveErrorClamp, AngleClamp, ErrorClamp
from supple.steps.estimate import (
    Estimates,
    ExtremeValues,
    SingularDirection,
    SingularSubspace,
)
from supple.steps.estimated import EstimatedDLS
from supple.steps.filtering import NumericalFilter
from supple.steps.resolved import resolved_motion
from supple.steps.selective import SDLS
from supple.steps.stateful import StatefulStep, StepWithMemory
from supple.steps.step import Step
from supple.steps.velocities import Velocities
from supple.steps.weighted import WeightedDLS
from supple.steps.wrist import SphericalWrist
from supple.steps.yielding import Yielding

__all__ = [
    "SDLS",
    "AdaptiveErrorClamp",
    "AngleClamp",
    "ErrorClamp",
    "EstimatedDLS",
    "Estimates",
    "ExtremeValues",
    "NumericalFilter",
    "Pseudoinverse",
    "SingularDirection",
    "SingularSubspace",
    "SphericalWrist",
    "StatefulStep",
    "Step",
    "StepWithMemory",
    "Transpose",
    "TruncatedSVD",
    "Velocities",
    "WeightedDLS",
    "Yielding",
    "alternate_jacobian",
    "resolved_motion",
]


def __dir__() -> list[str]:
    return __all__
