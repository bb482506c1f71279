"""A human walk up and down random boxes, with the boxes as a world."""

from __future__ import annotations

import numpy as np

import supple as sp
from supple.collision import Box
from supple.motion.linearization import Array
from supple.retargeting import HumanMotion, PointMapping, walking

AHEAD = 0.04  # from an ankle to the middle of its foot [m]


def stairs(seed: int, robot: sp.Robot) -> tuple[HumanMotion, PointMapping, sp.World]:
    """Return a walk over random boxes, its mapping to the robot, and a world with the boxes."""
    rng = np.random.default_rng(seed)
    human = walking(3.0, fps=100, seed=seed)
    mapping = PointMapping.guess(robot, human)
    assert human.contacts is not None
    points = dict(zip(human.names, human.positions.swapaxes(0, 1), strict=True))
    way = (points["pelvis"][-1] - points["pelvis"][0]) * [1, 1, 0]
    ahead = way / np.linalg.norm(way)
    ankles = [points[f"{side}_ankle"] @ ahead for side in ("left", "right")]
    # The edges of the boxes lie between the footprints, not below them.
    places = np.unique(
        np.concatenate(
            [at[stands] for at, stands in zip(ankles, human.contacts.T, strict=True)]
        ).round(6)
    )
    middles = AHEAD + 0.5 * (places[:-1] + places[1:])
    edges = middles + rng.uniform(-0.03, 0.03, len(middles))
    tops = rng.uniform(0.05, 0.18, len(edges) - 1) * (np.arange(len(edges) - 1) != 2)
    heights = np.concatenate([[0.0], tops, [0.0]])
    raised = human.positions.copy()
    frames = np.arange(len(human))
    lifts: list[Array] = []
    for k, _side in enumerate(("left", "right")):
        stands = np.flatnonzero(human.contacts[:, k])
        under = heights[np.searchsorted(edges, ankles[k][stands] + AHEAD)]
        lifts.append(np.interp(frames, stands, under))
    both = np.pad(np.mean(lifts, axis=0), 20, mode="edge")
    body = np.convolve(both, np.full(41, 1 / 41), "valid")
    for j, name in enumerate(human.names):
        foot = name.endswith(("ankle", "toe"))
        raised[:, j, 2] += lifts[name.startswith("right")] if foot else body
    T = np.eye(4)
    T[:3, :3] = np.stack([ahead, np.cross([0, 0, 1.0], ahead), [0, 0, 1.0]], axis=1)
    boxes = {}
    for k in map(int, np.flatnonzero(tops)):
        T[:3, 3] = 0.5 * (edges[k] + edges[k + 1]) * ahead + [0, 0, 0.5 * tops[k]]
        pose = T.copy()
        pose[:3, 3] *= mapping.scale
        boxes[f"box{k}"] = Box(
            mapping.scale * np.array([edges[k + 1] - edges[k], 3, tops[k]]), pose
        )
    motion = HumanMotion(human.names, raised, human.fps, contacts=human.contacts)
    return motion, mapping, sp.World(boxes)
