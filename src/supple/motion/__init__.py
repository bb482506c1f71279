"""Robot, q, tasks -> dq: tasks, linearizations, damping rules, steps, limits, diagnostics."""

from supple.motion import criteria, damping
from supple.motion.diagnostics import Report, explain, leak
from supple.motion.layout import linearize
from supple.motion.limits import Limits
from supple.motion.linearization import Linearization
from supple.motion.priority import Augmented, Priority
from supple.motion.redundancy import GradientProjection, NullSpace, TotalSpeed, Wampler
from supple.motion.step import (
    DLS,
    SDLS,
    ClampAngle,
    ClampError,
    Pseudoinverse,
    Transpose,
    TruncatedSVD,
    steps,
)
from supple.motion.task import (
    AxisTask,
    OrientationTask,
    PoseTask,
    PositionTask,
    PostureTask,
    Task,
    as_tasks,
)

__all__ = [
    "DLS",
    "SDLS",
    "Augmented",
    "AxisTask",
    "ClampAngle",
    "ClampError",
    "GradientProjection",
    "Limits",
    "Linearization",
    "NullSpace",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Priority",
    "Pseudoinverse",
    "Report",
    "Task",
    "TotalSpeed",
    "Transpose",
    "TruncatedSVD",
    "Wampler",
    "as_tasks",
    "criteria",
    "damping",
    "explain",
    "leak",
    "linearize",
    "steps",
]
