"""Robot, q, tasks -> dq: tasks, linearizations, damping rules, steps, limits, diagnostics."""

from supple.motion import criteria, damping
from supple.motion.alternate import alternate_jacobian
from supple.motion.batch import steps
from supple.motion.clamp import AdaptiveClampError, ClampAngle, ClampError
from supple.motion.diagnostics import Report, explain, leak
from supple.motion.filtering import LeastDirection, NumericalFilter
from supple.motion.layout import linearize
from supple.motion.limits import Limits
from supple.motion.linearization import Linearization
from supple.motion.memory import StatefulStep
from supple.motion.priority import Augmented, Priority
from supple.motion.redundancy import GradientProjection, NullSpace, TotalSpeed, Wampler
from supple.motion.selective import SDLS
from supple.motion.step import DLS, Pseudoinverse, Transpose, TruncatedSVD
from supple.motion.task import (
    AxisTask,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Task,
    as_tasks,
)
from supple.motion.weighted import WeightedDLS
from supple.motion.wrist import SphericalWrist

__all__ = [
    "DLS",
    "SDLS",
    "AdaptiveClampError",
    "Augmented",
    "AxisTask",
    "ClampAngle",
    "ClampError",
    "GradientProjection",
    "LeastDirection",
    "Limits",
    "Linearization",
    "NullSpace",
    "NumericalFilter",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Priority",
    "Pseudoinverse",
    "Report",
    "SphericalWrist",
    "StatefulStep",
    "Task",
    "TotalSpeed",
    "Transpose",
    "TruncatedSVD",
    "Wampler",
    "WeightedDLS",
    "alternate_jacobian",
    "as_tasks",
    "criteria",
    "damping",
    "explain",
    "leak",
    "linearize",
    "steps",
]
