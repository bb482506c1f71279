"""Convert joints and frames to the flat chain of the kernel (`include/supple/robot/chain.hpp`).

Each joint of a chain moves along or about the z axis of its frame. This frame may be rotated about
z by any constant angle, a phase that is added to the joint's angle. The phase is chosen such that
the constant rotation to the next joint is a twist about x, as in the Denavit-Hartenberg convention.
Unlike in that convention, origins stay where they are, so nearly parallel axes cause no numerical
problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import hypot

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple._arrays.checks import ReadOnlyArrays
from supple._core import FrameSpec, JointSpec, Motion, Placement

Matrix = NDArray[np.float64]

WORLD = -1  # the parent of a joint that is attached to the world


@dataclass(frozen=True, eq=False)
class MovingJoint:
    """A moving joint, after fixed joints have been folded into constant placements.

    The pose of the body that it carries, in the parent body, is
    placement · motion(axis, scale q + offset). A ball joint is three of them (chain.hpp).
    """

    parent: int  # index of the parent among the moving joints, or WORLD
    motion: Motion
    coordinate: int  # index of its velocity
    scale: float
    offset: float
    placement: Matrix  # (4, 4)
    axis: Matrix  # (3,)

    @property
    def prismatic(self) -> bool:
        """Whether the joint slides."""
        return self.motion == Motion.PRISMATIC

    @property
    def is_part_of_ball(self) -> bool:
        """Whether the joint is one of the three axes of a ball joint."""
        return self.motion in (Motion.BALL, Motion.BALL_AXIS)


@dataclass(frozen=True, eq=False)
class FixedFrame(ReadOnlyArrays):
    """A frame at a constant pose on the body that a joint carries (or on the world)."""

    joint: int  # index among the moving joints, or WORLD
    placement: Matrix  # (4, 4), read-only

    def __post_init__(self) -> None:
        self.placement.flags.writeable = False


_IDENTITY = np.eye(4)


@dataclass
class _Slot:
    """A joint of a chain under construction, in the kernel's frame, whose z is the joint axis.

    `rest` is the pose of the joint's body in this frame at q = 0.
    """

    parent: int
    motion: Motion
    coordinate: int
    scale: float
    offset: float
    placement: Placement
    rotation: Matrix
    position: Matrix
    rest: Matrix
    phase: tuple[float, float] = (1.0, 0.0)  # cosine, sine
    free_to_turn: bool = field(default=True)

    def turn(self, cosine: float, sine: float) -> None:
        """Rotate the kernel's frame about its z axis, without moving bodies and axes."""
        turn = _about_z(cosine, sine)
        self.rest = _inverse(turn) @ self.rest
        self.free_to_turn = False
        if self.motion == Motion.REVOLUTE:
            self.phase = (float(turn[0, 0]), float(turn[1, 0]))
        else:
            self.rotation = self.rotation @ turn[:3, :3]
            if self.placement != Placement.ROOT:
                self.placement = Placement.GENERAL

    def spec(self) -> JointSpec:
        """Return the joint in the kernel's form."""
        rotation = self.rotation.T.ravel().tolist()
        if self.placement == Placement.TWIST:
            cosine, sine = _snapped(self.rotation[2, 2], -self.rotation[1, 2])
            rotation = [cosine, sine, *[0.0] * 7]
        return JointSpec(
            parent=self.parent,
            motion=self.motion,
            placement=self.placement,
            q_index=self.coordinate,
            v_index=self.coordinate,
            scale=self.scale,
            offset=self.offset,
            phase=self.phase,
            rotation=rotation,
            position=self.position.tolist(),
        )


def chain(
    joints: Sequence[MovingJoint],
    frames: Sequence[FixedFrame],
    *,
    nv: int,
    stack: bool,
    axes: int | FixedFrame,
    rows: Sequence[int],
) -> _core.Chain:
    """Return the kernel's chain for some frames of a tree.

    Args:
        joints: All moving joints, parents before children.
        frames: The frames whose kinematics are computed.
        nv: Length of a velocity.
        stack: Whether results get an axis for the frames.
        axes: `AXES_WORLD`, `AXES_BODY` or `AXES_SPATIAL` of `_core`, or the frame in whose axes
            twists are expressed.
        rows: Rows of the stacked Jacobian whose singular values are computed.
    """
    extra = [] if isinstance(axes, int) else [axes]
    joint_specs, frame_specs = chain_specs(joints, [*frames, *extra])
    return _core.Chain(
        nv=nv,
        balls=balls(joints),
        joints=joint_specs,
        frames=frame_specs,
        outputs=len(frames),
        stack=stack,
        axes=axes if isinstance(axes, int) else len(frames),
        rows=rows,
    )


def balls(joints: Sequence[MovingJoint]) -> list[int]:
    """Return the index of the first velocity of each ball joint, in ascending order."""
    return sorted(joint.coordinate for joint in joints if joint.motion == Motion.BALL)


def chain_specs(
    joints: Sequence[MovingJoint], frames: Sequence[FixedFrame]
) -> tuple[list[JointSpec], list[FrameSpec]]:
    """Return the joints that move some frames, and these frames, in the kernel's form."""
    needed = set()
    for frame in frames:
        j = frame.joint
        while j != WORLD and j not in needed:
            needed.add(j)
            j = joints[j].parent
    slots: list[_Slot] = []
    slot_of = {WORLD: WORLD}
    for j in sorted(needed):
        slot_of[j] = len(slots)
        slots.append(_slot(joints[j], slot_of[joints[j].parent], slots))
    # Specs are made after all slots, because a child may rotate the frame of its parent.
    return [slot.spec() for slot in slots], [
        _frame_spec(frame, slot_of[frame.joint], slots) for frame in frames
    ]


def _frame_spec(frame: FixedFrame, slot: int, slots: Sequence[_Slot]) -> FrameSpec:
    pose = frame.placement if slot == WORLD else slots[slot].rest @ frame.placement
    return FrameSpec(
        joint=slot, rotation=pose[:3, :3].T.ravel().tolist(), position=pose[:3, 3].tolist()
    )


def _slot(joint: MovingJoint, parent: int, slots: Sequence[_Slot]) -> _Slot:
    """Return the slot of a joint; turn the parent's frame if it is still free to turn about z.

    The parent's frame is turned such that the constant rotation to this joint is a twist about x.
    """
    if joint.is_part_of_ball:
        return _ball_slot(joint, parent, slots)
    along_z = _IDENTITY.copy()
    along_z[:3, :3] = z_onto(joint.axis)
    before = _IDENTITY if parent == WORLD else slots[parent].rest
    at = before @ joint.placement @ along_z
    slot = _Slot(
        parent=parent,
        motion=joint.motion,
        coordinate=joint.coordinate,
        scale=joint.scale,
        offset=joint.offset,
        placement=Placement.ROOT if parent == WORLD else Placement.GENERAL,
        rotation=at[:3, :3],
        position=at[:3, 3],
        rest=_inverse(along_z),
    )
    if parent == WORLD or not slots[parent].free_to_turn:
        return slot

    # R = Rz(phi) Rx(alpha) Rz(psi): phi becomes part of the parent's phase and psi of this joint's
    # phase, and the twist alpha remains.
    x, y = slot.rotation[0, 2], -slot.rotation[1, 2]
    length = hypot(x, y)
    cosine, sine = (y / length, x / length) if length > 1e-15 else (1.0, 0.0)
    if cosine < 0.0:  # (phi + π, -alpha, psi + π) is the same R: take the smaller |phi|
        cosine, sine = -cosine, -sine
    slots[parent].turn(cosine, sine)
    back = _about_z(cosine, -sine)
    rotation = back[:3, :3] @ slot.rotation
    slot.position = back[:3, :3] @ slot.position
    psi = _about_z(rotation[0, 0], -rotation[0, 1])
    slot.placement = Placement.TWIST
    slot.rotation = rotation @ psi[:3, :3].T
    slot.rest = psi @ slot.rest
    return slot


def _ball_slot(joint: MovingJoint, parent: int, slots: Sequence[_Slot]) -> _Slot:
    """Return the slot of one axis of a ball joint; the last slot has the frame of the body."""
    at = np.eye(4)
    if joint.motion == Motion.BALL_AXIS:
        at[:3, :3] = np.roll(np.eye(3), 1, axis=0)  # x, y, z become y, z, x
    elif parent == WORLD:
        at = joint.placement
    else:
        at = slots[parent].rest @ joint.placement
        slots[parent].free_to_turn = False
    return _Slot(
        parent=parent,
        motion=joint.motion,
        coordinate=joint.coordinate,
        scale=1.0,
        offset=0.0,
        placement=Placement.ROOT if parent == WORLD else Placement.GENERAL,
        rotation=at[:3, :3],
        position=at[:3, 3],
        rest=np.eye(4),
        free_to_turn=False,
    )


def _snapped(cosine: float, sine: float) -> tuple[float, float]:
    """Return a unit vector; if it is a coordinate axis up to rounding, return the exact axis."""
    length = hypot(cosine, sine)
    cosine, sine = cosine / length, sine / length
    few = 4 * np.finfo(float).eps
    if abs(cosine) < few:
        return 0.0, 1.0 if sine > 0 else -1.0
    if abs(sine) < few:
        return (1.0 if cosine > 0 else -1.0), 0.0
    return float(cosine), float(sine)


def _about_z(cosine: float, sine: float) -> Matrix:
    length = hypot(cosine, sine)
    c, s = cosine / length, sine / length
    return np.array(
        [[c, -s, 0.0, 0.0], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )


def _inverse(pose: Matrix) -> Matrix:
    inverse = _IDENTITY.copy()
    inverse[:3, :3] = pose[:3, :3].T
    inverse[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return inverse


def z_onto(axis: Matrix) -> Matrix:
    """Return a rotation (3, 3) that maps z to a unit vector; exact for the coordinate axes."""
    x, y, z = (float(c) for c in axis)
    if z < -0.5:  # near -z the formula below is ill conditioned: rotate by π about x first
        flip = np.diag([1.0, -1.0, -1.0])
        return flip @ z_onto(flip @ axis)
    k = 1.0 / (1.0 + z)
    return np.array(
        [[1.0 - k * x * x, -k * x * y, x], [-k * x * y, 1.0 - k * y * y, y], [-x, -y, z]]
    )
