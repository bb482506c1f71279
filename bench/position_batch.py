"""supple's batches: solves per second and core, memory, threads. Prints JSON.

python bench/position_batch.py COUNT
"""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import partial

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
    before = peak()
    found = sp.solve(panda, T, threads=1)
    arrays = (found.q, found.status, found.position_error, found.rotation_error)
    efforts = (found.iterations, found.restarts)
    given_back = sum(array.nbytes for array in (*arrays, *efforts))

    def rate(threads: int, **gate: float) -> float:
        start = time.perf_counter()
        sp.solve(panda, part, threads=threads, **gate)
        return len(part) / (time.perf_counter() - start)

    rounds = {
        "one thread, 1e-4 m, 1e-3 rad": partial(rate, 1, **LOOSE),
        "one thread, 1e-6 m, 1e-6 rad": partial(rate, 1),
        "two threads, 1e-4 m, 1e-3 rad": partial(rate, 2, **LOOSE),
    }
    beyond = (peak() - before - given_back) / count
    rates = measure.medians(measure.interleaved(rounds, 3))
    loose, _, two = rates.values()
    answer = {"success": 100 * float(found.success.mean()), "rates": rates, "isa": _core.isa()}
    print(json.dumps(answer | {"threads": two / loose, "bytes": max(beyond, 0.0)}))


def peak() -> float:
    """The most memory this process has held [bytes]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(int(sys.argv[1]))
