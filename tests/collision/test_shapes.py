"""Shapes, worlds and scene files: accepted input, and errors about invalid input."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from supple import collision as c
from supple.errors import DescriptionError, InputError, UnknownNameError

MAKERS = {
    "sphere": lambda pose: c.Sphere(0.1, pose),
    "capsule": lambda pose: c.Capsule(0.1, 0.3, pose),
    "box": lambda pose: c.Box((0.1, 0.2, 0.3), pose),
    "cylinder": lambda pose: c.Cylinder(0.1, 0.3, pose),
    "half_space": lambda pose: c.HalfSpace(pose),
    "hull": lambda pose: c.ConvexHull(np.eye(3), 0.01, pose),
    "mesh": lambda pose: c.Mesh("a.stl", (1, 1, 1), pose),
}


def random_pose(rng: np.random.Generator) -> np.ndarray:
    return sp.pose(rng.normal(size=3), wxyz=rng.normal(size=4))


@pytest.mark.parametrize("kind", MAKERS)
def test_shapes_have_the_given_pose_and_are_read_only(kind: str) -> None:
    T = random_pose(np.random.default_rng(1))
    for made in (MAKERS[kind](T), MAKERS[kind](T[:3, 3])):
        for shape in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert np.allclose(shape.pose[:3, 3], T[:3, 3], atol=0)
            with pytest.raises(ValueError, match="read-only"):
                shape.pose[0, 3] = 1.0
    assert np.allclose(MAKERS[kind](T).pose, T, atol=1e-15)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "pose",
    [np.full((4, 4), np.nan), np.ones((4, 4)), np.zeros(2), [1, 2, math.inf], "here", -np.eye(4)],
    ids=["nan", "ones", "short", "infinite", "text", "mirror"],
)
def test_matrices_that_are_not_poses_are_refused(kind: str, pose: Any) -> None:
    with pytest.raises(InputError, match="pose"):
        MAKERS[kind](pose)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, [1.0]])
def test_shapes_without_a_positive_size_are_refused(bad: Any) -> None:
    makers = [
        lambda: c.Sphere(bad),
        lambda: c.Capsule(bad, 1.0),
        lambda: c.Cylinder(bad, 1.0),
        lambda: c.Cylinder(1.0, bad),
        lambda: c.Box((1.0, bad, 1.0)),
        lambda: c.Box(bad),
    ]
    for make in makers:
        with pytest.raises(InputError, match=r"Sphere|Capsule|Cylinder|Box"):
            make()
    with pytest.raises(InputError, match="same"):
        c.ConvexHull(np.zeros((4, 3)))
    with pytest.raises(InputError, match="points"):
        c.ConvexHull(np.empty((0, 3)))
    assert c.Capsule(1.0, 0.0).length == 0  # a sphere


def test_methods_that_change_a_world_return_a_copy_and_do_not_change_the_original() -> None:
    world = sp.World(
        {"box": c.Box((1, 1, 1)), "ball": c.Sphere(0.1, (1, 0, 0))}, speeds={"ball": 2}
    )
    T = random_pose(np.random.default_rng(0))
    moved = world.moved({"box": T})
    assert np.allclose(moved.obstacles["box"].pose, T)
    assert np.array_equal(world.obstacles["box"].pose, np.eye(4))
    assert moved.obstacles["ball"] is world.obstacles["ball"]
    shifted = moved.moved({"box": (1, 2, 3)}).obstacles["box"].pose
    assert np.array_equal(shifted[:3, 3], (1, 2, 3))
    assert np.allclose(shifted[:3, :3], T[:3, :3])
    more = world.with_obstacle("wall", c.HalfSpace(), speed=0.5)
    assert dict(more.speeds) == {"ball": 2.0, "wall": 0.5}
    assert set(more.without("ball").obstacles) == {"box", "wall"}
    assert dict(more.without("ball").speeds) == {"wall": 0.5}
    with pytest.raises(AttributeError, match="immutable"):
        world.obstacles = {}
    with pytest.raises(TypeError):
        world.obstacles["box"] = c.Sphere(1.0)
    again = pickle.loads(pickle.dumps(more))
    assert list(again.obstacles) == list(more.obstacles)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda w: sp.World([c.Sphere(1)]), InputError, "by name"),
        (lambda w: sp.World({"a": 3}), InputError, "must be a shape"),
        (lambda w: sp.World({1: c.Sphere(1)}), InputError, "names must be strings"),
        (lambda w: sp.World(speeds={"a": 1.0}), UnknownNameError, "obstacle"),
        (lambda w: sp.World({"a": c.Sphere(1)}, speeds={"a": -1}), InputError, "speed"),
        (lambda w: sp.World(attached={"hand": [1]}), InputError, "attached"),
        (lambda w: sp.World(links={"hand": "x"}), InputError, "links"),
        (lambda w: sp.World(unchecked="yes"), InputError, "auto"),
        (lambda w: sp.World(unchecked=[("a",)]), InputError, "pairs of names"),
        (lambda w: sp.World(obstacle={}), UnknownNameError, "obstacles"),
        (lambda w: w.moved({"bx": np.eye(4)}), UnknownNameError, "did you mean 'box'"),
        (lambda w: w.moved({"box": np.zeros((4, 4))}), InputError, "pose"),
        (lambda w: w.without("bocks"), UnknownNameError, "obstacle"),
    ],
)
def test_errors_about_worlds_say_what_is_wrong(
    make: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        make(sp.World({"box": c.Box((1, 1, 1))}))


SCENE = [
    {"id": "a", "type": "sphere", "radius": 0.1, "position": [1, 2, 3]},
    {"id": "b", "type": "box", "size": [1, 2, 3], "rpy": [0, 0, 0.5], "speed": 0.25},
    {"type": "cylinder", "dimensions": [0.4, 0.1], "position": [0, 0, 1], "xyzw": [0, 0, 1, 0]},
    {"id": "d", "type": "capsule", "radius": 0.1, "length": 0.2, "wxyz": [1, 0, 0, 0]},
    {"id": "e", "type": "half_space", "pose": np.eye(4).tolist()},
    {"id": "f", "type": "hull", "points": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]},
]


def written(folder: Path, content: Any) -> Path:
    path = folder / "scene.json"
    path.write_text(json.dumps(content))
    return path


def test_scenes_are_read_from_json_files(tmp_path: Path) -> None:
    for content in (SCENE, {"obstacles": SCENE}):
        world = sp.World.load(written(tmp_path, content))
        kinds = [type(each).__name__ for each in world.obstacles.values()]
        assert kinds == ["Sphere", "Box", "Cylinder", "Capsule", "HalfSpace", "ConvexHull"]
        assert list(world.obstacles) == ["a", "b", "obstacle2", "d", "e", "f"]
        assert dict(world.speeds) == {"b": 0.25}
        can = world.obstacles["obstacle2"]
        assert isinstance(can, c.Cylinder)
        assert (can.length, can.radius) == (0.4, 0.1)
        assert np.allclose(can.pose, sp.pose((0, 0, 1), rpy=(0, 0, math.pi)))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"boxes": []}, "list of obstacles"),
        ([{"type": "ball"}], "unknown type 'ball'"),
        ([{"type": "sphere"}], "needs radius"),
        ([{"type": "sphere", "radius": 0}], "above zero"),
        ([{"type": "sphere", "radius": 1, "positoin": [0, 0, 0]}], "did you mean 'position'"),
        ([{"type": "sphere", "radius": 1, "position": [0, 0]}], "3 finite numbers"),
        ([{"type": "box", "size": [1, 1, 1], "xyzw": [0, 0, 0, 0]}], "unit quaternion"),
        ([{"type": "cylinder", "dimensions": [1]}], "length, radius"),
        ([{"id": "a", "type": "half_space"}, {"id": "a", "type": "half_space"}], "unique name"),
        ([{"type": "mesh", "file": 3}], "obstacle0"),
    ],
)
def test_errors_about_scene_files_say_what_is_wrong(
    content: Any, match: str, tmp_path: Path
) -> None:
    with pytest.raises(DescriptionError, match=match):
        sp.World.load(written(tmp_path, content))


def test_unreadable_scenes_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "scene.json"
    broken.write_text("{")
    for path in (broken, tmp_path / "missing.json", tmp_path / "missing.urdf"):
        with pytest.raises(DescriptionError):
            sp.World.load(path)
    with pytest.raises(DescriptionError, match="expected a scene"):
        sp.World.load("<sdf/>")
    with pytest.raises(InputError, match="path"):
        sp.World.load(3)  # type: ignore[arg-type]


def test_scenes_are_read_from_urdf_and_mjcf() -> None:
    table = """<robot name="scene"><link name="world"/><link name="table"><collision>
      <origin xyz="0 0 0.1"/><geometry><box size="1 1 0.2"/></geometry></collision><collision>
      <geometry><sphere radius="0.1"/></geometry></collision></link>
      <joint name="j" type="fixed"><parent link="world"/><child link="table"/>
      <origin xyz="0 0 1" rpy="0 0 1.5707963267948966"/></joint></robot>"""
    world = sp.World.load(table)
    assert list(world.obstacles) == ["table", "table_2"]
    assert np.allclose(world.obstacles["table"].pose[:3, 3], (0, 0, 1.1))
    with pytest.raises(DescriptionError, match="must be fixed"):
        sp.World.load(table.replace('type="fixed"', 'type="continuous"'))
    scene = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <geom contype="0" conaffinity="0" size="9"/>
      <body name="cup" pos="1 0 0"><freejoint/><geom type="cylinder" size="0.1 0.2"/>
      <body pos="0 1 0"><geom type="box" size="0.1 0.2 0.3"/></body></body>
      </worldbody></mujoco>"""
    made = sp.World.load(scene)
    assert list(made.obstacles) == ["floor", "cup", "body2"]
    assert np.array_equal(made.obstacles["body2"].pose[:3, 3], (1, 1, 0))
    with pytest.raises(DescriptionError, match="moves by joints"):
        sp.World.load(scene.replace("<freejoint/>", "<joint/>"))
