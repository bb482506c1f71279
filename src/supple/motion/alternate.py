"""The Jacobian of the target instead of the effector."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import InputError
from supple.kinematics import Robot
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import numbers_of

_MAX_AXES = 30  # that NumPy broadcasts


def alternate_jacobian(
    robot: Robot, q: ArrayLike, frame: FrameNames, target: ArrayLike
) -> NDArray[np.floating[Any]]:
    """The linear Jacobian (..., 3, n) of a target that is attached to the effector's link.

        column j = v_j × (t - p_j)  for a joint that turns about v_j through p_j, instead of
                   v_j × (s - p_j);  v_j for one that slides

    s is the effector's position, t its target, world axes [m]. With the error t - s it makes a
    `Linearization` for any step: where the target is out of reach it oscillates and overshoots
    less than the ordinary one; where links are folded back on a target near by it may be jerky.
    Where the target is reached the two are the same.

    Args:
        robot: The robot.
        q: Coordinates (..., n) [rad or m].
        frame: The effector, or several (k): the result is (..., k, 3, n) then.
        target: Positions (..., 3) [m], or (..., k, 3).

    References:
        Buss 2009, section 2, "An alternate Jacobian".
    """
    poses, J = robot.fk_jacobian(q, frame)
    s, t = poses[..., :3, 3], numbers_of(target, "target")
    if t.shape[-1:] != (3,) or t.shape != s.shape[s.ndim - t.ndim :]:
        raise InputError(f"target must be positions {s.shape}; given: {t.shape}")
    if J.ndim > _MAX_AXES:
        raise InputError(f"q must have at most {_MAX_AXES - 3} batch axes; given: {J.ndim - 2}")
    # The twist of the effector's link, taken at the target: v + w × (t - s).
    moved = np.cross(J[..., 3:, :], (t - s)[..., None], axis=-2)
    result: NDArray[np.floating[Any]] = J[..., :3, :] + moved
    return result
