"""`retarget` on the way up and down boxes: feet keep out of the edges of boxes."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from humanoids import humanoid
from sizes import nightly
from stairs import stairs
from supple.collision import Box
from supple.retargeting import Humanoid, Retargeter
from supple.retargeting.terrain import Terrain

SEEDS = range(nightly(20, 2))


@pytest.mark.parametrize("seed", SEEDS)
def test_feet_keep_out_of_the_edges_of_boxes(seed: int) -> None:
    motion, mapping, world = stairs(seed, Humanoid.of(humanoid()).robot)
    found = sp.retarget(mapping.humanoid.robot, motion, mapping=mapping, world=world)
    assert found.penetration.max() < 2e-4
    assert found.slide.max() < 1e-4


def test_a_stream_on_boxes_gives_the_bits_of_the_whole_motion() -> None:
    motion, mapping, world = stairs(0, Humanoid.of(humanoid()).robot)
    motion = motion[:120]
    whole = sp.retarget(mapping.humanoid.robot, motion, mapping=mapping, world=world)
    stream = Retargeter(mapping, motion.fps, world=world)
    made = [stream.push(motion[k : k + 7]) for k in range(0, len(motion), 7)]
    made.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(made), whole.q)


def test_at_the_edge_of_a_box_the_surface_is_its_top_or_the_ground() -> None:
    terrain = Terrain.of(sp.World({"box": Box([0.4, 0.4, 0.2], [0, 0, 0.1])}))
    for away in (-1e-3, -1e-9, 0.0, 1e-9, 1e-3):
        heights, normals = terrain.surfaces(np.array([0.2 + away, 0.0, 0.0]))
        assert heights[-1] == pytest.approx(0.2) or heights[-1] == -np.inf
        assert heights[-1] == -np.inf or normals[-1][2] == 1.0
