"""Points of a map in the viewer."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp

viser = pytest.importorskip("viser", reason="needs the extra view")
from supple.view.viewer import Viewer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


def test_points_of_a_map_are_shown_by_value() -> None:
    """Points with low values are vermilion, the point with the highest value is blue."""
    points = np.array([[0.3, 0, 0.2], [0.3, 0.1, 0.2], [0.3, 0.2, 0.2]])
    with Viewer(sp.load("ur5e"), port=8768) as viewer:
        viewer.show_points(points, np.array([0.25, 0.5, 1.0]), 0.02)
        np.testing.assert_allclose(viewer.points.points, points, atol=1e-3)
        low, high = viewer.points.colors[0], viewer.points.colors[2]
    assert low[0] > low[2]
    assert high[2] > high[0]
