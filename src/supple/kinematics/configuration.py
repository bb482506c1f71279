"""Configurations and the velocities between them.

A configuration q has `robot.nq` numbers, a velocity or a displacement v has `robot.nv`. Only
`integrate` adds a displacement to a configuration, and only `difference` subtracts configurations;
tests/test_configurations.py checks that no other code does. The kernel has the same functions, in
include/supple/robot/configuration.hpp.

The orientation of a ball joint is a unit quaternion (w, x, y, z) in q. In the coordinates x of the
kernel (nv) it is a rotation vector, so that x has one number for each velocity. `to_kernel` turns q
into x, and `from_kernel` x into q.

Code for joints with one coordinate, for example for their position limits and full turns, uses
`integrate_coordinate` and `coordinate_difference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from supple.kinematics.rotation import cross
from supple.kinematics.rotation_vectors import right_jacobian_inverse

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot


@dataclass(frozen=True)
class Coordinates:
    """The lengths of configurations and velocities, without a robot.

    Attributes:
        nq: Length of a configuration.
        nv: Length of a velocity.
    """

    nq: int
    nv: int
    _balls: tuple[int, ...] = ()  # index of the first velocity of each ball joint

    @staticmethod
    def of_names(names: Sequence[str]) -> Coordinates:
        """Return the coordinates of a configuration from `Robot.position_names`."""
        scalars = [i for i, name in enumerate(names) if name.endswith("/qw")]
        balls = tuple(i - before for before, i in enumerate(scalars))
        return Coordinates(len(names), len(names) - len(balls), balls)

    @property
    def numbered(self) -> tuple[str, ...]:
        """Names of the positions, made of indices of velocities: "5", or "6/qw" to "6/qz"."""
        names: list[str] = []
        for _, by, is_ball in _parts(self):
            each = [str(j) for j in range(by.start, by.stop)]
            names += [f"{each[0]}/q{part}" for part in "wxyz"] if is_ball else each
        return tuple(names)


Layout: TypeAlias = "Robot | Coordinates | None"


def integrate(robot: Layout, q: Any, v: Any) -> Any:
    """Return the configurations (..., nq) that displacements v (..., nv) reach from q (..., nq).

    The robot is None where it is unknown: every joint then has one coordinate.
    """
    if robot is None or robot.nq == robot.nv:
        return integrate_coordinate(q, v)
    q, v = np.asarray(q), np.asarray(v)
    shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    made = np.empty((*shape, robot.nq), np.result_type(q, v))
    for at, by, is_ball in _parts(robot):
        if is_ball:
            made[..., at] = _product(_unit(q[..., at]), _exp(v[..., by]))
        else:
            made[..., at] = integrate_coordinate(q[..., at], v[..., by])
    return made


def difference(robot: Layout, q1: Any, q0: Any) -> Any:
    """Return the displacements (..., nv) from q0 to q1, both (..., nq)."""
    if robot is None or robot.nq == robot.nv:
        return coordinate_difference(q1, q0)
    q1, q0 = np.asarray(q1), np.asarray(q0)
    shape = np.broadcast_shapes(q1.shape[:-1], q0.shape[:-1])
    made = np.empty((*shape, robot.nv), np.result_type(q1, q0))
    for at, by, is_ball in _parts(robot):
        if is_ball:
            made[..., by] = _log(_product(_conjugate(_unit(q0[..., at])), _unit(q1[..., at])))
        else:
            made[..., by] = coordinate_difference(q1[..., at], q0[..., at])
    return made


def configuration_gradient(robot: Robot, q: Any, v_bar: Any) -> Any:
    """Return the gradient (..., nq) for configurations q, from the one for velocities (..., nv).

    A quaternion of any length r is divided by r; the unit quaternion a has the rate ½ a (0, ω),
    where ω is the angular velocity in the axes of the body. The gradient is therefore
    tangent to the quaternions of length r: 2/r a (0, ω_bar).
    """
    if robot.nq == robot.nv:
        return v_bar
    made = np.empty((*v_bar.shape[:-1], robot.nq), v_bar.dtype)
    for at, by, is_ball in _parts(robot):
        if is_ball:
            a, bar = q[..., at], v_bar[..., by]
            turned = _raw_product(a, np.concatenate([np.zeros_like(bar[..., :1]), bar], axis=-1))
            made[..., at] = 2 * turned / (a**2).sum(axis=-1, keepdims=True)
        else:
            made[..., at] = v_bar[..., by]
    return made


def velocity_gradient(robot: Robot, q: Any, q_bar: Any) -> Any:
    """Return the gradient (..., nv) for velocities, from that for q (..., nq).

    The quaternions in q have unit length.
    """
    if robot.nq == robot.nv:
        return q_bar
    made = np.empty((*q_bar.shape[:-1], robot.nv), q_bar.dtype)
    for at, by, is_ball in _parts(robot):
        if is_ball:
            made[..., by] = _raw_product(_conjugate(q[..., at]), q_bar[..., at])[..., 1:] / 2
        else:
            made[..., by] = q_bar[..., at]
    return made


def interpolated(robot: Layout, t: Any, q: Any, at: Any) -> Any:
    """Return configurations (L, nq) at places `at` (L,), on the shortest ways between q (K, nq).

    Args:
        robot: The robot, or its coordinates.
        t: Places of the configurations q (K,), increasing.
        q: Configurations (K, nq).
        at: Places (L,), from the first to the last of t.
    """
    if robot is None or robot.nq == robot.nv:
        return np.stack([np.interp(at, t, column) for column in q.T], axis=-1)
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, max(0, len(t) - 2))
    then = np.minimum(k + 1, len(t) - 1)
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num((at - t[k]) / (t[then] - t[k]))[:, None]
    return integrate(robot, q[k], share * difference(robot, q[then], q[k]))


def mirrored(robot: Layout, q: Any, center: Any) -> Any:
    """Return the configurations q (..., nq) mirrored at the configurations `center` (..., nq)."""
    if robot is None or robot.nq == robot.nv:
        return 2 * center - q
    return integrate(robot, center, difference(robot, center, q))


# ---- joints with one coordinate ------------------------------------------------------------------


def integrate_coordinate(q: Any, v: Any) -> Any:
    """Return the positions that joints with one coordinate reach from q with displacements v."""
    return q + v


def coordinate_difference(q1: Any, q0: Any) -> Any:
    """Return the displacements of joints with one coordinate from q0 to q1 [rad or m]."""
    return q1 - q0


def twice_from_middle(q: Any, lower: Any, upper: Any) -> Any:
    """Return twice the displacements of joints from the middle of their ranges [rad or m]."""
    return 2 * q - lower - upper


# ---- coordinates of the kernel -------------------------------------------------------------------


def to_kernel(robot: Layout, q: Any) -> Any:
    """Convert configurations (..., nq) to coordinates of the kernel (..., nv)."""
    if robot is None or robot.nq == robot.nv:
        return q
    q = np.asarray(q)
    made = np.empty((*q.shape[:-1], robot.nv), q.dtype)
    for at, by, is_ball in _parts(robot):
        made[..., by] = _log(q[..., at]) if is_ball else q[..., at]
    return made


def within_limits(robot: Robot, q: Any) -> Any:
    """Return configurations (..., nq), with joints beyond a position limit moved to this limit."""
    return from_kernel(robot, np.clip(to_kernel(robot, q), robot.lower, robot.upper))


def from_kernel(robot: Robot | Coordinates, x: Any) -> Any:
    """Convert coordinates of the kernel (..., nv) to configurations (..., nq)."""
    if robot.nq == robot.nv:
        return x
    x = np.asarray(x)
    made = np.empty((*x.shape[:-1], robot.nq), x.dtype)
    for at, by, is_ball in _parts(robot):
        made[..., at] = _exp(x[..., by]) if is_ball else x[..., by]
    return made


def unwound(robot: Robot, q: Any) -> Any:
    """Convert sequences of configurations (L, ..., nq) to coordinates of the kernel (L, ..., nv).

    Each rotation vector is the representative nearest to the one before it in the sequence; its
    angle may exceed π.
    """
    made = np.array(to_kernel(robot, q))
    for ball in robot._balls:
        own = made[..., ball : ball + 3]
        for before, here in pairwise(own):
            angle = np.linalg.norm(here, axis=-1, keepdims=True)
            axis = here / np.where(angle > 0, angle, 1)
            along = (before * axis).sum(-1, keepdims=True)
            turns = np.rint(coordinate_difference(along, angle) / (2 * np.pi))
            here += 2 * np.pi * np.nan_to_num(turns) * axis
    return made


def uniform_rotation(share: Any) -> Any:
    """Return rotation vectors (..., 3) of uniform orientations, from numbers (..., 3) in [0, 1].

    The quaternion is uniform on the sphere in four dimensions: two of its entries are a point of a
    circle with the radius √u, the other two a point of a circle with the radius √(1 - u).
    """
    u, a, b = np.moveaxis(share, -1, 0)
    one, two, a, b = np.sqrt(u), np.sqrt(1 - u), 2 * np.pi * a, 2 * np.pi * b
    wxyz = (one * np.cos(a), one * np.sin(a), two * np.cos(b), two * np.sin(b))
    return _log(np.stack(wxyz, axis=-1))


def position_of(robot: Robot | Coordinates, j: int) -> int:
    """Return the index in q of the joint with velocity j; in a quaternion, that of qw, qx or qy."""
    return j + sum(ball + 3 <= j for ball in robot._balls)


def clipped(robot: Robot, q: Any, lower: Any = None, upper: Any = None) -> Any:
    """Return configurations (..., nq) inside position limits (nv,), with unit quaternions.

    The limits are those of the robot by default.
    """
    lower = robot.lower if lower is None else lower
    upper = robot.upper if upper is None else upper
    if robot.nq == robot.nv:
        return np.clip(q, lower, upper)
    made = np.array(q)
    for at, by, is_ball in _parts(robot):
        own = made[..., at]
        made[..., at] = _unit(own) if is_ball else np.clip(own, lower[by], upper[by])
    return made


def in_balls(robot: Robot | Coordinates) -> Any:
    """Return a mask (nv,) of the velocities of ball joints."""
    made = np.zeros(robot.nv, np.bool_)
    for ball in robot._balls:
        made[ball : ball + 3] = True
    return made


def of_positions(robot: Robot, values: Any) -> Any:
    """Return values (nv,) of velocities as values (nq,) of positions.

    All four numbers of a quaternion get the value of the ball joint's first velocity.
    """
    if robot.nq == robot.nv:
        return values
    made = np.empty(robot.nq, np.asarray(values).dtype)
    for at, by, is_ball in _parts(robot):
        made[at] = values[by.start] if is_ball else values[by]
    return made


def quaternions(robot: Robot | Coordinates) -> Any:
    """Return a mask (nq,) of the positions that belong to quaternions."""
    made = np.zeros(robot.nq, np.bool_)
    for at, _, is_ball in _parts(robot):
        made[at] = is_ball
    return made


def gradient_of(robot: Robot, away: Any, slopes: Any) -> Any:
    """Return the gradient (nv,) with respect to displacements of q, in the axes of velocities.

    Args:
        robot: The robot.
        away: The displacement (nv,) to q from any other configuration.
        slopes: The derivatives (nv,) with respect to the numbers of that displacement.
    """
    made = np.array(slopes)
    for ball in robot._balls:
        own = slice(ball, ball + 3)
        made[own] = right_jacobian_inverse(away[own]).T @ made[own]
    return made


def _parts(robot: Robot | Coordinates) -> Iterator[tuple[slice, slice, bool]]:
    """Yield the indices in q and in v of each ball joint, and of the joints between them."""
    at = by = 0
    for ball in robot._balls:
        yield slice(at, at + ball - by), slice(by, ball), False
        at, by = at + ball - by, ball
        yield slice(at, at + 4), slice(by, by + 3), True
        at, by = at + 4, by + 3
    yield slice(at, robot.nq), slice(by, robot.nv), False


# ---- quaternions (..., 4), scalar first ----------------------------------------------------------


def _unit(a: Any) -> Any:
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def _conjugate(a: Any) -> Any:
    return a * np.array((1, -1, -1, -1), a.dtype)


def _product(a: Any, b: Any) -> Any:
    return _unit(_raw_product(a, b))


def _raw_product(a: Any, b: Any) -> Any:
    u, v = a[..., 1:], b[..., 1:]
    w = a[..., :1] * b[..., :1] - (u * v).sum(axis=-1, keepdims=True)
    return np.concatenate([w, a[..., :1] * v + b[..., :1] * u + cross(u, v)], axis=-1)


def _exp(r: Any) -> Any:
    """Return the quaternions of rotation vectors (..., 3)."""
    half = np.linalg.norm(r, axis=-1, keepdims=True) / 2
    return np.concatenate([np.cos(half), np.sinc(half / np.pi) / 2 * r], axis=-1)


def _log(a: Any) -> Any:
    """Return the rotation vectors (..., 3) of quaternions other than zero, of angles up to π."""
    a = np.where(a[..., :1] < 0, -a, a)
    w, v = a[..., :1], a[..., 1:]
    size = np.linalg.norm(v, axis=-1, keepdims=True)
    small = size <= 1e-9 * w
    with np.errstate(divide="ignore", invalid="ignore"):
        return v * np.where(small, 2 / w, 2 * np.arctan2(size, w) / size)
