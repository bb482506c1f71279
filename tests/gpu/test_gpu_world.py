"""Solutions on a GPU in a world: converged ones keep the clearance, and blocked targets name the
pairs.

Results of an emulated and of a real GPU are checked with the distances of the CPU. On a real GPU:
pytest tests/gpu/test_gpu_world.py -m cuda
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import drawn_worlds
import emulator
import supple as sp
from emulator import there
from gpu_kernels import LEFT, RIGHT, tree
from supple import PositionTask, PostureTask, SolveStatus
from supple import collision as c
from supple.collision.model import model_of
from supple.gpu.queue import Queue, allocate_arrays
from supple.ik.arguments import Settings
from supple.ik.driver import Driver
from supple.ik.gpu import position
from supple.ik.gpu.request import Request
from supple.ik.problem import compile_problem
from supple.ik.world_check import WorldCheck

Array = np.ndarray
CASES = int(os.environ.get("SUPPLE_CASES", "60"))
ANY_SHAPES = range(max(4, CASES // 15))
HAND = PositionTask(rows=("x", "y"))
NEAR = (HAND, PostureTask())
EITHER = (PositionTask(LEFT), PositionTask(RIGHT))
TREE, PUMA = tree(), sp.load("puma560")
COUNT = 40
ARM = sp.dh([(1.0, 0, 0, 0), (0.8, 0, 0, 0), (0.5, 0, 0, 0)], limits=[(-2.5, 2.5)] * 3)


@pytest.fixture(params=["a warp for each", "a thread for each"])
def strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "a thread for each":
        monkeypatch.setattr(position, "FEW", COUNT // 2)
        monkeypatch.setattr(position, "FEW_LARGE", COUNT // 2)


def spheres(robot: sp.Robot, radius: float) -> dict[str, list[c.Sphere]]:
    """Return spheres along the links of a robot, from joint axis to joint axis."""
    made: dict[str, list[c.Sphere]] = {}
    for joint in robot.description.joints:
        end = np.linalg.inv(joint.child_placement)[:3, 3]
        for link, at in ((joint.parent, joint.origin[:3, 3]), (joint.child, end)):
            if np.linalg.norm(at) > 0.05:
                steps = np.linspace(0.0, 1.0, 6)[1:-1, None] * at
                made.setdefault(link, []).extend(c.Sphere(radius, p) for p in steps)
    return made


def rejected(check: Any, problem: Any, q: Array) -> Array:
    """Return a mask (K,) of the configurations (K, n) that the CUDA kernel `reject` rejects."""
    options = Settings.of(
        prefer=None,
        max_move=None,
        position_tolerance=1e-6,
        rotation_tolerance=1e-6,
        timeout=None,
        max_seeds=None,
        threads=None,
        device="cuda",
        precision="mixed",
        check=check,
    ).options(None, seeded=False)
    driver = Driver(problem, options)
    solver = driver.gpu_solver()
    gpu, given, count = solver.device, driver.gpu_options().check, len(q)
    gpu.use()
    stream = gpu.stream()
    sizes = {"q": q.nbytes, "outcome": count, "left": 4 * count, "counter": 8}
    memory, at = allocate_arrays(sizes, Queue(gpu, stream))
    gpu.upload(at["q"], np.ascontiguousarray(q), stream)
    gpu.zero(at["outcome"], count, stream)
    gpu.zero(at["counter"], 8, stream)
    request = Request(
        **at, count=count, world=given.world.memory.pointer, clearance=given.clearance
    )
    gpu.launch(solver.kernels["reject"], -(-count // 64), 64, stream, request)
    outcome, left, counter = np.empty(count, np.int8), np.empty(count, np.int32), np.empty(2, "i4")
    for array, name in ((outcome, "outcome"), (left, "left"), (counter, "counter")):
        gpu.download(array, at[name], stream)
    del memory
    hit = np.flatnonzero(outcome == SolveStatus.BLOCKED)
    assert sorted(left[: counter[1]].tolist()) == hit.tolist()
    return np.asarray(outcome == SolveStatus.BLOCKED)


# ---- robots and worlds ---------------------------------------------------------------------------


def any_shapes(seed: int) -> tuple[sp.Robot, Array, sp.World]:
    """Return an arm that moves in three dimensions, configurations, and a world with all kinds of
    shapes.
    """
    table = [(0.0, 0.5, 0.3, 0.0), (0.6, 0.0, 0.0, 0.0), (0.5, 1.2, 0.1, 0.0)]
    robot = sp.dh(table, limits=[(-2.5, 2.5)] * 3)
    rng, q = np.random.default_rng(seed), robot.random(COUNT, seed=seed)
    made = drawn_worlds.world(rng, robot, 1.0, q, 3)
    if rng.random() < 0.5:
        floor = sp.pose((0.0, 0.0, rng.uniform(-0.5, 0.2)), wxyz=rng.normal(size=4))
        made = made.with_obstacle("floor", c.HalfSpace(floor))
    return robot, q, made


def planar_world(seed: int, count: int = 5) -> sp.World:
    """Return a world of spheres; some targets of the planar arm have a free solution in it."""
    rng = np.random.default_rng(seed)
    angle, far = rng.uniform(0, 2 * np.pi, count), rng.uniform(0.5, 2.0, count)
    places = np.stack([far * np.cos(angle), far * np.sin(angle), np.zeros(count)], axis=1)
    balls = {f"ball{i}": c.Sphere(rng.uniform(0.05, 0.25), p) for i, p in enumerate(places)}
    return sp.World(balls, links=spheres(ARM, 0.04))


def crowded(robot: sp.Robot, seed: int) -> sp.World:
    """Return a world of balls around an arm, which block many solutions of the arm."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(40, 3))
    places *= rng.uniform(0.45, 0.9, (40, 1)) / np.linalg.norm(places, axis=1, keepdims=True)
    balls = {f"ball{i}": c.Sphere(rng.uniform(0.05, 0.15), p) for i, p in enumerate(places)}
    return sp.World(balls, links=spheres(robot, 0.03))


def ball() -> sp.World:
    """Return a world with one ball near a tree with two arms."""
    return sp.World({"ball": c.Sphere(0.25, (0.6, 0.2, 0.4))}, links=spheres(TREE, 0.03))


def load() -> None:
    p, T = there(np.ones((1, 3))), there(np.eye(4)[None])
    for seed in ANY_SHAPES:
        robot, _, where = any_shapes(seed)
        sp.Solver(robot, PositionTask(), world=where).batch(p)
    q0 = there(np.zeros((1, 3)))
    for where in (None, planar_world(0)):
        sp.Solver(ARM, HAND, world=where).batch(p)
    sp.Solver(ARM, HAND, world=planar_world(0)).batch(p, q0=q0)
    sp.Solver(ARM, NEAR, world=planar_world(0)).batch([p, q0])
    sp.Solver(ARM, HAND, world=planar_world(0), prefer="limits").batch(p)
    for tasks, given in ((EITHER[0], p), (EITHER, [p, p])):
        sp.Solver(TREE, tasks, world=ball()).batch(given)
    sp.Solver(TREE, EITHER[0], world=ball(), prefer="fast").batch(p, q0=there(TREE.neutral()[None]))
    for start in (None, there(np.zeros((1, 6)))):
        sp.Solver(PUMA, world=crowded(PUMA, 3)).batch(T, q0=start)
    sp.Solver(PUMA, world=crowded(PUMA, 3)).all(T)


device = emulator.emulated_and_real(load)


# ---- rejected configurations ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", ANY_SHAPES)
def test_a_gpu_rejects_what_collides_on_the_cpu(seed: int) -> None:
    """The worlds have all kinds of shapes, half-spaces and attached objects, with any clearance."""
    (robot, q, made), mixed = any_shapes(seed), []
    problem = compile_problem(robot, PositionTask())
    distance = np.array([model_of(robot, made).kernel.min_distance(each)[0] for each in q])
    for clearance in (0.0, max(0.0, float(np.median(distance)))):
        check = WorldCheck.of(robot, made, clearance)
        clear = np.abs(distance - clearance) > 1e-12
        assert clear.sum() >= COUNT - 2
        hit = rejected(check, problem, q)
        assert (hit == (distance < clearance))[clear].all()
        mixed.append(0 < hit.sum() < COUNT)
    if seed == 0:
        assert any(mixed)


@pytest.mark.parametrize("seed", range(max(2, CASES // 30)))
def test_a_gpu_tells_clearances_apart_that_are_equal_in_single_precision(seed: int) -> None:
    """The clearance is 1e-9 m more or less than the distance at one configuration on the CPU."""
    where = planar_world(seed)
    q = ARM.random(COUNT, seed=seed)
    problem, model = compile_problem(ARM, HAND), model_of(ARM, where)
    distance = np.array([model.kernel.min_distance(each)[0] for each in q])
    for each in np.flatnonzero(distance > 1e-6)[:6]:
        for away in (-1e-9, 1e-9):
            clearance = float(distance[each] + away)
            hit = rejected(WorldCheck.of(ARM, where, clearance), problem, q)
            assert (hit == (distance < clearance)).all()


# ---- solutions -----------------------------------------------------------------------------------


def check_results(found: Any, robot: sp.Robot, where: sp.World, clearance: float) -> None:
    """Check, with the distances of the CPU, that what the status of each result says is true."""
    assert ((robot.lower <= found.q) & (found.q <= robot.upper)).all()
    solved, blocked = found.success, found.status == SolveStatus.BLOCKED
    hit = c.collides(robot, where, found.q, clearance)
    assert not hit[solved].any()
    assert hit[blocked].all()
    assert (found.position_error[solved | blocked] <= 1e-6).all()
    for one in found[blocked]:
        assert one.pairs
        assert "blocked" in str(one)


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("seed", range(max(2, CASES // 30)))
def test_gpu_solutions_keep_the_clearance_and_have_the_status_of_the_cpu(
    seed: int, device: str
) -> None:
    where, clearance = planar_world(seed), 0.01
    q = ARM.random(COUNT, seed=seed)
    p = ARM.fk(q)[:, :3, 3]
    p[3], p[7] = np.nan, (5.0, 0.0, 0.0)
    p[11] = where.obstacles["ball0"].pose[:3, 3]
    options: Any = {"world": where, "clearance": clearance}
    gpu, cpu = (sp.Solver(ARM, HAND, device=d, **options) for d in ("cuda", "cpu"))
    found, same = gpu.batch(p), cpu.batch(p)
    check_results(found, ARM, where, clearance)
    assert (found.status == same.status).all()
    assert {SolveStatus.CONVERGED, SolveStatus.BLOCKED} <= set(found.status.tolist())
    first = c.collides(ARM, where, sp.Solver(ARM, HAND, device="cuda").batch(p).q, clearance)
    assert (first & found.success).any()  # free, although the first solution collides
    back = gpu.batch(p[::-1])
    np.testing.assert_array_equal(back.q[::-1], found.q)
    kept = gpu.batch(there(p)).numpy()
    np.testing.assert_array_equal(kept.q, found.q)
    np.testing.assert_array_equal(kept.status, found.status)
    check_results(kept, ARM, where, clearance)


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("seed", range(max(2, CASES // 30)))
def test_gpu_solutions_near_q0_keep_the_clearance(seed: int) -> None:
    """A q0 that is a free solution is returned; moving a solution toward q0 or a posture does not
    lead into obstacles.
    """
    where = planar_world(seed)
    q = ARM.random(4 * COUNT, seed=seed + 100)
    q = q[~c.collides(ARM, where, q, 1e-3)][:COUNT]
    p = ARM.fk(q)[:, :3, 3]
    solver = sp.Solver(ARM, HAND, device="cuda", world=where)
    own = solver.batch(p, q0=q)
    assert own.success.all()
    assert own.moved.max() < 1e-6
    other = ARM.random(COUNT, seed=seed)[: len(q)]
    far, cpu = (s.batch(p, q0=other) for s in (solver, sp.Solver(ARM, HAND, world=where)))
    check_results(far, ARM, where, 0.0)
    assert (far.success | ~cpu.success).mean() >= 0.95
    assert far.moved[far.success].mean() <= 1.2 * cpu.moved[cpu.success].mean()
    rest = np.full(3, 0.4)
    drawn = sp.Solver(ARM, NEAR, device="cuda", world=where).batch([p, rest])
    check_results(drawn, ARM, where, 0.0)
    assert drawn.success.all()


def test_joints_that_move_no_task_stay_at_q0_in_a_world() -> None:
    robot, where = TREE, ball()
    q0 = np.clip(robot.random(seed=5), robot.lower, robot.upper)
    task = EITHER[0]
    target = robot.fk(robot.random(COUNT, seed=6), LEFT)[:, :3, 3]
    for start in ({}, {"q0": q0, "prefer": "fast"}):
        options = {k: v for k, v in start.items() if k == "prefer"}
        gpu, cpu = (
            sp.Solver(robot, task, device=d, world=where, **options) for d in ("cuda", "cpu")
        )
        q = start.get("q0")
        found, same = gpu.batch(target, q0=q), cpu.batch(target, q0=q)
        check_results(found, robot, where, 0.0)
        assert (found.success == same.success).mean() >= 0.95
        still = [i for i, name in enumerate(robot.joint_names) if name.startswith("right")]
        stay = robot.neutral() if q is None else q0
        assert (found.q[:, still] == stay[still]).all()
    goals = [robot.fk(robot.random(8, seed=7), name)[:, :3, 3] for name in (LEFT, RIGHT)]
    whole = sp.Solver(robot, EITHER, device="cuda", world=where).batch(goals)
    check_results(whole, robot, where, 0.0)
    assert whole.success.any()


def test_single_and_several_solutions_on_a_gpu_avoid_obstacles() -> None:
    where = planar_world(1)
    q = ARM.random(COUNT, seed=2)
    free = ~c.collides(ARM, where, q)
    solver = sp.Solver(ARM, HAND, device="cuda", world=where)
    for each in q[free][:3]:
        target = ARM.fk(each)[:3, 3]
        one = solver(target)
        assert one
        assert not c.collides(ARM, where, one.q)
        some = solver.several(target, 4)
        assert some.success.all()
        assert not c.collides(ARM, where, some.q).any()
        best = sp.Solver(ARM, HAND, device="cuda", world=where, prefer="limits")(target)
        assert not c.collides(ARM, where, best.q)
    inside = next(iter(where.obstacles.values())).pose[:3, 3]
    stuck = solver(inside)
    assert stuck.status == SolveStatus.BLOCKED
    assert stuck.pairs


def test_an_empty_world_changes_no_solution_on_a_gpu() -> None:
    p = ARM.fk(ARM.random(COUNT, seed=3))[:, :3, 3]
    free = sp.Solver(ARM, HAND, device="cuda", world=sp.World()).batch(p)
    np.testing.assert_array_equal(free.q, sp.Solver(ARM, HAND, device="cuda").batch(p).q)
    assert (free.clearance == np.inf).all()


# ---- arms whose solutions are all known ----------------------------------------------------------


@pytest.mark.usefixtures("strategy")
def test_a_target_is_called_blocked_on_a_gpu_if_and_only_if_it_has_no_free_solution() -> None:
    """All solutions of the arm of six joints are known; targets are in host memory and in GPU
    memory.
    """
    robot = PUMA
    where = crowded(robot, 3)
    T = robot.fk(robot.random(COUNT, seed=1))
    free = [
        ~c.collides(robot, where, each.q) if len(each) else np.zeros(0, bool)
        for each in sp.Solver(robot).all(T).split()
    ]
    possible = np.array([each.any() for each in free])
    assert 0.2 < possible.mean() < 0.8
    q0 = robot.random(COUNT, seed=2)
    solver = sp.Solver(robot, device="cuda", world=where)
    for start in (None, q0):
        q = None if start is None else there(start)
        kept = solver.batch(there(T), q0=q).numpy()
        here = solver.batch(T, q0=start)
        for found in (kept, here):
            check_results(found, robot, where, 0.0)
            assert (found.success == possible).all()
            assert (found.status[~possible] == SolveStatus.BLOCKED).all()
        cpu = sp.Solver(robot, world=where).batch(T, q0=start)
        assert (cpu.success == possible).all()
    moved, least = kept.moved[possible], []
    for each, which, at in zip(sp.Solver(robot).all(T).split(), free, q0, strict=True):
        least += [np.abs(each.q[which] - at).max(axis=1).min()] if which.any() else []
    assert (moved <= np.array(least) + 1e-6).mean() >= 0.9  # mostly the nearest free solution


def test_all_free_solutions_of_targets_in_gpu_memory_are_returned() -> None:
    robot = PUMA
    where = crowded(robot, 3)
    T = robot.fk(robot.random(COUNT, seed=1))
    cpu = sp.Solver(robot, world=where).all(T)
    found = sp.Solver(robot, world=where).all(there(T)).numpy()
    assert (found.count == cpu.count).all()
    for one, other in zip(found.padded(), cpu.padded(), strict=True):
        # Solutions of equal preference may be in another order.
        ours, theirs = (x[np.lexsort(np.round(x, 4).T)] for x in (one, other[:8]))
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    here = sp.Solver(robot, device="cuda", world=where).all(T)
    assert (here.count == cpu.count).all()
    assert not c.collides(robot, where, here.q).any()
