"""Robots read from MJCF agree with MuJoCo's own kinematics and constraints."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cases import each
from slow_fk import coordinates, fk
from supple.describe import Description, mjcf
from supple.errors import DescriptionError, UnknownNameError

mujoco = pytest.importorskip("mujoco")

MASS = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'

# A model with anchors, references, bodies with several or no joints, unnamed parts, and sites.
HARD = f"""
<mujoco model="hard">
  <worldbody>
    <body name="column" pos="0 0 .5" euler="10 20 30">
      <site name="mark" pos="1 2 3" euler="40 50 60"/>
      <body name="arm" pos=".1 .2 .3" quat="1 2 3 4">{MASS}
        <joint name="lift" type="slide" axis="0 1 1" pos="9 9 9" ref=".25" range="-1 1"/>
        <joint name="pan" axis="1 2 3" pos=".3 -.2 .1" ref="35" range="-90 120"/>
        <joint name="tilt" axis="0 1 0" pos="-.1 0 .2"/>
        <site name="arm" pos="0 0 1"/>
        <site pos="0 0 2"/>
        <body pos="0 0 .4" euler="0 90 0">{MASS}
          <joint axis="1 0 0" pos="0 .5 0" ref="-20"/>
          <body name="left" pos="0 .1 0">{MASS}
            <joint name="left" type="slide" axis="0 1 0" ref=".01"/>
          </body>
          <body name="right" pos="0 -.1 0">{MASS}
            <joint name="right" type="slide" axis="0 -1 0" ref=".03"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <joint joint1="right" joint2="left" polycoef=".005 -1.5 0 0 0"/>
    <joint joint1="tilt" joint2="pan" polycoef="0 1 0 0 0" active="false"/>
  </equality>
</mujoco>"""


def assert_as_mujoco(robot: Description, text: str, seed: int = 0) -> None:
    """Compare all bodies and named sites with mj_kinematics at random q = qpos."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    names = [joint.name for joint in coordinates(robot)]
    address = {model.joint(i).name or f"joint{i}": model.jnt_qposadr[i] for i in range(model.njnt)}
    for q in rng.uniform(-2, 2, (5, len(names))):
        data.qpos[:] = model.qpos0
        for name, value in zip(names, q, strict=True):
            data.qpos[address[name]] = value
        for joint in robot.joints:
            if joint.mimic is not None:
                followed = data.qpos[address[joint.mimic.joint]]
                data.qpos[address[joint.name]] = (
                    joint.mimic.multiplier * followed + joint.mimic.offset
                )
        mujoco.mj_kinematics(model, data)
        T = fk(robot, q)
        for i in range(1, model.nbody):
            assert_pose(T[model.body(i).name or f"body{i}"], data.xpos[i], data.xmat[i])
        for i in range(model.nsite):
            name = model.site(i).name
            if name:
                name = name if name in {frame.name for frame in robot.frames} else f"{name}_site"
                assert_pose(T[name], data.site_xpos[i], data.site_xmat[i])


def assert_pose(T: np.ndarray, position: np.ndarray, matrix: np.ndarray) -> None:
    assert abs(T[:3, 3] - position).max() < 1e-13
    assert abs(T[:3, :3] - matrix.reshape(3, 3)).max() < 1e-13


def test_links_and_sites_have_the_poses_of_mujoco() -> None:
    robot = mjcf(HARD)
    assert robot.name == "hard"
    assert robot.root == "world"
    assert robot.links == (
        "world", "column", "arm/lift", "arm/pan", "arm", "body3", "left", "right",
    )  # fmt: skip
    assert [joint.name for joint in coordinates(robot)] == [
        "lift", "pan", "tilt", "joint3", "left",
    ]  # fmt: skip
    assert [frame.name for frame in robot.frames] == ["mark", "arm_site"]
    assert_as_mujoco(robot, HARD)


def test_joint_kinds_and_limits_are_those_of_mujocos_compiled_model() -> None:
    joints = {joint.name: joint for joint in mjcf(HARD).joints}
    assert (joints["lift"].kind, joints["lift"].lower, joints["lift"].upper) == ("prismatic", -1, 1)
    assert joints["pan"].kind == "revolute"
    assert np.allclose((joints["pan"].lower, joints["pan"].upper), np.radians((-90, 120)))
    assert joints["tilt"].kind == "continuous"
    assert joints["column/fixed"].kind == "fixed"


def test_a_linear_equality_becomes_a_mimic_that_satisfies_mujoco() -> None:
    robot = mjcf(HARD)
    mimic = next(joint.mimic for joint in robot.joints if joint.mimic is not None)
    model = mujoco.MjModel.from_xml_string(HARD)
    data = mujoco.MjData(model)
    for left in (-0.5, 0.01, 0.7):
        data.qpos[:] = model.qpos0
        data.qpos[model.joint("left").qposadr] = left
        data.qpos[model.joint("right").qposadr] = mimic.multiplier * left + mimic.offset
        mujoco.mj_forward(model, data)
        assert (
            abs(data.efc_pos[data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY]).max() < 1e-15
        )


def test_a_joint_fixed_by_an_equality_is_where_mujoco_fixes_it() -> None:
    text = HARD.replace("</equality>", '<joint joint1="pan" polycoef=".3 0 0 0 0"/></equality>')
    pinned = mjcf(text)
    assert "pan" not in [joint.name for joint in coordinates(pinned)]
    q = {joint.name: 0.1 for joint in coordinates(mjcf(HARD))} | {"pan": np.radians(35) + 0.3}
    free = mjcf(HARD)
    expected = fk(free, np.array([q[joint.name] for joint in coordinates(free)]))["right"]
    assert np.allclose(fk(pinned, np.full(4, 0.1))["right"], expected, atol=1e-14)


FREE = f"""
<mujoco>
  <worldbody>
    <body name="trunk" pos="1 2 3" euler="10 20 30">{{free}}{MASS}
      <body name="leg" pos="0 0 -.5">{MASS}<joint name="hip" type="ball" pos="0 0 .1"/>
        <body name="foot" pos="0 0 -.5" euler="5 6 7">{MASS}<joint name="knee" ref="30"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>"""


@each(
    ("free", "name"),
    [("<freejoint/>", "trunk/free"), ('<freejoint name="root"/>', "root")],
)
def test_free_and_ball_joints_move_unless_they_are_welded(free: str, name: str) -> None:
    text = FREE.format(free=free)
    moving = {joint.name: joint.kind for joint in mjcf(text).joints if joint.moves}
    assert moving == {name: "floating", "hip": "ball", "knee": "continuous"}
    robot = mjcf(text, fixed=[name, "hip"])
    assert [joint.name for joint in coordinates(robot)] == ["knee"]
    assert_as_mujoco(robot, text)


def test_a_welded_mjcf_joint_is_at_its_reference_position() -> None:
    robot = mjcf(HARD, fixed=["pan", "left"])
    assert [joint.name for joint in coordinates(robot)] == ["lift", "tilt", "joint3"]
    # A joint that mimics a welded joint is welded at the value that the equality implies, not at
    # its own reference position.
    right = next(joint for joint in robot.joints if joint.name == "right")
    assert right.kind == "fixed"
    T = fk(mjcf(HARD), np.array((0.1, np.radians(35), 0.2, 0.3, 0.01)))
    assert np.allclose(fk(robot, np.array((0.1, 0.2, 0.3)))["right"], T["right"], atol=1e-14)


@each(
    ("equality", "joints"),
    [
        ('<joint joint1="left" joint2="pan" polycoef="0 1 2 0 0"/>', ("left", "pan")),
        ('<joint joint1="right" joint2="pan"/>', ("left", "pan")),
        ('<joint joint1="left" joint2="right"/>', ("left", "left")),
    ],
)
def test_equalities_that_are_not_mimics_become_couplings(
    equality: str, joints: tuple[str, str]
) -> None:
    """A coupling names the leader of a joint instead of a joint that follows (test_loops.py)."""
    assert not mjcf(HARD).couplings
    (made,) = mjcf(HARD.replace("</equality>", f"{equality}</equality>")).couplings
    assert (made.follower, made.leader) == joints


def test_duplicate_generated_names_in_mjcf_are_made_unique() -> None:
    text = f"""
    <mujoco>
      <worldbody>
        <body name="body2"><joint name="joint1"/>{MASS}
          <site name="body2"/><site name="body2_site"/>
          <body><joint/>{MASS}</body>
        </body>
      </worldbody>
    </mujoco>"""
    robot = mjcf(text)
    assert robot.links == ("world", "body2", "body2_")
    assert [joint.name for joint in robot.joints] == ["joint1", "joint1_"]
    assert [frame.name for frame in robot.frames] == ["body2_site", "body2_site_site"]


def test_an_mjcf_chain_of_300_bodies_is_read() -> None:
    body = f'<body pos="0 0 1"><joint/>{MASS}'
    text = f"<mujoco><worldbody>{body * 300}{'</body>' * 300}</worldbody></mujoco>"
    assert len(mjcf(text).joints) == 300


def test_reading_mjcf_prints_nothing_and_leaves_no_file(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mjcf(HARD.replace("<worldbody>", '<compiler settotalmass="9"/><worldbody>'))  # MuJoCo 4 warns
    with pytest.raises(DescriptionError):
        mjcf("<mujoco><foo/></mujoco>")
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_mjcf_files_are_read_with_the_files_that_they_include(tmp_path: Path) -> None:
    (tmp_path / "body.xml").write_text(
        f'<mujocoinclude><body name="b"><joint name="j"/>{MASS}</body></mujocoinclude>'
    )
    path = tmp_path / "main.xml"
    path.write_text('<mujoco><worldbody><include file="body.xml"/></worldbody></mujoco>')
    assert mjcf(path).links == ("world", "b")


def test_texts_that_are_not_valid_mjcf_are_refused() -> None:
    with pytest.raises(DescriptionError, match="the given text: unknown element 'foo'"):
        mjcf("<mujoco><foo/></mujoco>")
    with pytest.raises(DescriptionError, match="0 joints and none of them moves"):
        mjcf("<mujoco/>")


@each("far", ["1e13", "1e308", "inf", "nan"])
@each(
    "inside",
    ['pos="{0} {0} 0"><joint pos="{0} {0} {0}" axis="1 1 1" ref="1"/>',
     '><joint type="slide" axis="1 1 0" ref="{0}"/>',
     '><joint/><site name="s" pos="{0} 0 0"/>'],
    ids=["pos", "ref", "site"],
)  # fmt: skip
def test_huge_or_nonfinite_lengths_in_mjcf_are_refused(inside: str, far: str) -> None:
    text = f'<body euler="10 20 30" {inside.format(far)}{MASS}</body>'
    with pytest.raises(DescriptionError, match=r"is farther away than 1e.12 m|not finite"):
        mjcf(f"<mujoco><worldbody>{text}</worldbody></mujoco>")


def test_an_unknown_joint_cannot_be_welded() -> None:
    with pytest.raises(UnknownNameError, match="unknown joint 'tlit'; did you mean 'tilt'"):
        mjcf(HARD, fixed=["tlit"])


def test_mjcf_is_read_without_mujoco_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert mjcf(HARD).name == "hard"


@each(
    "broken",
    [
        '<asset><mesh name="m" file="gone.stl"/></asset>',
        '<asset><texture name="t" file="gone.png"/></asset>',
        '<contact><exclude body1="gone" body2="column"/></contact>',
        '<sensor><framepos objtype="body" objname="gone"/></sensor>',
    ],
)
def test_missing_meshes_textures_and_sensors_of_mjcf_are_ignored(broken: str) -> None:
    assert mjcf(HARD.replace("<worldbody>", f"{broken}<worldbody>")).name == "hard"


@each(
    ("old", "new", "message"),
    [
        ('name="pan"', 'name="pan" rnage="0 1"', r"<joint> 'pan': unknown attribute 'rnage'"),
        ('<joint name="pan"', '<jiont name="pan"', "unknown element 'jiont'; did you mean 'joint'"),
        ('name="pan"', 'name="lift"', "two joints are named 'lift'"),
        ('name="left" pos', 'name="arm" pos', "two links are named 'arm'"),
        ('name="mark"', 'name="arm"', "two sites are named 'arm'"),
        ('quat="1 2 3 4"', 'quat="0 0 0 0"', "<body> 'arm' quat: expected a direction"),
        ('quat="1 2 3 4"', 'quat="1 2 3"', "<body> 'arm' quat: expected 4 numbers, given '1 2 3'"),
        ('quat="1 2 3 4"', 'quat="1 0 0 0" euler="1 2 3"', "more than one orientation"),
        ('pos="0 0 .5"', 'pos="0 0 x"', "<body> 'column' pos: expected 3 numbers, given '0 0 x'"),
        ('type="slide" axis="0 1 1"', 'type="screw"', "unknown type 'screw'"),
        ('range="-90 120"', 'range="3 1" limited="true"', "lower limit is not below the upper"),
        ('name="pan"', 'class="k" name="pan"', "unknown default class 'k'"),
        ('joint1="right"', 'joint1="rigth"', "unknown joint 'rigth'; did you mean 'right'"),
        ("<worldbody>", '<compiler eulerseq="xyw"/><worldbody>', "three letters of xyzXYZ"),
        ("<worldbody>", '<compiler coordinate="global"/><worldbody>', "coordinate=.global"),
        ("<worldbody>", "<worldbody><joint/>", "the world has a <joint>"),
        ("<worldbody>", '<worldbody pos="1 0 0">', "<worldbody> has attributes"),
        ("<worldbody>", '<worldbody><attach model="m" prefix="p"/>', "unknown model 'm'"),
        ("<worldbody>", "<worldbody><attach/>", "<attach> has no prefix"),
        ("<worldbody>", '<worldbody><replicate count="3.0"/>', "expected a whole number"),
        ("<worldbody>", "<worldbody><flexcomp/>", "deformable body, which supple does not read"),
    ],
)  # fmt: skip
def test_errors_about_mistakes_in_mjcf_name_the_element(old: str, new: str, message: str) -> None:
    assert old in HARD
    with pytest.raises(DescriptionError, match=message):
        mjcf(HARD.replace(old, new, 1))
