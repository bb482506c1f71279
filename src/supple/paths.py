"""Paths of joints, their timing, and the results of `supple.follow`."""

from supple.control.joint_path import JointPath
from supple.ik.followed import Followed, Reconfiguration

__all__ = ["Followed", "JointPath", "Reconfiguration"]


def __dir__() -> list[str]:
    return __all__
