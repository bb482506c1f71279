"""A Servo with a world: no pair comes closer than the clearance, at any time, for any command.

Robots, scenes, limits, modes, steps and commands are drawn from a seed. SUPPLE_GUARDED sets the
number of motions and SUPPLE_GUARDED_STEPS the number of steps of each.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import supple as sp
from convex import BOX, CAPSULE, SPHERE, Shape, free_scene, model_of, random_pose
from generated import seeds
from programs import tool
from supple import _core
from supple.collision import Box
from supple.describe import Description, Joint
from supple.errors import InputError
from supple.motion.status import StepStatus

MOTIONS = int(os.environ.get("SUPPLE_GUARDED", "24"))
STEPS = int(os.environ.get("SUPPLE_GUARDED_STEPS", "250"))
FRACTIONS = np.arange(1, 9) / 8
ROUNDING = 1e-9  # [m]
EXCEEDED = int(StepStatus.COLLISION_EXCEEDED)


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    return tool("soak_servo")


def check_distances(
    model: _core.CollisionModel, start: np.ndarray, end: np.ndarray, clearance: float
) -> None:
    """Check the clearance at several places of each step, from `start` (k, n) to `end` (k, n)."""
    places = start[:, None] + FRACTIONS[:, None] * (end - start)[:, None]
    close = model.collides(places.reshape(-1, start.shape[1]), clearance - ROUNDING)
    assert not close.any(), divmod(int(np.argmax(close)), len(FRACTIONS))


@pytest.mark.parametrize("seed", seeds(MOTIONS))
def test_no_pair_comes_closer_than_the_clearance(soak: ModuleType, seed: int) -> None:
    """Pairs keep the clearance within steps too, and all joint limits hold as without a world."""
    rng = np.random.default_rng([seed, 7])
    clearance = float(rng.choice([0.0, 0.003, 0.01, 0.03]))
    scene, q = free_scene(seed, clearance, obstacles=int(rng.integers(1, 5)))
    mode = str(rng.choice(["exact", "exact", "scale", "halt"]))
    dt = 10 ** rng.uniform(-3.3, -1.5)
    limits = soak.some_limits(rng, scene.robot, mode, dt)
    step = soak.a_step(rng, scene.robot, len(scene.robot.tips))
    servo = sp.Servo(
        scene.robot, dt=dt, step=step, limits=limits, world=scene.model, clearance=clearance
    )
    targets, velocities = soak.commands(rng, servo, STEPS)
    q = np.clip(q, limits.lower, limits.upper)
    start, end = np.empty((STEPS, len(q))), np.empty((STEPS, len(q)))
    speed, told = np.empty((STEPS, len(q))), np.zeros(STEPS, int)
    for k in range(STEPS):
        start[k] = q
        servo._raw(
            q,
            None if velocities is None else velocities[k],
            None if targets is None else targets[k],
            None,
            end[k],
        )
        q, speed[k], told[k] = end[k], servo._qd, servo._flags
    check_distances(scene.model, start, end, clearance)
    broken = soak.broken(limits, dt, start, end, speed, told, False)
    assert not any(broken.values()), broken


def arm_among_boxes(seed: int) -> tuple[sp.Robot, _core.CollisionModel, np.ndarray]:
    """Return a Panda of spheres and capsules, boxes near its hand, and a configuration."""
    rng = np.random.default_rng(seed)
    robot = sp.load("panda")
    names = list(robot.frames)
    q = np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785]) + rng.uniform(-0.3, 0.3, 7)
    shapes, frames = [], []
    hand = robot.fk(q)
    for index, name in enumerate(names):
        if np.abs(robot.fk(q, frame=name) - robot.fk(q + 0.1, frame=name)).max() < 1e-9:
            continue  # fixed to the world
        kind = SPHERE if rng.random() < 0.6 else CAPSULE
        shapes.append(Shape(kind, np.array([0.05, 0.1, 0])))
        frames.append(index)
    moving = len(shapes)
    for _ in range(6):
        pose = random_pose(rng, 0)
        pose[:3, 3] = hand[:3, 3] + rng.normal(size=3) * 0.25
        shapes.append(Shape(BOX, rng.uniform(0.05, 0.3, 3), pose=pose))
        frames.append(-1)
    pairs = [(i, j) for i in range(moving) for j in range(moving, len(shapes))]
    chain = robot._chain(names)
    far = model_of(chain, shapes, frames, pairs).distances(q)[0] > 0.02
    kept = [pair for pair, keep in zip(pairs, far, strict=True) if keep]
    return robot, model_of(chain, shapes, frames, kept), q


@pytest.mark.parametrize("seed", seeds(MOTIONS // 2))
@pytest.mark.parametrize("mode", ["exact", "scale", "halt", "jerk", "second order", "no brakes"])
def test_an_arm_slides_along_boxes(mode: str, seed: int) -> None:
    """A hand driven into boxes near it keeps moving in all modes, and keeps the clearance."""
    robot, model, q = arm_among_boxes(seed)
    rng = np.random.default_rng(seed)
    dt, clearance = float(rng.choice([0.001, 0.002, 0.005, 0.01])), 0.01
    limits = sp.Limits.for_robot(robot)
    if mode == "jerk":
        limits = replace(limits, max_jerk=20 * limits.max_acceleration)
    if mode == "no brakes":
        limits = replace(limits, max_acceleration=np.full(7, np.inf))
    if mode in ("scale", "halt"):
        limits = replace(limits, mode=mode)
    order = 2 if mode == "second order" else 1
    servo = sp.Servo(robot, dt=dt, limits=limits, order=order, world=model, clearance=clearance)
    way, velocity = [q], np.zeros(6)
    for k in range(STEPS):
        if k % 50 == 0:
            velocity[:3] = rng.normal(size=3) * 0.3
        way.append(servo(way[-1], velocity))
        assert not servo.status & StepStatus.COLLISION_EXCEEDED
    start, end = np.array(way[:-1]), np.array(way[1:])
    check_distances(model, start, end, clearance)
    assert np.abs(end - start).sum() > 0.01


def gantry() -> sp.Robot:
    """Return a robot with two slides, which moves its hand along x and y at up to 1 m/s."""
    joints = [
        Joint("x", "prismatic", "base", "bridge", axis=(1, 0, 0), lower=-5, upper=5, max_speed=1),
        Joint("y", "prismatic", "bridge", "hand", axis=(0, 1, 0), lower=-5, upper=5, max_speed=1),
    ]
    return sp.Robot(Description("gantry", tuple(joints)))


def wall_model(robot: sp.Robot, x: float, speed: float) -> _core.CollisionModel:
    """Return a model of a sphere of radius 0.1 m on the hand, and a wall 1 m thick around x."""
    wall = np.eye(4)
    wall[0, 3] = x
    shapes = [
        Shape(SPHERE, np.array([0.1, 0, 0])),
        Shape(BOX, np.array([1.0, 10.0, 10.0]), pose=wall),
    ]
    names = list(robot.frames)
    frames = [names.index("hand"), -1]
    return model_of(robot._chain(names), shapes, frames, [(0, 1)], [0.0, speed])


def before_a_wall(
    speed: float = 0.0, clearance: float = 0.01, dt: float = 0.01
) -> tuple[sp.Servo, _core.CollisionModel]:
    """Return a Servo of a gantry with a sphere on its hand, and a wall whose face is at x = 0.5."""
    robot = gantry()
    model = wall_model(robot, 1.0, speed)
    task = sp.PoseTask("hand", rows=("x", "y"))
    return sp.Servo(robot, task, dt=dt, world=model, clearance=clearance), model


def along(velocity: list[float]) -> np.ndarray:
    """Return the twist with a velocity in x and y, without rotation."""
    return np.array([*velocity, 0.0, 0.0, 0.0, 0.0])


def test_a_step_away_from_an_obstacle_is_not_slowed() -> None:
    """At the clearance, a step away from the wall or along it equals the step without the wall."""
    servo, _ = before_a_wall()
    free = sp.Servo(servo.robot, servo.tasks, dt=servo.dt)
    for velocity in ([-0.5, 0.0], [0.0, 0.5], [-0.1, -0.9]):
        q = p = np.array([0.39 - 2e-5, 0.0])
        servo.reset()
        free.reset()
        for _ in range(60):
            q, p = servo(q, along(velocity)), free(p, along(velocity))
            np.testing.assert_allclose(q, p, atol=1e-15)
        assert not servo.status & StepStatus.COLLISION_LIMIT


def test_a_wall_stops_only_the_motion_toward_it() -> None:
    servo, model = before_a_wall()
    q, speeds = np.zeros(2), []
    for _ in range(300):
        q = servo(q, along([0.7, 0.5]))
        speeds.append(servo.qd)
    assert 0 <= model.min_distance(q)[0] - 0.01 < 3e-5
    np.testing.assert_allclose(servo.qd, [0, 0.5], atol=1e-4)
    assert servo.status & StepStatus.COLLISION_LIMIT
    assert "hold the step back to keep 10 mm of clearance" in str(servo.explain())
    found = servo.nearest
    assert found is not None
    assert found.distance == pytest.approx(0.01, abs=3e-5)
    np.testing.assert_allclose(found.normal, [-1, 0, 0], atol=1e-12)
    approach = np.diff(np.array(speeds)[50:, 0])
    assert (approach < 1e-9).all()  # the approach slows down without oscillation


@pytest.mark.parametrize("depth", [0.005, 0.02, 0.15])
def test_an_arm_that_starts_inside_the_clearance_moves_out_of_it(depth: float) -> None:
    """For any command the distance never decreases; the status reports a distance too small."""
    for command in ([0.0, 0.0], [1.0, 0.3], [-1.0, 0.0]):
        servo, model = before_a_wall()
        q = np.array([0.39 + depth, 0.0])
        last = model.min_distance(q)[0]
        for k in range(400):
            q = servo(q, along(command))
            d = model.min_distance(q)[0]
            assert d >= min(last, 0.01) - ROUNDING, (k, d, last)
            assert bool(servo.status & EXCEEDED) == (last < 0.01 - ROUNDING)
            last = d
        assert last >= 0.01 - 1e-5


def test_a_robot_keeps_the_clearance_from_an_obstacle_that_moves_at_its_stated_speed() -> None:
    """A wall that moves at up to 0.3 m/s never gets closer to the robot than the clearance.

    The wall moves between the calls, by no more than its speed allows. The command drives the robot
    into the wall, but the robot must retreat.
    """
    speed, dt = 0.3, 0.01
    servo, model = before_a_wall(speed, dt=dt)
    rng = np.random.default_rng(0)
    wall = np.eye(4)
    wall[0, 3] = 1.5
    model.move(1, wall)
    q = np.zeros(2)
    for k in range(600):
        q = servo(q, along([0.8, 0.2]))
        wall[0, 3] -= speed * dt * (1.0 if k < 300 else rng.uniform(-1, 1))
        model.move(1, wall)
        assert model.min_distance(q)[0] >= 0.01 - ROUNDING, k
        assert not servo.status & StepStatus.COLLISION_EXCEEDED


def test_the_clearance_is_kept_if_the_world_is_replaced_before_each_step() -> None:
    """In each new world the wall has moved at its speed; without a world, nothing stops the arm."""
    speed, dt = 0.3, 0.01
    servo, model = before_a_wall(speed, dt=dt)
    q = np.zeros(2)
    for k in range(300):
        q = servo(q, along([0.8, 0.2]))
        assert model.min_distance(q)[0] >= 0.01 - ROUNDING, k
        assert not servo.status & StepStatus.COLLISION_EXCEEDED
        model = wall_model(servo.robot, 1.0 - speed * dt * (k + 1), speed)
        servo.world = model
        assert servo.world is model
    servo.world = None
    assert servo.nearest is None
    for _ in range(60):
        q = servo(q, along([0.8, 0.0]))
    assert model.min_distance(q)[0] < 0


@pytest.mark.parametrize("gap", [0.2201, 0.23, 0.3])
def test_a_sphere_passes_a_gap_that_leaves_room_for_the_clearance(gap: float) -> None:
    """A sphere of radius 0.1 m, driven against one side of the gap, does not oscillate."""
    robot = gantry()
    names = list(robot.frames)
    shapes = [Shape(SPHERE, np.array([0.1, 0, 0]))]
    for side in (-1, 1):
        pose = np.eye(4)
        pose[:2, 3] = side * (gap / 2 + 0.5), 1.0
        shapes.append(Shape(BOX, np.array([1.0, 1.0, 1.0]), pose=pose))
    frames = [names.index("hand"), -1, -1]
    model = model_of(robot._chain(names), shapes, frames, [(0, 1), (0, 2)])
    servo = sp.Servo(robot, sp.PoseTask("hand", rows=("x", "y")), dt=0.005, world=model)
    q, path = np.array([0.0, 0.0]), []
    for _ in range(1200):
        q = servo(q, along([0.2 if q[1] > 0.6 else 0.0, 0.5]))
        path.append(q)
        assert model.min_distance(q)[0] >= 0.01 - ROUNDING
    assert q[1] > 1.7
    inside = np.array([x for x, y in path if 0.7 < y < 1.3])
    assert (np.diff(np.sign(np.round(np.diff(inside), 9))) != 0).sum() <= 4


def test_an_obstacle_that_jumps_inside_the_clearance_is_reported() -> None:
    servo, model = before_a_wall()
    q = np.array([0.3, 0.0])
    for _ in range(30):
        q = servo(q, along([0.5, 0.0]))
    wall = np.eye(4)
    wall[0, 3] = q[0] + 0.5
    model.move(1, wall)
    before = model.min_distance(q)[0]
    for _ in range(200):
        q = servo(q, along([0.5, 0.0]))
        assert (
            servo.status & StepStatus.COLLISION_EXCEEDED or model.min_distance(q)[0] >= 0.01 - 1e-9
        )
    assert model.min_distance(q)[0] > before


def test_a_servo_rejects_invalid_worlds() -> None:
    robot = gantry()
    with pytest.raises(InputError, match="world must be"):
        sp.Servo(robot, dt=0.01, world="scene.json")
    with pytest.raises(InputError, match="clearance must be"):
        sp.Servo(robot, dt=0.01, clearance=-1.0)
    chain = sp.load("panda")._chain(
        ["panda_hand" if "panda_hand" in sp.load("panda").frames else sp.load("panda").tips[0]]
    )
    ball = Shape(SPHERE, np.array([0.1, 0, 0]))
    other = model_of(chain, [ball, ball], [0, -1], [(0, 1)])
    with pytest.raises(ValueError, match="coordinates"):
        sp.Servo(robot, dt=0.01, world=other)


def test_a_copied_servo_keeps_the_clearance_from_the_same_obstacles() -> None:
    servo, model = before_a_wall()
    q = np.zeros(2)
    for _ in range(100):
        q = servo(q, along([0.7, 0.0]))
    again = copy.copy(servo)
    for _ in range(100):
        q = again(q, along([0.7, 0.0]))
        assert model.min_distance(q)[0] >= 0.01 - ROUNDING


def test_an_arm_stops_at_a_wall_and_its_report_names_the_wall() -> None:
    panda = sp.urdf(Path(__file__).parent / "data/panda.urdf")
    world = sp.World({"wall": Box([0.1, 2.0, 2.0], [0.75, 0.0, 0.5])})
    q = np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
    servo = sp.Servo(panda, dt=0.004, world=world, clearance=0.01)
    target = panda.fk(q)
    target[0, 3] = 0.9  # behind the wall
    for _ in range(1500):
        q = servo(q, target=target)
        nearest = servo.nearest
        assert nearest
        assert nearest.distance >= 0.01 - ROUNDING
    assert servo.status & StepStatus.COLLISION_LIMIT
    assert "wall" in nearest.names
    assert "wall" in str(servo.explain())
    servo.world = world.without("wall")
    for _ in range(1500):
        q = servo(q, target=target)
    assert not servo.status & StepStatus.COLLISION_LIMIT
