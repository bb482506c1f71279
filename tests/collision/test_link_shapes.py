"""Shapes of links in robot files, compared with MuJoCo and yourdfpy, and meshes."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from supple import collision as c
from supple.collision.hull import rounded_hull
from supple.describe import Description, Joint
from supple.errors import DescriptionError, UnknownNameError
from warned import warned

LINK = """<link name="{name}">{shapes}</link>"""
SHAPES = """
  <collision><origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><geometry><box size="0.1 0.2 0.3"/></geometry>
  </collision>
  <collision><geometry><sphere radius="0.5"/></geometry></collision>
  <collision><geometry><cylinder radius="0.5" length="2"/></geometry></collision>
  <collision><geometry><capsule radius="0.5" length="2"/></geometry></collision>"""
ROBOT = """<robot name="arm"><link name="base"/>{link}
  <joint name="j" type="continuous"><parent link="base"/><child link="tip"/></joint></robot>"""


def arm(shapes: str) -> sp.Robot:
    return sp.urdf(ROBOT.format(link=LINK.format(name="tip", shapes=shapes)))


def test_shapes_of_urdf_links_are_read() -> None:
    robot = arm(SHAPES)
    assert list(robot.shapes) == ["tip"]
    box, ball, can, pill = robot.shapes["tip"]
    assert np.allclose(box.pose, sp.pose((1, 2, 3), rpy=(0.1, 0.2, 0.3)), atol=1e-15)
    assert isinstance(ball, c.Sphere)
    assert isinstance(can, c.Cylinder)
    assert isinstance(pill, c.Capsule)
    assert (can.length, pill.length) == (2, 2)
    for other in (pickle.loads(pickle.dumps(robot)), robot.freeze([]), robot.with_base(np.eye(4))):
        assert len(other.shapes["tip"]) == 4
    assert not sp.load("panda").shapes


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ('<geometry><box size="0.1 0.2"/></geometry>', "3 finite numbers"),
        ('<geometry><box size="0.1 0.2 -0.1"/></geometry>', "above zero"),
        ('<geometry><box size="0 0.2 -0.1"/></geometry>', "above zero"),
        ('<geometry><cylinder radius="0" length="-1"/></geometry>', "above zero"),
        ('<geometry><sphere radius="nan"/></geometry>', "finite number"),
        ("<geometry><sphere/></geometry>", "given nothing"),
        ('<geometry><cone radius="1"/></geometry>', "unknown geometry 'cone'"),
        ("<geometry/>", "no <geometry>"),
        ("", "no <geometry>"),
        ('<origin xyz="a b c"/><geometry><sphere radius="1"/></geometry>', "xyz"),
    ],
)
def test_invalid_shapes_in_a_file_raise_an_error_only_when_shapes_are_used(
    shapes: str, match: str
) -> None:
    robot = arm(f"<collision>{shapes}</collision>")
    with pytest.raises(DescriptionError, match=match) as caught:
        len(robot.shapes)
    assert "'tip'" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "extent"),
    [
        ('<box size="0.1 0.2 0"/>', (0.1, 0.2, 0.0)),
        ('<box size="0 0 0.3"/>', (0.0, 0.0, 0.3)),
        ('<cylinder radius="0" length="0.3"/>', (0.0, 0.0, 0.3)),
        ('<capsule radius="0" length="0.3"/>', (0.0, 0.0, 0.3)),
        ('<cylinder radius="0.1" length="0"/>', (0.2, 0.2, 0.0)),
    ],
)
def test_shapes_without_volume_have_distances_of_almost_flat_shapes(
    shape: str, extent: tuple[float, ...]
) -> None:
    """Distances from a ball are those of a shape that is a micrometer thick."""
    robot = arm(f"<collision><geometry>{shape}</geometry></collision>")
    (hull,) = robot.shapes["tip"]
    assert isinstance(hull, c.ConvexHull)
    found, asked = np.ptp(hull.points, axis=0), np.array(extent)
    assert (found >= asked - 1e-15).all()
    assert np.allclose(found, asked, rtol=0.01, atol=1e-15)
    for z in (0.0, 0.4, 1e-3):
        world = sp.World({"ball": c.Sphere(0.05, (0.3, 0.1, z))})
        thick = arm(
            f'<collision><geometry><box size="{" ".join(str(max(x, 1e-6)) for x in extent)}"/>'
            "</geometry></collision>"
        )
        d, other = (c.contacts(each, world, [0.3])[0].distance for each in (robot, thick))
        if "radius" not in shape or "0.1" not in shape:
            assert d == pytest.approx(other, abs=2e-6)
        assert d >= other - 2e-6  # the disc is inside the box


def test_a_point_in_a_file_is_left_out_with_a_warning() -> None:
    robot = arm(
        '<collision><geometry><box size="0 0 0"/></geometry></collision>'
        '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    )
    with warned(r"'tip' is a point and is left out: <box size"):
        assert len(robot.shapes["tip"]) == 1


def test_shapes_of_a_description_belong_to_existing_links() -> None:
    joints = (Joint("j", "revolute", "a", "b"),)
    made = Description("r", joints, shapes={"b": c.Sphere(1.0)})
    assert len(sp.Robot(made).shapes["b"]) == 1
    assert len(pickle.loads(pickle.dumps(made)).shapes["b"]) == 1
    with pytest.raises(UnknownNameError, match="link"):
        Description("r", joints, shapes={"c": c.Sphere(1.0)})


MJCF = """<mujoco><compiler angle="radian" autolimits="true"/>
  <default><geom size="0.3 0.2 0.1"/><default class="v"><geom contype="0" conaffinity="0"/>
  </default><default class="w"><geom type="box" euler="0.1 0.2 0.3"/></default></default>
  <asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1" scale="0.1 0.2 0.3"/></asset>
  <contact><exclude body1="a" body2="c"/></contact>
  <worldbody><geom name="floor" type="plane" size="1 1 1" pos="0 0 -1"/>
  <body name="a" pos="0 0 1"><joint/><geom type="capsule" fromto="0 0 0 0.3 0.4 1"/>
    <geom class="v" size="3"/>
    <frame pos="1 0 0" euler="0 0 1"><geom class="w"/></frame>
    <body name="b"><joint axis="0 1 0"/><geom type="cylinder" quat="1 1 0 0"/>
      <geom type="sphere" pos="1 2 3"/><geom type="box" fromto="0 0 0 1 1 1" contype="2"/>
      <body name="c"><joint axis="1 0 0"/><geom contype="4" conaffinity="4"/></body>
    </body></body></worldbody></mujoco>"""


def test_shapes_of_mjcf_geoms_are_those_of_mujoco() -> None:
    mujoco = pytest.importorskip("mujoco")
    robot, model = sp.mjcf(MJCF), mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    q = robot.random(seed=0)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    own = [(link, each) for link, shapes in robot.shapes.items() for each in shapes]
    theirs = [i for i in range(model.ngeom) if model.geom_contype[i] or model.geom_conaffinity[i]]
    assert len(own) == len(theirs) == 7
    for (link, shape), i in zip(own, theirs, strict=True):
        assert (model.body(model.geom_bodyid[i]).name) == link
        T = robot.fk(q, link) @ shape.pose
        R = data.geom_xmat[i].reshape(3, 3)
        assert np.allclose(T[:3, 3], data.geom_xpos[i], atol=1e-12)
        assert np.allclose(T[:3, 2], R[:, 2], atol=1e-12)
        size = model.geom_size[i]
        if isinstance(shape, c.Box):
            assert np.allclose(T[:3, :3], R, atol=1e-12)
            assert np.allclose(shape.size, 2 * size)
        elif isinstance(shape, c.Capsule | c.Cylinder):
            assert np.allclose((shape.radius, shape.length), (size[0], 2 * size[1]))


def test_pairs_that_mjcf_excludes_are_not_checked() -> None:
    shapes = sp.mjcf(MJCF).description.shapes
    excluded = {frozenset(pair) for pair in shapes.unchecked}  # type: ignore[attr-defined]
    assert excluded == {frozenset(("a", "c")), frozenset(("b", "c")), frozenset(("world", "c"))}


def test_the_hull_of_an_ellipsoid_contains_it() -> None:
    body = '<body><joint/><geom type="ellipsoid" size="0.1 0.2 0.3"/></body>'
    robot = sp.mjcf(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    (hull,) = robot.shapes["body1"]
    assert isinstance(hull, c.ConvexHull)
    rng = np.random.default_rng(0)
    d = rng.normal(size=(1000, 3))
    inside = np.linalg.norm(d * (0.1, 0.2, 0.3), axis=1)  # support function of the ellipsoid
    outside = (d @ hull.points.T).max(axis=1)
    assert (outside >= inside).all()
    assert (outside <= 1.07 * inside).all()


def cube_stl(size: float) -> bytes:
    """Return a binary STL file of a cube whose corners are 0 or `size`."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * size
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    triangles = [t for a, b, d, e in quads for t in ((a, b, d), (a, d, e))]
    data = b"\0" * 80 + struct.pack("<I", len(triangles))
    for t in triangles:
        data += struct.pack("<12fH", 0, 0, 0, *corners[list(t)].ravel(), 0)
    return data


@pytest.mark.parametrize("prefix", ["", "package://robot/"])
def test_meshes_of_urdf_are_read_on_first_use(prefix: str, tmp_path: Path) -> None:
    folder = tmp_path / "robot"
    folder.mkdir()
    mesh = f'<mesh filename="{prefix}cube.stl" scale="1 2 3"/>'
    link = LINK.format(name="tip", shapes=f"<collision><geometry>{mesh}</geometry></collision>")
    path = folder / "arm.urdf"
    path.write_text(ROBOT.format(link=link))
    (shape,) = sp.urdf(path).shapes["tip"]
    assert isinstance(shape, c.Mesh)
    with pytest.raises(DescriptionError, match=r"cube\.stl.*not found"):
        c.hull_of(shape)
    (folder / "cube.stl").write_bytes(cube_stl(0.5))
    (shape,) = sp.urdf(path).shapes["tip"]
    hull = c.hull_of(shape)  # type: ignore[arg-type]
    assert hull.radius == 0
    assert np.allclose(np.sort(np.unique(hull.points[:, 2])), (0, 1.5))
    assert len(hull.points) == 8


@pytest.mark.parametrize(
    "text", ["", "v 0 0 0\n", "v 0 0 0\nf 1 2 3\n", "v a b c\n", "v 0 0 nan\nf 1 1 1\n"]
)
def test_errors_about_unreadable_meshes_name_the_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.obj"
    path.write_text(text)
    with pytest.raises(DescriptionError, match=r"a\.obj"):
        c.hull_of(c.Mesh(str(path)))


def test_ascii_stl_and_obj_files_of_a_mesh_give_the_same_shape(tmp_path: Path) -> None:
    corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    faces = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {' '.join(map(str, corners[i]))}\n" for i in face)
        + "endloop\nendfacet\n"
        for face in faces
    )
    (tmp_path / "a.stl").write_text(f"solid a\n{facets}endsolid a\n")
    lines = [f"v {' '.join(map(str, each))}" for each in corners]
    lines += [f"f {' '.join(f'{i + 1}/1/1' for i in face)}" for face in faces]
    (tmp_path / "a.obj").write_text("\n".join(lines))
    one, other = (c.hull_of(c.Mesh(str(tmp_path / f"a.{end}"))) for end in ("stl", "obj"))
    for hull in (one, other):
        assert sorted(hull.points.tolist()) == sorted(map(list, corners))


@pytest.mark.parametrize("seed", range(int(os.environ.get("SUPPLE_CASES", "60")) // 10))
def test_rounded_hulls_contain_the_mesh(seed: int) -> None:
    """In every direction, the support function of the hull is at least that of all points."""
    rng = np.random.default_rng(seed)
    count = int(rng.choice([4, 30, 300, 3000]))
    points = rng.normal(size=(count, 3)) * 10 ** rng.uniform(-3, 1, size=3)
    if rng.random() < 0.5:  # on a sphere: every point is a corner
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    kept, padding = rounded_hull(points, 32)
    d = rng.normal(size=(2000, 3))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    over = (d @ kept.T).max(axis=1) + padding - (d @ points.T).max(axis=1)
    assert over.min() >= -1e-12 * np.abs(points).max()
    assert len(kept) <= 32
    assert padding <= 0.25 * np.ptp(points, axis=0).max()
