"""Laws of the tasks that `test_compiled_task.py` adds to a copy of supple, where this file runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import supple as sp
from floating import floating_arm
from humanoids import humanoid
from supple.tasks import Task
from task_functions import functions, outcome
from task_recipe import NEW

Array = np.ndarray
COUNT = 40
ROBOTS: dict[str, Callable[[], sp.Robot]] = {
    "panda": lambda: sp.load("panda"),
    "ur5e": lambda: sp.load("ur5e"),
    "puma560_rail": lambda: sp.load("puma560_rail"),
    "planar3": lambda: sp.load("planar3"),
    "floating_arm": floating_arm,
    "humanoid": lambda: humanoid().with_base("floating"),
}


class Case:
    """A new task on a robot, with an independent formula for the quantity of the task."""

    def __init__(self, robot: sp.Robot, goal: str) -> None:
        self.robot, self.goal, self.frame = robot, goal, robot.tips[0]
        self.other = robot.frames[len(robot.frames) // 2]
        self.point = np.array([0.3, -1.2, 0.5])
        self.task: Task = {
            "point_distance": lambda: sp.tasks.PointDistanceTask(self.frame, tuple(self.point)),
            "spread": lambda: sp.tasks.SpreadTask(self.frame),
            "spread from a base": lambda: sp.tasks.SpreadTask(self.frame, self.other),
        }[goal]()

    def value(self, q: Array) -> Array:
        """Return the quantity (..., 1) at configurations."""
        p = self.robot.fk(q, self.frame)[..., :3, 3]
        if self.goal == "point_distance":
            return np.linalg.norm(p - self.point, axis=-1, keepdims=True)
        if self.goal == "spread from a base":
            p = p - self.robot.fk(q, self.other)[..., :3, 3]
        return 0.5 * (p**2).sum(axis=-1, keepdims=True)

    def slope(self, f: Callable[[Array], Array], q: Array, v: Array) -> Array:
        """Return the derivative of a function along v, by central differences."""
        h = 1e-5
        there = [f(self.robot.integrate(q, sign * h * v)) for sign in (1, -1)]
        return (there[0] - there[1]) / (2 * h)

    def q(self, count: int = COUNT) -> Array:
        """Return random configurations."""
        return self.robot.random(count, seed=3)


@pytest.fixture(params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> sp.Robot:
    return ROBOTS[request.param]()


@pytest.fixture(params=["point_distance", "spread", "spread from a base"])
def case(request: pytest.FixtureRequest, robot: sp.Robot) -> Case:
    return Case(robot, request.param)


def met(case: Case, q: Array, target: Array) -> None:
    assert np.abs(case.value(q) - target).max() <= 1e-6 + 1e-12


def test_every_new_task_has_a_case() -> None:
    assert {type(Case(sp.load("ur5e"), goal).task).__name__ for goal in NEW} == set(NEW.values())


def test_j_and_its_rate_are_derivatives_of_a_new_quantity(case: Case) -> None:
    q, rng = case.q(6), np.random.default_rng(1)
    v = rng.normal(size=(6, case.robot.nv))
    lin = sp.linearize(case.robot, case.task, q, np.zeros(1), qd=v)
    np.testing.assert_allclose(lin.e, -case.value(q), atol=1e-12)
    rates = np.array([case.slope(case.value, a, b) for a, b in zip(q, v, strict=True)])
    np.testing.assert_allclose(np.einsum("kij,kj->ki", lin.J, v), rates, atol=1e-7)
    assert lin.bias_acceleration is not None
    for at, speed, bias in zip(q, v, lin.bias_acceleration, strict=True):
        bent = case.slope(rate_along(case, speed), at, speed)
        np.testing.assert_allclose(bias, bent, atol=2e-7, rtol=1e-6)


def rate_along(case: Case, speed: Array) -> Callable[[Array], Array]:
    return lambda q: sp.linearize(case.robot, case.task, q).J @ speed


def test_solve_meets_targets_of_a_new_task(case: Case) -> None:
    target = case.value(case.q())
    solver = sp.Solver(case.robot, case.task)
    found = solver.batch(target)
    assert found.success.all()
    met(case, found.q, target)
    for k in range(4):
        one = solver(target[k])
        assert one
        met(case, one.q, target[k])
    again = solver.batch(target[::-1])
    exact = case.robot.nq == case.robot.nv  # quaternions agree up to rounding errors
    np.testing.assert_allclose(again.q[::-1], found.q, rtol=0, atol=0 if exact else 1e-14)
    near = solver(target[0], q0=case.q()[1])
    assert near
    met(case, near.q, target[0])
    assert len(solver.several(target[0], 3)) == 3


def test_solve_meets_targets_of_a_new_task_and_other_tasks_together(case: Case) -> None:
    q = case.q()
    target, orientation = case.value(q), case.robot.fk(q, case.frame)[:, :3, :3]
    if case.robot.nv < 6 or case.goal == "spread from a base":
        return  # the orientation and the distance of neighbors may not be independent
    solver = sp.Solver(case.robot, [case.task, sp.OrientationTask(case.frame)])
    found = solver.batch([target, orientation])
    assert found.success.mean() >= 0.95
    good = found.success
    met(case, found.q[good], target[good])
    posture = sp.PostureTask().on(case.robot).reached(case.robot, case.robot.neutral())
    rest = sp.Solver(case.robot, [case.task, sp.PostureTask()]).batch([target, posture])
    assert rest.success.all()
    met(case, rest.q, target)


def test_an_unreachable_target_of_a_new_task_is_reported(case: Case) -> None:
    found = sp.Solver(case.robot, case.task, max_seeds=20)(np.array([-1.0]))
    assert not found
    assert np.isfinite(found.q).all()


def near_target(case: Case) -> tuple[Array, Array]:
    """Return a configuration, and the quantity at a nearby configuration as a target."""
    q = case.robot.integrate(case.robot.neutral(), np.full(case.robot.nv, 0.2))
    lin = sp.linearize(case.robot, case.task, q)
    way = lin.J[0] / max(np.linalg.norm(lin.J), 1e-9)
    return q, case.value(case.robot.integrate(q, 0.1 * way))


@pytest.mark.parametrize("options", [{}, {"order": 2}, {"step": sp.DLS(sp.damping.Constant(1e-8))}])
def test_a_servo_reaches_the_target_of_a_new_task(case: Case, options: dict[str, Any]) -> None:
    q, target = near_target(case)
    servo = sp.Servo(case.robot, case.task, dt=0.01, **options)
    for _ in range(600):
        q = servo(q, target=target)
    np.testing.assert_allclose(case.value(q), target, atol=1e-5)
    assert str(servo)


@pytest.mark.parametrize("others", [1, 2, 3])
def test_a_servo_reaches_targets_of_a_new_task_and_other_tasks(case: Case, others: int) -> None:
    q, target = near_target(case)
    if case.robot.nv < 6 or case.goal == "spread from a base":
        return  # the orientation and the distance of neighbors may not be independent
    there = sp.OrientationTask(case.frame), case.robot.fk(q, case.frame)[:3, :3]
    rest = sp.PostureTask(weight=1e-3), sp.PostureTask().on(case.robot).reached(case.robot, q)
    mass = sp.PositionTask(case.robot.frames[-1], rows=("z",), weight=0.1), np.zeros(3)
    more = [rest, there, mass][:others]
    tasks, targets = zip((case.task, target), *more, strict=True)
    step = sp.redundancy.Priority(sp.DLS(sp.damping.Constant(1e-6)))
    servo = sp.Servo(case.robot, tasks, dt=0.01, step=step if others == 3 else sp.steps.Yielding())
    before = abs(case.value(q) - target)
    for _ in range(600):
        q = servo(q, target=targets)
        assert np.isfinite(q).all()
    assert (abs(case.value(q) - target) <= 0.05 * before + 1e-5).all()


def test_a_held_new_task_keeps_its_value_while_another_task_moves(case: Case) -> None:
    q, _ = near_target(case)
    held = case.value(q)
    limits = sp.Limits.none(case.robot)
    servo = sp.Servo(
        case.robot, sp.PositionTask(case.other), dt=0.01, held=case.task, limits=limits
    )
    for _ in range(50):
        q = servo(q, velocity=[0.01, 0.02, 0.0])
        assert abs(case.value(q) - held) <= 1e-6


def test_batch_velocities_of_a_new_task_agree_with_single_calls(case: Case) -> None:
    q = case.q(8)
    damped = sp.DLS(sp.damping.Constant(1e-3))
    lin = sp.linearize(case.robot, case.task, q, case.value(q) + 0.01)
    qd = damped.velocities(case.robot, q, target=case.value(q) + 0.01, tasks=case.task, gain=1.0)
    np.testing.assert_allclose(qd, damped(lin), atol=1e-12)
    one = damped.velocities(
        case.robot, q[3], target=case.value(q[3]) + 0.01, tasks=case.task, gain=1
    )
    np.testing.assert_allclose(one, qd[3], atol=1e-12)
    speed = damped.velocities(case.robot, q, np.full((8, 1), 0.01), tasks=case.task)
    np.testing.assert_allclose(speed, qd, atol=1e-12)


def test_motions_follow_targets_of_a_new_task(case: Case) -> None:
    q, target = near_target(case)
    line = case.value(q) + np.linspace(0, 1, 60)[:, None] * (target - case.value(q))
    run = sp.simulate(case.robot, q, target=line, tasks=case.task, dt=0.02)
    np.testing.assert_allclose(case.value(run.q[-1]), target, atol=2e-2 * (1 + abs(target[0])))
    if case.robot.nq == case.robot.nv:
        path = sp.plan_path(case.robot, line, tasks=case.task, q0=q)
        np.testing.assert_allclose(case.value(path.q[-1]), target, atol=1e-5)


def test_every_function_takes_a_new_task(case: Case) -> None:
    q = case.q(4)
    line = case.robot.integrate(q[0], np.linspace(0, 1e-2, 20)[:, None] * np.ones(case.robot.nv))
    v = np.full((4, 1), 0.01)
    calls = functions(case.robot, case.task, case.value(q), v, v, case.value(line), q)
    failed = {
        name: found for name, call in calls.items() if isinstance(found := outcome(call), type)
    }
    assert not failed
