"""The arms of the benchmark, and the postures that their passages lead through.

Four are built in and have all passages. Four more are read, unchanged, from files in other
projects' wheels, which `make test-robots` fetches. These have only the passages of a stretched arm.
They include fingers, wheels, heads and a second arm, whose joints do not move the end effector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import robots_files
import supple as sp

from .singular import Singularity

ROBOTS = ("puma560", "ur5e", "panda", "iiwa14")
PUMA_SPEED = 2.0  # assumed speed limit [rad/s]; none is published
MORE = {
    "xarm6": "ManipulaPy/ManipulaPy_data/xarm/xarm6_with_gripper.urdf",
    "fetch": "jrl/urdfs/fetch/fetch.urdf",
    "so100": "mani_skill/assets/robots/so100/so100.urdf",
    "baxter": "cmeel.prefix/share/example-robot-data/robots/baxter_description/urdf/baxter.urdf",
}
SO100_SPEED = 3.0  # assumed speed limit [rad/s]; the file has none


@dataclass(frozen=True, eq=False)
class Arm:
    """A robot and the postures that its passages lead through.

    Attributes:
        robot: The robot, with position and speed limits.
        postures: Start of Newton's method for each singularity (n,) [rad].
        free: Indices of the joints that Newton's method may move for each singularity: one index
            for arms with six joints, two for arms with seven.
        travel: Displacement and rotation along a straight passage (6,) [m, rad] in world axes; its
            component along the singular direction u is removed.
        reach: Distance from shoulder to wrist of the stretched arm [m].
        rows: Number of controlled rows: 6 for poses, 3 for positions.
        pitch: Index of the joint whose axis is perpendicular to the sideways motion of a stretched
            arm.
    """

    robot: sp.Robot
    postures: dict[str, tuple[float, ...]]
    free: dict[str, tuple[int, ...]]
    travel: dict[str, tuple[float, ...]]
    reach: float
    rows: int = 6
    pitch: int = 1

    def singularity(self, posture: str) -> Singularity:
        """Return the singular configuration of a posture."""
        guess = np.array(self.postures[posture])
        return Singularity.near(self.robot, guess, self.free[posture], self.rows)


@cache
def arms() -> dict[str, Arm]:
    """Return the four arms by name."""
    free6 = {"stretched": (2,), "wrist": (4,), "shoulder": (1,)}
    puma = sp.load("puma560").description
    fast = [replace(j, max_speed=PUMA_SPEED) if j.moves else j for j in puma.joints]
    arms = [
        Arm(
            sp.Robot(replace(puma, joints=tuple(fast))),
            {
                "stretched": (0.3, -0.6, 1.6, 0.1, 1.5, 0.2),
                "wrist": (0.3, -0.8, 0.7, -0.3, 0.0, -0.5),
                "shoulder": (0.3, -1.05, 0.57, 0.1, 1.2, 0.2),
            },
            free6,
            {"wrist": (0, -0.4, 0, 0, 0, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            0.4318 + math.hypot(0.0203, 0.4318),
        ),
        Arm(
            sp.load("ur5e"),
            {
                "stretched": (0.3, -0.9, 0.0, -0.8, 1.2, 0.2),
                "wrist": (0.3, -1.2, 1.7, -2.07, 0.0, 0.2),
                "shoulder": (0.3, -2.7, 2.0, -1.0, 1.2, 0.2),
            },
            free6,
            {"wrist": (0.2, 0.06, -0.12, 1.15, 0.35, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            0.4250 + 0.3922,
        ),
        Arm(
            sp.load("panda"),
            {
                "stretched": (0.0, 0.5, 0.0, -0.47, 0.0, 2.0, 0.7),
                "wrist": (0.7, 0.0, 0.6, -1.9, 0.3, 3.3, 1.5),
                "shoulder": (0.2, 0.0, 1.6, -1.8, 0.4, 1.9, 0.7),
            },
            {"stretched": (3, 4), "wrist": (1, 5), "shoulder": (1, 2)},
            {"wrist": (0.4, 0, 0, 0, 0, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            math.hypot(0.0825, 0.316) + math.hypot(0.0825, 0.384),
        ),
        Arm(
            sp.load("iiwa14"),
            {
                "stretched": (0.2, 0.6, 0.0, 0.0, 0.3, 1.2, 0.1),
                "wrist": (0.3, 0.0, 0.6, -1.5, 1.6, 0.0, -1.4),
                "shoulder": (0.2, 0.0, 1.6, -1.2, 0.6, 0.9, 0.1),
            },
            {"stretched": (3,), "wrist": (1, 5), "shoulder": (1, 2)},
            {"wrist": (0, 0, 0.4, 0, 0, 0), "shoulder": (0.4, 0, 0, 0, 0, 0)},
            0.420 + 0.400,
        ),
    ]
    return {arm.robot.name: arm for arm in arms}


@cache
def more_arms() -> dict[str, Arm]:
    """Return the arms whose files are available, by name."""
    files = dict(robots_files.robot_files())
    robots = {}
    for name, path in MORE.items():
        if path in files:
            robot = robots_files.load(files[path]).robot
            robots[name] = sp.Robot(replace(robot.description, name=name))
    if "so100" in robots:
        slow = robots["so100"].description
        fast = [replace(j, max_speed=SO100_SPEED) if j.moves else j for j in slow.joints]
        robots["so100"] = sp.Robot(replace(slow, joints=tuple(fast)))
    if "baxter" in robots:
        robots["baxter"] = robots["baxter"].with_tips(["left_gripper"])
    return {name: stretched(robot, *STRETCHED[name]) for name, robot in robots.items()}


# The angles of a stretched arm, the joints that Newton's method may move, the reach [m], the number
# of rows, and the joint whose axis is perpendicular to the sideways motion of the arm. The arm of
# the Fetch is horizontal, so that its lift cannot move the hand along the arm.
STRETCHED: dict[str, tuple[dict[str, float], tuple[str, ...], float, int, str]] = {
    "xarm6": (
        {"joint1": 0.3, "joint2": 0.2, "joint3": -2.735, "joint4": 0.2, "joint5": 1.0},
        ("joint3",),
        0.63,
        6,
        "joint2",
    ),
    "fetch": (
        {
            "torso_lift_joint": 0.222,
            "shoulder_pan_joint": -0.416,
            "upperarm_roll_joint": 0.3,
            "forearm_roll_joint": 0.493,
            "wrist_roll_joint": 1.331,
        },
        ("elbow_flex_joint", "shoulder_lift_joint", "wrist_flex_joint"),
        0.74,
        6,
        "shoulder_lift_joint",
    ),
    "so100": (
        {"shoulder_pan": 0.3, "shoulder_lift": 0.3, "elbow_flex": -1.29, "wrist_flex": -0.1},
        ("elbow_flex", "wrist_flex", "wrist_roll"),
        0.4,
        3,
        "shoulder_lift",
    ),
    "baxter": (
        {"left_s0": 0.99, "left_s1": -0.44, "left_e1": 0.16, "left_w1": -0.84, "left_w2": 0.68},
        ("left_e1", "left_w0"),
        0.74,
        6,
        "left_s1",
    ),
}


def stretched(
    robot: sp.Robot,
    angles: dict[str, float],
    free: tuple[str, ...],
    reach: float,
    rows: int,
    at: str,
) -> Arm:
    """Return an arm that has only the posture "stretched"; joints not in `angles` are at zero."""
    names = robot.joint_names
    posture = tuple(angles.get(name, 0.0) for name in names)
    joints = tuple(names.index(name) for name in free)
    return Arm(
        robot, {"stretched": posture}, {"stretched": joints}, {}, reach, rows, names.index(at)
    )
