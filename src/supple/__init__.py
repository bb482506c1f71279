"""Inverse kinematics that stays smooth, bounded and fast through singularities.

The main names are here. More are in the modules `supple.damping` (damping rules), `supple.steps`
(steps besides `DLS`), `supple.redundancy` and `supple.criteria` (redundant robots), `supple.paths`
(joint paths and their timing), `supple.poses` (conversions and interpolation) and `supple.errors`.
"""

from supple import criteria, damping, errors, paths, poses, redundancy, steps
from supple.control.servo import Servo
from supple.control.tracking import track
from supple.control.trajectory import Trajectory
from supple.gpu.runtime import devices
from supple.ik.follow import follow
from supple.ik.position import solve
from supple.ik.report import SolveReport
from supple.ik.solution import Solution
from supple.ik.solutions import Solutions
from supple.ik.solver import Solver
from supple.ik.status import SolveStatus
from supple.kinematics import Robot, dh, load, mjcf, urdf
from supple.motion.diagnostics import Report, explain
from supple.motion.layout import linearize
from supple.motion.limits import Limits
from supple.motion.linearization import Linearization
from supple.motion.status import StepStatus
from supple.motion.steps.step import DLS
from supple.motion.task import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask
from supple.poses import pose

__all__ = [
    "DLS",
    "AxisTask",
    "Limits",
    "Linearization",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Report",
    "Robot",
    "Servo",
    "Solution",
    "Solutions",
    "SolveReport",
    "SolveStatus",
    "Solver",
    "StepStatus",
    "Trajectory",
    "__version__",
    "criteria",
    "damping",
    "devices",
    "dh",
    "errors",
    "explain",
    "follow",
    "linearize",
    "load",
    "mjcf",
    "paths",
    "pose",
    "poses",
    "redundancy",
    "solve",
    "steps",
    "track",
    "urdf",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> str:
    """Look up `__version__` on first use: reading it takes a quarter of the import time."""
    if name == "__version__":
        from importlib.metadata import version

        return version("supple")
    raise AttributeError(f"module 'supple' has no attribute {name!r}")
