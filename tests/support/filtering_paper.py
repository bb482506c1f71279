"""Maciejewski & Klein 1988, section V, word for word: slow, by inverses, from the equations alone.

Two readings. `literal` is the print: û, σ_m, z and λ are those of the interval before. `repaired`
takes one inverse iteration on the present J first, z of the present interval, and either gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
EPS = np.finfo(float).eps


def eq14(sigma: float, bound: float) -> float:
    """λ²(θ̇max), with the case σ < λ, which the paper states in words."""
    if sigma >= 1 / bound:
        return 0.0
    if sigma >= 1 / (2 * bound):
        return sigma / bound - sigma**2
    return 1 / (4 * bound**2)


def component_aware(sigma: float, bound: float, c: float) -> float:
    """Return α² for a commanded velocity with the fraction c along û."""
    if sigma <= c / (2 * bound):
        return (c / (2 * bound)) ** 2
    return max(0.0, sigma * c / bound - sigma**2)


def resolution(J: Array) -> float:
    """Return the regularization that keeps J Jᵀ invertible."""
    return 4 * EPS * len(J) * float(np.trace(J @ J.T))


def repaired(J: Array, x: Array, u: Array, bound: float, printed: bool) -> tuple[Array, Array]:
    """Return q̇ and û, for an m x n matrix with m <= n."""
    one, mu = np.eye(len(x)), resolution(J)
    inverse = np.linalg.inv(J @ J.T + mu * one)
    columns = np.linalg.norm(inverse, axis=0)
    if 2 * np.linalg.norm(inverse @ u) < columns.max():
        u = one[columns.argmax()]
    u1 = inverse @ u
    sigma2 = max(0.0, 1 / np.linalg.norm(u1) - mu)
    u = u1 / np.linalg.norm(u1)
    if not x.any():
        return np.zeros(J.shape[1]), u
    xs = u * (u @ x)
    xo = x - xs
    c = np.linalg.norm(xs) / np.linalg.norm(x)
    sigma = np.sqrt(sigma2)
    alpha2 = eq14(sigma, bound) if printed else component_aware(sigma, bound, c)
    A = J @ J.T + alpha2 * np.outer(u, u) + mu * one
    z = np.linalg.inv(A) @ x
    zo = z - u * (u @ z)
    squares = xs @ xs / max(sigma2, mu)
    if np.linalg.norm(xo) > 0 and np.linalg.norm(zo) > 0:
        so2 = np.linalg.norm(xo) / np.linalg.norm(zo) - mu
        squares += xo @ xo / max(so2, mu)
    lambda2 = eq14(np.linalg.norm(x) / np.sqrt(squares), bound)
    dq = J.T @ np.linalg.inv(A + lambda2 * one) @ x
    most = bound * np.linalg.norm(x)
    return (dq * most / np.linalg.norm(dq) if np.linalg.norm(dq) > most else dq), u


@dataclass
class Literal:
    """As printed, every quantity but û's solve one interval late. m <= n."""

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
