"""Continuous hierarchies: a task takes only a part of some joint directions from lower tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple.motion.linearization import RANK_FLOOR, TINY, Array, Linearization
from supple.redundancy.secondary import project_out
from supple.steps.step import Step

NOISE = 1e-13  # length of a row of C up to which it is due to rounding errors


class Remaining:
    """The joint motion q̇ = B y that tasks leave to the tasks below them; at the start, B = I.

    A task with J B = U diag(σ) Vᵀ takes the share h of each direction vᵢ. With s = σᵢ/(edge ‖J‖),

        h = s² (3 - 2 s) up to s = 1, then 1        B ← B - Σ (1 - √(1 - h)) B vᵢ vᵢᵀ

    B is a continuous function of J, also where J B loses rank. Where every h is 0 or 1, B projects
    onto the null space of all tasks so far. Otherwise some directions are left in part. A lower
    task would compensate by a larger y along these directions; therefore its step also minimizes
    the cost µ²‖C y‖² = µ²(‖y‖² - ‖B y‖²), with µ = ‖J‖. The part 1 - h of the motion along a single
    such direction then remains.

    Attributes:
        B: (n, n).
        C: One row for each direction of which a part is taken (k, n).
    """

    def __init__(self, n: int) -> None:
        self.B, self.C = np.eye(n), np.zeros((0, n))
        self._taken = np.zeros((0, n))  # orthonormal basis of the y that are taken in whole

    def step(self, level: Linearization, step: Step, edge: float, *, first: bool) -> Array:
        """Return the step (n,) of the next task, and take its directions.

        Args:
            level: The task, with the error that the tasks above it leave.
            step: The step that performs the task.
            edge: The singular value from which on a direction is taken in whole, relative to ‖J‖.
            first: Whether the task is the first one, which keeps its whole J and e.
        """
        left = level.J @ self.B
        U, sigma, Vt = np.linalg.svd(left, full_matrices=False)
        size = float(np.linalg.norm(level.J, 2))
        floor = max(RANK_FLOOR * max(left.shape) * np.linalg.norm(level.J), TINY)
        s = np.clip(sigma / max(edge * size, floor), 0, 1)
        s[sigma <= floor] = 0
        share = s * s * (3 - 2 * s)
        if not first:
            left = U * np.where(s > 0, sigma, 0) @ Vt
            e = level.e - U @ ((1 - share) * (U.T @ level.e))
            groups = level.effectors
            if len(self.C):
                cost = np.concatenate([left, size * self.C])
                left = _without_noise(cost, floor)
                e = np.concatenate([e, np.zeros(len(self.C))])
                groups = groups and (*groups, *[max(groups)] * len(self.C))
            level = replace(level, J=left, e=e, before=None, rows=(), effectors=groups)
        dq: Array = self.B @ step(level)
        self._take(s, share, Vt)
        return dq

    def _take(self, s: Array, share: Array, Vt: Array) -> None:
        """Take the shares (k,) of the directions Vt (k, n)."""
        for row in Vt[s >= 1]:
            new = project_out(self._taken, row)
            self._taken = np.vstack([self._taken, new / np.linalg.norm(new)])
        kept = (1 - s) * np.sqrt(1 + 2 * s)  # sqrt(1 - share), without cancellation
        R = np.eye(len(self.B)) - Vt.T * (1 - kept) @ Vt
        partly = (share > 0) & (share < 1)
        rows = np.concatenate([self.C @ R, np.sqrt(share[partly])[:, None] * Vt[partly]])
        self.B = project_out(self._taken, self.B @ R)
        rows = project_out(self._taken, rows)
        self.C = rows[np.linalg.norm(rows, axis=1) > NOISE]


def _without_noise(J: Array, floor: float) -> Array:
    """Return J without the singular values that rounding errors leave."""
    U, sigma, Vt = np.linalg.svd(J, full_matrices=False)
    return np.asarray(U * np.where(sigma > floor, sigma, 0) @ Vt)
