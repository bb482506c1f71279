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
    AdaptiveClampError,
    ClampAngle,
    ClampError,
    LeastDirection,
    Linearization,
    NumericalFilter,
    Pseudoinverse,
    Remembering,
    SphericalWrist,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
    alternate_jacobian,
    damping,
    steps,
)

__all__ = [
    "DLS",
    "SDLS",
    "AdaptiveClampError",
    "ClampAngle",
    "ClampError",
    "Description",
    "DescriptionError",
    "InputError",
    "LeastDirection",
    "Linearization",
    "MissingExtraError",
    "NumericalFilter",
    "Pseudoinverse",
    "Remembering",
    "Robot",
    "SphericalWrist",
    "SuppleError",
    "Transpose",
    "TruncatedSVD",
    "UnknownNameError",
    "WeightedDLS",
    "__version__",
    "alternate_jacobian",
    "damping",
    "dh",
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
