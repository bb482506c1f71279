"""Robots, tasks and paths of targets drawn from a seed, for the laws of `plan_path`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

import supple as sp
from generated import configurations, size_of, tasks
from generated import robot as any_robot
from targets import reached

Array = np.ndarray

BUILTIN = ("ur5e", "panda", "iiwa14", "puma560", "stanford")
FILES = Path(os.environ.get("SUPPLE_ROBOT_FILES") or Path(sys.prefix) / "robot-files")
ARMS = (
    "cmeel.prefix/share/example-robot-data/robots/xarm_description/urdf/xarm7.urdf",
    "cmeel.prefix/share/example-robot-data/robots/z1_description/urdf/z1.urdf",
    "cmeel.prefix/share/example-robot-data/robots/tiago_description/robots/tiago.urdf",
    "ManipulaPy/ManipulaPy_data/kinova/jaco/jaco_7dof.urdf",
    "ManipulaPy/ManipulaPy_data/fanuc_crx/crx10ia.urdf",
)
KINDS = ("joints", "line", "circle", "folds", "turns", "leaving", "repeated", "closed")


class Drawn:
    """A robot, tasks, a path of targets, and options of `plan_path`, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.size = 1.0
        source, file = rng.random(), FILES / str(rng.choice(ARMS))
        if source < 0.15 and file.exists():
            self.robot = sp.urdf(file)
        elif source < 0.4:
            self.robot = sp.load(str(rng.choice(BUILTIN)))
        else:
            self.size = size_of(rng)
            self.robot = any_robot(rng, size=self.size, joints=int(rng.integers(1, 9)))
        self.tasks = (sp.PoseTask(self.robot.tips[0], length=self.size),)
        if rng.random() < 0.6:
            self.tasks = tasks(self.robot, rng, self.size)
        self.kind = str(rng.choice(KINDS))
        self.count = int(rng.choice([1, 2, 3, 10, 40]))
        self.q = self._joints(rng)
        self.targets = reached(self.robot, self.tasks, self.q)
        if self.kind == "line":
            self.targets = [_line(each[0], each[-1], self.count) for each in self.targets]
            for i, task in enumerate(self.tasks):
                if isinstance(task, sp.AxisTask):
                    self.targets[i] /= np.linalg.norm(self.targets[i], axis=1, keepdims=True)
        elif self.kind in ("circle", "leaving"):
            self._move(rng)
        self.timed = self.size == 1 and self.count <= 10
        self.tolerances = np.array([1e-4 * self.size, 1e-3])
        self.options: dict[str, Any] = {
            "position_tolerance": self.tolerances[0],
            "rotation_tolerance": self.tolerances[1],
            "prefer": rng.choice(["motion", "limits", "manipulability"], p=[0.6, 0.2, 0.2]),
            "threads": 1,
        }
        if rng.random() < 0.3 and self.kind not in ("circle", "leaving"):
            self.options["q0"] = self.q[0]

    @property
    def places(self) -> Array:
        """Path parameters of the targets (count,): indices, in which a repetition counts as one."""
        flat = np.concatenate([each.reshape(self.count, -1) for each in self.targets], axis=1)
        new = np.append(True, (np.diff(flat, axis=0) != 0).any(axis=1))
        return np.cumsum(new) - 1.0

    def plan_path(self) -> sp.paths.PlannedPath:
        return sp.plan_path(self.robot, self.targets, tasks=self.tasks, **self.options)

    def _joints(self, rng: np.random.Generator) -> Array:
        """Return configurations (count, n) along a smooth curve."""
        robot, count = self.robot, self.count
        ends = configurations(robot, 2, rng, self.size)
        s = np.linspace(0, 1, count)[:, None]
        q = ends[0] + s * rng.choice([0.05, 0.3, 1.0]) * (ends[1] - ends[0])
        unit = np.where(robot.prismatic, self.size, 1.0)
        if self.kind == "folds":  # passes configurations with joints at zero
            q = unit * rng.uniform(-1, 1, robot.dof) * (s - 0.5) * (rng.random(robot.dof) < 0.8)
        elif self.kind == "turns":  # leaves the range of some joints
            q = q + s * unit * rng.choice([0, 0, 0.2, 2, 9], robot.dof)
        elif self.kind == "closed":
            q = ends[0] + 0.3 * (ends[1] - ends[0]) * np.sin(2 * np.pi * s) ** 2
        elif self.kind == "repeated":
            q = q[np.sort(rng.integers(0, count, count))]
        return q if self.kind == "turns" else np.clip(q, robot.lower, robot.upper)

    def _move(self, rng: np.random.Generator) -> None:
        """Move the targets on a circle, or for part of the path away from the robot."""
        s = np.linspace(0, 1, self.count)[:, None]
        a, b = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
        if self.kind == "circle":
            angle = 2 * np.pi * s
            move = rng.choice([0.03, 0.3]) * (np.sin(angle) * a + (1 - np.cos(angle)) * b)
        else:
            begin, end = [(-1, 0.3), (0.4, 0.6), (0.7, 2), (-1, 2)][rng.integers(4)]
            move = 100 * a * np.clip(np.minimum(s - begin, end - s), 0, None)
        for target in self.targets:
            if target.shape[1:] == (4, 4):
                target[:, :3, 3] += self.size * move
        for i, task in enumerate(self.tasks):
            if isinstance(task, sp.PositionTask):
                self.targets[i] = self.targets[i] + self.size * move

    def between(self, x: Array) -> list[Array]:
        """Return the targets at places x (K,) of the path."""
        first = np.unique(self.places, return_index=True)[1]
        return [interpolated(each[first], x) for each in self.targets]


def _line(a: Array, b: Array, count: int) -> Array:
    return interpolated(np.stack([a, b]), np.linspace(0, 1, count))


def interpolated(targets: Array, x: Array) -> Array:
    """Return targets (K, ...) at places x (K,), interpolated between the given targets."""
    i = np.clip(x.astype(int), 0, max(0, len(targets) - 2))
    f, after = x - i, np.minimum(i + 1, len(targets) - 1)
    share = f.reshape(-1, *[1] * (targets.ndim - 1))
    made = (1 - share) * targets[i] + share * targets[after]
    if targets.ndim == 3:
        R = Rotation.from_matrix(targets[:, :3, :3])
        turn = (R[i].inv() * R[after]).as_rotvec()
        made[:, :3, :3] = (R[i] * Rotation.from_rotvec(f[:, None] * turn)).as_matrix()
    return made
