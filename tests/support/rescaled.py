"""Robots, tasks and targets with all lengths multiplied by a factor."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import supple
from supple.describe import Description, Frame, Joint


def rescaled(robot: supple.Robot, factor: float) -> supple.Robot:
    """Return a robot with all lengths multiplied by a factor."""

    def pose(T: np.ndarray) -> np.ndarray:
        T = T.copy()
        T[:3, 3] *= factor
        return T

    joints = []
    for joint in robot.description.joints:
        unit = factor if joint.kind == "prismatic" else 1.0
        mimic = joint.mimic
        if mimic is not None:
            leader = next(j for j in robot.description.joints if j.name == mimic.joint)
            other = factor if leader.kind == "prismatic" else 1.0
            mimic = type(mimic)(mimic.joint, mimic.multiplier * unit / other, mimic.offset * unit)
        joints.append(
            Joint(
                joint.name,
                joint.kind,
                joint.parent,
                joint.child,
                origin=pose(joint.origin),
                axis=joint.axis,
                child_placement=pose(joint.child_placement),
                lower=joint.lower * unit,
                upper=joint.upper * unit,
                max_speed=joint.max_speed * unit,
                mimic=mimic,
                pitch=joint.pitch * factor,
                max_acceleration=joint.max_acceleration * unit,
                max_jerk=joint.max_jerk * unit,
            )
        )
    own = robot.description
    frames = tuple(Frame(each.name, each.link, pose(each.placement)) for each in own.frames)
    return supple.Robot(Description("rescaled", tuple(joints), frames, own.tips))


def with_length(task: Any, factor: float) -> Any:
    """Return a task whose length, if it has one, is multiplied by a factor."""
    if hasattr(task, "length"):
        return dataclasses.replace(task, length=task.length * factor)
    return task


def moved(T: np.ndarray, task: object, factor: float) -> np.ndarray:
    """Return targets of a task, whose lengths are multiplied by a factor."""
    T = T.copy()
    if isinstance(task, supple.PoseTask):
        T[..., :3, 3] *= factor
    elif isinstance(task, supple.PositionTask):
        T *= factor
    return T
