"""Robots and their kinematics: poses, Jacobians, bias accelerations and singular values."""

from supple.kinematics.load import dh, load, mjcf, urdf
from supple.kinematics.robot import Robot

__all__ = ["Robot", "dh", "load", "mjcf", "urdf"]
