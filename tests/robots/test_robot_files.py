"""Every URDF and MJCF file of many wheels is read, or refused for a true reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import mujoco
import numpy as np
import pytest
from refusals import FRAGMENT, NO_ORACLE, REFUSALS, STILL

from robots_files import root_of
from robots_judge import Reading
from robots_oracle import kinematics_of

WHEELS = 8
MOVING = re.compile(r"<joint[^>]*\stype\s*=\s*['\"](revolute|continuous|prismatic)['\"]")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep MuJoCo from writing warnings to a file."""
    mujoco.set_mju_user_warning(lambda _: None)
    yield
    mujoco.set_mju_user_warning(None)


def expected(file: str) -> str | None:
    """Return a phrase of the expected error, or None for a file that can be read."""
    return next((phrase for pattern, phrase in REFUSALS if fnmatch(file, pattern)), None)


def test_the_collected_robots_come_from_at_least_eight_packages(readings: list[Reading]) -> None:
    used = {one.file.split("/")[0] for one in readings if not one.error}
    assert len(used) >= WHEELS


def test_robot_files_are_refused_with_the_listed_phrases_and_all_others_are_read(
    readings: list[Reading],
) -> None:
    wrong = []
    for one in readings:
        phrase = expected(one.file)
        if phrase is None and one.error:
            wrong.append(f"{one.file} is refused: {one.error}")
        elif phrase is not None and not one.error:
            wrong.append(f"{one.file} is read; expected: {phrase}")
        elif phrase is not None and (phrase not in one.error or one.kind != "DescriptionError"):
            wrong.append(f"{one.file} is refused by {one.kind}: {one.error}; expected: {phrase}")
    assert not wrong, "\n".join(wrong)


def test_every_listed_refusal_fits_a_robot_file(readings: list[Reading]) -> None:
    met = {pattern for one in readings for pattern, _ in REFUSALS if fnmatch(one.file, pattern)}
    assert {pattern for pattern, _ in REFUSALS} == met


def test_urdf_files_refused_as_immobile_have_no_moving_joint(readings: list[Reading]) -> None:
    for one in readings:
        if STILL in one.error and one.path.suffix == ".urdf":
            text = re.sub(r"<!--.*?-->", "", one.path.read_text("utf-8"), flags=re.DOTALL)
            if "xacro:macro" not in text:  # joints in a macro become joints of other files
                assert not MOVING.search(text), one.file


def test_mujoco_refuses_the_refused_mjcf_files_or_finds_no_hinge_or_slide(
    readings: list[Reading],
) -> None:
    single = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
    for one in readings:
        if not one.error or one.path.suffix == ".urdf":
            continue
        try:
            model = kinematics_of(one.path)
        except ValueError:
            assert STILL not in one.error, one.file
        else:
            assert not {int(kind) for kind in model.jnt_type} & single, one.file


def test_the_reduced_mujoco_model_has_the_poses_of_the_whole_model(
    readings: list[Reading],
) -> None:
    compared = 0
    for one in readings:
        if one.error or one.no_oracle or root_of(one.path) != "mujoco":
            continue
        try:
            whole = mujoco.MjModel.from_xml_path(str(one.path))
        except ValueError:  # a mesh is missing
            continue
        part = kinematics_of(one.path)
        np.testing.assert_array_equal(part.qpos0, whole.qpos0)
        q = whole.qpos0 + np.random.default_rng(3).uniform(-1, 1, whole.nq)
        here, there = _frames(part, q), _frames(whole, q)
        assert there, one.file
        for name, pose in there.items():  # the whole model may lack bodies that MuJoCo fused
            np.testing.assert_allclose(here[name], pose, atol=1e-12, err_msg=one.file)
        compared += 1
    assert compared > 80


def _frames(model: mujoco.MjModel, q: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
    """Return the poses of all bodies and sites that have a name."""
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    every = {("body", model.body(i).name): data.body(i) for i in range(1, model.nbody)}
    every |= {("site", model.site(i).name): data.site(i) for i in range(model.nsite)}
    return {key: np.append(one.xmat, one.xpos) for key, one in every.items() if key[1]}


def test_files_with_the_root_mujocoinclude_and_no_others_are_refused_as_fragments(
    readings: list[Reading],
) -> None:
    for one in readings:
        assert (FRAGMENT in one.error) == (root_of(Path(one.path)) == "mujocoinclude"), one.file


def test_only_the_listed_files_that_mujoco_refuses_are_not_compared_with_it(
    readings: list[Reading],
) -> None:
    without = {one.file: one.no_oracle for one in readings if one.no_oracle}
    assert without.keys() == NO_ORACLE.keys()
    for file, said in without.items():
        assert NO_ORACLE[file] in said, file


def test_forward_kinematics_agree_with_pinocchio_and_mujoco(readings: list[Reading]) -> None:
    read = [one for one in readings if not one.error and not one.no_oracle]
    assert all(one.frames for one in read), [one.file for one in read if not one.frames]
    worst = max(read, key=lambda one: one.fk_error)
    frames, without = sum(one.frames for one in read), [o.file for o in readings if o.no_oracle]
    print(f"\n{frames} frames, worst {worst.fk_error:.1e} in {worst.file}; no oracle: {without}")
    assert worst.fk_error <= 1e-12, worst.file
