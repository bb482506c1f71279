"""Tasks that share no joint: a search falls into parts, each solved on its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.kinematics import Robot
from supple.kinematics.robot import carriers
from supple.motion.damping import Region
from supple.motion.task import Task
from supple.motion.task_rows import BODY, WORLD, Goal
from supple.solve.search import Search, search_of


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
    parts = parts_of(search)
    if parts[0].search is not search:
        search.kernel.divide(
            [(part.search.kernel, part.joints.tolist(), part.numbers.tolist()) for part in parts]
        )
    return search.kernel


def movers(robot: Robot, task: Task) -> frozenset[int]:
    """The coordinates that the error of a task depends on."""
    rows = task.on(robot)
    if rows.goal == Goal.POSTURE:
        return frozenset(rows.picked)
    frame = carriers(robot, rows.frame)
    base = carriers(robot, rows.base) if rows.base is not None else {}
    if rows.axes in (None, BODY):  # what carries both does not move one against the other
        return frozenset((frame | base)[j] for j in frame.keys() ^ base.keys())
    axes = {} if rows.axes == WORLD else carriers(robot, rows.axes)
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
