"""Solve a million poses of a Panda in one call: solves per second and core, memory, threads.

    python bench/position_batch.py [COUNT]

Prints a table and writes it to bench/results/.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import measure
import supple as sp
from supple import _core

COUNT = 1_000_000
LOOSE = {"position_tolerance": 1e-4, "rotation_tolerance": 1e-3}


def main(count: int) -> None:
    """Measure the batch; print the table and write it to bench/results/."""
    panda = sp.load("panda")
    T = panda.fk(panda.random(count, seed=1))
    part = T[: max(count // 4, 1)]
    sp.Solver(panda, threads=2).batch(T[:1000])
    found, beyond = watched(panda, T)

    def rate(threads: int, clock: Callable[[], float], **gate: float) -> float:
        start = clock()
        sp.Solver(panda, threads=threads, **gate).batch(part)
        return len(part) / (clock() - start)

    rounds = {
        "1e-4 m, 1e-3 rad": partial(rate, 1, time.process_time, **LOOSE),
        "1e-6 m, 1e-6 rad": partial(rate, 1, time.process_time),
        "one thread": partial(rate, 1, time.perf_counter, **LOOSE),
        "two threads": partial(rate, 2, time.perf_counter, **LOOSE),
    }
    rates = measure.medians(measure.interleaved(rounds, 5))
    one, two = rates.pop("one thread"), rates.pop("two threads")
    lines = [
        "# A million poses in a batch",
        "",
        f"{count} random reachable targets of a Panda without a start, "
        f"{100 * found.success.mean():.4f} % solved within 1e-6 m and 1e-6 rad. Instruction set "
        f"{_core.isa()}, medians of 5 interleaved rounds.",
        measure.provenance(("supple", "numpy")),
        "",
        "| gate | solves per second and core |",
        "|---|---:|",
        *(f"| {gate} | {rate:,.0f} |" for gate, rate in rates.items()),
        "",
        f"Two threads solve {two / one:.2f} times as many targets as one in the same wall time; "
        "other programs on the machine reduce this factor. Memory beyond targets and answers: "
        f"{beyond:.0f} bytes a target.",
        "",
    ]
    print("\n".join(lines))
    if count >= COUNT:
        print("written to", measure.write("batch", "\n".join(lines)))


def watched(robot: sp.Robot, T: np.ndarray) -> tuple[sp.Solutions, float]:
    """Return the solutions, and the peak of other memory that the batch needs [B/target]."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")  # resets the recorded peak
    before = peak()
    found = sp.Solver(robot, threads=1).batch(T)
    arrays = [found.q, found.status, found.position_error, found.rotation_error]
    arrays += [found.iterations, found.restarts]
    return found, (peak() - before - sum(array.nbytes for array in arrays)) / len(T)


def peak() -> float:
    """Return the peak memory of this process [bytes]."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)
