"""SRDF files: groups of joints, and pairs of links that are not checked for collisions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias
from xml.etree.ElementTree import Element

from supple.describe._source import Budget, PathOrText, Source, read_source
from supple.describe._validate import check_unique
from supple.describe.joint import Joint, PickledByFields
from supple.errors import DescriptionError, join_names, short_repr, warn

_MAX_ELEMENTS, _MAX_DEPTH, _MAX_GROUPS = 200_000, 100, 1_000

Base: TypeAlias = Literal["planar", "floating"]
States: TypeAlias = Mapping[str, Mapping[str, tuple[float, ...]]]


@dataclass(frozen=True, eq=False)
class Group(PickledByFields):
    """Some joints of a robot, with end effectors and named states.

    Attributes:
        name: Name of the group.
        joints: Names of the joints of the group that are neither fixed, mimic nor passive, in the
            order of the robot.
        tips: Names of the group's end effectors.
        states: Positions of joints [rad or m], by name of the state and of the joint: a tuple of
            one number, or of several as in a configuration. A moving base has the name "base" in
            place of the name of a joint.
        base: "planar" or "floating" if the group contains a virtual joint of that kind, which lets
            the root link move in the world.
        mount: Link that carries the group, if the group is an end effector of another group.
    """

    name: str
    joints: tuple[str, ...]
    tips: tuple[str, ...]
    states: States = field(default_factory=dict)
    base: Base | None = None
    mount: str | None = None

    def __post_init__(self) -> None:
        held = {name: MappingProxyType(dict(each)) for name, each in self.states.items()}
        object.__setattr__(self, "states", MappingProxyType(held))

    def __reduce__(self) -> tuple[object, ...]:
        states = {name: dict(each) for name, each in self.states.items()}
        return (Group, (self.name, self.joints, self.tips, states, self.base, self.mount))


class Semantics(NamedTuple):
    """The contents of an SRDF file: groups, and pairs of links not checked for collisions."""

    groups: tuple[Group, ...]
    excluded: tuple[tuple[str, str], ...]


def read_srdf(source: PathOrText) -> Source:
    """Return the elements of an SRDF file or text."""
    return read_source(source, Budget(_MAX_ELEMENTS, _MAX_DEPTH), root="robot")


def semantics(source: PathOrText, robot: str, joints: Sequence[Joint]) -> Semantics:
    """Return the groups of an SRDF file, and the pairs of links not checked for collisions.

    Args:
        source: Path of the file, or its text.
        robot: Name of the robot, for error messages.
        joints: The robot's joints, in their order.

    Raises:
        DescriptionError: The file cannot be read, a group contains itself, or a state has values
            that are not finite numbers.
    """
    file = read_srdf(source)
    links = list(dict.fromkeys(link for joint in joints for link in (joint.parent, joint.child)))
    try:
        reader = _Reader(file.root, joints)
        groups = tuple(reader.group(name) for name in reader.elements)
        pairs = excluded_pairs(file.root, links, robot)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error
    if reader.unknown:
        what = f"{file.label}: names that the robot {robot!r} does not have are ignored"
        warn(f"{what}: {join_names(reader.unknown)}")
    return Semantics(groups, pairs)


def excluded_pairs(root: Element, links: Sequence[str], robot: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of links that the root element of an SRDF file excludes from checks."""
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for each in root.findall("disable_default_collisions"):
        link = each.get("link", "")
        pairs |= {frozenset((link, other)): (link, other) for other in links if other != link}
    for tag in ("disable_collisions", "enable_collisions"):
        for each in root.findall(tag):
            one, other = each.get("link1", ""), each.get("link2", "")
            if not one or not other:
                raise DescriptionError(f"<{tag}> needs link1 and link2.")
            if tag == "disable_collisions":
                pairs[frozenset((one, other))] = (one, other)
            else:
                pairs.pop(frozenset((one, other)), None)
    known = tuple(pair for pair in pairs.values() if set(pair) <= set(links))
    if pairs and not known:
        named = join_names(sorted({name for pair in pairs.values() for name in pair}))
        raise DescriptionError(
            f"names no two links of {robot!r}; given: {named}; available: {join_names(links)}."
        )
    return known


class _Reader:
    """The groups of an SRDF file; `unknown` collects names that the robot does not have."""

    def __init__(self, root: Element, joints: Sequence[Joint]) -> None:
        self.root = root
        self.joints = {joint.name: joint for joint in joints}
        self.above = {joint.child: joint for joint in joints}
        self.unknown: dict[str, None] = {}
        self.passive = {each.get("name", "") for each in root.findall("passive_joint")}
        self.virtual = {each.get("name", ""): each for each in root.findall("virtual_joint")}
        found = [each for each in root.findall("group") if len(each)]
        check_unique("group", [each.get("name", "") for each in found])
        if len(found) > _MAX_GROUPS:
            raise DescriptionError(f"has {len(found)} groups; at most {_MAX_GROUPS} are allowed.")
        self.elements = {each.get("name", ""): each for each in found}
        self._found: dict[str, dict[str, None]] = {}
        self._named: dict[str, tuple[str, ...]] = {}

    def group(self, name: str) -> Group:
        """Return a group by its name."""
        members = self._members(name, ())
        moving = [
            joint.name
            for joint in self.joints.values()
            if joint.name in members and joint.moves and joint.mimic is None
        ]
        virtual = [each for each in members if each in self.virtual and each not in self.passive]
        bases = [self.virtual[each].get("type") for each in virtual]
        kinds: tuple[Base, ...] = ("planar", "floating")
        return Group(
            name,
            tuple(each for each in moving if each not in self.passive),
            self._tips(name, members),
            dict(self._states(name)),
            next((kind for kind in kinds if kind in bases), None),
            self._mount(name, members),
        )

    def _members(self, name: str, inside: tuple[str, ...]) -> dict[str, None]:
        """Return the names of all joints of a group, fixed and virtual ones included."""
        if name in inside:
            circle = " -> ".join(short_repr(each) for each in (*inside, name))
            raise DescriptionError(f"the groups contain each other in a cycle: {circle}.")
        if name not in self.elements:
            self.unknown[name] = None
            return {}
        if name in self._found:
            return self._found[name]
        members: dict[str, None] = {}
        for part in self.elements[name]:
            if part.tag == "group":
                members |= self._members(part.get("name", ""), (*inside, name))
            elif part.tag == "joint":
                members |= self._known([part.get("name", "")])
            elif part.tag == "link":
                members |= self._into(part.get("name", ""))
            elif part.tag == "chain":
                members |= self._chain(part.get("base_link", ""), part.get("tip_link", ""))
        self._found[name] = members
        return members

    def _known(self, names: Iterable[str]) -> dict[str, None]:
        """Return the names that are names of joints of the robot."""
        found: dict[str, None] = {}
        for name in names:
            at = found if name in self.joints or name in self.virtual else self.unknown
            at[name] = None
        return found

    def _into(self, link: str) -> dict[str, None]:
        """Return the name of the joint that carries a link; None for the root."""
        if link in self.above:
            return {self.above[link].name: None}
        if not any(joint.parent == link for joint in self.joints.values()):
            self.unknown[link] = None
        return {}

    def _chain(self, base: str, tip: str) -> dict[str, None]:
        """Return the joints between two links, through the link that carries both."""
        for link in (base, tip):
            self._into(link)
        up, down = ([joint.name for joint in self._carriers(link)] for link in (base, tip))
        if base in self.unknown or tip in self.unknown:
            return {}
        shared = set(up) & set(down)
        return dict.fromkeys(name for name in (*up, *reversed(down)) if name not in shared)

    def _carriers(self, link: str) -> Iterator[Joint]:
        """Yield the joints from a link up to the root."""
        while link in self.above:
            yield self.above[link]
            link = self.above[link].parent

    def _mount(self, name: str, members: Iterable[str]) -> str | None:
        """Return the link outside a group that carries it as an end effector, if any."""
        links = self._links(members)
        mounts = [
            each.get("parent_link", "")
            for each in self.root.findall("end_effector")
            if each.get("group") == name
        ]
        return next((link for link in mounts if link not in links), None)

    def _links(self, members: Iterable[str]) -> dict[str, None]:
        return dict.fromkeys(self.joints[each].child for each in members if each in self.joints)

    def _tips(self, name: str, members: Iterable[str]) -> tuple[str, ...]:
        """Return the end effectors of a group.

        End effectors are the parent links of <end_effector> elements inside the group; without any,
        the ends of its chains and subgroups; without any, its links that carry no other link of the
        group.
        """
        if name in self._named:
            return self._named[name]
        links = self._links(members)
        named = [
            each.get("parent_link", "")
            for each in self.root.findall("end_effector")
            if name in (each.get("parent_group"), each.get("group"))
        ]
        named = [link for link in named if link in links]
        if not named:
            for part in self.elements.get(name, ()):
                if part.tag == "chain" and part.get("tip_link", "") in links:
                    named.append(part.get("tip_link", ""))
                elif part.tag == "group":
                    inner = part.get("name", "")
                    named += self._tips(inner, self._members(inner, (name,)))
        if not named:
            carrying: set[str] = set()
            for link in links:
                for joint in self._carriers(link):
                    if joint.parent in carrying:
                        break
                    carrying.add(joint.parent)
            named = [link for link in links if link not in carrying]
        self._named[name] = tuple(dict.fromkeys(named))
        return self._named[name]

    def _states(self, group: str) -> Iterator[tuple[str, dict[str, tuple[float, ...]]]]:
        """Yield the names and joint positions of the states of a group."""
        for each in self.root.findall("group_state"):
            if each.get("group") != group:
                continue
            state = each.get("name", "")
            values: dict[str, tuple[float, ...]] = {}
            for joint in each.findall("joint"):
                name = joint.get("name", "")
                numbers = _numbers(joint, f"group state {short_repr(state)}")
                if name in self.virtual:
                    values["base"] = _as_positions(numbers)
                elif self._known([name]):
                    values[name] = _as_positions(numbers)
            yield state, values


def _numbers(joint: Element, what: str) -> tuple[float, ...]:
    text = joint.get("value", "")
    try:
        numbers = tuple(float(word) for word in text.split())
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        name = short_repr(joint.get("name"))
        raise DescriptionError(f"{what}: joint {name}: expected numbers, given {short_repr(text)}.")
    return numbers


def _as_positions(numbers: tuple[float, ...]) -> tuple[float, ...]:
    """Return positions in the order of a configuration: SRDF files have quaternions x, y, z, w."""
    quaternion = {4: 0, 7: 3}.get(len(numbers))
    if quaternion is None:
        return numbers
    x, y, z, w = numbers[quaternion:]
    return (*numbers[:quaternion], w, x, y, z)
