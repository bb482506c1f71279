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
        tasks,
    )
    from supple.collision.world import World
    from supple.control.diagnostics import Report, explain
    from supple.control.servo import Servo
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
    from supple.motion.status import StepStatus
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
    "tasks",
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
        "tasks",
    ),
    "supple.collision.world": ("World",),
    "supple.control.diagnostics": (
        "Report",
        "explain",
    ),
    "supple.control.servo": ("Servo",),
    "supple.motion.status": ("StepStatus",),
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

# What to use instead of names that this module does not have, but that users may try.
_INSTEAD = {
    "track": "it is called simulate",
    "follow": "it is called plan_path",
    "devices": "it is in supple.gpu",
    **dict.fromkeys(("ik", "ikine", "inverse_kinematics"), "solve finds q for a pose"),
    "solve_ik": "a Servo computes steps of a control loop, solve finds q for a pose",
    **dict.fromkeys(("fk", "fkine", "forward_kinematics"), "it is a method: robot.fk(q)"),
    "jacobian": "it is a method: robot.jacobian(q)",
    "FrameTask": "it is called PoseTask",
    "ComTask": "it is called tasks.CenterOfMassTask",
    "Configuration": "a configuration is an array q, an argument of the methods of Robot",
    **dict.fromkeys(("SE3", "Pose"), "a pose is an array (4, 4), for example from pose"),
    **dict.fromkeys(("from_urdf", "load_urdf"), "it is called urdf"),
    **dict.fromkeys(("from_mjcf", "load_mjcf"), "it is called mjcf"),
    "DHRobot": "it is called dh",
}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name; all later uses find it in this module."""
        from importlib import import_module
        from sys import modules

        if name == "__version__":
            from importlib.metadata import version

            return version("supple")
        for module, names in _MODULES.items():
            if name in names:
                found = import_module(f"supple.{name}" if module == "supple" else module)
                globals()[name] = found if module == "supple" else getattr(found, name)
                return globals()[name]
        message = f"module 'supple' has no attribute {name!r}"
        if not name.startswith("_"):
            message += _hint(name)
        raise AttributeError(message, name=name, obj=modules[__name__])

    def _hint(name: str) -> str:
        """Return what to use instead of a name that this module does not have."""
        from importlib import import_module
        from importlib.util import find_spec

        if name in _INSTEAD:
            return f"; {_INSTEAD[name]}"
        if name.isidentifier() and find_spec(f"supple.{name}"):
            return f"; it is a module: import supple.{name}"
        for module in _MODULES["supple"]:
            if name in getattr(import_module(f"supple.{module}"), "__all__", ()):
                return f"; it is in supple.{module}"
        return ""
