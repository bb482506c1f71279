"""Fixtures with Chromium and a page of the viewer in it."""

from __future__ import annotations

import ctypes.util
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import supple as sp

pytest.importorskip("viser", reason="needs the extra view")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

from supple.view.viewer import Viewer  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
# Without a GPU, Mesa draws a frame about ten times as fast as SwiftShader does.
MESA = ["--use-angle=gl-egl"]
SWIFTSHADER = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SIZE = {"width": 960, "height": 480}
DPR = 0.5  # pixels drawn for each pixel of the page: a quarter of the work
PATIENCE = 120.0  # time limit [s]; a frame may take a second on a busy machine without a GPU
START = np.radians([0, -100, 110, -100, -90, 0])
LARGEST = """() => {
  const each = [...document.querySelectorAll("canvas")].map((c) => c.getBoundingClientRect());
  const r = each.sort((a, b) => b.width * b.height - a.width * a.height)[0];
  return [r.x, r.y, r.width, r.height];
}"""


class Tab:
    """A page of the viewer, and the errors that occurred in it."""

    def __init__(self, browser: Any, viewer: Viewer) -> None:
        self.page = browser.new_page(viewport=SIZE)
        self.page.set_default_timeout(1e3 * PATIENCE)
        self.problems: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        before = set(viewer._server.get_clients())
        self.page.goto(f"{viewer.url}/?fixedDpr={DPR}")
        self.wait_for(lambda: set(viewer._server.get_clients()) - before)
        (new,) = set(viewer._server.get_clients()) - before
        self.client = viewer._server.get_clients()[new]
        self.wait_for(lambda: self.page.evaluate("document.querySelectorAll('canvas').length > 0"))
        self.wait_for(self._laid_out)

    def _laid_out(self) -> bool:
        """Whether panels and canvas are laid out, and the server knows the camera's aspect."""
        x, _, width, height = self.canvas()
        return x > 0 and abs(self.client.camera.aspect - width / height) < 0.02

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def wait_for(self, check: Callable[[], Any]) -> None:
        """Let the page work until `check` returns something true."""
        end = time.monotonic() + PATIENCE
        while not check():
            assert time.monotonic() < end, "the condition did not become true in time"
            self.page.wait_for_timeout(50)

    def text(self) -> str:
        """The text on the page."""
        return str(self.page.evaluate("document.body.innerText"))

    def canvas(self) -> tuple[float, float, float, float]:
        """Return the corner, the width and the height of the scene on the page."""
        x, y, width, height = self.page.evaluate(LARGEST)
        return x, y, width, height

    def pixel(self, point: Any) -> tuple[float, float]:
        """Return the pixel of the page at which a point of the world is drawn."""
        camera = self.client.camera
        R = sp.pose(wxyz=np.asarray(camera.wxyz))[:3, :3]
        right, down, forward = R.T @ (np.asarray(point) - np.asarray(camera.position))
        x, y, width, height = self.canvas()
        scale = 0.5 * height / np.tan(camera.fov / 2) / forward
        return x + width / 2 + scale * right, y + height / 2 + scale * down


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    drawing = MESA if ctypes.util.find_library("EGL_mesa") else SWIFTSHADER
    with playwright.sync_playwright() as made:
        chromium = made.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--ignore-gpu-blocklist", *drawing]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    with Viewer(sp.load("ur5e"), q=START, port=8765) as made:
        yield made


@pytest.fixture
def open_tab(browser: Any, viewer: Viewer) -> Iterator[Callable[[], Tab]]:
    """Return a function that opens pages of the viewer; check at the end that none had an error."""
    tabs: list[Tab] = []

    def opened() -> Tab:
        tabs.append(Tab(browser, viewer))
        return tabs[-1]

    yield opened
    problems = [tab.problems for tab in tabs]
    for tab in tabs:
        tab.page.close()
    assert not any(problems), problems


@pytest.fixture
def tab(open_tab: Callable[[], Tab]) -> Tab:
    return open_tab()
