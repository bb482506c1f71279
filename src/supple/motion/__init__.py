"""Robot, q, tasks -> dq: linearizations, damping rules, steps."""

from supple.motion import damping
from supple.motion.criteria import (
    Clearance,
    LimitDistance,
    ManipulabilityCriterion,
    RestPosture,
)
from supple.motion.linearization import Linearization
from supple.motion.priority import Augmented, Priority
from supple.motion.redundancy import GradientProjection, NullSpace, TotalSpeed, Wampler, leak
from supple.motion.shapes import (
    Capsule,
    Sphere,
)
from supple.motion.step import (
    DLS,
    SDLS,
    ClampAngle,
    ClampError,
    Pseudoinverse,
    Transpose,
    TruncatedSVD,
    steps,
)

__all__ = [
    "DLS",
    "SDLS",
    "Augmented",
    "Capsule",
    "ClampAngle",
    "ClampError",
    "Clearance",
    "GradientProjection",
    "LimitDistance",
    "Linearization",
    "ManipulabilityCriterion",
    "NullSpace",
    "Priority",
    "Pseudoinverse",
    "RestPosture",
    "Sphere",
    "TotalSpeed",
    "Transpose",
    "TruncatedSVD",
    "Wampler",
    "damping",
    "leak",
    "steps",
]
