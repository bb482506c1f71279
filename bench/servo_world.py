"""Time one step of the default Servo that keeps its distance from obstacles, on one core.

    python bench/servo_world.py [ROUNDS]

A Panda of 59 spheres follows a circle among ten boxes, with self-collision, or is pressed against a
table; a Unitree G1 of 46 spheres with a fixed pelvis moves its hands. For comparison, motions
without a world are timed as well. Prints a table and writes it to bench/results/.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measure
import supple as sp
from robots_files import robot_files
from supple.collision import Box, collides
from supple.collision.model import model_of

Array = NDArray[np.float64]

DATA = Path(__file__).parents[1] / "tests" / "collision" / "data"
DT = 0.002  # length of a step [s]
STEPS = 500  # number of steps for one circle
RADIUS = 0.05  # radius of the circle [m]
BOXES = 10
START = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
HANDS = ("left_wrist_yaw_link", "right_wrist_yaw_link")


def boxes(robot: sp.Robot, path: Array) -> sp.World:
    """Return ten boxes that are at least 3 cm from a robot at configurations (K, n)."""
    rng = np.random.default_rng(0)
    world = sp.World()
    while len(world.obstacles) < BOXES:
        T = sp.pose(rng.normal(size=3) * (0.5, 0.5, 0.3) + (0.3, 0, 0.4), wxyz=rng.normal(size=4))
        more = world.with_obstacle(f"box{len(world.obstacles)}", Box(rng.uniform(0.1, 0.3, 3), T))
        if not collides(robot, more, path, 0.03).any():
            world = more
    return world


def circle(T: Array, k: int) -> Array:
    """Return a pose on the circle through T in step k."""
    angle, moved = 2 * np.pi * k / STEPS, T.copy()
    moved[:2, 3] += RADIUS * np.array([np.cos(angle) - 1, np.sin(angle)])
    return moved


def contender(
    servo: sp.Servo, start: Array, targets: list[list[Array]] | list[Array]
) -> Callable[[], float]:
    """Return a function that runs all steps and returns the median time of one of them [ns]."""
    q = start.copy()

    def run() -> float:
        times = []
        for target in targets:
            begin = time.perf_counter_ns()
            servo(q, target=target, out=q)
            times.append(time.perf_counter_ns() - begin)
        return statistics.median(times)

    return run


def cases() -> dict[str, Callable[[], float]]:
    """Return the functions to time, by title."""
    panda = sp.urdf(DATA / "panda.urdf")
    arm = panda.freeze([name for name in panda.joint_names if "finger" in name])
    start = START[: arm.dof]
    targets = [circle(arm.fk(start), k) for k in range(STEPS)]
    free = sp.Servo(arm, dt=DT)
    q, path = start.copy(), []
    for target in targets * 2:
        q = free(q, target=target)
        path.append(q)
    scene = boxes(arm, np.array(path))
    hand = arm.fk(start)[:3, 3]
    table = sp.World({"table": Box((0.5, 1.0, 0.1), hand - (0, 0, 0.35))})
    into = [T - np.outer((0, 0, 0.4, 0), (0, 0, 0, 1)) for T in targets]
    pairs = len(model_of(arm, scene).pairs)
    made = {
        "Panda, no world": contender(sp.Servo(arm, dt=DT), start, targets),
        f"Panda, {BOXES} boxes and itself ({pairs} pairs)": contender(
            sp.Servo(arm, dt=DT, world=scene), start, targets
        ),
        "Panda, pressed against a table": contender(sp.Servo(arm, dt=DT, world=table), start, into),
    }
    files = [path for name, path in robot_files() if "g1" in name and "spherized" in name]
    if files:
        g1 = sp.urdf(files[0])
        tasks = [sp.PoseTask(frame) for frame in HANDS]
        q = g1.neutral()
        both = [[circle(g1.fk(q, frame), k) for frame in HANDS] for k in range(STEPS)]
        pairs = len(model_of(g1, sp.World()).pairs)
        made["G1, no world"] = contender(sp.Servo(g1, tasks, dt=DT), q, both)
        made[f"G1, itself ({pairs} pairs)"] = contender(
            sp.Servo(g1, tasks, dt=DT, world=sp.World()), q, both
        )
    return made


def main(rounds: int) -> None:
    """Measure all cases, and print and write the table."""
    measure.one_core()
    took = measure.medians(measure.interleaved(cases(), rounds))
    lines = [
        "# One servo step that keeps a distance from obstacles",
        "",
        f"q, target → next q, one call from Python, the default step, clearance 10 mm, dt = {DT:g} "
        f"s, float64, one core, {rounds} interleaved rounds of {STEPS} steps, medians.",
        measure.provenance(("supple", "numpy")),
        "",
        "## Time of a step",
        "",
        "| | µs per step |",
        "|---|---:|",
        *(f"| {title} | {ns / 1e3:.1f} |" for title, ns in took.items()),
        "",
    ]
    print("\n".join(lines))
    print("written to", measure.write("servo_world", "\n".join(lines)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
