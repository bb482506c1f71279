"""Literal transcription of Maciejewski & Klein 1988, sections IV and V: slow, with inverses.

`Estimated` is section IV. `Literal` is section V as printed: û, σ_m, z and λ are those of the
previous interval. `repaired` is section V with one inverse iteration on the current J and z of the
current interval; its gain is the printed one, or depends on the components of ẋ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
EPS = np.finfo(float).eps


def eq14(sigma: float, bound: float) -> float:
    """Return λ² of eq. (14) for θ̇max = `bound`, with the case σ < λ that the text adds."""
    if sigma >= 1 / bound:
        return 0.0
    if sigma >= 1 / (2 * bound):
        return sigma / bound - sigma**2
    return 1 / (4 * bound**2)


def least_gain(sigma: float, bound: float, c: float) -> float:
    """Return the smallest α² that keeps the speed within `bound` if c = ûᵀẋ/‖ẋ‖."""
    if sigma <= c / (2 * bound):
        return (c / (2 * bound)) ** 2
    return max(0.0, sigma * c / bound - sigma**2)


def component_aware(sigmas: Array, bound: float, parts: Array) -> list[float]:
    """Return α² of each direction; `parts` are the components of ẋ/‖ẋ‖ along the directions."""
    gains = []
    for sigma in sigmas:
        own = eq14(sigma, bound)
        shares = [min(1.0, eq14(s, bound) / own) if own > 0 else 1.0 for s in sigmas]
        c = min(1.0, np.sqrt(sum(w * p**2 for w, p in zip(shares, parts, strict=True))))
        t = 1.0 if 2 * bound * sigma <= c else c / (2 * bound * sigma)
        t *= max(0.0, 1 - (4 * bound * sigma) ** 2)
        gains.append(least_gain(sigma, bound, c) + c * (1 - c) * t * own)
    return gains


def resolution(J: Array) -> float:
    """Return μ, which is added to the diagonal of J Jᵀ so that its inverse exists."""
    return 4 * EPS * len(J) * float(np.trace(J @ J.T))


def directions(J: Array, U: Array) -> tuple[Array, Array]:
    """Return orthogonal directions U (m, p) and σ̂² (p,) after one inverse iteration.

    If the inverse stretches the first direction less than half as much as the best coordinate axis,
    the iteration starts from the exact singular directions instead.
    """
    mu, one = resolution(J), np.eye(len(J))
    inverse = np.linalg.inv(J @ J.T + mu * one)
    if np.linalg.norm(inverse @ U[:, 0]) < 0.5 * np.diagonal(inverse).max():
        U = np.linalg.svd(J)[0][:, ::-1][:, : U.shape[1]]
    found: list[Array] = []
    sigma2 = []
    for u in U.T:
        P = one - sum((np.outer(v, v) for v in found), np.zeros_like(one))
        u = P @ u
        u1 = P @ inverse @ (u / np.linalg.norm(u))
        sigma2.append(max(0.0, 1 / np.linalg.norm(u1) - mu))
        found.append(u1 / np.linalg.norm(u1))
    return np.array(found).T, np.array(sigma2)


@dataclass
class Filtered:
    """A filtered step and its intermediate results."""

    dq: Array
    U: Array
    sigma: float
    effective: float = np.inf
    across: float = np.inf
    alpha2: float = 0.0
    lambda2: float = 0.0


def repaired(J: Array, x: Array, U: Array, bound: float, printed: bool) -> Filtered:
    """Return the repaired step for a command x (m,), J (m, n) with m <= n, and directions U."""
    one, mu = np.eye(len(x)), resolution(J)
    U, sigma2 = directions(J, U)
    sigma = np.sqrt(sigma2)
    if not x.any():
        return Filtered(np.zeros(J.shape[1]), U, sigma[0])
    xs = U @ (U.T @ x)
    xo = x - xs
    size = np.linalg.norm(x)
    gains = [eq14(sigma[0], bound)] if printed else component_aware(sigma, bound, U.T @ x / size)
    A = J @ J.T + sum(a * np.outer(u, u) for a, u in zip(gains, U.T, strict=True)) + mu * one
    z = np.linalg.inv(A) @ x
    zo = z - U @ (U.T @ z)
    so = np.inf
    if np.linalg.norm(xo) > 64 * EPS * size and np.linalg.norm(zo) > 0:
        so = np.sqrt(max(np.linalg.norm(xo) / np.linalg.norm(zo) - mu, mu))
    effective = size / np.linalg.norm(J.T @ z)
    if printed:
        effective = size / np.sqrt(xs @ xs / max(sigma2[0], mu) + xo @ xo / so**2)
    lambda2 = eq14(effective, bound)
    dq = J.T @ np.linalg.inv(A + lambda2 * one) @ x
    most = bound * size
    dq = dq * most / np.linalg.norm(dq) if np.linalg.norm(dq) > most else dq
    return Filtered(dq, U, sigma[0], effective, so, gains[0], lambda2)


@dataclass
class Estimated:
    """A step by section IV as printed, m <= n: λ² from the previous σ̂, one solve for z and û'.

    `rule` returns λ² for the smallest and the largest singular value.
    """

    u: Array
    sigma: float
    w: Array
    largest: float
    rule: Callable[[float, float], float]
    lambda2: float = 0.0

    @classmethod
    def start(cls, J: Array, rule: Callable[[float, float], float]) -> Estimated:
        U, sigma, _ = np.linalg.svd(J)
        return cls(U[:, -1], sigma[-1], U[:, 0], sigma[0], rule)

    def __call__(self, J: Array, x: Array) -> Array:
        self.lambda2 = self.rule(self.sigma, self.largest)
        A = J @ J.T + self.lambda2 * np.eye(len(x))
        z, u1 = np.linalg.solve(A, np.c_[x, self.u]).T
        self.sigma = np.sqrt(max(0.0, 1 / np.linalg.norm(u1) - self.lambda2))
        self.u = u1 / np.linalg.norm(u1)
        w1 = J @ J.T @ self.w
        self.w, self.largest = w1 / np.linalg.norm(w1), np.sqrt(np.linalg.norm(w1))
        return J.T @ z


@dataclass
class Literal:
    """A step by section V as printed, m <= n: damping uses quantities of the previous interval."""

    u: Array
    sigma2: float
    bound: float
    z: Array | None = None
    x: Array | None = None
    lambda2: float = 0.0

    def __call__(self, J: Array, x: Array) -> Array:
        u, lambda2 = self.u, 0.0
        alpha2 = eq14(np.sqrt(self.sigma2), self.bound)
        xs = u * (u @ x)
        xo = x - xs
        if self.z is not None and self.x is not None:
            zo, before = self.z - u * (u @ self.z), self.x - u * (u @ self.x)
            so2 = max(np.linalg.norm(before) / np.linalg.norm(zo) - self.lambda2, 1e-12)
            squares = xs @ xs / max(self.sigma2, 1e-12) + xo @ xo / so2
            lambda2 = eq14(np.linalg.norm(x) / np.sqrt(squares), self.bound)
        A = J @ J.T + alpha2 * np.outer(u, u) + lambda2 * np.eye(len(x))
        z, u1 = np.linalg.solve(A, np.c_[x, u]).T
        self.sigma2 = max(0.0, 1 / np.linalg.norm(u1) - lambda2 - alpha2)
        self.u, self.z, self.x, self.lambda2 = u1 / np.linalg.norm(u1), z, x, lambda2
        return J.T @ z
