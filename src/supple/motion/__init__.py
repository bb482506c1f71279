"""Robot, q, tasks -> dq: linearizations, damping rules, steps."""

from supple.motion import damping
from supple.motion.alternate import alternate_jacobian
from supple.motion.batch import steps
from supple.motion.clamp import AdaptiveClampError, ClampAngle, ClampError
from supple.motion.filtering import LeastDirection, NumericalFilter
from supple.motion.linearization import Linearization
from supple.motion.memory import Remembering
from supple.motion.selective import SDLS
from supple.motion.step import DLS, Pseudoinverse, Transpose, TruncatedSVD
from supple.motion.weighted import WeightedDLS
from supple.motion.wrist import SphericalWrist

__all__ = [
    "DLS",
    "SDLS",
    "AdaptiveClampError",
    "ClampAngle",
    "ClampError",
    "LeastDirection",
    "Linearization",
    "NumericalFilter",
    "Pseudoinverse",
    "Remembering",
    "SphericalWrist",
    "Transpose",
    "TruncatedSVD",
    "WeightedDLS",
    "alternate_jacobian",
    "damping",
    "steps",
]
