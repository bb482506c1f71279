"""Find the best motion along a passage that is known in advance, a reference for causal laws.

    minimize  sum_k ‖e_k(q)‖²      under the limits of position, speed and acceleration

e_k is the error of the pose in period k, as position and rotation vector, in which a radian counts
as a metre, as in the tasks of a `Servo`. The method is sequential quadratic programming: the poses
are linearized about the current motion, a banded program (`banded_qp.py`) gives the next motion
within a trust region, and a motion with a larger error is discarded. Every motion of the sequence
keeps all limits. There is one sequence from the motion of each of several laws, and one from the
inverse kinematics of the whole path. The best result is returned. It is at least as good as each of
these laws, but need not be the global minimum.

In short passages, the configuration in each period is unknown. Long passages are cubic splines,
whose control points are unknown: if the control points keep the limits, so does the spline at all
times. In both cases, the error is summed over all periods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

import supple as sp
from banded_qp import Array, Bounds, minimizer
from passages import Passage

MOST_POINTS, LEAST_SPACING = 400, 0.005  # most unknown configurations, and their least spacing [s]
STEPS, ENOUGH = 40, 1e-3  # most programs, and the relative decrease that ends the sequence
TRUST = 0.5  # largest change of a joint in the first step [rad or m]
MARGIN = 1e-6  # relative distance from the limits, for rounding
NEGLIGIBLE = 1e-7  # error that needs no improvement [m]


@dataclass(frozen=True)
class Basis:
    """Configurations in each period as sums of control points, preceded by points at q0.

    Attributes:
        first: Index (K,) of the first control point in each sum; points with negative indices are
            at q0.
        shares: Coefficients (K, p) of p successive control points in each sum.
        count: Number of unknown control points.
        every: Number of periods between control points.
    """

    first: np.ndarray
    shares: Array
    count: int
    every: int

    @staticmethod
    def of(periods: int, dt: float) -> Basis:
        """Return a basis for a number of periods after the start."""
        every = max(1, -(-periods // MOST_POINTS), round(LEAST_SPACING / dt))
        if every == 1:
            return Basis(np.arange(periods), np.ones((periods, 1)), periods, 1)
        t = np.arange(1, periods + 1) / every
        span = np.minimum(t.astype(int), -(-periods // every) - 1)
        u = t - span
        shares = np.stack(
            [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3], axis=1
        )
        return Basis(span - 3, shares / 6, int(span[-1]) + 1, every)

    def motion(self, points: Array) -> Array:
        """Return configurations relative to q0 (K, n) for control points relative to q0 (N, n)."""
        padded = np.vstack([np.zeros((3, points.shape[1])), points])
        which = self.first[:, None] + np.arange(self.shares.shape[1]) + 3
        return np.einsum("kp,kpn->kn", self.shares, padded[which])

    def gathered(self, values: Array) -> Array:
        """Apply the transpose of `motion` to values (K, n); return (N, n)."""
        made = np.zeros((self.count + 3, values.shape[1]))
        for p in range(self.shares.shape[1]):
            np.add.at(made, self.first + p + 3, self.shares[:, p, None] * values)
        return made[3:]

    def blocks(self, squares: Array) -> Array:
        """Return the blocks (4, N, n, n) of the Hessian, given a matrix (n, n) for each period."""
        n, width = squares.shape[1], self.shares.shape[1]
        made = np.zeros((4, self.count + 3, n, n))
        for p in range(width):
            for other in range(p, width):
                share = (self.shares[:, p] * self.shares[:, other])[:, None, None]
                np.add.at(made[other - p], self.first + p + 3, share * squares)
        return made[:, 3:]

    def points(self, q: Array) -> Array:
        """Return control points (N, n) near a motion (K, n), both relative to q0."""
        if self.every == 1:
            return q
        times = (np.arange(self.count) + 2) * self.every - 1  # where each coefficient is largest
        return q[np.minimum(times, len(q) - 1)]


def pose_errors(robot: sp.Robot, q: Array, poses: Array) -> tuple[Array, Array]:
    """Return the errors (K, 6) of configurations (K, n), and their Jacobians (K, 6, n)."""
    found, J = robot.fk_jacobian(q)
    turn = np.tile(np.eye(4), (len(q), 1, 1))
    turn[:, :3, :3] = poses[:, :3, :3] @ found[:, :3, :3].swapaxes(1, 2)
    off = poses[:, :3, 3] - found[:, :3, 3]
    return np.hstack([off, sp.poses.rotation_vector(turn)]), J


def pose_rms(here: Passage, q: Array) -> float:
    """Return the rms error [mm] of a motion (K + 1, n), in which a mrad counts as a millimetre."""
    off, _ = pose_errors(here.robot, q, here.meant[: len(q)])
    return float(1e3 * np.sqrt(np.mean(np.sum(off**2, axis=1))))


def inverse_kinematics(here: Passage) -> list[Array]:
    """Return a list with the motion (K + 1, n) of `plan_path`, at any speed; empty if it fails."""
    count = len(here.twists) + 1
    places = np.unique(np.linspace(0, count - 1, min(count, 200)).astype(int))
    try:
        found = sp.plan_path(here.robot, here.meant[places], q0=here.q0).q
    except sp.InputError:  # q0 does not reach the first pose
        return []
    known = np.isfinite(found).all(axis=1)
    each = [np.interp(np.arange(count), places[known], x) for x in found[known].T]
    return [np.stack(each, axis=1)]


def best_motion(here: Passage, starts: Iterable[Array]) -> Array:
    """Return the best motion (K + 1, n) that is found from several initial motions (K + 1, n).

    Initial motions that keep the limits are candidates as well.
    """
    periods, robot, q0 = len(here.twists), here.robot, here.q0
    basis = Basis.of(periods, here.dt)
    meant, h = here.meant[1 : periods + 1], basis.every * here.dt
    limits, shape = here.limits, (basis.count, robot.dof)
    bounds = Bounds(
        np.broadcast_to(limits.lower - q0, shape),
        np.broadcast_to(limits.upper - q0, shape),
        (1 - MARGIN) * limits.max_speed * h,
        (1 - MARGIN) * limits.max_acceleration * h**2,
    )

    def cost(q: Array) -> float:
        return float((pose_errors(robot, q, meant)[0] ** 2).sum())

    found: list[tuple[float, Array]] = []
    for start in starts:
        if keeps_limits(here, start):
            found.append((cost(start[1:]), start[1:]))
        y = basis.points(start[1:] - q0)
        if bounds.violation(y) > MARGIN:  # replaced by the nearest motion within the limits
            same = np.zeros((4, *shape, robot.dof))
            same[0] = np.eye(robot.dof)
            y = minimizer(same, -y, bounds, np.zeros(shape))
        y = _improved(here, basis, bounds, y, meant, cost)
        q = q0 + basis.motion(y)
        found.append((cost(q), q))
    return np.vstack([q0, min(found, key=lambda each: each[0])[1]])


def _improved(
    here: Passage,
    basis: Basis,
    bounds: Bounds,
    y: Array,
    meant: Array,
    cost: Callable[[Array], float],
) -> Array:
    """Return control points (N, n) with the smallest error that is found from the points y."""
    trust, now = TRUST, cost(here.q0 + basis.motion(y))
    for _ in range(STEPS):
        moved = basis.motion(y)
        off, J = pose_errors(here.robot, here.q0 + moved, meant)
        right = off + np.einsum("kij,kj->ki", J, moved)
        within = replace(
            bounds,
            lower=np.maximum(bounds.lower, y - trust),
            upper=np.minimum(bounds.upper, y + trust),
        )
        g = -basis.gathered(np.einsum("kij,ki->kj", J, right))
        new = minimizer(basis.blocks(J.swapaxes(1, 2) @ J), g, within, y)
        ahead = cost(here.q0 + basis.motion(new))
        if bounds.violation(new) > MARGIN or not ahead < now:
            trust /= 4
            if trust < 1e-4:
                break
            continue
        enough = now - ahead < ENOUGH * now
        y, now, trust = new, ahead, min(1.5 * trust, 1.0)
        if enough or np.sqrt(now / len(meant)) < NEGLIGIBLE:
            break
    return y


def keeps_limits(here: Passage, q: Array, tolerance: float = 1e-6) -> bool:
    """Return whether a motion (K + 1, n) from rest keeps all limits, up to a relative tolerance."""
    limits, qd = here.limits, np.diff(q, axis=0) / here.dt
    qdd = np.diff(qd, axis=0, prepend=np.zeros((1, q.shape[1]))) / here.dt
    inside = (q >= limits.lower - tolerance).all() and (q <= limits.upper + tolerance).all()
    slow = (np.abs(qd) <= (1 + tolerance) * limits.max_speed).all()
    gentle = (np.abs(qdd) <= (1 + tolerance) * limits.max_acceleration + 1e-9 / here.dt**2).all()
    return bool(inside and slow and gentle)
