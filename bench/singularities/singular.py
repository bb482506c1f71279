"""Singular configurations, and exact motions near them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

import supple as sp
from supple.kinematics import rotation

Array = NDArray[np.float64]
Path = Callable[[float], Array]  # [s] -> pose (4, 4)

DEEPEST = 24  # maximum number of halvings of a step along a path


@dataclass(frozen=True, eq=False)
class Singularity:
    """A configuration with one singular direction:  J(q)ᵀu = 0.

    Attributes:
        q: Configuration (n,) [rad].
        u: Singular direction as a unit vector (6,) [m, rad mixed], or (3,) for positions alone. It
            points to the reachable side if only one side is reachable.
        null: Joint motions that do not move the end effector (k, n), orthonormal.
        H: Second-order motion (k, k) of the end effector along u due to the joint motions in
            `null`: cᵀH c = u·J̇q̇ for q̇ = nullᵀc.

    References:
        Bedrossian 1990, "Classification of singular configurations for redundant manipulators".
    """

    q: Array
    u: Array
    null: Array
    H: Array

    @property
    def avoidable(self) -> bool:
        """Whether H has eigenvalues of both signs: self-motion can then leave the singularity."""
        values = np.linalg.eigvalsh(self.H)
        return bool(min(-values[0], values[-1]) > 1e-6)

    @property
    def inward(self) -> Array:
        """Unit vector (3,) along the translational part of u."""
        return unit(self.u[:3])

    @classmethod
    def near(
        cls, robot: sp.Robot, guess: Array, free: tuple[int, ...], rows: int = 6
    ) -> Singularity:
        """Solve  J(q)ᵀu = 0, uᵀu = 1  for u and the joints `free` of q, by Newton's method."""
        q, joints, h = np.array(guess, dtype=np.float64), list(free), 1e-6

        def jacobian(q: Array) -> Array:
            return np.asarray(robot.jacobian(q)[..., :rows, :])

        u = np.linalg.svd(jacobian(q))[0][:, -1]
        for _ in range(50):
            J = jacobian(q)
            off = np.append(J.T @ u, (u @ u - 1) / 2)
            if np.abs(off).max() < 1e-15:
                break
            turns = h * np.eye(robot.dof)[joints]
            slopes = (jacobian(q + turns) - jacobian(q - turns)) / (2 * h)
            whole = np.zeros((robot.dof + 1, rows + len(joints)))
            whole[:-1, :rows], whole[-1, :rows], whole[:-1, rows:] = J.T, u, (u @ slopes).T
            step = np.linalg.lstsq(whole, off, rcond=1e-10)[0]
            u, q[joints] = u - step[:rows], q[joints] - step[rows:]
        U, sigma, Vt = np.linalg.svd(jacobian(q))
        if sigma[rows - 1] > 1e-9 or sigma[rows - 2] < 0.05:
            raise ValueError(
                f"{robot.name}: exactly one singular value must be zero, and all others at least "
                f"0.05; given: σ = {sigma.round(4)}"
            )
        u, null = U[:, -1], Vt[rows - 1 :]
        H = np.array([[bend(robot, q, u, a, b) for a in null] for b in null])
        side = -1.0 if np.trace(H) < -1e-6 else 1.0
        return cls(q, u * side, null, H * side)

    def folded(self, robot: sp.Robot, depth: float) -> Array:
        """Return a configuration inside the limits, `depth` [m] away from the singular pose."""
        values, vectors = np.linalg.eigh(self.H)
        turn = np.sqrt(2 * depth * np.linalg.norm(self.u[:3]) / values[-1])
        ways = [self.q + side * turn * (vectors[:, -1] @ self.null) for side in (-1, 1)]
        return max(ways, key=lambda q: np.minimum(q - robot.lower, robot.upper - q).min())


def bend(robot: sp.Robot, q: Array, u: Array, a: Array, b: Array) -> float:
    """Return H(a, b) of `Singularity` for joint motions a and b (n,), by polarization."""
    drift = robot.bias_acceleration(np.tile(q, (3, 1)), np.array([a + b, a, b]))
    both, first, second = drift[:, : len(u)] @ u
    return float(both - first - second) / 2


def unit(x: Array) -> Array:
    """Return the unit vector along x."""
    return np.asarray(x / np.linalg.norm(x))


def moved(T: Array, by: Array) -> Array:
    """Return a pose displaced by `by` (3,) [m], or displaced and rotated by `by` (6,) [m, rad]."""
    to = T.copy()
    to[:3, 3] += by[:3]
    if len(by) > 3:
        to[:3, :3] = rotation.exp(by[3:]) @ T[:3, :3]
    return to


def difference(T: Array, to: Array) -> Array:
    """Return displacement and rotation vector (..., 6) [m, rad] from T to `to`, in world axes."""
    turn = rotation.log(to[..., :3, :3] @ T[..., :3, :3].swapaxes(-1, -2))
    return np.concatenate([to[..., :3, 3] - T[..., :3, 3], turn], axis=-1)


def reached(robot: sp.Robot, q: Array, pose: Array, rows: int = 6) -> Array | None:
    """Solve for a pose with Newton's method from q; return None if it does not converge."""
    for _ in range(12):
        T, J = robot.fk_jacobian(q, threads=1)
        J, e = J[:rows], difference(T, pose)[:rows]
        if e @ e < 1e-20:
            return q
        try:
            q = q + J.T @ np.linalg.solve(J @ J.T, e)
        except np.linalg.LinAlgError:  # exactly singular
            break
    return None


def carried(
    robot: sp.Robot, q: Array, path: Path, a: float, b: float, rows: int = 6, depth: int = 0
) -> Array:
    """Continue a configuration along a path from time a to b, with adaptive steps."""
    there = reached(robot, q, path(b), rows)
    if there is not None and np.abs(there - q).max() < 0.05:
        return there
    if depth > DEEPEST:
        raise ValueError(f"{robot.name}: the path cannot be followed past {a:.4f} s")
    half = carried(robot, q, path, a, (a + b) / 2, rows, depth + 1)
    return carried(robot, half, path, (a + b) / 2, b, rows, depth + 1)


def follow(robot: sp.Robot, guess: Array, path: Path, times: Array, rows: int = 6) -> Array:
    """Return joint angles (K, n) that follow a path, given a guess of the first configuration."""
    first = reached(robot, guess, path(times[0]), rows)
    if first is None:
        raise ValueError(f"{robot.name}: Newton's method does not reach the first pose")
    joints = [first]
    for a, b in pairwise(times):
        joints.append(carried(robot, joints[-1], path, a, b, rows))
    return np.array(joints)
