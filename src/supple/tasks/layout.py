"""Compile the tasks of a robot for the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple._arrays.checks import names_of
from supple.errors import InputError, short_repr
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD as WORLD_JOINT
from supple.kinematics.chain import FixedFrame
from supple.kinematics.frames import chain_of, placed
from supple.kinematics.robot import FrameNames
from supple.motion.linearization import joined_effectors
from supple.tasks import PoseTask, Task, TaskLike, as_tasks
from supple.tasks.inputs import task_names
from supple.tasks.open_task import OpenRows
from supple.tasks.rows import BODY, SPATIAL, WORLD, TaskRows

FloatArray = NDArray[np.floating[Any]]

_TASK_AXES = {
    None: _core.TASK_AXES_BASE,
    BODY: _core.TASK_AXES_FRAME,
    SPATIAL: _core.TASK_AXES_SPATIAL,
}


@dataclass(frozen=True, eq=False)
class OpenPart:
    """The place of an open task among all tasks; the kernel reserves its rows.

    Attributes:
        open: The open task on its robot, which computes the rows.
        rows: The slice of the rows of all tasks that belongs to the task.
        targets: The slice of the kernel's targets that holds the task's target.
        velocities: The slice of the kernel's velocities that holds the task's velocity.
    """

    open: OpenRows
    rows: slice
    targets: slice
    velocities: slice

    def write(self, q: FloatArray, targets: FloatArray, J: FloatArray, e: FloatArray) -> None:
        """Write the task's rows of J (..., m, n) and e (..., m) at configurations (..., n)."""
        weights = np.array(self.open.weights)
        for index in np.ndindex(q.shape[:-1]):
            x, slopes = self.open.linear(q[index].astype(np.float64))
            J[(*index, self.rows)] = weights[:, None] * slopes
            e[(*index, self.rows)] = weights * self.open.distance(
                targets[(*index, self.targets)] - x
            )


@dataclass(frozen=True, eq=False)
class CompiledTasks:
    """Tasks of a robot, compiled for the kernel (`include/supple/task/task.hpp`).

    Attributes:
        robot: The robot that the tasks belong to.
        tasks: The tasks; their rows are stacked in this order.
        rows: Names of the rows.
        weights: Weights of the rows.
        counts: Number of rows of each task.
        effectors: The end effector of each row of each task, numbered from 0 in every task.
        ranged: Mask (m,) of the rows with an allowed range.
        tilts: Mask (m,) of the rows that are the tilt of an axis.
        kernel: The compiled tasks, with a chain of the frames they refer to.
        open: The open tasks, which Python evaluates.
    """

    robot: Robot
    tasks: tuple[Task, ...]
    rows: tuple[str, ...]
    weights: NDArray[np.float64]
    counts: tuple[int, ...]
    effectors: tuple[tuple[int, ...], ...]
    ranged: NDArray[np.bool_]
    tilts: NDArray[np.bool_]
    kernel: _core.Tasks
    open: tuple[OpenPart, ...] = ()

    @property
    def all_effectors(self) -> tuple[int, ...]:
        """The end effector of each row of the stacked tasks."""
        return joined_effectors(self.effectors)

    def targets(self, given: Sequence[ArrayLike | None]) -> NDArray[np.float64]:
        """Convert one target per task to the kernel's layout (..., k); batch axes broadcast.

        The values of a task without a target (None) are NaN.
        """
        self._check(given, "target")
        each = [
            np.full(size, np.nan)
            if one is None
            else sized(task.targets(self.robot, one), size, task, "targets")
            for task, one, size in zip(self.tasks, given, self.kernel.target_sizes, strict=True)
        ]
        return side_by_side(each, "targets")

    def velocities(self, given: Sequence[ArrayLike | None]) -> NDArray[np.float64]:
        """Convert one velocity per task to the kernel's layout (..., k); batch axes broadcast.

        The values of a task without a velocity (None) are zero.
        """
        self._check(given, "velocity")
        each = [
            np.zeros(size)
            if one is None
            else sized(task.velocities(self.robot, one), size, task, "velocities")
            for task, one, size in zip(self.tasks, given, self.kernel.velocity_sizes, strict=True)
        ]
        return side_by_side(each, "velocities")

    def reached(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the targets met at configurations (..., n), in the kernel's layout (..., k)."""
        each = [task.on(self.robot).reached(self.robot, q) for task in self.tasks]
        return np.concatenate(each, axis=-1)

    def jacobian(self, q: NDArray[np.float64]) -> FloatArray:
        """Return the weighted J (..., m, n) at configurations (..., n)."""
        if self._alternates:
            # At the targets that q reaches, an alternate J equals the ordinary one.
            return self._rows(q, self.reached(q))[0]
        return self._rows(q, np.full((*q.shape[:-1], self.kernel.targets), np.nan))[0]

    def error(self, q: NDArray[np.float64], targets: NDArray[np.float64]) -> FloatArray:
        """Return the weighted errors (..., m) to targets (..., k); zero for tasks without one."""
        return np.where(self.per_row(np.isnan(targets)), 0.0, self._rows(q, targets)[1])

    def per_row(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Convert a mask of target values (..., k), equal within each task, to a mask of rows."""
        parts = zip(self._split(mask), self.counts, strict=True)
        return np.concatenate(
            [np.repeat(part[..., :1], rows, axis=-1) for part, rows in parts], axis=-1
        )

    def _rows(
        self, q: NDArray[np.float64], targets: NDArray[np.float64]
    ) -> tuple[FloatArray, FloatArray]:
        """Return J and e, with an arbitrary valid target for tasks without one."""
        missing = np.isnan(targets)
        some = np.where(missing, self._any, targets).astype(q.dtype)
        J, e, _ = self.kernel.linearize(np.ascontiguousarray(q), some, 1)
        self.write_open(q, some, J, e)
        if self.ranged.any():
            J[self.idle(missing, e)] = 0
        return J, e

    def idle(self, missing: NDArray[np.bool_], e: FloatArray) -> NDArray[np.bool_]:
        """Return a mask (..., m) of the rows that take no part in a step.

        The mask marks rows that are met within their allowed range, and tilts without a target.
        `missing` (..., k) marks the target values that are not given.
        """
        if not self.ranged.any():
            return np.zeros(e.shape, dtype=bool)
        unknown = self.per_row(missing)
        return np.asarray(np.where(unknown, self.tilts, self.ranged & (e == 0)))

    def write_open(self, q: FloatArray, targets: FloatArray, J: FloatArray, e: FloatArray) -> None:
        """Write the rows of open tasks into J (..., m, n) and e (..., m)."""
        for part in self.open:
            part.write(q, targets, J, e)

    @cached_property
    def target_sizes(self) -> tuple[int, ...]:
        """Number of values in the target of each task, in the kernel's layout."""
        return tuple(self.kernel.target_sizes)

    @cached_property
    def _alternates(self) -> bool:
        """Whether a task has an alternate J, which depends on the target."""
        return any(task.on(self.robot).alternate for task in self.tasks)

    @cached_property
    def _any(self) -> NDArray[np.float64]:
        """A valid target of each task: the identity pose, the z axis, zero joint positions."""
        goods = {12: np.eye(4)[:, :3].ravel(), 3: np.array([0.0, 0.0, 1.0])}
        return np.concatenate([goods.get(s, np.zeros(s)) for s in self.kernel.target_sizes])

    def _split(self, numbers: NDArray[Any]) -> list[NDArray[Any]]:
        """Split the targets (..., k) of all tasks into one array per task."""
        return np.split(numbers, np.cumsum(self.kernel.target_sizes)[:-1], axis=-1)

    def differences(
        self, begin: NDArray[np.float64], end: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the motions between targets (..., k), in the kernel's layout of velocities."""
        parts = zip(self.tasks, self._split(begin), self._split(end), strict=True)
        return np.concatenate(
            [np.nan_to_num(task.differences(one, other)) for task, one, other in parts], axis=-1
        )

    def _check(self, given: Sequence[ArrayLike | None], name: str) -> None:
        if len(given) != len(self.tasks):
            expected = f"one {name} for each of {task_names(self.tasks)}"
            raise InputError(f"there must be {expected}; given: {len(given)}")


@lru_cache(maxsize=64)
def compile_tasks(robot: Robot, tasks: tuple[Task, ...]) -> CompiledTasks:
    """Compile tasks for the kernel, with every frame that they name."""
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

    def point(at: FixedFrame) -> int:
        frames.setdefault(key := (f"point on joint {at.joint}", at.placement.tobytes()), at)
        return list(frames).index(key)

    laid = [task.on(robot) for task in tasks]
    specs = []
    for rows in laid:
        axes = _TASK_AXES.get(rows.axes)
        spec = _core.TaskSpec(
            goal=rows.goal,
            frame=index(rows.frame if rows.traits.has_frame else "", rows),
            base=_core.TASK_WORLD if rows.base is None else index(rows.base),
            axes=index(rows.axes or WORLD) if axes is None else axes,
            rows=rows.picked,
            weights=rows.weights,
            alternate=rows.alternate,
            about=rows.about,
            lower=rows.lower,
            upper=rows.upper,
            points=[point(at) for at in rows.points],
            shares=rows.shares,
            leader=rows.leader,
            curve=rows.curve,
        )
        specs.append(spec)
    kernel = _core.Tasks(chain=chain_of(robot, list(frames.values())), tasks=specs)
    counts = tuple(len(rows.picked) for rows in laid)
    places = zip(*map(_slices, (counts, kernel.target_sizes, kernel.velocity_sizes)), strict=True)
    return CompiledTasks(
        robot=robot,
        tasks=tasks,
        rows=tuple(name for rows in laid for name in rows.names),
        weights=np.array([w for rows in laid for w in rows.weights]),
        counts=counts,
        effectors=tuple(rows.effectors for rows in laid),
        ranged=np.array([one for rows in laid for one in rows.ranged]),
        tilts=np.array(
            [c == _core.TASK_TILT and one.traits.is_twist for one in laid for c in one.picked]
        ),
        kernel=kernel,
        open=tuple(
            OpenPart(rows, *at)
            for rows, at in zip(laid, places, strict=True)
            if isinstance(rows, OpenRows)
        ),
    )


def _slices(sizes: Sequence[int]) -> list[slice]:
    """Return the slices of consecutive parts of the given sizes."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def selected_tasks(
    robot: Robot, frame: FrameNames, tasks: TaskLike | Sequence[TaskLike] | None
) -> tuple[tuple[Task, ...], bool]:
    """Return the tasks, and whether a single task is selected, not a sequence of tasks.

    Args:
        robot: The robot that the tasks belong to.
        frame: A name or a sequence of names, for the poses of these frames.
        tasks: A task, or a sequence of tasks; by default the poses of all end effectors.

    Raises:
        InputError: Both `frame` and `tasks` are given, or one of them has the wrong type.
    """
    if frame is not None:
        if tasks is not None:
            given = f"frame={short_repr(frame)}, tasks={short_repr(tasks)}"
            raise InputError(f"frame and tasks must not be given together; given: {given}")
        return tuple(PoseTask(name) for name in names_of(frame, "frame")), isinstance(frame, str)
    if tasks is None:
        poses = tuple(PoseTask(tip) for tip in robot.tips)
        return poses, len(poses) == 1
    return as_tasks(tasks), isinstance(tasks, str | Task)


def compile_selected(
    robot: Robot, frame: FrameNames, tasks: TaskLike | Sequence[TaskLike] | None
) -> tuple[CompiledTasks, bool]:
    """Return the compiled tasks, and the second result of `selected_tasks`."""
    each, single = selected_tasks(robot, frame, tasks)
    return compile_tasks(robot, each), single


def sized(made: FloatArray, size: int, task: Task, method: str) -> NDArray[np.float64]:
    """Return what a method of a task has returned, after checking its last axis.

    Raises:
        InputError: A user's class returns numbers of another size than the kernel expects.
    """
    if made.shape[-1:] == (size,):
        return np.asarray(made, np.float64)
    raise InputError(
        f"{type(task).__name__}.{method} must return (..., {size}); given: {made.shape}"
    )


def side_by_side(each: Sequence[NDArray[np.float64]], name: str) -> NDArray[np.float64]:
    """Concatenate the values (..., k) of several tasks; batch axes broadcast."""
    try:
        lead = np.broadcast_shapes(*(one.shape[:-1] for one in each))
    except (ValueError, RuntimeError):  # (RuntimeError: more axes than NumPy broadcasts)
        shapes = ", ".join(str(one.shape[:-1]) for one in each)
        raise InputError(f"{name} must have batch axes that broadcast; given: {shapes}") from None
    return np.concatenate([np.broadcast_to(one, (*lead, one.shape[-1])) for one in each], axis=-1)
