"""Robots whose configuration has quaternions, in a real Chromium: `make test-view`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import supple as sp
from supple.view.posture import followed_frames
from supple.view.viewer import Viewer

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    with Viewer(sp.load("ur5e").with_base("floating"), port=8766) as made:
        yield made


def test_the_base_has_a_gizmo_and_sliders_of_its_rotation_vector(tab: Any, viewer: Viewer) -> None:
    simulation = viewer.simulation
    robot = simulation.robot
    assert len(viewer.gizmos._handles) == len(followed_frames(robot)) == len(robot.tips) + 1
    tab.page.get_by_role("tab").first.wait_for()
    tab.page.get_by_text("Joints", exact=True).click()
    tab.wait_for(lambda: "elbow_joint" in tab.text())
    assert "base/x" in tab.text()
    assert "base/qw" not in tab.text()
    assert "base/rx" in tab.text()
    before = simulation.q
    moved = simulation.targets[-1]
    moved[2, 3] += 0.1
    viewer._drag(len(robot.tips), moved)
    tab.wait_for(lambda: abs(simulation.q[2] - before[2] - 0.1) < 1e-3)
    np.testing.assert_allclose(
        simulation.tip_poses(simulation.q)[0], simulation.targets[0], atol=1e-2
    )
