"""Criteria for redundant robots: costs h(q) to be reduced; each criterion returns ∇h(q)."""

from supple.motion.redundancy.criteria import (
    Clearance,
    Criterion,
    GravityTorque,
    LimitDistance,
    Manipulability,
    RestPosture,
)
from supple.motion.redundancy.shapes import Capsule, Sphere

__all__ = [
    "Capsule",
    "Clearance",
    "Criterion",
    "GravityTorque",
    "LimitDistance",
    "Manipulability",
    "RestPosture",
    "Sphere",
]


def __dir__() -> list[str]:
    return __all__
