"""The viewer in a real Chromium: `make test-view`. It is slow without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from supple.view.viewer import Viewer

pytestmark = pytest.mark.filterwarnings("default")


def drag(tab: Any, viewer: Viewer, axis: int, way: float, steps: int = 8) -> None:
    """Drag an arrow of the gizmo by `way` [m] along itself, in small steps."""
    T = viewer.simulation.targets[0]
    arrow = T[:3, 3] + 0.9 * viewer.gizmos._size * T[:3, axis]
    mouse = tab.page.mouse
    start, end = (np.array(tab.pixel(arrow + far * T[:3, axis])) for far in (0.0, way))
    for share in (-0.02, 0.0):  # the gizmo reacts only to a pointer that moves over it
        mouse.move(*(start + share * (end - start)))
        tab.page.wait_for_timeout(500)
    mouse.down()
    tab.page.wait_for_timeout(300)
    for share in np.linspace(0, 1, steps):
        mouse.move(*(start + share * (end - start)))
        tab.page.wait_for_timeout(150)
    mouse.up()


def outward(viewer: Viewer) -> tuple[int, float]:
    """Return the axis of the gizmo that points most away from the base, and its sign."""
    T = viewer.simulation.targets[0]
    along = T[:3, :3].T @ (T[:3, 3] / np.linalg.norm(T[:3, 3]))
    axis = int(np.argmax(np.abs(along)))
    return axis, float(np.sign(along[axis]))


def test_dragging_moves_the_arm_through_a_singularity(tab: Any, viewer: Viewer) -> None:
    """Pulled out of reach, the arm is stretched: σ nearly vanishes, speeds stay within limits."""
    simulation = viewer.simulation
    before, home = simulation.q, simulation.targets[0]
    fastest, least = [0.0], [1.0]
    advance = simulation.advance

    def watched(seconds: float) -> Any:
        made = advance(seconds)
        fastest.append(float(np.abs(made.speeds).max()))
        least.append(made.sigma_min)
        return made

    simulation.advance = watched  # type: ignore[method-assign]
    for _ in range(8):
        axis, sign = outward(viewer)
        drag(tab, viewer, axis, sign * 0.5)
        if min(least) < 0.02:
            break
    moved = simulation.targets[0][:3, 3] - home[:3, 3]
    assert np.linalg.norm(moved) > 0.3, "the gizmo was not dragged"
    tab.wait_for(lambda: min(least) < 0.02)
    assert np.abs(simulation.q - before).max() > 0.3
    assert max(fastest) <= 1 + 1e-9
    assert max(fastest) > 0.3


def test_numbers_and_plots_follow_a_moved_target(tab: Any, viewer: Viewer) -> None:
    tab.wait_for(lambda: "σ_min" in tab.text())
    words = lambda: tab.text().partition("error")[2][:12]  # noqa: E731
    before, picture = words(), chart(tab)
    highest = np.max(viewer._plots._errors.data[1])
    T = viewer.simulation.targets[0]
    T[:3, 3] += [0.1, 0.9, 0.2]
    viewer.simulation.set_target(0, T)
    tab.wait_for(lambda: words() != before)
    tab.wait_for(lambda: np.max(viewer._plots._errors.data[1]) > highest)
    tab.wait_for(lambda: chart(tab) != picture)
    assert tab.page.locator(".uplot canvas").count() == 3


def chart(tab: Any) -> str:
    """Return the pixels of the last chart as a data URL."""
    return str(tab.page.evaluate("[...document.querySelectorAll('.uplot canvas')][2].toDataURL()"))


def test_nothing_is_sent_while_the_robot_rests(viewer: Viewer) -> None:
    for _ in range(500):
        viewer.simulation.advance(0.02)
    plots, sent = viewer._plots, []
    plots.update(list(viewer.simulation.history))
    errors = plots._errors
    plots._errors = type("Watched", (), {"__setattr__": lambda *given: sent.append(given)})()
    plots.update(list(viewer.simulation.history))
    plots._errors = errors
    assert not sent


def test_controls_change_the_motion(tab: Any, viewer: Viewer) -> None:
    """A click in the panel reaches the simulation."""
    simulation = viewer.simulation
    box = tab.page.get_by_role("checkbox").first
    tab.wait_for(lambda: box.count() == 1)
    assert simulation.settings.limited
    box.click()
    tab.wait_for(lambda: not simulation.settings.limited)
    tab.page.get_by_text("Back to the start").click()
    tab.wait_for(lambda: np.abs(simulation.q - viewer.start).max() < 1e-9)


def test_two_tabs_show_the_same_motion_and_one_of_them_may_close(
    open_tab: Callable[[], Any], viewer: Viewer
) -> None:
    first, second = open_tab(), open_tab()
    simulation = viewer.simulation
    assert len(viewer._server.get_clients()) == 2
    T = simulation.targets[0]
    T[:3, 3] += [0.0, 0.9, 0.0]
    simulation.set_target(0, T)
    for tab in (first, second):
        tab.wait_for(lambda tab=tab: "following" not in tab.text())
    first.page.close()
    second.wait_for(lambda: len(viewer._server.get_clients()) == 1)
    simulation.go_to(viewer.start)
    second.wait_for(lambda: "following" in second.text())
    assert viewer._thread.is_alive()
