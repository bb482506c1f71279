"""Measure jobs in parts: overhead over one call of `solve`, workers, memory, simulated nodes.

    python bench/cluster.py [--poses N] [--rounds N] [--nodes N]     # needs ray

Prints tables and writes them to bench/results/. A time is that of a whole job, including reading
and writing but not the start of the Ray cluster. The compared variants run alternately.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import measure
import supple as sp
from supple import _core
from supple.cluster import RayOptions, Solve, solve_parquet
from supple.cluster.run import run

ROBOT = "ur5e"
SLEEP, PER_NODE = 0.5, 4  # duration of a simulated part [s], number of parts for each node
SETTLE = 15.0  # time until the processes of a new Ray cluster have started and are idle [s]


def main(poses: int, rounds: int, nodes: int) -> None:
    """Run all measurements; print the tables and write them to bench/results/."""
    place = Path(tempfile.mkdtemp())
    try:
        source = targets(place / "targets", poses)
        lines = [
            "# Jobs in parts",
            "",
            f"{poses:,} reachable poses of a UR5e in Parquet, {_core.isa()}, on "
            f"{len(os.sched_getaffinity(0))} cores that other programs use as well.",
            measure.provenance(("supple", "numpy", "pyarrow", "ray")),
            "",
            *overhead(source, place, rounds),
            *workers(source, place, rounds),
            *memory(place, poses),
            *simulated(place, nodes),
        ]
    finally:
        shutil.rmtree(place)
    print("\n".join(lines))
    print("written to", measure.write("cluster", "\n".join(lines)))


def targets(folder: Path, count: int) -> Path:
    """Write `count` reachable poses to files of at most a million rows; return the folder."""
    robot = sp.load(ROBOT)
    folder.mkdir()
    for k, first in enumerate(range(0, count, 1_000_000)):
        T = robot.fk(robot.random(min(1_000_000, count - first), seed=k))
        columns = dict(zip("xyz", T[:, :3, 3].T, strict=True))
        columns |= dict(zip(("qw", "qx", "qy", "qz"), sp.poses.wxyz(T).T, strict=True))
        parquet.write_table(pa.table(columns), folder / f"{k:03d}.parquet")
    return folder


def poses_in(source: Path) -> np.ndarray:
    """Return the poses (B, 4, 4) of all targets in a folder."""
    table = parquet.read_table(source)
    at = np.stack([table[name].to_numpy() for name in "xyz"], axis=1)
    wxyz = np.stack([table[name].to_numpy() for name in ("qw", "qx", "qy", "qz")], axis=1)
    return sp.pose(at, wxyz=wxyz)


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall time and the processor time of a call [s], including workers of Ray."""
    began, before = time.perf_counter(), time.process_time() + processor_time()
    call()
    wall = time.perf_counter() - began
    return wall, time.process_time() + processor_time() - before


def ratio(times: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> Any:
    """Return the median ratios of two variants' wall times and of their processor times."""
    return np.median(np.array(times) / np.array(other), axis=0)


def start_ray(workers: int) -> None:
    """Start a local Ray cluster in the same way as a job that is given no cluster address."""
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )


# ---- overhead ------------------------------------------------------------------------------------


def overhead(source: Path, place: Path, rounds: int) -> list[str]:
    """Compare one call with all poses in memory, the job in this process, and the job on Ray."""
    import ray

    robot, T = sp.load(ROBOT), poses_in(source)
    stage = Solve(robot)
    start_ray(2)
    ways: dict[str, Callable[[], Any]] = {
        "one call of `Solver.batch`, poses in memory": lambda: sp.Solver(robot).batch(T),
        "`solve_parquet` in this process": lambda: job(stage, source, place, None),
        "`solve_parquet` on Ray, 2 workers": lambda: job(stage, source, place, RayOptions()),
    }
    warm_up(source, place, stage)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            times[name].append(timed(call))
    ray.shutdown()
    first = next(iter(times.values()))
    rows = ["| way | wall [s] | poses per second | wall, relative | processor time, relative |"]
    rows += ["|---|---:|---:|---:|---:|"]
    for name, each in times.items():
        wall = statistics.median(seconds for seconds, _ in each)
        relative = ratio(each, first)
        rows.append(
            f"| {name} | {wall:.2f} | {len(T) / wall:,.0f} | {relative[0]:.3f} | "
            f"{relative[1]:.3f} |"
        )
    size = sum(path.stat().st_size for path in (place / "out").glob("part-*")) / len(T)
    note = (
        f"Medians of {rounds} rounds, in which the three ways take turns. On the disk a result has "
        f"{size:.1f} bytes."
    )
    return [*rows, "", note, ""]


def job(stage: Solve, source: Path, place: Path, ray: RayOptions | None) -> None:
    """Solve the targets and write the results to a new folder."""
    shutil.rmtree(place / "out", ignore_errors=True)
    solve_parquet(stage, source, place / "out", ray=ray)


# ---- workers -------------------------------------------------------------------------------------


def workers(source: Path, place: Path, rounds: int) -> list[str]:
    """Measure the same job on clusters of one and of two workers, each on one core."""
    import ray

    times: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    stage = Solve(sp.load(ROBOT))
    for _ in range(rounds):
        for count, each in times.items():
            start_ray(count)
            warm_up(source, place, stage)
            each.append(timed(lambda: job(stage, source, place, RayOptions())))
            ray.shutdown()
    one, two = (np.median(each, axis=0) for each in times.values())
    factor, used = ratio(times[1], times[2])
    return [
        "## Workers",
        "",
        f"One worker: {one[0]:.2f} s, two: {two[0]:.2f} s, a factor of {factor:.2f}. Processor "
        f"time: {one[1]:.2f} s and {two[1]:.2f} s, so that two free cores would give a factor of "
        f"{2 * used:.2f}. Medians of {rounds} rounds, in which the two take turns.",
        "",
    ]


def warm_up(source: Path, place: Path, stage: Solve) -> None:
    """Let the workers import supple and compile the solver, as they do once in a job."""
    small = place / "small.parquet"
    first = next(iter(sorted(source.iterdir())))
    parquet.write_table(parquet.read_table(first).slice(0, 20_000), small)
    shutil.rmtree(place / "warm", ignore_errors=True)
    solve_parquet(stage, small, place / "warm", part_rows=1000, ray=RayOptions())
    time.sleep(SETTLE)


def processor_time() -> float:
    """Return the processor time of all workers of Ray on this machine [s]."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes().startswith(b"ray::"):
                ticks += sum(
                    map(int, (place / "stat").read_text().rpartition(")")[2].split()[11:13])
                )
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


# ---- memory --------------------------------------------------------------------------------------

PEAK = """
import sys, supple as sp
from supple.cluster import Solve, solve_parquet
solve_parquet(Solve(sp.load("ur5e")), sys.argv[1], sys.argv[2])
print(next(l.split()[1] for l in open("/proc/self/status") if l.startswith("VmHWM")))
"""


def memory(place: Path, poses: int) -> list[str]:
    """Measure the peak memory of processes that solve a tenth, a third or all of the poses."""
    rows = ["## Memory", "", "| poses | peak of the process [MB] |", "|---:|---:|"]
    for count in (poses // 10, poses // 3, poses):
        source = targets(place / f"targets{count}", count)
        command = [sys.executable, "-c", PEAK, str(source), str(place / f"out{count}")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(f"| {count:,} | {int(done.stdout) / 1000:.0f} |")
        shutil.rmtree(place / f"out{count}")
        shutil.rmtree(source)
    return [*rows, ""]


# ---- simulated nodes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Sleeping:
    """A job whose parts sleep for a given time, and then write as many bytes as real results."""

    count: int
    seconds: float
    rows: int

    kind, at_once = "sleep", 1

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that determine the results of all parts, as plain values by name."""
        return {"seconds": self.seconds, "rows": self.rows}

    @property
    def sizes(self) -> Sequence[int]:
        """The number of rows of each part."""
        return [self.rows] * self.count

    def compute(self, index: int, threads: int | None = None) -> tuple[Any, Mapping[str, int]]:
        """Sleep, and return random results."""
        time.sleep(self.seconds)
        random = np.random.default_rng(index)
        return pa.table({f"q:{j}": random.random(self.rows) for j in range(6)}), {}


def simulated(place: Path, nodes: int) -> list[str]:
    """Measure clusters whose nodes are processes of this machine, with parts that only sleep."""
    import ray
    from ray.cluster_utils import Cluster

    rows = ["## Simulated nodes", ""]
    rows += [
        f"Nodes of one worker, as processes of this machine. A part sleeps {SLEEP:g} s and writes "
        f"1000 rows; each node gets {PER_NODE} of them on average, so that {PER_NODE * SLEEP:g} s "
        "would be perfect. Any further time is due to the driver and to the shared cores of this "
        "machine.",
        "",
        "| nodes | parts | wall [s] | perfect [s] | driver's processor time per part [ms] |",
        "|---:|---:|---:|---:|---:|",
    ]
    for count in sorted({max(1, nodes // 4), max(1, nodes // 2), nodes}):
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(count):
            cluster.add_node(num_cpus=1, wait=False, object_store_memory=80_000_000)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        for name, each in (("warm", 0.01), ("out", SLEEP)):
            parts = Sleeping(PER_NODE * count, each, 1000)
            shutil.rmtree(place / name, ignore_errors=True)
            before = time.process_time()
            wall, _ = timed(partial(run, parts, place / name, ray=RayOptions()))
            used = time.process_time() - before
        rows.append(
            f"| {count} | {PER_NODE * count} | {wall:.2f} | {PER_NODE * SLEEP:.2f} | "
            f"{1e3 * used / (PER_NODE * count):.2f} |"
        )
        ray.shutdown()
        cluster.shutdown()
    return [*rows, ""]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--poses", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=16)
    given = parser.parse_args()
    main(given.poses, given.rounds, given.nodes)
