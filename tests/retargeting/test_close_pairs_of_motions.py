"""Distances between close pairs in retargeted motions do not depend on earlier steps."""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from humanoids import humanoid_text
from sizes import nightly
from supple import _core
from supple.collision import Box, Capsule, ConvexHull, Cylinder, Sphere
from supple.describe.shapes import Shape
from supple.motion.linearization import Array
from supple.retargeting import Humanoid, PointMapping, default_limits, walking
from supple.retargeting.following import Following
from supple.retargeting.obstacles import kept_apart

STEP = 1 / 120


def drawn_shape(rng: np.random.Generator) -> Shape:
    """Return a random shape of the size of a limb."""
    at, r, length = rng.normal(0, 0.03, 3), rng.uniform(0.02, 0.06), rng.uniform(0.05, 0.3)
    kind = rng.integers(5)
    if kind == 0:
        return Sphere(r, at)
    if kind == 1:
        return Capsule(r, length, at)
    if kind == 2:
        return Box(rng.uniform(0.03, 0.2, 3), at)
    if kind == 3:
        return Cylinder(r, length, at)
    return ConvexHull(rng.normal(0, 0.06, (int(rng.integers(4, 40)), 3)) + at, 0.01)


def drawn_motion(rng: np.random.Generator, robot: sp.Robot, count: int) -> Array:
    """Return configurations (count, nq) of a smooth, often fast motion at 120 frames/s."""
    t = np.arange(count) * STEP
    waves = rng.uniform(0.1, 2.5, (robot.dof, 3))
    phases = rng.uniform(0, 2 * np.pi, (robot.dof, 3))
    own = np.sin(2 * np.pi * waves * t[:, None, None] + phases).mean(axis=-1)
    own[:, :2], own[:, 2] = 0.8 * own[:, :2], 0.6 + 0.3 * own[:, 2]
    return np.array([robot.integrate(robot.neutral(), each) for each in own])


def loop_of(mapping: PointMapping, world: sp.World) -> _core.Following:
    """Return the loop of the kernel at the beginning of a motion."""
    robot = mapping.humanoid.robot
    loop = Following(mapping, default_limits(robot), kept_apart(robot, world), 0.01, STEP)
    loop.start(robot.neutral())
    return loop._kernel


@pytest.mark.parametrize("seed", range(nightly(40, 4)))
def test_rows_of_close_pairs_after_many_steps_equal_those_after_two_steps(seed: int) -> None:
    """After many steps, the loop skips distant pairs and starts from remembered directions."""
    rng = np.random.default_rng([seed, 7])
    robot = Humanoid.of(sp.urdf(humanoid_text())).robot
    limbs = [name for name in robot.description.links if name != "pelvis"]
    links = {name: (drawn_shape(rng),) for name in limbs if rng.random() < 0.8}
    boxes = {
        str(k): Box(rng.uniform(0.1, 0.6, 3), (*rng.uniform(-0.8, 0.8, 2), rng.uniform(0, 1.2)))
        for k in range(3)
    }
    world = sp.World(boxes, links=links)
    mapping = PointMapping.guess(robot, walking(0.5))
    warm = loop_of(mapping, world)
    found = 0
    Q = drawn_motion(rng, robot, 120)
    for k, q in enumerate(Q):
        rows = warm.close_pairs(q)
        found += len(rows)
        if k % 7 or k == 0:
            continue
        cold = loop_of(mapping, world)
        cold.close_pairs(Q[k - 1])
        expected = cold.close_pairs(q)
        assert rows.shape == expected.shape
        np.testing.assert_allclose(rows[:, -1], expected[:, -1], atol=1e-11)
        np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert found > 100
