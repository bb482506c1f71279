"""The recipe for a type of joint in CONTRIBUTING.md, followed in a copy of the tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from joint_places import FILES, KINDS, PLACES, forgotten, kinds, of_motions, part

ROOT = Path(__file__).parents[2]
NEW = "cycloid"  # a joint that rolls: its axis moves along a line as it turns
# Additions of the recipe, by place: file, text before which to insert, and inserted text.
ADDITIONS = {
    (KINDS, "Kind"): ('"fixed"\n]', '"cycloid", '),
    (KINDS, "Joint"): ("    `motion` rotates about", "    A cycloid joint rolls.\n"),
    ("src/supple/describe/_validate.py", "KINDS"): ("*VELOCITIES, ", '"cycloid", '),
    ("src/supple/describe/_pose.py", "motion"): (
        '    if kind == "screw":',
        '    if kind == "cycloid":\n        return rotation(axis, value)\n',
    ),
    ("src/supple/kinematics/tree.py", "_parts"): (
        '    if joint.kind == "screw":',
        '    if joint.kind == "cycloid":\n        return [alone, alone]\n',
    ),
    ("src/supple/kinematics/tree.py", "slides"): (
        '    return joint.kind == "prismatic"\n\n\ndef _parts',
        "    # a cycloid joint turns\n",
    ),
    ("src/supple/kinematics/to_urdf.py", "to_urdf"): ('"screw")]', '"cycloid", '),
    ("src/supple/kinematics/to_mujoco.py", "_parts"): (
        '    elif joint.kind == "ball":\n        yield',
        '    elif joint.kind == "cycloid":\n        yield joint.name, "hinge", joint.axis\n',
    ),
    ("src/supple/kinematics/to_pinocchio.py", "_joint_model"): (
        '    if joint.kind == "screw":\n        made',
        '    if joint.kind == "cycloid":\n        raise DescriptionError\n',
    ),
    ("src/supple/plot/shape.py", ""): ('"screw"):', '"cycloid", '),
    ("docs/robots.md", ""): ("screw, ball, planar", "cycloid, "),
    ("tests/support/generated.py", ""): ('            kind, pitch = "screw"', "# cycloid\n"),
}


def followed(folder: Path, left_out: tuple[str, str] | None = None) -> list[str]:
    """Add the new type to a copy of the files, except `left_out`; return the reported places."""
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    for place, (before, added) in ADDITIONS.items():
        if place == left_out:
            continue
        path = folder / place[0]
        text = path.read_text(encoding="utf-8")
        assert before in text, f"{place[0]} has changed: adapt ADDITIONS"
        path.write_text(text.replace(before, added + before, 1), encoding="utf-8")
    return forgotten(folder)


def test_every_type_of_joint_is_in_all_files_of_the_recipe() -> None:
    assert forgotten(ROOT) == []


def test_following_the_recipe_in_contributing_is_sufficient(tmp_path: Path) -> None:
    assert followed(tmp_path) == []
    assert NEW in kinds((tmp_path / KINDS).read_text(encoding="utf-8"))


@pytest.mark.parametrize("place", list(ADDITIONS)[1:], ids="-".join)
def test_a_step_left_out_of_the_recipe_is_reported_with_its_file(
    tmp_path: Path, place: tuple[str, str]
) -> None:
    (report,) = followed(tmp_path, left_out=place)
    assert report == f"{place[0]}: {place[1] or 'the text'} lacks '{NEW}'"


def test_every_place_of_the_recipe_exists_and_has_an_addition() -> None:
    for file, name, _ in PLACES:
        assert part((ROOT / file).read_text(encoding="utf-8"), name), (file, name)
    assert {(file, name) for file, name, _ in PLACES} == set(ADDITIONS)


def test_the_recipe_in_contributing_names_every_file() -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = recipe.partition("## Add a joint type")[2].partition("\n## ")[0]
    for file in (*FILES, *of_motions(ROOT)):
        assert Path(file).name in recipe, file
