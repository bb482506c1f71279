"""Configurations and the velocities between them.

A configuration q has `robot.nq` numbers, a velocity or a displacement v has `robot.nv`. `integrate`
and `difference` are the only functions from one to the other. No other code adds to a configuration
or subtracts configurations (tests/test_configurations.py). The kernel has the same functions, in
include/supple/robot/configuration.hpp.

For a joint with one coordinate, which has a position limit or may differ by full turns, there are
`integrate_coordinate` and `coordinate_difference`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot


def integrate(robot: Robot | None, q: Any, v: Any) -> Any:
    """Return the configurations (..., nq) that displacements v (..., nv) reach from q (..., nq).

    The robot is None where it is unknown: every joint then has one coordinate.
    """
    return integrate_coordinate(q, v)


def difference(robot: Robot | None, q1: Any, q0: Any) -> Any:
    """Return the displacements (..., nv) from q0 to q1, both (..., nq)."""
    return coordinate_difference(q1, q0)


def mirrored(robot: Robot | None, q: Any, center: Any) -> Any:
    """Return the configurations as far beyond a center as q is before it, both (..., nq)."""
    return 2 * center - q


def integrate_coordinate(q: Any, v: Any) -> Any:
    """Return the positions that joints with one coordinate reach from q with displacements v."""
    return q + v


def coordinate_difference(q1: Any, q0: Any) -> Any:
    """Return the displacements of joints with one coordinate from q0 to q1 [rad or m]."""
    return q1 - q0


def twice_from_middle(q: Any, lower: Any, upper: Any) -> Any:
    """Return twice the displacements of joints from the middle of their ranges [rad or m]."""
    return 2 * q - lower - upper
