"""Conversion of a `Trajectory` to and from the table in its file, without loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple._arrays.tables import Table
from supple.control.missed import TaskShares
from supple.errors import InputError, join_names, short_repr
from supple.kinematics import Robot
from supple.kinematics.configuration import Coordinates
from supple.motion.status import StepStatus
from supple.motion.status_array import StatusArray
from supple.steps.estimate import Estimates

if TYPE_CHECKING:
    from supple.control.trajectory import Trajectory

_BY_JOINT = ("q", "qd", "active")
_BY_ROW = ("command", "velocity", "error")
_BY_TASK = ("commanded", "missed")
_ALONE = ("t", "lambda2", "sigma_min", "status")
_ESTIMATES = tuple(f"estimate_{each.name}" for each in fields(Estimates))


def to_table(motion: Trajectory) -> Table:
    """Return a motion as a table, with statuses by name, as their values may change."""
    nq, nv = motion.q.shape[1], motion.qd.shape[1]
    known = motion._coordinates or Coordinates(nq, nv)
    joints, positions = tuple(str(joint) for joint in range(nv)), known.numbered
    if motion.robot is not None:
        joints, positions = motion.robot.joint_names, motion.robot.position_names
    names: dict[str, Sequence[str]] = {
        **dict.fromkeys(_BY_JOINT, joints),
        "q": positions,
        **dict.fromkeys(_BY_ROW, motion.rows),
    }
    order = ("t", "q", "qd", "lambda2", "sigma_min", *_BY_ROW, "active")
    arrays: dict[str, NDArray[Any]] = {name: getattr(motion, name) for name in order}
    arrays["status"] = _words(motion.status)
    if motion.estimates is not None:
        for name, each in zip(_ESTIMATES, fields(Estimates), strict=True):
            arrays[name] = np.asarray(getattr(motion.estimates, each.name))
    if motion._shares is not None:
        for name in _BY_TASK:
            arrays[name], names[name] = getattr(motion, name), motion.tasks
    if motion.robot is not None:  # as a label, so that every format keeps any name
        arrays["robot"], names["robot"] = np.empty((0, 1)), (motion.robot.name,)
    return Table(arrays, names)


def check_robot_of(table: Table, robot: Robot, what: str) -> None:
    """Raise an error if a table belongs to a motion of another robot, as far as the table tells.

    Args:
        table: The table.
        robot: The robot.
        what: Noun phrase for the motion, which begins the message.

    Raises:
        InputError: The robot has another number of joints, other names of joints or another name.
    """
    n = table.arrays["q"].shape[1]
    names = tuple(table.labels.get("q", ()))
    known = names != Coordinates.of_names(names).numbered  # otherwise saved without a robot
    whose = "".join(f" of {short_repr(each)}" for each in table.labels.get("robot", ()))
    if n != robot.nq:
        is_of, given = f"has {n} joints", f"{robot.name} with {robot.nq}"
    elif known and names != robot.position_names:
        is_of = f"moves the joints {join_names(names)}"
        given = f"{robot.name} with {join_names(robot.position_names)}"
    elif whose and table.labels["robot"][0] != robot.name:
        is_of, given = "is of another robot", short_repr(robot.name)
    else:
        return
    raise InputError(
        f"{what}{whose} {is_of}; given: {given}. Load the motion without a robot to use it anyway"
    )


def from_table(table: Table) -> dict[str, Any]:
    """Return the arguments of a `Trajectory` from a table.

    Raises:
        InputError: The table is not a trajectory.
    """
    arrays = table.arrays
    missing = [name for name in (*_ALONE, *_BY_JOINT, *_BY_ROW) if name not in arrays]
    if missing:
        raise InputError(
            f"the file is not a trajectory: {join_names(missing)} missing; "
            f"given: {join_names(arrays)}"
        )
    numbers = [name for name in (*_ALONE, *_BY_JOINT, *_BY_ROW) if name != "status"]
    made: dict[str, Any] = {name: np.asarray(arrays[name], np.float64) for name in numbers}
    steps, n = made["qd"].shape if made["qd"].ndim == 2 else (-1, 0)
    rows = tuple(table.labels.get("command", ()))
    tasks = tuple(table.labels.get("missed", ()))
    # A quaternion has one number more than its velocity: see `Robot.position_names`.
    coordinates = Coordinates.of_names([str(name) for name in table.labels.get("q", ())])
    quaternions = coordinates.nq - coordinates.nv
    shapes = {
        "t": (steps + 1,),
        "q": (steps + 1, n + quaternions),
        "active": (steps, n),
        **dict.fromkeys(("lambda2", "sigma_min"), (steps,)),
        **dict.fromkeys(_BY_ROW, (steps, len(rows))),
    }
    for name, shape in shapes.items():
        if made[name].shape != shape:
            given = f"{name} of shape {made[name].shape}, qd of {made['qd'].shape}"
            raise InputError(f"the file is not a trajectory: shapes do not match; given: {given}")
    made["active"] = made["active"].astype(np.int8)
    made["status"] = _statuses(arrays["status"])
    made["rows"] = rows
    if quaternions:
        made["_coordinates"] = coordinates
    if all(name in arrays and arrays[name].shape == (steps, len(tasks)) for name in _BY_TASK):
        commanded, missed = (np.asarray(arrays[name], np.float64) for name in _BY_TASK)
        made["_shares"] = TaskShares(commanded, missed, tasks)
    if all(name in arrays for name in _ESTIMATES):
        made["estimates"] = Estimates(*(np.asarray(arrays[name]) for name in _ESTIMATES))
    return made


def _words(status: StatusArray[StepStatus]) -> NDArray[np.str_]:
    values, where = np.unique(np.asarray(status), return_inverse=True)
    words = ["|".join(str(cause.name) for cause in StepStatus(int(v))) for v in values]
    words = [each or str(StepStatus.FOLLOWING.name) for each in words]
    return np.array(words, dtype=np.str_)[where]


def _statuses(words: NDArray[Any]) -> StatusArray[StepStatus]:
    known, where = np.unique(np.asarray(words, dtype=np.str_), return_inverse=True)
    values = []
    for word in known.tolist():
        try:
            values.append(sum(int(StepStatus[name]) for name in word.split("|")))
        except KeyError:
            names = join_names(StepStatus.__members__)
            raise InputError(
                f"the file is not a trajectory: unknown status {short_repr(word)}. "
                f"Available: {names}"
            ) from None
    return StatusArray.of(StepStatus, np.array(values, dtype=np.int32)[where])
