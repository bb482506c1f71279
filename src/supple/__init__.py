"""Inverse kinematics that stays smooth, bounded and fast through singularities."""

from importlib.metadata import version as _version

from supple.describe import Description
from supple.errors import (
    DescriptionError,
    InputError,
    MissingExtraError,
    SuppleError,
    UnknownNameError,
)
from supple.kinematics import Robot, dh, load, mjcf, urdf

__version__ = _version("supple")

__all__ = [
    "Description",
    "DescriptionError",
    "InputError",
    "MissingExtraError",
    "Robot",
    "SuppleError",
    "UnknownNameError",
    "__version__",
    "dh",
    "load",
    "mjcf",
    "urdf",
]
