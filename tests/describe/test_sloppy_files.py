"""Sloppy files are read as they are meant, or refused by an error that names defect and remedy.

All defects occur in public files, among them nine files of pybullet_data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cases import each
from sizes import nightly
from supple.describe import Description, urdf
from supple.errors import DescriptionError
from warned import warned

SEEDS = range(nightly(20, 7))


def numbers(random: np.random.Generator) -> str:
    return " ".join(f"{x:.6g}" for x in random.normal(size=3))


def arm(random: np.random.Generator) -> str:
    """Return a chain of one to six joints with random origins, axes and limits."""
    count = int(random.integers(1, 7))
    links = "".join(f'<link name="l{k}"/>\n' for k in range(count + 1))
    joints = "".join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/>\n'
        f'<origin xyz="{numbers(random)}" rpy="{numbers(random)}"/>\n'
        f'<axis xyz="{numbers(random)}"/>\n'
        f'<limit lower="-{random.uniform(0.1, 3):.4g}" upper="2" velocity="1" effort="1"/></joint>'
        for k in range(count)
    )
    return f'<?xml version="1.0"?>\n<robot name="arm">{links}{joints}</robot>\n'


def with_commas(text: str, random: np.random.Generator) -> str:
    mark = str(random.choice([", ", ","]))
    lines = text.split('xyz="')
    k = int(random.integers(1, len(lines)))
    head, quote, tail = lines[k].partition('"')
    lines[k] = head.replace(" ", mark) + quote + tail
    return 'xyz="'.join(lines)


def repeated(text: str, random: np.random.Generator) -> str:
    lines = text.split("\n")
    k = random.choice([k for k, line in enumerate(lines) if line.startswith(("<axis", "<origin"))])
    return "\n".join([*lines[: k + 1], lines[k], *lines[k + 1 :]])


def late(text: str, random: np.random.Generator) -> str:
    return "\n" * int(random.integers(1, 5)) + text


def ended_by_zeros(text: str, random: np.random.Generator) -> str:
    return text + "\0\n" * int(random.integers(1, 4))


def same(one: Description, other: Description) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one.joints, other.joints, strict=True)
        for name in ("name", "kind", "parent", "child", "origin", "axis", "lower", "upper")
    )


@each("seed", SEEDS)
@each(
    ("change", "warning"),
    [
        (with_commas, "xyz has commas"),
        (repeated, "has 2 equal <(axis|origin)> elements"),
        (late, ""),
        (ended_by_zeros, ""),
    ],
)
def test_harmless_defects_of_a_file_do_not_change_its_robot(
    change: Callable[..., str], warning: str, seed: int, tmp_path: Path
) -> None:
    random = np.random.default_rng(seed)
    clean = arm(random)
    file = tmp_path / "arm.urdf"
    file.write_text(change(clean, random))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        read = urdf(file)
    assert same(read, urdf(clean))
    if warning:
        with warned(f"arm.urdf': accepted, but not .*{warning}"):
            urdf(file)
    assert len(heard) == bool(warning)


def with_joint(inside: str, kind: str = "revolute") -> str:
    return (
        '<robot name="r"><link name="a"/><link name="b"/><link name="c"/>'
        f'<joint name="j" type="{kind}"><parent link="a"/><child link="b"/>{inside}</joint>'
        '<joint name="k" type="continuous"><parent link="b"/><child link="c"/></joint></robot>'
    )


@each(
    ("text", "defect", "remedy"),
    [
        (
            with_joint('<limit lower="1" upper="-1"/>'),
            "'j': the lower limit is above the upper one, given lower=1, upper=-1",
            "Swap them, or remove them",
        ),
        (
            with_joint('<origin xyz="$(optenv XYZ 0 0 0)"/>'),
            "'j': <origin> xyz: expected 3 numbers, given",
            "expand the file with xacro",
        ),
        (
            with_joint('<origin rpy="-3.14159 1.57079 0 0"/>'),
            "'j': <origin> rpy: expected 3 numbers, given '-3.14159 1.57079 0 0'",
            "correct the file",
        ),
        (
            with_joint('<axis xyz="0 1 0"/><axis xyz="1 0 0"/>'),
            "'j' has 2 different <axis> elements",
            "remove the others",
        ),
        (
            with_joint('<origin xyz="0,1 0,2 0,3"/>'),  # decimal commas
            "'j': <origin> xyz: expected 3 numbers, given '0,1 0,2 0,3'",
            "correct the file",
        ),
        (
            with_joint('<limit lower="-0,5" upper="1"/>'),
            "'j': <limit> lower: expected 1 number, given '-0,5'",
            "correct the file",
        ),
    ],
)
def test_a_refusal_names_the_defect_and_a_remedy(text: str, defect: str, remedy: str) -> None:
    with pytest.raises(DescriptionError) as found:
        urdf(text)
    assert defect in str(found.value)
    assert remedy in str(found.value)


def test_a_spherical_joint_can_be_welded() -> None:
    assert [j.name for j in urdf(with_joint("", "spherical"), fixed="j").joints if j.moves] == ["k"]


def test_the_line_of_a_mistake_counts_blank_lines_at_the_beginning(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text('\n\n\n<?xml version="1.0"?>\n<robot name="r">\n<link</robot>')
    with pytest.raises(DescriptionError, match="at line 6, column"):
        urdf(file)
