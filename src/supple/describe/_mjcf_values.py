"""Attributes of MJCF elements: numbers, keywords, orientations, default classes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from supple.describe._pose import (
    Array,
    from_wxyz,
    rotation,
    rotation_x,
    rotation_y,
    rotation_z,
)
from supple.errors import DescriptionError, short_repr, unknown_name_error

_MAX_NUMBERS = 1_000  # maximum length of an attribute with numbers [characters]
_TINY = 1e-14  # length below which MuJoCo treats a vector as zero
_ORIENTATIONS = {"quat": 4, "axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}
_TYPES_WITH_TWO_ENDS = ("capsule", "cylinder", "ellipsoid", "box")  # types of sites with two ends

_POSE = ("pos", *_ORIENTATIONS)
_COMPILER = """
    alignfree angle assetdir autolimits balanceinertia boundinertia boundmass conflict convexhull
    coordinate discardvisual eulerseq exactmeshinertia fitaabb fusestatic inertiafromgeom
    inertiagrouprange meshdir passthrough savecanonical savecompiled saveinertial settotalmass
    strippath texturedir usethread"""
_JOINT = """
    type pos axis ref range limited group springdamper springyield springref stiffness damping
    armature frictionloss margin user solreflimit solimplimit solreffriction solimpfriction
    actuatorfrclimited actuatorfrcrange actuatorgravcomp"""
_SITE = ("type", "fromto", "size", "mesh", "material", "rgba", "group", "user", *_POSE)
_EQUALITY = ("active", "solref", "solimp")
_GEOM = """
    type contype conaffinity condim group priority size material friction mass density shellinertia
    solmix solref solimp margin gap fromto hfield mesh fitscale rgba fluidshape fluidcoef user"""
_MESH = """
    file content_type vertex normal texcoord face refpos refquat scale smoothnormal maxhullvert
    inertia builtin params material octree_maxdepth"""

# Attributes of the elements that contain kinematics.
_ATTRIBUTES = {
    "compiler": _COMPILER.split(),
    "body": ("name", "childclass", "fuse", "gravcomp", "mocap", "simple", "sleep", "user", *_POSE),
    "frame": ("name", "childclass", *_POSE),
    "replicate": ("count", "offset", "euler", "sep", "childclass"),
    "attach": ("model", "body", "frame", "prefix"),
    "joint": ("name", "class", *_JOINT.split()),
    "freejoint": ("name", "group", "align"),
    "site": ("name", "class", *_SITE),
    "geom": ("name", "class", *_GEOM.split(), *_POSE),
    "mesh": ("name", "class", *_MESH.split()),
    "inertial": ("mass", "diaginertia", "fullinertia", *_POSE),
    "default joint": _JOINT.split(),
    "default site": _SITE,
    "default equality": _EQUALITY,
    "equality joint": ("name", "class", "joint1", "joint2", "polycoef", *_EQUALITY),
    "equality connect": (
        *("name", "class", "body1", "body2", "anchor", "site1", "site2"),
        *_EQUALITY,
    ),
    "equality weld": (
        *("name", "class", "body1", "body2", "relpose", "anchor", "site1", "site2"),
        *("torquescale", *_EQUALITY),
    ),
}


@dataclass(frozen=True)
class Compiler:
    """Settings of <compiler>: unit of angles, Euler sequence, automatic limits, masses of geoms.

    `meshdir` is the folder of meshes; with `strippath`, folders in their names are ignored.
    """

    degrees: bool = True
    eulerseq: str = "xyz"
    autolimits: bool = True
    inertia_from_geoms: bool = False
    meshdir: str = ""
    strippath: bool = False

    def angle(self, value: float) -> float:
        """Return an angle of the file in radians."""
        return math.radians(value) if self.degrees else value


class Values:
    """The attributes of an element, completed by the attributes of its default class.

    Raises:
        DescriptionError: An attribute is unknown, or there is more than one orientation.
    """

    def __init__(
        self, element: Element, kind: str = "", defaults: Mapping[str, str] | None = None
    ) -> None:
        own = element.attrib
        name = own.get("name")
        self.what = f"<{element.tag}>{f' {short_repr(name)}' if name else ''}"
        known = _ATTRIBUTES[kind or element.tag]
        for key in own:
            if key not in known:
                raise DescriptionError(
                    f"{self.what}: {unknown_name_error('attribute', key, known)}"
                )
        turned = [key for key in _ORIENTATIONS if key in own and kind != "compiler"]
        if len(turned) > 1:
            raise self.error(f"has more than one orientation: {' and '.join(turned)}")
        self.all = merged(defaults or {}, own)

    def error(self, problem: str) -> DescriptionError:
        """Return an error that names this element and the problem."""
        return DescriptionError(f"{self.what} {problem}.")

    def text(self, key: str, default: str = "") -> str:
        """Return the text of an attribute."""
        return self.all.get(key, default)

    def keyword(self, key: str, words: Sequence[str], default: str) -> str:
        """Return an attribute that must be one of `words`."""
        word = self.all.get(key, default)
        if word not in words:
            raise DescriptionError(f"{self.what}: {unknown_name_error(key, word, words)}")
        return word

    def count(self, key: str) -> int:
        """Return a required whole number, cut after 19 characters: longer ones exceed any limit."""
        text = self.all.get(key, "").strip()
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise self.error(f"{key}: expected a whole number, given {short_repr(text)}")
        return int(text[:19])

    def numbers(self, key: str, count: int, default: Iterable[float], least: int = 0) -> Array:
        """Return the numbers (count,) of an attribute; missing numbers are taken from `default`.

        An attribute that is not empty must have `count` numbers or, if `least` is not zero, at
        least `least` numbers.
        """
        text, numbers = self.all.get(key, ""), list(default)
        if not text.strip():
            return np.array(numbers)
        try:
            if len(text) > _MAX_NUMBERS or "_" in text:  # Python accepts 1_0, MJCF does not
                raise ValueError
            given = [float(word) for word in text.split()]
        except ValueError:
            given = []
        if not (least or count) <= len(given) <= count:
            expected = f"expected {count} number{'s' if count > 1 else ''}"
            raise self.error(f"{key}: {expected}, given {short_repr(text)}")
        return np.array([*given, *numbers[len(given) :]])

    def pose(self, compiler: Compiler) -> Array:
        """Return the pose (4, 4) given by position and orientation."""
        fromto = self.text("fromto").strip()
        if fromto:
            return self._between_ends()
        T = self._rotation(compiler)
        T[:3, 3] = self.numbers("pos", 3, (0, 0, 0))
        return T

    def rotation_by(self, euler: Array, compiler: Compiler) -> Array:
        """Return a rotation (4, 4) by Euler angles about moving (xyz) or fixed (XYZ) axes."""
        T = np.eye(4)
        for letter, value in zip(compiler.eulerseq, euler, strict=True):
            if value == 0:
                continue
            turn = {"x": rotation_x, "y": rotation_y, "z": rotation_z}[letter.lower()]
            R = turn(compiler.angle(float(value)))
            T = T @ R if letter.islower() else R @ T
        return T

    def _rotation(self, compiler: Compiler) -> Array:
        key = next((key for key in _ORIENTATIONS if self.text(key).strip()), None)
        if key is None:
            return np.eye(4)
        x = self.numbers(key, _ORIENTATIONS[key], ())
        if key == "quat":
            return from_wxyz(np.zeros(3), self._unit(x, key))
        if key == "axisangle":
            return rotation(self._unit(x[:3], key), compiler.angle(float(x[3])))
        if key == "zaxis":
            return _onto_z(self._unit(x, key))
        if key == "euler":
            return self.rotation_by(x, compiler)
        T = np.eye(4)
        T[:3, 0] = self._unit(x[:3], key)
        T[:3, 1] = self._unit(x[3:] - T[:3, 0] * (T[:3, 0] @ x[3:]), key)
        T[:3, 2] = np.cross(T[:3, 0], T[:3, 1])
        return T

    def _between_ends(self) -> Array:
        """Return the pose of a site with two ends; z points from the second end to the first."""
        if "pos" in self.all or self.text("type", "sphere") not in _TYPES_WITH_TWO_ENDS:
            kinds = ", ".join(_TYPES_WITH_TWO_ENDS)
            raise self.error(f"fromto: expected no pos and one of the types {kinds}")
        ends = self.numbers("fromto", 6, ())
        T = _onto_z(self._unit(ends[:3] - ends[3:], "fromto"))
        T[:3, 3] = 0.5 * (ends[:3] + ends[3:])
        return T

    def _unit(self, v: Array, key: str) -> Array:
        largest = float(abs(v).max())
        if largest <= _TINY:
            raise self.error(f"{key}: expected a direction, given {short_repr(self.text(key))}")
        v = v / largest  # avoids overflow in the norm
        return np.asarray(v / np.linalg.norm(v))


def merged(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return own and inherited attributes; an orientation in `own` replaces any inherited one."""
    if any(key in own for key in _ORIENTATIONS):
        inherited = {k: v for k, v in inherited.items() if k not in _ORIENTATIONS}
    return {**inherited, **own}


def _onto_z(direction: Array) -> Array:
    """Return the smallest rotation (4, 4) that maps z to a unit vector; for -z, it is about x."""
    x, y, z = (float(value) for value in direction)
    sine = math.hypot(x, y)
    axis = np.array((-y, x, 0.0)) / sine if sine > 1e-10 else np.array((1.0, 0.0, 0.0))
    return rotation(axis, math.atan2(sine, z))


def compiler_of(sections: Iterable[Element]) -> Compiler:
    """Return the settings of all <compiler> sections; later ones override earlier ones."""
    every: dict[str, str] = {}
    for section in sections:
        every.update(Values(section, "compiler").all)
    values = Values(Element("compiler", every), "compiler")
    if values.keyword("coordinate", ("local", "global"), "local") == "global":
        raise values.error('has coordinate="global", which MuJoCo does not support')
    eulerseq = values.text("eulerseq", "xyz")
    if not re.fullmatch("[xyzXYZ]{3}", eulerseq):
        problem = f"eulerseq: expected three letters of xyzXYZ, given {short_repr(eulerseq)}"
        raise values.error(problem)
    return Compiler(
        degrees=values.keyword("angle", ("degree", "radian"), "degree") == "degree",
        eulerseq=eulerseq,
        autolimits=values.keyword("autolimits", ("true", "false"), "true") == "true",
        inertia_from_geoms=values.text("inertiafromgeom") == "true",
        meshdir=values.text("meshdir") or values.text("assetdir"),
        strippath=values.text("strippath") == "true",
    )


MAIN = "main"
_UNCHECKED = ("geom", "mesh")  # elements whose attributes are checked on first use
Defaults = dict[str, dict[str, dict[str, str]]]  # attributes by class, then by tag


def defaults_of(sections: Iterable[Element]) -> Defaults:
    """Return the default classes, each with the defaults inherited from its parent class."""
    tags = ("joint", "site", "equality", *_UNCHECKED)
    classes: Defaults = {MAIN: {tag: {} for tag in tags}}
    for section in sections:
        todo = [(section, MAIN)]
        while todo:
            element, name = todo.pop()
            for child in element:
                if child.tag in classes[name]:
                    held = classes[name][child.tag]
                    if child.tag in _UNCHECKED:
                        classes[name][child.tag] = merged(held, child.attrib)
                    else:
                        classes[name][child.tag] = Values(child, f"default {child.tag}", held).all
            for child in reversed(element.findall("default")):
                inner = child.get("class", "")
                if not inner or inner in classes:
                    problem = "a class with a unique name"
                    raise DescriptionError(
                        f"<default>: expected {problem}, given {short_repr(inner)}."
                    )
                classes[inner] = dict(classes[name])
                todo.append((child, inner))
        # Older versions of MuJoCo allowed a name other than "main" for the outermost class.
        classes[section.get("class") or MAIN] = classes[MAIN]
    return classes
