"""Inverse kinematics: configurations that reach a target."""
