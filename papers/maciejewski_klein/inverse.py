"""The PUMA of Table I, and its inverse kinematics in closed form."""

from __future__ import annotations

import numpy as np
from supple.papers.style import Array

from supple import load

PUMA = load("puma560_mk")
A2, A3, D2, D4, D6 = 0.432, -0.020, 0.149, 0.433, 0.056  # Table I [m]
FOREARM, INNER = float(np.hypot(A3, D4)), float(np.arctan2(D4, A3))


def configurations(poses: Array, branch: Array) -> Array:
    """Return the joint angles (P, 6) [rad] of poses of the tool; NaN for poses out of reach.

    Args:
        poses: Poses of the tool (P, 4, 4) [m].
        branch: Signs (P, 3) of the wrist's distance in front of the shoulder, of the elbow angle
            and of q5. `branch_of` returns the signs of a configuration.
    """
    front, bend, flip = branch.T
    x, y, z = (poses[:, :3, 3] - D6 * poses[:, :3, 2]).T  # the center of the wrist
    with np.errstate(invalid="ignore"):
        ahead = front * np.sqrt(x**2 + y**2 - D2**2)
        q1 = np.arctan2(y, x) - np.arctan2(D2, ahead)
        cosine = (ahead**2 + z**2 - A2**2 - FOREARM**2) / (2 * A2 * FOREARM)
        turn = bend * np.arccos(cosine)  # angle between forearm and upper arm
    q2 = np.arctan2(-z, ahead) - np.arctan2(FOREARM * np.sin(turn), A2 + FOREARM * np.cos(turn))
    q3 = turn + INNER
    c1, s1, c23, s23 = np.cos(q1), np.sin(q1), np.cos(q2 + q3), np.sin(q2 + q3)
    # The normal of the arm's plane, then the direction of the forearm in this plane.
    across = np.stack([-s1, c1, 0 * c1], axis=1)
    along, other = (
        np.stack(each, axis=1) for each in ((c1 * s23, s1 * s23, c23), (c1 * c23, s1 * c23, -s23))
    )
    hand = poses[:, :3, 2]
    q5 = flip * np.arccos(np.clip((along * hand).sum(axis=1), -1, 1))
    q4 = np.arctan2(flip * (across * hand).sum(axis=1), flip * (other * hand).sum(axis=1))
    axis = np.cos(q4)[:, None] * across - np.sin(q4)[:, None] * other  # axis of joint 5
    q6 = np.arctan2(*((axis * poses[:, :3, k]).sum(axis=1) for k in (0, 1)))
    return np.stack([q1, q2, q3, q4, q5, q6], axis=1)


def branch_of(q: Array) -> Array:
    """Return the branches (..., 3) of configurations (..., 6): the signs for `configurations`."""
    ahead = A2 * np.cos(q[..., 1]) + A3 * np.cos(q[..., 1] + q[..., 2])
    ahead = ahead + D4 * np.sin(q[..., 1] + q[..., 2])
    bend, flip = np.sin(q[..., 2] - INNER), np.sin(q[..., 4])
    return np.where(np.stack([ahead, bend, flip], axis=-1) < 0, -1.0, 1.0)
