"""Inverse kinematics that stays smooth, bounded and fast through singularities."""

from supple import poses
from supple.control.servo import Servo
from supple.control.status import StepStatus
from supple.control.tracking import track
from supple.control.trajectory import Trajectory
from supple.control.velocity import step
from supple.describe import Description
from supple.errors import (
    DescriptionError,
    InputError,
    MissingExtraError,
    SuppleError,
    UnknownNameError,
)
from supple.gpu.runtime import DeviceError, DeviceInfo, devices
from supple.ik.position import solve
from supple.ik.report import SolveReport
from supple.ik.solution import BatchSolution, Solution, Solutions
from supple.ik.status import SolveStatus
from supple.kinematics import Robot, dh, load, mjcf, urdf
from supple.motion import (
    DLS,
    SDLS,
    AdaptiveClampError,
    Augmented,
    AxisTask,
    ClampAngle,
    ClampError,
    GradientProjection,
    LeastDirection,
    Limits,
    Linearization,
    NullSpace,
    NumericalFilter,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Priority,
    Pseudoinverse,
    Report,
    SphericalWrist,
    StatefulStep,
    TotalSpeed,
    Transpose,
    TruncatedSVD,
    Wampler,
    WeightedDLS,
    alternate_jacobian,
    criteria,
    damping,
    explain,
    leak,
    linearize,
    steps,
)
from supple.poses import pose

__all__ = [
    "DLS",
    "SDLS",
    "AdaptiveClampError",
    "Augmented",
    "AxisTask",
    "BatchSolution",
    "ClampAngle",
    "ClampError",
    "Description",
    "DescriptionError",
    "DeviceError",
    "DeviceInfo",
    "GradientProjection",
    "InputError",
    "LeastDirection",
    "Limits",
    "Linearization",
    "MissingExtraError",
    "NullSpace",
    "NumericalFilter",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Priority",
    "Pseudoinverse",
    "Report",
    "Robot",
    "Servo",
    "Solution",
    "Solutions",
    "SolveReport",
    "SolveStatus",
    "SphericalWrist",
    "StatefulStep",
    "StepStatus",
    "SuppleError",
    "TotalSpeed",
    "Trajectory",
    "Transpose",
    "TruncatedSVD",
    "UnknownNameError",
    "Wampler",
    "WeightedDLS",
    "__version__",
    "alternate_jacobian",
    "criteria",
    "damping",
    "devices",
    "dh",
    "explain",
    "leak",
    "linearize",
    "load",
    "mjcf",
    "pose",
    "poses",
    "solve",
    "step",
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
