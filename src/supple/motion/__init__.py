"""Robot, q, tasks -> dq: linearizations, damping rules, steps."""

from supple.motion import damping
from supple.motion.linearization import Linearization
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
    "ClampAngle",
    "ClampError",
    "Linearization",
    "Pseudoinverse",
    "Transpose",
    "TruncatedSVD",
    "damping",
    "steps",
]
