"""Descriptions from URDF files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

import numpy as np

from supple.describe._pose import Array, from_wxyz, rotation_x, rotation_y, rotation_z
from supple.describe._source import Budget, PathOrText, Source, read_file, read_source
from supple.describe._validate import check_unique, in_tree_order, raise_several_roots
from supple.describe._xacro import expanded, is_xacro
from supple.describe.description import Description
from supple.describe.inertia import Inertia
from supple.describe.joint import VELOCITIES, Joint, Kind, Mimic
from supple.describe.link_shapes import LinkShapes, urdf_shapes
from supple.describe.srdf import Semantics, semantics
from supple.describe.tips import with_tips
from supple.describe.weld import names_to_weld, welded
from supple.errors import (
    DescriptionError,
    InputError,
    join_names,
    short_repr,
    unknown_name_error,
    warn,
)

_MAX_DEPTH = 100
_MAX_ELEMENTS = 200_000
_MAX_JOINTS = 5_000
_MAX_NUMBERS = 1_000  # maximum length of an attribute with numbers [characters]
_KINDS: dict[str, Kind] = {  # by type; pybullet adds spherical joints to the format
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "floating": "floating",
    "planar": "planar",
    "spherical": "ball",
}
_UNBOUNDED = ("continuous", *VELOCITIES)  # kinds that have no position limits


def urdf(
    source: PathOrText,
    *,
    fixed: str | Iterable[str] = (),
    tips: str | Iterable[str] | None = None,
    srdf: PathOrText | None = None,
    xacro_args: Mapping[str, object] | None = None,
) -> Description:
    """Return a robot from a URDF file, or from a URDF text (a string that starts with "<").

    Kinematics and masses are read. Shapes of <collision> elements become `Robot.shapes`, which are
    read on first use; meshes need not exist before that. Visuals are ignored.

    - A joint without <axis> has the axis x, as specified by the format.
    - A revolute or prismatic joint without <limit>, or with a <limit> that has neither lower nor
      upper, has no limits (the format requires them, but many files lack them); a `UserWarning`
      names it. If only one of lower and upper is missing, the missing one is 0, as specified by the
      format.
    - velocity="0", or no velocity, means that the speed limit is unknown; the same holds for the
      acceleration, deceleration and jerk of URDF 1.2, in files of any version. The smaller one of
      acceleration and deceleration is the limit for both.
    - Position limits of continuous joints are ignored.
    - A link without <inertial> has no mass. The values of an <inertial> are checked on first use.
    - A <limit> of a floating, planar or spherical joint is ignored.
    - Limits of a mimic joint narrow those of the joint that it follows (`Description`).
    - Commas between numbers, and an element that is repeated with the same content, are accepted
      with a `UserWarning`; blank lines before the XML declaration are accepted silently.

    Args:
        source: A path, or the text itself; at most 16 MB and 5,000 joints, no document type. A file
            with the suffix .xacro is expanded (extra `xacro`); that evaluates its expressions, so
            expand only files that you trust.
        fixed: Names of joints to weld at zero; joints that mimic them are welded too.
        tips: Name or names of the end effectors (any links). By default one frame at the end of
            each branch of joints: see `supple.describe.tips`.
        srdf: Path or text of an SRDF file. Its groups become `Robot.groups`, with their end
            effectors and states; a `World` does not check the pairs of links that it disables. A
            virtual joint does not move the robot, except in groups that contain it. Names of joints
            and links that the robot does not have are ignored, with a `UserWarning`.
        xacro_args: Values of the arguments of a xacro file, by name.

    Raises:
        DescriptionError: The file cannot be read, or the robot is not a tree.
        MissingExtraError: The file is xacro, and the extra `xacro` is not installed.
        UnknownNameError: A name in `fixed` or `tips` does not exist.
    """
    budget = Budget(max_elements=_MAX_ELEMENTS, max_depth=_MAX_DEPTH)
    file = _read(source, budget, xacro_args)
    try:
        elements = _at_most(_MAX_JOINTS, file.root.findall("joint"))
        links = _at_most(_MAX_JOINTS + 1, file.root.findall("link"))
        names = [_name(element) for element in elements]
        weld = names_to_weld(fixed, names)
        sloppy: list[str] = []
        joints = [_joint(name, e, sloppy) for name, e in zip(names, elements, strict=True)]
        _check_links([_name(element) for element in links], joints)
        bodies = [e for e in links if e.find("inertial") is not None]
        known = {link for joint in joints for link in (joint.parent, joint.child)}
        masses = tuple(_inertia(_name(e), e) for e in bodies if _name(e) in known)
        still = welded(joints, dict.fromkeys(weld, 0.0))
        stem = file.path.stem.removesuffix(".urdf") if file.path else "robot"
        name = file.root.get("name") or stem
        folder = file.path.resolve().parent if file.path else None
        named = Semantics((), ()) if srdf is None else semantics(srdf, name, in_tree_order(still))
        shapes = LinkShapes(tuple(urdf_shapes(links, known)), file.label, folder, named.excluded)
        made = Description(name, still, inertias=masses, shapes=shapes, groups=named.groups)
        made = with_tips(made, tips)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error
    _warn_of_missing_limits(file.label, elements, still)
    if sloppy:
        more = f" and {len(sloppy) - 3} more" if len(sloppy) > 3 else ""
        what = f"{file.label}: accepted, but not valid URDF"
        warn(f"{what}: {'; '.join(sloppy[:3])}{more}")
    return made


def _read(source: PathOrText, budget: Budget, arguments: Mapping[str, object] | None) -> Source:
    """Read a file or text; a xacro file is expanded, and the result keeps its path."""
    if not is_xacro(source):
        if arguments is not None:
            given = f"given {short_repr(source)}"
            raise InputError(f"xacro_args needs a file with the suffix .xacro, {given}.")
        return read_source(source, budget, root="robot")
    label, path, _ = read_file(source, budget)
    try:
        text = expanded(path, arguments or {})
    except DescriptionError as error:
        raise DescriptionError(f"{label}: {error}") from error
    return replace(read_source(text, budget, root="robot"), label=label, path=path)


def urdf_joints(root: Element) -> list[Joint]:
    """Return the joints of a URDF file's root element."""
    elements = _at_most(_MAX_JOINTS, root.findall("joint"))
    return [_joint(_name(element), element, []) for element in elements]


def _warn_of_missing_limits(
    label: str, elements: Iterable[Element], joints: Iterable[Joint]
) -> None:
    """Warn of joints without position limits, although the format requires them."""
    bounded = ("revolute", "prismatic")
    moving = {each.name for each in joints if each.kind in bounded and each.mimic is None}
    stated = "limit[@lower]", "limit[@upper]"
    lacking = [_name(e) for e in elements if not any(e.find(part) is not None for part in stated)]
    names = [name for name in lacking if name in moving]
    if names:
        what = f"{label}: joints without position limits move without bound"
        warn(f"{what}: {join_names(names)}")


def _at_most(limit: int, elements: list[Element]) -> list[Element]:
    """Return elements of one kind after checking their number."""
    if len(elements) > limit:
        many = f"{len(elements)} <{elements[0].tag}> elements"
        raise DescriptionError(f"{many} are too many; at most {limit} are allowed.")
    return elements


def _name(element: Element) -> str:
    name = element.get("name")
    if not name:
        raise DescriptionError(f"a <{element.tag}> element has no name.")
    return name


def _inertia(link: str, element: Element) -> Inertia:
    """Return the inertia of a link as stated in the file; unknown (NaN) if it cannot be read."""
    try:
        part = element.find("inertial")
        if part is None:
            return Inertia.unknown(link)
        origin, mass, moments = (_Part(part, tag, []) for tag in ("origin", "mass", "inertia"))
        xx, xy, xz, yy, yz, zz = (
            moments.number(key) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        rows = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
        T = origin.pose()
        kilograms, R = mass.number("value"), T[:3, :3]
        matrix = R @ np.array(rows, dtype=np.float64) @ R.T  # None becomes NaN
        return Inertia(link, math.nan if kilograms is None else kilograms, T[:3, 3], matrix)
    except DescriptionError:
        return Inertia.unknown(link)


def _joint(name: str, element: Element, sloppy: list[str]) -> Joint:
    """Return one joint; append the names of accepted but invalid parts to `sloppy`."""
    given = element.get("type", "")
    kind = _KINDS.get(given)
    if kind is None:
        raise DescriptionError(
            f"joint {short_repr(name)}: {unknown_name_error('type', given, _KINDS)}"
        )
    tags = "origin", "limit", "mimic", "axis", "parent", "child"
    origin, limit, mimic, axis, parent, child = (_Part(element, tag, sloppy) for tag in tags)
    lower, upper = limit.number("lower"), limit.number("upper")
    if kind in _UNBOUNDED or (lower is None and upper is None):
        lower, upper = -math.inf, math.inf
    follows = mimic.there and kind != "fixed"
    if kind in VELOCITIES:  # one <limit> does not describe several degrees of freedom
        limit = _Part(Element("joint"), "limit", sloppy)
    return Joint(
        name=name,
        kind=kind,
        parent=parent.name("link"),
        child=child.name("link"),
        origin=origin.pose(),
        axis=np.array(axis.vector("xyz") or (1.0, 0.0, 0.0)),
        lower=lower or 0.0,
        upper=upper or 0.0,
        max_speed=limit.number("velocity") or math.inf,
        mimic=Mimic(mimic.name("joint"), *mimic.line()) if follows else None,
        max_acceleration=min(limit.rate("acceleration"), limit.rate("deceleration")),
        max_jerk=limit.rate("jerk"),
    )


class _Part:
    """The only child of an element with a given tag, if any, and its validated attributes."""

    def __init__(self, joint: Element, tag: str, sloppy: list[str]) -> None:
        parts = joint.findall(tag)
        self._joint, self._tag = f"joint {short_repr(joint.get('name'))}", tag
        self._what = f"{self._joint}: <{tag}>"
        self._sloppy = sloppy
        if any(part.attrib != parts[0].attrib for part in parts[1:]):
            raise DescriptionError(
                f"{self._joint} has {len(parts)} different <{tag}> elements; expected one: remove "
                "the others."
            )
        if len(parts) > 1:
            sloppy.append(f"{self._joint} has {len(parts)} equal <{tag}> elements")
        self._values = parts[0].attrib if parts else {}
        self.there = bool(parts)

    def name(self, key: str) -> str:
        if not self.there:
            raise DescriptionError(f"{self._joint} has no <{self._tag}> element; expected one.")
        name = self._values.get(key)
        if not name:
            raise DescriptionError(f"{self._what} {key} is missing; expected a name.")
        return name

    def numbers(self, key: str, count: int) -> Sequence[float]:
        """Return the numbers of an attribute, or an empty tuple if it is missing."""
        text = self._values.get(key)
        if text is None:
            return ()
        if len(text) > _MAX_NUMBERS:
            problem = f"{len(text)} characters are too many; at most {_MAX_NUMBERS} are allowed"
            raise DescriptionError(f"{self._what} {key}: {problem}, given {short_repr(text)}.")
        words = text.split()
        if "," in text and count > 1:
            words = _without_commas(words)
            self._sloppy.append(f"{self._what} {key} has commas, {short_repr(text)}")
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            numbers = []
        if "_" in text:  # Python accepts 1_0, URDF does not
            numbers = []
        if len(numbers) != count:
            expected = (
                f"expected {count} number{'s' if count > 1 else ''}, given {short_repr(text)}"
            )
            xacro = "${" in text or "$(" in text
            remedy = "expand the file with xacro first" if xacro else "correct the file"
            raise DescriptionError(f"{self._what} {key}: {expected}; {remedy}.")
        return numbers

    def vector(self, key: str, count: int = 3) -> Sequence[float]:
        """Return finite numbers, or an empty tuple if the attribute is missing."""
        numbers = self.numbers(key, count)
        if not all(math.isfinite(number) for number in numbers):
            given = f"given {short_repr(self._values[key])}"
            raise DescriptionError(f"{self._what} {key}: expected finite numbers, {given}.")
        return numbers

    def pose(self) -> Array:
        """Return the pose of an <origin>: xyz, and rpy or, since URDF 1.1, quat_xyzw."""
        turned, angles = self.vector("quat_xyzw", 4), self.vector("rpy")
        if turned and (angles or not any(turned)):
            expected = "either rpy or a quaternion that is not zero"
            given = " and ".join(
                f"{k}={self._values[k]!r}" for k in ("rpy", "quat_xyzw") if k in self._values
            )
            raise DescriptionError(f"{self._what}: expected {expected}, given {given}.")
        if turned:
            at = np.array(self.vector("xyz") or (0.0, 0.0, 0.0))
            return from_wxyz(at, np.array(turned)[[3, 0, 1, 2]])
        return _pose(self.vector("xyz"), angles)

    def number(self, key: str) -> float | None:
        return next(iter(self.numbers(key, 1)), None)

    def rate(self, key: str) -> float:
        """Return a positive number, infinite if the attribute is missing or zero."""
        number = self.number(key)
        if number is None or number == 0:
            return math.inf
        if not number > 0:
            given = f"given {short_repr(self._values[key])}"
            raise DescriptionError(f"{self._what} {key}: expected a positive number, {given}.")
        return number

    def line(self) -> tuple[float, float]:
        """Return the multiplier and the offset of a <mimic> element."""
        multiplier, offset = self.number("multiplier"), self.number("offset")
        return 1.0 if multiplier is None else multiplier, offset or 0.0


def _without_commas(words: list[str]) -> list[str]:
    """Return words without the commas that separate them; decimal commas are kept.

    A comma separates if it ends a word, or if all numbers are one word without spaces: 1,0,0.
    """
    if len(words) == 1:
        return words[0].split(",")
    return [word.removesuffix(",") for word in words]


def _pose(xyz: Sequence[float], rpy: Sequence[float]) -> Array:
    """Return the pose for a position and roll, pitch, yaw about the fixed x, y, z axes."""
    roll, pitch, yaw = rpy or (0.0, 0.0, 0.0)
    T = rotation_z(yaw) @ rotation_y(pitch) @ rotation_x(roll)
    T[:3, 3] = xyz or 0.0
    return T


def _check_links(links: Sequence[str], joints: Iterable[Joint]) -> None:
    """Check that every link named by a joint exists, and that every link belongs to a joint."""
    check_unique("link", links)
    known = set(links)
    unconnected, roots = dict.fromkeys(links), dict.fromkeys(links)
    for joint in joints:
        for tag, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in known:
                what = f"joint {short_repr(joint.name)}: <{tag}>"
                raise DescriptionError(f"{what} names an {unknown_name_error('link', link, links)}")
            unconnected.pop(link, None)
        roots.pop(joint.child, None)
    if unconnected and len(roots) > 1:
        raise_several_roots(list(roots))
