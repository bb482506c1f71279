"""Check that joint coordinates are plausible in radians; degrees are a common mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple._core import LARGEST_ANGLE
from supple.errors import InputError
from supple.kinematics.configuration import position_of, to_kernel
from supple.kinematics.robot import Robot


def plausible_range(robot: Robot) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the range of coordinates, lower and upper ends (n,), that may be in radians.

    A revolute coordinate beyond two turns and beyond the joint's limits is probably in degrees.
    Prismatic joints and joints without limits may have any coordinate.
    """
    lower = np.minimum(robot.lower, -LARGEST_ANGLE)
    upper = np.maximum(robot.upper, LARGEST_ANGLE)
    return (
        np.where(robot.prismatic, -np.inf, lower),
        np.where(robot.prismatic, np.inf, upper),
    )


def check_plausible(robot: Robot, q: NDArray[Any], name: str) -> None:
    """Raise an error for configurations (..., n) that are probably in degrees.

    Coordinates that are not finite are ignored: other checks report them.
    """
    lower, upper = plausible_range(robot)
    q = to_kernel(robot, q)
    wrong = ((q < lower) | (q > upper)) & np.isfinite(q)
    if not wrong.any():
        return
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    *batch, j = (int(i) for i in index)
    place = ", ".join(map(str, (*batch, position_of(robot, j))))
    raise InputError(
        f"{name} must be in radians; given: {name}[{place}] = {q[index]:g} for the joint "
        f"{robot.joint_names[j]!r}, whose limits are {robot.lower[j]:.4g} and "
        f"{robot.upper[j]:.4g} rad. numpy.radians converts degrees"
    )
