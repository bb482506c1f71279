"""All solutions in closed form on a GPU: device time of batches, and agreement with the CPU.

python bench/gpu_branches.py prints a table and writes it to bench/results/. Times are device times
between events on a stream, without Python; targets and results are in GPU memory. With CuPy, the
time from a call to the end of a synchronization is measured as well.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import numpy as np

import supple as sp
from gpu import Stopwatch
from measure import provenance, write
from supple import _core
from supple.gpu import devices
from supple.gpu.queue import Queue, allocate_arrays
from supple.ik.branches.arms import ClosedFormArm, arm_of
from supple.ik.gpu.branches import gpu_branches
from supple.ik.problem import compile_problem

COUNTS = (10_000, 100_000, 1_000_000, 4_000_000)
COMPARED = 100_000
ROUNDS = 9
SPEC = _core.BranchSpec(
    position_tolerance=1e-6,
    rotation_tolerance=1e-6,
    samples=16,
    wraps=False,
    nearest=False,
    threads=1,
)


def call_time(robot: sp.Robot, poses: np.ndarray) -> str:
    """Return the median time of a call [ms] with poses in GPU memory, or "-" without CuPy."""
    try:
        import cupy
    except ImportError:
        return "-"
    there, solver, took = cupy.asarray(poses), sp.Solver(robot), []
    stream = cupy.cuda.get_current_stream()
    for _ in range(ROUNDS + 1):
        stream.synchronize()
        start = time.perf_counter()
        made = solver.all(there)
        stream.synchronize()
        took.append(1e3 * (time.perf_counter() - start))
        del made
    return f"{median(took[1:]):.3f}"


def rows(name: str) -> list[str]:
    """Return a robot's rows of the table, and a sentence that compares GPU and CPU."""
    robot = sp.load(name)
    problem = compile_problem(robot, None)
    arm = arm_of(problem)
    assert isinstance(arm, ClosedFormArm)
    solver = gpu_branches(problem, arm, "cuda")
    gpu, stream = solver.device, solver.device.stream()
    work = Queue(gpu, stream)
    poses = robot.fk(robot.random(COUNTS[-1], seed=0))
    targets = np.ascontiguousarray(poses[:, :3].swapaxes(-1, -2).reshape(-1, 12))
    there = gpu.allocate(targets.nbytes, stream)
    gpu.upload(there.pointer, targets, stream)
    watch = Stopwatch(stream)
    lines = []
    for count in COUNTS:
        times = []
        for _ in range(ROUNDS):
            watch.mark(0)
            sizes = {key: one.size for key, one in solver.results(count).items()}
            memory, at = allocate_arrays(sizes, work)
            solver.launch(count, there.pointer, (0, 0), SPEC, at, work)
            watch.mark(1)
            times.append(watch.time())
            del memory
        took = median(times)
        called = call_time(robot, poses[:count])
        lines.append(f"| {name} | {count:,} | {took:.3f} | {count / took / 1e3:.0f} | {called} |")
        print(lines[-1], flush=True)
    some = poses[:COMPARED]
    ours, cpu = (sp.Solver(robot, device=d).all(some) for d in ("cuda", "cpu"))
    same = int((ours.count == cpu.count).sum())
    sentence = (
        f"{name}: {same:,} of {COMPARED:,} targets have as many solutions as on the CPU. The GPU "
        f"finds {len(ours.q):,} solutions, with errors of at most {ours.position_error.max():.1e} "
        f"m and {ours.rotation_error.max():.1e} rad."
    )
    print(sentence, flush=True)
    return [*lines, sentence]


def main() -> None:
    """Measure a UR5e and a PUMA 560; print the table and write it to bench/results/."""
    if not devices():
        sys.exit("this benchmark needs an NVIDIA GPU and supple[cuda]")
    measured = [rows(name) for name in ("ur5e", "puma560")]
    text = "\n".join(
        [
            "# All solutions on a GPU",
            "",
            f"{devices()[0]}. `Solver(robot).all(T)` in closed form, float64, up to "
            "eight solutions of each pose, verified. Poses of random configurations; targets and "
            f"results in the GPU's memory; device times, medians of {ROUNDS} rounds, and the time "
            "of a call with a synchronization.",
            "",
            "| robot | targets | ms | million targets a second | call, ms |",
            "|---|---:|---:|---:|---:|",
            *(line for lines in measured for line in lines[:-1]),
            "",
            *(f"- {lines[-1]}" for lines in measured),
            "",
            provenance(("numpy",)),
            "",
        ]
    )
    print(f"written to {write('gpu_branches', text)}")


if __name__ == "__main__":
    main()
