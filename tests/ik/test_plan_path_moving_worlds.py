"""Whole paths of robots with ball, planar and floating joints among obstacles.

No place on a path is closer to an obstacle than the path's certificate states, judged by the
distances of the kernel and of coal at dense samples. A path that is free of collisions when planned
without the obstacles is also found with them.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from drawn_worlds import least_distance
from generated import seeds
from sizes import nightly
from supple import collision as c
from supple.collision.model import CollisionModel, model_of
from supple.describe import Description, Joint
from supple.ik.world_check import WorldCheck
from supple.paths.obstacles import Obstacles

Array = np.ndarray
ROUNDING = 1e-12  # [m], for robots of some meters
coal = pytest.importorskip("coal")


def robot_of(seed: int) -> sp.Robot:
    """Return a random robot of about a meter, with ball or floating joints or a planar base."""
    rng = np.random.default_rng(seed)
    if seed % 3:
        base = ("floating", "planar")[seed % 3 - 1]
        return sp.load("ur5e").with_base(base)
    places = [sp.pose(rng.normal(size=3) * 0.3) for _ in range(4)]
    turn = np.array([0.0, 0.0, 1.0])
    joints = (
        Joint("shoulder", "ball", "base", "upper", origin=places[0]),
        Joint("elbow", "revolute", "upper", "lower", places[1], turn, lower=-2.5, upper=2.5),
        Joint("wrist", "ball", "lower", "hand", origin=places[2]),
        Joint("slide", "prismatic", "hand", "tool", places[3], turn, lower=-0.2, upper=0.2),
    )
    return sp.Robot(Description("balls", joints))


def motion_of(robot: sp.Robot, seed: int, count: int) -> Array:
    """Return configurations (count, nq) of a motion of about a radian."""
    rng = np.random.default_rng([seed, 1])
    start = robot.random(seed=seed)
    move = rng.normal(size=robot.nv) * 0.4
    q = robot.integrate(start, np.linspace(0, 1, count)[:, None] * move)
    scalar = [robot.position_names.index(n) for n in robot.joint_names if n in robot.position_names]
    low = dict(zip(robot.joint_names, robot.lower, strict=True))
    high = dict(zip(robot.joint_names, robot.upper, strict=True))
    for at in scalar:
        name = robot.position_names[at]
        q[:, at] = np.clip(q[:, at], low[name], high[name])
    return q


def world_of(robot: sp.Robot, q: Array, seed: int) -> sp.World:
    """Return a world of spheres and boxes around a motion, at least 0.1 m from its ends."""
    rng = np.random.default_rng([seed, 2])
    links = {
        name: c.Sphere(0.03, rng.normal(size=3) * 0.03) for name in robot.description.links[-4:]
    }
    at = robot.fk(q, robot.tips[0])[:, :3, 3]
    kept: dict[str, c.Shape] = {}
    for k in range(40):
        place = sp.pose(at[rng.integers(len(at))] + rng.normal(size=3) * 0.25)
        shape = c.Sphere(0.05, place) if k % 2 else c.Box((0.1, 0.06, 0.1), place)
        alone = model_of(robot, sp.World({"one": shape}, links=links, close={}))
        if least_distance(alone, q[[0, -1]]) > 0.1 and len(kept) < 4:
            kept[f"obstacle{k}"] = shape
    return sp.World(kept, links=links, close={})


def places(robot: sp.Robot, motion: Array | sp.paths.JointPath, count: int) -> Array:
    """Return `count` configurations on a planned path, or on shortest motions between given
    configurations.
    """
    if isinstance(motion, sp.paths.JointPath):
        return motion.at(np.linspace(motion.s[0], motion.s[-1], count))
    shares = np.linspace(0, 1, count)[:, None, None]
    return np.concatenate(
        robot.integrate(motion[:-1], shares * robot.difference(motion[1:], motion[:-1]))
    )


def coal_least(robot: sp.Robot, world: sp.World, q: Array) -> float:
    """Return the smallest distance [m] between links and obstacles, computed by coal."""

    def placed(shape: c.Shape, T: Array) -> tuple[object, object]:
        T = T @ shape.pose
        made = coal.Sphere(shape.radius) if isinstance(shape, c.Sphere) else coal.Box(*shape.size)
        return made, coal.Transform3s(T[:3, :3], T[:3, 3])

    least = np.inf
    fixed = [placed(shape, np.eye(4)) for shape in world.obstacles.values()]
    for each in q:
        for name, shapes in world.links.items():
            for shape in shapes:
                mine = placed(shape, robot.fk(each, name))
                for other in fixed:
                    found = coal.DistanceResult()
                    least = min(least, coal.distance(*mine, *other, coal.DistanceRequest(), found))
    return least


def judged(
    found: sp.paths.PlannedPath, model: CollisionModel, world: sp.World, clearance: float
) -> None:
    """Check the certificate of a path by dense samples."""
    robot = found.robot
    motions = [*found.pieces, *(each.q for each in found.reconfigurations)]
    q = np.concatenate([places(robot, each, 150) for each in motions])
    least = least_distance(model, q)
    assert found.certificate is not None
    assert least >= found.min_clearance - ROUNDING
    assert found.certified == (found.min_clearance >= clearance)
    assert coal_least(robot, world, q[:: max(1, len(q) // 30)]) >= found.min_clearance - 1e-6


@pytest.mark.parametrize("part", range(3))
def test_no_place_on_a_path_is_closer_than_its_certificate(part: int) -> None:
    whole = bent = 0
    for seed in seeds(nightly(60, 3))[part::3]:
        robot = robot_of(seed)
        q = motion_of(robot, seed, 12)
        world = world_of(robot, q, seed)
        model, tip = model_of(robot, world), robot.tips[0]
        poses = robot.fk(q, tip)
        alone = sp.plan_path(robot, poses, frame=tip, q0=q[0])
        if not alone.pieces:
            continue
        on_way = np.concatenate([places(robot, each, 200) for each in alone.pieces])
        found = sp.plan_path(robot, poses, frame=tip, q0=q[0], world=world, clearance=0.01)
        if not found.pieces:
            assert found.obstacle
            continue
        judged(found, model, world, 0.01)
        whole += found.success
        bent += least_distance(model, on_way) < 0.01
        if found.success:
            assert np.abs(robot.fk(found.q, tip) - poses).max() < 1e-4
            timed = found.timed(sp.Limits.for_robot(robot, max_speed=1.0, max_acceleration=3.0))
            assert timed.certificate is not None
            assert least_distance(model, timed.q) >= timed.min_clearance - ROUNDING
        elif alone.continuous and least_distance(model, on_way) > 0.011:
            pytest.fail(f"a path that is clear was not found: {found}")
    assert whole


def test_a_search_around_an_obstacle_turns_a_floating_base() -> None:
    """A long bar passes between two walls only if it turns."""
    robot = sp.Robot(Description("bar", (Joint("free", "floating", "world", "bar"),)))
    walls = {
        "one": c.Box((0.1, 3.0, 9.0), sp.pose([0, 1.85, 0])),
        "two": c.Box((0.1, 3.0, 9.0), sp.pose([0, -1.85, 0])),
    }
    bar = c.Capsule(0.03, 0.8, sp.pose([0, 0, 0], rpy=[np.pi / 2, 0, 0]))  # the bar is along y
    world = sp.World(walls, links={"bar": bar})
    check = WorldCheck.of(robot, world, 0.01)
    obstacles = Obstacles.of(check)
    assert obstacles is not None
    start, end = robot.neutral(), robot.neutral()
    start[0], end[0] = -0.4, 0.4
    assert not obstacles.line(np.stack([start, end])).certified
    via, said = obstacles.around(start, end)
    assert len(via), said
    whole = np.concatenate([start[None], via, end[None]])
    assert obstacles.line(whole).certified
    assert least_distance(check.model, places(robot, whole, 200)) >= 0.01 - ROUNDING
