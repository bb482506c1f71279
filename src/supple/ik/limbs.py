"""The limbs of a robot on a moving base: groups of tasks that share only joints of the base.

Tuned constants are explained in docs/constants.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from supple._core import Target
from supple.ik.seeds import joint_ranges, robot_size
from supple.kinematics import Robot
from supple.kinematics.chain import WORLD
from supple.kinematics.frames import owners
from supple.motion.linearization import Array
from supple.tasks import Task
from supple.tasks.rows import TaskRows

# Range above which a prismatic joint belongs to a base, relative to the robot's size.
_LONG_SLIDE_RANGE = 10.0
_MAX_BASE_DOF = 6
_SAMPLES = 8  # number of configurations at which J shows how a base moves
_ZERO_ENTRY_RATIO = 1e-9  # relative size of an entry of J that is zero


@dataclass(frozen=True, eq=False)
class Limbs:
    """The limbs of a robot on a moving base.

    Attributes:
        tasks: Indices of the tasks of each limb.
        joints: Coordinates that move only this limb, for each limb.
        base: Coordinates of the base, which move several limbs.
        frame: A frame that only the base moves.
        axis: The axis about which a planar base turns (3,); zero for a base that moves freely in
            space. None for any other base, and if a task is not a pose, position or axis in the
            world.
    """

    tasks: tuple[tuple[int, ...], ...]
    joints: tuple[tuple[int, ...], ...]
    base: tuple[int, ...]
    frame: str
    axis: Array | None


@lru_cache(maxsize=64)
def kernel_order(robot: Robot, tasks: tuple[Task, ...]) -> tuple[int, ...]:
    """Return the indices of tasks in the order of the kernel: limb after limb, postures last."""
    met = [i for i, task in enumerate(tasks) if not task.is_preference]
    limbs = limbs_of(robot, [tasks[i] for i in met])
    if limbs is not None:
        met = [met[k] for members in limbs.tasks for k in members]
    return (*met, *(i for i, task in enumerate(tasks) if task.is_preference))


def limbs_of(robot: Robot, tasks: Sequence[Task]) -> Limbs | None:
    """Return the limbs of a robot on a moving base.

    Return None if there are fewer than two limbs, or if the robot has loops, which may connect
    limbs.
    """
    if len(tasks) < 2 or robot.loops:
        return None
    base, last = _base_of(robot)
    if not base:
        return None
    groups = groups_of([moving_joints(robot, task) - base.keys() for task in tasks])
    if len(groups) < 2:
        return None
    frame = next(name for name, at in robot._tree.frames.items() if at.joint == last)
    plain = all(_is_placed(task.on(robot)) for task in tasks)
    return Limbs(
        tuple(tuple(sorted(members)) for members, _ in groups),
        tuple(tuple(sorted(joints)) for _, joints in groups),
        tuple(base),
        frame,
        _axis_of(robot, frame, list(base)) if plain else None,
    )


def _is_placed(rows: TaskRows) -> bool:
    """Return whether rows are a pose, a position or the direction of an axis in the world."""
    is_pose = rows.has_pose and min(rows.picked) < 3
    return rows.base is None and (is_pose or rows.traits.target == Target.DIRECTION)


def _base_of(robot: Robot) -> tuple[dict[int, None], int]:
    """Return the coordinates of the base in the order of its joints, and its last joint.

    A base is a chain of long sliding joints and joints that make full turns.
    """
    joints, ranges = robot._tree.joints, joint_ranges(robot)
    onward = dict[int, list[int]]()
    for j, joint in enumerate(joints):
        onward.setdefault(joint.parent, []).append(j)
    base, at = dict[int, None](), WORLD
    while len(base) < _MAX_BASE_DOF and len(onward.get(at, ())) == 1:
        joint, c = joints[onward[at][0]], joints[onward[at][0]].coordinate
        least = _LONG_SLIDE_RANGE * robot_size(robot) if joint.prismatic else 2 * np.pi
        if c in base or joint.scale != 1 or not (joint.is_part_of_ball or ranges[c] >= least):
            break
        base[c], at = None, onward[at][0]
    return (base, at) if robot.prismatic[list(base)].any() else ({}, at)


def _axis_of(robot: Robot, frame: str, base: list[int]) -> Array | None:
    """Return `Limbs.axis`: the axis about which a base turns, or zero, or None."""
    J = robot.jacobian(robot.random(_SAMPLES, seed=0), frame)[..., base]
    if len(base) == _MAX_BASE_DOF and (np.linalg.matrix_rank(J) == _MAX_BASE_DOF).all():
        return np.zeros(3)
    turns = J[:, 3:].swapaxes(1, 2).reshape(-1, 3)
    _, size, axes = np.linalg.svd(turns, full_matrices=False)
    along = np.abs(axes[0] @ J[:, :3]).max() <= _ZERO_ENTRY_RATIO * np.abs(J[:, :3]).max()
    flat = size[0] > 0 and size[1] <= _ZERO_ENTRY_RATIO * size[0] and bool(along)
    return axes[0] if flat and (np.linalg.matrix_rank(J) == 3).all() else None


def moving_joints(robot: Robot, task: Task) -> frozenset[int]:
    """Return the coordinates that the error of a task depends on.

    If the result contains one coordinate of a joint, it contains all coordinates of this joint.
    """
    found = task.on(robot).moved_by(robot)
    if robot.dof == len(robot.description.joints):
        return found
    names = owners(robot)
    moving = {names[j] for j in found}
    return frozenset(j for j, name in enumerate(names) if name in moving)


def others(robot: Robot, joints: frozenset[int]) -> list[str]:
    """Return the names of the joints whose coordinates are not in `joints`."""
    names = (name for j, name in enumerate(owners(robot)) if j not in joints)
    return list(dict.fromkeys(names))


def groups_of(moving: list[frozenset[int]]) -> list[tuple[list[int], frozenset[int]]]:
    """Group tasks that share a coordinate, directly or through other tasks.

    Returns the tasks and the coordinates of each group. Tasks that no joint moves are in the first
    group.
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
