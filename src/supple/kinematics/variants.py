"""Modified copies of a robot: methods of `Robot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple._arrays.checks import finite_array, names_of, number, pose
from supple.describe import Description, Frame, Inertia, Joint
from supple.describe.inertia import check_moments
from supple.describe.loop import LOOP_KINDS, Loop, LoopKind, welded_with_couplings
from supple.describe.tips import with_tips as description_with_tips
from supple.describe.weld import names_to_weld
from supple.errors import (
    LIMIT_HINTS,
    DescriptionError,
    InputError,
    join_names,
    known_arguments,
    short_repr,
    unknown_name_error,
)
from supple.kinematics import joint_limits
from supple.kinematics.chain import Matrix
from supple.kinematics.frozen import FullConfiguration
from supple.kinematics.joint_limits import JointValues, joint_values, moved_limits
from supple.kinematics.to_urdf import unused

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot


def freeze(
    self: Robot, joints: str | Sequence[str] | Mapping[str, float | Sequence[float]]
) -> Robot:
    """Return the robot with some joints fixed, and thus fewer degrees of freedom.

    `full_q` and `reduced_q` of the result convert between its configurations and those of this
    robot.

    Args:
        joints: Names of joints to fix at zero, or a mapping from names to positions
            [rad or m], which may be outside the joint limits. Joints that mimic a frozen one
            are fixed too. A joint with several degrees of freedom is fixed as a whole; its position
            is a sequence, such as x, y, z and a unit quaternion of a floating joint.
    """
    values = dict(joints) if isinstance(joints, Mapping) else {}
    free = {each.name: each for each in self.description.joints if each.moves and not each.mimic}
    names = names_to_weld(values or joints, list(free), what="joints")
    still: dict[str, float | Matrix] = {}
    numbers: dict[str, float] = {}
    for name in names:
        parts = free[name].position_names
        if len(parts) == 1:
            numbers[name] = still[name] = number(values.get(name, 0.0), f"the value of {name!r}")
            continue
        rest = [1.0 if part.endswith("/qw") else 0.0 for part in parts]
        at = finite_array(values.get(name, rest), (len(parts),), f"the position of {name!r}")
        still[name] = _motion(self, free[name], at)
        numbers.update(zip(parts, at.tolist(), strict=True))
    joints_left, couplings = welded_with_couplings(
        self.description.joints, self.description.couplings, still
    )
    described = replace(self.description, joints=joints_left, couplings=couplings)
    full = FullConfiguration(self._full.names, {**self._full.frozen, **numbers})
    return self._changed(described, full=full)


def _motion(robot: Robot, joint: Joint, positions: Matrix) -> Matrix:
    """Return the motion (4, 4) of a joint at its positions, without its placement on links."""
    alone = Joint(joint.name, joint.kind, "from", "to", axis=joint.axis)
    T = type(robot)(Description(joint.name, (alone,))).fk(positions, "to")
    return np.asarray(T, dtype=np.float64)


def with_base(self: Robot, base: ArrayLike | Literal["floating", "planar"]) -> Robot:
    """Return the robot at another place in the world, or with a base that moves.

        robot.with_base(supple.poses.pose(...))    its root link at a fixed pose
        robot.with_base("floating")                a free base, as of a humanoid
        robot.with_base("planar")                  a mobile base, which moves on the floor

    Args:
        base: Pose (4, 4) of the root link in the world [m], or the kind of a joint between the
            world and the root link. This joint is called "base", and its positions come first in q.
    """
    if isinstance(base, str):
        return _with_moving_base(self, base)
    return self._changed(self.description, base=pose(base, "base"))


def _with_moving_base(robot: Robot, kind: str) -> Robot:
    """Return a robot with a joint between the world and its root link."""
    if kind not in ("floating", "planar"):
        raise InputError(
            'base must be a pose (4, 4), "floating" or "planar"; given: ' + short_repr(kind)
        )
    described = robot.description
    joint = unused("base", {each.name for each in described.joints})
    world = unused("world", {*described.links, *(frame.name for frame in described.frames)})
    made = Joint(joint, kind, world, described.root)  # type: ignore[arg-type]
    tips = described.tips or described.leaves
    joints = (made, *described.joints)
    full = FullConfiguration((*made.position_names, *robot._full.names), robot._full.frozen)
    return robot._changed(replace(described, joints=joints, tips=tips), full=full)


def with_frame(self: Robot, name: str, parent: str, placement: ArrayLike) -> Robot:
    """Return the robot with an additional frame, at `placement` (4, 4) [m] in `parent`."""
    given: object = parent
    if not isinstance(given, str) or given not in self._tree.frames:
        raise unknown_name_error("frame", parent, self.frames)
    placed = pose(placement, "placement")
    for frame in self.description.frames:
        if frame.name == parent:
            parent, placed = frame.link, frame.placement @ placed
    frames = (*self.description.frames, Frame(name, parent, placed))
    return self._changed(replace(self.description, frames=frames))


def with_tips(self: Robot, tips: str | Sequence[str]) -> Robot:
    """Return the robot with other end effectors, given by the name or names of any frames."""
    return self._changed(description_with_tips(self.description, names_of(tips, "tips")))


def with_tool(
    self: Robot, placement: ArrayLike, *, parent: str | None = None, name: str = "tool"
) -> Robot:
    """Return the robot with a tool, whose frame replaces the end effector.

    If the robot has several end effectors, the others remain.

    Args:
        placement: Pose (4, 4) of the tool in the frame `parent` [m].
        parent: Frame that the tool is mounted on; the end effector by default, if the robot
            has only one. If the robot has several end effectors, the tool replaces `parent` if
            `parent` is one of them, else the end effectors on the rigid body of `parent`.
        name: Name of the new frame.
    """
    if parent is None:
        if len(self.tips) != 1:
            raise InputError(
                f"parent must name the frame to mount the tool on: {self.name} has several end "
                f"effectors, {join_names(self.tips)}; given: none"
            )
        parent = self.tips[0]
    mounted = self.with_frame(name, parent, placement)
    body = self._tree.frames[parent].joint
    replaced = {
        tip
        for tip in self.tips
        if len(self.tips) == 1
        or tip == parent
        or (parent not in self.tips and self._tree.frames[tip].joint == body)
    }
    if not replaced:
        raise InputError(
            f"parent must be on the same rigid body as one of the end effectors, "
            f"{join_names(self.tips)}, which the tool replaces (to add an end effector instead, "
            f"use with_frame and with_tips); given: {short_repr(parent)}"
        )
    tips = dict.fromkeys(name if tip in replaced else tip for tip in self.tips)
    return self._changed(replace(mounted.description, tips=tuple(tips)))


@known_arguments(**LIMIT_HINTS)
def with_limits(
    self: Robot,
    *,
    lower: JointValues = None,
    upper: JointValues = None,
    max_speed: JointValues = None,
    max_acceleration: JointValues = None,
    max_jerk: JointValues = None,
    margin: JointValues = None,
) -> Robot:
    """Return the robot with other joint limits.

        robot.with_limits(max_speed=0.5)                    every joint
        robot.with_limits(upper={"elbow_joint": 2.0})       one joint
        robot.with_limits(margin=0.05)                      0.05 inside the present limits

    Each argument is one number for all joints, an array (n,), or a mapping from joint names to
    numbers that leaves the other joints as they are. Infinite means no limit. Planar, ball and
    floating joints have no limits; one number for all joints does not apply to them.

    Args:
        lower: Lower position limits [rad or m].
        upper: Upper position limits [rad or m].
        max_speed: Speed limits [rad/s or m/s].
        max_acceleration: Acceleration limits [rad/s² or m/s²].
        max_jerk: Jerk limits [rad/s³ or m/s³].
        margin: Distance by which both position limits move inwards [rad or m].

    Raises:
        InputError: An argument does not consist of numbers in one of these forms, a lower limit is
            above the upper one, a limit of speed, acceleration or jerk is not positive, or a joint
            with several coordinates is given a limit of its own.
        UnknownNameError: A name is not in `joint_names`.
    """
    names = self.joint_names
    low = joint_values(lower, self.lower, names, "lower")
    high = joint_values(upper, self.upper, names, "upper")
    inwards = joint_values(margin, np.zeros(self.dof), names, "margin")
    low, high = moved_limits(low, high, inwards)
    given = {"max_speed": max_speed, "max_acceleration": max_acceleration, "max_jerk": max_jerk}
    rates = {key: joint_values(each, getattr(self, key), names, key) for key, each in given.items()}
    single = {joint.name for joint in self.description.joints}
    every = {"lower": (lower, low), "upper": (upper, high)}
    every |= {key: (each, rates[key]) for key, each in given.items()}
    for key, (argument, values) in every.items():
        one = not isinstance(argument, Mapping) and np.ndim(argument) == 0  # type: ignore[arg-type]
        finite = zip(names, np.isfinite(values).tolist(), strict=True)
        other = [name for name, each in finite if each and name not in single]
        if other and not one:
            raise InputError(
                f"joints with several coordinates have no limits in a description (a Servo limits "
                f"them with Limits.for_robot); given: {key} of {join_names(other)}"
            )
    return self._changed(joint_limits.with_limits(self.description, names, low, high, rates))


def with_loop(self: Robot, frame_a: str, frame_b: str, kind: LoopKind = "point") -> Robot:
    """Return the robot with a loop: two of its frames coincide in every closed configuration.

        robot.with_frame("end", "rod", T).with_loop("end", "lever")    a rod on the pin of a lever

    Args:
        frame_a, frame_b: Names of the frames.
        kind: "point" if only the origins of the frames coincide, as in a ball joint; "weld" if
            their axes do as well. "point" is sufficient for a planar mechanism.

    Raises:
        UnknownNameError: The robot has no such frame.
    """
    ends: tuple[object, object] = (frame_a, frame_b)
    for frame in ends:
        if not isinstance(frame, str) or frame not in self._tree.frames:
            raise unknown_name_error("frame", frame, self.frames)
    if kind not in LOOP_KINDS:
        raise unknown_name_error("kind", kind, LOOP_KINDS)
    if frame_a == frame_b:
        raise InputError(f"a loop needs two different frames; given: {short_repr(frame_a)} twice")
    name = unused(f"{frame_a}-{frame_b}", {loop.name for loop in self.loops})
    loops = (*self.loops, Loop(frame_a, frame_b, kind, name))
    return self._changed(replace(self.description, loops=loops))


def without_loops(self: Robot) -> Robot:
    """Return the robot without its loops and couplings: a tree whose joints all move freely."""
    if not self.loops and not self.couplings:
        return self
    return self._changed(replace(self.description, loops=(), couplings=()))


def with_inertia(
    self: Robot,
    link: str,
    mass: float,
    center: ArrayLike = (0.0, 0.0, 0.0),
    matrix: ArrayLike | None = None,
) -> Robot:
    """Return the robot with a given inertia of one link instead of the inertia in its file.

    Args:
        link: Name of the link.
        mass: Mass [kg], not negative.
        center: Center of mass (3,) in the link's frame [m].
        matrix: Inertia matrix (3, 3) about the center of mass, in the link's axes [kg m²]; if None,
            that of a point mass, zero.
    """
    links = self.description.links
    if link not in links:
        raise unknown_name_error("link", link, links)
    moments = np.zeros((3, 3)) if matrix is None else finite_array(matrix, (3, 3), "matrix")
    given = Inertia(link, mass, finite_array(center, (3,), "center"), moments)
    try:
        given.check()
        check_moments(given.matrix, given.mass, f"inertia of link {short_repr(link)}")
    except DescriptionError as error:
        raise InputError(str(error)) from None
    others = (each for each in self.description.inertias if each.link != link)
    return self._changed(replace(self.description, inertias=(*others, given)))
