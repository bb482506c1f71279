"""A human and the humanoid that follows it, side by side in the browser."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import DeviceError, InputError
from supple.plot import palette
from supple.retargeting import HumanMotion, Retargeted
from supple.view.bodies import Solid, solids_of
from supple.view.file_bodies import solids_in
from supple.view.scene import Figure
from supple.view.viewer import HOST, PORT, viser_module

_MIN_FRAME_TIME = 1 / 60  # shortest time between drawn frames [s]


class Playback:
    """Plays the motion of a humanoid next to the human; `close` stops its server.

    Attributes:
        motion: The motion of the humanoid.
        human: The motion of the human.
        url: Address of the page.
        frame: Index of the frame that is shown.
    """

    def __init__(
        self,
        motion: Retargeted,
        human: HumanMotion,
        *,
        file: Path | None = None,
        beside: float = 1.0,
        host: str = HOST,
        port: int = PORT,
    ) -> None:
        """Start the server and play.

        Args:
            motion: The result of `retarget`.
            human: The human's motion that the robot follows, drawn in the size of the robot.
            file: The robot's URDF or MJCF file, for meshes.
            beside: Distance of the human to the left of the robot, along y [m].
            host: Address to listen on.
            port: Port; the next free one if it is taken.

        Raises:
            MissingExtraError: viser is not installed.
            InputError: The motions differ in their numbers of frames.
        """
        if len(motion) != len(human):
            raise InputError(
                "a robot and its human need the same number of frames; given: "
                f"{len(motion)} and {len(human)}"
            )
        viser = viser_module()
        self.motion, self.human = motion, human
        self._points = motion.scale * human.positions + [0.0, beside, 0.0]
        robot = motion.robot
        solids: list[Solid] = [] if file is None else solids_in(file, robot)[0]
        try:
            self._server = viser.ViserServer(host=host, port=port, verbose=False)
        except OSError as error:
            raise DeviceError(f"the viewer cannot listen at {host}:{port}: {error}") from error
        self.url = f"http://{host}:{self._server.get_port()}"
        self._figure = Figure(self._server, "robot", robot, solids or solids_of(robot))
        self._server.scene.add_grid("/ground", width=10.0, height=10.0)
        self._slider = self._server.gui.add_slider("frame", 0, len(motion) - 1, 1, 0)
        self._plays = self._server.gui.add_checkbox("play", initial_value=True)
        self._slider.on_update(lambda _: self.show(int(self._slider.value)))
        self.frame = -1
        self.show(0)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def show(self, frame: int) -> None:
        """Draw a frame."""
        if frame == self.frame:
            return
        self.frame = frame
        points = self._points[frame].astype(np.float32)
        with self._server.atomic():
            self._figure.place(self.motion.q[frame])
            self._server.scene.add_point_cloud(
                "/human/points", points, palette.rgb(palette.BLUE), point_size=0.02
            )
            self._server.scene.add_line_segments(
                "/human/limbs", points[self.human.limbs], palette.rgb(palette.BLUE)
            )

    def _run(self) -> None:
        """Advance the frames in real time."""
        begin = time.monotonic()
        shown = self.frame
        while not self._closed.wait(_MIN_FRAME_TIME):
            now = time.monotonic()
            if not self._plays.value or self.frame != shown:
                begin, shown = now - self.frame / self.motion.fps, self.frame
                continue
            shown = int((now - begin) * self.motion.fps) % len(self.motion)
            if shown != self.frame:
                self.show(shown)
                self._slider.value = shown

    def close(self) -> None:
        """Stop playing, and the server."""
        self._closed.set()
        self._thread.join(timeout=2.0)
        self._server.stop()

    def __enter__(self) -> Playback:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
