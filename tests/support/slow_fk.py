"""A slow oracle: forward kinematics computed from the definition of a Description."""

from __future__ import annotations

import numpy as np

from supple.describe import Description, Joint


def coordinates(robot: Description) -> list[Joint]:
    """Return the independent joints, in the order of q."""
    return [joint for joint in robot.joints if joint.kind != "fixed" and joint.mimic is None]


def motion(joint: Joint, q: np.ndarray | float) -> np.ndarray:
    """Return the motions (..., 4, 4) of a joint at q (...), the exponential of its axis.

    Rotations are computed by Rodrigues' formula.
    """
    if joint.kind == "fixed":
        return np.eye(4)
    q = np.asarray(q, np.float64)[..., None]
    T = np.zeros((*q.shape[:-1], 4, 4)) + np.eye(4)
    if joint.kind == "prismatic":
        T[..., :3, 3] = q * joint.axis
        return T
    x, y, z = joint.axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = q[..., None]
    T[..., :3, :3] += np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    T[..., :3, 3] = joint.pitch * q * joint.axis
    return T


def fk(robot: Description, q: np.ndarray) -> dict[str, np.ndarray]:
    """Return T_root_x (..., 4, 4) of every link and frame x at configurations q (..., n).

    For each joint, T_parent_child = origin @ motion @ child_placement.
    """
    value = {joint.name: q[..., i] for i, joint in enumerate(coordinates(robot))}
    for joint in robot.joints:
        if joint.mimic is not None:
            followed = value[joint.mimic.joint]
            value[joint.name] = joint.mimic.multiplier * followed + joint.mimic.offset
    T = {robot.root: np.eye(4)}
    for joint in robot.joints:
        moved = joint.origin @ motion(joint, value.get(joint.name, 0.0)) @ joint.child_placement
        T[joint.child] = T[joint.parent] @ moved
    return T | {frame.name: T[frame.link] @ frame.placement for frame in robot.frames}
