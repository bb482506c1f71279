"""Moving joints and frames of a description, with fixed joints folded into constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._core import Motion
from supple.describe import Description, Joint
from supple.describe.joint import VELOCITIES
from supple.kinematics.chain import WORLD, FixedFrame, Matrix, MovingJoint, z_onto


@dataclass(frozen=True, eq=False)
class Tree:
    """The moving joints of a robot, parents first, and the placements of all frames on bodies."""

    joints: tuple[MovingJoint, ...]
    frames: dict[str, FixedFrame]
    names: tuple[str, ...]  # names of the n degrees of freedom
    positions: tuple[str, ...]  # names of the numbers of a configuration
    prismatic: NDArray[np.bool_]  # (n,)
    lower: Matrix  # (n,)
    upper: Matrix  # (n,)
    max_speed: Matrix  # (n,)
    max_acceleration: Matrix  # (n,)
    max_jerk: Matrix  # (n,)


def tree(description: Description, base: Matrix) -> Tree:
    """Return the tree of a description placed at `base` (4, 4) in the world."""
    independent = [j for j in description.joints if j.moves and j.mimic is None]
    velocities = [(joint, name) for joint in independent for name in joint.velocity_names]
    names = tuple(name for _, name in velocities)
    coordinate = {name: i for i, name in enumerate(names)}
    frames = {description.root: FixedFrame(WORLD, base)}
    moving: list[MovingJoint] = []
    for joint in description.joints:
        parent = frames[joint.parent]
        placement = parent.placement @ joint.origin
        if not joint.moves:
            frames[joint.child] = FixedFrame(parent.joint, placement @ joint.child_placement)
            continue
        first = coordinate[joint.mimic.joint if joint.mimic else joint.velocity_names[0]]
        child_placement = joint.child_placement
        if joint.kind == "planar":  # its x and y axes are perpendicular to the joint's axis
            turned = np.eye(4)
            turned[:3, :3] = z_onto(joint.axis)
            placement, child_placement = placement @ turned, turned.T @ child_placement
        on = parent.joint
        for part in _parts(joint, first):
            moving.append(replace(part, parent=on, placement=placement))
            on, placement = len(moving) - 1, np.eye(4)
        frames[joint.child] = FixedFrame(on, child_placement)
    for frame in description.frames:
        link = frames[frame.link]
        frames[frame.name] = FixedFrame(link.joint, link.placement @ frame.placement)
    return Tree(
        joints=tuple(moving),
        frames=frames,
        names=names,
        positions=tuple(name for joint in independent for name in joint.position_names),
        prismatic=_read_only(np.array([slides(joint, name) for joint, name in velocities])),
        lower=_read_only(np.array([j.lower for j, _ in velocities])),
        upper=_read_only(np.array([j.upper for j, _ in velocities])),
        max_speed=_read_only(np.array([j.max_speed for j, _ in velocities])),
        max_acceleration=_read_only(np.array([j.max_acceleration for j, _ in velocities])),
        max_jerk=_read_only(np.array([j.max_jerk for j, _ in velocities])),
    )


def slides(joint: Joint, name: str) -> bool:
    """Return whether a degree of freedom of a joint is a translation."""
    if joint.kind in VELOCITIES:
        return name.removeprefix(f"{joint.name}/") in ("x", "y", "z")
    return joint.kind == "prismatic"


def _parts(joint: Joint, first: int) -> Sequence[MovingJoint]:
    """Return the moving joints, connected in series at one origin, of which a joint consists.

    `first` is the index of its first velocity. Parents and placements are not set.
    """
    mimic = joint.mimic
    x, y, z = np.eye(3)
    alone = MovingJoint(
        parent=WORLD,
        motion=Motion.PRISMATIC if joint.kind == "prismatic" else Motion.REVOLUTE,
        coordinate=first,
        scale=mimic.multiplier if mimic else 1.0,
        offset=mimic.offset if mimic else 0.0,
        placement=np.eye(4),
        axis=joint.axis,
    )
    if joint.kind == "screw":  # a translation by pitch times the angle, then the rotation
        scale, offset = joint.pitch * alone.scale, joint.pitch * alone.offset
        return [replace(alone, motion=Motion.PRISMATIC, scale=scale, offset=offset), alone]
    turns, axes = [Motion.BALL, Motion.BALL_AXIS, Motion.BALL_AXIS], [x, y, z]
    motions = {
        "ball": (turns, axes),
        "planar": ([Motion.PRISMATIC, Motion.PRISMATIC, Motion.REVOLUTE], [x, y, z]),
        "floating": ([Motion.PRISMATIC] * 3 + turns, axes + axes),
    }
    if joint.kind not in motions:
        return [alone]
    return [
        replace(alone, motion=motion, coordinate=first + i, axis=axis)
        for i, (motion, axis) in enumerate(zip(*motions[joint.kind], strict=True))
    ]


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
