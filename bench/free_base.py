"""Compare the time of `solve` for a robot on a free base with that on a fixed base.

Robots from files are put on a floating joint, or on six virtual joints with limits of a kilometer.
Targets are the poses (or positions) of one to four end effectors at random configurations. Apart
from the motion of the base, all bases have the same configurations. q0 is not given, or is
within 0.1 rad and 0.1 m of that configuration, or is another random configuration.

    python bench/free_base.py    # files of the robots: see bench/robots.py
    python bench/free_base.py --robots anymal.urdf g1 --count 500
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import measure
import supple as sp
from robots_files import End, ends, load, robot_files
from supple.describe import Joint
from supple.kinematics.configuration import integrate

ROBOTS = (
    "unitree_g1/g1_29dof_rev_1_0.urdf",
    "a2.urdf",
    "anymal_c",
    "solo12.urdf",
    "talos_reduced.urdf",
    "icub.urdf",
)
BASES = ("floating", "kilometer")
STARTS = ("none", "near", "far")
LONG, NEAR = 1000.0, 0.1  # range of virtual joints [m], distance of q0 [rad or m]


def on_virtual_joints(robot: sp.Robot) -> sp.Robot:
    """Return a robot on three prismatic joints of a kilometer and three revolute joints."""
    described, made, parent = robot.description, [], "world of the base"
    for i in range(6):
        child = described.root if i == 5 else f"virtual link {i}"
        kind, most = ("prismatic", LONG) if i < 3 else ("revolute", np.pi)
        axis = np.eye(3)[i % 3]
        made.append(Joint(f"virtual {i}", kind, parent, child, axis=axis, lower=-most, upper=most))
        parent = child
    return sp.Robot(replace(described, joints=(*made, *described.joints), tips=robot.tips))


def moved(robot: sp.Robot, base: str) -> sp.Robot:
    """Return a robot on a base."""
    if base == "fixed":
        return robot
    return robot.with_base("floating") if base == "floating" else on_virtual_joints(robot)


def chosen(robot: sp.Robot, most: int) -> list[End]:
    """Return the `most` end effectors that are moved by the largest numbers of joints."""
    return sorted(ends(robot), key=lambda end: -end.joints)[:most]


def calls(
    robot: sp.Robot, base: str, tips: list[End], start: str, count: int, seed: int
) -> Callable[[int], sp.Solution]:
    """Return a function that solves target number i."""
    on = moved(robot, base)
    q = on.random(count, seed=seed)
    q[:, on.nq - robot.nq :] = robot.random(count, seed=seed)
    each: list[Any] = []
    for tip in tips:
        T = on.fk(q, tip.frame)
        given = tip.targets(T)
        each += given if isinstance(given, list) else [given]
    each = [np.ascontiguousarray(one) for one in each]
    tasks = [task for tip in tips for task in tip.tasks]
    solver = sp.Solver(on, tasks[0] if len(tasks) == 1 else tasks)
    rng = np.random.default_rng(seed)
    near = integrate(on, q, rng.uniform(-NEAR, NEAR, (count, on.nv)))
    q0 = near if start == "near" else on.random(count, seed=seed + 1)

    def solve(i: int) -> sp.Solution:
        target = each[0][i] if len(each) == 1 else [one[i] for one in each]
        return solver(target) if start == "none" else solver(target, q0=q0[i])

    return solve


def measured(robot: sp.Robot, tips: list[End], start: str, count: int, seed: int) -> Iterator[str]:
    """Yield the cells of a row: time on a fixed base, then ratio and missed targets by base."""
    solvers = [calls(robot, base, tips, start, count, seed) for base in ("fixed", *BASES)]
    took = np.full((len(solvers), count), np.inf)
    missed = np.zeros(len(solvers), int)
    for turn in range(3):  # three interleaved runs, of which the shortest counts
        for i in range(count):
            for k, solve in enumerate(solvers):
                began = time.process_time_ns()
                found = solve(i)
                took[k, i] = min(took[k, i], time.process_time_ns() - began)
                missed[k] += not found.success and not turn
    mean = took.mean(axis=1)
    yield f"{mean[0] / 1e3:.0f}"
    for k in range(1, len(solvers)):
        yield f"{mean[k] / mean[0]:.2f}"
        yield str(missed[k])


def main() -> None:
    """Measure all robots, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--files", nargs="*", type=Path, default=(), help="folders with robot files"
    )
    parser.add_argument("--robots", nargs="+", default=ROBOTS, help="parts of the files' names")
    parser.add_argument("--count", type=int, default=200, help="targets of each row")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    measure.one_core()
    files = robot_files(given.files)
    lines = [
        "# solve with a free base",
        "",
        f"Mean time of a call from Python with {given.count} random targets (process time, the "
        "shortest of three interleaved rounds), relative to the fixed robot, and targets missed.",
        measure.provenance(("supple", "numpy")),
        "",
        "| robot | end effectors | q0 | fixed [µs] | "
        + " | ".join(f"{base} | missed" for base in BASES)
        + " |",
        "|---|---:|---|" + "---:|" * (1 + 2 * len(BASES)),
    ]
    print(*lines, sep="\n")
    for part in given.robots:
        robot = load(next(path for name, path in files if part in name)).robot
        for most in range(1, len(chosen(robot, 4)) + 1):
            for start in STARTS:
                cells = measured(robot, chosen(robot, most), start, given.count, given.seed)
                lines.append(f"| {robot.name} | {most} | {start} | " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
    print("written to", measure.write("free_base", "\n".join([*lines, ""])))


if __name__ == "__main__":
    main()
