"""supple's batches: solves per second and core, memory, threads. Prints JSON.

python bench/position_batch.py COUNT
"""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

import measure
import supple as sp
from supple import _core

LOOSE = {"position_tolerance": 1e-4, "rotation_tolerance": 1e-3}


def main(count: int) -> None:
    """Measure and print."""
    panda = sp.load("panda")
    T = panda.fk(panda.random(1, count))
    part = T[: max(count // 4, 1)]
    sp.solve(panda, T[:1000], threads=2)
    found, beyond = watched(panda, T)

    def rate(threads: int, **gate: float) -> float:
        now = time.process_time if threads == 1 else time.perf_counter
        start = now()
        sp.solve(panda, part, threads=threads, **gate)
        return len(part) / (now() - start)

    rounds = {
        "one thread, 1e-4 m, 1e-3 rad": partial(rate, 1, **LOOSE),
        "one thread, 1e-6 m, 1e-6 rad": partial(rate, 1),
        "two threads, 1e-4 m, 1e-3 rad": partial(rate, 2, **LOOSE),
    }
    rates = measure.medians(measure.interleaved(rounds, 3))
    loose, _, two = rates.values()
    answer = {"success": 100 * float(found.success.mean()), "rates": rates, "isa": _core.isa()}
    print(json.dumps(answer | {"threads": two / loose, "bytes": beyond}))


def watched(robot: sp.Robot, T: np.ndarray) -> tuple[sp.Solution, float]:
    """A solved batch, and the most memory it held beyond targets and answers [bytes a target]."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the present
    before = peak()
    found = sp.solve(robot, T, threads=1)
    arrays = [found.q, found.status, found.position_error, found.rotation_error]
    arrays += [found.iterations, found.restarts]
    return found, (peak() - before - sum(array.nbytes for array in arrays)) / len(T)


def peak() -> float:
    """The most memory this process has held [bytes]."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main(int(sys.argv[1]))
