"""Frames of a robot and the joints that move them, for tasks and solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._core import AXES_WORLD
from supple.errors import InputError, join_names, unknown_name_error
from supple.kinematics.chain import WORLD, FixedFrame, chain

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot


def placed(robot: Robot, frame: str, what: str = "frame") -> FixedFrame:
    """Return the placement of a frame on a robot.

    Raises:
        UnknownNameError: The robot does not have the frame; the message lists its frames.
    """
    given: object = frame
    found = robot._tree.frames.get(given) if isinstance(given, str) else None
    if found is None:
        raise unknown_name_error(what, frame, robot.frames)
    return found


def only_tip(robot: Robot) -> str:
    """Return the end effector of a robot that has only one.

    Raises:
        InputError: The robot has several end effectors; the message lists them.
    """
    if len(robot.tips) != 1:
        raise InputError(
            f"frame must name a frame: {robot.name} has several end effectors, "
            f"{join_names(robot.tips)}; given: none"
        )
    return robot.tips[0]


def ancestors(robot: Robot, frame: str) -> dict[int, int]:
    """Return the moving joints that carry a frame, each with the index of its velocity."""
    return ancestors_of(robot, placed(robot, frame))


def ancestors_of(robot: Robot, frame: FixedFrame) -> dict[int, int]:
    """Return the result of `ancestors` for a frame given by its placement instead of its name."""
    joints, j = robot._tree.joints, frame.joint
    found = {}
    while j != WORLD:
        found[j] = joints[j].coordinate
        j = joints[j].parent
    return found


def link_lengths(robot: Robot, frames: Sequence[str]) -> list[float]:
    """Return the lengths of the links that carry some frames, between successive joints [m].

    The first link begins at the first joint, and the last link ends at the frame. Links of zero
    length, as between the axes of a spherical joint, are omitted.
    """
    joints = robot._tree.joints
    lengths: dict[str | int, float] = {}
    for frame in frames:
        on = placed(robot, frame)
        lengths[frame] = float(np.linalg.norm(on.placement[:3, 3])) if on.joint != WORLD else 0.0
        for j in ancestors(robot, frame):
            moved = joints[j].parent != WORLD
            lengths[j] = float(np.linalg.norm(joints[j].placement[:3, 3])) if moved else 0.0
    longest = max(lengths.values(), default=0.0)
    return [length for length in lengths.values() if length > 1e-9 * longest]


def longest_path(robot: Robot, *, from_world: bool = False) -> float:
    """Return the largest sum of link lengths from the first joint, or the world, to a frame [m]."""
    joints = robot._tree.joints
    sums: list[float] = []
    for joint in joints:
        length = float(np.linalg.norm(joint.placement[:3, 3]))
        if joint.parent == WORLD:
            sums.append(length if from_world else 0.0)
        else:
            sums.append(sums[joint.parent] + length)
    ends = [
        sums[frame.joint] + float(np.linalg.norm(frame.placement[:3, 3]))
        for frame in robot._tree.frames.values()
        if frame.joint != WORLD
    ]
    return max(ends, default=0.0)


def may_turn(robot: Robot) -> NDArray[np.bool_]:
    """Return a mask (n,) of the coordinates whose change by 2π leaves every frame in place."""
    found = ~robot.prismatic
    for joint in robot._tree.joints:
        # A mimic joint turns by scale times 2π, which must be a whole number of turns.
        if joint.prismatic or joint.is_part_of_ball or joint.scale != round(joint.scale):
            found[joint.coordinate] = False
    return found


def owners(robot: Robot) -> tuple[str, ...]:
    """Return the name of the joint to which each degree of freedom belongs (n,)."""
    return tuple(
        joint.name
        for joint in robot.description.joints
        if joint.mimic is None
        for _ in joint.velocity_names
    )


def chain_of(robot: Robot, frames: Sequence[FixedFrame]) -> _core.Chain:
    """Return the kernel's chain for frames at constant poses on bodies.

    The frames may come from `placed`, or be other frames, such as turned frames and centers of
    mass.
    """
    return chain(robot._tree.joints, frames, nv=robot.nv, stack=True, axes=AXES_WORLD, rows=[0])
