"""Goals of MotionBenchMaker on a GPU: solutions without collisions per second.

    python bench/gpu_goals.py --data FOLDER      # see bench/goals.py for the files

The scene is the table of one problem of "table_pick". Targets are the poses of the tool at goals
of all problems, after each joint has moved by up to 0.05 rad; only configurations without
collisions are used, so that every target has a solution. Targets are in GPU memory. Times are
those from the call until the results are in GPU memory, and device times between events on the
stream.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import goals
import measure
import supple as sp
from gpu import Stopwatch
from supple.collision import collides
from supple.collision.scenes import scene_of
from supple.gpu import devices
from supple.gpu.arrays import GpuArray
from supple.gpu.runtime import open_device

COUNTS = (1_000, 10_000, 100_000, 1_000_000)
SPREAD = 0.05  # largest motion of a joint from a goal [rad]
ROUNDS = 15
COMPARED = 20_000  # number of targets that the CPU solves as well


def problem(name: str, folder: Path) -> tuple[sp.Robot, sp.World, np.ndarray]:
    """Return a robot, a world with one table, and configurations at goals (K, n) that are free."""
    robot, every = goals.problems(name, folder)
    pick = next(each for each in every if each["set"].startswith("table_pick"))
    scene = scene_of(pick["obstacles"], "obstacles", None)[0]
    world = sp.World({key: shape for key, shape in scene.items() if key.startswith("table")})
    q = np.array([[each["goal"][joint] for joint in robot.joint_names] for each in every])
    return robot, world, q


def targets(robot: sp.Robot, world: sp.World, q: np.ndarray, count: int) -> np.ndarray:
    """Return poses (count, 4, 4) of free configurations near goals."""
    rng, found = np.random.default_rng(0), np.empty((0, robot.nq))
    while len(found) < count:
        more = q[rng.integers(len(q), size=count)]
        more = more + rng.uniform(-SPREAD, SPREAD, more.shape)
        inside = ((robot.lower <= more) & (more <= robot.upper)).all(axis=1)
        more = more[inside]
        found = np.concatenate([found, more[~collides(robot, world, more)]])
    return robot.fk(found[:count])


def on_device(array: np.ndarray) -> GpuArray:
    """Return a copy of an array in GPU memory."""
    gpu = open_device(0)
    gpu.use()
    memory = gpu.allocate(array.nbytes, gpu.stream())
    gpu.upload(memory.pointer, array, gpu.stream())
    gpu.wait(gpu.stream())
    steps = tuple(int(np.prod(array.shape[i + 1 :])) for i in range(array.ndim))
    return GpuArray(array.shape, array.dtype, steps, memory.pointer, memory)


def times(solver: sp.Solver, there: GpuArray) -> tuple[float, float]:
    """Return the time of a call and its device time [ms], both medians."""
    gpu = there.memory.device
    stream = gpu.stream()
    solver.batch(there, stream=stream)
    gpu.wait(stream)
    watch, calls, device = Stopwatch(stream), [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        found = solver.batch(there, stream=stream)
        gpu.wait(stream)
        calls.append(1e3 * (time.perf_counter() - begin))
        del found
    for _ in range(ROUNDS):
        kept = [solver.batch(there, stream=stream)]
        watch.mark(0)
        kept += [solver.batch(there, stream=stream) for _ in range(3)]
        watch.mark(1)
        device.append(watch.time() / 3)
        del kept
    return statistics.median(calls), statistics.median(device)


def rows(name: str, folder: Path) -> tuple[list[str], str]:
    """Return lines of the table for a robot, and a sentence that compares GPU and CPU."""
    robot, world, q = problem(name, folder)
    every = targets(robot, world, q, COUNTS[-1])
    solvers = {"table": sp.Solver(robot, world=world), "no world": sp.Solver(robot)}
    lines = []
    for count in COUNTS:
        there = on_device(every[:count])
        for what, solver in solvers.items():
            call, device = times(solver, there)
            found = solver.batch(there).numpy()
            solved = found.success.mean()
            hit = collides(robot, world, found.q[found.success][:100_000])
            lines.append(
                f"| {name} | {what} | {count:,} | {call:.3f} ms | {count / call / 1e3:.2f} million "
                f"| {device:.3f} ms | {100 * solved:.3f} % | {100 * hit.mean():.2f} % |"
            )
            print(lines[-1], flush=True)
    some = every[:COMPARED]
    cpu, gpu = (sp.Solver(robot, world=world, device=d).batch(some) for d in ("cpu", "cuda"))
    sentence = (
        f"- {name}: of {COMPARED:,} targets, the CPU solves {int(cpu.success.sum()):,}, the GPU "
        f"{int(gpu.success.sum()):,}, both {int((cpu.success & gpu.success).sum()):,}."
    )
    print(sentence, flush=True)
    return lines, sentence


def main() -> None:
    """Print the table and write it to bench/results/."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of all problems")
    given = parser.parse_args()
    measured = [rows(name, given.data) for name in ("panda", "ur5")]
    text = "\n".join(
        [
            "# Goals in a world on a GPU",
            "",
            f"{devices()[0]}. The scene{__doc__.partition('The scene')[2]}",
            "| robot | | targets | call | a second | device time | solved | collide |",
            "|---|---|---:|---:|---:|---:|---:|---:|",
            *(line for lines, _ in measured for line in lines),
            "",
            *(sentence for _, sentence in measured),
            "",
            measure.provenance(["numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"]),
            "",
        ]
    )
    print("written:", measure.write("gpu_goals", text))


if __name__ == "__main__":
    main()
