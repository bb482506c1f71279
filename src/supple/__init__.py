"""Inverse kinematics that stays smooth, bounded and fast through singularities.

The main names are here. More are in the modules `supple.damping` (damping rules), `supple.steps`
(steps besides `DLS`), `supple.redundancy` and `supple.criteria` (redundant robots), `supple.paths`
(joint paths and their timing), `supple.poses` (conversions and interpolation) and `supple.errors`.
"""

TYPE_CHECKING = False  # type checkers know this name; importing typing takes longer than all else
if TYPE_CHECKING:
    from supple import criteria, damping, errors, paths, poses, redundancy, steps
    from supple.control.servo import Servo
    from supple.control.tracking import track
    from supple.control.trajectory import Trajectory
    from supple.gpu.runtime import devices
    from supple.ik.follow import follow
    from supple.ik.position import solve
    from supple.ik.report import SolveReport
    from supple.ik.solution import Solution
    from supple.ik.solution_arrays import BatchSolution
    from supple.ik.solutions import Solutions
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

    __version__: str

__all__ = [
    "DLS",
    "AxisTask",
    "BatchSolution",
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

# A module is imported when one of its names is first used: `import supple` takes milliseconds, all
# modules together a third of a second.
_MODULES = {
    "supple": ("criteria", "damping", "errors", "paths", "poses", "redundancy", "steps"),
    "supple.control.servo": ("Servo",),
    "supple.control.tracking": ("track",),
    "supple.control.trajectory": ("Trajectory",),
    "supple.gpu.runtime": ("devices",),
    "supple.ik.follow": ("follow",),
    "supple.ik.position": ("solve",),
    "supple.ik.report": ("SolveReport",),
    "supple.ik.solution": ("Solution",),
    "supple.ik.solution_arrays": ("BatchSolution",),
    "supple.ik.solutions": ("Solutions",),
    "supple.ik.status": ("SolveStatus",),
    "supple.kinematics": ("Robot", "dh", "load", "mjcf", "urdf"),
    "supple.motion.diagnostics": ("Report", "explain"),
    "supple.motion.layout": ("linearize",),
    "supple.motion.limits": ("Limits",),
    "supple.motion.linearization": ("Linearization",),
    "supple.motion.status": ("StepStatus",),
    "supple.motion.steps.step": ("DLS",),
    "supple.motion.task": (
        "AxisTask",
        "OrientationTask",
        "PoseTask",
        "PositionTask",
        "PostureTask",
    ),
    "supple.poses": ("pose",),
}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name; all later uses find it in this module."""
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import version

            return version("supple")
        for module, names in _MODULES.items():
            if name in names:
                found = import_module(f"supple.{name}" if module == "supple" else module)
                globals()[name] = found if module == "supple" else getattr(found, name)
                return globals()[name]
        raise AttributeError(f"module 'supple' has no attribute {name!r}")
