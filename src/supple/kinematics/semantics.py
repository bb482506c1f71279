"""Groups of joints and their states, from SRDF files: methods of `Robot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from supple._arrays.checks import coordinates
from supple.describe import Group
from supple.errors import InputError, short_repr, unknown_name_error
from supple.kinematics.chain import Matrix

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot


def _group(robot: Robot, name: object) -> Group:
    found = robot.groups.get(name) if isinstance(name, str) else None
    if found is None:
        if not robot.groups:
            raise InputError(
                f"{robot.name} has no groups: supple.urdf(file, srdf=...) reads them from an SRDF "
                f"file; given: {short_repr(name)}"
            )
        raise unknown_name_error("group", name, robot.groups)
    return found


def with_group(self: Robot, name: str, *, at: ArrayLike | None = None) -> Robot:
    """Return the robot with the joints and end effectors of a group; other joints are frozen.

    A moving base is added if the group contains a virtual joint that moves. `full_q` and
    `reduced_q` of the result convert between its configurations and those of this robot.

    Args:
        name: Name of the group, one of `groups`.
        at: Configuration (nq,) of this robot, at which the other joints are frozen [rad or m];
            `neutral()` by default.

    Raises:
        InputError: The robot has no groups, or no joint of the group moves.
        UnknownNameError: There is no group of this name.
    """
    group = _group(self, name)
    q = self.neutral() if at is None else coordinates(at, self.nq, "at")
    if q.shape != (self.nq,):
        raise InputError(f"at must have shape ({self.nq},); given shape: {q.shape}")
    index = {name: i for i, name in enumerate(self.position_names)}
    free = [joint for joint in self.description.joints if joint.moves and joint.mimic is None]
    if group.base is None and not any(joint.name in group.joints for joint in free):
        raise InputError(
            f"a group must have joints that move; given: {short_repr(name)}, whose joints are "
            f"fixed, frozen or passive, or follow others"
        )
    still = {
        joint.name: positions if len(positions) > 1 else positions[0]
        for joint in free
        if joint.name not in group.joints
        for positions in [[float(q[index[part]]) for part in joint.position_names]]
    }
    robot = self.with_base(group.base) if group.base else self
    robot = robot.freeze(still) if still else robot
    return robot.with_tips(group.tips) if group.tips else robot


def group_state(self: Robot, group: str, state: str) -> Matrix:
    """Return the configuration (nq,) of a named state of a group [rad or m].

    Joints that the state does not name are as in `neutral()`. Positions of joints that this robot
    does not have, such as frozen ones, are ignored.

    Args:
        group: Name of the group, one of `groups`.
        state: Name of the state, one of `groups[group].states`.

    Raises:
        InputError: The robot has no groups, or the state gives a joint the wrong number of values.
        UnknownNameError: There is no such group or state.
    """
    states = _group(self, group).states
    if state not in tuple(states):  # also if it is not a string
        raise unknown_name_error("state", state, states)
    q = self.neutral()
    index = {each: i for i, each in enumerate(self.position_names)}
    for joint in self.description.joints:
        values = states[state].get(joint.name)
        if values is None or not joint.moves or joint.mimic is not None:
            continue
        if len(values) != len(joint.position_names):
            raise InputError(
                f"state {short_repr(state)} must have {len(joint.position_names)} values for "
                f"{short_repr(joint.name)}; given: {short_repr(list(values))}"
            )
        for name, value in zip(joint.position_names, values, strict=True):
            q[index[name]] = value
    return q
