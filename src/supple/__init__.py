"""Inverse kinematics that stays smooth, bounded and fast through singularities."""

from supple.describe import Description
from supple.errors import (
    DescriptionError,
    InputError,
    MissingExtraError,
    SuppleError,
    UnknownNameError,
)
from supple.kinematics import Robot, dh, load, mjcf, urdf
from supple.motion import (
    DLS,
    SDLS,
    Augmented,
    Capsule,
    ClampAngle,
    ClampError,
    Clearance,
    GradientProjection,
    LimitDistance,
    Linearization,
    ManipulabilityCriterion,
    NullSpace,
    Priority,
    Pseudoinverse,
    RestPosture,
    Sphere,
    TotalSpeed,
    Transpose,
    TruncatedSVD,
    Wampler,
    damping,
    leak,
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
    "Description",
    "DescriptionError",
    "GradientProjection",
    "InputError",
    "LimitDistance",
    "Linearization",
    "ManipulabilityCriterion",
    "MissingExtraError",
    "NullSpace",
    "Priority",
    "Pseudoinverse",
    "RestPosture",
    "Robot",
    "Sphere",
    "SuppleError",
    "TotalSpeed",
    "Transpose",
    "TruncatedSVD",
    "UnknownNameError",
    "Wampler",
    "__version__",
    "damping",
    "dh",
    "leak",
    "load",
    "mjcf",
    "steps",
    "urdf",
]


def __getattr__(name: str) -> str:
    """`__version__`, looked up when asked for: doing so takes a quarter of the import's time."""
    if name == "__version__":
        from importlib.metadata import version

        return version("supple")
    raise AttributeError(f"module 'supple' has no attribute {name!r}")
