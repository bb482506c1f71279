"""Scene files: obstacles from JSON, URDF and MJCF."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supple._arrays.checks import number
from supple.describe._meshes import mesh_file
from supple.describe._pose import Array, from_wxyz, rotation_x, rotation_y, rotation_z
from supple.describe.fixed_bodies import fixed_shapes
from supple.describe.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    HalfSpace,
    Mesh,
    Shape,
    Sphere,
)
from supple.errors import DescriptionError, InputError, short_repr, unknown_name_error

_MAX_BYTES = 64_000_000
_MAX_OBSTACLES = 100_000
_ROTATIONS = {"xyzw": 4, "wxyz": 4, "rpy": 3}
_SIZES = {  # attributes of each type, and the order of its "dimensions"
    "sphere": (("radius",), ("radius",)),
    "box": (("size",), ("size",)),
    "cylinder": (("radius", "length"), ("length", "radius")),
    "capsule": (("radius", "length"), ("length", "radius")),
    "half_space": ((), ()),
    "hull": (("points", "radius"), ()),
    "mesh": (("file", "scale"), ()),
}
_OTHERS = ("id", "name", "type", "position", "pose", "speed", "dimensions", *_ROTATIONS)

Scene = tuple[dict[str, Shape], dict[str, float]]  # obstacles and speeds by name


def read_scene(source: str | os.PathLike[str]) -> Scene:
    """Return the obstacles of a scene file, and the speeds of obstacles that have a speed.

    Raises:
        DescriptionError: The file cannot be read, or a shape in it is invalid.
    """
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"a scene must be a path; given: {short_repr(source)}")
    text = os.fspath(source)
    if not text.lstrip().startswith("<") and Path(text).suffix.lower() == ".json":
        return _json_scene(Path(text))
    return fixed_shapes(source), {}


def _json_scene(path: Path) -> Scene:
    label = repr(str(path))
    try:
        if path.stat().st_size > _MAX_BYTES:
            limit = f"at most {_MAX_BYTES // 1_000_000} MB are read"
            raise DescriptionError(f"{label} is too large; {limit}.")
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, DescriptionError):
            raise
        raise DescriptionError(f"{label} cannot be read as JSON: {error}.") from error
    return scene_of(content, label, path.resolve().parent)


def scene_of(content: Any, label: str, folder: Path | None) -> Scene:
    """Return the obstacles of a scene as nested lists and dictionaries.

    Args:
        content: A list of obstacles, or a dictionary with "obstacles".
        label: Name of the scene in error messages.
        folder: Folder of mesh files.
    """
    listed = content.get("obstacles") if isinstance(content, dict) else content
    if isinstance(listed, dict):
        listed = [{"id": name, **each} for name, each in listed.items() if isinstance(each, dict)]
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise DescriptionError(f'{label}: expected a list of obstacles, or {{"obstacles": [...]}}.')
    if len(listed) > _MAX_OBSTACLES:
        raise DescriptionError(f"{label}: has more than {_MAX_OBSTACLES} obstacles.")
    shapes: dict[str, Shape] = {}
    speeds: dict[str, float] = {}
    for i, each in enumerate(listed):
        name = each.get("id", each.get("name", f"obstacle{i}"))
        what = f"{label}: obstacle {short_repr(name)}"
        if not isinstance(name, str) or not name or name in shapes:
            raise DescriptionError(f"{what}: expected a unique name.")
        try:
            shapes[name] = _shape(each, folder)
            speed = number(each.get("speed", 0.0), "speed", least=0)
        except (InputError, LookupError, DescriptionError, TypeError) as error:
            raise DescriptionError(f"{what}: {error}") from error
        if speed:
            speeds[name] = speed
    return shapes, speeds


def _shape(given: Mapping[str, Any], folder: Path | None) -> Shape:
    kind = given.get("type")
    if kind not in _SIZES:
        raise unknown_name_error("type", kind, _SIZES)
    own, order = _SIZES[kind]
    for key in given:
        if key not in own and key not in _OTHERS:
            raise unknown_name_error("attribute", key, (*own, *_OTHERS))
    sizes = {key: given[key] for key in own if key in given}
    if "dimensions" in given:
        sizes |= _dimensions(kind, order, given["dimensions"])
    pose = _pose(given)
    missing = [key for key in own if key not in sizes and (kind, key) not in _OPTIONAL]
    if missing:
        raise DescriptionError(f"a {kind} needs {' and '.join(missing)}.")
    if kind == "mesh":
        file = sizes["file"]
        named = mesh_file(file, folder) if isinstance(file, str) else file
        return Mesh(named, sizes.get("scale", (1, 1, 1)), pose)
    classes: dict[str, Any] = {
        "sphere": Sphere,
        "box": Box,
        "cylinder": Cylinder,
        "capsule": Capsule,
        "half_space": HalfSpace,
        "hull": ConvexHull,
    }
    made: Shape = classes[kind](**sizes, pose=pose)
    return made


_OPTIONAL = (("hull", "radius"), ("mesh", "scale"))


def _dimensions(kind: str, order: Sequence[str], given: Any) -> dict[str, Any]:
    if kind == "box":
        return {"size": given}
    if not order or not isinstance(given, list) or len(given) != len(order):
        expected = f"[{', '.join(order)}]" if order else "no dimensions"
        raise DescriptionError(f"dimensions: a {kind} has {expected}, given {short_repr(given)}.")
    return dict(zip(order, given, strict=True))


def _pose(given: Mapping[str, Any]) -> Array:
    """Return the pose of an obstacle, from a matrix, or from a position and a rotation."""
    turned = [key for key in _ROTATIONS if key in given]
    if len(turned) + ("pose" in given) > 1 or ("pose" in given and "position" in given):
        raise DescriptionError("has more than one pose; expected position and one rotation.")
    if "pose" in given:
        return np.asarray(given["pose"])
    T = np.eye(4)
    if turned:
        key = turned[0]
        x = _numbers(given[key], _ROTATIONS[key], key)
        if key == "rpy":
            T = rotation_z(x[2]) @ rotation_y(x[1]) @ rotation_x(x[0])
        elif not 0.5 < float(np.linalg.norm(x)) < 2:
            raise DescriptionError(f"{key}: expected a unit quaternion, given {short_repr(x)}.")
        else:
            T = from_wxyz(np.zeros(3), x if key == "wxyz" else np.roll(x, 1))
    T[:3, 3] = _numbers(given.get("position", (0, 0, 0)), 3, "position")
    return T


def _numbers(given: Any, count: int, what: str) -> Array:
    array = np.asarray(given, dtype=np.float64) if isinstance(given, list | tuple) else np.empty(0)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise DescriptionError(
            f"{what}: expected {count} finite numbers, given {short_repr(given)}."
        )
    return array
