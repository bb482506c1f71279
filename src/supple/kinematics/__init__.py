"""Descriptions -> Robot: poses, Jacobians, J̇q̇, singular values."""

from supple.kinematics import leaving as leaving
from supple.kinematics.load import dh, load, mjcf, urdf
from supple.kinematics.robot import Robot
from supple.kinematics.rotation import pose

__all__ = ["Robot", "dh", "load", "mjcf", "pose", "urdf"]
