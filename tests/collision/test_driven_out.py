"""Motions that start inside the clearance: pairs move apart, and none ever comes closer."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import supple as sp
from generated import seeds
from sizes import nightly
from supple.collision import Box
from supple.collision.model import CollisionModel, model_of
from supple.motion.status import StepStatus

DATA = Path(__file__).parent / "data"
ROBOTS = {name: sp.urdf(DATA / f"{name}.urdf") for name in ("ur5", "panda")}
EXCEEDED = StepStatus.COLLISION_EXCEEDED
CLEARANCE, STEPS = 0.01, 600


def in_a_box(
    robot: sp.Robot, rng: np.random.Generator, depth: float
) -> tuple[CollisionModel, np.ndarray]:
    """Return a model that checks links against a box, and q with links up to `depth` in the box."""
    links = list(robot.shapes)
    while True:
        q = robot.random(seed=rng)
        T = robot.fk(q, str(rng.choice(links[-6:])))
        box = sp.pose(T[:3, 3] + rng.normal(size=3) * 0.1, wxyz=rng.normal(size=4))
        world = sp.World(
            {"box": Box(rng.uniform(0.05, 0.4, 3), box)},
            unchecked=tuple(combinations(links, 2)),
        )
        model = model_of(robot, world)
        if -depth < model.kernel.min_distance(q)[0] < 0:
            return model, q


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("name", list(ROBOTS))
def test_no_pair_inside_the_clearance_comes_closer(name: str, seed: int) -> None:
    """This holds for any command; an arm that cannot move the pairs apart stops and reports it."""
    rng = np.random.default_rng([seed, 5])
    robot = ROBOTS[name]
    model, q = in_a_box(robot, rng, 0.1)
    servo = sp.Servo(robot, dt=0.004, world=model.world, clearance=CLEARANCE)
    velocity = rng.normal(size=6) * rng.choice([0.0, 0.2])
    before = model.kernel.distances(q)[0]
    for k in range(STEPS):
        start, q, least = q, servo(q, velocity), np.minimum(before, CLEARANCE) - 1e-9
        for f in nightly((0.25, 0.5, 0.75, 1.0), (0.5, 1.0)):
            now = model.kernel.distances(start + f * (q - start))[0]
            assert (now >= least).all(), (k, f)
        assert bool(servo.status & EXCEEDED) == (before.min() < CLEARANCE - 1e-9)
        before = now
    if before.min() < CLEARANCE - 1e-3 and np.abs(servo.qd).max() == 0:
        assert "apart without bringing others closer" in str(servo.explain())


def test_most_arms_that_start_slightly_inside_an_obstacle_leave_it() -> None:
    """Links of each arm are up to 30 mm deep in a box; after 2.4 s, 80 % have the clearance."""
    out = []
    for seed in range(24):
        robot = ROBOTS[("ur5", "panda")[seed % 2]]
        model, q = in_a_box(robot, np.random.default_rng([seed, 6]), 0.03)
        servo = sp.Servo(robot, dt=0.004, world=model.world, clearance=CLEARANCE)
        for _ in range(STEPS):
            q = servo(q, np.zeros(6))
        out.append(model.kernel.min_distance(q)[0] >= CLEARANCE - 1e-4)
    assert np.mean(out) >= 0.8, np.mean(out)
