"""A robot as the text of a URDF file: a method of `Robot`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from supple.describe import Description, Inertia, Joint
from supple.describe._pose import roll_pitch_yaw
from supple.describe.shapes import Box, Capsule, Cylinder, Mesh, Shape, Sphere
from supple.errors import DescriptionError, join_names, warn
from supple.kinematics.chain import Matrix

if TYPE_CHECKING:
    from supple.kinematics.robot import Robot

_UNLIMITED = 1e30  # a position limit that parsers of URDF read as a number, and supple as none


def to_urdf(self: Robot, *, shapes: bool = True) -> str:
    """Return the robot as the text of a URDF file.

    `supple.urdf` reads the same robot from it, with the same frames, masses, limits and, with
    `shapes`, shapes of links. Frozen joints are fixed joints, and extra frames, such as tools, are
    links. A base elsewhere than at the origin is a fixed joint from a link "world". End effectors
    and groups have no place in the format.

    A child link that is not at its joint is connected to it by a link "<child>/<joint>" and a fixed
    joint. An unknown speed limit is written as 0. Convex hulls, loops and couplings, which the
    format does not have, are left out with a `UserWarning`.

    Args:
        shapes: Whether shapes of links are written; meshes by the paths of their files.

    Raises:
        DescriptionError: The robot has a ball or screw joint, which the format does not have.
    """
    described = with_root(self)
    wrong = [joint.name for joint in described.joints if joint.kind in ("ball", "screw")]
    if wrong:
        raise DescriptionError(
            f"URDF has neither ball nor screw joints, given {join_names(wrong)}; freeze them, or "
            "write another format (to_mujoco, to_pinocchio)."
        )
    root = Element("robot", name=self.name)
    links = {link: SubElement(root, "link", name=link) for link in described.links}
    for inertia in described.inertias:
        if not math.isnan(inertia.mass):
            _add_inertia(links[inertia.link], inertia)
    lost = [link for link in (self.shapes if shapes else ()) if not _add_shapes(self, links[link])]
    for joint in described.joints:
        _add_joint(root, joint)
    for frame in described.frames:
        SubElement(root, "link", name=frame.name)
        fixed = Joint(f"{frame.name}/fixed", "fixed", frame.link, frame.name, frame.placement)
        _add_joint(root, fixed)
    warn_of_lost_loops(self, "URDF")
    if lost:
        what = f"{self.name}: convex hulls are left out of a URDF file, those of the links"
        warn(f"{what} {join_names(lost)}")
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def warn_of_lost_loops(robot: Robot, kind: str) -> None:
    """Warn that loops and couplings are left out of another format."""
    names = [loop.name for loop in robot.loops] + [each.follower for each in robot.couplings]
    if names:
        what = f"{robot.name}: {kind} has no loops and no couplings by polynomials; left out are"
        warn(f"{what} {join_names(names)}")


def with_root(robot: Robot) -> Description:
    """Return the description of a robot; a base away from the origin becomes a fixed joint."""
    described = robot.description
    if (robot.base == np.eye(4)).all():
        return described
    taken = {*described.links, *(frame.name for frame in described.frames)}
    names = {joint.name for joint in described.joints}
    base = Joint(unused("base", names), "fixed", unused("world", taken), described.root, robot.base)
    return replace(described, joints=(base, *described.joints))


def unused(name: str, taken: set[str]) -> str:
    """Return a name with underscores added until it is not taken."""
    while name in taken:
        name += "_"
    return name


def numbers(values: Matrix) -> str:
    """Return numbers as text that is read as the same numbers."""
    return " ".join(repr(float(value)) for value in np.ravel(values))


def _add_origin(element: Element, T: Matrix) -> None:
    rpy = np.array(roll_pitch_yaw(T[:3, :3]))
    SubElement(element, "origin", xyz=numbers(T[:3, 3]), rpy=numbers(rpy))


def _add_inertia(link: Element, inertia: Inertia) -> None:
    part = SubElement(link, "inertial")
    T = np.eye(4)
    T[:3, 3] = inertia.center
    _add_origin(part, T)
    SubElement(part, "mass", value=repr(inertia.mass))
    upper = inertia.matrix[np.triu_indices(3)].tolist()
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = {key: repr(value) for key, value in zip(keys, upper, strict=True)}
    SubElement(part, "inertia", values)


def _add_joint(root: Element, joint: Joint) -> None:
    """Add a joint, and a fixed one behind it if the child link is not at the joint."""
    placement = joint.child_placement
    child, origin, axis, behind = joint.child, joint.origin, joint.axis, None
    if not (placement == np.eye(4)).all():
        if joint.kind == "fixed":
            origin = origin @ placement
        else:
            child = f"{joint.child}/{joint.name}"
            SubElement(root, "link", name=child)
            behind = Joint(f"{joint.name}/fixed", "fixed", child, joint.child, placement)
    element = SubElement(root, "joint", name=joint.name, type=joint.kind)
    _add_origin(element, origin)
    SubElement(element, "parent", link=joint.parent)
    SubElement(element, "child", link=child)
    if joint.moves:
        SubElement(element, "axis", xyz=numbers(axis))
        limits = _limits(joint)
        if limits:
            SubElement(element, "limit", limits)
    if joint.mimic is not None:
        line = {"multiplier": repr(joint.mimic.multiplier), "offset": repr(joint.mimic.offset)}
        SubElement(element, "mimic", {"joint": joint.mimic.joint, **line})
    if behind is not None:
        _add_joint(root, behind)


def _limits(joint: Joint) -> dict[str, str]:
    """Return the attributes of <limit>, which is required for revolute and prismatic joints."""
    found = {}
    if joint.kind in ("revolute", "prismatic"):
        found["lower"], found["upper"] = (
            repr(x if math.isfinite(x) else math.copysign(_UNLIMITED, x))
            for x in (joint.lower, joint.upper)
        )
    keys = {"velocity": "max_speed", "acceleration": "max_acceleration", "jerk": "max_jerk"}
    found |= {
        key: repr(getattr(joint, name))
        for key, name in keys.items()
        if math.isfinite(getattr(joint, name))
    }
    return {**found, "effort": "0", "velocity": found.get("velocity", "0")} if found else {}


def _add_shapes(robot: Robot, link: Element) -> bool:
    """Add the shapes of a link; return whether the format has all of them."""
    complete = True
    for shape in robot.shapes[link.get("name", "")]:
        found = _geometry(shape)
        if found is None:
            complete = False
            continue
        element = SubElement(link, "collision")
        _add_origin(element, shape.pose)
        SubElement(SubElement(element, "geometry"), *found)
    return complete


def _geometry(shape: Shape) -> tuple[str, dict[str, str]] | None:
    """Return tag and attributes of a shape, or None if the format does not have it."""
    if isinstance(shape, Box):
        return "box", {"size": numbers(shape.size)}
    if isinstance(shape, Sphere):
        return "sphere", {"radius": repr(shape.radius)}
    if isinstance(shape, Cylinder | Capsule):
        tag = "cylinder" if isinstance(shape, Cylinder) else "capsule"
        return tag, {"radius": repr(shape.radius), "length": repr(shape.length)}
    if isinstance(shape, Mesh):
        return "mesh", {"filename": shape.file, "scale": numbers(shape.scale)}
    return None
