"""The viewer in a real Chromium: `make test-view`. It may be slow without a GPU."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import supple as sp

viser = pytest.importorskip("viser", reason="needs the extra view")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
from websockets.sync.client import connect  # noqa: E402 - comes with viser

from supple.view import viewer as module  # noqa: E402
from supple.view.viewer import Viewer  # noqa: E402

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
SIZE = {"width": 1000, "height": 480}
LARGEST = """() => {
  const each = [...document.querySelectorAll("canvas")].map((c) => c.getBoundingClientRect());
  const r = each.sort((a, b) => b.width * b.height - a.width * a.height)[0];
  return [r.x, r.y, r.width, r.height];
}"""
PATIENCE = 180.0  # without a GPU a frame may take seconds [s]
pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as made:
        software = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        chromium = made.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--ignore-gpu-blocklist", *software]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def shown() -> Iterator[Viewer]:
    with Viewer(sp.load("ur5e"), q=np.radians([0, -100, 110, -100, -90, 0]), port=8765) as viewer:
        yield viewer


class Tab:
    """A page of the viewer, and what went wrong in it."""

    def __init__(self, browser: Any, viewer: Viewer) -> None:
        self.page = browser.new_page(viewport=SIZE)
        self.page.set_default_timeout(1e3 * PATIENCE)
        self.problems: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        before = set(viewer._server.get_clients())
        self.page.goto(viewer.url)
        wait_for(self.page, lambda: set(viewer._server.get_clients()) - before)
        (new,) = set(viewer._server.get_clients()) - before
        self.client = viewer._server.get_clients()[new]
        self.page.wait_for_selector("canvas", state="attached")
        wait_for(self.page, lambda: abs(self.client.camera.aspect) > 0)

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def pixel(self, point: Any) -> tuple[float, float]:
        """Where a point of the world is on the page."""
        camera = self.client.camera
        R = sp.pose(wxyz=np.asarray(camera.wxyz))[:3, :3]
        right, down, forward = R.T @ (np.asarray(point) - np.asarray(camera.position))
        x, y, width, height = self.page.evaluate(LARGEST)
        scale = 0.5 * height / np.tan(camera.fov / 2) / forward
        return x + width / 2 + scale * right, y + height / 2 + scale * down


def wait_for(page: Any, check: Callable[[], Any], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "nothing happened in the browser"
        page.wait_for_timeout(100)


def drag(tab: Tab, viewer: Viewer, along: Any, times: int = 12) -> None:
    """Drag the arrow of the gizmo that points along x, y or z of its target."""
    T = viewer.simulation.targets[0]
    size = viewer.gizmos._size
    axis = T[:3, :3] @ np.asarray(along)
    start = tab.pixel(T[:3, 3] + 0.75 * size * axis)
    end = tab.pixel(T[:3, 3] + (0.75 * size + 1.0) * axis)
    mouse = tab.page.mouse
    mouse.move(*start)
    tab.page.wait_for_timeout(1500)
    mouse.down()
    tab.page.wait_for_timeout(500)
    for share in np.linspace(0, 1, times):
        mouse.move(*(np.array(start) + share * (np.array(end) - start)))
        tab.page.wait_for_timeout(300)
    mouse.up()


def test_dragging_moves_the_arm_through_a_singularity(browser: Any, shown: Viewer) -> None:
    """The arm is pulled straight: σ falls to nearly zero, and no joint exceeds its limit."""
    tab = Tab(browser, shown)
    before, fastest, least = shown.simulation.q, [0.0], [1.0]
    real = shown.simulation.advance

    def advance(seconds: float) -> Any:
        made = real(seconds)
        fastest.append(float(np.abs(made.speeds).max()))
        least.append(made.sigma_min)
        return made

    shown.simulation.advance = advance  # type: ignore[method-assign]
    home = shown.simulation.targets[0]
    for _ in range(6):
        drag(tab, shown, [0, 0, 1] if abs(home[0, 2]) > 0.5 else [1, 0, 0])
        if np.linalg.norm(shown.simulation.targets[0][:3, 3] - home[:3, 3]) > 0.3:
            break
    wait_for(tab.page, lambda: np.abs(shown.simulation.q - before).max() > 0.1)
    assert np.linalg.norm(shown.simulation.targets[0][:3, 3] - home[:3, 3]) > 0.1
    far = shown.simulation.targets[0]
    far[:3, 3] = 3 * far[:3, 3]
    shown.simulation.set_target(0, far)
    wait_for(tab.page, lambda: min(least) < 0.02)
    assert max(fastest) <= 1 + 1e-9
    assert tab.problems == []
    tab.page.close()


def test_numbers_and_plots_follow(browser: Any, shown: Viewer) -> None:
    tab = Tab(browser, shown)
    wait_for(tab.page, lambda: "σ_min" in tab.page.inner_text("body"))
    words = lambda: tab.page.inner_text("body").partition("error")[2][:12]  # noqa: E731
    before = words()
    curves = [np.array(each) for each in shown._plots._errors.data]
    T = shown.simulation.targets[0]
    T[:3, 3] += [0.1, 0.9, 0.2]
    shown.simulation.set_target(0, T)
    wait_for(tab.page, lambda: words() != before)
    wait_for(tab.page, lambda: shown._plots._errors.data[1].max() > curves[1].max())
    assert tab.page.locator(".uplot canvas").count() == 3
    assert tab.problems == []
    tab.page.close()


def test_two_tabs_show_the_same_and_one_may_close(browser: Any, shown: Viewer) -> None:
    first, second = Tab(browser, shown), Tab(browser, shown)
    assert len(shown._server.get_clients()) == 2
    first.page.close()
    wait_for(second.page, lambda: len(shown._server.get_clients()) == 1)
    q = shown.simulation.q
    T = shown.simulation.targets[0]
    T[:3, 3] += 0.05
    shown.simulation.set_target(0, T)
    wait_for(second.page, lambda: np.abs(shown.simulation.q - q).max() > 0.01)
    assert shown._thread.is_alive()
    assert first.problems == second.problems == []
    second.page.close()


def socket(viewer: Viewer) -> Any:
    protocol: Any = f"viser-v{viser.__version__}"
    return connect(f"ws://127.0.0.1:{viewer.port}", subprotocols=[protocol], max_size=None)


def message(**fields: Any) -> bytes:
    import msgspec

    made: bytes = msgspec.msgpack.encode(fields)
    return made


DRAG = "TransformControlsUpdateMessage"
BAD = [
    b"",
    b"\x00\xff nothing",
    b"text",
    message(type="Nothing"),
    message(type=DRAG),
    message(type=DRAG, name="/targets/9", wxyz=[1, 0, 0, 0], position=[0, 0, 0]),
    message(type=DRAG, name="/targets/0", wxyz=[1, 0, 0, 0], position=[float("nan")] * 3),
    message(type=DRAG, name="/targets/0", wxyz=[0, 0, 0, 0], position=[1e308] * 3),
    message(type="GuiUpdateMessage", uuid="x", updates={"value": 1}),
]


def test_malformed_messages_do_no_harm(shown: Viewer) -> None:
    for data in BAD:
        with socket(shown) as ours:
            ours.send(data)
            time.sleep(0.3)
    assert np.isfinite(shown.simulation.q).all()
    assert np.isfinite(shown.simulation.targets).all()
    assert shown._thread.is_alive()
    with socket(shown) as again:
        assert again.recv(timeout=20)


def test_it_listens_to_this_machine_alone(shown: Viewer) -> None:
    assert shown._server.get_host() == "127.0.0.1"


def quiet(ours: Any) -> None:
    """Wait until the arm rests and nothing is left to send."""
    for _ in range(2000):
        try:
            ours.recv(timeout=1.0)
        except TimeoutError:
            return
    pytest.fail("the server never rests")


def test_a_drag_comes_back_soon(shown: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the message of a drag to the message of the moved arm: one frame of the loop."""
    monkeypatch.setattr(module, "_WORDS", 1e9)
    monkeypatch.setattr(module, "_CURVES", 1e9)
    times = []
    with socket(shown) as ours:
        quiet(ours)
        for k in range(15):
            T = shown.simulation.targets[0]
            place = (T[:3, 3] + [0.0, 0.0, 0.004 * (-1) ** k]).tolist()
            wxyz = sp.poses.wxyz(T).tolist()
            began = time.perf_counter()
            ours.send(
                message(
                    type="TransformControlsUpdateMessage",
                    name="/targets/0",
                    wxyz=wxyz,
                    position=place,
                )
            )
            ours.recv(timeout=10)
            times.append(time.perf_counter() - began)
            quiet(ours)
    print(f"drag to message: median {1e3 * np.median(times):.1f} ms")
    assert np.median(times) < 1.0  # timings are measured by hand: CONTRIBUTING.md
