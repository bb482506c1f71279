"""Fixtures of the tests of the GPU: skipped where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import supple

# Targets whose answers are known live beside the tests of solve, random trees beside kinematics'.
for folder in ("solve", "kinematics"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    marked = [i for i in items if i.path.is_relative_to(here) and i.get_closest_marker("cuda")]
    if marked and not supple.devices():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here, or no supple[cuda]"))
