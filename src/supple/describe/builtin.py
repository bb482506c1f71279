"""The built-in robots: published dimensions and limits as tables, each with its source.

Every DH row is (a [m], alpha [deg], d [m], theta [deg]); limits are in degrees unless said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from supple.describe._figures import double_y, y
from supple.describe._pose import Array, rotation_z, translation
from supple.describe.description import Description, Frame, Joint
from supple.describe.dh import dh
from supple.errors import unknown

_INCH = 0.0254


def builtin(name: str) -> Description:
    """The built-in robot of this name; `supple.describe.builtin_names()` lists them.

    Raises:
        UnknownNameError: there is no such robot; the message lists those there are.
    """
    given: object = name
    build = _ROBOTS.get(name) if isinstance(given, str) else None
    if build is None:
        raise unknown("robot", name, _ROBOTS)
    return build()


def names() -> tuple[str, ...]:
    """The names of the built-in robots."""
    return tuple(_ROBOTS)


def _table(*rows: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    """DH rows with their angles in degrees -> in radians."""
    return [(a, math.radians(alpha), d, math.radians(theta)) for a, alpha, d, theta in rows]


def _degrees(*values: float | tuple[float, float]) -> Array:
    """Limits (n, 2) [rad] from pairs in degrees; one number is both signs of it."""
    pairs = [value if isinstance(value, tuple) else (-value, value) for value in values]
    return np.radians(pairs)


def _numbered(prefix: str, numbers: Sequence[int]) -> list[str]:
    return [f"{prefix}{i}" for i in numbers]


def planar2() -> Description:
    """Two links in a plane, 1.10 m and 1.00 m, no limits.

    References:
        Maciejewski & Klein 1988, Fig. 2 and 3.
    """
    return dh(_table((1.10, 0, 0, 0), (1.00, 0, 0, 0)), name="planar2")


def planar3() -> Description:
    """Three links in a plane, 1, 0.5 and 0.5 m, relative angles, no limits.

    References:
        Deo & Walker 1995, Fig. 4.
    """
    return dh(_table((1.0, 0, 0, 0), (0.5, 0, 0, 0), (0.5, 0, 0, 0)), name="planar3")


def puma560_mk() -> Description:
    """The PUMA arm exactly as in Maciejewski & Klein 1988, Table I: rounded figures, no limits."""
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
    """The Unimation PUMA 560 on its column, up to the mounting flange; no published speeds.

    The zero, the signs and the limits are those of the textbook table (also of MK Table I): the
    upper arm horizontal along x, the forearm pointing up. Authors differ by up to 1 mm in a3, d2
    and d4; these are the consensus figures. z = 0 is the floor.

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


def stanford() -> Description:
    """The Stanford (Scheinman) arm: two turns, a slide, a spherical wrist; no published speeds.

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

    Links panda_link0 to panda_link8 and panda_hand lie where the maker's files put them; the tip
    panda_hand_tcp is the point between the finger tips, 0.1034 m in front of the hand.

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
    """The Universal Robots UR5e: the maker's nominal figures, joint names of its files.

    The root "base" and the tip "tool0" are the frames of those names in the maker's files; the
    links between are the DH frames.

    References:
        Universal Robots, "DH parameters for calculations of kinematics and dynamics";
        UR5e user manual (±360° on every joint, 180°/s); the elbow is held to ±180° as in the
        maker's description files, which halve its range for the sake of planners.
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
    """The KUKA LBR iiwa 14 R820 up to its media flange; joint names of the public files.

    References:
        KUKA, LBR iiwa 14 R820 technical data: 360, 420, 400 and 126 mm between the axes' crossings;
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
    """The five-joint arm of the KUKA youBot: it cannot turn its tool in every direction.

    Zero is the arm straight up; positive q2, q3, q4 lean forward, towards +x. The tip is the
    centre of the gripper, 0.2175 m beyond the fourth axis.

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


_ROBOTS: dict[str, Callable[[], Description]] = {
    "planar2": planar2,
    "planar3": planar3,
    "puma560_mk": puma560_mk,
    "puma560": puma560,
    "stanford": stanford,
    "panda": panda,
    "ur5e": ur5e,
    "iiwa14": iiwa14,
    "youbot": youbot,
    "y": y,
    "double_y": double_y,
}
