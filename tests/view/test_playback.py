"""The playback of a human and the robot that follows it."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from humanoids import humanoid
from supple.retargeting import walking

pytest.importorskip("viser")


def test_the_playback_shows_the_robot_in_the_selected_frame() -> None:
    from supple.view.playback import Playback

    human = walking(0.3)
    motion = sp.retarget(humanoid(), human)
    with Playback(motion, human, port=8190) as playback:
        playback._plays.value = False
        for k in (3, 7):
            playback.show(k)
            assert playback.frame == k
            figure = playback._figure
            at = motion.robot.fk(motion.q[k], figure._links)[:, :3, 3]
            np.testing.assert_allclose([node.position for node in figure._nodes], at, atol=1e-6)
    with pytest.raises(sp.errors.InputError, match="same number of frames"):
        Playback(motion, human[:4])
