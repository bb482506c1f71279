"""Latency of the viewer: time from dragging a handle to the moved arm on the screen, in Chromium.

    make bench-view

A UR5e rests; the pointer holds an arrow of the handle and moves by some pixels. The page records
the times of the pointer's event, of the message to the server, of the first link poses that come
back, of the end of the rendered frame that draws them, and of its last pixel (`readPixels` waits
for it).
"""

from __future__ import annotations

import ctypes.util
import shutil
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import msgspec
import numpy as np
from playwright.sync_api import sync_playwright
from websockets.sync.client import connect

import measure
import supple as sp
from supple.view.viewer import Viewer

START = np.radians([0, -100, 110, -100, -90, 0])
MOVES, PIXELS = 20, 25
SIZE = {"width": 960, "height": 600}
DPR = 0.5  # pixels drawn per pixel of the page; few, because software rendering is slow
STAGES = {
    "message": "message sent",
    "poses": "poses of the arm received",
    "frame": "frame submitted",
    "drawn": "frame drawn",
}
# Records times in window.times, from the pointer's first event after `begin()` on. viser
# talks to its server through a worker, whose messages are intercepted.
WATCH = """
window.times = {};
window.begin = () => { window.times = {waiting: true}; };
const note = (name) => { window.times[name] ??= performance.now(); };
const asked = () => "event" in window.times && !("drawn" in window.times);
addEventListener("pointermove", () => {
  if (window.times.waiting) { window.times.waiting = false; note("event"); }
}, true);
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (data, ...rest) {
  if (asked() && data?.message?.type === "TransformControlsUpdateMessage") note("message");
  return post.call(this, data, ...rest);
};
const got = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
Object.defineProperty(Worker.prototype, "onmessage", {...got, set(handler) {
  got.set.call(this, (event) => {
    handler(event);
    const moved = (each) => each.type === "SetPositionMessage" && each.name.startsWith("/robot/");
    if (!asked() || !("message" in window.times) || "poses" in window.times) return;
    if (!(event.data.messages ?? []).some(moved)) return;
    note("poses");
    requestAnimationFrame(() => setTimeout(() => {
      note("frame");
      const all = [...document.querySelectorAll("canvas")];
      const gl = all.map((c) => c.getContext("webgl2")).find((c) => c);
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
      note("drawn");
    }, 0));
  });
}});
"""
LARGEST = """() => {
  const each = [...document.querySelectorAll("canvas")].map((c) => c.getBoundingClientRect());
  const r = each.sort((a, b) => b.width * b.height - a.width * a.height)[0];
  return [r.x, r.y, r.width, r.height];
}"""
RENDERER = """() => {
  const gl = document.createElement("canvas").getContext("webgl2");
  return gl.getParameter(gl.getExtension("WEBGL_debug_renderer_info").UNMASKED_RENDERER_WEBGL);
}"""
RATE = """() => new Promise((done) => {
  let n = 0; const since = performance.now();
  const count = () => {
    n += 1; const t = performance.now() - since;
    if (t > 3000) done(t / n); else requestAnimationFrame(count);
  };
  requestAnimationFrame(count);
})"""


def pixel(page: Any, client: Any, point: Any) -> Any:
    """Return the pixel of the page at which a point of the world is drawn."""
    camera = client.camera
    R = sp.pose(wxyz=np.asarray(camera.wxyz))[:3, :3]
    right, down, forward = R.T @ (np.asarray(point) - np.asarray(camera.position))
    x, y, width, height = page.evaluate(LARGEST)
    scale = 0.5 * height / np.tan(camera.fov / 2) / forward
    return np.array([x + width / 2 + scale * right, y + height / 2 + scale * down])


def latencies(page: Any, viewer: Viewer) -> list[dict[str, float]]:
    """Return, for each move of the pointer, the times since its event [ms] by name."""
    (client,) = viewer._server.get_clients().values()
    T = viewer.simulation.targets[0]
    at = pixel(page, client, T[:3, 3] + 0.9 * viewer.gizmos._size * T[:3, 2])
    for step in (-3, -2, -1, 0):
        page.mouse.move(*(at + step))
        page.wait_for_timeout(400)
    page.mouse.down()
    page.wait_for_timeout(1000)
    along = pixel(page, client, T[:3, 3] + 0.5 * T[:3, 2]) - at
    along = PIXELS * along / np.linalg.norm(along)
    found = []
    for k in range(MOVES):
        page.evaluate("window.begin()")
        page.mouse.move(*(at + (1 - k % 2) * along))
        end = time.monotonic() + 5
        while "drawn" not in page.evaluate("window.times") and time.monotonic() < end:
            page.wait_for_timeout(50)
        times = page.evaluate("window.times")
        if "drawn" in times:
            found.append({key: times[key] - times["event"] for key in STAGES})
        page.wait_for_timeout(1200)  # until the arm rests
    page.mouse.up()
    return found


def round_trips(viewer: Viewer) -> list[float]:
    """Return times from sending a drag message to receiving poses, without a browser [ms]."""
    T, found = viewer.simulation.targets[0], []
    protocol: Any = f"viser-v{version('viser')}"
    url = f"ws://127.0.0.1:{viewer.port}"
    with connect(url, subprotocols=[protocol], max_size=None) as socket:
        for k in range(MOVES):
            _drain(socket)
            place = (T[:3, 3] + [0.0, 0.0, 0.02 * (1 - k % 2)]).tolist()
            moved = {"name": "/targets/0", "wxyz": sp.poses.wxyz(T).tolist(), "position": place}
            drag = msgspec.msgpack.encode({"type": "TransformControlsUpdateMessage", **moved})
            began = time.perf_counter()
            socket.send(drag)
            socket.recv(timeout=10)
            found.append(1e3 * (time.perf_counter() - began))
    return found


def _drain(socket: Any) -> None:
    """Receive messages until the arm rests and the server sends nothing more."""
    with suppress(TimeoutError):
        while True:
            socket.recv(timeout=0.6)


def row(name: str, times: list[float]) -> str:
    """Return a row of the table."""
    return f"| {name} | {np.median(times):.1f} | {np.percentile(times, 90):.1f} |"


def main() -> None:
    """Measure the latencies; print the table and write it to bench/results/."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium")
    software = "gl-egl" if ctypes.util.find_library("EGL_mesa") else "swiftshader"
    args = ["--no-sandbox", "--ignore-gpu-blocklist", f"--use-angle={software}"]
    with Viewer(sp.load("ur5e"), q=START, port=8777) as viewer, sync_playwright() as made:
        draw, viewer._plots.update = viewer._plots.update, lambda _: None
        alone = round_trips(viewer)
        viewer._plots.update = draw
        browser = made.chromium.launch(executable_path=chromium, args=args)
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(120e3)
        page.add_init_script(WATCH)
        page.goto(f"{viewer.url}/?fixedDpr={DPR}")
        while not viewer._server.get_clients():
            page.wait_for_timeout(100)
        page.wait_for_timeout(8000)
        found = latencies(page, viewer)
        viewer.simulation.move_targets(True)
        page.wait_for_timeout(1000)
        frame = page.evaluate(RATE)
        renderer = page.evaluate(RENDERER)
        browser.close()
    size = f"{SIZE['width']} × {SIZE['height']} at {DPR} of the resolution"
    lines = [
        "# Latency of the viewer",
        "",
        f"A UR5e in Chromium, {size}: {len(found)} moves of a pointer that holds the gizmo, each "
        f"from rest; times after the pointer's event [ms]. Drawn by {renderer}; a moving scene "
        f"takes {frame:.0f} ms for each frame. The viewer's work ends when the poses are received; "
        "the rest is drawing by the browser, which takes one or two frames of the display on a "
        "GPU. First row: the same message from a plain socket, while no browser draws.",
        "",
        "| | median | 90th percentile |",
        "|---|---:|---:|",
        row("poses received, without a browser", alone),
    ]
    lines += [row(name, [each[key] for each in found]) for key, name in STAGES.items()]
    text = "\n".join([*lines, "", measure.provenance(["viser", "supple"]), ""])
    print(text)
    print("written to", measure.write("view", text))


if __name__ == "__main__":
    main()
