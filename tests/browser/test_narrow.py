"""In a narrow window the panels leave room for the robot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import supple as sp
from supple.view.viewer import Viewer

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    with Viewer(sp.load("panda"), port=8767) as made:
        yield made


@pytest.mark.parametrize("width", [900, 1000, 1400])
def test_the_target_handle_is_visible_between_the_panels(
    tab: Any, viewer: Viewer, width: int
) -> None:
    tab.page.set_viewport_size({"width": width, "height": 700})
    T = viewer.simulation.targets[0]
    reach = [T[:3, 3] + sign * viewer.gizmos._size * T[:3, k] for k in range(3) for sign in (-1, 1)]

    def inside() -> bool:
        x, y, wide, high = tab.canvas()
        places = [tab.pixel(point) for point in reach]
        return all(x < u < x + wide and y < v < y + high for u, v in places)

    tab.wait_for(inside)
