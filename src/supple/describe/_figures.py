"""The branching arms of Buss's program. In the zero pose, all link frames have world axes.

References:
    Buss, "Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and damped
    least squares methods", 2009, and the program published with it.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from supple.describe._pose import Array, translation
from supple.describe.description import Description
from supple.describe.joint import Frame, Joint

_Point: TypeAlias = "tuple[float, float, float]"

_AXES: dict[str, _Point] = {
    "x": (1, 0, 0),
    "y": (0, 1, 0),
    "z": (0, 0, 1),
    "u": (math.sqrt(14) / 8, 1 / 8, 7 / 8),
}


def y() -> Description:
    """The Y of Buss's program: seven joints, one fork, end effectors E0 and E1."""
    joints: list[tuple[str, str, _Point, str]] = [
        ("j0", "base", (0, -0.5, 0), "z"),
        ("j1", "j0", (0, 0.4, 0), "z"),
        ("j2", "j0", (0, 0.4, 0), "z"),
        ("j3", "j1", (0.5, 1, 0), "x"),
        ("j4", "j2", (-0.5, 1, 0), "x"),
        ("j5", "j3", (0.7, 1.3, 0), "u"),
        ("j6", "j4", (-0.8, 1.5, 0), "u"),
    ]
    effectors: list[tuple[str, str, _Point]] = [
        ("E0", "j5", (0.7, 2, 0)),
        ("E1", "j6", (-0.8, 1.9, 0)),
    ]
    return _figure("y", joints, effectors)


def double_y() -> Description:
    """The double Y of Buss's program: 25 joints, two levels of forks, end effectors E0 to E3."""
    p = _double_y_points()
    joints: list[tuple[str, str, _Point, str]] = [
        ("a", "base", p[0], "u"),
        ("b", "a", p[1], "x"),
        ("c", "b", p[1], "z"),
        ("d", "c", p[2], "z"),
        ("e", "c", p[2], "z"),
        ("f", "d", p[3], "y"),
        ("g", "d", p[3], "y"),
        ("h1", "f", p[3], "x"),
        ("i", "h1", p[4], "z"),
        ("j", "i", p[5], "x"),
        ("k", "j", p[5], "y"),
        ("l", "g", p[3], "x"),
        ("m", "l", p[7], "z"),
        ("n", "m", p[8], "x"),
        ("o", "n", p[8], "y"),
        ("s", "e", p[10], "y"),
        ("t", "s", p[10], "x"),
        ("v", "e", p[10], "y"),
        ("w", "t", p[11], "z"),
        ("x1", "w", p[12], "x"),
        ("y1", "x1", p[12], "y"),
        ("z1", "v", p[10], "x"),
        ("A1", "z1", p[14], "z"),
        ("B1", "A1", p[15], "x"),
        ("C1", "B1", p[15], "y"),
    ]
    effectors: list[tuple[str, str, _Point]] = [
        ("E0", "k", p[6]),
        ("E1", "o", p[9]),
        ("E2", "y1", p[13]),
        ("E3", "C1", p[16]),
    ]
    return _figure("double_y", joints, effectors)


def double_y16() -> Description:
    """The double Y of Buss's text: 16 links with one joint each, end effectors E0 to E3.

    The text states 16 links and a 12 × 16 Jacobian; its drawing shows the links of `double_y`. The
    text does not state the joint axes: each link has one of the joints that `double_y` has at the
    start of the same link.
    """
    p = _double_y_points()
    joints: list[tuple[str, str, _Point, str]] = [
        ("a", "base", p[0], "u"),
        ("b", "a", p[1], "x"),
        ("d", "b", p[2], "z"),
        ("e", "b", p[2], "z"),
    ]
    effectors: list[tuple[str, str, _Point]] = []
    for arm, (fork, first) in enumerate((("d", 4), ("d", 7), ("e", 11), ("e", 14))):
        start = p[3] if fork == "d" else p[10]
        one, two, three = (f"arm{arm}_{k}" for k in (1, 2, 3))
        joints += [
            (one, fork, start, "x"),
            (two, one, p[first], "z"),
            (three, two, p[first + 1], "y"),
        ]
        effectors.append((f"E{arm}", three, p[first + 2]))
    return _figure("double_y16", joints, effectors)


def _double_y_points() -> list[_Point]:
    """Return the end points p0 to p16 of the double Y's links [m]."""
    r, h = 1 / math.sqrt(2), math.sqrt(3) / 2
    p: list[_Point] = [(0, -1.5, 0), (0, -1, 0), (0, -0.5, 0), (0.5 * r, -0.5 + 0.5 * r, 0)]
    p += [_along(p[3], k, 0.5 * h, 0.25) for k in (1, 2, 3)]  # p4, p5, p6
    p += [_along(p[3], k, 0.5 * h, 0.5 * h) for k in (1, 2, 3)]  # p7, p8, p9
    p += [(-p[3][0], p[3][1], 0)]  # p10
    p += [_along(p[10], k, -0.5 * h, 0.5 * h) for k in (1, 2, 3)]  # p11, p12, p13
    p += [_along(p[10], k, -0.5 * h, 0.25) for k in (1, 2, 3)]  # p14, p15, p16
    return p


def _along(start: _Point, k: int, dx: float, dy: float) -> _Point:
    return (start[0] + k * dx, start[1] + k * dy, start[2])


def _figure(
    name: str,
    joints: list[tuple[str, str, _Point, str]],
    effectors: list[tuple[str, str, _Point]],
) -> Description:
    """Return an arm from joints (name, parent, world position [m], axis), without limits.

    Links are named after their joints. In the zero pose every link frame has world axes and its
    origin at the joint.
    """
    at: dict[str, _Point] = {"base": (0, 0, 0)} | {joint[0]: joint[2] for joint in joints}

    def between(link: str, point: _Point) -> Array:
        return translation(*np.subtract(point, at[link]))

    return Description(
        name,
        tuple(
            Joint(joint, "continuous", parent, joint, between(parent, point), np.array(_AXES[axis]))
            for joint, parent, point, axis in joints
        ),
        tuple(Frame(effector, link, between(link, point)) for effector, link, point in effectors),
        tuple(effector for effector, _, _ in effectors),
    )
