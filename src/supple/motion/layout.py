"""Tasks on a robot as the kernel takes them, and their rows on batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._core import Goal
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.arrays import coordinates
from supple.kinematics.chain import WORLD as WORLD_JOINT
from supple.kinematics.chain import FixedFrame
from supple.kinematics.environment import thread_count
from supple.kinematics.robot import chain_of, check_robot, placed
from supple.motion.linearization import Linearization
from supple.motion.task import PoseTask, Task, TaskLike, as_tasks
from supple.motion.task_rows import BODY, WORLD, TaskRows

FloatArray = NDArray[np.floating[Any]]

_BASE, _FRAME = -1, -2  # task_axes_base and task_axes_frame; -1 is task_world too


@dataclass(frozen=True, eq=False)
class CompiledTasks:
    """Tasks of a robot, laid out for the kernel (`include/supple/task.hpp`).

    Attributes:
        robot: They are of.
        tasks: In order; their rows are below each other.
        rows: A name for each row.
        weights: Of each row.
        counts: How many rows each task has.
        kernel: The compiled form: a chain with every frame that the tasks look at, and the tasks.
    """

    robot: Robot
    tasks: tuple[Task, ...]
    rows: tuple[str, ...]
    weights: NDArray[np.float64]
    counts: tuple[int, ...]
    kernel: _core.Tasks

    def targets(self, given: Sequence[ArrayLike | None]) -> NDArray[np.float64]:
        """One target for each task -> the kernel's numbers (..., k), batch axes broadcast.

        The numbers of a task that has none (None) are NaN.
        """
        self._check(given, "target")
        each = [
            np.full(size, np.nan) if one is None else task.targets(self.robot, one)
            for task, one, size in zip(self.tasks, given, self.kernel.target_sizes, strict=True)
        ]
        return side_by_side(each, "targets")

    def velocities(self, given: Sequence[ArrayLike | None]) -> NDArray[np.float64]:
        """One velocity for each task -> the kernel's numbers (..., k), batch axes broadcast.

        The numbers of a task that has none (None) are zero.
        """
        self._check(given, "velocity")
        each = [
            np.zeros(size) if one is None else task.velocities(self.robot, one)
            for task, one, size in zip(self.tasks, given, self.kernel.velocity_sizes, strict=True)
        ]
        return side_by_side(each, "velocities")

    def reached(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """The targets (..., k) that are met at configurations (..., n), as the kernel's numbers."""
        each = [task.on(self.robot).reached(self.robot, q) for task in self.tasks]
        return np.concatenate(each, axis=-1)

    def jacobian(self, q: NDArray[np.float64]) -> FloatArray:
        """J (..., m, n), weighted, at configurations (..., n)."""
        return self._rows(q, np.full((*q.shape[:-1], self.kernel.targets), np.nan))[0]

    def error(self, q: NDArray[np.float64], targets: NDArray[np.float64]) -> FloatArray:
        """Weighted errors (..., m) to the kernel's targets (..., k); zero where there is none."""
        e = self._rows(q, targets)[1]
        none = [
            np.repeat(np.isnan(part[..., :1]), rows, axis=-1)
            for part, rows in zip(self._split(targets), self.counts, strict=True)
        ]
        return np.where(np.concatenate(none, axis=-1), 0.0, e)

    def _rows(
        self, q: NDArray[np.float64], targets: NDArray[np.float64]
    ) -> tuple[FloatArray, FloatArray]:
        """J and e, where some targets are none: in their place, any."""
        some = np.where(np.isnan(targets), self._any, targets)
        J, e, _ = self.kernel.linearize(np.ascontiguousarray(q), some, 1)
        return J, e

    @property
    def _any(self) -> NDArray[np.float64]:
        """A good target of each task: the world's pose and z axis, and the zero posture."""
        goods = {12: np.eye(4)[:, :3].ravel(), 3: np.array([0.0, 0.0, 1.0])}
        return np.concatenate([goods.get(s, np.zeros(s)) for s in self.kernel.target_sizes])

    def _split(self, numbers: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Targets (..., k) of all tasks -> those of each."""
        return np.split(numbers, np.cumsum(self.kernel.target_sizes)[:-1], axis=-1)

    def differences(
        self, begin: NDArray[np.float64], end: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Motions from targets to targets (..., k), as the kernel takes velocities; None: none."""
        parts = zip(self.tasks, self._split(begin), self._split(end), strict=True)
        return np.concatenate(
            [np.nan_to_num(task.differences(one, other)) for task, one, other in parts], axis=-1
        )

    def _check(self, given: Sequence[ArrayLike | None], name: str) -> None:
        if len(given) != len(self.tasks):
            expected = f"one {name} for each of {len(self.tasks)} tasks"
            raise InputError(f"there must be {expected}; given: {len(given)}")


@lru_cache(maxsize=64)
def compile_tasks(robot: Robot, tasks: tuple[Task, ...]) -> CompiledTasks:
    """Look up every frame that some tasks name and put the tasks into the kernel's form."""
    frames: dict[tuple[str, bytes], FixedFrame] = {}

    def index(name: str, rows: TaskRows | None = None) -> int:
        turn = None if rows is None else rows.turn
        at = FixedFrame(WORLD_JOINT, np.eye(4)) if name in ("", WORLD) else placed(robot, name)
        if turn is not None:
            turned = at.placement.copy()
            turned[:3, :3] = turned[:3, :3] @ turn
            at = FixedFrame(at.joint, turned)
        key = (name, b"" if turn is None else turn.tobytes())
        frames.setdefault(key, at)
        return list(frames).index(key)

    laid = [task.on(robot) for task in tasks]
    heads: list[int] = []
    for rows in laid:
        axes = {None: _BASE, BODY: _FRAME}.get(rows.axes)
        heads += [
            rows.goal.value,
            index("" if rows.goal == Goal.POSTURE else rows.frame, rows),
            -1 if rows.base is None else index(rows.base),
            index(rows.axes or WORLD) if axes is None else axes,
        ]
    return CompiledTasks(
        robot=robot,
        tasks=tasks,
        rows=tuple(name for rows in laid for name in rows.names),
        weights=np.array([w for rows in laid for w in rows.weights]),
        counts=tuple(len(rows.picked) for rows in laid),
        kernel=_core.Tasks(
            chain=chain_of(robot, list(frames.values())),
            heads=heads,
            rows=[len(rows.picked) for rows in laid],
            row=[i for rows in laid for i in rows.picked],
            weight=[w for rows in laid for w in rows.weights],
        ),
    )


def linearize(
    robot: Robot,
    tasks: TaskLike | Sequence[TaskLike],
    q: ArrayLike,
    targets: Any,
    *,
    threads: int | None = None,
) -> Linearization:
    """Return the linearization of tasks at a configuration, or at a batch q (..., n).

    J is (..., m, n) and e (..., m), with the rows of all tasks stacked. Computed by the kernel, on
    SIMD lanes and threads; equal to `Task.linearize` called one by one, to rounding. A float32
    batch gives a float32 batch.

    Args:
        robot: The robot that performs the tasks.
        tasks: A task, the name of a frame (for its pose), or a sequence of these.
        q: Configurations (..., n) [rad or m].
        targets: The target of the single task, or a sequence with one target per task. Their batch
            axes are those of q, or broadcast to them.
        threads: Maximum number of threads; all cores if None.
    """
    check_robot(robot)
    layout = compile_tasks(robot, as_tasks(tasks))
    at = coordinates(q, robot.dof, "q")
    if isinstance(tasks, str | Task):
        targets = (targets,)
    elif not isinstance(targets, Sequence):
        raise InputError(
            f"targets must be a sequence, one for each task; given: {short_repr(targets)}"
        )
    given = layout.targets(targets)
    try:
        wide = np.broadcast_to(given, (*at.shape[:-1], given.shape[-1]))
    except (ValueError, RuntimeError):
        raise InputError(
            f"targets must have the batch axes of q, {at.shape[:-1]}, or broadcast to them; "
            f"given: {given.shape[:-1]}"
        ) from None
    with np.errstate(over="ignore"):  # what becomes infinite is refused by name
        goals = np.array(wide, at.dtype, order="C")
    J, e, bad = layout.kernel.linearize(at, goals, thread_count(threads))
    if bad >= 0:
        where = [int(i) for i in np.unravel_index(bad, at.shape[:-1])] if at.ndim > 1 else ""
        raise InputError(
            "q and targets must be finite, and small enough that the result is; given: "
            f"q{where} = {short_repr(at.reshape(-1, robot.dof)[bad].tolist())}"
        )
    return Linearization(J, e, rows=layout.rows, q=at)


def compile_given(
    robot: Robot, tasks: TaskLike | Sequence[TaskLike] | None
) -> tuple[CompiledTasks, bool]:
    """Compile tasks, or the poses of all end effectors if None.

    Also return whether targets are given for a single task instead of in a sequence.
    """
    if tasks is None:
        tips = tuple(PoseTask(tip) for tip in robot.tips)
        return compile_tasks(robot, tips), len(tips) == 1
    return compile_tasks(robot, as_tasks(tasks)), isinstance(tasks, str | Task)


def side_by_side(each: Sequence[NDArray[np.float64]], name: str) -> NDArray[np.float64]:
    """Numbers of several tasks (..., k), batch axes broadcast -> those of all."""
    try:
        lead = np.broadcast_shapes(*(one.shape[:-1] for one in each))
    except (ValueError, RuntimeError):  # (RuntimeError: more axes than NumPy broadcasts)
        shapes = ", ".join(str(one.shape[:-1]) for one in each)
        raise InputError(f"{name} must have batch axes that broadcast; given: {shapes}") from None
    return np.concatenate([np.broadcast_to(one, (*lead, one.shape[-1])) for one in each], axis=-1)
