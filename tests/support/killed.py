"""A program that runs a job in processes and kills them at random moments; tests start it.

    python killed.py KIND FOLDER KILLS SEED

It prints the number of killed processes, then the number of finished parts after each kill. A last
process is not killed and finishes the job.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401  before the processes start, each of which would import it

import supple as sp
import supple.cluster as cluster
from solving import solve


def jobs(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return, by kind, functions that run a job in small parts, with results in FOLDER/out."""
    robot = sp.load("ur5e")
    solve(robot, robot.fk(robot.neutral()))  # compiles the solver for all processes
    source = folder / "targets.parquet"
    return {
        "solve": lambda: cluster.solve_parquet(
            cluster.Solve(robot), source, folder / "out", part_rows=500
        ),
        "dataset": lambda: cluster.sample_dataset(
            robot, folder / "out", 20_000, scheme="paths", part_rows=300
        ),
        "reach": lambda: cluster.reachability(
            robot, folder / "out", spacing=0.15, orientations=12, levels=1
        ),
    }


def parts(folder: Path) -> int:
    """Return the number of finished parts."""
    return len(list((folder / "out").rglob("part-*")))


def wait_for_parts(folder: Path, count: int) -> None:
    """Wait until `count` parts are finished, or the run has ended."""
    end = time.monotonic() + 30.0
    while parts(folder) < count and time.monotonic() < end:
        if list((folder / "out").rglob("_summary.json")):
            return
        time.sleep(0.005)


def main(kind: str, folder: Path, kills: int, seed: int) -> None:
    """Start and kill the job until `kills` processes were killed, and then run it to its end."""
    start, chance = jobs(folder)[kind], random.Random(seed)
    killed, left = 0, []
    while killed < kills:
        pid = os.fork()  # fork is safe, because no other thread runs yet
        if pid == 0:
            start()
            os._exit(0)
        wait_for_parts(folder, parts(folder) + chance.randint(0, 3))
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        left.append(parts(folder))
        if os.WIFEXITED(status):
            break
        killed += 1
    pid = os.fork()
    if pid == 0:
        start()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print(killed, *left)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
