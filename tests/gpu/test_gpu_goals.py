"""Goals of MotionBenchMaker are solved on a GPU without collisions, as on the CPU."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple as sp
from supple import collision as c
from supple.collision.scenes import scene_of

pytestmark = pytest.mark.cuda

DATA = Path(__file__).parents[1] / "collision/data"
GOALS = json.loads((DATA / "goals.json").read_text())
SCENES = [goal for goal in GOALS if goal["set"].startswith(("table_pick", "bookshelf_tall"))]
COUNT = 12_000  # so many that a thread solves each, not a warp
COMPARED = 2_000  # number of targets that are also solved on the CPU
Array = np.ndarray


@cache
def robot_of(name: str) -> sp.Robot:
    return sp.urdf(DATA / f"{name}.urdf")


def world_of(goal: dict[str, Any]) -> sp.World:
    return sp.World(scene_of(goal["obstacles"], "goals", None)[0])


def configurations(robot: sp.Robot, world: sp.World, name: str) -> Array:
    """Return configurations (COUNT, n) near random goals of a robot that do not
    collide in a world.
    """
    own = [goal["goal"] for goal in GOALS if goal["robot"] == name]
    q = np.array([[goal[joint] for joint in robot.joint_names] for goal in own])
    rng = np.random.default_rng(0)
    many = q[rng.integers(len(q), size=4 * COUNT)]
    many = np.clip(many + rng.uniform(-0.1, 0.1, many.shape), robot.lower, robot.upper)
    free = many[~c.collides(robot, world, many, 1e-9)]
    return free[:COUNT]


@pytest.mark.parametrize("goal", SCENES[::2], ids=lambda goal: goal["set"])
def test_goals_with_a_free_solution_in_a_scene_are_solved_on_a_gpu(
    goal: dict[str, Any], cupy: Any
) -> None:
    robot, world = robot_of(goal["robot"]), world_of(goal)
    q = configurations(robot, world, goal["robot"])
    T = robot.fk(q)
    solver = sp.Solver(robot, world=world, device="cuda")
    kept = solver.batch(cupy.asarray(T)).numpy()
    for found, goals in ((kept, T), (solver.batch(T[:500]), T[:500])):
        assert found.success.mean() >= 0.999
        solved = found.success
        assert not c.collides(robot, world, found.q[solved]).any()
        assert np.abs(robot.fk(found.q[solved]) - goals[solved]).max() < 3e-6
        assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    near = solver.batch(T, q0=q)
    assert near.success.all()
    assert near.moved.max() < 1e-3  # q0 is a free solution, and is returned
    back = solver.batch(cupy.asarray(T[::-1])).numpy()
    np.testing.assert_array_equal(back.q[::-1], kept.q)


@pytest.mark.parametrize("goal", SCENES[1::2], ids=lambda goal: goal["set"])
def test_targets_in_a_scene_have_the_status_of_the_cpu(goal: dict[str, Any]) -> None:
    robot, world = robot_of(goal["robot"]), world_of(goal)
    T = robot.fk(robot.random(COUNT, seed=5))
    solver = sp.Solver(robot, world=world, clearance=0.005, device="cuda")
    found = solver.batch(T)
    cpu = sp.Solver(robot, world=world, clearance=0.005).batch(T[:COMPARED])
    hit = c.collides(robot, world, found.q, 0.005)
    assert not hit[found.success].any()
    assert hit[found.status == sp.SolveStatus.BLOCKED].all()
    same = found.success[:COMPARED] == cpu.success
    assert same.all() if robot.dof == 6 else same.mean() >= 0.999
