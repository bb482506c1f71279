"""Moving joints and frames of a description, with fixed joints folded into constants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.describe import Description
from supple.kinematics.chain import WORLD, FixedFrame, Matrix, MovingJoint


@dataclass(frozen=True, eq=False)
class Tree:
    """The moving joints of a robot, parents first, and the placements of all frames on bodies."""

    joints: tuple[MovingJoint, ...]
    frames: dict[str, FixedFrame]
    names: tuple[str, ...]  # names of the n independent joints
    prismatic: NDArray[np.bool_]  # (n,)
    lower: Matrix  # (n,)
    upper: Matrix  # (n,)
    max_speed: Matrix  # (n,)
    max_acceleration: Matrix  # (n,)
    max_jerk: Matrix  # (n,)


def tree(description: Description, base: Matrix) -> Tree:
    """Return the tree of a description placed at `base` (4, 4) in the world."""
    independent = [j for j in description.joints if j.moves and j.mimic is None]
    coordinate = {joint.name: i for i, joint in enumerate(independent)}
    frames = {description.root: FixedFrame(WORLD, base)}
    moving: list[MovingJoint] = []
    for joint in description.joints:
        parent = frames[joint.parent]
        placement = parent.placement @ joint.origin
        if not joint.moves:
            frames[joint.child] = FixedFrame(parent.joint, placement @ joint.child_placement)
            continue
        mimic = joint.mimic
        moves = MovingJoint(
            parent=parent.joint,
            prismatic=joint.kind == "prismatic",
            coordinate=coordinate[mimic.joint if mimic else joint.name],
            scale=mimic.multiplier if mimic else 1.0,
            offset=mimic.offset if mimic else 0.0,
            placement=placement,
            axis=joint.axis,
        )
        if joint.kind == "screw":  # a translation by pitch times the angle, then the rotation
            slide = replace(
                moves,
                prismatic=True,
                scale=joint.pitch * moves.scale,
                offset=joint.pitch * moves.offset,
            )
            moves = replace(moves, parent=len(moving), placement=np.eye(4))
            moving.append(slide)
        frames[joint.child] = FixedFrame(len(moving), joint.child_placement)
        moving.append(moves)
    for frame in description.frames:
        link = frames[frame.link]
        frames[frame.name] = FixedFrame(link.joint, link.placement @ frame.placement)
    return Tree(
        joints=tuple(moving),
        frames=frames,
        names=tuple(coordinate),
        prismatic=_read_only(np.array([j.kind == "prismatic" for j in independent])),
        lower=_read_only(np.array([j.lower for j in independent])),
        upper=_read_only(np.array([j.upper for j in independent])),
        max_speed=_read_only(np.array([j.max_speed for j in independent])),
        max_acceleration=_read_only(np.array([j.max_acceleration for j in independent])),
        max_jerk=_read_only(np.array([j.max_jerk for j in independent])),
    )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
