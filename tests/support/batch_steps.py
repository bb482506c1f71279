"""Steps, random inputs and a law of optimal steps, for tests of velocities in batches."""

from __future__ import annotations

from typing import Any

import numpy as np

import supple
from loops import Array, robot
from supple import DLS, Linearization, damping
from supple.steps import (
    SDLS,
    AngleClamp,
    ErrorClamp,
    Pseudoinverse,
    Transpose,
    TruncatedSVD,
    WeightedDLS,
)
from supple.steps.batch import run_batch
from supple.steps.step import kernel_of

STEPS: dict[str, Any] = {
    "transpose": Transpose(),
    "pseudoinverse": Pseudoinverse(),
    "truncated": TruncatedSVD(0.1),
    "selective": SDLS(),
    "weighted": WeightedDLS(damping.Constant(0.01), np.linspace(1, 2, 6), np.linspace(1, 3, 7)),
    "qr": DLS(damping.Constant(0.01), "qr"),
    "clamped": AngleClamp(ErrorClamp(DLS(damping.Optimal(0.7)), 0.3), 0.4),
}


def some(name: str, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Return random configurations and twists; some twists are zero, small or large."""
    rng = np.random.default_rng(seed)
    q = robot(name).random(count, seed=rng)
    twist = rng.normal(size=(count, 6)) * rng.choice([0.0, 0.1, 1.0, 20.0], (count, 1))
    return q, twist


def in_kernel(step: Any, J: Any, e: Any, threads: int | None = None) -> tuple[Array, Array]:
    """Return q̇ and λ² that the kernel computes for a step, for one linearization or a batch."""
    batch = Linearization(np.asarray(J)[None], np.asarray(e)[None])
    dq, lambda2 = run_batch(kernel_of(step), batch, threads)
    return dq[0], lambda2[0]


def optimal(arm: supple.Robot) -> DLS:
    """Return DLS with optimal damping and a bound that keeps every joint within its speed limit."""
    return DLS(damping.Optimal.for_robot(arm))


def velocities(arm: Any, q: Any, twist: Any, *tasks: Any, step: Any = None, **options: Any) -> Any:
    """Return q̇ by a step's `velocities`, by default with optimal damping."""
    step = optimal(arm) if step is None else step
    return step.velocities(arm, q, twist, *tasks, **options)


def hold_optimal(arm: supple.Robot, q: Array, twist: Array, qd: Array, bound: float) -> None:
    """Assert that ‖q̇‖ is within the bound and no other such q̇ has a smaller task error."""
    room = 2000 * np.finfo(qd.dtype).eps
    assert np.isfinite(qd).all()
    assert (np.linalg.norm(qd.astype(np.float64), axis=-1) <= bound).all()
    q, twist = q.astype(np.float64), twist.astype(np.float64)
    J = arm.jacobian(q)
    best = DLS(damping.Optimal(bound), "svd").velocities(arm, q, twist)
    size = np.linalg.norm(twist, axis=-1) + bound * np.linalg.norm(J, axis=(-1, -2))

    def left(speeds: Array) -> Array:
        return np.linalg.norm(twist - np.einsum("...ij,...j->...i", J, speeds), axis=-1)

    assert (left(qd.astype(np.float64)) <= left(best) + room * size).all()
