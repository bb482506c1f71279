"""Detection of parallel and intersecting joint axes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import RobotFiles

import supple as sp
from cases import each
from supple.kinematics.structure import Structure

MANIPULAPY = "ManipulaPy_data"
UR = "share/example-robot-data/robots/ur_description/urdf"
# Robot file -> relations of neighboring axes, kind of closed form, index of the first joint of the
# closed form.
FILES = {
    ("ManipulaPy", f"{MANIPULAPY}/abb/irb2400.urdf"): ("–∥–××", "spherical", 3),
    ("ManipulaPy", f"{MANIPULAPY}/fanuc/m16ib.urdf"): ("–∥–××", "spherical", 3),
    ("ManipulaPy", f"{MANIPULAPY}/kinova/jaco/jaco_6dof.urdf"): ("×∥×××", "spherical", 3),
    ("ManipulaPy", f"{MANIPULAPY}/universal_robots/ur10e/ur10e.urdf"): ("×∥∥××", "parallel", 1),
    ("cmeel.prefix", f"{UR}/ur5_robot.urdf"): ("×∥∥××", "parallel", 1),
    # The axes of the wrist do not intersect.
    ("ManipulaPy", f"{MANIPULAPY}/xarm/xarm6_robot.urdf"): ("×∥–×–", None, -1),
    ("ManipulaPy", f"{MANIPULAPY}/fanuc_crx/crx10ia.urdf"): ("×∥×××", None, -1),
}
BUILT_IN = {
    "ur5e": ("×∥∥××", "parallel", 1),
    "puma560": ("×∥–××", "spherical", 3),
    "puma560_mk": ("×∥–××", "spherical", 3),
    "panda": ("××––×–", None, -1),
    "iiwa14": ("××××××", None, -1),
    "youbot": ("–∥∥×", None, -1),
}
SIGNS = {"parallel": "∥", "intersecting": "×", "coincident": "≡", "skew": "–"}


def check(structure: Structure, relations: str, form: str | None, first: int) -> None:
    assert "".join(SIGNS[one] for one in structure.relations) == relations
    assert (structure.form, structure.first) == (form, first)
    assert (structure.reason == "") == (form is not None)


@each("name", BUILT_IN)
def test_the_structure_of_built_in_robots_is_detected(name: str) -> None:
    check(sp.load(name).structure, *BUILT_IN[name])


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file[1]).stem)
def test_the_structure_of_arms_of_robot_files_is_detected(
    file: tuple[str, str], robot_files: RobotFiles
) -> None:
    robot = sp.urdf(robot_files(*file))
    check(robot.structure, *FILES[file])
    assert robot.structure.exact


@each("name", ["ur5e", "panda", "puma560_rail"])
def test_axes_of_a_structure_agree_with_the_jacobian(name: str) -> None:
    """For a revolute joint with axis h through a point, the column of J at q = 0 is [h × (p -
    point); h].
    """
    robot = sp.load(name).with_base(sp.pose([0.3, -0.2, 0.5], rpy=[0.3, -0.4, 1.2]))
    structure = robot.structure
    J = robot.jacobian(np.zeros(robot.dof), robot.tips[0])
    tip = robot.fk(np.zeros(robot.dof), robot.tips[0])[:3, 3]
    turning = ~robot.prismatic
    h, point = structure.axes[turning], structure.points[turning]
    np.testing.assert_allclose(J[3:, turning].T, h, atol=1e-12)
    np.testing.assert_allclose(J[:3, turning].T, np.cross(h, tip - point), atol=1e-12)


def misaligned(name: str, distance: float, angle: float, seed: int) -> sp.Robot:
    """Return a built-in arm with joints shifted [m] and tilted [rad] in random directions."""
    rng = np.random.default_rng(seed)
    arm = sp.load(name).description
    joints = []
    for joint in arm.joints:
        shift, axis = rng.normal(size=3), rng.normal(size=3)
        by = sp.pose(
            distance * shift / np.linalg.norm(shift),
            rotation_vector=angle * axis / np.linalg.norm(axis),
        )
        joints.append(replace(joint, origin=joint.origin @ by))
    return sp.Robot(replace(arm, joints=tuple(joints)))


@pytest.mark.parametrize("name", ["ur5e", "puma560"])
@pytest.mark.parametrize("seed", range(5))
def test_small_misalignments_of_axes_are_tolerated(name: str, seed: int) -> None:
    """Nominal axes are exactly parallel or intersect, and differ from the given ones by the
    reported misalignment.
    """
    robot = misaligned(name, 1e-4, 1e-4, seed)
    structure, exact = robot.structure, sp.load(name).structure
    check(structure, *BUILT_IN[name])
    assert not structure.exact
    assert 0 < structure.misalignment < 1e-3
    assert 0 < structure.tilt < 1e-3
    np.testing.assert_allclose(structure.nominal_axes, exact.axes, atol=1e-3)
    h, p = structure.nominal_axes, structure.nominal_points
    for i, relation in enumerate(structure.relations):
        normal = np.cross(h[i], h[i + 1])
        if relation == "parallel":
            assert np.linalg.norm(normal) < 1e-14
        if relation == "intersecting":
            assert abs((p[i + 1] - p[i]) @ normal) < 1e-14
    if structure.form == "spherical":
        assert np.ptp(p[structure.first : structure.first + 3], axis=0).max() < 1e-14


def test_arms_with_large_misalignments_of_axes_have_no_closed_form() -> None:
    structure = misaligned("ur5e", 0.0, 0.02, 0).structure
    assert structure.form is None
    assert "no three consecutive axes" in structure.reason


@each("name", ["ur5e", "puma560"])
def test_nominal_axes_of_an_arm_with_exact_axes_are_those_of_the_arm(name: str) -> None:
    structure = sp.load(name).structure
    assert structure.exact
    assert structure.misalignment < 1e-14
    h, d = structure.axes, structure.nominal_points - structure.points
    assert np.abs(np.cross(h, d)).max() < 1e-14  # points are moved only along their axes


def test_a_panda_with_its_last_joint_frozen_has_a_closed_form() -> None:
    """Axes 1 to 3 of a Panda intersect in the shoulder."""
    structure = sp.load("panda").freeze({"panda_joint7": 0.4}).structure
    assert (structure.form, structure.first, structure.exact) == ("spherical", 0, True)


def test_the_text_of_a_structure_names_its_closed_form() -> None:
    text = str(sp.load("puma560").structure)
    assert "joint4 × joint5 × joint6" in text
    assert re.search("closed form: joint4, joint5, joint6 intersect", text)
    assert "the arm has 7 joints, not 6" in str(sp.load("panda").structure)
    assert "misaligned by up to" in str(misaligned("ur5e", 1e-4, 0.0, 1).structure)
    assert repr(sp.load("ur5e").structure) == "<Structure of 6 joints, closed form: parallel>"
