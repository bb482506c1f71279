"""Run a job: in this process, or on a Ray cluster."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from supple.cluster.on_ray import RayOptions, parts_on_ray
from supple.cluster.parts import Job, Summary, claimed, compute_part, finish, job_id
from supple.errors import InputError

Progress: TypeAlias = Callable[[int, int], object]


def check_gpus(device: str | None, ray: RayOptions | None) -> None:
    """Raise an error if a job on Ray uses a GPU but its workers have no GPU."""
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
    """Compute the parts of a job that are missing in its folder, and return the summary of all.

    Args:
        job: The job.
        folder: A new folder, or the folder of the same job to continue it.
        ray: The Ray cluster to run on; None to run in this process.
        progress: Function called repeatedly with the finished and the total amount of work (see
            `Job.sizes`).

    Raises:
        InputError: The folder contains another job.
        OSError: The folder cannot be written; parts that were already written are kept.
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
            each = parts_on_ray(job, place, missing, ray)
        for index, part in each:
            parts[index] = part
            done += job.sizes[index]
            if progress is not None:
                progress(done, total)
        made = finish(place, job, parts)
    return replace(made, resumed=resumed, seconds=time.perf_counter() - began)


def _in_process(job: Job, folder: Path, missing: Sequence[int]) -> Iterator[tuple[int, Summary]]:
    """Compute parts in this process, and yield the index and the summary of each.

    Several parts are computed at a time, because reading and writing one part overlaps with
    solving another.
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
