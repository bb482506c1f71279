"""The alternate Jacobian: the Jacobian of the target as if attached to the end effector."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import numbers_of

_MAX_AXES = 30  # NumPy's limit for broadcasting


def alternate_jacobian(
    robot: Robot, q: ArrayLike, frame: FrameNames, target: ArrayLike
) -> NDArray[np.floating[Any]]:
    """Return the linear Jacobian (..., 3, n) of the target as a point of the end effector's link.

        column j = v_j × (t - p_j)  for a revolute joint with the axis v_j through p_j, instead of
                   v_j × (s - p_j);  v_j for a prismatic joint

    s is the position of the end effector and t its target, in world axes [m]. This Jacobian and the
    error t - s form a `Linearization` for any step. Compared with the ordinary Jacobian, the motion
    oscillates and overshoots less if the target is out of reach; if the links are folded and the
    target is near, the motion may be jerky. At the target the two Jacobians are equal.

    Args:
        robot: The robot.
        q: Configurations (..., n) [rad or m].
        frame: Name of the end effector, or k names; the result is then (..., k, 3, n).
        target: Target positions (..., 3) [m], or (..., k, 3).

    References:
        Buss 2009, section 2, "An alternate Jacobian".
    """
    poses, J = robot.fk_jacobian(q, frame)
    s, t = poses[..., :3, 3], numbers_of(target, "target")
    if t.shape[-1:] != (3,) or t.shape != s.shape[s.ndim - t.ndim :]:
        raise InputError(f"target must be positions {s.shape}; given: {t.shape}")
    if J.ndim > _MAX_AXES:
        raise InputError(f"q must have at most {_MAX_AXES - 3} batch axes; given: {J.ndim - 2}")
    # The velocity of the effector's link at the target: v + w × (t - s).
    moved = np.cross(J[..., 3:, :], (t - s)[..., None], axis=-2)
    result: NDArray[np.floating[Any]] = J[..., :3, :] + moved
    return result
