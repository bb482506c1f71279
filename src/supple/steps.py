"""The steps other than `supple.DLS`: functions from a `Linearization` to q̇.

Called with one linearization, a step returns joint velocities (n,); called with a batch, (..., n).
Any callable with this signature can serve as a step of a `Servo`.
"""

from supple.motion.resolved import resolved_motion
from supple.motion.steps.alternate import alternate_jacobian
from supple.motion.steps.clamp import AdaptiveErrorClamp, AngleClamp, ErrorClamp
from supple.motion.steps.estimate import (
    Estimates,
    ExtremeValues,
    SingularDirection,
    SingularSubspace,
)
from supple.motion.steps.estimated import EstimatedDLS
from supple.motion.steps.filtering import NumericalFilter
from supple.motion.steps.selective import SDLS
from supple.motion.steps.stateful import StatefulStep, StepWithMemory
from supple.motion.steps.step import Pseudoinverse, Step, Transpose, TruncatedSVD
from supple.motion.steps.weighted import WeightedDLS
from supple.motion.steps.wrist import SphericalWrist
from supple.motion.steps.yielding import Yielding

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
    "WeightedDLS",
    "Yielding",
    "alternate_jacobian",
    "resolved_motion",
]


def __dir__() -> list[str]:
    return __all__
