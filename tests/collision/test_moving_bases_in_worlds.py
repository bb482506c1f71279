"""Robots with ball and floating joints among obstacles: certificates of motions, and a `Servo`.

Between samples, ball joints turn by the shortest rotations. Motions are judged at many
places, by the kernel's distances at single configurations.
"""

from __future__ import annotations

import numpy as np
import pytest

import supple as sp
from drawn_worlds import least_distance
from drawn_worlds import world as drawn_world
from generated import seeds
from moving_trees import Drawn
from sizes import nightly
from supple import collision as c
from supple.collision.certificate import Curve, curve_certificate, polygon_certificate
from supple.collision.model import CollisionModel, model_of
from supple.describe import Description, Joint
from supple.kinematics.configuration import from_kernel, in_balls, to_kernel

Array = np.ndarray
ROUNDING = 1e-12  # [m], for robots of some meters


def polygon_places(robot: sp.Robot, q: Array, count: int) -> Array:
    """Return `count` configurations on each shortest way between successive ones of q (K, nq)."""
    steps = robot.difference(q[1:], q[:-1])
    shares = np.linspace(0, 1, count)[:, None, None]
    return np.concatenate(robot.integrate(q[:-1], shares * steps))


def closest(model: CollisionModel, q: Array, count: int = 40) -> float:
    """Return the smallest distance on the shortest ways between configurations [m], by samples."""
    steps = model.robot.difference(q[1:], q[:-1])

    def distances(shares: Array) -> Array:
        each = model.robot.integrate(q[:-1], shares[:, :, None] * steps)
        return np.array([[least_distance(model, one[None]) for one in row] for row in each])

    share, width, least = np.full((1, len(steps)), 0.5), 0.5, np.inf
    for _ in range(4):
        around = np.clip(share + np.linspace(-width, width, count)[:, None], 0, 1)
        found = distances(around)
        share, width = around[found.argmin(0), np.arange(len(steps))][None], 2 * width / count
        least = min(least, float(found.min()))
    return least


def walk(robot: sp.Robot, rng: np.random.Generator, steps: int, size: float) -> Array:
    """Return configurations (steps + 1, nq), each a random displacement from the one before."""
    q = [robot.random(seed=rng)]
    for _ in range(steps):
        q.append(robot.integrate(q[-1], size * rng.normal(size=robot.nv)))
    return np.array(q)


def flipped(robot: sp.Robot, q: Array) -> Array:
    """Return q with the signs of all quaternions reversed in every second configuration."""
    made = np.array(q)
    for at, name in enumerate(robot.position_names):
        if name.endswith("/qw"):
            made[::2, at : at + 4] *= -1
    return made


def test_no_configuration_between_samples_is_closer_than_the_certificate_states() -> None:
    found = 0
    for seed in seeds(nightly(400, 25)):
        robot, rng = Drawn(seed).robot, np.random.default_rng(seed)
        q = walk(robot, rng, int(rng.integers(1, 7)), rng.choice([0.03, 0.3, 1.0]))
        model = model_of(robot, drawn_world(rng, robot, 1.0, q, 2))
        t = np.cumsum(rng.uniform(0.1, 1, len(q)))
        least = closest(model, q)
        made = polygon_certificate(model, 0.01, t, q)
        assert made.min_clearance <= least + ROUNDING
        assert made.certified <= (least >= 0.01 - ROUNDING)
        if least > 0:  # depths of overlaps are only estimates
            assert made.min_clearance >= least - max(1.1e-4, 0.011 * least)
            found += np.isfinite(least)
        other = polygon_certificate(model, 0.01, t, flipped(robot, q))
        assert other.min_clearance == pytest.approx(made.min_clearance, abs=2e-4)
    assert found > 3


def moved(robot: sp.Robot, base: Array) -> sp.Robot:
    return sp.Robot(robot.description, base=base)


def test_an_arm_on_a_resting_floating_base_has_the_certificate_of_a_fixed_arm() -> None:
    arm = sp.load("panda")
    free = arm.with_base("floating")
    links = {name: c.Capsule(0.05, 0.1) for name in arm.description.links[2:]}
    for seed in seeds(4):
        rng = np.random.default_rng(seed)
        q = walk(arm, rng, 5, 0.2)
        base = sp.pose(rng.normal(size=3), wxyz=rng.normal(size=4))
        ball = sp.pose((base @ [0.3, 0.5, 0.4, 1])[:3])
        world = sp.World({"ball": c.Sphere(0.1, ball)}, links=links)
        rest = np.concatenate([base[:3, 3], sp.poses.wxyz(base)])
        whole = np.concatenate([np.tile(rest, (6, 1)), q], axis=1)
        t = np.arange(6.0)
        alone = polygon_certificate(model_of(moved(arm, base), world), 0.01, t, q)
        made = polygon_certificate(model_of(free, world), 0.01, t, whole)
        assert made.certified == alone.certified
        assert made.min_clearance == pytest.approx(alone.min_clearance, abs=2e-4, rel=0.01)


def test_simulate_certifies_the_clearance_of_a_floating_robot() -> None:
    robot = sp.load("ur5e").with_base("floating")
    q = robot.random(seed=3)
    tip = robot.fk(q)
    ahead = tip.copy()
    ahead[:3, 3] += [0.4, 0.1, -0.2]
    between = (tip[:3, 3] + ahead[:3, 3]) / 2
    links = {name: c.Sphere(0.04) for name in robot.description.links[-4:]}
    world = sp.World({"ball": c.Sphere(0.08, sp.pose(between))}, links=links, close={})

    def made(q0: Array, world: sp.World | None) -> sp.Trajectory:
        poses = sp.poses.interpolate(tip, ahead, np.linspace(0, 1, 101))
        kept = {} if world is None else {"world": world, "clearance": 0.02}
        return sp.simulate(robot, q0, target=poses, dt=0.02, **kept)

    model = model_of(robot, world)
    blind = made(q, None)
    assert least_distance(model, blind.q) < 0  # the obstacle is in the way
    motion = made(q, world)
    assert motion.certified
    assert 0.02 <= motion.min_clearance <= least_distance(model, motion.q) + ROUNDING
    other = made(flipped(robot, q[None])[0], world)
    np.testing.assert_allclose(robot.difference(other.q, motion.q), 0, atol=1e-9)
    assert motion.resampled(0.005).certificate is not None


def pole(length: float) -> sp.Robot:
    """Return a robot that consists of a pole on a ball joint."""
    tip = Joint("end", "fixed", "pole", "tip", origin=sp.pose([length, 0, 0]))
    return sp.Robot(Description("pole", (Joint("ball", "ball", "world", "pole"), tip)))


@pytest.mark.parametrize("length", [0.5, 5.0, 40.0])
def test_a_servo_stops_a_long_pole_in_front_of_an_obstacle(length: float) -> None:
    """This holds for poles of any length: the tip of a long pole moves fast."""
    robot = pole(length)
    obstacle = sp.pose([length * np.cos(0.5), length * np.sin(0.5), 0])
    world = sp.World(
        {"ball": c.Sphere(0.05 * length, obstacle)}, links={"tip": c.Sphere(0.02 * length)}
    )
    limits = sp.Limits.for_robot(robot, max_speed=1.0, max_acceleration=10.0)
    task = sp.OrientationTask("pole")
    servo = sp.Servo(robot, task, dt=0.05, limits=limits, world=world, clearance=0.01)
    model, q = model_of(robot, world), robot.neutral()
    least = np.inf
    for _ in range(60):
        after = servo(q, velocity=[0, 0, 2.0])
        least = min(least, least_distance(model, polygon_places(robot, np.stack([q, after]), 9)))
        q = after
    assert least >= 0.01 - 1e-9
    assert robot.difference(q, robot.neutral())[2] > 0.3  # the pole has turned toward the obstacle


def test_no_place_on_a_curve_of_quaternions_is_closer_than_its_certificate_states() -> None:
    """Random cubics of rotation vectors are judged by distances at many samples."""
    judged = 0
    for seed in seeds(nightly(200, 20)):
        robot, rng = Drawn(seed).robot, np.random.default_rng([seed, 36])
        q = robot.random(seed=seed)[None]
        world = drawn_world(rng, robot, 1.0, q, 3)
        model = model_of(robot, world)
        if model.kernel is None:
            continue
        pieces = int(rng.integers(1, 4))
        swing = rng.normal(size=(4, pieces, robot.nv)) * rng.choice([0.03, 0.2, 1.0])
        balls, anchors = in_balls(robot), np.zeros((pieces, robot.nv))
        curve = Curve(np.arange(pieces + 1, dtype=float), swing, anchors)
        start = to_kernel(robot, q[0])
        for i in range(pieces):  # continuous; for odd seeds, pieces begin beside their anchor
            first = 0.5 * (seed % 2) * balls * rng.normal(size=robot.nv)
            at = to_kernel(robot, robot.integrate(from_kernel(robot, start), -first))
            swing[0, i], anchors[i] = np.where(balls, first, start), np.where(balls, at, 0.0)
            start = to_kernel(robot, of_curve(robot, curve, i, swing[:, i].sum(axis=0)))
        u = np.linspace(0, 1, 300)[:, None] ** np.arange(4)
        places = np.concatenate([of_curve(robot, curve, i, u @ swing[:, i]) for i in range(pieces)])
        least = least_distance(model, places)
        for clearance in (0.0, 0.02):
            made = curve_certificate(model, clearance, [curve])
            assert least >= made.min_clearance - ROUNDING, seed
            assert made.certified == (made.min_clearance >= clearance)
        if least > 0:
            judged += 1
            rate = float(np.abs(swing).sum(axis=(0, 2)).max()) / 300  # between samples
            assert made.min_clearance >= least - max(1.1e-4, 0.011 * least) - 6 * rate, seed
    assert judged > 3


@pytest.mark.parametrize("seed", seeds(10))
def test_certificates_hold_where_a_rotation_swings_out_and_back(seed: int) -> None:
    """An obstacle is beside the first quarter of the path, where the rotation swings out."""
    rng = np.random.default_rng([seed, 37])
    robot, anchor = pole(1.0), rng.normal(size=(1, 3))
    swing = np.zeros((4, 1, 3))
    bend = 0.03 * rng.normal(size=3)
    swing[1, 0], swing[2, 0] = -bend + 0.003 * rng.normal(size=3), bend
    curve = Curve(np.array([0.0, 1.0]), swing, anchor)
    u = np.linspace(0, 1, 2001)[:, None] ** np.arange(4)
    q = of_curve(robot, curve, 0, u @ swing[:, 0])
    on = robot.fk(q[[0, 500, 1000]], "tip")[:, :3, 3]
    bulge = on[1] - (on[0] + on[2]) / 2
    place = on[1] + 0.32 * bulge / np.linalg.norm(bulge)
    world = sp.World({"ball": c.Sphere(0.2, place)}, links={"tip": c.Sphere(0.1)})
    model = model_of(robot, world)
    made = curve_certificate(model, 0.0, [curve])
    assert least_distance(model, q) >= made.min_clearance - ROUNDING


def of_curve(robot: sp.Robot, curve: Curve, i: int, x: Array) -> Array:
    """Return configurations (K, nq) for values x (K, nv) of the cubics of piece i."""
    assert curve.anchors is not None
    return np.asarray(robot.integrate(from_kernel(robot, curve.anchors[i]), x))
