"""A kinematic tree as plain data: the result of every reader."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from supple.describe import _mimics, _validate
from supple.describe.inertia import Inertia, checked_inertias
from supple.describe.joint import Frame, Joint
from supple.describe.link_shapes import GivenShapes, LinkShapes
from supple.describe.loop import Coupling, Loop, checked_loops, resolved_couplings
from supple.describe.shapes import Shape
from supple.describe.srdf import Group
from supple.errors import DescriptionError, short_repr

_Item = TypeVar("_Item")


def _sequence_of(kind: type[_Item], given: object, what: str) -> tuple[_Item, ...]:
    """Return a sequence as a tuple after checking the type of each item."""
    expected = f"{what}: expected a sequence of {kind.__name__}"
    if isinstance(given, str):
        raise DescriptionError(f"{expected}, given the single string {short_repr(given)}.")
    try:
        items: tuple[_Item, ...] = tuple(given)  # type: ignore[arg-type]
    except Exception as error:  # raised by the object's own iterator
        raise DescriptionError(f"{expected}, given {short_repr(given)}.") from error
    for item in items:
        if not isinstance(item, kind):
            raise DescriptionError(f"{expected}, given {short_repr(item)} among them.")
    return items


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """A kinematic tree as plain immutable data, valid by construction.

    Joints may be given in any order. They are stored depth-first from the root, siblings in the
    given order, so that parents precede their children. The configuration q follows this order
    over the joints that move and do not mimic another one. Rotations are made orthonormal and
    axes unit vectors to machine precision.

    Attributes:
        name: Name of the robot.
        joints: The joints, of which at least one moves. An unknown name in a mimic is
            completed by a prefix of the follower's name if that gives the name of exactly one
            joint, with a `UserWarning`. A mimic of a mimic is replaced by a mimic of the joint that
            moves both, and the limits of this leader are narrowed so that all its followers keep
            their own limits. A follower whose position limits would leave the leader no range loses
            these limits, with a `UserWarning`.
        frames: Extra named frames, with names different from those of links.
        tips: Names of the end effectors (links or frames); all leaf links if empty. The file
            readers choose end effectors by the rules of `supple.describe.tips`.
        inertias: Masses of links, at most one entry per link; a link without one has no mass.
        shapes: Shapes of links for collision checks, by name of the link; those of files are read
            on first use.
        groups: Groups of joints, from an SRDF file.
        loops: Pairs of frames that coincide, which closes loops of links.
        couplings: Pairs of joints; the position of the follower is a polynomial in that of the
            leader. Mimic joints in a pair are replaced by the joints that they follow.

    Raises:
        DescriptionError: The tree is invalid; the message names the joint, link or frame.
    """

    name: str
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...] = ()
    tips: tuple[str, ...] = ()
    inertias: tuple[Inertia, ...] = ()
    shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=LinkShapes)
    groups: tuple[Group, ...] = ()
    loops: tuple[Loop, ...] = ()
    couplings: tuple[Coupling, ...] = ()

    def __post_init__(self) -> None:
        joints = _sequence_of(Joint, self.joints, "joints")
        frames = _sequence_of(Frame, self.frames, "frames")
        tips = _sequence_of(str, self.tips, "tips")
        inertias = _sequence_of(Inertia, self.inertias, "inertias")
        object.__setattr__(self, "groups", _sequence_of(Group, self.groups, "groups"))
        _validate.check_names(self.name, joints, frames)
        joints = _validate.in_tree_order(joints)
        joints = _mimics.with_prefixed_leaders(self.name, _validate.with_clean_numbers(joints))
        joints = _mimics.with_resolved_mimics(joints)
        joints = _mimics.with_narrowed_leaders(self.name, joints)
        object.__setattr__(self, "joints", joints)
        object.__setattr__(self, "frames", _validate.with_clean_placements(frames, self.links))
        object.__setattr__(self, "inertias", checked_inertias(inertias, self.links))
        if not isinstance(self.shapes, LinkShapes):
            object.__setattr__(self, "shapes", GivenShapes(self.shapes, self.links))
        loops = _sequence_of(Loop, self.loops, "loops")
        every = (*self.links, *(frame.name for frame in self.frames))
        object.__setattr__(self, "loops", checked_loops(loops, every) if loops else ())
        couplings = _sequence_of(Coupling, self.couplings, "couplings")
        object.__setattr__(self, "couplings", resolved_couplings(couplings, joints))
        object.__setattr__(self, "tips", _validate.checked_tips(tips, self.links, frames))

    def __repr__(self) -> str:
        dof = sum(len(joint.velocity_names) for joint in self.joints if joint.mimic is None)
        return f"Description({self.name!r}: {dof} degrees of freedom, {len(self.links)} links)"

    def _with_valid_tips(self, tips: tuple[str, ...]) -> Description:
        """Return the description with other tips, without the cost of validating it again."""
        changed = copy(self)
        object.__setattr__(changed, "tips", tips)
        return changed

    @property
    def root(self) -> str:
        """Name of the link without a parent."""
        return self.joints[0].parent

    @property
    def links(self) -> tuple[str, ...]:
        """Names of all links, depth-first from the root, siblings in the given order."""
        return (self.root, *(joint.child for joint in self.joints))

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names of the links without children."""
        parents = {joint.parent for joint in self.joints}
        return tuple(link for link in self.links if link not in parents)
