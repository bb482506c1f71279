"""Inverse kinematics that stays smooth, bounded and fast through singularities.

The main names are here. More are in the modules `supple.damping` (damping rules), `supple.steps`
(steps besides `DLS`), `supple.redundancy` and `supple.criteria` (redundant robots),
`supple.collision` (shapes for a `World`), `supple.paths` (joint paths and their timing),
`supple.retargeting` (humanoids that follow humans),
`supple.poses` (conversions and interpolation) and `supple.errors`.
"""

TYPE_CHECKING = False  # type checkers treat this name as true; importing typing would be slow
if TYPE_CHECKING:
    from supple import (
        collision,
        criteria,
        damping,
        errors,
        paths,
        poses,
        redundancy,
        retargeting,
        steps,
    )
    from supple.collision.world import World
    from supple.control.diagnostics import Report, explain
    from supple.control.servo import Servo
    from supple.control.status import StepStatus
    from supple.control.trajectory import Trajectory
    from supple.ik.position import solve
    from supple.ik.report import SolveReport
    from supple.ik.solution import Solution
    from supple.ik.solutions import Solutions
    from supple.ik.solver import Solver
    from supple.ik.status import SolveStatus
    from supple.kinematics.load import dh, load, mjcf, urdf
    from supple.kinematics.robot import Robot
    from supple.motion.limits import Limits
    from supple.motion.linearization import Linearization
    from supple.paths.planning import plan_path
    from supple.paths.simulation import simulate
    from supple.poses import pose
    from supple.retargeting.retargeting import retarget
    from supple.steps.basic import DLS
    from supple.tasks import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask
    from supple.tasks.evaluation import linearize

    __version__: str

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
    "World",
    "__version__",
    "collision",
    "criteria",
    "damping",
    "dh",
    "errors",
    "explain",
    "linearize",
    "load",
    "mjcf",
    "paths",
    "plan_path",
    "pose",
    "poses",
    "redundancy",
    "retarget",
    "retargeting",
    "simulate",
    "solve",
    "steps",
    "urdf",
]

# A module is imported when one of its names is first used: `import supple` takes milliseconds, all
# modules together a third of a second.
_MODULES = {
    "supple": (
        "collision",
        "criteria",
        "damping",
        "errors",
        "paths",
        "poses",
        "redundancy",
        "retargeting",
        "steps",
    ),
    "supple.collision.world": ("World",),
    "supple.control.diagnostics": (
        "Report",
        "explain",
    ),
    "supple.control.servo": ("Servo",),
    "supple.control.status": ("StepStatus",),
    "supple.control.trajectory": ("Trajectory",),
    "supple.ik.position": ("solve",),
    "supple.ik.report": ("SolveReport",),
    "supple.ik.solution": ("Solution",),
    "supple.ik.solutions": ("Solutions",),
    "supple.ik.solver": ("Solver",),
    "supple.ik.status": ("SolveStatus",),
    "supple.kinematics.load": ("dh", "load", "mjcf", "urdf"),
    "supple.kinematics.robot": ("Robot",),
    "supple.motion.limits": ("Limits",),
    "supple.motion.linearization": ("Linearization",),
    "supple.paths.planning": ("plan_path",),
    "supple.paths.simulation": ("simulate",),
    "supple.poses": ("pose",),
    "supple.retargeting.retargeting": ("retarget",),
    "supple.steps.basic": ("DLS",),
    "supple.tasks": (
        "AxisTask",
        "OrientationTask",
        "PoseTask",
        "PositionTask",
        "PostureTask",
    ),
    "supple.tasks.evaluation": ("linearize",),
}

_ELSEWHERE = {"track": "called simulate", "follow": "called plan_path", "devices": "in supple.gpu"}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name; all later uses find it in this module."""
        from importlib import import_module
        from importlib.util import find_spec

        if name == "__version__":
            from importlib.metadata import version

            return version("supple")
        for module, names in _MODULES.items():
            if name in names:
                found = import_module(f"supple.{name}" if module == "supple" else module)
                globals()[name] = found if module == "supple" else getattr(found, name)
                return globals()[name]
        instead = f"; it is {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        is_module = name.isidentifier() and find_spec(f"supple.{name}") is not None
        for module in () if name.startswith("_") or is_module else _MODULES["supple"]:
            if name in getattr(import_module(f"supple.{module}"), "__all__", ()):
                instead = f"; it is in supple.{module}"
        raise AttributeError(f"module 'supple' has no attribute {name!r}{instead}")
