"""Every URDF and MJCF file of many wheels is read, or refused for a reason that is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import mujoco
import pytest
from refusals import FRAGMENT, NO_PART, REFUSALS, STILL

from robots_files import root_of
from robots_judge import Reading

WHEELS = 8
MOVING = re.compile(r"<joint[^>]*\stype\s*=\s*['\"](revolute|continuous|prismatic)['\"]")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """MuJoCo writes no warnings to a file."""
    mujoco.set_mju_user_warning(lambda _: None)
    yield
    mujoco.set_mju_user_warning(None)


def expected(file: str) -> str | None:
    """A phrase of the refusal, None for a file that is read."""
    return next((phrase for pattern, phrase in REFUSALS if fnmatch(file, pattern)), None)


def test_there_are_robots_of_at_least_eight_wheels(readings: list[Reading]) -> None:
    used = {one.file.split("/")[0] for one in readings if not one.error}
    assert len(used) >= WHEELS


def test_every_file_is_read_or_refused_as_expected(readings: list[Reading]) -> None:
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


def test_every_expected_refusal_is_met(readings: list[Reading]) -> None:
    met = {pattern for one in readings for pattern, _ in REFUSALS if fnmatch(one.file, pattern)}
    assert {pattern for pattern, _ in REFUSALS} == met


def test_what_is_said_not_to_move_has_no_moving_joint(readings: list[Reading]) -> None:
    for one in readings:
        if STILL not in one.error:
            continue
        if one.path.suffix == ".urdf":
            text = re.sub(r"<!--.*?-->", "", one.path.read_text("utf-8"), flags=re.DOTALL)
            if "xacro:macro" not in text:  # (joints of a macro are those of other files)
                assert not MOVING.search(text), one.file
        else:
            model = mujoco.MjModel.from_xml_path(str(one.path))
            kinds = {int(kind) for kind in model.jnt_type}
            single = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
            assert not kinds & single, one.file


def test_mujoco_refuses_too_what_it_is_said_to_refuse(readings: list[Reading]) -> None:
    for one in readings:
        if "MuJoCo does not accept" in one.error or NO_PART in one.error:
            with pytest.raises(ValueError, match=r"."):
                mujoco.MjModel.from_xml_path(str(one.path))


def test_fragments_are_no_models(readings: list[Reading]) -> None:
    for one in readings:
        assert (FRAGMENT in one.error) == (root_of(Path(one.path)) == "mujocoinclude"), one.file


def test_forward_kinematics_agree_with_pinocchio_and_mujoco(readings: list[Reading]) -> None:
    read = [one for one in readings if not one.error]
    assert all(one.frames for one in read), [one.file for one in read if not one.frames]
    worst = max(read, key=lambda one: one.fk_error)
    print(f"\n{sum(one.frames for one in read)} frames, worst {worst.fk_error:.1e} in {worst.file}")
    assert worst.fk_error <= 1e-12, worst.file
