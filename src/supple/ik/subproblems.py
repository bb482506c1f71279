"""Tasks that share no joint: a search falls into parts, each solved on its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._core import Goal
from supple.control.trajectory import Status
from supple.ik.arguments import LARGEST
from supple.ik.problem import Search, search_of
from supple.kinematics import Robot
from supple.kinematics.robot import ancestors
from supple.motion.damping import Region
from supple.motion.linearization import Array
from supple.motion.task import Task
from supple.motion.task_rows import BODY, WORLD

Progress: TypeAlias = Callable[[int, int], object]
Found: TypeAlias = tuple[Any, ...]  # arrays (B, s, ...): q, status, errors, efforts, and more


@dataclass(frozen=True, eq=False)
class Part:
    """Some tasks of a search, and the joints that move them.

    Attributes:
        search: Those tasks, of a robot that has those joints alone.
        joints: Which coordinate of the whole robot each of its own is (k,).
        numbers: Which number of a whole target each of its own is.
    """

    search: Search
    joints: NDArray[np.int32]
    numbers: NDArray[np.int32]


@lru_cache(maxsize=64)
def parts_of(search: Search) -> tuple[Part, ...]:
    """The parts of a search: no task of one moves with a joint of another.

    The squared error is a sum over tasks and limits are a box, so the closest configuration of the
    whole is that of each part, put together; and all are found sooner, for one part's starts do not
    have to meet the targets of the others as well. Joints that move no task are in no part.

    One part, the search itself, where there is nothing to divide; likewise with postures, and with
    a damping rule that looks at a direction of the whole task.
    """
    robot, tasks = search.layout.robot, search.layout.tasks
    groups = _groups([movers(robot, task) for task in tasks])
    whole = len(groups) == 1 and len(groups[0][1]) == robot.dof
    rule = search.given[0]
    if not groups or whole or search.rest or (isinstance(rule, Region) and rule.direction):
        every = (np.arange(robot.dof), np.arange(search.layout.kernel.targets))
        return (Part(search, *(x.astype(np.int32) for x in every)),)
    ends = np.cumsum([0, *search.layout.kernel.target_sizes])
    parts = []
    for members, joints in groups:
        still = [name for j, name in enumerate(robot.joint_names) if j not in joints]
        own = search_of(robot.freeze(still), tuple(tasks[k] for k in members), *search.given)
        numbers = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in members])
        parts.append(Part(own, np.array(sorted(joints), np.int32), numbers.astype(np.int32)))
    return tuple(parts)


@lru_cache(maxsize=64)
def divided(search: Search) -> _core.Solver:
    """The kernel of a search, which solves one target part by part."""
    if is_separable(search):
        search.kernel.divide(
            [
                (part.search.kernel, part.joints.tolist(), part.numbers.tolist())
                for part in parts_of(search)
            ]
        )
    return search.kernel


def is_separable(search: Search) -> bool:
    """Whether there is anything to divide."""
    return parts_of(search)[0].search is not search


def solve_subproblems(
    search: Search,
    many: Callable[..., Found],
    goals: Array,
    start: Array | None,
    size: int,
    progress: Progress | None,
) -> Found:
    """Targets (B, k) of a search that falls apart, from starts (B, n), or one for all (n,), if any.

    Args:
        search: The whole.
        many: Solves some of one part: `many(search, goals, start, progress, share)`, of the time
            that is left a share for so many parts.
        goals: As the kernel takes them.
        start: Likewise.
        size: So many are put together at a time: without all parts there is no answer.
        progress: Told how much is done, as `solve` has it.
    """
    pieces = []
    for first in range(0, max(len(goals), 1), size):
        piece = slice(first, first + size)
        own = start if start is None or start.ndim == 1 else start[piece]
        told = None if progress is None else partial(_tell, progress, first, len(goals))
        pieces.append(_put_together(search, many, goals[piece], own, told))
    return tuple(np.concatenate(each) for each in zip(*pieces, strict=True))


def _put_together(
    search: Search,
    many: Callable[..., Found],
    goals: Array,
    start: Array | None,
    progress: Progress | None,
) -> Found:
    """As `PySolver::run_parts` does it for one."""
    robot, parts, count = search.layout.robot, parts_of(search), len(goals)
    given = np.broadcast_to(0.0 if start is None else start, (count, robot.dof))
    good = np.asarray(np.abs(given).max(axis=1, initial=0.0) <= LARGEST)
    q = np.clip(np.where(good[:, None], given, 0.0), robot.lower, robot.upper)
    status = np.where(good, Status.CONVERGED, Status.NONFINITE_INPUT).astype(np.int8)
    error = np.where(good[:, None], [0.0, 0.0], math.inf)
    effort = np.tile(np.array([0, 1], np.intc), (count, 1))
    failed = np.zeros((count, 4))
    for i, part in enumerate(parts):
        own = None if start is None else np.ascontiguousarray(start[..., part.joints])
        aim = np.ascontiguousarray(goals[:, part.numbers])
        told = None if progress is None else partial(_share, progress, i, len(parts))
        found = many(part.search, aim, own, told, len(parts) - i)
        q[:, part.joints] = found[0][:, 0]
        status = np.maximum(status, found[1][:, 0])
        error = np.maximum(error, found[2][:, 0])
        effort += np.maximum(found[3][:, 0] - np.array([0, 1], np.intc), 0)
        if len(found[5]):  # (nobody else has asked)
            failed[:, :2] += found[5][:, :2]
            failed[:, 2:] = np.maximum(failed[:, 2:], found[5][:, 2:])
    bad = status == Status.NONFINITE_INPUT
    q[bad], effort[bad] = robot.neutral(), 0
    there = np.ones(count, np.intc)
    return q[:, None], status[:, None], error[:, None], effort[:, None], there, failed


def _share(progress: Progress, part: int, parts: int, done: int, total: int) -> None:
    """Tell how much is done when so much of one of some parts is."""
    progress((part * total + done) // parts, total)


def _tell(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    """Tell how much is done of all when so much of a piece is."""
    progress(before + done, total)


def movers(robot: Robot, task: Task) -> frozenset[int]:
    """The coordinates that the error of a task depends on."""
    rows = task.on(robot)
    if rows.goal == Goal.POSTURE:
        return frozenset(rows.picked)
    frame = ancestors(robot, rows.frame)
    base = ancestors(robot, rows.base) if rows.base is not None else {}
    if rows.axes in (None, BODY):  # what carries both does not move one against the other
        return frozenset((frame | base)[j] for j in frame.keys() ^ base.keys())
    axes = {} if rows.axes == WORLD else ancestors(robot, rows.axes)
    return frozenset((frame | base | axes).values())


def _groups(moving: list[frozenset[int]]) -> list[tuple[list[int], frozenset[int]]]:
    """Tasks that share a coordinate, directly or through others, and the coordinates of each group.

    Tasks that nothing moves go with the first group.
    """
    groups: list[tuple[list[int], frozenset[int]]] = []
    for task, joints in enumerate(moving):
        if not joints:
            continue
        members, shared, apart = [task], joints, []
        for group in groups:
            if group[1] & shared:
                members, shared = [*group[0], *members], shared | group[1]
            else:
                apart.append(group)
        groups = [*apart, (members, shared)]
    groups.sort(key=lambda group: group[0])
    still = [task for task, joints in enumerate(moving) if not joints]
    if groups and still:
        groups[0] = (sorted([*groups[0][0], *still]), groups[0][1])
    return groups
