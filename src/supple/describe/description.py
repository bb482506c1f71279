"""What a robot is, as plain data: joints, extra frames, names. Every reader ends here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from supple.describe import _validate
from supple.describe._pose import Array
from supple.errors import DescriptionError, short_repr

Kind: TypeAlias = Literal["revolute", "continuous", "prismatic", "fixed"]
_Thing = TypeVar("_Thing")


def _identity() -> Array:
    return np.eye(4)


def _z() -> Array:
    return np.array((0.0, 0.0, 1.0))


def _frozen(value: object, shape: tuple[int, ...], what: str) -> Array:
    """A read-only float64 copy of the value, of exactly this shape."""
    array = _validate.real(value, what)
    if array.shape != shape:
        raise DescriptionError(f"{what}: expected shape {shape}, given shape {array.shape}.")
    array.flags.writeable = False
    return array


def _number(value: object, what: str) -> float:
    if type(value) is float:
        return value
    array = _validate.real(value, what, "a number")
    if array.ndim:
        raise DescriptionError(f"{what}: expected a number, given {short_repr(value)}.")
    return float(array)


def _all(kind: type[_Thing], given: object, what: str) -> tuple[_Thing, ...]:
    """The things given, each of the kind."""
    expected = f"{what}: expected a sequence of {kind.__name__}"
    if isinstance(given, str):
        raise DescriptionError(f"{expected}, given the single string {short_repr(given)}.")
    try:
        things: tuple[_Thing, ...] = tuple(given)  # type: ignore[arg-type]
    except Exception as error:  # an object's own
        raise DescriptionError(f"{expected}, given {short_repr(given)}.") from error
    for thing in things:
        if not isinstance(thing, kind):
            raise DescriptionError(f"{expected}, given {short_repr(thing)} among them.")
    return things


@dataclass(frozen=True, eq=False)
class Mimic:
    """A joint that follows another one:  q = multiplier * q_joint + offset  [rad or m]."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        joint: object = self.joint
        if not isinstance(joint, str):
            raise DescriptionError(f"mimic: expected a joint's name, given {short_repr(joint)}.")
        for key in ("multiplier", "offset"):
            number = _number(getattr(self, key), f"mimic of {short_repr(self.joint)}: {key}")
            object.__setattr__(self, key, number)


class _Remade:
    """Pickled by its values and made anew from them: arrays stay read-only."""

    def __reduce__(self) -> tuple[object, ...]:
        values = tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return (type(self), values)


@dataclass(frozen=True, eq=False)
class Joint(_Remade):
    """One joint between two links, and where it lies.

        T_parent_child(q) = origin @ motion(axis, q) @ tail

    motion turns about the axis (revolute, continuous), slides along it (prismatic) or is the
    identity (fixed). A continuous joint is a revolute one without limits.

    Attributes:
        name: unique among the joints.
        kind: "revolute", "continuous", "prismatic" or "fixed".
        parent, child: link names.
        origin: T_parent_joint, pose of the joint frame in the parent link (4, 4) [m].
        axis: direction in the joint frame (3,), made a unit vector by `Description`.
        tail: pose of the child link in the moved joint frame (4, 4) [m].
        lower, upper: position limits [rad or m]; infinite where there is none.
        max_speed: largest speed [rad/s or m/s]; infinite where none is known.
        mimic: the joint that this one follows, if any.
    """

    name: str
    kind: Kind
    parent: str
    child: str
    origin: Array = field(default_factory=_identity)
    axis: Array = field(default_factory=_z)
    tail: Array = field(default_factory=_identity)
    lower: float = -math.inf
    upper: float = math.inf
    max_speed: float = math.inf
    mimic: Mimic | None = None

    def __post_init__(self) -> None:
        what = f"joint {short_repr(self.name)}"
        for key, shape in (("origin", (4, 4)), ("axis", (3,)), ("tail", (4, 4))):
            frozen = _frozen(getattr(self, key), shape, f"{what}: {key}")
            object.__setattr__(self, key, frozen)
        for key in ("lower", "upper", "max_speed"):
            number = _number(getattr(self, key), f"{what}: {key}")
            object.__setattr__(self, key, number)
        mimic: object = self.mimic
        if not isinstance(mimic, Mimic | None):
            problem = f"expected a Mimic or None, given {short_repr(mimic)}"
            raise DescriptionError(f"{what}: mimic: {problem}.")

    @property
    def moves(self) -> bool:
        """Whether the joint has a motion at all: everything but "fixed"."""
        return self.kind != "fixed"


@dataclass(frozen=True, eq=False)
class Frame(_Remade):
    """A named frame fixed to a link: `placement` is T_link_frame (4, 4) [m]."""

    name: str
    link: str
    placement: Array = field(default_factory=_identity)

    def __post_init__(self) -> None:
        what = f"frame {short_repr(self.name)}: placement"
        object.__setattr__(self, "placement", _frozen(self.placement, (4, 4), what))


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """A kinematic tree as plain immutable data, valid by construction.

    Given joints in any order; kept depth-first from the root, children in the order given, so
    that a parent comes before its children. The coordinates q follow this order over the joints
    that move and do not mimic. Rotations are made orthonormal and axes unit to machine precision.

    Attributes:
        name: of the robot.
        joints: at least one of them moves; a mimic of a mimic is resolved to the one it follows.
        frames: extra named frames, their names distinct from the links'.
        tips: names of the default end frames (links or frames); empty means the leaf links.

    Raises:
        DescriptionError: with the name of whatever is wrong.
    """

    name: str
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...] = ()
    tips: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        joints, frames = _all(Joint, self.joints, "joints"), _all(Frame, self.frames, "frames")
        tips = _all(str, self.tips, "tips")
        _validate.check_names(self.name, joints, frames)
        joints = _validate.in_tree_order(joints)
        joints = _validate.with_resolved_mimics(_validate.with_clean_numbers(joints))
        object.__setattr__(self, "joints", joints)
        object.__setattr__(self, "frames", _validate.with_clean_placements(frames, self.links))
        object.__setattr__(self, "tips", _validate.checked_tips(tips, self.links, frames))

    def __repr__(self) -> str:
        moving = sum(joint.moves and joint.mimic is None for joint in self.joints)
        return f"Description({self.name!r}: {moving} coordinates, {len(self.links)} links)"

    @property
    def root(self) -> str:
        """The name of the link that no joint moves."""
        return self.joints[0].parent

    @property
    def links(self) -> tuple[str, ...]:
        """All link names, depth-first from the root, children in document order."""
        return (self.root, *(joint.child for joint in self.joints))
