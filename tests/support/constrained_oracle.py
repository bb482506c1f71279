"""Oracles of the constrained step: an enumeration of active sets, and a test of optimality.

The step minimizes ‖J (x - x0)‖² + λ² ‖x - x0‖² subject to low <= x <= high, ‖x‖ <= bound and
G x >= h. If not all constraints can hold, the earlier ones take precedence: the box, the norm, and
then each row of G over the rows after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

Array = np.ndarray
RIDGE = 1e-12  # `ridge` of limits/box.hpp
_FEASIBLE = 1e-10  # violation below which a candidate of the enumeration counts as feasible
_FAR = 1e3  # bounds that replace infinite ones where the largest g x is enumerated


@dataclass(frozen=True)
class Problem:
    """One problem, whose rows of G are scaled to length 1, or are zero."""

    J: Array
    x0: Array
    low: Array
    high: Array
    lambda2: float
    bound: float
    G: Array
    h: Array

    @property
    def cost_rows(self) -> Array:
        """The matrix R (m + n, n) of the cost ‖R (x - x0)‖², with the smallest damping in use."""
        size = float((self.J**2).sum())
        damping = max(self.lambda2, RIDGE * size) if size > 0 else max(self.lambda2, 1.0)
        return np.vstack([self.J, np.sqrt(damping) * np.eye(len(self.x0))])

    @property
    def unit_rows(self) -> tuple[Array, Array]:
        """G and h, each row divided by the length of that row of G."""
        size = np.linalg.norm(self.G, axis=1)
        size[size == 0] = 1
        return self.G / size[:, None], self.h / size

    def nearest(self) -> Array:
        """Return the point of the box nearest to zero."""
        return np.clip(0.0, self.low, self.high)


@dataclass(frozen=True)
class _Face:
    """The points a + Z w where some of the constraints A x >= b are equations."""

    a: Array
    Z: Array


def _faces(A: Array, b: Array, fixed: list[int]) -> Iterator[_Face]:
    """Yield the faces of all sets of constraints that contain `fixed`."""
    n = A.shape[1]
    others = [i for i in range(len(A)) if i not in fixed and np.isfinite(b[i]) and np.any(A[i])]
    for count in range(n + 1):
        for some in combinations(others, count):
            rows = [*fixed, *some]
            if not rows:
                yield _Face(np.zeros(n), np.eye(n))
                continue
            u, s, vt = np.linalg.svd(A[rows])
            rank = int((s > 1e-10 * max(s.max(), 1e-300)).sum())
            if rank < len(rows) and not fixed:
                continue  # fewer rows describe the same face
            a = vt[:rank].T @ ((u[:, :rank].T @ b[rows]) / s[:rank])
            if np.abs(A[rows] @ a - b[rows]).max() <= 1e-9:
                yield _Face(a, vt[rank:].T)


def _feasible(A: Array, b: Array, bound: float, x: Array) -> bool:
    inside = A @ x >= b - _FEASIBLE * (1 + np.abs(np.where(np.isfinite(b), b, 0)))
    return bool(inside.all() and np.linalg.norm(x) <= bound * (1 + _FEASIBLE))


def _highest(
    g: Array, A: Array, b: Array, fixed: list[int], bound: float
) -> tuple[float, Array | None]:
    """Return the largest g x with A x >= b, ‖x‖ <= bound, and the x if its norm is at the bound."""
    best, only = -np.inf, None
    for face in _faces(A, b, fixed):
        a, Z = face.a, face.Z
        points, along, room = [a], Z.T @ g, bound**2 - a @ a
        if np.isfinite(room) and room > 0 and np.linalg.norm(along) > 1e-12:
            points.append(a + Z @ along * np.sqrt(room) / np.linalg.norm(along))
        for x in points:
            if g @ x > best and _feasible(A, b, bound, x):
                best, only = float(g @ x), x if x is not a else None
    return best, only


def _shorter(H: Array, c: Array, room: float) -> Array:
    """Return the minimizer w of wᵀHw/2 - cᵀw with ‖w‖² = room, where ‖H⁻¹c‖² > room."""
    values, vectors = np.linalg.eigh(H)
    c, low, high = vectors.T @ c, 0.0, float(np.linalg.norm(c)) / np.sqrt(room) + 1.0
    for _ in range(200):
        delta = (low + high) / 2
        low, high = (delta, high) if ((c / (values + delta)) ** 2).sum() > room else (low, delta)
    return np.asarray(vectors @ (c / (values + high)))


def enumerated(p: Problem) -> tuple[Array, Array]:
    """Return x (n,) and the unavoidable violation of each row (k,)."""
    n, (G, h) = len(p.x0), p.unit_rows
    nearest, missed = p.nearest(), np.zeros(len(h))
    if np.linalg.norm(nearest) >= p.bound:
        return nearest, np.maximum(h - G @ nearest, 0)
    A, b = np.vstack([np.eye(n), -np.eye(n)]), np.concatenate([p.low, -p.high])
    fixed = np.flatnonzero(p.low == p.high).tolist()
    for k in range(len(h)):
        if np.any(G[k]):
            far = np.maximum(b, -_FAR) if not np.isfinite(p.bound) else b
            most, only = _highest(G[k], A, far, fixed, p.bound)
        else:
            most, only = 0.0, None
        if most < h[k] - 1e-11:
            missed[k] = h[k] - most
            if only is not None:
                return only, np.maximum(h - G @ only, 0)
            if np.any(G[k]):
                fixed.append(len(A))
        A, b = np.vstack([A, G[k]]), np.append(b, min(h[k], most))
    R, best, result = p.cost_rows, np.inf, nearest
    for face in _faces(A, b, fixed):
        a, Z = face.a, face.Z
        w = np.zeros(Z.shape[1])
        for _ in range(2):  # the second time, rounding errors of the first one are removed
            w = w + np.linalg.lstsq(R @ Z, R @ (p.x0 - a - Z @ w), rcond=None)[0]
        room = p.bound**2 - a @ a
        if w @ w > room:
            H, c = Z.T @ R.T @ R @ Z, Z.T @ R.T @ (R @ (p.x0 - a))
            w = _shorter(H, c, room) if room > 0 else 0 * w
        x = a + Z @ w
        cost = float(np.linalg.norm(R @ (x - p.x0)))
        if cost < best and _feasible(A, b, p.bound, x):
            best, result = cost, x
    return result, missed


def cone_distance(A: Array, v: Array) -> float:
    """Return the distance of v (n,) from the cone of the columns of A (n, k), by Lawson & Hanson.

    The result is relative to the largest term of the nearest sum A u, or to v if that is larger.
    """
    size = float(np.linalg.norm(v))
    if size == 0:
        return 0.0
    A, v = A / np.maximum(np.linalg.norm(A, axis=0), 1e-300), v / size
    u, chosen, best = np.zeros(A.shape[1]), np.zeros(A.shape[1], bool), 1.0
    for _ in range(3 * A.shape[1] + 10):
        left = v - A @ u
        best = min(best, float(np.linalg.norm(left)) / max(1.0, u.max(initial=0.0)))
        slope = np.where(chosen, -1.0, A.T @ left)
        if best <= 1e-14 or not len(u) or slope.max() <= 1e-15:
            break
        chosen[int(slope.argmax())] = True
        while chosen.any():
            trial = np.zeros(len(u))
            trial[chosen] = np.linalg.lstsq(A[:, chosen], v, rcond=None)[0]
            falls = chosen & (trial <= 0)
            if not falls.any():
                break
            share = (u[falls] / np.maximum(u[falls] - trial[falls], 1e-300)).min()
            u = u + share * (trial - u)
            chosen &= ~(falls & (u <= 1e-15))
            u[~chosen] = 0
        u = np.where(chosen, trial, 0.0)
    return best


def certificate(p: Problem, x: Array, close: float = 1e-10) -> tuple[float, Array]:
    """Return how far x (n,) is from optimal, and which rows it misses (k,).

    The first result is the largest of the distances that are zero at the optimum: of the gradient
    from the cone of the active constraints, relative to the terms of the gradient, and of each
    missed row from the cone of the constraints before it, relative to the length of the row. The
    result is not valid if the norm is at its bound and a row is missed: x may then be the only
    point that satisfies the constraints, which the normals do not show.
    """
    n, (G, h) = len(p.x0), p.unit_rows
    normals = [np.eye(n)[j] for j in range(n) if x[j] <= p.low[j]]
    normals += [-np.eye(n)[j] for j in range(n) if x[j] >= p.high[j]]
    if np.linalg.norm(x) >= p.bound * (1 - close):
        normals.append(-x)
    worst, missed = 0.0, np.zeros(len(h), bool)
    for k in range(len(h)):
        slack = G[k] @ x - h[k]
        noise = close * (1 + abs(h[k]))
        missed[k] = slack < -noise
        if missed[k]:
            worst = max(worst, cone_distance(np.reshape(normals, (-1, n)).T, -G[k]))
        if slack < noise:
            normals.append(G[k])
    R = p.cost_rows
    half = R.T @ (R @ (x - p.x0))
    left = cone_distance(np.reshape(normals, (-1, n)).T, half) * np.linalg.norm(half)
    scale = np.linalg.norm(R) * max(np.linalg.norm(R @ (x - p.x0)), 1e-3 * np.linalg.norm(R))
    return max(worst, float(left / scale)), missed
