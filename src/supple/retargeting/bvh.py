"""A reader of BVH files: a hierarchy with offsets, and channels for each frame."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from supple.errors import InputError
from supple.motion.linearization import Array

_AXES = {"x": 0, "y": 1, "z": 2}
_MAX_JOINTS = 2000
# Largest heights of a person in meters and in centimeters; files do not name their unit.
_MAX_METERS, _MAX_CENTIMETERS = 4.0, 400.0


class Bvh(NamedTuple):
    """The motion of a BVH file, with z upward.

    Attributes:
        names: Names of the J joints.
        positions: Positions of the joints (T, J, 3) [m].
        rotations: Rotations of the joints (T, J, 3, 3) in the world.
        fps: Frames per second.
    """

    names: tuple[str, ...]
    positions: Array
    rotations: Array
    fps: float


class _Joint(NamedTuple):
    name: str
    parent: int
    offset: tuple[float, ...]
    channels: tuple[str, ...]


def read_bvh(text: str, name: str = "the file") -> Bvh:
    """Return the motion of a BVH file with y up, in m, cm or mm according to the figure's size.

    Args:
        text: The contents of the file.
        name: Name of the file, for messages.

    Raises:
        InputError: The file is not a complete BVH file.
    """
    head, found, tail = text.partition("MOTION")
    if not found or "HIERARCHY" not in head:
        raise InputError(f"{name} is not a BVH file: it needs HIERARCHY and MOTION")
    joints = _hierarchy(head.split("HIERARCHY", 1)[1].split(), name)
    match = re.match(r"\s*Frames:\s*(\d+)\s+Frame Time:\s*(\S+)(.*)", tail, re.DOTALL)
    if not match:
        raise InputError(f"{name}: MOTION needs 'Frames:' and 'Frame Time:'")
    count, width = int(match[1]), sum(len(joint.channels) for joint in joints)
    try:
        seconds = float(match[2])
        values = np.array(match[3].split(), dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{name}: MOTION has a value that is not a number: {error}") from error
    if values.size != count * width or not count or not width:
        raise InputError(
            f"{name}: MOTION must have {count} frames of {width} values; given: {values.size} "
            "values"
        )
    if not seconds > 0 or not np.isfinite(values).all():
        raise InputError(f"{name}: MOTION must be finite, with a positive time; given: {seconds}")
    positions, rotations = _placed(joints, values.reshape(count, width))
    extent = (positions[..., 1].max(axis=1) - positions[..., 1].min(axis=1)).max()
    unit = 1.0 if extent < _MAX_METERS else 0.01 if extent < _MAX_CENTIMETERS else 0.001
    upright = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # y up to z up
    return Bvh(
        tuple(joint.name for joint in joints),
        unit * positions @ upright.T,
        upright @ rotations,
        1 / seconds,
    )


def _hierarchy(words: list[str], name: str) -> list[_Joint]:
    """Return the joints of a hierarchy, parents first. End sites are left out."""
    joints: list[_Joint] = []
    parents: list[int] = [-1]  # of the open braces; -2 within an end site
    at = 0
    try:
        while at < len(words):
            word = words[at]
            if word in ("ROOT", "JOINT"):
                joints.append(_Joint(words[at + 1], parents[-1], (0, 0, 0), ()))
                parents.append(len(joints) - 1)
                at += 3  # with the brace
            elif word == "End":
                parents.append(-2)
                at += 3
            elif word == "OFFSET":
                offset = tuple(float(value) for value in words[at + 1 : at + 4])
                if parents[-1] >= 0:
                    joints[-1] = joints[-1]._replace(offset=offset)
                at += 4
            elif word == "CHANNELS":
                count = int(words[at + 1])
                if count < 0:
                    raise ValueError(f"a joint has {count} channels")
                channels = tuple(words[at + 2 : at + 2 + count])
                joints[-1] = joints[-1]._replace(channels=channels)
                at += 2 + count
            elif word == "}":
                parents.pop()
                at += 1
            else:
                raise ValueError(f"unexpected {word!r}")
        known = {f"{axis}{kind}" for axis in "XYZ" for kind in ("position", "rotation")}
        wrong = [c for joint in joints for c in joint.channels if c not in known]
        if wrong or parents != [-1] or not joints or len(joints) > _MAX_JOINTS:
            raise ValueError(f"unknown channel {wrong[0]!r}" if wrong else "braces do not match")
        if any(len(joint.offset) != 3 for joint in joints):
            raise ValueError("an OFFSET needs three numbers")
    except (ValueError, IndexError) as error:
        raise InputError(f"{name}: HIERARCHY cannot be read: {error}") from error
    return joints


def _placed(joints: list[_Joint], values: Array) -> tuple[Array, Array]:
    """Return positions (T, J, 3) and rotations (T, J, 3, 3), with the file's axes and unit."""
    frames = len(values)
    positions = np.empty((frames, len(joints), 3))
    rotations = np.empty((frames, len(joints), 3, 3))
    column = 0
    for k, joint in enumerate(joints):
        at, R = np.tile(np.array(joint.offset), (frames, 1)), np.tile(np.eye(3), (frames, 1, 1))
        moved = [channel for channel in joint.channels if channel.endswith("position")]
        for channel in moved:  # they replace the offset
            at[:, _AXES[channel[0].lower()]] = 0.0
        for channel in joint.channels:
            axis = _AXES[channel[0].lower()]
            if channel.endswith("position"):
                at[:, axis] += values[:, column]
            else:
                R = R @ _turn(axis, np.radians(values[:, column]))
            column += 1
        if joint.parent < 0:
            positions[:, k], rotations[:, k] = at, R
        else:
            above = rotations[:, joint.parent]
            positions[:, k] = positions[:, joint.parent] + np.einsum("tij,tj->ti", above, at)
            rotations[:, k] = above @ R
    return positions, rotations


def _turn(axis: int, angle: Array) -> Array:
    """Return rotations (T, 3, 3) about an axis."""
    R = np.tile(np.eye(3), (len(angle), 1, 1))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R[:, i, i] = R[:, j, j] = np.cos(angle)
    R[:, j, i] = np.sin(angle)
    R[:, i, j] = -R[:, j, i]
    return R
