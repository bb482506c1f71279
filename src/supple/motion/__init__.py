"""Robot, q, tasks -> dq: tasks, linearizations, damping rules, steps, diagnostics."""

from supple.motion import damping
from supple.motion.diagnostics import Report, explain, leak
from supple.motion.layout import linearize
from supple.motion.limits import Limits
from supple.motion.linearization import Linearization
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
    "AxisTask",
    "ClampAngle",
    "ClampError",
    "Limits",
    "Linearization",
    "OrientationTask",
    "PoseTask",
    "PositionTask",
    "PostureTask",
    "Pseudoinverse",
    "Report",
    "Task",
    "Transpose",
    "TruncatedSVD",
    "as_tasks",
    "damping",
    "explain",
    "leak",
    "linearize",
    "steps",
]
