"""All solutions in closed form on a GPU: device time of batches, and agreement with the CPU.

    python bench/gpu_branches.py

Times are device times between events on a stream, of targets that are in GPU memory; results stay
there. They do not include Python.
"""

from __future__ import annotations

from statistics import median

import numpy as np

import supple as sp
from gpu import Stopwatch
from supple import _core
from supple.ik.arms import ClosedFormArm, arm_of
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


def main() -> None:
    """Measure a UR5e and a PUMA 560."""
    for name in ("ur5e", "puma560"):
        robot = sp.load(name)
        problem = compile_problem(robot, None)
        arm = arm_of(problem)
        assert isinstance(arm, ClosedFormArm)
        solver = gpu_branches(problem, arm, "cuda")
        gpu, stream = solver.device, solver.device.stream()
        poses = robot.fk(robot.random(COUNTS[-1], seed=0))
        targets = np.ascontiguousarray(poses[:, :3].swapaxes(-1, -2).reshape(-1, 12))
        there = gpu.allocate(targets.nbytes, stream)
        gpu.upload(there.pointer, targets, stream)
        watch = Stopwatch(stream)
        for count in COUNTS:
            times = []
            for _ in range(ROUNDS):
                watch.mark(0)
                made = solver.launch(count, there.pointer, (0, 0), SPEC, stream)
                watch.mark(1)
                times.append(watch.time())
                del made
            took = median(times)
            print(f"{name}, {count} targets: {took:.3f} ms, {count / took / 1e3:.0f} million/s")
        some = poses[:COMPARED]
        ours, cpu = (sp.solve(robot, some, solutions="all", device=d) for d in ("cuda", "cpu"))
        print(
            f"  of {COMPARED} targets {int((ours.count == cpu.count).sum())} have the solutions "
            f"of the CPU; {len(ours.q)} solutions, errors at most "
            f"{ours.position_error.max():.1e} m, {ours.rotation_error.max():.1e} rad",
            flush=True,
        )


if __name__ == "__main__":
    main()
