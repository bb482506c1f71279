"""Inverse kinematics on a GPU."""
