"""Run a job: in this process, or on a Ray cluster."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from supple.cluster.parts import Job, Summary, claimed, commit, finish, job_id
from supple.errors import InputError

Progress: TypeAlias = Callable[[int, int], object]


@dataclass(frozen=True)
class RayOptions:
    """Where and how a job runs on Ray.

    Attributes:
        address: Address of a cluster, such as "auto" or "ray://head:10001"; a local one is started
            if None.
        cpus: Number of CPUs of a worker, and of its threads.
        gpus: Number, or share, of GPUs of a worker.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0


def check_gpus(device: str | None, ray: RayOptions | None) -> None:
    """Raise an error for workers on Ray that need a GPU and do not ask for one."""
    if ray is not None and device is not None and device != "cpu" and not ray.gpus:
        raise InputError(
            f"device={device!r} on Ray needs workers with a GPU: gpus (--gpus) above 0; given: 0"
        )


def run(
    job: Job,
    folder: str | os.PathLike[str],
    *,
    ray: RayOptions | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Compute the parts of a job that its folder lacks, and return what it then contains.

    Args:
        job: The job.
        folder: A new folder, or that of the same job.
        ray: A Ray cluster; None for this process.
        progress: Function that is called with the finished amount of work, and all of it.

    Raises:
        InputError: A folder of another job.
        OSError: A folder that cannot be written; the parts before are kept.
    """
    began, place = time.perf_counter(), Path(folder).resolve()
    with claimed(place, job) as parts:
        resumed = len(parts)
        missing = [index for index in range(len(job.sizes)) if index not in parts]
        done, total = sum(job.sizes[index] for index in parts), sum(job.sizes)
        if progress is not None:
            progress(done, total)
        if not missing:
            each: Iterator[tuple[int, Summary]] = iter(())
        elif ray is None:
            each = _in_process(job, place, missing)
        else:
            from supple.cluster.on_ray import parts_on_ray

            each = parts_on_ray(job, place, missing, ray)
        for index, part in each:
            parts[index] = part
            done += job.sizes[index]
            if progress is not None:
                progress(done, total)
        made = finish(place, job, parts)
    return replace(made, resumed=resumed, seconds=time.perf_counter() - began)


def _in_process(job: Job, folder: Path, missing: Sequence[int]) -> Iterator[tuple[int, Summary]]:
    """Compute parts in this process.

    Several at a time: what is not parallel in one, such as reading and writing, overlaps with
    another.
    """
    name, todo = job_id(job), deque(missing)
    running: dict[Future[Summary], int] = {}
    with ThreadPoolExecutor(job.at_once) as pool:
        try:
            while todo or running:
                while todo and len(running) < job.at_once:
                    index = todo.popleft()
                    running[pool.submit(compute_part, job, name, folder, index, None)] = index
                ready, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(ready, key=running.__getitem__):
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()


def compute_part(job: Job, name: str, folder: Path, index: int, threads: int | None) -> Summary:
    """Compute and commit one part; return what it contains."""
    table, counts = job.compute(index, threads)
    commit(folder, name, index, table, counts)
    return Summary(folder, table.num_rows, counts, 1)
