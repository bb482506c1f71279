"""The paper's methods on many paths of the PUMA at once.

The steps are those of `methods.py`, except the filter whose gain depends on e; a test compares the
two modules. One interval of 500 paths takes a few products of (500, 6, 6) arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from supple.papers.maciejewski_klein.inverse import PUMA
from supple.papers.maciejewski_klein.methods import GAIN
from supple.papers.style import Array

from supple import DLS, Linearization, damping

ROUNDING = 8.9e-16  # bound on the rounding errors of J Jᵀ, divided by rows times trace

Step: TypeAlias = Callable[[Array, Array], Array]  # J (P, 6, 6) and ẋ (P, 6) -> θ̇ (P, 6)


@dataclass(frozen=True, eq=False)
class Motions:
    """Motions along P paths; in the motion along one path, which `path` returns, the arrays lack P.

    Attributes:
        q: Joint angles (K + 1, P, 6) [rad].
        qd: Joint speeds (K, P, 6) [rad per interval].
        command: Commanded velocities ẋ_c (K, P, 6).
        velocity: Velocities J θ̇ (K, P, 6).
    """

    q: Array
    qd: Array
    command: Array
    velocity: Array

    def path(self, number: int) -> Motions:
        """Return the motion along the path with this index."""
        one = (x[:, number] for x in (self.q, self.qd, self.command, self.velocity))
        return Motions(*one)


def follow(start: Array, poses: Array, step: Step) -> Motions:
    """Follow paths (K + 1, P, 4, 4) from configurations (P, 6), one Euler step per interval."""
    intervals, q = len(poses) - 1, start
    every, speeds, commands, velocities = [q], [], [], []
    for k in range(intervals):
        T, J = PUMA.fk_jacobian(q)
        x = GAIN * _error(T, poses[k])
        x[:, :3] += poses[k + 1, :, :3, 3] - poses[k, :, :3, 3]
        dq = step(J, x)
        q = q + dq
        every.append(q)
        speeds.append(dq)
        commands.append(x)
        velocities.append(np.einsum("pij,pj->pi", J, dq))
    return Motions(*(np.array(x) for x in (every, speeds, commands, velocities)))


def _error(T: Array, target: Array) -> Array:
    """Return the errors (P, 6) of poses (P, 4, 4): offset and rotation vector to the target."""
    D = target[:, :3, :3] @ T[:, :3, :3].swapaxes(1, 2)
    twice = np.stack([D[:, 2, 1] - D[:, 1, 2], D[:, 0, 2] - D[:, 2, 0], D[:, 1, 0] - D[:, 0, 1]], 1)
    sine, cosine = np.linalg.norm(twice, axis=1) / 2, (np.trace(D, axis1=1, axis2=2) - 1) / 2
    scale = np.where(sine > 1e-12, np.arctan2(sine, cosine) / np.maximum(sine, 1e-300), 1.0)
    return np.concatenate([target[:, :3, 3] - T[:, :3, 3], scale[:, None] * twice / 2], axis=1)


# ---- the methods ---------------------------------------------------------------------------------


def methods(max_gain: float) -> dict[str, Step]:
    """Return the paper's methods by name."""

    def damped(rule: damping.DampingRule) -> Step:
        step = DLS(rule)
        return lambda J, x: np.asarray(step(Linearization(J, x)))

    return {
        "constant": damped(damping.Constant((1 / (2 * max_gain)) ** 2)),
        "variable": Estimated(max_gain),
        "filtered_as_printed": Printed(max_gain),
    }


@dataclass
class Estimated:
    """DLS for many J at once, damped by eq. (14) for the σ̂ of the previous interval."""

    max_gain: float
    u: Array = field(default_factory=lambda: np.zeros((0, 6)))
    sigma: Array = field(default_factory=lambda: np.zeros(0))

    def __call__(self, J: Array, x: Array) -> Array:
        """Return θ̇ (P, 6)."""
        if not self.u.size:
            U, sigma, _ = np.linalg.svd(J)
            self.u, self.sigma = U[..., -1], sigma[:, -1]
        gram = J @ J.swapaxes(1, 2)
        floor = 6 * ROUNDING * np.trace(gram, axis1=1, axis2=2)
        lambda2 = np.maximum(least_damping(self.sigma, 1 / self.max_gain), floor)
        A = gram + lambda2[:, None, None] * np.eye(6)
        self.u, size = iterated(A, self.u)
        self.sigma = np.sqrt(np.maximum(size - lambda2, 0))
        return np.asarray((J.swapaxes(1, 2) @ np.linalg.solve(A, x[..., None]))[..., 0])


@dataclass
class Printed:
    """The filter with α as printed, for many J at once; it keeps each û (P, 6) between calls."""

    max_gain: float
    u: Array = field(default_factory=lambda: np.zeros((0, 6)))

    def __call__(self, J: Array, x: Array) -> Array:
        """Return θ̇ (P, 6)."""
        if not self.u.size:
            self.u = np.linalg.svd(J)[0][..., -1]
        gram, eye = J @ J.swapaxes(1, 2), np.eye(6)
        floor = 6 * ROUNDING * np.trace(gram, axis1=1, axis2=2)
        blur = floor[:, None, None]
        self.u, size = iterated(gram + blur * eye, self.u)
        u, sigma2, edge = self.u, np.maximum(size - floor, 0), 1 / self.max_gain
        length = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
        e = x / length
        alpha2 = least_damping(np.sqrt(sigma2), edge)[:, None, None]
        A = gram + alpha2 * u[:, :, None] * u[:, None, :] + blur * eye
        z = np.linalg.solve(A, e[..., None])[..., 0]
        along = (u * e).sum(axis=1)
        e_o, z_o = (np.linalg.norm(v - (u * v).sum(axis=1)[:, None] * u, axis=1) for v in (e, z))
        gain2 = along**2 / np.maximum(sigma2, floor)
        gain2 += e_o**2 / np.maximum(e_o / np.maximum(z_o, 1e-300) - floor, floor)
        lambda2 = least_damping(1 / np.sqrt(np.maximum(gain2, 1e-300)), edge)[:, None, None]
        z = np.linalg.solve(A + lambda2 * eye, e[..., None])
        dq = (J.swapaxes(1, 2) @ z)[..., 0]
        over = np.maximum(np.linalg.norm(dq, axis=1, keepdims=True) * edge, 1)
        return np.asarray(length * dq / over)


def iterated(A: Array, u: Array) -> tuple[Array, Array]:
    """Return û after one inverse iteration with A (P, 6, 6), and 1/‖A⁻¹û‖ (P,). A coordinate axis
    replaces û where A⁻¹ stretches the axis more than twice as much as û.
    """
    inverse = np.linalg.inv(A)
    turned = np.einsum("pij,pj->pi", inverse, u)
    columns, each = np.linalg.norm(inverse, axis=1), np.arange(len(u))
    best = columns.argmax(axis=1)
    lost = 2 * np.linalg.norm(turned, axis=1) < columns[each, best]
    turned = np.where(lost[:, None], inverse[each, :, best], turned)
    size = np.linalg.norm(turned, axis=1)
    return turned / size[:, None], 1 / size


def least_damping(sigma: Array, edge: float) -> Array:
    """Return λ² of eq. (14) for many σ; `edge` is 1/θ̇max."""
    return np.where(2 * sigma >= edge, np.maximum(0, sigma * (edge - sigma)), edge**2 / 4)
