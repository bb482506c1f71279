"""Criteria for redundant robots: costs h(q) to be reduced; each criterion returns ∇h(q)."""

from supple.criteria.criterion import (
    Clearance,
    Criterion,
    GravityTorque,
    LimitDistance,
    Manipulability,
    RestPosture,
)

__all__ = [
    "Clearance",
    "Criterion",
    "GravityTorque",
    "LimitDistance",
    "Manipulability",
    "RestPosture",
]


def __getattr__(name: str) -> object:
    hint = ": shapes are in supple.collision" if name in ("Capsule", "Sphere") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return __all__
