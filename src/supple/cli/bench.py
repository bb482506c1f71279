"""`supple bench`: times of kinematics, a servo step, and solving one or many poses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

import supple as sp
from supple.cli.console import as_json_option, print_json, print_table, progress
from supple.cli.robots import with_robot

_SECONDS = 0.25  # duration of each measurement [s]


@click.command()
@with_robot
@click.option("--poses", default=20_000, show_default=True, help="Number of poses in the batch.")
@as_json_option
def bench(robot: sp.Robot, poses: int, as_json: bool) -> None:
    """Measure the speed of this machine: kinematics, a servo step, one pose, a batch of poses.

    Each time is the median of short runs; on a busy machine times vary. A servo step has default
    damping and limits; it is timed at two of 256 random configurations: the least singular and the
    most singular one. `make bench` in a clone of the repository compares with other libraries.
    """
    if poses < 1:
        raise click.UsageError(f"--poses must be above 0; given: {poses}")
    measured = measure(robot, poses)
    if as_json:
        print_json(measured)
        return
    rows = [
        ("forward kinematics", f"{measured['fk_us']:.2f} µs"),
        ("pose and Jacobian", f"{measured['jacobian_us']:.2f} µs"),
        ("servo step, far from singular", f"{measured['servo_us']:.2f} µs"),
        ("servo step, near a singularity", f"{measured['servo_singular_us']:.2f} µs"),
        ("solve one pose", f"{measured['solve_us']:.1f} µs"),
        (f"solve {poses:,} poses", f"{measured['batch_us']:.2f} µs each"),
        ("", f"{measured['batch_per_second']:,.0f} per second"),
        ("", f"{100 * measured['batch_converged']:.2f} % converged"),
    ]
    print_table(f"{robot.name}, on this machine", ("", "time"), rows)


def measure(robot: sp.Robot, poses: int) -> dict[str, Any]:
    """Return the times of the main functions of supple for a robot, by name [µs]."""
    q = robot.random(256, seed=0)
    T = robot.fk(q)
    target: Any = T[0] if len(robot.tips) == 1 else list(T[0])
    sigma = np.min([robot.singular_values(q, tip)[:, -1] for tip in robot.tips], axis=0)

    solver = sp.Solver(robot)

    def one(i: int) -> None:
        solver(T[i % len(T)] if len(robot.tips) == 1 else list(T[i % len(T)]))

    solver(target)  # the first call prepares the table of seeds
    found: dict[str, Any] = {
        "robot": robot.name,
        "fk_us": _median(lambda i: robot.fk(q[i % len(q)])),
        "jacobian_us": _median(lambda i: robot.fk_jacobian(q[i % len(q)])),
        "servo_us": _median(_servo_step(robot, q[sigma.argmax()])),
        "servo_singular_us": _median(_servo_step(robot, q[sigma.argmin()])),
        "solve_us": _median(one),
    }
    many = robot.fk(robot.random(poses, seed=1))
    goals: Any = many if len(robot.tips) == 1 else [many[:, k] for k in range(len(robot.tips))]
    with progress("solving", poses) as update:
        began = time.perf_counter()
        solved = solver.batch(goals, progress=update)
        took = time.perf_counter() - began
    return {
        **found,
        "batch_us": 1e6 * took / poses,
        "batch_per_second": poses / took,
        "batch_converged": float(solved.success.mean()),
    }


def _servo_step(robot: sp.Robot, q: Any) -> Callable[[int], Any]:
    """Return a function that takes the same default servo step from q at each call."""
    servo, out = sp.Servo(robot, dt=0.004), np.empty(robot.dof)
    twist: Any = np.full(6, 0.02)
    command = twist if len(robot.tips) == 1 else [twist] * len(robot.tips)
    return lambda i: servo(q, command, out=out)


def _median(call: Callable[[int], Any]) -> float:
    """Return the median time of a call [µs], over runs of about 5 ms."""
    call(0)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.005:
        call(count)
        count += 1
    runs: list[float] = []
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or not runs:
        start = time.perf_counter()
        for i in range(count):
            call(i)
        runs.append((time.perf_counter() - start) / count)
    return 1e6 * float(np.median(runs))
