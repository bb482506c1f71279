"""Points of a map in the viewer."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp

viser = pytest.importorskip("viser", reason="needs the extra view")
from supple.view.viewer import PARTS, Viewer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


def test_points_of_a_map_are_colored_by_value() -> None:
    """Points with low values are vermilion, the point with the highest value is blue."""
    points = np.array([[-0.3, 0, 0.2], [-0.3, 0.1, 0.2], [-0.3, 0.2, 0.2]])  # behind the robot
    with Viewer(sp.load("ur5e"), port=8768) as viewer:
        viewer.show_points(points, np.array([0.25, 0.5, 1.0]), 0.02)
        np.testing.assert_allclose(viewer.points.points, points, atol=1e-3)
        low, high = viewer.points.colors[0], viewer.points.colors[2]
    assert low[0] > low[2]
    assert high[2] > high[0]


def test_points_in_front_of_the_robot_are_not_shown_at_first() -> None:
    """No point of the part "behind the robot" is nearer to the camera than the robot's base."""
    random = np.random.default_rng(0)
    points = random.uniform(-0.8, 0.8, (2000, 3))
    robot = sp.load("ur5e").with_base(sp.pose([0.1, 0.2, 0.0]))
    with Viewer(robot, port=8768) as viewer:
        viewer.show_points(points, np.ones(len(points)), 0.02)
        camera = viewer._server.initial_camera
        toward = np.array([*(np.asarray(camera.position) - np.asarray(camera.look_at))[:2], 0.0])
        ahead = (points - robot.base[:3, 3]) @ toward
        counts = {}
        for part in PARTS:
            viewer.map_part.value = part
            shown = np.asarray(viewer.points.points)
            counts[part] = len(shown)
            if part == "behind the robot":
                assert ((shown - robot.base[:3, 3]) @ toward).max() <= 1e-3
    assert counts["behind the robot"] == (ahead <= 0).sum()
    assert 0 < counts["slice"] < 200
    assert counts["whole"] == len(points)
