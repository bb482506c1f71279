"""`Solver` with every kind of task on robots with joints of every kind, in any combination.

Joints include ball, planar and floating joints, prismatic joints, and joints that mimic others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supple as sp
from formats import KINDS, drawn_robot
from generated import robot as generated_robot
from generated import seeds
from sizes import nightly
from some_tasks import reached, some_tasks
from supple.describe import Description, Joint
from supple.errors import InputError
from supple.tasks import OpenTask, Task
from trees import axis, pose

Array = np.ndarray
CASES = seeds(nightly(400, 6))
MOVE = 0.4  # largest displacement of a joint [rad or m]


def drawn(seed: int) -> sp.Robot:
    """Return a random robot: of all kinds of joints, of three kinds, of one to three joints, on a
    moving base, or plain.
    """
    rng = np.random.default_rng(seed)
    if seed % 5 == 0:
        return drawn_robot(seed)
    if seed % 5 == 1:
        return drawn_robot(seed, (*rng.choice(KINDS, 2, replace=False), "ball"))
    if seed % 5 == 2:
        return generated_robot(rng, size=1.0).with_base(str(rng.choice(["floating", "planar"])))
    if seed % 5 == 3:
        kinds = rng.choice(["ball", "planar", "floating", "prismatic"], rng.integers(1, 4))
        joints = [
            Joint(f"j{i}", str(kind), f"l{i}", f"l{i + 1}", pose(rng), axis(rng, False))
            for i, kind in enumerate(kinds)
        ]
        return sp.Robot(Description("few", tuple(joints)))
    return generated_robot(rng, size=1.0)


def drawn_tasks(robot: sp.Robot, rng: np.random.Generator) -> list[Task]:
    """Return one task of every kind that `solve` can meet, for frames that move."""
    tip = str(rng.choice(robot.tips))
    rows = min(3, robot.nv)

    def position(q: Array) -> Array:
        return robot.fk(q, tip)[:rows, 3]

    def with_jacobian(q: Array) -> tuple[Array, Array]:
        return position(q), robot.jacobian(q, tip)[:rows]

    frames = [some.task for some in some_tasks(robot, rng) if not some.task.is_preference]
    return [
        *(task for task in frames if getattr(task, "axes", None) != "spatial"),
        OpenTask(position, tolerance=rng.choice([None, 1e-3])),
        OpenTask(
            with_jacobian, weight=float(rng.uniform(0.5, 2)), unit=str(rng.choice(["m", "rad"]))
        ),
    ]


def target_at(robot: sp.Robot, task: Any, q: Array) -> Array:
    """Return the target that a task reaches at q (nq,)."""
    return (
        task.on(robot).reached(robot, q) if isinstance(task, OpenTask) else reached(robot, task, q)
    )


def solver_of(robot: sp.Robot, tasks: Any, **options: Any) -> sp.Solver:
    """Return a solver, with only two seeds for open tasks, whose iterations in Python are slow."""
    if any(isinstance(task, OpenTask) for task in (tasks if isinstance(tasks, list) else [tasks])):
        options |= {"max_seeds": 2, "max_iterations": 200}
    return sp.Solver(robot, tasks, **options)


def check(robot: sp.Robot, task: Task, targets: Array, found: Any) -> None:
    """Check that solutions are configurations inside the limits, and that those with success meet
    the task.
    """
    q = np.reshape(found.q, (-1, robot.nq))
    for k, name in enumerate(robot.position_names):
        if name in robot.joint_names:
            j = robot.joint_names.index(name)
            assert ((robot.lower[j] <= q[:, k]) & (q[:, k] <= robot.upper[j])).all()
        elif name.endswith("/qw"):
            np.testing.assert_allclose(np.linalg.norm(q[:, k : k + 4], axis=1), 1, atol=1e-12)
    for one, target, met in zip(q, targets, np.ravel(found.success), strict=True):
        lin = task.linearize(robot, one, target)
        assert not met or np.abs(lin.e / np.array(task.on(robot).weights)).max() <= 1e-6 * (
            1 + 1e-6
        )


@pytest.mark.parametrize("seed", CASES)
def test_every_task_on_every_robot_is_met_from_a_seed_nearby(seed: int) -> None:
    """A q0 that meets the task is returned unchanged; from a q0 nearby, the search converges."""
    robot, rng = drawn(seed), np.random.default_rng(seed + 1)
    q = robot.random(3, seed=seed)
    near = np.stack([robot.random(seed=rng) for _ in q])
    near = robot.integrate(q, 0.02 * robot.difference(near, q))  # between two q within the limits
    for task in drawn_tasks(robot, rng):
        targets = np.stack([target_at(robot, task, one) for one in q])
        solver = solver_of(robot, task)
        same = solver.batch(targets, q0=q)
        assert same.success.all(), task
        assert np.abs(robot.difference(same.q, q)).max() <= 1e-9, task
        found = solver.batch(targets, q0=near)
        assert found.success.all(), task
        check(robot, task, targets, found)
        one = solver(targets[0], q0=near[0])
        assert one.success, task
        check(robot, task, targets[:1], one)
        check(robot, task, targets, solver.batch(targets))


@pytest.mark.parametrize("seed", CASES)
def test_several_tasks_of_any_kind_are_met_at_the_same_time(seed: int) -> None:
    robot, rng = drawn(seed), np.random.default_rng(seed + 2)
    every = drawn_tasks(robot, rng)
    q = robot.random(seed=seed)
    for _ in range(3):
        tasks = [every[i] for i in rng.permutation(len(every))[: rng.integers(2, 4)]]
        targets = [target_at(robot, task, q) for task in tasks]
        found = solver_of(robot, tasks)(targets, q0=q)
        assert found.success, tasks
        assert found.moved <= 1e-9
        if any(isinstance(task, OpenTask) for task in tasks):
            continue
        if all("/" in name for name in robot.joint_names):
            with pytest.raises(InputError, match="needs a joint with one degree of freedom"):
                sp.Solver(robot, [*tasks, sp.PostureTask()])
            continue
        posture = sp.Solver(robot, [*tasks, sp.PostureTask()])([*targets, q], q0=q)
        for task, target in zip(tasks, targets, strict=True):
            check(robot, task, target[None], posture)


@pytest.mark.parametrize("seed", CASES)
def test_every_call_and_preference_accepts_every_robot(seed: int) -> None:
    robot, rng = drawn(seed), np.random.default_rng(seed + 3)
    q, q0 = robot.random(2, seed=seed), robot.random(2, seed=rng)
    for task in drawn_tasks(robot, rng):
        if isinstance(task, OpenTask):
            continue
        targets = np.stack([target_at(robot, task, one) for one in q])
        solver = sp.Solver(robot, task, max_seeds=16)
        for found in (solver.several(targets[0], 3), solver.several(targets[0], 3, q0=q0[0])):
            check(robot, task, np.repeat(targets[:1], len(found), axis=0), found)
        every = solver.all(targets)
        check(robot, task, targets[every.target], every)
        for prefer in ("nearest", "manipulability", "limits", lambda q: float(q @ q)):
            found = sp.Solver(robot, task, prefer=prefer, max_seeds=16).batch(targets, q0=q0)
            check(robot, task, targets, found)
            assert np.isfinite(found.moved).all()
            assert found.same_branch.shape == (2,)
        explained = solver(targets[0], q0=q0[0], explain=True)
        assert str(explained.report)


@pytest.mark.parametrize("seed", CASES)
def test_no_joint_of_any_robot_moves_farther_than_max_move(seed: int) -> None:
    """The displacement of a ball joint is the rotation vector from its orientation in q0."""
    robot, rng = drawn(seed), np.random.default_rng(seed + 4)
    q0 = robot.random(3, seed=seed)
    other = robot.random(3, seed=rng)
    step = robot.difference(other, q0)
    share = np.minimum(1, 0.9 * MOVE / np.abs(step).max(axis=1, keepdims=True))
    q = robot.integrate(q0, share * step)  # between two q within the limits
    for task in drawn_tasks(robot, rng):
        if isinstance(task, OpenTask):
            continue
        targets, far = (np.stack([target_at(robot, task, x) for x in each]) for each in (q, other))
        for prefer in (None, "fast"):
            solver = sp.Solver(robot, task, max_move=MOVE, prefer=prefer)
            found = solver.batch(targets, q0=q0)
            assert found.success.all(), task
            check(robot, task, targets, found)
            missed = sp.Solver(robot, task, max_move=MOVE, prefer=prefer, max_seeds=8).batch(
                far, q0=q0
            )
            check(robot, task, far, missed)
            for each in (found, missed):
                assert (each.moved <= MOVE + 1e-12).all(), task


@pytest.mark.parametrize("seed", CASES)
def test_a_solution_does_not_depend_on_the_other_targets_of_its_batch(seed: int) -> None:
    """On every robot, solutions have the same bits for any order and number of
    targets or threads.
    """
    robot, rng = drawn(seed), np.random.default_rng(seed + 5)
    q = robot.random(80, seed=seed)
    for task in drawn_tasks(robot, rng)[:4]:
        targets = np.stack([target_at(robot, task, one) for one in q])
        solver = sp.Solver(robot, task, max_seeds=8)
        found = solver.batch(targets)
        order = rng.permutation(len(q))
        for some, threads in ((order, 1), (order[:50], 2), (order[:3], 1)):
            again = sp.Solver(robot, task, max_seeds=8, threads=threads).batch(targets[some])
            np.testing.assert_array_equal(again.q, found.q[some])
            np.testing.assert_array_equal(again.iterations, found.iterations[some])


@pytest.mark.parametrize("base", [None, "floating"])
def test_tasks_in_spatial_coordinates_are_refused_on_every_robot(base: str | None) -> None:
    robot = sp.load("panda") if base is None else sp.load("panda").with_base(base)
    with pytest.raises(InputError, match="solve takes no tasks in spatial coordinates"):
        sp.Solver(robot, sp.PoseTask(axes="spatial"))
