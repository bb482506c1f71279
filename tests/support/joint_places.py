"""The places that must know every type of joint, according to CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

DESCRIBE, KINEMATICS = "src/supple/describe", "src/supple/kinematics"
KINDS = f"{DESCRIBE}/joint.py"
SEVERAL = ("ball", "planar", "floating")  # types with several degrees of freedom
TURNING = ("revolute", "continuous")  # types whose coordinate is an angle
URDF = (*TURNING, "prismatic", "planar", "floating", "fixed")  # types that a URDF file can state


class Place(NamedTuple):
    """A function, a class or a table that treats types of joints differently.

    Attributes:
        file: The file.
        name: The function, class or table; empty for the whole text.
        others: The types that the place treats alike without naming them.
    """

    file: str
    name: str
    others: tuple[str, ...] = ()


PLACES = (
    Place(KINDS, "Kind"),
    Place(KINDS, "Joint"),  # its docstring
    Place(f"{DESCRIBE}/_validate.py", "KINDS", SEVERAL),
    Place(f"{DESCRIBE}/_pose.py", "motion", (*SEVERAL, "fixed")),
    Place(f"{KINEMATICS}/tree.py", "_parts", (*TURNING, "fixed")),
    Place(f"{KINEMATICS}/tree.py", "slides", (*TURNING, *SEVERAL, "screw", "fixed")),
    Place(f"{KINEMATICS}/to_urdf.py", "to_urdf", URDF),
    Place(f"{KINEMATICS}/to_mujoco.py", "_parts", (*TURNING, "fixed")),
    Place(f"{KINEMATICS}/to_pinocchio.py", "_joint_model", ("revolute", "fixed")),
    Place("src/supple/plot/shape.py", "", (*TURNING, *SEVERAL, "fixed")),
    Place("docs/robots.md", ""),
    Place("tests/support/generated.py", "", ("continuous", *SEVERAL, "fixed")),
)
FILES = tuple(dict.fromkeys(place.file for place in PLACES))


def forgotten(root: Path) -> list[str]:
    """Return a sentence for each place that does not mention a type of joint."""
    text = {file: (root / file).read_text(encoding="utf-8") for file in FILES}
    return [
        f"{place.file}: {place.name or 'the text'} lacks {kind!r}"
        for kind in kinds(text[KINDS])
        for place in PLACES
        if kind not in place.others
        and not re.search(rf"\b{kind}\b", part(text[place.file], place.name))
    ]


def kinds(text: str) -> list[str]:
    """Return the names of all types: the entries of KINDS, VELOCITIES and the Literal `Kind`."""
    found = (re.findall(r'"(\w+)"', part(text, name)) for name in ("Kind", "VELOCITIES"))
    names = [name for each in found for name in each]
    return [name for name in dict.fromkeys(names) if name not in ("x", "y", "z", "rx", "ry", "rz")]


@cache  # most files are the same in every copy of the tree
def part(text: str, name: str) -> str:
    """Return the text of a function, class or table of a Python file; the whole text if ""."""
    if not name:
        return text
    return "\n".join(_parts(text, name))


def _parts(text: str, name: str) -> Iterator[str]:
    lines = text.splitlines()
    for node in ast.parse(text).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names = {getattr(one, "id", None) for one in targets} | {getattr(node, "name", None)}
        if name in names:
            yield "\n".join(lines[node.lineno - 1 : node.end_lineno])


def of_motions(root: Path) -> list[str]:
    """Return the files of the kernel and of the chain that depend on how a joint moves."""
    compiled = re.compile(r"Motion::\w+|\bballs\b|\.ball\b")
    python = re.compile(r"\bMotion\.[A-Z]|\bis_part_of_ball\b")
    found = []
    for path in sorted(path for top in ("include", "src") for path in (root / top).rglob("*")):
        if path.suffix in (".hpp", ".cpp", ".cu"):
            known = compiled.search(re.sub(r"//.*", "", path.read_text(encoding="utf-8")))
        else:
            known = path.suffix == ".py" and python.search(path.read_text(encoding="utf-8"))
        if known:
            found.append(path.relative_to(root).as_posix())
    return found
