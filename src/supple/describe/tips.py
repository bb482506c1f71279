"""Default end effectors of robots from files, whose formats do not name end effectors.

The leaf links of a real file include the base plate, cameras, IMUs, rotors and every finger. The
default end effectors (`tips`) are chosen by these rules, in this order:

1. A *branch* is a chain of moving joints whose last joint carries no further moving joint. A *body*
   consists of links joined by fixed joints. Each branch yields one end effector, on its last body.
   Frames that no joint moves, and sensors in the middle of a chain, are therefore not end
   effectors.
2. *Grippers* end at the palm: a body that carries several branches, all of them fingers, counts as
   the last body of its branch. A finger has no more joints than the chain that carries it and, at
   the zero configuration, at most half the length of this chain. A single jaw on an arm of at least
   four joints is recognized by its name (gripper, finger, jaw, claw). A hand without an arm ends at
   its fingertips.
3. Branches named after wheels, casters, rotors, propellers or thrusters, and bodies that carry only
   sensors (a camera head), are omitted if other branches remain.
4. Among the frames of the last body, conventional names are preferred: tcp and tool0, then end
   effector and ee, then grasp, gripper, palm, hand and sole, then foot; then the first leaf that is
   not a sensor. Extra frames, such as MJCF sites, count only if their name is conventional.

`tips=` of a reader overrides the default; `Robot.tips` shows the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from supple.describe.description import Description
from supple.describe.joint import Joint
from supple.errors import InputError, short_repr, unknown_name_error

_ROOT = ""  # name of the root link's body; no joint has an empty name
_FINGER_LENGTH = 0.5  # longest finger, relative to the chain from the root to its base


class _Words:
    """Case-insensitive patterns, compiled on first use to keep the import fast."""

    def __init__(self, *patterns: str) -> None:
        self._patterns = "|".join(patterns)

    def match(self, name: str) -> bool:
        """Return whether one of the patterns occurs in a name."""
        return re.search(self._patterns, name, re.IGNORECASE) is not None


_TOOLS = (  # most specific first; (?![a-z]) ends a word, so that "tool0" and "tool_frame" match
    _Words(r"tcp(?![a-z])", r"tool0", r"tool_?(center|frame|tip|point|link)", r"tool$"),
    _Words(r"end_?eff", r"(^|[^a-z])eef?(?![a-z])", r"effector", r"attachment", r"pinch"),
    _Words(r"grasp", r"grip", r"hand(?!le)", r"palm", r"sole"),
    _Words(r"foot"),
)
_SENSORS = _Words(
    *("imu", "camera", "(^|[_:/])cam(_|$)", "optical", "laser", "lidar", "radar", "sonar", "depth"),
    *("sensor", "accelerometer", "gyro", "antenna", "led_frame", "range", "logo", "inertia"),
    *("collision", "visual", "shape", "safety_box", "force_torque", "fsr", "touch", "motor"),
)
_JAWS = _Words("grip", "finger", "jaw", "claw")
_FINGERS = _Words("finger", "thumb", "knuckle")
_FEWEST_ARM_JOINTS = 4
_WRIST = _Words("yaw", "roll", "pitch", "rot", "wrist")
_NOT_ARMS = _Words("wheel", "caster", "rotor", "propell", "thruster")


def with_tips(robot: Description, tips: str | Iterable[str] | None) -> Description:
    """Return a description with the given end effectors, or the default ones if None.

    Raises:
        UnknownNameError: A name is neither a link nor a frame.
        InputError: `tips` is neither a name nor a sequence of names, or is empty.
    """
    if tips is None:
        return robot._with_valid_tips(default_tips(robot))
    available = dict.fromkeys((*robot.links, *(frame.name for frame in robot.frames)))
    try:
        names = (tips,) if isinstance(tips, str) else tuple(tips)
    except Exception as error:  # raised by the object's own iterator
        raise InputError(
            f"tips: expected the name of an end effector, or several, given {short_repr(tips)}."
        ) from error
    if not names:
        raise InputError("tips: expected the name of an end effector, or several, given none.")
    each: Iterable[object] = names
    for name in each:
        if not isinstance(name, str) or name not in available:
            raise unknown_name_error("end effector", name, available)
    return robot._with_valid_tips(tuple(dict.fromkeys(names)))


def default_tips(robot: Description) -> tuple[str, ...]:
    """Return the names of the default end effectors, by the rules of this module."""
    bodies = _Bodies(robot)
    ends = bodies.branch_ends()
    arms = [end for end in ends if not _NOT_ARMS.match(end)] or ends
    useful = [end for end in arms if not bodies.only_sensors(end)] or arms
    return tuple(bodies.frame_of(end) for end in useful)


class _Bodies:
    """Rigid bodies of a robot: a body is named after the moving joint that carries it."""

    def __init__(self, robot: Description) -> None:
        self.robot = robot
        self.body_of = {robot.root: _ROOT}  # body of each link
        self.links: dict[str, list[str]] = {_ROOT: [robot.root]}
        self.parent: dict[str, str] = {}  # parent of each body
        self.branches: dict[str, list[Joint]] = {_ROOT: []}  # moving joints attached to each body
        self.depth = {_ROOT: 0}  # number of joints that carry a body
        self.length = {robot.root: 0.0}  # length of the chain from the root to a link [m]
        for joint in robot.joints:
            above = self.body_of[joint.parent]
            body = joint.name if joint.moves else above
            self.body_of[joint.child] = body
            step = np.linalg.norm(joint.origin[:3, 3]) + np.linalg.norm(
                joint.child_placement[:3, 3]
            )
            self.length[joint.child] = self.length[joint.parent] + float(step)
            if joint.moves:
                self.parent[body] = above
                self.branches[above].append(joint)
                self.branches[body] = []
                self.links[body] = []
                self.depth[body] = self.depth[above] + 1
            self.links[body].append(joint.child)
        self.leaves = set(robot.leaves)
        self.extra: dict[str, list[str]] = {}  # names of extra frames, by body
        ends = {f"{loop.name}/{end}" for loop in robot.loops for end in "ab"}  # added by `mjcf`
        for frame in robot.frames:
            if frame.name in ends:
                continue
            self.extra.setdefault(self.body_of[frame.link], []).append(frame.name)
        # The longest chain [m] and the largest depth from the root to a body or any of its
        # descendants, computed from the leaves up.
        self.reach = {
            body: max(map(self.length.__getitem__, own)) for body, own in self.links.items()
        }
        self.deepest = dict(self.depth)
        for body, above in reversed(self.parent.items()):
            self.reach[above] = max(self.reach[above], self.reach[body])
            self.deepest[above] = max(self.deepest[above], self.deepest[body])

    def branch_ends(self) -> list[str]:
        """Return the last body of each branch, in the order of the joints."""
        ends, todo = [], [_ROOT]
        while todo:
            body = todo.pop()
            if self.branches[body] and not self._is_palm(body):
                todo.extend(joint.name for joint in reversed(self.branches[body]))
            elif body != _ROOT:
                ends.append(body)
        return ends

    def _is_palm(self, body: str) -> bool:
        """Return whether all branches on a body are fingers of a gripper."""
        fingers = self.branches[body]
        if len(fingers) == 1:
            name = fingers[0].name
            named = _JAWS.match(name) and not _WRIST.match(name) and not _FINGERS.match(body)
            long = self.depth[body] >= _FEWEST_ARM_JOINTS
            return named and long and not self.branches[name]
        return all(
            self.deepest[finger.name] <= 2 * self.depth[body]
            and self.reach[finger.name] - self.length[finger.parent]
            <= _FINGER_LENGTH * self.length[finger.parent]
            for finger in fingers
        )

    def only_sensors(self, body: str) -> bool:
        """Return whether a body carries no fingers and all its leaf links are sensors."""
        leaves = [link for link in self.links[body] if link in self.leaves]
        limb = _by_convention(link for link in self.links[body] if link not in self.leaves)
        return not self.branches[body] and limb is None and all(map(_SENSORS.match, leaves))

    def frame_of(self, body: str) -> str:
        """Return the frame that serves as the end effector of a body."""
        links = [link for link in self.links[body] if not _SENSORS.match(link)]
        leaves = [link for link in links if link in self.leaves]
        if self.branches[body] or sum(map(_FINGERS.match, leaves)) > 1:  # a palm
            leaves = [leaf for leaf in leaves if not _FINGERS.match(leaf)]
            mounts = [joint.parent for joint in self.branches[body]]
            mount = next((link for link in mounts if not _FINGERS.match(link)), self.links[body][0])
        else:
            mount = self.links[body][0]
        named = _by_convention([*leaves, *self.extra.get(body, ())])
        if named is None and not leaves:
            named = _by_convention(link for link in links if link not in self.leaves)
        return named or (leaves[0] if leaves else mount)


def _by_convention(given: Iterable[str]) -> str | None:
    """Return the name that matches the most specific convention for names of tools, if any."""
    names = list(given)
    for pattern in _TOOLS:
        for name in names:
            if pattern.match(name):
                return name
    return None
