"""Paths of joints, their timing, and the results of `supple.follow`."""

from supple.paths.followed import Followed, Reconfiguration
from supple.paths.joint_path import JointPath

__all__ = ["Followed", "JointPath", "Reconfiguration"]


def __dir__() -> list[str]:
    return __all__
