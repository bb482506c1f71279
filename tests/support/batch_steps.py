"""Steps, random robots in motion and a law, for tests of velocities in batches."""

from __future__ import annotations

from typing import Any

import numpy as np

import supple
from loops import Array, robot
from supple import (
    DLS,
    SDLS,
    Pseudoinverse,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
    damping,
)

STEPS: dict[str, Any] = {
    "transpose": Transpose(),
    "pseudoinverse": Pseudoinverse(),
    "truncated": TruncatedSVD(0.1),
    "selective": SDLS(),
    "weighted": WeightedDLS(damping.Constant(0.01), np.linspace(1, 2, 6), np.linspace(1, 3, 7)),
    "qr": DLS(damping.Constant(0.01), "qr"),
    "clamped": supple.ClampAngle(supple.ClampError(DLS(damping.Optimal(0.7)), 0.3), 0.4),
}


def some(name: str, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Configurations and twists, of which some are small and some large; some at rest."""
    rng = np.random.default_rng(seed)
    q = robot(name).random(count, seed=rng)
    twist = rng.normal(size=(count, 6)) * rng.choice([0.0, 0.1, 1.0, 20.0], (count, 1))
    return q, twist


def hold_optimal(arm: supple.Robot, q: Array, twist: Array, qd: Array, bound: float) -> None:
    """The bound is kept, and what is left of the task is no more than the best q̇ leaves."""
    room = 2000 * np.finfo(qd.dtype).eps
    assert np.isfinite(qd).all()
    assert (np.linalg.norm(qd.astype(np.float64), axis=-1) <= bound).all()
    q, twist = q.astype(np.float64), twist.astype(np.float64)
    J = arm.jacobian(q)
    best = supple.step(arm, q, twist, step=DLS(damping.Optimal(bound), "svd"))
    size = np.linalg.norm(twist, axis=-1) + bound * np.linalg.norm(J, axis=(-1, -2))

    def left(speeds: Array) -> Array:
        return np.linalg.norm(twist - np.einsum("...ij,...j->...i", J, speeds), axis=-1)

    assert (left(qd.astype(np.float64)) <= left(best) + room * size).all()
