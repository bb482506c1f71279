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
    Augmented,
    AxisTask,
    ClampAngle,
    ClampError,
    GradientProjection,
    Limits,
    Linearization,
    NullSpace,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Priority,
    Pseudoinverse,
    Report,
    TotalSpeed,
    Transpose,
    TruncatedSVD,
    Wampler,
    criteria,
    damping,
    explain,
    leak,
    linearize,
    steps,
)
from supple.solve import Servo, Status, Trajectory, track

__all__ = [
    "DLS",
    "SDLS",
    "Augmented",
    "AxisTask",
    "ClampAngle",
    "ClampError",
    "Description",
    "DescriptionError",
    "GradientProjection",
    "InputError",
    "Limits",
    "Linearization",
    "MissingExtraError",
    "NullSpace",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Priority",
    "Pseudoinverse",
    "Report",
    "Robot",
    "Servo",
    "Status",
    "SuppleError",
    "TotalSpeed",
    "Trajectory",
    "Transpose",
    "TruncatedSVD",
    "UnknownNameError",
    "Wampler",
    "__version__",
    "criteria",
    "damping",
    "dh",
    "explain",
    "leak",
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
