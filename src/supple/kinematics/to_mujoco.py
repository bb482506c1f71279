"""A robot as a model of MuJoCo: a method of `Robot`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from supple.describe import Description, Inertia, Joint
from supple.describe._pose import wxyz
from supple.errors import DescriptionError, MissingExtraError, join_names, warn
from supple.kinematics.chain import Matrix, z_onto
from supple.kinematics.to_urdf import numbers, unused, with_root

if TYPE_CHECKING:
    import mujoco

    from supple.kinematics.robot import Robot

_UNLIMITED = 1e30  # a position limit of MJCF that supple reads as none
# Mass [kg] and moments [kg m²] of links that move without a mass of their own: MuJoCo demands more
# than 1e-15 of each.
_MIN_INERTIA = 2e-15


def to_mujoco(self: Robot) -> mujoco.MjModel:
    """Return the robot as an `MjModel` of MuJoCo, without shapes.

    `Robot.from_mujoco` returns the same robot again. Links are bodies and extra frames are sites; a
    link "world" that is not the root gets underscores, because "world" is a body of every model.
    Joints of one degree of freedom and ball joints keep their name. A floating joint is a free
    joint if its origin is that of the world, otherwise slides "<name>/x" to "<name>/z" and a ball
    joint; a planar joint is two slides and a hinge with the names of its degrees of freedom; a
    screw joint is a hinge and a slide "<name>/slide" that follows it. qpos is q if no joint follows
    another one: followers are joints of the model, coupled by equality constraints. Loops are
    equality constraints between sites.

    The format has no limits on speed, acceleration or jerk. MuJoCo demands masses and moments above
    1e-15 and moments that satisfy the triangle inequality: links without a mass get 2e-15, and if
    moments of other links are changed, a `UserWarning` names these links.

    Raises:
        MissingExtraError: MuJoCo is not installed.
        DescriptionError: MuJoCo rejects the model.
    """
    try:
        import mujoco
    except ModuleNotFoundError as error:
        raise MissingExtraError("mujoco", "a model of MuJoCo") from error
    described = with_root(self)
    uneven = [each.link for each in described.inertias if _is_uneven(each)]
    try:
        model = mujoco.MjModel.from_xml_string(_mjcf(described, bool(uneven)))
    except ValueError as error:
        raise DescriptionError(f"MuJoCo rejects the model of {self.name}: {error}") from error
    if uneven:
        what = f"{self.name}: moments that MuJoCo rejects are changed, those of the links"
        warn(f"{what} {join_names(uneven)}")
    return model


def _is_uneven(inertia: Inertia) -> bool:
    """Return whether moments of inertia are negative or one exceeds the sum of the others."""
    if not np.isfinite(inertia.matrix).all() or not inertia.mass > 0:
        return False
    low, middle, high = np.linalg.eigvalsh((inertia.matrix + inertia.matrix.T) / 2)
    return bool(low < 0 or low + middle < high)


def _mjcf(described: Description, balance: bool) -> str:
    """Return the text of an MJCF file."""
    root = Element("mujoco", model=described.name)
    options = {"angle": "radian", "autolimits": "true", "inertiafromgeom": "false"}
    if balance:
        options["balanceinertia"] = "true"
    SubElement(root, "compiler", options)
    world = SubElement(root, "worldbody")
    equality = SubElement(root, "equality")
    masses = {each.link: each for each in described.inertias if math.isfinite(each.mass)}
    links = {described.root: world}
    if described.root != "world":
        links[described.root] = SubElement(world, "body", name=described.root)
    elif "world" in masses and masses["world"].mass > 0:
        raise DescriptionError("a link called 'world' that does not move cannot have a mass.")
    _add_inertia(links[described.root], masses.get(described.root), moves=False)
    for joint in described.joints:
        parent = links[joint.parent]
        own = joint.child if joint.child != "world" else unused("world", {*described.links})
        body = links[joint.child] = _add_body(parent, joint, own, parent is world)
        _add_inertia(body, masses.get(joint.child), moves=joint.moves)
        for name, leader, multiplier, offset in _couplings(joint):
            line = f"{offset!r} {multiplier!r} 0 0 0"
            SubElement(equality, "joint", joint1=name, joint2=leader, polycoef=line)
    for coupling in described.couplings:
        line = numbers(np.array(coupling.coefficients))
        one, two = coupling.follower, coupling.leader
        SubElement(equality, "joint", joint1=one, joint2=two, polycoef=line)
    for frame in described.frames:
        SubElement(links[frame.link], "site", {"name": frame.name, **_at(frame.placement)})
    sites = {frame.name for frame in described.frames}
    for loop in described.loops:
        ends = {f"site{k}": name for k, name in enumerate((loop.frame_a, loop.frame_b), start=1)}
        for name in {*ends.values()} - sites:  # a link gets a site of its name at its frame
            SubElement(links[name], "site", name=name)
            sites.add(name)
        kind = "connect" if loop.kind == "point" else "weld"
        SubElement(equality, kind, {"name": loop.name, **ends})
    return tostring(root, encoding="unicode")


def _at(T: Matrix) -> dict[str, str]:
    return {"pos": numbers(T[:3, 3]), "quat": numbers(wxyz(T[:3, :3]))}


def _body(parent: Element, name: str, T: Matrix) -> Element:
    return SubElement(parent, "body", {"name": name, **_at(T)})


def _add_inertia(body: Element, inertia: Inertia | None, *, moves: bool) -> None:
    """Add the inertia of a body, at least `_MIN_INERTIA`; a body that moves always gets one."""
    if body.tag == "worldbody":
        return
    mass, center, matrix = 0.0, np.zeros(3), np.zeros((3, 3))
    if inertia is not None and np.isfinite(inertia.matrix).all() and inertia.mass > 0:
        mass, center, matrix = inertia.mass, inertia.center, (inertia.matrix + inertia.matrix.T) / 2
    elif not moves:
        return
    moments, axes = np.linalg.eigh(matrix)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    SubElement(
        body,
        "inertial",
        mass=repr(max(mass, _MIN_INERTIA)),
        pos=numbers(center),
        quat=numbers(wxyz(axes)),
        diaginertia=numbers(np.maximum(moments, _MIN_INERTIA)),
    )


def _add_body(parent: Element, joint: Joint, name: str, in_world: bool) -> Element:
    """Add the body of a joint's child, with the joints of MuJoCo that move it; return it."""
    placement = joint.child_placement
    if joint.kind in ("ball", "floating") and not (placement == np.eye(4)).all():
        # The joint moves an extra body at its own frame: a quaternion in qpos is in a body's axes.
        middle = _body(parent, f"{name}/{joint.name}", joint.origin)
        _add_joints(middle, joint, np.eye(4), in_world)
        _add_inertia(middle, None, moves=True)
        return _body(middle, name, placement)
    body = _body(parent, name, joint.origin @ placement)
    _add_joints(body, joint, placement, in_world)
    return body


def _add_joints(body: Element, joint: Joint, placement: Matrix, in_world: bool) -> None:
    """Add the joints of MuJoCo for one joint of a robot, whose child is placed at `placement`."""
    R = placement[:3, :3].T
    anchor = -R @ placement[:3, 3]
    if joint.kind == "floating" and in_world and (joint.origin == np.eye(4)).all():
        SubElement(body, "freejoint", name=joint.name)
        return
    for name, kind, axis in _parts(joint):
        found = {"name": name, "type": kind, "pos": numbers(anchor)}
        if kind != "ball":
            found["axis"] = numbers(R @ axis)
        if name == joint.name and not math.isinf(min(-joint.lower, joint.upper)):
            lower, upper = (
                x if math.isfinite(x) else math.copysign(_UNLIMITED, x)
                for x in (joint.lower, joint.upper)
            )
            found["range"] = numbers(np.array((lower, max(upper, math.nextafter(lower, math.inf)))))
        SubElement(body, "joint", found)


def _parts(joint: Joint) -> Iterator[tuple[str, str, Matrix]]:
    """Yield name, type and axis, in the joint's frame, of the MuJoCo joints that form a joint."""
    if joint.kind == "planar":
        x, y, z = z_onto(joint.axis).T
        yield from zip(joint.velocity_names, ("slide", "slide", "hinge"), (x, y, z), strict=True)
    elif joint.kind == "floating":
        yield from zip(joint.velocity_names[:3], ["slide"] * 3, np.eye(3), strict=True)
        yield joint.name, "ball", joint.axis
    elif joint.kind == "ball":
        yield joint.name, "ball", joint.axis
    elif joint.moves:
        if joint.kind == "screw":
            yield f"{joint.name}/slide", "slide", joint.axis
        yield joint.name, "slide" if joint.kind == "prismatic" else "hinge", joint.axis


def _couplings(joint: Joint) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, leader, multiplier and offset of each joint of MuJoCo that follows another."""
    if joint.mimic is not None:
        yield joint.name, joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset
    if joint.kind == "screw":
        yield f"{joint.name}/slide", joint.name, joint.pitch, 0.0
