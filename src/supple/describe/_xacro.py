"""Expansion of xacro files, by the package of that name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from threading import Lock
from typing import Any

from supple.describe._packages import not_found, package_folders
from supple.errors import DescriptionError, InputError, MissingExtraError, short_repr

_LOCK = Lock()  # xacro keeps the files that it reads in global variables


def is_xacro(source: object) -> bool:
    """Return whether a path names a xacro file, by its suffix."""
    return isinstance(source, str | PurePath) and str(source).endswith(".xacro")


def expanded(path: Path, arguments: Mapping[str, object]) -> str:
    """Return the text of a xacro file after its expansion.

    Args:
        path: Path of the file.
        arguments: Values of <xacro:arg> elements, by name.

    Raises:
        DescriptionError: The file cannot be expanded, or a package was not found.
        MissingExtraError: The package xacro is not installed.
    """
    try:
        import xacro
        from xacro import substitution_args
    except ModuleNotFoundError as error:
        raise MissingExtraError("xacro", "expanding a xacro file") from error
    given: object = arguments
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InputError(f"xacro_args must map names to values; given: {short_repr(given)}")
    folder = path.resolve().parent

    def find(package: str) -> str:
        for each in package_folders(package, folder):
            if each.is_dir():
                return str(each)
        raise DescriptionError(f"$(find {package}): {not_found(package)}.")

    # xacro finds packages with a package of ROS 2 that is not on PyPI: `find` replaces it.
    names: dict[str, Any] = substitution_args._eval_dict
    with _LOCK:
        before = substitution_args._eval_find, names["find"]
        substitution_args._eval_find = names["find"] = find
        try:
            values = {name: str(value) for name, value in arguments.items()}
            return str(xacro.process_file(str(path), mappings=values).toxml())
        except Exception as error:  # xacro evaluates expressions, which may raise anything
            cause = getattr(error, "exc", None) or error
            raise DescriptionError(f"xacro: {cause}") from error
        finally:
            substitution_args._eval_find, names["find"] = before
