"""Certificates of whole motions: `plan_path` and `simulate` in a world.

No configuration anywhere on a motion is closer than its `min_clearance`, and none on a certified
motion is closer than the clearance. Robots, worlds and paths are drawn from a seed; motions are
judged at many places between samples, by the kernel's distances and by coal. SUPPLE_CLEAR_PATHS
sets the number of paths.
"""

from __future__ import annotations

import importlib.util
import json
import os
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from drawn_paths import Drawn
from drawn_worlds import least_distance
from drawn_worlds import world as drawn_world
from generated import seeds
from sizes import nightly
from supple import collision as c
from supple.collision.certificate import Certificate, Curve, curve_certificate, polygon
from supple.collision.model import CollisionModel, model_of
from supple.collision.scenes import scene_of
from supple.describe import Description, Joint
from supple.errors import InputError

PATHS = int(os.environ.get("SUPPLE_CLEAR_PATHS", "40"))
SEEDS = nightly(seeds(PATHS), seeds(PATHS)[1::2])  # each subset includes each kind of path
PARTS = 4
DATA = Path(__file__).parent / "data"
ROUNDING = 1e-13  # [m], for a robot of 1 m
Array = np.ndarray
COAL = importlib.util.find_spec("coal") is not None


def coal_shape(shape: Any) -> Any:
    import coal

    if isinstance(shape, c.Sphere):
        return coal.Sphere(shape.radius)
    if isinstance(shape, c.Capsule):
        return coal.Capsule(shape.radius, shape.length)
    if isinstance(shape, c.Box):
        return coal.Box(*shape.size)
    assert isinstance(shape, c.Cylinder)
    return coal.Cylinder(shape.radius, shape.length)


def coal_distance(robot: sp.Robot, world: sp.World, pair: Array, q: Array) -> float:
    """Return the distance of two shapes of a model by coal; NaN for hulls and overlaps."""
    import coal

    model = model_of(robot, world)
    links = world.links
    assert links is not None
    every = [(name, s) for name, each in links.items() for s in each]
    every += [("", s) for s in world.obstacles.values()]
    placed = []
    for i in pair.tolist():
        assert model.parts.owner[i] == (every[i][0] or list(world.obstacles)[i - len(every)])
        name, own = every[i]
        if isinstance(own, c.ConvexHull):
            return np.nan
        T = (robot.fk(q, name) if name else np.eye(4)) @ own.pose
        placed += [coal_shape(own), coal.Transform3s(T[:3, :3], T[:3, 3])]
    found = coal.DistanceResult()
    apart = coal.distance(*placed, coal.DistanceRequest(), found)
    return float(apart) if apart > 0 else np.nan


def places(motion: Array | sp.paths.JointPath, count: int) -> Array:
    """Return `count` configurations on a joint path or on lines that join configurations."""
    if isinstance(motion, sp.paths.JointPath):
        return motion.at(np.linspace(motion.s[0], motion.s[-1], count))
    s = np.linspace(0, len(motion) - 1, count)
    return np.stack([np.interp(s, np.arange(len(motion)), each) for each in motion.T], axis=-1)


def broken(
    certificate: Certificate, model: CollisionModel, motions: list[Any], size: float
) -> list[str]:
    """Return a sentence for each law that the certificate of some motions breaks."""
    q = np.concatenate([places(each, 400) for each in motions])
    least = least_distance(model, q)
    said = []
    if least < certificate.min_clearance - ROUNDING * max(1.0, size):
        said.append(f"{least} below {certificate.min_clearance}")
    if certificate.certified and least < certificate.clearance - ROUNDING * max(1.0, size):
        said.append(f"certified, but {least}")
    if certificate.certified != (certificate.min_clearance >= certificate.clearance):
        said.append(f"certified is {certificate.certified}: {certificate}")
    if not certificate.certified and certificate.pair is None:
        said.append("no pair")
    return said


def motions_of(found: sp.paths.PlannedPath) -> list[Any]:
    return [*found.pieces, *(each.q for each in found.reconfigurations)]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_place_on_a_path_is_closer_than_its_certificate_states(part: int) -> None:
    certified = 0
    for seed in SEEDS[part::PARTS]:
        case = Drawn(seed)
        rng = np.random.default_rng([seed, 31])
        q = np.clip(case.q, case.robot.lower, case.robot.upper)
        world = drawn_world(rng, case.robot, case.size, q, int(rng.integers(1, 6)))
        clearance = case.size * float(rng.choice([0.0, 0.003, 0.03]))
        model = model_of(case.robot, world)
        case.options |= {"world": world, "clearance": clearance}
        found = case.plan_path()
        if not found.pieces:
            assert found.obstacle, seed
            continue
        assert found.certificate is not None
        assert found.certified is found.certificate.certified
        motions = motions_of(found)
        assert not broken(found.certificate, model, motions, case.size), seed
        there = found.q[np.isfinite(found.q[:, 0])]
        assert not model.collides(there, clearance).any(), seed
        certified += found.certified
        if not found.certified:  # no free motion was found for a reconfiguration
            assert found.reconfigurations, seed
        if found.success and case.timed:
            timed = found.timed()
            assert timed.certificate is not None
            assert not broken(timed.certificate, model, [timed.q], case.size), seed
        if COAL and len(model.pairs):
            sample = np.concatenate([places(each, 12) for each in motions])
            for pair in model.pairs[rng.choice(len(model.pairs), 5)]:
                for each in sample[::4]:
                    apart = coal_distance(case.robot, world, pair, each)
                    least = found.certificate.min_clearance
                    assert not apart < least - 1e-6 * case.size, (seed, apart)
    assert certified > len(SEEDS) / PARTS / 4


@pytest.mark.parametrize("seed", seeds(max(PATHS // 4, 4)))
def test_a_path_that_keeps_the_clearance_is_also_found_in_a_world(seed: int) -> None:
    """If the path planned without obstacles keeps clear of them, a certified path exists."""
    case = Drawn(seed)
    rng = np.random.default_rng([seed, 32])
    alone = case.plan_path()
    if not alone.success or not alone.continuous:
        return
    q = np.clip(case.q, case.robot.lower, case.robot.upper)
    world = drawn_world(rng, case.robot, case.size, q, 3)
    model = model_of(case.robot, world)
    spline = alone.pieces[0]
    if len(spline) == 1 or not len(model.pairs):
        return
    clear = curve_certificate(
        model, 0.0, [Curve(spline.spline.s, spline.spline.coefficients)], first=True
    )
    case.options["world"] = world
    found = case.plan_path()
    if clear.certified:
        assert found.continuous
        assert found.certified


@pytest.mark.parametrize("seed", seeds(max(PATHS // 6, 4)))
def test_the_certified_bound_is_close_to_the_smallest_distance(seed: int) -> None:
    """Random straight motions in random worlds are compared with distances at 3000 places."""
    rng = np.random.default_rng([seed, 33])
    case = Drawn(seed)
    robot = case.robot
    world = drawn_world(rng, robot, case.size, case.q, 4)
    model = model_of(robot, world)
    if model.kernel is None:
        return
    q = np.clip(case.q[:1] + 0.1 * (case.q - case.q[:1]), robot.lower, robot.upper)
    if len(q) < 2:
        q = np.repeat(q, 2, axis=0)
    made = curve_certificate(model, 0.0, [polygon(robot, np.arange(len(q), dtype=float), q)])
    least = least_distance(model, places(q, 3000))
    slack = max(1e-4, 0.01 * abs(least))
    speed = case.size * 3 * np.abs(np.diff(q, axis=0)).sum() / 3000  # between samples
    assert least - slack - speed <= made.min_clearance <= least + ROUNDING * max(1, case.size)


def test_no_place_on_a_curve_is_closer_than_its_certificate_states() -> None:
    """The curves have one to three cubic pieces, which swing far between their ends."""
    for seed in seeds(max(PATHS // 2, 8)):
        rng = np.random.default_rng([seed, 34])
        robot = sp.load(str(rng.choice(["ur5e", "panda", "stanford"])))
        q = np.clip(robot.random(seed=seed), robot.lower, robot.upper)[None]
        model = model_of(robot, drawn_world(rng, robot, 1.0, q, 6))
        pieces = int(rng.integers(1, 4))
        swing = rng.normal(size=(4, pieces, robot.dof)) * rng.choice([0.03, 0.2, 1.0])
        swing[0] += q[0]
        for i in range(1, pieces):  # continuous
            swing[0, i] = swing[:, i - 1].sum(axis=0)
        s = np.arange(pieces + 1, dtype=float)
        for clearance in (0.0, 0.02):
            made = curve_certificate(model, clearance, [Curve(s, swing)])
            u = np.linspace(0, 1, 200)[:, None] ** np.arange(4)
            least = least_distance(model, np.concatenate([u @ swing[:, i] for i in range(pieces)]))
            assert least >= made.min_clearance - ROUNDING, seed
            assert made.certified == (made.min_clearance >= clearance)
            first = curve_certificate(model, clearance, [Curve(s, swing)], first=True)
            assert first.certified == made.certified
        for above in (1e-6, 1e-5):  # a clearance that the curve narrowly misses
            assert not curve_certificate(model, least + above, [Curve(s, swing)])


@pytest.mark.parametrize("seed", seeds(10))
def test_certificates_of_prismatic_joints_hold_where_a_curve_leaves_its_chord(seed: int) -> None:
    """Points on slides leave the chord of a curve only as the coordinates do."""
    rng = np.random.default_rng([seed, 35])
    joints = [
        Joint(f"j{i}", "prismatic", f"l{i}", f"l{i + 1}", axis=axis, lower=-9.0, upper=9.0)
        for i, axis in enumerate(np.eye(3))
    ]
    robot = sp.Robot(Description("gantry", tuple(joints)))
    world = sp.World({"ball": c.Sphere(0.2, (9, 9, 9))}, links={"l3": c.Sphere(0.1)})
    swing = rng.normal(size=(4, 1, 3))
    on = [np.array([1, x, x**2, x**3]) @ swing[:, 0] for x in (0.0, 0.25, 0.5)]
    bulge = on[1] - (on[0] + on[2]) / 2  # the ball is on the outer side of the curve
    model = model_of(robot, world.moved({"ball": on[1] + 0.32 * bulge / np.linalg.norm(bulge)}))
    made = curve_certificate(model, 0.0, [Curve(np.array([0.0, 1.0]), swing)])
    u = np.linspace(0, 1, 2000)[:, None] ** np.arange(4)
    assert least_distance(model, u @ swing[:, 0]) >= made.min_clearance - ROUNDING


UR5E = sp.load("ur5e")
SIDEWAYS = [0, np.pi / 2, 0]
LINKS = {
    "link2": c.Capsule(0.06, 0.42, sp.pose([0.2125, 0, 0.13], rpy=SIDEWAYS)),
    "link3": c.Capsule(0.05, 0.39, sp.pose([0.196, 0, 0.02], rpy=SIDEWAYS)),
    "link4": c.Capsule(0.045, 0.05, [0, 0, -0.03]),
    "tool0": c.Capsule(0.045, 0.05, [0, 0, -0.04]),
}


def line(start: Array, move: Array, count: int) -> Array:
    first = UR5E.fk(start)
    last = first.copy()
    last[:3, 3] += move
    return sp.poses.interpolate(first, last, np.linspace(0, 1, count))


def test_a_path_avoids_a_branch_that_collides() -> None:
    """An obstacle blocks the elbow of the best branch, but leaves another branch free."""
    poses = line(np.radians([0, -70, 100, -120, -90, 0]), np.array([0, 0.2, 0]), 50)
    free = sp.plan_path(UR5E, poses)
    elbow = UR5E.fk(free.q[25], "link3")[:3, 3]
    world = sp.World({"ball": c.Sphere(0.06, elbow)}, links=LINKS)
    found = sp.plan_path(UR5E, poses, world=world, clearance=0.01)
    assert found.continuous
    assert found.certified
    assert found.min_clearance is not None
    assert found.min_clearance >= 0.01
    assert np.abs(found.q - free.q).max() > 0.5
    assert "certified" in str(found)


GOALS = json.loads((DATA / "goals.json").read_text())  # two of each scene


@pytest.mark.parametrize(
    "goal", nightly(GOALS, GOALS[::2]), ids=lambda goal: f"{goal['set']}{goal['number']}"
)
def test_a_retreat_ends_only_where_every_solution_collides(goal: dict[str, Any]) -> None:
    """The hand retreats 10 cm from goals of MotionBenchMaker; a search confirms an early end."""
    robot = sp.urdf(DATA / f"{goal['robot']}.urdf")
    world = sp.World(scene_of(goal["obstacles"], "goals", None)[0])
    T = robot.fk([goal["goal"][name] for name in robot.joint_names])
    poses = np.repeat(T[None], 40, axis=0)
    poses[:, :3, 3] -= np.linspace(0, 0.1, 40)[:, None] * T[:3, 2]
    found = sp.plan_path(robot, poses, world=world)
    assert found.certified
    if not found.success:
        end = int(np.isfinite(found.q[:, 0]).sum())
        assert not sp.Solver(robot, world=world, max_seeds=2000)(poses[end])


def test_no_path_crosses_a_thin_wall_between_two_targets() -> None:
    """The arm collides at no target, only between two targets."""
    poses = line(np.radians([0, -70, 100, -120, -90, 0]), np.array([0, 0.3, 0]), 31)
    wall = c.Box([0.02, 0.001, 0.02], (poses[15, :3, 3] + poses[16, :3, 3]) / 2)
    world = sp.World({"wall": wall}, links={"tool0": c.Sphere(0.0005)})
    found = sp.plan_path(UR5E, poses, world=world)
    assert not collides_anywhere(found, model_of(UR5E, world))
    assert not found.continuous


def collides_anywhere(found: sp.paths.PlannedPath, model: CollisionModel) -> bool:
    q = np.concatenate([places(each, 3000) for each in motions_of(found)])
    return bool(model.collides(q).any())


def test_a_path_ends_before_an_obstacle() -> None:
    poses = line(np.radians([0, -70, 100, -120, -90, 0]), np.array([0, 0.3, 0]), 60)
    world = sp.World({"wall": c.Box([2, 0.02, 2], poses[40, :3, 3])}, links=LINKS)
    found = sp.plan_path(UR5E, poses, world=world, clearance=0.01)
    assert not found.success
    assert found.obstacle is not None
    assert "wall" in found.obstacle
    assert found.certified
    inside = sp.plan_path(UR5E, poses, world=world.moved({"wall": poses[0, :3, 3]}), clearance=0.01)
    assert not inside.pieces
    assert "wall" in str(inside.obstacle)


@cache
def blocked_reconfiguration() -> tuple[sp.Robot, Array, sp.World]:
    """Return a robot, poses that need a reconfiguration, and a world.

    An obstacle blocks the straight joint motion of the reconfiguration, but not the other motions.
    """
    narrow = UR5E.with_limits(
        lower={"shoulder_pan_joint": -1, "elbow_joint": 0, "wrist_3_joint": 0.3},
        upper={"shoulder_pan_joint": 1, "wrist_3_joint": 3.5},
    )
    near = np.radians([0, -70, 100, -120, 1.7, 0])
    first, last = UR5E.fk(near), UR5E.fk(near)
    first[1, 3] -= 0.2
    last[1, 3] += 0.2
    poses = sp.poses.interpolate(first, last, np.linspace(0, 1, 100))
    links: dict[str, Any] = LINKS | {"tool0": c.Capsule(0.02, 0.2, [0, 0, 0.12])}
    free = sp.plan_path(narrow, poses, world=sp.World(links=links))
    (change,) = free.reconfigurations
    assert not len(change.via)
    for share, link, z in product((0.3, 0.5, 0.7), ("tool0", "link4", "link3"), (0.2, 0.1, 0.0)):
        at = change.before + share * (change.after - change.before)
        place = (UR5E.fk(at, link) @ [0, 0, z, 1])[:3]
        world = sp.World({"ball": c.Sphere(0.02, place)}, links=links)
        model = model_of(narrow, world)
        pieces = np.concatenate([places(each, 200) for each in free.pieces])
        if least_distance(model, pieces) > 0.005:
            break
    else:
        pytest.fail("no obstacle is in the way of the reconfiguration only")
    assert least_distance(model, at[None]) < 0
    return narrow, poses, world


def test_a_reconfiguration_leads_around_obstacles() -> None:
    """The straight joint motion is blocked; a certified motion around the obstacle is found."""
    narrow, poses, world = blocked_reconfiguration()
    found = sp.plan_path(narrow, poses, world=world, clearance=0.003)
    assert found.success
    assert found.certified
    assert any(len(each.via) for each in found.reconfigurations)
    motions = motions_of(found)
    assert not broken(found.certificate, model_of(narrow, world), motions, 1.0)
    motion = found.timed()
    assert motion.certified
    for each in found.reconfigurations:
        for via in each.via:
            assert np.abs(motion.q - via).max(axis=1).min() < 1e-9


def test_a_reconfiguration_without_a_free_motion_is_not_certified() -> None:
    robot, poses, world = blocked_reconfiguration()
    found = sp.plan_path(robot, poses, world=world, clearance=0.003, samples=1)
    assert found.success
    assert found.certificate is not None
    assert not found.certified
    (change,) = found.reconfigurations
    assert found.certificate.interval == (change.at, change.at)
    assert "ball" in (found.certificate.pair or ())
    assert not found.timed().certified
    assert "no motion around obstacles was found with 1 random configurations" in change.reason


@pytest.mark.parametrize("mode", ["exact", "path"])
def test_a_simulated_motion_has_a_certificate(mode: str) -> None:
    start = np.radians([0, -70, 100, -120, -90, 0])
    poses = line(start, np.array([0, 0.3, 0]), 120)
    world = sp.World({"wall": c.Box([2, 0.02, 2], poses[90, :3, 3])}, links=LINKS)
    limits = sp.Limits.for_robot(UR5E, mode=mode, max_acceleration=20)
    motion = sp.simulate(
        UR5E, start, target=poses, dt=0.02, limits=limits, world=world, clearance=0.01
    )
    assert motion.certificate is not None
    assert not broken(motion.certificate, model_of(UR5E, world), [motion.q], 1.0)
    assert motion.certified
    later = motion.resampled(0.01)
    assert later.certificate is not None
    assert not broken(later.certificate, model_of(UR5E, world), [later.q], 1.0)


def test_paths_without_a_world_have_no_certificate() -> None:
    poses = line(np.radians([0, -70, 100, -120, -90, 0]), np.array([0, 0.1, 0]), 5)
    found = sp.plan_path(UR5E, poses)
    assert found.certificate is None
    assert found.min_clearance is None
    assert not found.certified
    assert found.timed().certificate is None
    with pytest.raises(InputError, match="clearance needs world="):
        sp.plan_path(UR5E, poses, clearance=0.01)
