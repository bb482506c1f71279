"""CUDA source text of a robot: the headers, its constants, and the CUDA kernels."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = tuple(_PACKAGE / name for name in ("control", "ik/gpu", "kinematics", "include"))
_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_GIVEN = "given.hpp"  # header that the kernels include, generated for each robot
_PLACE = f"//// {_GIVEN}\n"  # placeholder for the content of given.hpp


def source(
    name: str,
    constants: str = "",
    rough: str = "float",
    several: bool = False,
    world: tuple[int, int, int] = (0, 0, 0),
) -> str:
    """Return the source of a file of CUDA kernels for one robot, with all includes inlined.

    Args:
        name: Name of the file, for example "search.cu".
        constants: Content of given.hpp: `constants()` of the compiled robot and tasks.
        rough: Floating-point type of the search, "float" or "double".
        several: Whether several solutions are compared, instead of returning the first.
        world: Numbers of joints, coordinates and moving bodies of the robot in a world; zeros
            without a world.
    """
    joints, coordinates, bodies = world
    ways = (
        f"using SearchReal = {rough};\nconstexpr bool several = {str(several).lower()};\n"
        f"constexpr int world_joints = {joints}, world_coordinates = {coordinates};\n"
        f"constexpr int world_bodies = {bodies};\n"
    )
    return _general(name).replace(_PLACE, f"namespace supple {{\n{ways}}}\n{constants}")


@lru_cache
def constant_of(name: str, constant: str) -> int:
    """Return the value of an integer constant in a file of CUDA kernels."""
    found = re.search(rf"\bconstexpr int (?:\w+ = \w+, )*{constant} = (\d+)\b", _own(name))
    assert found is not None, constant
    return int(found[1])


@lru_cache
def block_size(name: str, kernel: str) -> int:
    """Return the number of threads in the blocks for which a CUDA kernel is compiled."""
    found = re.search(rf"__launch_bounds__\((\w+)[^)]*\)\s+{kernel}\(", _own(name))
    assert found is not None, kernel
    return int(found[1]) if found[1].isdigit() else constant_of(name, found[1])


def _own(name: str) -> str:
    """Return the text of a file, without its includes."""
    return next(p for p in (f / name for f in _FOLDERS) if p.is_file()).read_text("utf-8")


@lru_cache(maxsize=16)
def _general(name: str) -> str:
    """Return the source that all robots share, with a placeholder for the constants."""
    seen: set[str] = set()

    def whole(text: str) -> str:
        return _INCLUDE.sub(lambda found: included(found[1]), text.replace("#pragma once\n", ""))

    def included(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        if name == _GIVEN:
            return _PLACE
        return whole(_own(name))

    return included(name)
