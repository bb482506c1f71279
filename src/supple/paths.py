"""Paths of joints, and their timing."""

from supple.control.joint_path import JointPath

__all__ = ["JointPath"]


def __dir__() -> list[str]:
    return __all__
