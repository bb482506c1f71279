"""Position inverse kinematics on a GPU: device time of batches of all sizes.

python bench/gpu.py prints a table and writes it to bench/results/. Times are of the device, between
events on its stream, of calls enqueued one behind the other: Python is not in them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

import numpy as np

import measure
import supple as sp
from supple.solve.cuda import position, toolkit
from supple.solve.search import search_of

GATES = {"1e-4 m, 1e-3 rad": (1e-4, 1e-3), "1e-6 m, 1e-6 rad": (1e-6, 1e-6)}
COUNTS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
ROBOTS = ("panda", "ur5e")
ROUNDS = 9


class Stopwatch:
    """Device time [ms] between two moments of a stream."""

    def __init__(self, stream: int) -> None:
        self.driver, self.stream = toolkit.driver(), stream
        self.ends = [toolkit.check(self.driver.cuEventCreate(0)) for _ in range(2)]

    def mark(self, which: int) -> None:
        """Remember a moment."""
        toolkit.check(self.driver.cuEventRecord(self.ends[which], self.stream))

    def time(self) -> float:
        """What has passed between them; waits for the second."""
        toolkit.check(self.driver.cuEventSynchronize(self.ends[1]))
        return float(toolkit.check(self.driver.cuEventElapsedTime(*self.ends)))


def device_time(name: str, count: int, gate: tuple[float, float]) -> tuple[float, float]:
    """Milliseconds of a call, and how many of its targets were met."""
    robot = sp.load(name)
    search = search_of(robot, None)
    solver = position.solver_of(search, "cuda")
    gpu, stream = solver.machine, solver.machine.stream()
    targets = search.targets((robot.fk(robot.random(1, count)),))
    sizes = {"q": 8 * robot.dof * count, "error": 16 * count, "effort": 8 * count}
    memory, at = solver.laid_out(sizes | {"outcome": count, "target": targets.nbytes}, stream)
    gpu.upload(at["target"], targets, stream)
    bounds, watch = position.Bounds(*gate, 256), Stopwatch(stream)
    calls = max(1, min(50, 20_000 // count))
    times = []
    for _ in range(ROUNDS):
        for _ in range(2 * calls):  # (the device is busy while what is measured is enqueued)
            solver.launch(at | {"q0": 0}, count, bounds, stream)
        watch.mark(0)
        for _ in range(calls):
            solver.launch(at | {"q0": 0}, count, bounds, stream)
        watch.mark(1)
        times.append(watch.time() / calls)
    outcome = np.empty(count, np.int8)
    gpu.download(outcome, at["outcome"], stream)
    del memory
    return statistics.median(times), float(np.mean(outcome == sp.Status.CONVERGED))


def first_call() -> tuple[float, float]:
    """Seconds of a first call with nothing compiled, and with machine code on disk."""
    robot = sp.load("iiwa14")
    target = robot.fk(robot.random(0))
    taken = []
    for _ in range(2):
        position.solver_of.cache_clear()
        start = time.perf_counter()
        sp.solve(robot, target, device="cuda")
        taken.append(time.perf_counter() - start)
    return taken[0], taken[1]


def end_to_end(count: int) -> float:
    """Seconds of a call of a million targets in NumPy, to answers in NumPy."""
    robot = sp.load("panda")
    T = robot.fk(robot.random(2, count))
    sp.solve(robot, T, device="cuda")
    start = time.perf_counter()
    sp.solve(robot, T, device="cuda")
    return time.perf_counter() - start


def main() -> None:
    """Measure, print and write."""
    if not sp.devices():
        sys.exit("no NVIDIA GPU here, or no supple[cuda]")
    device, driver = sp.devices()[0], toolkit.driver()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SUPPLE_CACHE_DIR"] = folder
        cold, warm = first_call()
        lines = ["| robot | tolerances | targets | device time | a second | met |"]
        lines.append("|---|---|---:|---:|---:|---:|")
        for name in ROBOTS:
            for gate, numbers in GATES.items():
                for count in COUNTS:
                    took, met = device_time(name, count, numbers)
                    rate = f"{count / took / 1e3:.2f} million"
                    lines.append(
                        f"| {name} | {gate} | {count:,} | {1e3 * took:.1f} µs | {rate} "
                        f"| {100 * met:.4f} % |"
                    )
        whole = end_to_end(1_000_000)
    version = toolkit.check(driver.cuDriverGetVersion())
    text = "\n".join(
        [
            "# Position inverse kinematics on a GPU",
            "",
            f"{device}. First call of a robot {cold:.1f} s, with its code on disk {warm:.2f} s. A "
            f"million Panda targets from NumPy to NumPy, with both copies: {whole:.2f} s.",
            "",
            *lines,
            "",
            f"CUDA driver {version}. "
            + measure.provenance(["numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"]),
            "",
        ]
    )
    print(text)
    print("written:", measure.write("gpu", text))


if __name__ == "__main__":
    main()
