"""The gentlest joint motion along a path that is known as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple import Robot
from supple.poses import rotation_vector

Array = NDArray[np.float64]
EXACT = 1e4  # weight of an error [m, rad] relative to an acceleration [rad per knot²]


def gentlest_motion(robot: Robot, poses: Array, q: Array) -> Array:
    """Return the motion (K, n) through poses (K, 4, 4) with the least sum of squared accelerations.

    The motion starts at rest at q[0]. It is a local minimum, which a Gauss–Newton method finds from
    the initial guess q (K, n).
    """
    count, n = len(poses), robot.dof
    second = np.zeros((count - 1, count))  # rows of second differences; q[-1] = q[0]
    for k in range(count - 1):
        second[k, max(k - 1, 0)] += 1
        second[k, k] -= 2
        second[k, k + 1] += 1
    smooth = np.kron(second.T @ second, np.eye(n))[n:, n:]
    for _ in range(15):
        found, J = robot.fk_jacobian(q)
        turns = np.tile(np.eye(4), (count, 1, 1))
        turns[:, :3, :3] = poses[:, :3, :3] @ found[:, :3, :3].swapaxes(1, 2)
        off = np.hstack([poses[:, :3, 3] - found[:, :3, 3], rotation_vector(turns)])
        A = smooth.copy()
        b = -(second.T @ (second @ q))[1:].ravel()
        for k in range(1, count):
            rows = slice((k - 1) * n, k * n)
            A[rows, rows] += EXACT**2 * J[k].T @ J[k]
            b[rows] += EXACT**2 * J[k].T @ off[k]
        step = np.linalg.solve(A, b).reshape(-1, n)
        q = q.copy()
        q[1:] += step * min(1.0, 0.3 / float(np.abs(step).max()))
        if np.abs(step).max() < 1e-4:
            break
    return q
