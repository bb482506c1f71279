"""Tasks of every kind on a robot, with targets and velocities, for the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supple import AxisTask, OrientationTask, PoseTask, PositionTask, PostureTask, Robot
from supple.tasks import CenterOfMassTask, Task
from trees import rotation

Array = np.ndarray
ROWS = ("x", "y", "z", "rx", "ry", "rz")


@dataclass(frozen=True)
class Some:
    """A task with a target and a velocity."""

    task: Task
    target: Array
    velocity: Array


def a_frame_task(kind: type, rng: np.random.Generator, frames: tuple[str, ...]) -> Task:
    """Return a task with random rows, weights, axes and base."""
    known = {PoseTask: ROWS, PositionTask: ROWS[:3], OrientationTask: ROWS[3:]}[kind]
    rows = tuple(rng.permutation(known)[: rng.integers(1, len(known) + 1)])
    spatial = ("spatial", "spatial") if kind is PoseTask else ()
    options: dict[str, Any] = {
        "rows": None if rng.random() < 0.5 else tuple(str(row) for row in rows),
        "axes": rng.choice([None, "world", "body", *spatial, *frames]),
        "base": rng.choice([None, None, *frames]),
    }
    count = len(options["rows"] or known)
    options["weight"] = (
        float(rng.uniform(0.5, 2)) if rng.random() < 0.5 else rng.uniform(1, 2, count)
    )
    if kind is not OrientationTask:
        options["length"] = float(rng.uniform(0.5, 2))
    return kind(str(rng.choice(frames)), **options)


def some_tasks(robot: Robot, rng: np.random.Generator) -> list[Some]:
    """Return tasks of every kind, most of them with random options."""
    frames, n = robot.frames, robot.dof
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation(rng, False), rng.uniform(-1, 1, 3)
    axis, base = rng.normal(size=3), rng.choice([None, *frames])
    joints = tuple(
        str(name) for name in rng.permutation(robot.joint_names)[: rng.integers(1, n + 1)]
    )
    pointing = AxisTask(str(rng.choice(frames)), axis, rng.uniform(1, 2, 2), base)
    v = rng.normal(size=6)
    masses = (robot.mass,) if robot.mass > 0 else ()
    free = PoseTask(
        str(rng.choice(frames)),
        about=str(rng.choice(["x", "y", "z"])),
        axes=rng.choice([None, "body", *frames]),
        base=rng.choice([None, *frames]),
    )
    return [
        Some(free, T, v),
        Some(a_frame_task(PoseTask, rng, frames), T, v),
        Some(a_frame_task(PositionTask, rng, frames), T[:3, 3], v[:3]),
        Some(a_frame_task(OrientationTask, rng, frames), T[:3, :3], v[3:]),
        Some(pointing, rng.normal(size=3), v[3:]),
        Some(PostureTask(), rng.normal(size=n), rng.normal(size=n)),
        Some(
            PostureTask(joints, rng.uniform(1, 2, len(joints))),
            rng.normal(size=len(joints)),
            rng.normal(size=len(joints)),
        ),
        *(Some(CenterOfMassTask(weight=rng.uniform(1, 2, 3)), T[:3, 3], v[:3]) for _ in masses),
    ]


def reached(robot: Robot, task: Any, q: Array) -> Array:
    """Return the target that a task reaches at q."""
    if isinstance(task, PostureTask):
        names = robot.joint_names if task.joints is None else task.joints
        return q[[robot.joint_names.index(name) for name in names]]
    if isinstance(task, CenterOfMassTask):
        return robot.center_of_mass(q)
    T = robot.fk(q, task.frame)
    if task.base is not None:
        T = np.linalg.inv(robot.fk(q, task.base)) @ T
    if isinstance(task, AxisTask):
        return T[:3, :3] @ task.axis
    return {PoseTask: T, PositionTask: T[:3, 3], OrientationTask: T[:3, :3]}[type(task)]
