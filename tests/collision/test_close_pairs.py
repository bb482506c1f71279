"""Only links that are close by construction may come closer than the clearance."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import robots_files
import supple as sp
from generated import seeds
from sizes import NIGHTLY
from supple import collision as c
from supple.collision.model import model_of
from supple.describe import Description, Joint
from supple.errors import InputError, SuppleError, UnknownNameError
from supple.motion.status import StepStatus

EXCEEDED = StepStatus.COLLISION_EXCEEDED
FRACTIONS = np.arange(1, 9) / 8
CLEARANCE = 0.01
FILES = [path for name, path in robots_files.robot_files() if "example-robot-data" in name]
SOME = FILES if NIGHTLY else FILES[::9]


@cache
def with_shapes(path: Path) -> sp.Robot | None:
    """Return the robot of a file, or None if it is invalid or has no shapes to check."""
    try:
        robot = robots_files.load(path).robot
        return robot if model_of(robot, sp.World()).kernel is not None else None
    except SuppleError:
        return None


def driven(servo: sp.Servo, rng: np.random.Generator, steps: int) -> list[np.ndarray]:
    """Return the configurations of a servo under random twists, from the neutral one on."""
    q = [servo.robot.neutral()]
    for k in range(steps):
        if k % 20 == 0:
            v = [0.1 * rng.normal(size=6) for _ in servo.tasks]
        q.append(servo(q[-1], v if len(v) > 1 else v[0]))
    return q


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_a_robot_from_a_file_can_move_from_its_neutral_configuration(path: Path) -> None:
    """No pair is reported as too close, and every pair keeps the distance that it must keep."""
    robot = with_shapes(path)
    if robot is None:
        pytest.skip("the file has no shapes, or its meshes are missing")
    model = model_of(robot, sp.World())
    rng = np.random.default_rng(0)
    guarded = sp.Servo(robot, dt=0.004, world=sp.World(), clearance=CLEARANCE)
    free = sp.Servo(robot, dt=0.004)
    least = np.minimum(CLEARANCE, model.allowed)
    before = robot.neutral()
    moved = 0.0
    for q in driven(guarded, rng, 60):
        for f in FRACTIONS[3::4]:
            assert (model.kernel.distances(before + f * (q - before))[0] >= least - 1e-9).all()
        moved, before = moved + np.abs(q - before).sum(), q
        assert not guarded.status & EXCEEDED
    alone = np.abs(np.diff(driven(free, np.random.default_rng(0), 60), axis=0)).sum()
    assert moved >= 0.05 * alone


def arm() -> sp.Robot:
    """Return an arm with four parallel axes; at q = 0, some links overlap or almost touch."""
    joints = tuple(
        Joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", origin=sp.pose((0.1 * (i > 0), 0, 0)))
        for i in range(4)
    )
    shapes = {
        f"l{i}": c.Capsule(0.04, 0.1, sp.pose((0.05, 0, 0), rpy=(0, np.pi / 2, 0)))
        for i in (1, 2, 3, 4)
    }
    shapes["l3"] = c.Capsule(0.057, 0.1, shapes["l3"].pose)
    return sp.Robot(Description("arm", joints, shapes=shapes))


def test_two_links_need_not_keep_more_distance_than_in_the_neutral_configuration() -> None:
    robot = arm()
    d = {
        frozenset((x.one, x.other)): x.distance
        for x in c.contacts(robot, sp.World(close={}), np.zeros(4))
    }
    assert d[frozenset(("l1", "l3"))] == pytest.approx(0.003, abs=1e-12)
    (close,) = [pair for pair in c.close_pairs(robot) if {"l1", "l3"} == set(pair[:2])]
    assert close.clearance == pytest.approx(0.002, abs=1e-12)
    assert close.reason == "neutral"
    q = np.zeros(4)
    assert not c.collides(robot, sp.World(), q, CLEARANCE)
    assert c.collides(robot, sp.World(close={}), q, CLEARANCE)
    assert c.collides(robot, sp.World(close={("l3", "l1"): 0.0031}), q, CLEARANCE)
    assert not c.collides(
        robot, sp.World(close={("l3", "l1"): 0.0029, ("l2", "l4"): 0.0}), q, CLEARANCE
    )
    servo = sp.Servo(robot, dt=0.01, world=sp.World(close={}))
    servo(q, np.zeros(6))
    assert servo.status & EXCEEDED


@pytest.mark.parametrize("seed", seeds(8))
def test_obstacles_and_held_objects_must_keep_the_whole_clearance(seed: int) -> None:
    """This holds even if they are closer or overlap in the neutral configuration."""
    rng = np.random.default_rng(seed)
    robot = arm()
    q = robot.neutral()
    at = robot.fk(q, "l4")[:3, 3] + rng.normal(size=3) * 0.02
    held = c.Sphere(0.02, (0.0, 0.0, 0.05))
    world = sp.World({"box": c.Box(rng.uniform(0.02, 0.1, 3), at)}, attached={"l4": held})
    model = model_of(robot, world)
    count = 4
    for (i, j), allowed in zip(model.pairs.tolist(), model.allowed, strict=True):
        assert (allowed < np.inf) == (i < count and j < count)
    assert c.collides(robot, world, q, CLEARANCE)
    servo = sp.Servo(robot, dt=0.01, world=world)
    servo(q, np.zeros(6))
    assert servo.status & EXCEEDED


def test_links_must_keep_the_whole_clearance_from_geoms_of_an_mjcf_worldbody() -> None:
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <body name="a" pos="0 0 0.3"><joint axis="0 1 0" range="-1 1"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
        <body name="b" pos="0.2 0 0"><joint axis="0 1 0" range="-1 1"/>
          <geom type="sphere" pos="0 0 -0.275" size="0.02"/></body></body></worldbody></mujoco>"""
    robot = sp.mjcf(text)
    assert not any("world" in pair[:2] for pair in c.close_pairs(robot, clearance=1.0))
    assert c.collides(robot, sp.World(), robot.neutral(), CLEARANCE)


def test_invalid_close_pairs_and_unknown_links_in_them_are_refused() -> None:
    for wrong in ("all", [("a", "b")], {"ab": 0.1}, {("a", "b", "c"): 0.1}, {("a", "b"): np.nan}):
        with pytest.raises(InputError, match="close"):
            sp.World(close=wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="l9"):
        c.collides(arm(), sp.World(close={("l1", "l9"): 0.0}), np.zeros(4))
