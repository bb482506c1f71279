"""Position inverse kinematics on a GPU: device times of batches of all sizes, and a lower bound.

python bench/gpu.py prints tables and writes them to bench/results/. Times are device times between
events on a stream around consecutive calls, each with different targets. They do not include
Python. With CuPy, the time from a call to its results is measured as well.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np

import gpu_bound
import measure
import supple as sp
from supple.gpu import devices, runtime
from supple.gpu.queue import Queue, allocate_arrays
from supple.ik.gpu import position, request, solvers
from supple.ik.problem import CompiledProblem, compile_problem

GATES = {"1e-4 m, 1e-3 rad": (1e-4, 1e-3), "1e-6 m, 1e-6 rad": (1e-6, 1e-6)}
COUNTS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
AROUND = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)  # numbers of targets of `crossover`
ARMS = ("panda", "ur5e", "iiwa14")
ROUNDS = 9
CALLS = (1, 100, 1_000, 10_000, 100_000, 1_000_000)  # numbers of targets of `call_time`
G1 = measure.FILES / "frax/assets/unitree_g1/g1_29dof_rev_1_0.urdf"
ENDS = tuple(f"{side}_{k}_link" for k in ("wrist_yaw", "ankle_roll") for side in ("left", "right"))


@dataclass(frozen=True)
class Problem:
    """A robot, and the frames that have target poses."""

    name: str
    robot: sp.Robot
    frames: tuple[str, ...]

    def search(self) -> CompiledProblem:
        """The compiled problem."""
        return compile_problem(self.robot, tuple(sp.PoseTask(frame) for frame in self.frames))

    def targets(self, count: int) -> np.ndarray:
        """Return random reachable targets in the kernel's layout."""
        q = self.robot.random(count, seed=1)
        return self.search().targets([self.robot.fk(q, frame) for frame in self.frames])


def problems() -> Iterator[Problem]:
    """Return arms, and a humanoid with both hands and both feet if its file is available."""
    for name in ARMS:
        robot = sp.load(name)
        yield Problem(name, robot, robot.tips)
    if G1.is_file():
        yield Problem("G1, four frames", sp.urdf(G1), ENDS)


def options(gate: tuple[float, float]) -> request.SearchOptions:
    """Return the options of a `Solver` with these tolerances [m, rad]."""
    return request.SearchOptions(*gate, max_seeds=0)


class Stopwatch:
    """A stopwatch for the device time [ms] between two events on a stream."""

    def __init__(self, stream: int) -> None:
        self.driver, self.stream = runtime.driver(), stream
        self.ends = [runtime.check(self.driver.cuEventCreate(0)) for _ in range(2)]

    def mark(self, which: int) -> None:
        """Record the first (0) or second (1) event."""
        runtime.check(self.driver.cuEventRecord(self.ends[which], self.stream))

    def time(self) -> float:
        """Wait for the second event and return the time between the two [ms]."""
        runtime.check(self.driver.cuEventSynchronize(self.ends[1]))
        return float(runtime.check(self.driver.cuEventElapsedTime(*self.ends)))


@dataclass(frozen=True)
class Measured:
    """Time of a call [ms], the fraction of targets met, and a lower bound on the time [ms]."""

    took: float
    met: float
    bound: float


def device_time(
    problem: Problem, count: int, gate: tuple[float, float], rounds: int = ROUNDS
) -> Measured:
    """Measure the device time of a call; consecutive calls have different targets."""
    solver = solvers.gpu_solver(problem.search(), "cuda")
    gpu, stream = solver.device, solver.device.stream()
    calls = max(1, min(50, 20_000 // count))
    targets = problem.targets(calls * count)
    each = {"q": 8 * problem.robot.dof, "error": 16, "effort": 8, "outcome": 1}
    each["target"] = targets.nbytes // len(targets)
    work = Queue(gpu, stream)
    memory, at = allocate_arrays({name: len(targets) * size for name, size in each.items()}, work)
    gpu.upload(at["target"], targets, stream)
    bounds, watch = options(gate), Stopwatch(stream)
    batches = [
        {name: at[name] + i * size for name, size in each.items()} | {"q0": 0}
        for i in range(0, len(targets), count)
    ]
    times = []
    for _ in range(rounds):
        for batch in 2 * batches:  # the first half keeps the device busy while calls are queued
            solver.launch(batch, count, bounds, work)
        watch.mark(0)
        for batch in batches:
            solver.launch(batch, count, bounds, work)
        watch.mark(1)
        times.append(watch.time() / calls)
    outcome = np.empty(len(targets), np.int8)
    gpu.download(outcome, at["outcome"], stream)
    del memory
    chip = gpu_bound.Chip.of(0, devices()[0].architecture)
    some = [targets[i : i + count] for i in range(0, len(targets), count)][:10]
    least = np.mean([gpu_bound.work(solver, one, bounds).seconds(chip) for one in some])
    met = float(np.mean(outcome == sp.SolveStatus.CONVERGED))
    return Measured(statistics.median(times), met, 1e3 * float(least))


def crossover(problem: Problem, gate: tuple[float, float]) -> str:
    """Compare one thread with one warp per target, for several numbers of targets."""
    usual, lines = (position.FEW, position.FEW_LARGE), []
    try:
        for count in AROUND:
            took = []
            for few in (count, 0):
                position.FEW = position.FEW_LARGE = few
                took.append(device_time(problem, count, gate, 5).took)
            warps, threads = (f"{1e3 * one:.0f} µs" for one in took)
            lines.append(f"| {problem.name} | {count:,} | {warps} | {threads} |")
    finally:
        position.FEW, position.FEW_LARGE = usual
    return "\n".join(lines)


FRESH = """
import sys, time
import supple as sp
from supple.ik.gpu import position
path = sys.argv[1]
robot = sp.urdf(path) if path.endswith(".urdf") else sp.load(path)
frame, *more = sys.argv[2:]
frames = [frame, *more] if more else frame
target = robot.fk(robot.random(seed=0), frames)
start = time.perf_counter()
position.open_device(0)
there = time.perf_counter()
sp.Solver(robot, frames, device="cuda")(target)
print(there - start, time.perf_counter() - there)
"""


def first_calls(problem: Problem) -> str:
    """Measure the first call in a new process, without and with cached machine code on disk."""
    name = str(G1) if problem.frames == ENDS else problem.name
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        # The driver's own cache of machine code is disabled.
        env = os.environ | {"SUPPLE_CACHE_DIR": folder, "CUDA_CACHE_DISABLE": "1"}
        for _ in range(4):
            begin = time.perf_counter()
            ran = subprocess.run(
                [sys.executable, "-c", FRESH, name, *problem.frames],
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
            rows.append((*map(float, ran.stdout.split()), time.perf_counter() - begin))
    cold, warm = rows[0], np.median(rows[1:], axis=0)
    return (
        f"| {problem.name} | {cold[1]:.2f} s | {warm[1]:.3f} s | {warm[0]:.3f} s "
        f"| {warm[2]:.2f} s |"
    )


def call_times(cupy: ModuleType, robot: sp.Robot, gate: tuple[float, float]) -> str:
    """Return the cells of a table row: times of calls [µs], one cell for each number in CALLS.

    Targets are in GPU memory. Each cell has the time from the call to the end of a
    synchronization, without and with `out=`, and the time until the call returns.
    """
    solver = sp.Solver(robot, position_tolerance=gate[0], rotation_tolerance=gate[1])
    stream, columns = cupy.cuda.get_current_stream(), []
    for count in CALLS:
        there = cupy.asarray(robot.fk(robot.random(count, seed=3)))
        found = solver.batch(there)
        medians = []
        for out in (None, found):
            took = []
            for _ in range(300 if count <= 10_000 else 30):
                stream.synchronize()
                start = time.perf_counter()
                made = solver.batch(there, out=out)
                returned = time.perf_counter()
                stream.synchronize()
                took.append((time.perf_counter() - start, returned - start))
                del made
            medians.append(1e6 * np.median(took, axis=0))
        (alone, host), (again, least) = medians
        columns.append(f"{alone:.0f}, {again:.0f} ({host:.0f}, {least:.0f})")
    return " | ".join(columns)


def calls() -> list[str]:
    """Return the lines of a table of `call_times`; none without CuPy."""
    try:
        import cupy
    except ImportError:
        return []
    lines = [
        "Calls as their caller measures them, with targets in GPU memory: time from the call to "
        "the end of a synchronization, without and with `out=`, and in parentheses until the call "
        "returns [µs]; medians:",
        "",
        f"| robot | tolerances | {' | '.join(f'{count:,}' for count in CALLS)} |",
        f"|---|---|{'---:|' * len(CALLS)}",
    ]
    for name in ARMS:
        for gate, numbers in GATES.items():
            lines.append(f"| {name} | {gate} | {call_times(cupy, sp.load(name), numbers)} |")
            print(lines[-1], flush=True)
    return [*lines, ""]


def end_to_end(count: int) -> float:
    """Return the seconds of a call with `count` targets, given and returned as NumPy arrays."""
    robot = sp.load("panda")
    T = robot.fk(robot.random(count, seed=2))
    solver = sp.Solver(robot, device="cuda")
    solver.batch(T)
    start = time.perf_counter()
    solver.batch(T)
    return time.perf_counter() - start


def main() -> None:
    """Measure all problems; print the tables and write them to bench/results/."""
    if not devices():
        sys.exit("this benchmark needs an NVIDIA GPU and supple[cuda]")
    device = devices()[0]
    lines = [
        "| robot | tolerances | targets | device time | a second | met | bound | reached |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for problem in problems():
        for gate, numbers in GATES.items():
            for count in COUNTS:
                one = device_time(problem, count, numbers)
                lines.append(
                    f"| {problem.name} | {gate} | {count:,} | {1e3 * one.took:.1f} µs "
                    f"| {count / one.took / 1e3:.2f} million | {100 * one.met:.4f} % "
                    f"| {1e3 * one.bound:.1f} µs | {100 * one.bound / one.took:.0f} % |"
                )
                print(lines[-1], flush=True)
    gate = GATES["1e-4 m, 1e-3 rad"]
    called = calls()
    some = [problem for problem in problems() if problem.name not in ARMS[1:]]
    copied = end_to_end(1_000_000)
    strategies = [crossover(problem, gate) for problem in some]
    version = runtime.check(runtime.driver().cuDriverGetVersion())

    def page(first: Iterable[str]) -> str:
        parts = [
            "# Position inverse kinematics on a GPU",
            "",
            f"{device}. A million Panda targets, given and returned as NumPy arrays, with both "
            f"copies: {copied:.2f} s. The bound is the largest of three durations that the chip's "
            "arithmetic needs at least (bench/gpu_bound.py): for the operations in float of the "
            "iterations that led to the answers, for one verification in double of each answer, "
            "and for the longest sequence of operations that depend on each other.",
            "",
            *lines,
            "",
            *called,
            f"The two strategies, at {next(iter(GATES))}; up to {position.FEW:,} targets get a "
            f"warp each, for tasks with more than six rows up to {position.FEW_LARGE:,}:",
            "",
            "| robot | targets | a warp each | a thread each |",
            "|---|---:|---:|---:|",
            *strategies,
            "",
            *first,
            f"CUDA driver {version}. "
            + measure.provenance(["numpy", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"]),
            "",
        ]
        return "\n".join(parts)

    measure.write("gpu", page([]))  # in case a process of `first_calls` fails
    first = [
        "First calls, each in a new process: the time from a given robot to the answer, without "
        "and with machine code on disk. It does not include the start of the driver (`cuInit` and "
        "a context), whose time has its own column, as has that of the whole process:",
        "",
        "| robot | nothing compiled | code on disk | the driver's start | whole process |",
        "|---|---:|---:|---:|---:|",
        *(first_calls(problem) for problem in some),
        "",
    ]
    text = page(first)
    print(text)
    print("written:", measure.write("gpu", text))


if __name__ == "__main__":
    main()
