"""Worlds drawn from a seed: shapes on the links of any robot, and obstacles within its reach."""

from __future__ import annotations

from typing import Any

import numpy as np

import supple as sp
from supple import collision as c
from supple.collision.model import CollisionModel

Array = np.ndarray


def shape(rng: np.random.Generator, size: float, pose: Array) -> Any:
    """Return a shape of random kind, no half-space, whose size is about `size` [m]."""
    each = size * rng.uniform(0.3, 1.0, 3)
    kind = rng.integers(5)
    if kind == 0:
        return c.Sphere(each[0] / 2, pose)
    if kind == 1:
        return c.Capsule(each[0] / 4, each[1], pose)
    if kind == 2:
        return c.Box(each, pose)
    if kind == 3:
        return c.Cylinder(each[0] / 2, each[1], pose)
    points = rng.normal(size=(int(rng.integers(4, 12)), 3)) * each / 3
    return c.ConvexHull(points, rng.choice([0.0, 0.1 * size]), pose)


def place(rng: np.random.Generator, spread: float) -> Array:
    return sp.pose(rng.normal(size=3) * spread, wxyz=rng.normal(size=4))


def world(
    rng: np.random.Generator, robot: sp.Robot, size: float, q: Array, obstacles: int
) -> sp.World:
    """Return a world around a robot.

    Args:
        rng: Source of random numbers.
        robot: The robot.
        size: Order of magnitude of the lengths of the robot's links [m].
        q: Configurations (K, n); obstacles are near the robot's frames at these configurations.
        obstacles: Number of obstacles.
    """
    links = {
        name: [shape(rng, 0.15 * size, place(rng, 0.03 * size))]
        for name in robot.description.links
        if rng.random() < 0.8
    }
    made = {}
    for i in range(obstacles):
        at = robot.fk(q[rng.integers(len(q))], str(rng.choice(robot.frames)))
        T = place(rng, 0.3 * size)
        T[:3, 3] += at[:3, 3]
        made[f"obstacle{i}"] = shape(rng, size * rng.choice([0.05, 0.2, 0.5]), T)
    return sp.World(made, links=links, close={})


def least_distance(model: CollisionModel, q: Array) -> float:
    """Return the smallest distance [m] of all pairs at all configurations (K, n)."""
    if model.kernel is None:
        return np.inf
    return min(float(model.kernel.min_distance(each)[0]) for each in q)
