"""The kinematic tree of an MJCF model: its bodies, joints and sites as MuJoCo compiles them.

Elements are visited one by one; those in a <replicate> or an attached model are visited once per
copy. A budget bounds the number of visits, and with it the time for any file. No asset is opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from supple.describe._include import Document
from supple.describe._mjcf_equality import Equalities, Equality, TreeLoop
from supple.describe._mjcf_geoms import MjcfShape
from supple.describe._mjcf_model import MjcfModel
from supple.describe._mjcf_values import MAIN, Values, merged
from supple.describe._pose import Array
from supple.describe._source import MAX_BYTES
from supple.errors import DescriptionError, short_repr, unknown_name_error

MAX_DEPTH = 400
MAX_ELEMENTS = 20_000
# Maximum number of bodies, joints, sites and frames. Reading each takes 0.1 to 0.2 ms; the largest
# of 448 public files has 264 of them.
MAX_PARTS = 4_000

_PARTS = ("body", "joint", "freejoint", "site", "frame", "replicate", "attach")
_OTHER_PARTS = ("inertial", "geom", "camera", "light", "plugin")
_DEFORMABLE = ("composite", "flexcomp")
_COORDINATES = {"free": 6, "ball": 3, "slide": 1, "hinge": 1}


@dataclass(frozen=True, eq=False)
class TreeJoint:
    """A joint: anchor and axis in its body's frame; `ref` is its position in MuJoCo's qpos0."""

    name: str
    kind: str  # a key of _COORDINATES
    anchor: Array
    axis: Array
    ref: float = 0.0
    range: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class TreeBody:
    """A body: index of its parent, pose in the parent, joints, sites by name, masses and geoms.

    The mass entry of an <inertial> is its mass, its pose, and its inertia matrix (3, 3) in the axes
    of this pose. The entry of a <geom>, whose mass would follow from its shape, is None.
    """

    name: str
    parent: int
    pose: Array
    joints: list[TreeJoint] = field(default_factory=list)
    sites: list[tuple[str, Array]] = field(default_factory=list)
    masses: list[tuple[float, Array, Array] | None] = field(default_factory=list)
    geoms: list[MjcfShape] = field(default_factory=list)
    mocap: bool = False


class Tree(NamedTuple):
    """All bodies (the world first, parents before children), couplings and loops.

    `excluded` has the pairs of names of bodies between which contacts are excluded, `ignored` the
    kinds of equalities that are not read.
    """

    bodies: list[TreeBody]
    equalities: list[Equality]
    excluded: list[tuple[str, str]]
    loops: list[TreeLoop]
    ignored: list[str]


def tree_of(document: Document) -> Tree:
    """Return the kinematic tree of a model.

    Raises:
        DescriptionError: The MJCF is invalid or has more elements than the budget allows.
    """
    walk = _Walk()
    model = MjcfModel(document)
    walk.run(_Place(model, 0, np.eye(4), MAIN, "", "", (), walk.instance(model, "", "")))
    equalities = walk.equalities()
    return Tree(
        walk.bodies, equalities.couplings, walk.excluded(), equalities.loops, equalities.ignored
    )


class _Place(NamedTuple):
    """The context of an element: its model, its body, and the prefix and suffix of its name."""

    model: MjcfModel
    body: int
    pose: Array  # pose of the surrounding frames in the body (4, 4)
    childclass: str
    prefix: str
    suffix: str
    copies: tuple[int, ...]  # index of this copy in each surrounding <replicate>
    instance: int

    def named(self, name: str) -> str:
        return f"{self.prefix}{name}{self.suffix}" if name else ""

    def within(self, element: Element) -> Iterator[tuple[Element, _Place]]:
        """Return pairs (child, place) for the children of an element, which share this place."""
        return ((child, self) for child in element)


class Instance(NamedTuple):
    """One use of a model: the main model, or one attachment of a model.

    `named` maps pairs of an element ("joint", "body", "site") and a name in the file to what each
    copy has become: the final name of a joint, or the index of a body and a pose on it.
    """

    model: MjcfModel
    prefix: str
    suffix: str
    named: dict[tuple[str, str], dict[tuple[int, ...], Any]]


class _Walk:
    """Depth-first traversal of a model's elements, which collects the bodies with their joints."""

    def __init__(self) -> None:
        self.bodies = [TreeBody("world", -1, np.eye(4))]
        self.instances: list[Instance] = []
        self.elements = 0
        self.parts = 0
        self.letters = 0

    def run(self, world: _Place) -> None:
        stack = [world.within(section) for section in reversed(world.model.world)]
        first = len(stack)
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                continue
            inside = self._visit(*found)
            if inside is not None:
                stack.append(inside)
                if len(stack) - first > MAX_DEPTH:
                    raise DescriptionError(f"nests elements more than {MAX_DEPTH} levels deep.")

    def instance(self, model: MjcfModel, prefix: str, suffix: str) -> int:
        self.instances.append(Instance(model, prefix, suffix, {}))
        return len(self.instances) - 1

    def _spend(self, *names: str, part: bool = True) -> None:
        """Count an element and the letters of its names, and check the limits."""
        self.elements += 1
        self.parts += part
        self.letters += sum(len(name) for name in names)
        if self.elements > MAX_ELEMENTS:
            raise DescriptionError(f"contains more than {MAX_ELEMENTS} elements, counting copies.")
        if self.parts > MAX_PARTS:
            kinds = "bodies, joints, sites and frames"
            raise DescriptionError(f"contains more than {MAX_PARTS} {kinds}, counting copies.")
        if self.letters > MAX_BYTES:
            limit = f"at most {MAX_BYTES / 1e6:.0f} MB"
            raise DescriptionError(
                f"contains names of {self.letters / 1e6:.0f} MB; {limit} are allowed."
            )

    def _visit(self, element: Element, place: _Place) -> Iterator[tuple[Element, _Place]] | None:
        """Read one element; return its children if they have to be visited."""
        tag = element.tag
        if tag in _OTHER_PARTS:
            self._spend(part=False)
            if tag in ("inertial", "geom"):
                self._mass(element, place)
            if tag == "geom":
                self._geom(element, place)
            return None
        if tag not in _PARTS:
            if tag in _DEFORMABLE:
                raise DescriptionError(
                    f"<{tag}> makes a deformable body, which supple does not read: remove it."
                )
            raise DescriptionError(
                f"{unknown_name_error('element', tag, (*_PARTS, *_OTHER_PARTS))}"
            )
        name = place.named(element.get("name", ""))
        self._spend(name)
        if tag in ("joint", "freejoint"):
            self._joint(element, place, name)
            return None
        if tag == "site":
            self._site(element, place, name)
            return None
        if tag == "attach":
            return self._attached(Values(element), place)
        return self._inside(Values(element), element, place, name)

    def _inside(
        self, values: Values, element: Element, place: _Place, name: str
    ) -> Iterator[tuple[Element, _Place]]:
        """Return the children of a body, a frame or a replicate."""
        childclass = values.text("childclass") or place.childclass
        place.model.of_class(childclass)
        place = place._replace(childclass=childclass)
        if element.tag == "replicate":
            return self._replicated(values, element, place)
        pose = place.pose @ values.pose(place.model.compiler)
        if element.tag == "frame":
            return place._replace(pose=pose).within(element)
        mocap = values.text("mocap") == "true"
        self.bodies.append(TreeBody(name, place.body, pose, mocap=mocap))
        if name:
            self._remember(element, place, (len(self.bodies) - 1, np.eye(4)))
        return place._replace(body=len(self.bodies) - 1, pose=np.eye(4)).within(element)

    def _replicated(
        self, values: Values, element: Element, place: _Place
    ) -> Iterator[tuple[Element, _Place]]:
        """Yield the children of a replicate for each copy, with rotated poses and new names."""
        count, compiler = values.count("count"), place.model.compiler
        offset, euler = (values.numbers(key, 3, (0, 0, 0)) for key in ("offset", "euler"))
        at = np.zeros(3)
        for i in range(count):
            T = values.rotation_by(i * euler, compiler)
            T[:3, 3] = at
            at = at + T[:3, :3] @ offset
            suffix = f"{values.text('sep')}{i:0{len(str(count))}}{place.suffix}"
            self._spend(suffix)
            copy = place._replace(pose=place.pose @ T, suffix=suffix, copies=(*place.copies, i))
            yield from copy.within(element)

    def _attached(self, values: Values, place: _Place) -> Iterator[tuple[Element, _Place]]:
        """Return the attached body, frame or world of another model, or of this one."""
        if "prefix" not in values.all:
            raise values.error("has no prefix; expected one for the attached names")
        model = place.model.attached(values.text("model"))
        prefix = place.prefix + values.text("prefix")
        self._spend(prefix)
        place = place._replace(
            model=model,
            childclass=MAIN,
            prefix=prefix,
            copies=(),
            instance=self.instance(model, prefix, place.suffix),
        )
        tag = next((tag for tag in ("body", "frame") if values.text(tag)), None)
        if tag is None:
            if not values.text("model"):
                raise values.error("names no model, body or frame; expected at least one")
            return iter([(child, place) for section in model.world for child in section])
        source, around = model.find(tag, values.text(tag))
        return iter([(source, place._replace(childclass=around))])

    def _site(self, element: Element, place: _Place, name: str) -> None:
        pose = place.model.values(element, place.childclass).pose(place.model.compiler)
        if name:
            self.bodies[place.body].sites.append((name, place.pose @ pose))
            self._remember(element, place, (place.body, place.pose @ pose))

    def _geom(self, element: Element, place: _Place) -> None:
        """Add a geom to its body; its attributes are read on first use."""
        model = place.model
        held = model.of_class(element.get("class") or place.childclass)["geom"]
        text = merged(held, element.attrib)
        geom = MjcfShape(text, place.pose, model.compiler, model.assets)
        if geom.collides:
            self.bodies[place.body].geoms.append(geom)

    def excluded(self) -> list[tuple[str, str]]:
        """Return the pairs of bodies between which contacts are excluded."""
        return [
            (f"{i.prefix}{one}{i.suffix}", f"{i.prefix}{two}{i.suffix}")
            for i in self.instances
            for element in i.model.exclusions
            for one, two in [(element.get("body1", ""), element.get("body2", ""))]
        ]

    def _mass(self, element: Element, place: _Place) -> None:
        """Add the mass entry of an element to its body; the entry is None if it cannot be read."""
        masses, compiler = self.bodies[place.body].masses, place.model.compiler
        if element.tag == "geom" or compiler.inertia_from_geoms:
            masses.append(None)
            return
        try:
            values = Values(element)
            moments = np.diag(values.numbers("diaginertia", 3, [math.nan] * 3))
            if values.text("fullinertia").strip():
                xx, yy, zz, xy, xz, yz = values.numbers("fullinertia", 6, ())
                moments = np.array(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
            mass = float(values.numbers("mass", 1, (math.nan,))[0])
            masses.append((mass, place.pose @ values.pose(compiler), moments))
        except DescriptionError:
            masses.append(None)

    def _joint(self, element: Element, place: _Place, name: str) -> None:
        """Add a joint to its body: anchor and axis in the body's frame, angles in radians."""
        body, compiler = self.bodies[place.body], place.model.compiler
        if place.body == 0:
            raise DescriptionError("the world has a <joint>; expected joints in bodies only.")
        free = element.tag == "freejoint"
        values = Values(element) if free else place.model.values(element, place.childclass)
        kind = values.keyword("type", tuple(_COORDINATES), "free" if free else "hinge")
        if kind == "free" and body.parent != 0:
            raise values.error("is a free joint of a body that is not a child of the world")
        if sum(_COORDINATES[each.kind] for each in body.joints) + _COORDINATES[kind] > 6:
            raise DescriptionError(
                f"body {short_repr(body.name)} has more than 6 degrees of freedom."
            )
        lower, upper = (float(x) for x in values.numbers("range", 2, (0, 0)))
        limited = values.keyword("limited", ("true", "false", "auto"), "auto")
        if limited == "auto" and not compiler.autolimits and lower < upper:
            raise values.error('has a range; expected limited="true" or "false" as well')
        if limited == "true" and not lower < upper and kind in ("hinge", "slide"):
            raise values.error(
                f"range: the lower limit is not below the upper one: {lower}, {upper}"
            )
        bounded = limited == "true" or (limited == "auto" and lower < upper)
        turn = compiler.angle if kind == "hinge" else float
        joint = TreeJoint(
            name=name,
            kind=kind,
            anchor=place.pose[:3, :3] @ values.numbers("pos", 3, (0, 0, 0)) + place.pose[:3, 3],
            axis=place.pose[:3, :3] @ values.numbers("axis", 3, (0, 0, 1)),
            ref=turn(float(values.numbers("ref", 1, (0,))[0])) if kind in ("hinge", "slide") else 0,
            range=(turn(lower), turn(upper)) if bounded else None,
        )
        body.joints.append(joint)
        if name:
            self._remember(element, place, name)

    def _remember(self, element: Element, place: _Place, made: object) -> None:
        """Record what an element with a name has become, for the equalities."""
        tag = "joint" if element.tag == "freejoint" else element.tag
        key = tag, element.get("name", "")
        self.instances[place.instance].named.setdefault(key, {})[place.copies] = made

    def equalities(self) -> Equalities:
        """Return the equalities of all models."""
        made = Equalities(self.instances, self.bodies)
        for instance in self.instances:
            for _ in instance.model.equalities:
                self._spend(part=False)
        made.read()
        return made
