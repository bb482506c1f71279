"""Solutions and paths in a real Chromium: `make test-view`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from supple.view.viewer import Viewer

pytestmark = pytest.mark.filterwarnings("default")


def test_a_solution_is_chosen_by_its_name(tab: Any, viewer: Viewer) -> None:
    simulation, page = viewer.simulation, tab.page
    page.get_by_text("Solutions", exact=True).click()
    page.get_by_role("button", name="Show all solutions").click()
    tab.wait_for(lambda: len(viewer.solutions) == 8)
    tab.wait_for(lambda: "8 found" in tab.text())
    page.get_by_role("combobox", name="Go to").or_(page.get_by_label("Go to")).first.click()
    page.get_by_role("option", name="4: shoulder").first.click()
    tab.wait_for(lambda: np.abs(simulation.q - viewer.solutions[3]).max() < 1e-6)
    page.get_by_role("button", name="Hide them").click()
    tab.wait_for(lambda: len(viewer.solutions) == 0)


def test_a_path_through_targets_is_followed_and_played(tab: Any, viewer: Viewer) -> None:
    simulation, page = viewer.simulation, tab.page
    page.get_by_text("Path", exact=True).click()
    add = page.get_by_role("button", name="Add target")
    add.click()
    tab.wait_for(lambda: "1 target" in tab.text())
    T = simulation.targets[0]
    T[:3, 3] += [0.0, 0.1, 0.1]
    simulation.set_target(0, T)
    add.click()
    tab.wait_for(lambda: "2 targets" in tab.text())
    page.get_by_role("button", name="Follow").click()
    tab.wait_for(lambda: viewer.path is not None)
    tab.wait_for(lambda: "on one branch" in tab.text())
    page.get_by_role("button", name="Play").click()
    tab.wait_for(lambda: simulation.replaying)
    path = viewer.path
    assert path is not None
    tab.wait_for(lambda: not simulation.replaying)
    assert np.abs(simulation.q - path.q[-1]).max() < 1e-6
    page.get_by_role("button", name="Clear").click()
    tab.wait_for(lambda: viewer.path is None)
