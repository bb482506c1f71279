"""URDF files -> Description."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, get_args
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from supple.describe._source import PathOrText, read_source
from supple.describe._validate import refuse_duplicates, refuse_roots
from supple.describe._weld import names_to_weld, welded
from supple.describe.description import Description, Joint, Kind, Mimic
from supple.errors import DescriptionError, listed, shown, unknown

_MAX_DEPTH = 100
_WELDABLE = ("floating", "planar")
_TYPES = (*get_args(Kind), *_WELDABLE)

# The parts of a joint that make its kinematics: attribute -> how many numbers it holds (0: a name).
_PARTS: dict[str, dict[str, int]] = {
    "parent": {"link": 0},
    "child": {"link": 0},
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "limit": {"lower": 1, "upper": 1, "velocity": 1},
    "mimic": {"joint": 0, "multiplier": 1, "offset": 1},
}


def urdf(source: PathOrText, *, fixed: str | Iterable[str] = ()) -> Description:
    """A robot from a URDF file, or from a URDF text (a string that starts with "<").

    Only the kinematics are read: meshes, masses and colours need not exist nor be right.

    - A missing <axis> is x, as the format says.
    - A revolute or prismatic joint without <limit>, or whose <limit> has neither lower nor
      upper, is taken as unlimited (the format asks for them, many files lack them); if only one
      of the two is missing it is 0, as the format says.
    - velocity="0", or no velocity, means that no speed limit is known.
    - The limits of a continuous joint are ignored.
    - floating and planar joints are refused unless they are named in `fixed`.

    Args:
        source: a path or the text itself; at most 16 MB, no document type, no xacro.
        fixed: names of joints to weld at their zero; what mimics them stands still too.

    Raises:
        DescriptionError: a file that cannot be read, or a robot that is not a tree.
        UnknownNameError: a name in `fixed` that no joint has.
    """
    file = read_source(source, root="robot", max_depth=_MAX_DEPTH)
    try:
        skeleton = _skeleton(file.root)
        elements = skeleton.findall("joint")
        weld = names_to_weld(fixed, [element.attrib["name"] for element in elements])
        _check_types(elements, weld)
        joints = welded([_joint(item) for item in _parsed(skeleton)], dict.fromkeys(weld, 0.0))
        name = file.root.get("name") or (file.path.stem if file.path else "robot")
        return Description(name, joints)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error


def _skeleton(root: Element) -> Element:
    """The joints with nothing but what their kinematics need, every part checked."""
    skeleton = Element("robot", name="robot")
    links = [_name(element, "link") for element in root.findall("link")]
    refuse_duplicates("link", links)

    known = set(links)
    unconnected = dict.fromkeys(links)
    for element in root.findall("joint"):
        joint = _checked_joint(element)
        skeleton.append(joint)
        for tag in ("parent", "child"):
            link = joint.find(tag).attrib["link"]  # type: ignore[union-attr]
            if link not in known:
                what = f"joint {shown(joint.attrib['name'])}: <{tag}>"
                raise DescriptionError(f"{what} names an {unknown('link', link, links)}")
            unconnected.pop(link, None)
    if unconnected and len(links) > 1:
        connected = [link for link in links if link not in unconnected]
        refuse_roots([*connected[:1], *unconnected])
    return skeleton


def _name(element: Element, tag: str) -> str:
    name = element.get("name")
    if not name:
        raise DescriptionError(f"a <{tag}> element has no name.")
    return name


def _checked_joint(element: Element) -> Element:
    name = _name(element, "joint")
    what = f"joint {shown(name)}"
    joint = Element("joint", name=name, type=element.get("type", ""))
    for tag, attributes in _PARTS.items():
        parts = element.findall(tag)
        if len(parts) > 1:
            raise DescriptionError(f"{what} has {len(parts)} <{tag}> elements; expected one.")
        if not parts and tag in ("parent", "child"):
            raise DescriptionError(f"{what} has no <{tag}> element; expected one, with a link.")
        for part in parts:
            kept = {key: part.attrib[key] for key in attributes if key in part.attrib}
            for key, count in attributes.items():
                _check_attribute(f"{what}: <{tag}> {key}", kept.get(key), count)
            SubElement(joint, tag, kept)
    return joint


def _check_attribute(what: str, value: str | None, count: int) -> None:
    """A name must be there; numbers may be missing, but not be wrong."""
    if count == 0:
        if not value:
            raise DescriptionError(f"{what} is missing; expected a name.")
    elif value is not None:
        try:
            numbers = [float(word) for word in value.split()]
        except ValueError:
            numbers = []
        if len(numbers) != count:
            expected = f"expected {count} number{'s' if count > 1 else ''}, given {shown(value)}"
            hint = "; expand the file with xacro first" if "${" in value else ""
            raise DescriptionError(f"{what}: {expected}{hint}.")


def _check_types(elements: Iterable[Element], weld: frozenset[str]) -> None:
    for element in elements:
        name, kind = element.attrib["name"], element.attrib["type"]
        if kind not in _TYPES:
            problem = f"unknown type {shown(kind)}; there is: {listed(_TYPES)}."
            raise DescriptionError(f"joint {shown(name)}: {problem}")
        if kind in _WELDABLE and name not in weld:
            raise DescriptionError(
                f"joint {shown(name)} is {kind}, which is more than one coordinate; "
                f"weld it with fixed=[{shown(name)}]."
            )


def _parsed(skeleton: Element) -> list[Any]:
    """The joints as yourdfpy reads them."""
    import yourdfpy  # heavy: only when a URDF is read

    with _quiet("yourdfpy"), np.errstate(all="ignore"):
        try:
            model = yourdfpy.URDF.load(
                io.BytesIO(tostring(skeleton)), build_scene_graph=False, load_meshes=False
            )
        except Exception as error:
            raise DescriptionError(f"yourdfpy cannot parse it: {error}.") from error
    return list(model.robot.joints)


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Whatever a parser logs becomes an error here or does not matter."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def _joint(item: Any) -> Joint:
    """One joint of yourdfpy as ours; floating and planar ones are about to be welded."""
    lower, upper, speed = -math.inf, math.inf, math.inf
    if item.limit is not None:
        if item.type != "continuous" and (item.limit.lower, item.limit.upper) != (None, None):
            lower = item.limit.lower or 0.0
            upper = item.limit.upper or 0.0
        speed = item.limit.velocity or math.inf
    follows = item.mimic is not None and item.type != "fixed"
    mimic = Mimic(item.mimic.joint, item.mimic.multiplier, item.mimic.offset) if follows else None
    return Joint(
        name=item.name,
        kind="fixed" if item.type in _WELDABLE else item.type,
        parent=item.parent,
        child=item.child,
        origin=np.eye(4) if item.origin is None else item.origin,
        axis=item.axis,
        lower=lower,
        upper=upper,
        max_speed=speed,
        mimic=mimic,
    )
