"""Verification of solutions by Pinocchio, independent of the solver."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from position_problem import Array, Problem
from position_targets import Situation, apart

SLACK = 1e-6  # tolerated excess over a joint limit [rad]
CLOSE = (1e-3, 1e-2)  # tolerance for the closest pose [m], [rad]


class Judge:
    """Verification of solutions by joint limits and Pinocchio's forward kinematics of the URDF."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model = pin.buildModelFromUrdf(problem.urdf)
        self.data = self.model.createData()
        self.frames = [self.model.getFrameId(frame) for frame in problem.frames]
        names = [self.model.getJointId(name) for name in problem.joints]
        self.index = [self.model.joints[k].idx_q for k in names]

    def poses(self, Q: Array) -> Array:
        """Return the poses (count, k, 4, 4) of all frames at configurations (count, n)."""
        T, whole = np.empty((len(Q), len(self.frames), 4, 4)), np.zeros(self.model.nq)
        for k, q in enumerate(Q):
            whole[self.index] = q
            pin.framesForwardKinematics(self.model, self.data, whole)
            for i, frame in enumerate(self.frames):
                T[k, i] = self.data.oMf[frame].homogeneous
        return T

    def errors(self, Q: Array, targets: Array) -> tuple[Array, Array]:
        """Return the largest position errors (count,) [m] and rotation errors (count,) [rad]."""
        wanted = targets.reshape(len(Q), -1, 4, 4)
        T = self.poses(Q)
        far, off = apart(T, wanted)
        if self.problem.axis:
            z, w = T[..., :3, 2], wanted[..., :3, 2]
            off = np.arctan2(np.linalg.norm(np.cross(z, w), axis=-1), (z * w).sum(-1))
        return far.max(axis=1), off.max(axis=1)

    def inside(self, Q: Array) -> NDArray[np.bool_]:
        """Return a mask (count,) of the configurations Q (count, n) inside all joint limits."""
        low, high = self.problem.lower - SLACK, self.problem.upper + SLACK
        return ((low <= Q) & (high >= Q)).all(axis=1)


@dataclass
class Answers:
    """The results of one library for the targets of a situation."""

    which: list[int] = field(default_factory=list)
    q: list[list[float] | None] = field(default_factory=list)
    claims: list[bool] = field(default_factory=list)
    ns: list[int] = field(default_factory=list)
    failed: str = ""

    def add(self, first: int, answer: dict[str, list]) -> None:
        """Add the results of a round that began with target `first`."""
        if "missing" in answer:
            self.failed = answer["missing"]
            return
        self.which += range(first, first + len(answer["ns"]))
        self.q += answer["q"]
        self.claims += answer["claims"]
        self.ns += answer["ns"]


def judged(
    judge: Judge, situation: Situation, gate: tuple[float, float], given: Answers
) -> tuple[NDArray[np.bool_], Array]:
    """Return a mask of the correct results (count,), and position errors (count,) [m] or NaN."""
    there = np.array([q is not None and bool(np.isfinite(q).all()) for q in given.q], dtype=bool)
    right, left = np.zeros(len(there), dtype=bool), np.full(len(there), np.nan)
    if not there.any():
        return right, left
    Q = np.array([q for q, ok in zip(given.q, there, strict=True) if ok])
    which = np.array(given.which)[there]
    far, off = judge.errors(Q, situation.targets[which])
    left[there], good = far, (far <= gate[0]) & (off <= gate[1])
    if situation.closest is not None:
        closest = situation.closest[which]
        apart_by = np.linalg.norm((situation.targets[which] - closest)[:, :3, 3], axis=1)
        nearer = (far <= apart_by) & (off <= CLOSE[1])  # as near as the known closest pose
        far, off = judge.errors(Q, closest)
        good = nearer | (far <= CLOSE[0]) & (off <= CLOSE[1])
    right[there] = good & judge.inside(Q)
    return right, left
