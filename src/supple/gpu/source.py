"""The text that the GPU's compiler gets: headers, a robot's constants, and kernels."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "motion", _PACKAGE / "ik/gpu", _PACKAGE / "include")
_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_GIVEN = "given.hpp"
_PLACE = f"//// {_GIVEN}\n"


def source(name: str, constants: str = "", rough: str = "float", several: bool = False) -> str:
    """A file of kernels for one robot, as one text without includes.

    Args:
        name: Of the file, "search.cu".
        constants: What given.hpp is: `constants()` of what the kernels are for.
        rough: The numbers of the search, "float" or "double".
        several: Whether answers are compared, and not the first one taken.
    """
    ways = f"using SearchReal = {rough};\nconstexpr bool several = {str(several).lower()};\n"
    return _general(name).replace(_PLACE, f"namespace supple {{\n{ways}}}\n{constants}")


@lru_cache(maxsize=16)
def _general(name: str) -> str:
    """The text for any robot, with a place for its constants."""
    seen: set[str] = set()

    def whole(text: str) -> str:
        return _INCLUDE.sub(lambda found: included(found[1]), text.replace("#pragma once\n", ""))

    def included(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        if name == _GIVEN:
            return _PLACE
        path = next(folder / name for folder in _FOLDERS if (folder / name).is_file())
        return whole(path.read_text("utf-8"))

    return included(name)
