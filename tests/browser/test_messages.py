"""The viewer's server, without a browser: valid and invalid messages from a page."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import supple as sp

viser = pytest.importorskip("viser", reason="needs the extra view")
from websockets.sync.client import connect  # noqa: E402 - comes with viser

from supple.view.viewer import Viewer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
DRAG = "TransformControlsUpdateMessage"


def socket(viewer: Viewer) -> Any:
    protocol: Any = f"viser-v{viser.__version__}"
    return connect(f"ws://127.0.0.1:{viewer.port}", subprotocols=[protocol], max_size=None)


def message(**fields: Any) -> bytes:
    import msgspec

    made: bytes = msgspec.msgpack.encode(fields)
    return made


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


def test_malformed_messages_do_not_stop_the_viewer(viewer: Viewer) -> None:
    for data in BAD:
        with socket(viewer) as ours:
            ours.send(data)
            time.sleep(0.3)
    assert np.isfinite(viewer.simulation.q).all()
    assert np.isfinite(viewer.simulation.targets).all()
    assert viewer._thread.is_alive()
    with socket(viewer) as again:
        assert again.recv(timeout=20)


def test_a_drag_message_moves_the_arm_and_gets_a_reply(viewer: Viewer) -> None:
    q, T = viewer.simulation.q, viewer.simulation.targets[0]
    with socket(viewer) as ours:
        rest(ours)
        place = (T[:3, 3] + [0.0, 0.0, 0.05]).tolist()
        wxyz = sp.poses.wxyz(T).tolist()
        ours.send(message(type=DRAG, name="/targets/0", wxyz=wxyz, position=place))
        assert ours.recv(timeout=20)
    np.testing.assert_allclose(viewer.simulation.targets[0][:3, 3], place, atol=1e-9)
    assert np.abs(viewer.simulation.q - q).max() > 0


def rest(ours: Any) -> None:
    """Wait until the arm rests and nothing is left to send."""
    for _ in range(2000):
        try:
            ours.recv(timeout=1.0)
        except TimeoutError:
            return
    pytest.fail("the server never rests")


def test_the_viewer_accepts_connections_from_this_machine_only(viewer: Viewer) -> None:
    assert viewer._server.get_host() == "127.0.0.1"
