"""Obstacles that move: a Servo updates their poses in place, and no other object changes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import supple as sp
from drawn_worlds import place, shape
from drawn_worlds import world as drawn_world
from supple import collision as c
from supple.collision.model import model_of, moved_obstacles
from supple.motion.status import StepStatus

UR5E = sp.load("ur5e")
START = np.radians([0, -70, 100, -120, -90, 0])
LINKS = {
    "link3": c.Capsule(0.05, 0.39, sp.pose([0.196, 0, 0.02], rpy=[0, np.pi / 2, 0])),
    "tool0": c.Capsule(0.045, 0.05, [0, 0, -0.04]),
}


@pytest.mark.parametrize("seed", range(8))
def test_moving_obstacles_in_place_gives_the_steps_of_a_new_world(seed: int) -> None:
    """A Servo whose obstacles are moved steps like a Servo that is given a new world each time."""
    rng = np.random.default_rng(seed)
    world = drawn_world(rng, UR5E, 0.5, START[None], 4)
    one, other = (sp.Servo(UR5E, dt=0.01, world=world, clearance=0.002) for _ in range(2))
    before = model_of(UR5E, world).kernel
    assert before is not None
    distances = before.distances(START)[0]
    q = [START, START]
    for k in range(30):
        names = rng.choice(list(world.obstacles), int(rng.integers(0, 3)), replace=False)
        poses = {}
        for name in names:
            T = place(rng, 0.02)
            poses[name] = world.obstacles[name].pose @ T if k % 2 else T[:3, 3]
        world = world.moved(poses)
        one.world = world
        other.world = None
        other.world = sp.World(world.obstacles, links=world.links)
        velocity = rng.normal(size=6) * 0.2
        other.reset(one.qd)
        one.reset(one.qd)  # no Servo has a certified stop from earlier steps
        q = [one(q[0], velocity), other(q[1], velocity)]
        np.testing.assert_allclose(q[0], q[1], rtol=0, atol=1e-12)
        assert one.nearest is not None
        assert other.nearest is not None
        assert one.nearest.names == other.nearest.names
        assert one.nearest.distance == pytest.approx(other.nearest.distance, abs=1e-12)
    np.testing.assert_array_equal(before.distances(START)[0], distances)


def test_moved_obstacles_are_listed_unless_anything_else_has_changed() -> None:
    rng = np.random.default_rng(1)
    obstacles = {f"o{i}": shape(rng, 0.2, place(rng, 1.0)) for i in range(12)}
    world = sp.World(obstacles, links=LINKS, speeds={"o1": 1.0})
    assert moved_obstacles(world, world) == ([], pytest.approx(np.empty((0, 4, 4))))
    T = place(rng, 1.0)
    found = moved_obstacles(world, world.moved({"o3": T, "o1": T[:3, 3]}))
    assert found is not None
    assert found[0] == [1, 3]
    np.testing.assert_allclose(found[1][1], T, atol=1e-12)
    np.testing.assert_array_equal(found[1][0][:3, :3], obstacles["o1"].pose[:3, :3])
    for changed in (
        world.without("o5"),
        world.with_obstacle("o5", c.Sphere(0.7)),
        world.with_obstacle("other", c.Sphere(0.7)),
        sp.World(dict(reversed(obstacles.items())), links=LINKS),
    ):
        assert moved_obstacles(world, changed) is None


def test_a_hand_gives_way_to_an_obstacle_that_comes_at_its_stated_speed() -> None:
    """The distance between hand and ball is never smaller than the clearance."""
    at = UR5E.fk(START)[:3, 3] + [0, 0.4, 0]
    hand = {"tool0": LINKS["tool0"]}
    world = sp.World({"ball": c.Sphere(0.05, at)}, links=hand, speeds={"ball": 0.25})
    servo = sp.Servo(UR5E, dt=0.01, world=world, clearance=0.01)
    q, statuses = START, []
    for k in range(160):
        q = servo(q, np.zeros(6))
        statuses.append(servo.status)
        world = world.moved({"ball": at - [0, (k + 1) * 0.0025, 0]})
        servo.world = world
    assert not any(each & StepStatus.COLLISION_EXCEEDED for each in statuses)
    assert any(each & StepStatus.COLLISION_LIMIT for each in statuses)
    assert np.linalg.norm((UR5E.fk(q) - UR5E.fk(START))[:3, 3]) > 0.01


def test_moving_an_obstacle_of_a_servo_does_not_move_the_obstacle_of_its_copy() -> None:
    at = UR5E.fk(START)[:3, 3] + [0, 0.4, 0]
    world = sp.World({"ball": c.Sphere(0.05, at)}, links={"tool0": LINKS["tool0"]})
    servo = sp.Servo(UR5E, dt=0.01, world=world)
    for _ in range(2):
        world = world.moved({"ball": world.obstacles["ball"].pose[:3, 3] + [0, 0.1, 0]})
        servo.world = world
    servo(START)
    other = copy.copy(servo)
    far = servo.nearest
    servo.world = world.moved({"ball": at})
    assert servo.nearest is not None
    assert other.nearest is not None
    assert far is not None
    assert other.nearest.distance == pytest.approx(far.distance)
    assert servo.nearest.distance < far.distance - 0.1
