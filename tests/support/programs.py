"""The programs in `tools/` as modules, for tests that run parts of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def tool(name: str) -> ModuleType:
    """Return the program `tools/<name>.py` as a module."""
    path = Path(__file__).parents[2] / f"tools/{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
