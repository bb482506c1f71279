"""The robots of the benchmark as URDF files with only kinematics and limits, for all libraries."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measure
import supple as sp
from supple.describe import Description

Array = NDArray[np.float64]

BASE, TOOL = "base", "tool"
BAXTER = "cmeel.prefix/share/example-robot-data/robots/baxter_description/urdf/baxter.urdf"
G1 = "frax/assets/unitree_g1/g1_29dof_rev_1_0.urdf"
FEET_AND_HANDS = (
    "left_ankle_roll_link",
    "right_ankle_roll_link",
    "left_wrist_yaw_link",
    "right_wrist_yaw_link",
)


@dataclass(frozen=True)
class Arm:
    """A robot of the benchmark.

    Attributes:
        title: Name in the tables.
        urdf: Text of the URDF file.
        frames: Target frames: one for a chain, one or more for a tree.
        transforms: Constant transforms (n + 1, 4, 4) [m] of a chain whose joints rotate about z:
            T(q) = T_0 Rz(q_1) T_1 ... Rz(q_n) T_n; empty (0, 4, 4) for other robots.
        axis: Whether targets consist of a position and the direction of z (for arms with fewer than
            six joints).
    """

    title: str
    urdf: str
    frames: tuple[str, ...]
    transforms: Array
    axis: bool = False


def arms() -> dict[str, Arm]:
    """Return the arms of the benchmark by their short names."""
    baxter = sp.urdf(measure.FILES / BAXTER)
    return {
        "panda": chain("Panda", sp.load("panda")),
        "ur5e": chain("UR5e", sp.load("ur5e")),
        "iiwa14": chain("iiwa14", sp.load("iiwa14")),
        "puma560": chain("PUMA 560", sp.load("puma560")),
        "baxter": chain("Baxter, right arm", baxter, "right_gripper"),
        "youbot": chain("youBot, position and axis", sp.load("youbot"), axis=True),
    }


def humanoid() -> Arm:
    """Return a Unitree G1 with 29 joints, whose feet and hands have targets."""
    text = bare(measure.FILES / G1)
    return Arm("G1, feet and hands", text, FEET_AND_HANDS, np.zeros((0, 4, 4)))


def chain(title: str, robot: sp.Robot, tip: str | None = None, *, axis: bool = False) -> Arm:
    """Return the chain of a robot from the root to a frame, as an arm of the benchmark."""
    transforms, limits = serial(robot.description, tip or robot.tips[0])
    root = ET.Element("robot", name=title)
    for k, T in enumerate(transforms):
        last = k == len(limits)
        joint = ET.SubElement(root, "joint", name=f"joint{k + 1}")
        joint.set("type", "fixed" if last else "revolute")
        ET.SubElement(joint, "parent", link=f"link{k}" if k else BASE)
        ET.SubElement(joint, "child", link=TOOL if last else f"link{k + 1}")
        ET.SubElement(joint, "origin", xyz=numbers(T[:3, 3]), rpy=numbers(roll_pitch_yaw(T)))
        if not last:
            lower, upper = (repr(float(limit)) for limit in limits[k])
            ET.SubElement(joint, "axis", xyz="0 0 1")
            ET.SubElement(joint, "limit", lower=lower, upper=upper, effort="100", velocity="3")
    ET.SubElement(root, "link", name=BASE)
    for name in (*(f"link{k + 1}" for k in range(len(limits))), TOOL):
        inertial = ET.SubElement(ET.SubElement(root, "link", name=name), "inertial")
        ET.SubElement(inertial, "mass", value="1")  # required by Klampt
        ET.SubElement(inertial, "inertia", ixx="1", iyy="1", izz="1", ixy="0", ixz="0", iyz="0")
    for_mujoco(root)
    text = ET.tostring(root, encoding="unicode")
    return Arm(title, text, (TOOL,), transforms, axis)


def serial(robot: Description, tip: str) -> tuple[Array, list[tuple[float, float]]]:
    """Return the `Arm.transforms` of a chain of revolute joints, and its limits [rad]."""
    placed = np.eye(4)  # pose of the tip in the current link
    for frame in robot.frames:
        if frame.name == tip:
            tip, placed = frame.link, frame.placement
    above = {joint.child: joint for joint in robot.joints}
    transforms, limits = [placed], []
    while tip in above:
        joint = above[tip]
        transforms[0] = joint.child_placement @ transforms[0]
        if joint.moves:
            Z = onto(joint.axis)
            transforms = [joint.origin @ Z, Z.T @ transforms[0], *transforms[1:]]
            limits.insert(0, (joint.lower, joint.upper))
        else:
            transforms[0] = joint.origin @ transforms[0]
        tip = joint.parent
    return np.array(transforms), limits


def onto(axis: Array) -> Array:
    """Return a rotation (4, 4) that maps z to the axis."""
    x = np.cross(np.eye(3)[np.argmin(np.abs(axis))], axis)
    x /= np.linalg.norm(x)
    if axis[2] == 1.0:
        x = np.array([1.0, 0.0, 0.0])
    Z = np.eye(4)
    Z[:3, :3] = np.stack([x, np.cross(axis, x), axis], axis=1)
    return Z


def roll_pitch_yaw(T: Array) -> Array:
    """Return the angles of a URDF origin: R = Rz(yaw) Ry(pitch) Rx(roll) [rad]."""
    R, flat = T[:3, :3], np.hypot(T[0, 0], T[1, 0])
    pitch = np.arctan2(-R[2, 0], flat)
    if flat > 1e-9:
        return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])
    return np.array([0.0, pitch, np.arctan2(-R[0, 1], R[1, 1])])


def numbers(values: Array) -> str:
    """Return numbers as text for a URDF file, with all digits."""
    return " ".join(repr(float(value)) for value in values)


def bare(path: Path) -> str:
    """Return only the kinematics of a URDF file, without meshes and masses."""
    root = ET.parse(path).getroot()
    for link in root.iter("link"):
        for tag in ("visual", "collision", "inertial"):
            for element in link.findall(tag):
                link.remove(element)
    for_mujoco(root)
    return ET.tostring(root, encoding="unicode")


def for_mujoco(root: ET.Element) -> None:
    """Change a URDF so that MuJoCo keeps links on fixed joints and finds a mass for each link."""
    for element in root.findall("mujoco"):
        root.remove(element)
    options = {"fusestatic": "false", "boundmass": "1e-3", "boundinertia": "1e-6"}
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
