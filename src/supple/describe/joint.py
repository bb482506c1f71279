"""The parts of a description: joints, mimics of joints, and frames fixed to links."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

import numpy as np

from supple.describe._numbers import described_numbers
from supple.describe._pose import Array
from supple.errors import DescriptionError, short_repr

Kind: TypeAlias = Literal[
    "revolute", "continuous", "prismatic", "screw", "ball", "planar", "floating", "fixed"
]
# Velocities of joints with several degrees of freedom: translations, and rotations about axes.
VELOCITIES: dict[str, tuple[str, ...]] = {
    "ball": ("rx", "ry", "rz"),
    "planar": ("x", "y", "rz"),
    "floating": ("x", "y", "z", "rx", "ry", "rz"),
}
# Positions of these joints: a ball joint has a unit quaternion.
POSITIONS: dict[str, tuple[str, ...]] = {
    "ball": ("qw", "qx", "qy", "qz"),
    "planar": ("x", "y", "rz"),
    "floating": ("x", "y", "z", "qw", "qx", "qy", "qz"),
}


def _identity() -> Array:
    return np.eye(4)


def _z_axis() -> Array:
    return np.array((0.0, 0.0, 1.0))


def read_only(value: object, shape: tuple[int, ...], what: str) -> Array:
    """Return a read-only float64 copy of a value after checking its shape."""
    array = described_numbers(value, what)
    if array.shape != shape:
        raise DescriptionError(f"{what}: expected shape {shape}, given shape {array.shape}.")
    array.flags.writeable = False
    return array


def described_number(value: object, what: str) -> float:
    """Return a value as a float after checking that it is a single number."""
    if type(value) is float:
        return value
    array = described_numbers(value, what, "a number")
    if array.ndim:
        raise DescriptionError(f"{what}: expected a number, given {short_repr(value)}.")
    return float(array)


@dataclass(frozen=True, eq=False)
class Mimic:
    """The law by which a joint follows another one:  q = multiplier * q_joint + offset  [rad or m].

    Attributes:
        joint: Name of the joint to follow.
        multiplier: Ratio of the two joint positions.
        offset: Position of the following joint if the followed joint is at zero [rad or m].
    """

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        joint: object = self.joint
        if not isinstance(joint, str):
            raise DescriptionError(f"mimic: expected a joint's name, given {short_repr(joint)}.")
        for key in ("multiplier", "offset"):
            number = described_number(
                getattr(self, key), f"mimic of {short_repr(self.joint)}: {key}"
            )
            object.__setattr__(self, key, number)


class PickledByFields:
    """Base of dataclasses that are rebuilt when unpickled, so that their arrays stay read-only."""

    def __reduce__(self) -> tuple[object, ...]:
        values = tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return (type(self), values)


@dataclass(frozen=True, eq=False)
class Joint(PickledByFields):
    """A joint between two links.

        T_parent_child(q) = origin @ motion(axis, q) @ child_placement

    `motion` rotates about the axis (revolute, continuous), translates along it (prismatic), does
    both in a fixed ratio (screw) or is the identity (fixed). A continuous joint is a revolute joint
    without limits. The position of a screw joint is its angle.

    Three kinds have several degrees of freedom, and no limits. A ball joint rotates by a unit
    quaternion (w, x, y, z); its velocity is the angular velocity in the axes of the moved joint
    frame. A planar joint has positions (x, y, angle): it translates perpendicular to the axis, then
    rotates about it. A floating joint has positions (x, y, z, and a unit quaternion); its velocity
    is the linear velocity in the axes of the joint frame, then the angular velocity as in a ball
    joint. These are the coordinates of MuJoCo.

    Attributes:
        name: Unique name of the joint.
        kind: "revolute", "continuous", "prismatic", "screw", "ball", "planar", "floating" or
            "fixed".
        parent, child: Names of the two links.
        origin: Pose of the joint frame in the parent link, T_parent_joint (4, 4) [m].
        axis: Direction of the axis in the joint frame (3,); `Description` normalizes it.
        child_placement: Pose of the child link in the moved joint frame (4, 4) [m].
        lower, upper: Position limits [rad or m]; infinite if there are none.
        max_speed: Speed limit [rad/s or m/s]; infinite if unknown.
        mimic: Law by which the joint follows another joint, if it does.
        pitch: Translation of a screw joint along its axis per angle [m/rad], negative for a
            left-handed thread; a lead of 5 mm per turn is 0.005 / (2 π). Zero for the other kinds.
        max_acceleration: Acceleration limit [rad/s² or m/s²]; infinite if unknown.
        max_jerk: Jerk limit [rad/s³ or m/s³]; infinite if unknown.
    """

    name: str
    kind: Kind
    parent: str
    child: str
    origin: Array = field(default_factory=_identity)
    axis: Array = field(default_factory=_z_axis)
    child_placement: Array = field(default_factory=_identity)
    lower: float = -math.inf
    upper: float = math.inf
    max_speed: float = math.inf
    mimic: Mimic | None = None
    pitch: float = 0.0
    max_acceleration: float = math.inf
    max_jerk: float = math.inf

    def __post_init__(self) -> None:
        what = f"joint {short_repr(self.name)}"
        for key, shape in (("origin", (4, 4)), ("axis", (3,)), ("child_placement", (4, 4))):
            array = read_only(getattr(self, key), shape, f"{what}: {key}")
            object.__setattr__(self, key, array)
        for key in ("lower", "upper", "max_speed", "pitch", "max_acceleration", "max_jerk"):
            number = described_number(getattr(self, key), f"{what}: {key}")
            object.__setattr__(self, key, number)
        mimic: object = self.mimic
        if not isinstance(mimic, Mimic | None):
            problem = f"expected a Mimic or None, given {short_repr(mimic)}"
            raise DescriptionError(f"{what}: mimic: {problem}.")

    @property
    def moves(self) -> bool:
        """Whether the joint can move: true for every kind except "fixed"."""
        return self.kind != "fixed"

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the joint's degrees of freedom, such as "name/x" to "name/rz" if floating."""
        return self._names(VELOCITIES)

    @property
    def position_names(self) -> tuple[str, ...]:
        """Names of the joint's positions, which differ from `velocity_names` for quaternions."""
        return self._names(POSITIONS)

    def _names(self, parts: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        if not self.moves:
            return ()
        own = parts.get(self.kind)
        return (self.name,) if own is None else tuple(f"{self.name}/{part}" for part in own)


@dataclass(frozen=True, eq=False)
class Frame(PickledByFields):
    """A named frame fixed to a link.

    Attributes:
        name: Unique name, different from the names of links.
        link: Name of the link.
        placement: Pose of the frame in the link, T_link_frame (4, 4) [m].
    """

    name: str
    link: str
    placement: Array = field(default_factory=_identity)

    def __post_init__(self) -> None:
        what = f"frame {short_repr(self.name)}: placement"
        object.__setattr__(self, "placement", read_only(self.placement, (4, 4), what))
