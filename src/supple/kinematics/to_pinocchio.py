"""A robot as a model of Pinocchio: a method of `Robot`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.describe import Joint
from supple.errors import DescriptionError, MissingExtraError, short_repr
from supple.kinematics.chain import Matrix, z_onto
from supple.kinematics.to_urdf import warn_of_lost_loops

if TYPE_CHECKING:
    import pinocchio

    from supple.kinematics.robot import Robot


def to_pinocchio(self: Robot) -> pinocchio.Model:
    """Return the robot as a `pinocchio.Model`, without shapes.

    `Robot.from_pinocchio` returns a robot with the same joints, frames, limits on position and
    speed, and masses, except that the masses of links that fixed joints connect are added up. Links
    are frames of type BODY, extra frames of type OP_FRAME. Joints that follow others are mimic
    joints of Pinocchio; a screw joint that follows another one becomes two mimic joints. Loops and
    couplings are left out with a `UserWarning`. The documentation of `Robot.from_pinocchio` says
    how q differs from Pinocchio's.

    Raises:
        DescriptionError: The mass of a link is invalid.
        MissingExtraError: Pinocchio is not installed.
    """
    try:
        import pinocchio as pin
    except ModuleNotFoundError as error:
        raise MissingExtraError("pinocchio", "a model of Pinocchio") from error
    warn_of_lost_loops(self, "a model of Pinocchio")
    model = pin.Model()
    model.name = self.name
    described = self.description
    # For each link: its joint, its pose in the joint's frame, and the index of its frame.
    places: dict[str, tuple[int, Matrix, int]] = {}

    def add(link: str, joint: int, placement: Matrix, parent: int) -> None:
        index = model.addBodyFrame(link, joint, pin.SE3(placement), parent)
        places[link] = joint, placement, int(index)

    add(described.root, 0, self.base, 0)
    followed = {joint.mimic.joint for joint in described.joints if joint.mimic is not None}
    parts = [part for joint in described.joints for part in _without_screw(joint)]
    for joint in _leaders_first(parts):
        above, placement, frame = places[joint.parent]
        placement, behind = placement @ joint.origin, joint.child_placement
        if not joint.moves:
            kind = pin.FrameType.FIXED_JOINT
            at = pin.SE3(placement @ behind)
            index = model.addFrame(pin.Frame(joint.name, above, frame, at, kind))
            add(joint.child, above, placement @ behind, int(index))
            continue
        made = _joint_model(model, joint, joint.name in followed, pin)
        if made.shortname() in ("JointModelPlanar", "JointModelRUBZ"):  # these models turn about z
            turned = np.eye(4)
            turned[:3, :3] = z_onto(joint.axis)
            placement, behind = placement @ turned, turned.T @ behind
        index = model.addJoint(above, made, pin.SE3(placement), joint.name)
        _set_limits(model, joint, model.joints[index])
        add(joint.child, int(index), behind, int(model.addJointFrame(index, frame)))
    for inertia in described.inertias:
        if not math.isnan(inertia.mass):
            inertia.check()
            on, placement, _ = places[inertia.link]
            body = pin.Inertia.Zero()  # its constructor rejects moments that some files have
            body.mass, body.lever, body.inertia = inertia.mass, inertia.center, inertia.matrix
            model.appendBodyToJoint(on, body, pin.SE3(placement))
    for each in described.frames:
        on, placement, frame = places[each.link]
        at = pin.SE3(placement @ each.placement)
        model.addFrame(pin.Frame(each.name, on, frame, at, pin.FrameType.OP_FRAME))
    return model


def _without_screw(joint: Joint) -> Iterator[Joint]:
    """Yield a joint, or a slide and a rotation for a screw joint that follows another joint.

    Pinocchio crashes on screw joints that follow others.
    """
    if joint.kind != "screw" or joint.mimic is None:
        yield joint
        return
    mimic, middle = joint.mimic, f"{joint.child}/{joint.name}"
    slide = replace(
        mimic, multiplier=joint.pitch * mimic.multiplier, offset=joint.pitch * mimic.offset
    )
    start = Joint(
        f"{joint.name}/slide", "prismatic", joint.parent, middle, joint.origin, joint.axis
    )
    yield replace(start, mimic=slide)
    yield replace(joint, kind="revolute", parent=middle, origin=np.eye(4), pitch=0.0)


def _leaders_first(joints: Sequence[Joint]) -> Iterator[Joint]:
    """Yield each joint after the joints that carry it or that it follows; else keep the order."""
    links, names = {joints[0].parent}, set[str]()
    todo = list(joints)
    while todo:
        later = []
        for joint in todo:
            if joint.parent in links and (joint.mimic is None or joint.mimic.joint in names):
                links.add(joint.child)
                names.add(joint.name)
                yield joint
            else:
                later.append(joint)
        if len(later) == len(todo):
            raise DescriptionError(
                f"joint {short_repr(later[0].name)} carries the joint that it follows, which "
                "Pinocchio does not allow."
            )
        todo = later


def _joint_model(model: Any, joint: Joint, followed: bool, pin: Any) -> Any:
    """Return the joint model of one joint; a follower has the indices of its leader.

    The angle of a joint that others follow is one number, not a cosine and a sine.
    """
    axis = np.array(joint.axis)
    several = {
        "floating": pin.JointModelFreeFlyer,
        "ball": pin.JointModelSpherical,
        "planar": pin.JointModelPlanar,
    }
    if joint.kind in several:
        return several[joint.kind]()
    if joint.kind == "screw":
        made = pin.JointModelHelicalUnaligned(axis, joint.pitch)
    elif joint.kind == "prismatic":
        made = pin.JointModelPrismaticUnaligned(axis)
    elif joint.kind == "continuous" and joint.mimic is None and not followed:
        aligned = {(1, 0, 0): pin.JointModelRUBX, (0, 1, 0): pin.JointModelRUBY}
        return aligned.get(tuple(axis), pin.JointModelRUBZ)()
    else:
        made = pin.JointModelRevoluteUnaligned(axis)
    if joint.mimic is None:
        return made
    leader = model.joints[model.getJointId(joint.mimic.joint)]
    made.setIndexes(leader.id, leader.idx_q, leader.idx_v)
    return pin.JointModelMimic(pin.JointModel(made), joint.mimic.multiplier, joint.mimic.offset)


def _set_limits(model: Any, joint: Joint, made: Any) -> None:
    """Set position and speed limits of a joint of one degree of freedom."""
    if made.nv != 1:
        return
    model.velocityLimit[made.idx_v] = joint.max_speed
    if made.nq == 1:
        model.lowerPositionLimit[made.idx_q] = joint.lower
        model.upperPositionLimit[made.idx_q] = joint.upper
