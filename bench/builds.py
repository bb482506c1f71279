"""Compare the speed and the bits of two builds of supple, on one core, in one interleaved run.

    python bench/builds.py BEFORE AFTER [--rounds 41] [--only WORD]

BEFORE and AFTER are folders that contain a package `supple`, for example made by
`pip install --no-deps --target BEFORE .` from two commits or with two sets of compiler flags. Each
workload runs in one process per build, and the two processes take turns. The table has the median
of the ratios of the two times, and says whether both results have the same bits. If a build cannot
run a workload, the row of the workload has the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ARMS = ("ur5e", "panda")
SIDES = ("before", "after")
LENGTH = 0.02  # duration of a measurement [s]
Workload = Callable[[], Any]  # returns the computed values


def workloads(arm: str) -> dict[str, Callable[[], Workload]]:
    """Return a function for each workload of an arm, which prepares the workload."""
    import supple as sp

    robot = sp.load(arm)
    q = robot.random(2000, seed=1)
    T = robot.fk(q)
    near = np.clip(
        q + np.random.default_rng(2).uniform(-0.1, 0.1, q.shape), *(robot.lower, robot.upper)
    )
    far = T[:40].copy()
    far[:, :3, 3] *= 4
    steps = {"DLS": sp.DLS(sp.damping.Optimal(max_speed=2.0)), "SDLS": sp.steps.SDLS()}
    solver = sp.Solver(robot)

    def each(solve: Callable[[int], Any], count: int = 200) -> Callable[[], Workload]:
        return lambda: lambda: [solve(i).q for i in range(count)]

    def control(**options: Any) -> Callable[[], Workload]:
        def prepared() -> Workload:
            servo = sp.Servo(robot, dt=0.004, **options)

            def run() -> Any:
                servo.reset()
                at, twist = q[0], [0.05, 0.02, 0, 0, 0.1, 0]
                for _ in range(300):
                    at = servo(at, twist)
                return at

            return run

        return prepared

    def velocities(step: Any) -> Callable[[], Workload]:
        V = np.random.default_rng(3).normal(size=(2000, 6))
        return lambda: lambda: step.velocities(robot, q, V, threads=1)

    def first_solve() -> Workload:
        def run() -> Any:
            return sp.solve(sp.load(arm), T[0]).q

        return run

    def avoiding() -> Workload:
        ball = sp.collision.Sphere(0.2, [0.5, 0.3, 0.2])
        link = robot.description.joints[-1].parent
        world = sp.World({"ball": ball}, links={link: [sp.collision.Sphere(0.05)]})
        return lambda: [sp.solve(robot, T[i], world=world).q for i in range(40)]

    position = sp.PositionTask()
    return {
        "solve(T)": each(lambda i: sp.solve(robot, T[i])),
        "solve(q0=)": each(lambda i: sp.solve(robot, T[i], q0=near[i])),
        "solve(tasks=)": each(lambda i: sp.solve(robot, T[i, :3, 3], tasks=position)),
        "solve(position_tolerance=)": each(
            lambda i: sp.solve(robot, T[i], position_tolerance=1e-4)
        ),
        "solve(prefer=)": each(lambda i: sp.solve(robot, T[i], prefer="fast")),
        "solve(max_move=)": each(lambda i: sp.solve(robot, T[i], q0=near[i], max_move=0.5)),
        "Solver(T)": each(lambda i: solver(T[i])),
        "Solver(q0=)": each(lambda i: solver(T[i], q0=near[i])),
        "out of reach": each(lambda i: solver(far[i]), len(far)),
        "solve(world=)": avoiding,
        "several": lambda: lambda: [solver.several(T[i], 8).q for i in range(20)],
        "all": lambda: lambda: [solver.all(T[i]).q for i in range(20)],
        "batch": lambda: lambda: sp.Solver(robot, threads=1).batch(T).q,
        "batch near": lambda: lambda: sp.Solver(robot, threads=1).batch(T, near).q,
        "load and first solve": first_solve,
        "fk": lambda: lambda: robot.fk(q),
        "jacobian": lambda: lambda: robot.jacobian(q),
        "one jacobian": lambda: lambda: [robot.jacobian(q[i]) for i in range(200)],
        "Servo": control(),
        "Servo, bounded": control(step=steps["DLS"]),
        "velocities, optimal": velocities(steps["DLS"]),
        "velocities, constant": velocities(sp.DLS(sp.damping.Constant(0.05))),
        "velocities, SDLS": velocities(steps["SDLS"]),
        "velocities, yielding": velocities(sp.steps.Yielding()),
        "plan_path": lambda: lambda: sp.plan_path(robot, line(robot, T[0])).q,
    }


def line(robot: Any, T: Any) -> Any:
    """Return 60 poses on a short line."""
    poses = np.repeat(T[None], 60, axis=0)
    poses[:, 2, 3] -= np.linspace(0, 0.1, 60)
    return poses


def of_tree(file: str) -> dict[str, Callable[[], Workload]]:
    """Return functions that prepare control steps of a robot file with a floating base."""
    import supple as sp

    robot = sp.urdf(file)
    q = robot.random(200, seed=1)
    goal = robot.fk(robot.integrate(robot.neutral(), np.full(robot.nv, 0.1)))

    def control() -> Workload:
        servo = sp.Servo(robot, dt=0.005)

        def run() -> Any:
            servo.reset()
            at = robot.neutral()
            for _ in range(100):
                at = servo(at, target=goal)
            return at

        return run

    def velocities() -> Workload:
        step = sp.DLS(sp.damping.Constant(0.05))
        target = np.broadcast_to(goal, (len(q), *goal.shape))
        return lambda: step.velocities(robot, q, target=target, threads=1)

    return {"Servo": control, "velocities": velocities}


def digest(result: Any) -> str:
    """Return a hash of the bits of a result: an array, or a list of results."""
    parts = result if isinstance(result, list) else [result]
    made = hashlib.sha256()
    for part in parts:
        made.update(np.ascontiguousarray(np.asarray(part, float)).tobytes())
    return made.hexdigest()


def of_robot(robot: str) -> dict[str, Callable[[], Workload]]:
    """Return functions that prepare the workloads of a built-in arm or of a robot file."""
    return of_tree(robot) if Path(robot).is_file() else workloads(robot)


def work(robot: str) -> None:
    """Read names of workloads from stdin and print the time of a call of each [s]."""
    known = of_robot(robot)
    prepared: dict[str, tuple[Workload, int]] = {}
    for text in sys.stdin:
        name = text.strip()
        answer: dict[str, Any] = {}
        try:
            if name not in prepared:
                run = known[name]()
                answer["digest"] = digest(run())
                begin = time.perf_counter()
                run()
                once = time.perf_counter() - begin
                prepared[name] = run, max(1, int(LENGTH / max(once, 1e-6)))
            run, repeats = prepared[name]
            begin = time.perf_counter()
            for _ in range(repeats):
                run()
            answer["time"] = (time.perf_counter() - begin) / repeats
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}".split("\n")[0][:90]
        print(json.dumps(answer), flush=True)


def started(folder: str, robot: str) -> subprocess.Popen[str]:
    """Start the process of a build."""
    here = Path(__file__).resolve()
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(here), "--work", robot],
        env=os.environ | {"PYTHONPATH": folder, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """Return the result that the process of a build prints for a workload."""
    print(name, file=process.stdin, flush=True)
    answer: dict[str, Any] = json.loads(process.stdout.readline() or '{"error": "it crashed"}')
    return answer


def row(builds: list[subprocess.Popen[str]], name: str, rounds: int) -> str:
    """Return the table cells of a workload: time before, ratio of times, comparison of results."""
    first = [ask(build, name) for build in builds]
    errors = [f"{side}: {first[i]['error']}" for i, side in enumerate(SIDES) if "error" in first[i]]
    if errors:
        return f"{'; '.join(errors)} | |"
    times: list[list[float]] = [[], []]
    for k in range(rounds):
        for i in (0, 1) if k % 2 else (1, 0):
            times[i].append(ask(builds[i], name)["time"])
    ratio = statistics.median(np.divide(times[1], times[0]))
    same = first[0]["digest"] == first[1]["digest"]
    bits = "same" if same else "other"
    return f"{1e6 * statistics.median(times[0]):.1f} | {ratio:.3f} | {bits}"


def compare(robot: str, folders: list[str], rounds: int, only: str) -> None:
    """Print the rows of a robot."""
    builds = [started(folder, robot) for folder in folders]
    for name in of_robot(robot):
        if only in name:
            print(f"| {Path(robot).stem} | {name} | {row(builds, name, rounds)} |", flush=True)
    for build in builds:
        build.stdin.close()
        build.wait()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("builds", nargs="*", metavar="FOLDER", help="BEFORE and AFTER")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--only", default="", help="Part of the names of workloads to run.")
    parser.add_argument("--file", action="append", default=[], help="URDF with a floating base.")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work)
        return
    if len(given.builds) != 2:
        parser.error("give two folders, BEFORE and AFTER")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| robot | workload | before [µs] | after/before | bits |\n|---|---|---:|---:|---|")
    sys.path.insert(0, given.builds[1])
    for robot in (*ARMS, *given.file):
        compare(robot, given.builds, given.rounds, given.only)


if __name__ == "__main__":
    main()
