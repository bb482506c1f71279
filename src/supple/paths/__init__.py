"""Paths of joints, their timing, and the results of `supple.plan_path`."""

from supple.paths.joint_path import JointPath
from supple.paths.planned_path import PlannedPath, Reconfiguration

__all__ = ["JointPath", "PlannedPath", "Reconfiguration"]


def __dir__() -> list[str]:
    return __all__
