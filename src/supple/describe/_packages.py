"""Folders of ROS packages, which robot files name in package://name/... and $(find name)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from supple.errors import short_repr

_PATHS = ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH")
_MAX_BYTES = 100_000  # bytes at the start of a package.xml that are searched for its name


def package_folders(package: str, folder: Path | None) -> Iterator[Path]:
    """Yield the folders in which a package may be, the most likely first.

    Args:
        package: Name of the package.
        folder: Folder of the robot file, if any. The package may be this folder or a folder above
            it, or be next to one of these folders.
    """
    above = [] if folder is None else [folder, *folder.parents]
    yield from (each / package for each in above)
    yield from (each for each in above if package in (each.name, _name_in(each)))
    for path in _listed("ROS_PACKAGE_PATH"):
        yield path / package
        if path.name == package:
            yield path
    yield from (path / "share" / package for path in _listed("AMENT_PREFIX_PATH"))


def not_found(package: str) -> str:
    """Return a text that says where a package was searched for, and which variable to set."""
    values = [f"{name}={short_repr(os.environ.get(name, ''))}" for name in _PATHS]
    return (
        f"the package {short_repr(package)} was searched for above the robot file and in "
        f"{values[0]} and {values[1]}; set ROS_PACKAGE_PATH to the folder that contains it"
    )


def _listed(variable: str) -> list[Path]:
    paths = os.environ.get(variable, "").split(os.pathsep)
    return [Path(path) for path in paths if path]


def _name_in(folder: Path) -> str:
    """Return the name in the package.xml of a folder, empty without one."""
    try:
        with (folder / "package.xml").open("rb") as file:
            found = re.search(rb"<name>\s*([\w.-]+)\s*</name>", file.read(_MAX_BYTES))
    except OSError:
        return ""
    return found[1].decode() if found else ""
