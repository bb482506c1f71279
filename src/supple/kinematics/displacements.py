"""Methods of `Robot` that add displacements to configurations and subtract configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import FloatArray, coordinates, like
from supple.errors import InputError
from supple.kinematics import configuration

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot


def integrate(self: Robot, q: ArrayLike, v: ArrayLike) -> FloatArray:  # noqa: D417
    """Return the configurations that displacements reach, (..., nq) [rad or m].

        q = robot.integrate(q, dt * qd)                                  a step of a simulation
        robot.integrate(q0, share * robot.difference(q1, q0))            between q0 and q1

    For joints with one degree of freedom the result is q + v. A unit quaternion is multiplied by
    the rotation about the axes of the body that the displacement describes. Joint limits are not
    applied.

    Args:
        q: Configurations (..., nq) [rad or m].
        v: Displacements (..., nv), velocities times a time [rad or m]; leading axes are broadcast.
    """
    start, move = coordinates(q, self.nq, "q"), coordinates(v, self.nv, "v")
    _check_leading_axes(start, move, "q and v")
    return like(q, np.asarray(configuration.integrate(self, start, move)))  # type: ignore[no-any-return]


def difference(self: Robot, q1: ArrayLike, q0: ArrayLike) -> FloatArray:  # noqa: D417
    """Return the displacements from q0 to q1, (..., nv) [rad or m].

    This function is the inverse of `integrate`: `robot.integrate(q0, robot.difference(q1, q0))` is
    q1. For joints with one degree of freedom the result is q1 - q0, including full turns. Between
    unit quaternions it is the shortest rotation.

    Args:
        q1: Configurations (..., nq) [rad or m].
        q0: Configurations (..., nq) [rad or m]; leading axes are broadcast.
    """
    end, start = coordinates(q1, self.nq, "q1"), coordinates(q0, self.nq, "q0")
    _check_leading_axes(end, start, "q1 and q0")
    return like(q1, np.asarray(configuration.difference(self, end, start)))  # type: ignore[no-any-return]


def _check_leading_axes(one: FloatArray, other: FloatArray, names: str) -> None:
    try:
        np.broadcast_shapes(one.shape[:-1], other.shape[:-1])
    except ValueError:
        raise InputError(
            f"the leading axes of {names} must agree; given: arrays of shapes "
            f"{one.shape} and {other.shape}"
        ) from None
