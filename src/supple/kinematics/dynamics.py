"""Inertia matrix, gravity and center of mass of a robot: methods of `Robot`.

All results are computed from the Jacobians of the bodies' centers of mass, which come from the
kernel. A body consists of the links that one joint carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple._arrays.checks import FloatArray, coordinates, finite_array, like
from supple._core import AXES_WORLD, Motion
from supple._runtime.environment import DEFAULT_THREADS, thread_count
from supple.describe import Inertia
from supple.describe.inertia import check_moments
from supple.errors import DescriptionError, join_names
from supple.kinematics.chain import WORLD, FixedFrame, Matrix, MovingJoint, chain
from supple.kinematics.configuration import Coordinates, from_kernel, to_kernel

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot

GRAVITY = (0.0, 0.0, -9.81)  # [m/s²] in world axes


@dataclass(frozen=True, eq=False)
class Bodies:
    """The k moving bodies that have a mass, and the mass that no joint moves.

    Attributes:
        mass: Masses (k,) [kg].
        matrix: Inertia matrices (k, 3, 3) about the centers of mass, in the axes of `frames`.
        frames: A frame at the center of mass of each body.
        still: Mass that no joint moves [kg], and the first moment of this mass, mass times center
            (3,) [kg m].
    """

    mass: Matrix
    matrix: Matrix
    frames: tuple[FixedFrame, ...]
    still: tuple[float, Matrix]


@lru_cache(maxsize=64)
def bodies(robot: Robot) -> Bodies:
    """Return the bodies of a robot; a body consists of the links that one joint carries.

    Raises:
        DescriptionError: The mass of a link is unknown or invalid, or no link has a mass.
    """
    found: dict[int, list[tuple[Inertia, Matrix]]] = {}
    for inertia in robot.description.inertias:
        link = robot._tree.frames[inertia.link]
        inertia.check()
        found.setdefault(link.joint, []).append((inertia, link.placement))
    if not any(inertia.mass > 0 for inertia in robot.description.inertias):
        raise DescriptionError(
            f"{robot.name} has no masses; robot.with_inertia(link, mass, center, matrix) adds them."
        )
    lumped = {joint: _lumped(parts) for joint, parts in sorted(found.items())}
    for joint, (mass, _, matrix) in lumped.items():
        if joint != WORLD:
            links = join_names([inertia.link for inertia, _ in found[joint]])
            check_moments(matrix, mass, f"inertia of links {links}")
    mass, center, _ = lumped.pop(WORLD, (0.0, np.zeros(3), np.zeros((3, 3))))
    moving = list(lumped.items())
    frames = []
    for joint, (_, at, _) in moving:
        T = np.eye(4)
        T[:3, 3] = at
        frames.append(FixedFrame(joint, T))
    return Bodies(
        mass=np.array([body[0] for _, body in moving]),
        matrix=np.array([body[2] for _, body in moving]).reshape(-1, 3, 3),
        frames=tuple(frames),
        still=(mass, mass * center),
    )


def _lumped(parts: Sequence[tuple[Inertia, Matrix]]) -> tuple[float, Matrix, Matrix]:
    """Return mass, center (3,) and inertia about the center (3, 3) of the links of one body."""
    mass = sum(inertia.mass for inertia, _ in parts)
    at = [T[:3, :3] @ inertia.center + T[:3, 3] for inertia, T in parts]
    center = np.zeros(3)
    if mass > 0:
        center = sum((i.mass * p for (i, _), p in zip(parts, at, strict=True)), center) / mass
    matrix = np.zeros((3, 3))
    for (inertia, T), p in zip(parts, at, strict=True):
        r, R = p - center, T[:3, :3]
        matrix += R @ inertia.matrix @ R.T + inertia.mass * (r @ r * np.eye(3) - np.outer(r, r))
    return mass, center, matrix


@lru_cache(maxsize=64)
def _chain_of_bodies(robot: Robot) -> _core.Chain:
    return _chain(robot._tree.joints, bodies(robot).frames, robot.nv)


@lru_cache(maxsize=64)
def _chain_of_joints(robot: Robot) -> _core.Chain:
    """Return a chain in which every moving joint, even a mimic joint, has its own coordinate."""
    joints = [
        replace(joint, coordinate=i, scale=1.0, offset=0.0)
        for i, joint in enumerate(robot._tree.joints)
    ]
    return _chain(joints, bodies(robot).frames, len(joints))


def _chain(joints: Sequence[MovingJoint], frames: Sequence[FixedFrame], nv: int) -> _core.Chain:
    return chain(joints, frames, nv=nv, stack=True, axes=AXES_WORLD, rows=[0])


def _like(given: ArrayLike, result: FloatArray) -> FloatArray:
    """Return a result as an array of the library of `given`: NumPy, PyTorch or JAX."""
    made: FloatArray = like(given, result)
    return made


def inertia_matrix(self: Robot, q: ArrayLike, *, threads: int | None = None) -> FloatArray:
    """Return the joint-space inertia matrix M(q), (..., n, n) [kg m², kg m or kg].

    The kinetic energy is ½ q̇ᵀ M q̇. M is symmetric, and positive definite if every joint moves a
    mass or an inertia about its axis. A step with the weight M minimizes the kinetic energy instead
    of ‖q̇‖²: `WeightedDLS(rule, joint_weight=robot.inertia_matrix(q))`.

    Args:
        q: Configurations (..., n) [rad or m].
        threads: Maximum number of threads; all cores by default.

    Raises:
        DescriptionError: The mass of a link is unknown, or no link has a mass.

    References:
        Whitney 1969; Wampler 1986, after eq. (32); Deo & Walker 1995, section 4.
    """
    at = coordinates(q, self.nq, "q")
    each = bodies(self)
    if not each.frames:
        return _like(q, np.zeros((*at.shape[:-1], self.dof, self.dof), at.dtype))
    T, J = _chain_of_bodies(self).poses_and_jacobian(at, thread_count(threads))
    # M is the sum of m JvᵀJv + Jwᵀ(R I Rᵀ)Jw over all bodies. As a product of the rows
    # [√m Jv; CᵀRᵀJw], where I = C Cᵀ, it is symmetric to the last bit.
    v = np.sqrt(each.mass)[:, None, None] * J[..., :3, :]
    w = (T[..., :3, :3] @ _root(each.matrix)).swapaxes(-1, -2) @ J[..., 3:, :]
    rows = np.concatenate([v, w], axis=-2).reshape(*at.shape[:-1], -1, self.dof)
    return _like(q, np.asarray(rows.swapaxes(-1, -2) @ rows, at.dtype))


def _root(matrix: Matrix) -> Matrix:
    """Return C (k, 3, 3) with C Cᵀ = matrix; negative eigenvalues (rounding) count as zero."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def gravity_torques(
    self: Robot,
    q: ArrayLike,
    *,
    gravity: ArrayLike = GRAVITY,
    threads: int | None = None,
) -> FloatArray:
    """Return the joint torques that hold the robot against gravity, (..., n) [N m or N].

    This is the gradient of the potential energy with respect to q.

    Args:
        q: Configurations (..., n) [rad or m].
        gravity: Acceleration of free fall (3,) in world axes [m/s²].
        threads: Maximum number of threads; all cores by default.

    Raises:
        DescriptionError: The mass of a link is unknown, or no link has a mass.
    """
    at, g = coordinates(q, self.nq, "q"), finite_array(gravity, (3,), "gravity")
    each = bodies(self)
    if not each.frames:
        return _like(q, np.zeros((*at.shape[:-1], self.dof), at.dtype))
    J = _chain_of_bodies(self).jacobian(at, thread_count(threads))
    torques = np.einsum("k,i,...kij->...j", each.mass, -g, J[..., :3, :])
    return _like(q, np.asarray(torques, at.dtype))


def gravity_stiffness(robot: Robot, q: Matrix, gravity: Matrix) -> Matrix:
    """Return the derivatives (n, n) of the gravity torques at one configuration.

    Entry (i, j) is the derivative of torque j with respect to a displacement of coordinate i. For a
    point p that joints i and j move, with i nearer to the base, ∂²p/∂q_i∂q_j = w_i × ∂p/∂q_j, and
    the entries (i, j) and (j, i) are equal. For two axes of a ball joint, which both move with the
    body, the two entries differ, and the formula holds for each entry.
    """
    each, joints = bodies(robot), robot._tree.joints
    if not each.frames:
        return np.zeros((robot.dof, robot.dof))
    # The displacement of each joint per unit of each coordinate.
    moves = np.zeros((len(joints), robot.dof))
    moves[np.arange(len(joints)), [j.coordinate for j in joints]] = [j.scale for j in joints]
    at = moves @ to_kernel(robot, q) + [joint.offset for joint in joints]
    firsts = tuple(i for i, joint in enumerate(joints) if joint.motion == Motion.BALL)
    at = from_kernel(Coordinates(len(joints) + len(firsts), len(joints), firsts), at)
    J = _chain_of_joints(robot).jacobian(at, DEFAULT_THREADS)
    turned = np.cross(-gravity, J[:, 3:], axisb=-2, axisc=-2)  # -g·(w_i × v_j) = -(g × w_i)·v_j
    second = np.einsum("k,kai,kaj->ij", each.mass, turned, J[:, :3])
    upper = np.triu(second)
    made = upper + np.triu(upper, 1).T
    for first in firsts:
        ball = slice(first, first + 3)
        made[ball, ball] = second[ball, ball]
    return np.asarray(moves.T @ made @ moves)


def center_of_mass(self: Robot, q: ArrayLike, *, threads: int | None = None) -> FloatArray:
    """Return the center of mass of all links in the world, (..., 3) [m].

    Args:
        q: Configurations (..., n) [rad or m].
        threads: Maximum number of threads; all cores by default.

    Raises:
        DescriptionError: The mass of a link is unknown, or no link has a mass.
    """
    at = coordinates(q, self.nq, "q")
    each = bodies(self)
    mass, moment = each.still
    if each.frames:
        p = _chain_of_bodies(self).poses(at, thread_count(threads))[..., :3, 3]
        moment = moment + np.einsum("k,...ki->...i", each.mass, p)
    center = np.broadcast_to(moment / (mass + each.mass.sum()), (*at.shape[:-1], 3))
    return _like(q, np.array(center, at.dtype))


def momentum_matrix(self: Robot, q: ArrayLike, *, threads: int | None = None) -> FloatArray:
    """Return the centroidal momentum matrix A(q), (..., 6, n) [kg m, kg m² or kg].

    h = A q̇ is the momentum of all links: linear (3,) [kg m/s], then angular about the center of
    mass (3,) [kg m²/s], in world axes.

    Args:
        q: Configurations (..., n) [rad or m].
        threads: Maximum number of threads; all cores by default.

    Raises:
        DescriptionError: The mass of a link is unknown, or no link has a mass.

    References:
        Orin & Goswami, Centroidal momentum matrix of a humanoid robot, 2008.
    """
    at = coordinates(q, self.nq, "q")
    each = bodies(self)
    if not each.frames:
        return _like(q, np.zeros((*at.shape[:-1], 6, self.dof), at.dtype))
    T, J = _chain_of_bodies(self).poses_and_jacobian(at, thread_count(threads))
    center = center_of_mass(self, at, threads=threads)
    v, w, R = J[..., :3, :], J[..., 3:, :], T[..., :3, :3]
    arm = (T[..., :3, 3] - center[..., None, :])[..., None]  # from the center of mass to the bodies
    push = each.mass[:, None, None] * v
    spin = R @ each.matrix @ R.swapaxes(-1, -2) @ w + np.cross(arm, push, axis=-2)
    return _like(q, np.asarray(np.concatenate([push, spin], axis=-2).sum(axis=-3), at.dtype))


def momentum(self: Robot, q: ArrayLike, qd: ArrayLike, *, threads: int | None = None) -> FloatArray:
    """Return the momentum of all links, (..., 6), in world axes.

    The result is the linear momentum (3,) [kg m/s], then the angular momentum about the center of
    mass (3,) [kg m²/s].

    Args:
        q: Configurations (..., n) [rad or m].
        qd: Joint speeds (..., nv) [rad/s or m/s].
        threads: Maximum number of threads; all cores by default.

    Raises:
        DescriptionError: The mass of a link is unknown, or no link has a mass.
    """
    A = momentum_matrix(self, coordinates(q, self.nq, "q"), threads=threads)
    speeds = coordinates(qd, self.nv, "qd").astype(A.dtype, copy=False)
    return _like(q, np.asarray(np.einsum("...ij,...j->...i", A, speeds)))


def capture_point(
    self: Robot,
    q: ArrayLike,
    qd: ArrayLike,
    *,
    ground: float = 0.0,
    gravity: float = 9.81,
    threads: int | None = None,
) -> FloatArray:
    """Return the capture point (..., 3) on the ground [m]: a step there brings the robot to rest.

    The result is the instantaneous capture point of a linear inverted pendulum, c + ċ
    √(height/gravity), projected onto the ground; c is the center of mass, `height` its height above
    the ground. If the point is inside the support polygon, the robot can stop without a step.

    Args:
        q: Configurations (..., n) [rad or m].
        qd: Joint speeds (..., nv) [rad/s or m/s].
        ground: Height of the ground, z in the world [m].
        gravity: Acceleration of free fall along -z of the world [m/s²].
        threads: Maximum number of threads; all cores by default.

    Raises:
        DescriptionError: The mass of a link is unknown, or no link has a mass.

    References:
        Pratt et al., Capture point: a step toward humanoid push recovery, 2006.
    """
    at = coordinates(q, self.nq, "q")
    center = center_of_mass(self, at, threads=threads)
    speed = momentum(self, at, qd, threads=threads)[..., :3] / self.mass
    height = np.maximum(center[..., 2:] - ground, 0.0)
    point = center + speed * np.sqrt(height / gravity)
    point[..., 2] = ground
    return _like(q, np.asarray(point, center.dtype))
