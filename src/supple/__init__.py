"""Inverse kinematics that stays smooth, bounded and fast through singularities."""

from supple.describe import Description
from supple.errors import (
    DescriptionError,
    InputError,
    MissingExtraError,
    SuppleError,
    UnknownNameError,
)
from supple.kinematics import Robot, dh, load, mjcf, pose, urdf
from supple.motion import (
    DLS,
    SDLS,
    AxisTask,
    ClampAngle,
    ClampError,
    Limits,
    Linearization,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Pseudoinverse,
    Report,
    Transpose,
    TruncatedSVD,
    damping,
    explain,
    linearize,
    steps,
)
from supple.solve import Servo, Status, Trajectory, track

__all__ = [
    "DLS",
    "SDLS",
    "AxisTask",
    "ClampAngle",
    "ClampError",
    "Description",
    "DescriptionError",
    "InputError",
    "Limits",
    "Linearization",
    "MissingExtraError",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Pseudoinverse",
    "Report",
    "Robot",
    "Servo",
    "Status",
    "SuppleError",
    "Trajectory",
    "Transpose",
    "TruncatedSVD",
    "UnknownNameError",
    "__version__",
    "damping",
    "dh",
    "explain",
    "linearize",
    "load",
    "mjcf",
    "pose",
    "steps",
    "track",
    "urdf",
]


def __getattr__(name: str) -> str:
    """`__version__`, looked up when asked for: doing so takes a quarter of the import's time."""
    if name == "__version__":
        from importlib.metadata import version

        return version("supple")
    raise AttributeError(f"module 'supple' has no attribute {name!r}")
