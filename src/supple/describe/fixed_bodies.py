"""Shapes of scenes: URDF and MJCF files whose bodies are fixed to the world or free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from supple.describe._include import read_document
from supple.describe._mjcf_tree import MAX_DEPTH, MAX_ELEMENTS, tree_of
from supple.describe._pose import Array
from supple.describe._source import Budget, PathOrText, Source, read_source
from supple.describe.link_shapes import LinkShapes, ShapeRecord, urdf_shapes
from supple.describe.shapes import Shape
from supple.describe.urdf import urdf_joints
from supple.errors import DescriptionError, join_names, short_repr

_MAX_URDF = (200_000, 100)  # elements and their depth


def fixed_shapes(source: PathOrText) -> dict[str, Shape]:
    """Return the shapes in a URDF or MJCF file, with poses in the world, by unique names.

    A shape has the name of its geom or link; shapes of the same name get the suffixes _2, _3, ...

    Raises:
        DescriptionError: The file cannot be read, or a body moves by a joint that is not free.
    """
    budget = Budget(max_elements=_MAX_URDF[0], max_depth=_MAX_URDF[1])
    file = read_source(source, budget)
    if file.root.tag == "robot":
        return _urdf(file)
    if file.root.tag == "mujoco":
        return _mjcf(read_source(source, Budget(MAX_ELEMENTS, MAX_DEPTH), root="mujoco"))
    raise DescriptionError(
        f"{file.label}: expected a scene as JSON, URDF (<robot>) or MJCF (<mujoco>), given "
        f"<{short_repr(file.root.tag)[1:-1]}>."
    )


def _urdf(file: Source) -> dict[str, Shape]:
    links = file.root.findall("link")
    names = [link.get("name", "") for link in links]
    try:
        joints = urdf_joints(file.root)
        if moving := [joint.name for joint in joints if joint.moves]:
            raise DescriptionError(
                f"joints of a scene must be fixed; given moving ones: {join_names(moving)}."
            )
        above = {joint.child: joint for joint in joints}
        poses: dict[str, Array] = {}
        for name in names:
            T, link, seen = np.eye(4), name, 0
            while link in above:
                T, link, seen = above[link].origin @ T, above[link].parent, seen + 1
                if seen > len(joints):
                    raise DescriptionError("the links form a cycle; expected a tree.")
            poses[name] = T
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error
    folder = file.path.resolve().parent if file.path else None
    records = [(each.link, each) for each in urdf_shapes(links, set(names))]
    return _placed(records, poses, file.label, folder)


def _mjcf(file: Source) -> dict[str, Shape]:
    try:
        tree = tree_of(read_document(file, Budget(MAX_ELEMENTS, MAX_DEPTH)))
        poses: list[Array] = []
        for body in tree.bodies:
            if any(joint.kind != "free" for joint in body.joints):
                raise DescriptionError(
                    f"body {short_repr(body.name)} of a scene moves by joints; expected bodies "
                    "that are fixed or free."
                )
            poses.append(body.pose if body.parent < 0 else poses[body.parent] @ body.pose)
    except DescriptionError as error:
        raise DescriptionError(f"{file.label}: {error}") from error
    keys = [f"body{i}" for i in range(len(tree.bodies))]
    records = [
        (geom.name or body.name or key, replace(geom, link=key))
        for key, body in zip(keys, tree.bodies, strict=True)
        for geom in body.geoms
    ]
    return _placed(records, dict(zip(keys, poses, strict=True)), file.label, None)


def _placed(
    records: Iterable[tuple[str, ShapeRecord]],
    poses: dict[str, Array],
    label: str,
    folder: Path | None,
) -> dict[str, Shape]:
    """Return shapes in the world by unique names, from pairs of a name and a record."""
    made: dict[str, Shape] = {}
    for name, record in records:
        shape = LinkShapes([record], label, folder)[record.link][0]
        unique, count = name, 1
        while unique in made:
            count += 1
            unique = f"{name}_{count}"
        made[unique] = replace(shape, pose=poses[record.link] @ shape.pose)
    return made
