"""Criteria for redundant robots: costs h(q) to be reduced; each criterion returns ∇h(q)."""

from supple.criteria.criterion import (
    Clearance,
    Criterion,
    GravityTorque,
    LimitDistance,
    Manipulability,
    RestPosture,
)
from supple.criteria.shapes import Capsule, Sphere

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
