"""Targets with known solutions, and checks that every solution must pass."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import supple
from supple import AxisTask, OrientationTask, PoseTask, PositionTask, Solution, SolveStatus

Array = np.ndarray

# Tasks of every kind for the Panda.
PANDA = {
    "pose": (PoseTask("panda_link8"),),
    "position": (PositionTask("panda_link8"),),
    "orientation": (OrientationTask("panda_link8"),),
    "axis": (AxisTask("panda_link8", (1, 0, 0)),),
    "position and axis": (PositionTask("panda_link8"), AxisTask("panda_link8", (0, 1, 1))),
    "rows": (PoseTask("panda_link8", rows=("x", "z", "ry")),),
    "body rows": (PoseTask("panda_link8", rows=("x", "y", "rz"), axes="body"),),
    "weights": (PoseTask("panda_link8", weight=(1, 2, 3, 0.5, 1, 2), length=0.3),),
    "base": (PoseTask("panda_link8", base="panda_link2"),),
    "two frames": (PositionTask("panda_link4"), OrientationTask("panda_link8")),
}


def turned(R: Array, S: Array) -> Array:
    """Return the angles (...) between rotations [rad], accurate for small angles."""
    W = R.swapaxes(-1, -2) @ S
    axis = np.stack(
        [W[..., 2, 1] - W[..., 1, 2], W[..., 0, 2] - W[..., 2, 0], W[..., 1, 0] - W[..., 0, 1]], -1
    )
    return np.arctan2(np.linalg.norm(axis, axis=-1), np.trace(W, axis1=-2, axis2=-1) - 1)


def apart(T: Array, S: Array) -> tuple[Array, Array]:
    """Return the distances [m] and angles [rad] between poses."""
    return np.linalg.norm(T[..., :3, 3] - S[..., :3, 3], axis=-1), turned(
        T[..., :3, :3], S[..., :3, :3]
    )


def hold(
    robot: supple.Robot,
    T: Array,
    found: supple.Solution,
    position: float = 1e-6,
    rotation: float = 1e-6,
) -> None:
    """Check that solutions are finite, inside the limits, and report true errors and statuses."""
    q = found.q
    assert np.isfinite(q).all()
    assert ((robot.lower <= q) & (q <= robot.upper)).all()
    far, off = apart(robot.fk(q), T)
    np.testing.assert_allclose(found.position_error, far, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.rotation_error, off, rtol=1e-6, atol=1e-9)
    good = np.asarray(found.status) == SolveStatus.CONVERGED
    assert (np.asarray(far)[good] <= position * (1 + 1e-9)).all()
    assert (np.asarray(off)[good] <= rotation + 1e-12).all()


def reached(robot: supple.Robot, tasks: tuple[Any, ...], q: np.ndarray) -> list[np.ndarray]:
    """Return the targets that tasks reach at q, in the form that `solve` takes."""
    made = []
    for task in tasks:
        T = robot.fk(q, task.frame)
        if task.base is not None:
            T = np.linalg.inv(robot.fk(q, task.base)) @ T
        if isinstance(task, AxisTask):
            made.append(T[..., :3, :3] @ task.axis)
        else:
            made.append(
                {PoseTask: T, PositionTask: T[..., :3, 3], OrientationTask: T[..., :3, :3]}[
                    type(task)
                ]
            )
    return made


def boundary(robot: supple.Robot, count: int, seed: int = 5) -> tuple[Array, Array, Array]:
    """Return configurations q* (count, n) that reach farthest, their poses T0, and poses T5 beyond.

    q* maximizes u·p(q) inside the limits for a random direction u, as the best of several ascents.
    T0 = FK(q*) is reachable and singular. T5 is T0 moved 5 cm along u; its closest pose is T0.
    """
    starts = 10
    u = np.random.default_rng(seed).normal(size=(count, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    U = np.repeat(u, starts, axis=0)
    q = robot.random(count * starts, seed=seed)

    def height(q: Array) -> Array:
        return np.einsum("bi,bi->b", robot.fk(q)[:, :3, 3], U)

    step, value = np.full((len(q), 1), 0.3), height(q)
    for _ in range(500):
        slope = np.einsum("bij,bi->bj", robot.jacobian(q)[:, :3], U)
        moved = np.clip(q + step * slope, robot.lower, robot.upper)
        there = height(moved)
        up = there >= value
        q, value = np.where(up[:, None], moved, q), np.where(up, there, value)
        step = np.where(up[:, None], np.minimum(1.5 * step, 20), 0.4 * step)
    best = value.reshape(count, starts).argmax(axis=1)
    q = q.reshape(count, starts, -1)[np.arange(count), best]
    T0 = robot.fk(q)
    T5 = T0.copy()
    T5[:, :3, 3] += 0.05 * u
    return q, T0, T5


def fields_of(found: Solution, first: str = "q") -> tuple[Any, ...]:
    """Return the fields of a solution from `first` on, as a tuple that can be compared."""
    names = [field.name for field in dataclasses.fields(found)]
    return tuple(getattr(found, name) for name in names[names.index(first) :])
