"""Solutions in a world: converged if pose, limits and clearance hold, else with the pairs.

Distances are computed again here, by NumPy from forward kinematics.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import generated
import supple as sp
from supple import collision as c
from supple.collision.model import model_of
from supple.collision.scenes import scene_of
from supple.errors import InputError

DATA = Path(__file__).parent / "data"
CASES = int(os.environ.get("SUPPLE_CASES", "60"))
GOALS = json.loads((DATA / "goals.json").read_text())
Array = np.ndarray


@cache
def robot_of(name: str) -> sp.Robot:
    return sp.urdf(DATA / f"{name}.urdf")


def point_distances(shape: Any, p: Array) -> Array:
    """Return the signed distances (k,) of points (k, 3) from a shape, in world coordinates."""
    x = (p - shape.pose[:3, 3]) @ shape.pose[:3, :3]
    if isinstance(shape, c.Sphere):
        return np.asarray(np.linalg.norm(x, axis=1) - shape.radius)
    if isinstance(shape, c.Box):
        d = np.abs(x) - 0.5 * shape.size
    else:
        across = np.hypot(x[:, 0], x[:, 1]) - shape.radius
        d = np.stack([across, np.abs(x[:, 2]) - 0.5 * shape.length], axis=1)
    outside = np.linalg.norm(np.maximum(d, 0), axis=1)
    return np.asarray(outside + np.minimum(d.max(axis=1), 0.0))


def clearance_of(robot: sp.Robot, world: sp.World, q: Array, clearance: float) -> float:
    """Return the smallest distance of all checked pairs, for links made of spheres.

    Links that are close by construction need not keep the whole clearance. The part that they need
    not keep is added to their distance.
    """
    model = model_of(robot, world)
    shapes: Any = robot.shapes if world.links is None else world.links
    poses = {link: robot.fk(q, link) for link in shapes}
    placed = np.array(  # in the order of the model
        [(poses[n] @ s.pose)[:3, 3] for n, each in shapes.items() for s in each]
    ).reshape(-1, 3)
    radii = np.array([s.radius for each in shapes.values() for s in each])
    i, j = model.pairs.T
    own = j < len(placed)
    apart = np.linalg.norm(placed[i[own]] - placed[j[own]], axis=1) - radii[i[own]] - radii[j[own]]
    apart += np.maximum(clearance - model.allowed[own], 0)
    least = float(apart.min(initial=np.inf))
    for k, shape in enumerate(world.obstacles.values(), len(placed)):
        near = i[j == k]
        distances = point_distances(shape, placed[near]) - radii[near]
        least = min(least, float(distances.min(initial=np.inf)))
    return least


def check_solution(found: Any, robot: sp.Robot, world: sp.World, T: Array, least: float) -> None:
    """Check pose, limits and clearance of a solution independently of supple."""
    assert (found.q >= robot.lower).all()
    assert (found.q <= robot.upper).all()
    assert np.abs(robot.fk(found.q) - T).max() < 3e-6
    own = clearance_of(robot, world, found.q, least)
    assert own >= least - 1e-12
    assert found.clearance == pytest.approx(own, abs=1e-9)
    assert found.pairs == ()


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal['set']}{goal['number']}")
def test_goals_of_motion_bench_maker_are_solved(goal: dict[str, Any]) -> None:
    robot = robot_of(goal["robot"])
    world = sp.World(scene_of(goal["obstacles"], "goals", None)[0])
    q = np.array([goal["goal"][name] for name in robot.joint_names])
    T = robot.fk(q)
    check_solution(sp.solve(robot, T, world=world), robot, world, T, 0.0)
    near = sp.solve(robot, T, world=world, q0=q)
    check_solution(near, robot, world, T, 0.0)
    assert near.moved < 1e-6  # q0 itself is a solution


def spheres(robot: sp.Robot, rng: np.random.Generator) -> dict[str, list[c.Sphere]]:
    """Return spheres along the links of a robot, between the axes of joints."""
    made: dict[str, list[c.Sphere]] = {}
    for joint in robot.description.joints:
        back = np.linalg.inv(joint.child_placement)[:3, 3]
        for link, end in ((joint.parent, joint.origin[:3, 3]), (joint.child, back)):
            if np.linalg.norm(end) > 0.05:
                steps = np.linspace(0.2, 0.8, 4)[:, None] * end
                each = [c.Sphere(rng.uniform(0.02, 0.05), p) for p in steps]
                made.setdefault(link, []).extend(each)
    return made


def scene(rng: np.random.Generator, count: int, reach: float) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for i in range(count):
        T = sp.pose(rng.uniform(-reach, reach, size=3), wxyz=rng.normal(size=4))
        kind = rng.integers(3)
        size = rng.uniform(0.05, 0.35, size=3)
        if kind == 0:
            made[f"o{i}"] = c.Sphere(0.5 * size[0], T)
        elif kind == 1:
            made[f"o{i}"] = c.Box(size, T)
        else:
            made[f"o{i}"] = c.Cylinder(0.5 * size[0], size[1], T)
    return made


ARMS = ("ur5e", "panda", "puma560", "iiwa14")


@cache
def arm(name: str) -> sp.Robot:
    return sp.load(name)


@pytest.mark.parametrize("seed", range(max(4, CASES // 8)))
def test_solutions_keep_the_clearance_and_known_ones_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = arm(ARMS[seed % len(ARMS)])
    least = float(rng.choice([0.0, 0.01]))
    world = sp.World(scene(rng, 12, 1.0), links=spheres(robot, rng))
    q = robot.random(60, seed=seed)
    free = ~c.collides(robot, world, q, least)
    brute = np.array([clearance_of(robot, world, each, least) >= least for each in q])
    assert np.array_equal(free, brute)
    goals = robot.fk(np.concatenate([q[free][:4], q[~free][:4]]))
    solver = sp.Solver(robot, world=world, clearance=least)
    batch = solver.batch(goals)
    for k, T in enumerate(goals):
        for found in (solver(T), batch[k], solver(T, q0=q[0])):
            if found:
                check_solution(found, robot, world, T, least)
            else:
                assert found.status == sp.SolveStatus.BLOCKED, found
                assert found.pairs
                assert found.clearance < least
                assert "blocked" in str(found)
        known = k < min(4, int(free.sum()))
        if known and robot.dof == 6:
            assert solver(T), "a free configuration is known"
            assert batch[k]


@pytest.mark.parametrize("seed", generated.seeds(max(4, CASES // 8)))
def test_solutions_of_random_trees_keep_the_clearance(seed: int) -> None:
    """The robots have joints of any type, several end effectors, and joints that move no task."""
    rng = np.random.default_rng(seed)
    robot = generated.robot(rng, joints=int(rng.integers(2, 10)), size=1.0)
    if rng.random() < 0.3:
        robot = robot.with_tips(str(rng.choice(robot.frames[1:])))
    links = spheres(robot, rng)
    world = sp.World(scene(rng, 8, 1.5), links=links)
    q = robot.random(12, seed=seed)
    if not any(links.values()):
        with pytest.raises(InputError, match="has no shapes"):
            c.collides(robot, world, q)
        return
    free = ~c.collides(robot, world, q)
    brute = [clearance_of(robot, world, each, 0.0) >= 0 for each in q]
    assert free.tolist() == brute
    targets = [list(robot.fk(each)) if len(robot.tips) > 1 else robot.fk(each) for each in q]
    solver = sp.Solver(robot, world=world)
    statuses = {sp.SolveStatus.CONVERGED, sp.SolveStatus.BLOCKED, sp.SolveStatus.NOT_CONVERGED}
    for k, target in enumerate(targets[:4]):
        for found in (solver(target), solver(target, q0=q[k])):
            assert found.status in statuses
            if found:
                assert clearance_of(robot, world, found.q, 0.0) >= -1e-12
                assert found.position_error <= 1e-6
            elif found.status == sp.SolveStatus.BLOCKED:
                assert clearance_of(robot, world, found.q, 0.0) < 0
        if free[k]:
            assert found, "q0 itself is free"
            assert found.moved < 1e-3


@pytest.mark.parametrize("seed", range(max(2, CASES // 20)))
def test_a_blocked_arm_of_six_joints_has_no_free_solution(seed: int) -> None:
    """BLOCKED means that all solutions are known and collide; each is listed with its pairs."""
    rng = np.random.default_rng(seed)
    robot = arm(("ur5e", "puma560")[seed % 2])
    world = sp.World(scene(rng, 30, 0.8), links=spheres(robot, rng))
    solver, without = sp.Solver(robot, world=world), sp.Solver(robot)
    proven = 0
    for T in robot.fk(robot.random(8, seed=seed)):
        every = without.all(T)
        free = ~c.collides(robot, world, every.q)
        found, kept = solver(T), solver.all(T)
        assert bool(found) == bool(free.any())
        assert np.array_equal(kept.q, every.q[free])
        assert bool(kept.complete) == bool(every.complete)
        if found:
            continue
        assert found.status == sp.SolveStatus.BLOCKED
        assert found.is_proven == bool(every.complete)
        proven += found.is_proven
        assert len(found.blocked) == len(every)
        assert all(pairs for _, pairs in found.blocked)
        assert solver.several(T, 3).status[0] == sp.SolveStatus.BLOCKED
    assert proven


def test_an_empty_world_changes_no_solution() -> None:
    robot = arm("ur5e")
    T = robot.fk(robot.random(3, seed=0))
    for options in ({}, {"q0": robot.neutral()}):
        for each in T:
            with_world = sp.solve(robot, each, world=sp.World(), **options)
            assert np.array_equal(with_world.q, sp.solve(robot, each, **options).q)
            assert with_world.clearance == np.inf


def test_joints_that_move_no_task_keep_their_q0_in_a_world() -> None:
    robot = sp.urdf(DATA / "ur5.urdf").with_tips("forearm_link")
    world = sp.World({"ball": c.Sphere(0.1, (0.5, 0.5, 0.9))})
    q0 = np.array([0.3, -1.0, 0.4, 0.5, -0.6, 0.7])
    task = sp.PositionTask("forearm_link")
    target = robot.fk(robot.random(seed=3), "forearm_link")[:3, 3]
    found = sp.Solver(robot, task, world=world)(target, q0=q0)
    assert found.status in (sp.SolveStatus.CONVERGED, sp.SolveStatus.BLOCKED)
    assert np.array_equal(found.q[3:], q0[3:])


def test_solutions_with_a_preference_and_all_of_several_solutions_avoid_obstacles() -> None:
    robot, goal = robot_of("panda"), GOALS[0]
    world = sp.World(scene_of(goal["obstacles"], "goals", None)[0])
    T = robot.fk(np.array([goal["goal"][name] for name in robot.joint_names]))
    for prefer in ("fast", "manipulability", "limits"):
        found = sp.solve(robot, T, world=world, prefer=prefer)
        check_solution(found, robot, world, T, 0.0)
    solver = sp.Solver(robot, world=world)
    many = solver.several(T, 5)
    assert many.success.all()
    assert not c.collides(robot, world, many.q).any()
    every = solver.all(T)
    assert len(every) > 1
    assert (every.clearance >= 0).all()
    assert not every.complete


def test_arguments_that_need_a_world_or_contradict_it_are_refused() -> None:
    robot = arm("ur5e")
    world = sp.World({"ball": c.Sphere(0.1)}, links={"link2": [c.Sphere(0.1)]})
    T = robot.fk(robot.neutral())
    with pytest.raises(InputError, match="clearance needs world"):
        sp.solve(robot, T, clearance=0.1)
    with pytest.raises(InputError, match="clearance must be"):
        sp.solve(robot, T, world=world, clearance=-1)
    with pytest.raises(InputError, match="must be a World"):
        sp.solve(robot, T, world={"ball": c.Sphere(1)})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="world is not available with step"):
        sp.Solver(robot, world=world, step=sp.DLS(sp.damping.Constant(0.1)))
    for what in ("clearance", "pairs", "blocked", "is_proven"):
        with pytest.raises(InputError, match="needs world"):
            getattr(sp.solve(robot, T, q0=robot.neutral() + 5), what)
