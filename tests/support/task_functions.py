"""Calls of every function that takes a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import supple as sp
from supple.errors import InputError
from supple.tasks import OpenTask, Task

Array = np.ndarray


def steps(servo: sp.Servo, q: Array, **command: Any) -> Array:
    return np.array([q := servo(q, **command) for _ in range(5)])


def functions(
    robot: sp.Robot, task: Task, x: Array, v: Array, twists: Array, line: Array, q: Array
) -> dict[str, Callable[[], Any]]:
    """Return, by name, calls of every function that takes tasks; the calls return arrays.

    Args:
        robot: The robot.
        task: The task.
        x: Targets of the task (COUNT, ...).
        v: Velocities of the task (COUNT, ...).
        twists: Velocities of the task in the form that `velocities` takes.
        line: Targets of the task (K, ...) on a path that begins at q[0].
        q: Configurations (COUNT, nq) that reach the targets.
    """
    at = robot.integrate(q, np.full(robot.nv, 0.05))
    damped = sp.DLS(sp.damping.Constant(1e-3))
    other = OpenTask(lambda q: (q[-1:] ** 2, 2 * q[-1] * np.eye(robot.nv)[-1:]))
    rest = sp.PostureTask().on(robot).reached(robot, robot.neutral())
    search = {"max_seeds": 4}

    def solver(**options: Any) -> sp.Solver:
        return sp.Solver(robot, task, **(search | options))

    def linear(lin: sp.Linearization) -> list[Array]:
        return [lin.J, lin.e]

    def found(one: Any) -> list[Array]:
        return [one.q, one.position_error, one.rotation_error]

    return {
        "Task.linearize": lambda: linear(task.linearize(robot, at[0], x[0], velocity=v[0])),
        "linearize": lambda: linear(sp.linearize(robot, task, at, x, velocity=v)),
        "Servo": lambda: steps(sp.Servo(robot, task, dt=0.01), at[0], target=x[0]),
        "Servo, velocity": lambda: steps(sp.Servo(robot, task, dt=0.01), at[0], velocity=v[0]),
        "Servo, second order": lambda: steps(
            sp.Servo(robot, task, dt=0.01, order=2), at[0], target=x[0]
        ),
        "Servo, two": lambda: steps(
            sp.Servo(robot, [task, other], dt=0.01), at[0], target=[x[0], np.zeros(1)]
        ),
        "Servo, held": lambda: steps(
            sp.Servo(robot, sp.PositionTask(robot.frames[-1]), dt=0.01, held=task),
            q[0],
            velocity=[0.0, 0.0, 0.01],
        ),
        "Solver": lambda: found(solver()(x[0])),
        "Solver, q0": lambda: found(solver()(x[0], q0=at[0])),
        "Solver, two": lambda: found(
            sp.Solver(robot, [task, sp.PostureTask()], **search)([x[0], rest])
        ),
        "Solver, step": lambda: found(solver(step=damped, max_iterations=10)(x[0], q0=at[0])),
        "batch": lambda: found(solver().batch(x)),
        "batch, q0": lambda: found(solver().batch(x, q0=at)),
        "batch, step": lambda: found(solver(step=damped, max_iterations=10).batch(x, q0=at)),
        "several": lambda: found(solver().several(x[0], 3)),
        "all": lambda: found(solver().all(x[0])),
        "all, q0": lambda: found(solver().all(x, q0=at)),
        "same branch": lambda: [bool(solver()(x[0], q0=at[0]).same_branch)],
        "solve": lambda: found(sp.solve(robot, x[0], tasks=task)),
        "simulate": lambda: sp.simulate(robot, at[0], target=line, tasks=task, dt=0.01).q,
        "simulate, velocity": lambda: (
            sp.simulate(robot, at[0], velocity=np.repeat(v[:1], 8, axis=0), tasks=task, dt=0.01).q
        ),
        "plan_path": lambda: sp.plan_path(robot, line, tasks=task, q0=q[0]).q,
        "velocities": lambda: damped.velocities(robot, at, twists, tasks=task),
        "velocities, target": lambda: damped.velocities(robot, at, target=x, tasks=task),
    }


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class of its error."""
    try:
        return call()
    except InputError as error:
        return type(error)
