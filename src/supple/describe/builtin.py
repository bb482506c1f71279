"""The built-in robots: published dimensions and limits as tables, with their sources.

A DH row is (a [m], alpha [deg], d [m], theta [deg]); limits are in degrees unless noted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from supple.describe._figures import double_y, double_y16, y
from supple.describe._pose import Array, rotation_x, rotation_y, rotation_z, translation
from supple.describe.description import Description
from supple.describe.dh import dh
from supple.describe.joint import Frame, Joint
from supple.describe.tips import with_tips
from supple.errors import UnknownNameError, unknown_name_error

_INCH = 0.0254


def builtin(name: str, *, tips: str | Iterable[str] | None = None) -> Description:
    """Return the built-in robot with a given name; `supple.describe.builtin_names()` lists all.

    Args:
        name: Name of the robot. Files are read by `supple.urdf` and `supple.mjcf`.
        tips: Name or names of the end effectors (any links or frames); by default the end effectors
            that the robot's table names.

    Raises:
        UnknownNameError: The robot or end effector does not exist; the message lists the existing
            names.
    """
    given: object = name
    if not isinstance(given, str) or name not in _ROBOTS:
        error = unknown_name_error("robot", name, _ROBOTS)
        hint = _file_hint(given)
        raise UnknownNameError(f"{error} {hint}") if hint else error
    return _built(name) if tips is None else with_tips(_built(name), tips)


@cache
def _built(name: str) -> Description:
    return _ROBOTS[name]()


def _file_hint(given: object) -> str:
    """Return a hint at the right reader if `given` looks like a robot file or its path."""
    if not isinstance(given, str | os.PathLike):
        return ""
    text = str(given).strip().lower()
    if text.endswith(".urdf") or text.startswith("<robot"):
        return "supple.load takes names of built-in robots; read a URDF file with supple.urdf."
    if text.endswith(".mjcf") or text.startswith("<mujoco"):
        return "supple.load takes names of built-in robots; read an MJCF file with supple.mjcf."
    if text.endswith((".xml", ".xacro")) or text.startswith("<") or os.path.exists(given):
        return (
            "supple.load takes names of built-in robots; read a file with supple.urdf or "
            "supple.mjcf."
        )
    return ""


def names() -> tuple[str, ...]:
    """Return the names of the built-in robots."""
    return tuple(_ROBOTS)


def _table(*rows: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    """Convert DH rows with angles in degrees to rows with angles in radians."""
    return [(a, math.radians(alpha), d, math.radians(theta)) for a, alpha, d, theta in rows]


def _degrees(*values: float | tuple[float, float]) -> Array:
    """Return limits (n, 2) [rad] from pairs in degrees; a single number x means (-x, x)."""
    pairs = [value if isinstance(value, tuple) else (-value, value) for value in values]
    return np.radians(pairs)


def _numbered(prefix: str, numbers: Sequence[int]) -> list[str]:
    return [f"{prefix}{i}" for i in numbers]


def planar2() -> Description:
    """A planar arm with two links of 1.10 m and 1.00 m, without limits.

    References:
        Maciejewski & Klein 1988, Fig. 2 and 3.
    """
    return dh(_table((1.10, 0, 0, 0), (1.00, 0, 0, 0)), name="planar2")


def planar3() -> Description:
    """A planar arm with three links of 1, 0.5 and 0.5 m, relative joint angles and no limits.

    References:
        Deo & Walker 1995, Fig. 4.
    """
    return dh(_table((1.0, 0, 0, 0), (0.5, 0, 0, 0), (0.5, 0, 0, 0)), name="planar3")


def planar4() -> Description:
    """A planar arm with four links of 0.5 m, relative joint angles and no limits.

    Deo & Walker mention such arms without dimensions. These four equal links have the same total
    length as those of `planar3`.

    References:
        Deo & Walker 1995, section 1.
    """
    return dh(_table(*[(0.5, 0, 0, 0)] * 4), name="planar4")


def puma560_mk() -> Description:
    """The PUMA arm as in Maciejewski & Klein 1988, Table I: rounded dimensions, no limits."""
    table = _table(
        (0.000, -90, 0.000, 0),
        (0.432, 0, 0.149, 0),
        (-0.020, 90, 0.000, 0),
        (0.000, -90, 0.433, 0),
        (0.000, 90, 0.000, 0),
        (0.000, 0, 0.056, 0),
    )
    return dh(table, name="puma560_mk")


def puma560() -> Description:
    """The Unimation PUMA 560 on its column, up to the mounting flange, without speed limits.

    Zero position, signs and limits are those of the textbook table (and of Maciejewski & Klein's
    Table I): the upper arm is horizontal along x, the forearm points up. Authors differ by up to
    1 mm in a3, d2 and d4; these are the consensus values. z = 0 is the floor.

    References:
        Fu, Gonzalez & Lee, Robotics, 1987, Fig. 2.11 (axes, limits, d6);
        Corke & Armstrong-Helouvry, "A search for consensus among model parameters reported for
        the PUMA 560 robot", ICRA 1994 (a2, a3, d4, shoulder offset 0.15005, height 0.672).
    """
    table = _table(
        (0.0000, -90, 0.67200, 0),
        (0.4318, 0, 0.15005, 0),
        (-0.0203, 90, 0.00000, 0),
        (0.0000, -90, 0.43180, 0),
        (0.0000, 90, 0.00000, 0),
        (0.0000, 0, 0.05625, 0),
    )
    limits = _degrees(160, (-225, 45), (-45, 225), (-110, 170), 100, 266)
    return dh(table, limits=limits, name="puma560")


def puma560_roll() -> Description:
    """The PUMA 560 with an extra roll joint in the shoulder: seven joints.

    "shoulder_roll" turns the arm about the upper arm's center line, after joint 2, and has no
    limits. With this joint at zero, the arm is a `puma560`.

    References:
        Deo & Walker 1995, section 1 (on Egeland's study).
    """
    puma = puma560()
    first, second, third, *rest = puma.joints
    roll = Joint("shoulder_roll", "continuous", "link2", "upper_arm", axis=np.array((1.0, 0, 0)))
    elbow = replace(third, parent="upper_arm")
    return Description("puma560_roll", (first, second, roll, elbow, *rest), tips=puma.tips)


def puma560_rail() -> Description:
    """The PUMA 560 with a base that slides along x: seven joints.

    "rail" is the first joint; it has no limits. With this joint at zero, the arm is a `puma560`.

    References:
        Deo & Walker 1995, section 1 (on a study in which the base translates).
    """
    puma = puma560()
    rail = Joint("rail", "prismatic", "floor", "link0", axis=np.array((1.0, 0, 0)))
    return Description("puma560_rail", (rail, *puma.joints), tips=puma.tips)


def stanford() -> Description:
    """The Stanford (Scheinman) arm: joints RRP and a spherical wrist, without speed limits.

    q3 is the extension [m]; at q3 = 0 the wrist is at the shoulder, which the limits exclude.

    References:
        Paul, "Modelling, trajectory calculation and servoing of a computer controlled arm",
        Stanford AIM-177, 1972, Fig. 2.3 (dimensions);
        Dobrotin & Scheinman, "Design of a computer controlled manipulator for robot research",
        IJCAI 1973 (ranges of the joints; the slide from 12 to 50 inches).
    """
    table = _table(
        (0, -90, 0.412, 0),
        (0, 90, 0.154, 0),
        (0, 0, 0.000, -90),
        (0, -90, 0.000, 0),
        (0, 90, 0.000, 0),
        (0, 0, 0.263, 0),
    )
    limits = _degrees(170, 170, 0, 170, 90, 170)
    limits[2] = 12 * _INCH, 50 * _INCH
    return dh(table, kinds="RRPRRR", limits=limits, name="stanford")


def panda() -> Description:
    """The Franka Emika Panda with its hand, without the fingers' two joints.

    Links panda_link0 to panda_link8 and panda_hand are those of the manufacturer's files; the end
    effector panda_hand_tcp is the point between the fingertips, 0.1034 m in front of the hand.

    References:
        Franka Control Interface documentation, "Denavit-Hartenberg parameters" (Craig's
        convention) and "Limits for Panda"; the hand: franka_description.
    """
    table = _table(
        (0.0000, 0, 0.333, 0),
        (0.0000, -90, 0.000, 0),
        (0.0000, 90, 0.316, 0),
        (0.0825, 90, 0.000, 0),
        (-0.0825, -90, 0.384, 0),
        (0.0000, 90, 0.000, 0),
        (0.0880, 90, 0.000, 0),
    )
    limits = [  # [rad]
        (-2.8973, 2.8973),
        (-1.7628, 1.7628),
        (-2.8973, 2.8973),
        (-3.0718, -0.0698),
        (-2.8973, 2.8973),
        (-0.0175, 3.7525),
        (-2.8973, 2.8973),
    ]
    arm = dh(
        table,
        convention="modified",
        limits=limits,
        max_speed=[2.1750, 2.1750, 2.1750, 2.1750, 2.6100, 2.6100, 2.6100],  # [rad/s]
        joint_names=_numbered("panda_joint", range(1, 8)),
        link_names=_numbered("panda_link", range(8)),
    )
    turned = rotation_z(-math.pi / 4)
    flange = Joint("panda_joint8", "fixed", "panda_link7", "panda_link8", translation(z=0.107))
    hand = Joint("panda_hand_joint", "fixed", "panda_link8", "panda_hand", turned)
    tcp = Frame("panda_hand_tcp", "panda_hand", translation(z=0.1034))
    return Description("panda", (*arm.joints, flange, hand), (tcp,), ("panda_hand_tcp",))


def ur5e() -> Description:
    """The Universal Robots UR5e: nominal dimensions, joint names of the manufacturer's files.

    The root "base" and the end effector "tool0" are the frames of these names in the
    manufacturer's files; the links between them are the DH frames.

    References:
        Universal Robots, "DH parameters for calculations of kinematics and dynamics";
        UR5e user manual (±360° on every joint, 180°/s); the elbow is limited to ±180°
        as in the manufacturer's description files, which halve its range for planners.
    """
    table = _table(
        (0.0000, 90, 0.1625, 0),
        (-0.4250, 0, 0.0000, 0),
        (-0.3922, 0, 0.0000, 0),
        (0.0000, 90, 0.1333, 0),
        (0.0000, -90, 0.0997, 0),
        (0.0000, 0, 0.0996, 0),
    )
    return dh(
        table,
        limits=_degrees(360, 360, 180, 360, 360, 360),
        max_speed=math.pi,
        joint_names=[
            "shoulder_pan_joint",
            "shoulder_lift_joint",
            "elbow_joint",
            "wrist_1_joint",
            "wrist_2_joint",
            "wrist_3_joint",
        ],
        link_names=["base", *_numbered("link", range(1, 6)), "tool0"],
        name="ur5e",
    )


def iiwa14() -> Description:
    """The KUKA LBR iiwa 14 R820 up to its media flange; joint names of public files.

    References:
        KUKA, LBR iiwa 14 R820 technical data: 360, 420, 400 and 126 mm between the axes;
        ranges and speeds of the axes.
    """
    table = _table(
        (0, -90, 0.360, 0),
        (0, 90, 0.000, 0),
        (0, 90, 0.420, 0),
        (0, -90, 0.000, 0),
        (0, -90, 0.400, 0),
        (0, 90, 0.000, 0),
        (0, 0, 0.126, 0),
    )
    return dh(
        table,
        limits=_degrees(170, 120, 170, 120, 170, 120, 175),
        max_speed=np.radians([85, 85, 100, 75, 130, 135, 135]),
        joint_names=_numbered("iiwa_joint_", range(1, 8)),
        link_names=[*_numbered("link", range(7)), "flange"],
        name="iiwa14",
    )


def youbot() -> Description:
    """The arm of the KUKA youBot: with five joints it cannot orient its tool freely.

    At zero the arm points straight up; positive q2, q3, q4 lean forward, toward +x. The end
    effector is the center of the gripper, 0.2175 m beyond the fourth axis.

    References:
        KUKA youBot user manual: dimensions 147, 33, 155, 135 and 217.5 mm; ranges; 90°/s.
    """
    table = _table(
        (0.033, -90, 0.1470, 0),
        (0.155, 0, 0.0000, -90),
        (0.135, 0, 0.0000, 0),
        (0.000, -90, 0.0000, -90),
        (0.000, 0, 0.2175, 0),
    )
    return dh(
        table,
        limits=_degrees(169, (-65, 90), (-151, 146), 102.5, 167.5),
        max_speed=math.radians(90),
        joint_names=_numbered("arm_joint_", range(1, 6)),
        link_names=_numbered("arm_link_", range(6)),
        name="youbot",
    )


def so101() -> Description:
    """The SO-101 follower arm without its jaw: five joints, zero in the middle of their ranges.

    Names and zeros are those of LeRobot and of the maker's file with the new calibration; the end
    effector "gripper_frame_link" is between the tips of the jaws, z forward.

    References:
        TheRobotStudio, SO-ARM100, Simulation/SO101/so101_new_calib.urdf (Apache-2.0): origins,
        ranges, and 10 rad/s, which the servos do not reach under load.
    """
    table = (  # name, child, position [m], rotations about z, y and x, range [rad]
        ("shoulder_pan", "shoulder_link", (0.0388353, 0, 0.0624), (-180, 0, 180), 1.91986),
        (
            "shoulder_lift",
            "upper_arm_link",
            (-0.0303992, -0.0182778, -0.0542),
            (0, -90, -90),
            1.74533,
        ),
        ("elbow_flex", "lower_arm_link", (-0.11257, -0.028, 0), (90, 0, 0), 1.69),
        ("wrist_flex", "wrist_link", (-0.1349, 0.0052, 0), (-90, 0, 0), 1.65806),
        (
            "wrist_roll",
            "gripper_link",
            (0, -0.0611, 0.0181),
            (180, math.degrees(0.0486795), 90),
            (-2.74385, 2.84121),
        ),
    )
    joints, parent = [], "base_link"
    for name, child, position, (z, y_, x), limit in table:
        turn = (
            rotation_z(math.radians(z)) @ rotation_y(math.radians(y_)) @ rotation_x(math.radians(x))
        )
        lower, upper = limit if isinstance(limit, tuple) else (-limit, limit)
        origin = translation(*position) @ turn
        joints.append(
            Joint(name, "revolute", parent, child, origin, lower=lower, upper=upper, max_speed=10.0)
        )
        parent = child
    placement = translation(-0.0079, -0.000218121, -0.0981274) @ rotation_y(math.pi)
    tip = Frame("gripper_frame_link", "gripper_link", placement)
    return Description("so101", tuple(joints), (tip,), ("gripper_frame_link",))


_ROBOTS: dict[str, Callable[[], Description]] = {
    "planar2": planar2,
    "planar3": planar3,
    "planar4": planar4,
    "puma560_mk": puma560_mk,
    "puma560": puma560,
    "puma560_roll": puma560_roll,
    "puma560_rail": puma560_rail,
    "stanford": stanford,
    "panda": panda,
    "ur5e": ur5e,
    "iiwa14": iiwa14,
    "youbot": youbot,
    "so101": so101,
    "y": y,
    "double_y": double_y,
    "double_y16": double_y16,
}
